//! The connections that have another turn, in order.

use std::collections::VecDeque;

/// When a connection's turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Before those that have much to do.
    Light,
    /// After those that have not.
    Heavy,
}

/// Connections, by their places, that have more to do. Each is in it once at most: the poller reports more input while its connection is
/// queued, and one that was queued anew each time would have more and more turns between two of anybody else.
#[derive(Debug, Default)]
pub struct Queue {
    light: VecDeque<usize>,
    heavy: VecDeque<usize>,
    queued: Vec<bool>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    pub fn len(&self, rank: Rank) -> usize {
        self.of(rank).len()
    }

    fn of(&self, rank: Rank) -> &VecDeque<usize> {
        match rank {
            Rank::Light => &self.light,
            Rank::Heavy => &self.heavy,
        }
    }

    /// Whether it has a turn anyway.
    pub fn has(&self, place: usize) -> bool {
        self.queued.get(place).is_some_and(|queued| *queued)
    }

    /// It has another turn, after those of its rank that wait for theirs.
    pub fn push(&mut self, place: usize, rank: Rank) {
        if self.queued.len() <= place {
            self.queued.resize(place + 1, false);
        }
        if !std::mem::replace(&mut self.queued[place], true) {
            match rank {
                Rank::Light => self.light.push_back(place),
                Rank::Heavy => self.heavy.push_back(place),
            }
        }
    }

    /// It has the next turn of those that have much to do.
    pub fn push_first(&mut self, place: usize) {
        if !self.has(place) {
            self.push(place, Rank::Heavy);
            self.heavy.rotate_right(1);
        }
    }

    pub fn pop(&mut self, rank: Rank) -> Option<usize> {
        let place = match rank {
            Rank::Light => self.light.pop_front(),
            Rank::Heavy => self.heavy.pop_front(),
        }?;
        self.queued[place] = false;
        Some(place)
    }

    /// Its place is free for another connection.
    pub fn forget(&mut self, place: usize) {
        if self.has(place) {
            self.queued[place] = false;
            self.light.retain(|queued| *queued != place);
            self.heavy.retain(|queued| *queued != place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_is_queued_twice() {
        let mut queue = Queue::default();
        for place in [3, 0, 3, 0, 3] {
            queue.push(place, Rank::Light);
            queue.push(place, Rank::Heavy);
        }
        assert!(queue.len(Rank::Light) == 2 && queue.len(Rank::Heavy) == 0 && queue.has(3) && !queue.has(7));
        let mut pop = || queue.pop(Rank::Light);
        assert_eq!((pop(), pop(), pop()), (Some(3), Some(0), None));
        assert!(queue.is_empty());
        queue.push(3, Rank::Heavy);
        assert!(!queue.is_empty());
        assert_eq!(queue.pop(Rank::Heavy), Some(3), "it may come back");
    }

    #[test]
    fn a_connection_that_goes_on_comes_before_the_others_of_its_rank() {
        let mut queue = Queue::default();
        queue.push(1, Rank::Heavy);
        queue.push(2, Rank::Heavy);
        queue.push_first(3);
        queue.push_first(2);
        queue.push(4, Rank::Light);
        queue.push_first(4);
        let mut pop = || queue.pop(Rank::Heavy);
        assert_eq!(
            (pop(), pop(), pop(), pop()),
            (Some(3), Some(1), Some(2), None),
            "they are queued already"
        );
        assert_eq!(queue.pop(Rank::Light), Some(4));
    }

    #[test]
    fn the_next_connection_in_a_place_inherits_no_turn() {
        let mut queue = Queue::default();
        for rank in [Rank::Light, Rank::Heavy] {
            queue.push(1, rank);
            queue.push(2, rank);
            queue.forget(1);
            queue.forget(5);
            queue.push(1, rank);
            let mut pop = || queue.pop(rank);
            assert_eq!((pop(), pop(), pop()), (Some(2), Some(1), None));
        }
    }
}
