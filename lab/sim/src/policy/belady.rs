//! Belady's optimum: what is asked for again the latest goes (Belady, "A study of replacement algorithms for a
//! virtual-storage computer", IBM Systems Journal 5(2), 1966; proved optimal by Mattson and others, 1970).
//!
//! A new key whose next read is the latest of all is not stored at all, so the hit ratio is a bound for policies with
//! admission too. It does not know of expiry: what will have expired by its next read is waited for. With a room in bytes the same rule is only a good guess: the true optimum is hard to compute.

use guira_workload::trace::Action;

use super::{Id, Policy, Room};

/// No position: not held, or never read again.
const NEVER: u32 = u32::MAX;

/// What is held, by the numbers of the requests that will read it next.
#[derive(Debug)]
pub(crate) struct Belady<'a> {
    room: Room,
    /// For each request, the one that reads its key next while the object is still the same.
    next_reads: &'a [u32],
    /// The request that will read each held key next.
    position: Vec<u32>,
    positions: Positions,
    ids: &'a [Id],
    now: usize,
}

impl<'a> Belady<'a> {
    pub(crate) fn new(limit: u64, keys: usize, ids: &'a [Id], next_reads: &'a [u32]) -> Self {
        Self {
            room: Room::new(limit),
            positions: Positions::new(next_reads.len()),
            next_reads,
            position: vec![NEVER; keys],
            ids,
            now: 0,
        }
    }

    fn note(&mut self, id: Id, position: u32) {
        self.position[id as usize] = position;
        self.positions.add(position);
    }
}

impl Policy for Belady<'_> {
    #[inline]
    fn begin(&mut self, number: usize) {
        self.now = number;
    }

    #[inline]
    fn read(&mut self, id: Id) -> bool {
        let position = self.position[id as usize];
        if position == NEVER {
            return false;
        }
        let next = self.next_reads[self.now];
        self.positions.remove(position);
        self.position[id as usize] = NEVER;
        if next == NEVER {
            self.room.give_back(id);
        } else {
            self.note(id, next);
        }
        true
    }

    fn insert(&mut self, id: Id, weight: u32) {
        let next = self.next_reads[self.now];
        if next == NEVER || !self.room.admits(weight) {
            return;
        }
        while !self.room.fits(weight) {
            match self.positions.last() {
                Some(latest) if latest > next => {
                    self.remove(self.ids[latest as usize]);
                }
                _ => return,
            }
        }
        self.room.take(id, weight);
        self.note(id, next);
    }

    fn remove(&mut self, id: Id) -> bool {
        let position = std::mem::replace(&mut self.position[id as usize], NEVER);
        if position != NEVER {
            self.positions.remove(position);
            self.room.give_back(id);
        }
        position != NEVER
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

/// For each request, the number of the one that reads the same key next; [`NEVER`] if there is none, or one before it
/// stores or deletes the key: what is held until then is of no use. `action` tells what a request does.
pub(crate) fn next_reads(ids: &[Id], keys: usize, action: impl Fn(usize) -> Action) -> Vec<u32> {
    let mut later = vec![NEVER; keys];
    let mut next = vec![NEVER; ids.len()];
    for (number, &id) in ids.iter().enumerate().rev() {
        let then = match action(number) {
            Action::Get => number as u32,
            Action::Set | Action::Delete => NEVER,
            Action::LoneGet | Action::LoneDelete => continue,
        };
        next[number] = std::mem::replace(&mut later[id as usize], then);
    }
    next
}

/// A set of numbers below a bound: a bit for each, and above every 64 words a word that tells which are not empty.
#[derive(Debug)]
struct Positions {
    levels: Vec<Vec<u64>>,
}

impl Positions {
    fn new(bound: usize) -> Self {
        let mut levels = vec![vec![0; bound.div_ceil(64).max(1)]];
        while let Some(len) = levels.last().map(Vec::len).filter(|&len| len > 1) {
            levels.push(vec![0; len.div_ceil(64)]);
        }
        Self { levels }
    }

    fn add(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    fn remove(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                return;
            }
            at /= 64;
        }
    }

    fn last(&self) -> Option<u32> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            at = at * 64 + level[at].checked_ilog2()? as usize;
        }
        Some(at as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use guira_workload::Rng;
    use guira_workload::trace::Action;

    use super::{Belady, Positions, next_reads};
    use crate::testing::hits;

    fn belady(limit: u64, ids: &[u32]) -> u32 {
        let next = next_reads(ids, 8, |_| Action::Get);
        hits(Belady::new(limit, 8, ids, &next), ids).iter().map(|&hit| u32::from(hit)).sum()
    }

    /// The most hits that any choice leads to: for every set of keys that could be held, the best so far.
    fn best(limit: u32, ids: &[u32]) -> u32 {
        let mut best: HashMap<u8, u32> = HashMap::from([(0, 0)]);
        for &id in ids {
            let mut after: HashMap<u8, u32> = HashMap::new();
            for (held, hits) in best {
                let with = held | 1 << id;
                let is_hit = u32::from(with == held);
                // Every subset of what was held and the new key; keeping less is never better but does no harm.
                for kept in (0..=with).filter(|kept| kept & !with == 0 && kept.count_ones() <= limit) {
                    let entry = after.entry(kept).or_insert(0);
                    *entry = (*entry).max(hits + is_hit);
                }
            }
            best = after;
        }
        best.into_values().max().unwrap_or(0)
    }

    #[test]
    fn the_textbook_sequence() {
        // 20 requests in three frames: nine faults where every page has to be stored, eight where 4 need not be.
        let ids = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
        assert_eq!(belady(3, &ids), 12);
    }

    #[test]
    fn nothing_does_better() {
        let mut rng = Rng::new(1966);
        for _ in 0..200 {
            let ids: Vec<u32> = (0..14).map(|_| rng.below(6) as u32).collect();
            for limit in 1..4 {
                assert_eq!(belady(limit.into(), &ids), best(limit, &ids), "{limit} of {ids:?}");
            }
        }
    }

    #[test]
    fn what_is_replaced_or_deleted_before_its_next_read_is_not_waited_for() {
        assert_eq!(
            next_reads(&[0, 0, 0], 1, |number| if number == 1 { Action::Set } else { Action::Get }),
            [u32::MAX, 2, u32::MAX]
        );
    }

    #[test]
    fn the_last_of_many_positions() {
        let mut positions = Positions::new(300_000);
        assert_eq!(positions.last(), None);
        for number in [5, 299_999, 64, 4096] {
            positions.add(number);
        }
        let mut drained = Vec::new();
        while let Some(last) = positions.last() {
            drained.push(last);
            positions.remove(last);
        }
        assert_eq!(drained, [299_999, 4096, 64, 5]);
    }
}
