//! LIRS: what was read again soon stays; what was read once has to prove itself in a hundredth of the room
//! (Jiang and Zhang, "LIRS: an efficient low inter-reference recency set replacement policy to improve buffer cache
//! performance", SIGMETRICS 2002, section 3.2).
//!
//! The stack is not bounded, as in the paper's description: what was evicted is remembered until it is older than every
//! key of low recency.

use super::list::{Links, List};
use super::{Id, Policy, Room};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Of low inter-reference recency: held, and in the stack.
    Low,
    /// Of high recency: held, and in the queue.
    High,
    /// Of high recency, and not held.
    Gone,
}

/// The stack S and the queue Q.
#[derive(Debug)]
pub(crate) struct Lirs {
    room: Room,
    /// How much of the room keys of low recency may have.
    low_limit: u64,
    low: u64,
    states: Vec<State>,
    in_stack: Vec<bool>,
    stack_links: Links,
    stack: List,
    queue_links: Links,
    queue: List,
}

impl Lirs {
    /// Keeps `high_percent` of the room, at least one unit, for keys of high recency.
    pub(crate) fn new(limit: u64, keys: usize, high_percent: u64) -> Self {
        let high = (limit * high_percent / 100).max(1);
        Self {
            room: Room::new(limit),
            low_limit: limit.saturating_sub(high),
            low: 0,
            states: vec![State::Gone; keys],
            in_stack: vec![false; keys],
            stack_links: Links::new(keys),
            stack: List::EMPTY,
            queue_links: Links::new(keys),
            queue: List::EMPTY,
        }
    }

    /// Puts `id` on top of the stack, wherever in it it was.
    fn stack_up(&mut self, id: Id) {
        if std::mem::replace(&mut self.in_stack[id as usize], true) {
            self.stack_links.move_to_front(&mut self.stack, id);
        } else {
            self.stack_links.push_front(&mut self.stack, id);
        }
    }

    fn unstack(&mut self, id: Id) {
        if std::mem::take(&mut self.in_stack[id as usize]) {
            self.stack_links.unlink(&mut self.stack, id);
        }
    }

    /// Stack pruning: the key at the bottom has to be of low recency.
    fn prune(&mut self) {
        while let Some(bottom) = self.stack.back().filter(|&id| self.states[id as usize] != State::Low) {
            self.unstack(bottom);
        }
    }

    /// Makes `id` one of low recency, and turns those at the bottom of the stack into ones of high recency if there are
    /// too many then.
    fn promote(&mut self, id: Id) {
        self.states[id as usize] = State::Low;
        self.low += u64::from(self.room.weight(id));
        self.stack_up(id);
        while self.low > self.low_limit && self.demote_bottom() {}
    }

    fn demote_bottom(&mut self) -> bool {
        self.prune();
        let Some(bottom) = self.stack.back() else { return false };
        self.low -= u64::from(self.room.weight(bottom));
        self.states[bottom as usize] = State::High;
        self.queue_links.push_front(&mut self.queue, bottom);
        self.unstack(bottom);
        self.prune();
        true
    }

    /// Evicts the key that has been longest in the queue; false when nothing is held.
    fn evict(&mut self) -> bool {
        if self.queue == List::EMPTY && !self.demote_bottom() {
            return false;
        }
        let victim = self.queue_links.pop_back(&mut self.queue);
        victim
            .map(|id| {
                self.states[id as usize] = State::Gone;
                self.room.give_back(id);
            })
            .is_some()
    }
}

impl Policy for Lirs {
    #[inline]
    fn read(&mut self, id: Id) -> bool {
        match self.states[id as usize] {
            State::Gone => return false,
            State::Low => {
                self.stack_up(id);
                self.prune();
            }
            State::High if self.in_stack[id as usize] => {
                self.queue_links.unlink(&mut self.queue, id);
                self.promote(id);
            }
            State::High => {
                self.stack_up(id);
                self.queue_links.move_to_front(&mut self.queue, id);
            }
        }
        true
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if !self.room.admits(weight) {
            return;
        }
        while !self.room.fits(weight) && self.evict() {}
        self.room.take(id, weight);
        // Until there are enough keys of low recency, every key is one.
        let is_early = self.low + u64::from(weight) <= self.low_limit;
        if is_early || self.in_stack[id as usize] {
            self.promote(id);
        } else {
            self.states[id as usize] = State::High;
            self.stack_up(id);
            self.queue_links.push_front(&mut self.queue, id);
        }
        self.prune();
    }

    fn remove(&mut self, id: Id) -> bool {
        match self.states[id as usize] {
            State::Gone => return false,
            State::Low => self.low -= u64::from(self.room.weight(id)),
            State::High => self.queue_links.unlink(&mut self.queue, id),
        }
        self.states[id as usize] = State::Gone;
        self.unstack(id);
        self.room.give_back(id);
        self.prune();
        true
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use super::Lirs;
    use crate::policy::Policy;
    use crate::testing::hits;

    #[test]
    fn recency_is_learnt_from_the_stack() {
        // Two of low recency, one of high. 0 1 are low. 2: queue 2. 3: evicts 2, which stays in the stack. 2: evicts 3,
        // becomes low, and 0 at the bottom becomes high; stack 2 3 1. 0 hits; stack 0 2 3 1. 1 hits; stack 1 0 2. 3 was
        // pruned: it is new, evicts 0. 0 is in the stack: low, and 2 becomes high; 2 hits.
        let ids = [0, 1, 2, 3, 2, 0, 1, 3, 0, 2];
        assert_eq!(hits(Lirs::new(3, 4, 1), &ids), [0, 0, 0, 0, 0, 1, 1, 0, 0, 1]);
    }

    #[test]
    fn a_loop_that_does_not_fit_hits_for_what_is_held() {
        let ids: Vec<u32> = (0..100 * 20).map(|number| number % 100).collect();
        let hits = hits(Lirs::new(50, 100, 1), &ids);
        let later: u32 = hits[1000..].iter().map(|&hit| u32::from(hit)).sum();
        assert_eq!(later, 490, "49 of low recency hit in each round, the last place never does");
    }

    #[test]
    fn no_more_is_held_than_fits() {
        let mut lirs = Lirs::new(50, 200, 10);
        for number in 0..20_000_u32 {
            let id = number.wrapping_mul(2_654_435_761) >> 16 & 127;
            if !lirs.read(id) {
                lirs.insert(id, 1 + id % 9);
                assert!(lirs.read(id), "what was stored is held");
            }
            if number % 11 == 0 {
                lirs.remove(id);
            }
            assert!(lirs.held() <= 50 && lirs.low <= 45);
        }
    }
}
