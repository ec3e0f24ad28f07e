//! The CLOCK of the engine `fleec`: a value for each bucket of the table instead of one for each item (Costa, Preguiça and
//! Lourenço, "FLeeC: a fast lock-free application cache", "Design").
//!
//! The rule is the engine's own, and so is the way in which buckets are divided, one at a time, when there are more items than
//! buckets. Only the items are numbers here.

use guira_fleec::bucket_clock::{PATIENCE, bucket_of, faded, has_lodgers, is_crowded, parent_of, touched};
use guira_workload::rng::mix64;

use super::list::NONE;
use super::{Id, Policy, Room};

/// Buckets of an empty table.
const FIRST: usize = 2;

/// Buckets with a CLOCK value each.
#[derive(Debug)]
pub struct BucketClock {
    room: Room,
    held: Vec<bool>,
    was_read: Vec<bool>,
    /// The next item of the same bucket.
    next: Vec<Id>,
    /// The first item of each bucket.
    heads: Vec<Id>,
    values: Vec<u8>,
    /// The bucket that the hand comes to next.
    hand: usize,
    items: usize,
    /// The highest value, and what a new item raises that of its bucket to.
    max: u8,
    new: u8,
}

impl BucketClock {
    /// Values of `bits` bits, 1 to 8; a new item raises that of its bucket to `new`.
    pub fn new(limit: u64, keys: usize, bits: u32, new: u8) -> Self {
        let max = u8::MAX >> (8 - bits);
        Self {
            room: Room::new(limit),
            held: vec![false; keys],
            was_read: vec![false; keys],
            next: vec![NONE; keys],
            heads: vec![NONE; FIRST],
            values: vec![0; FIRST],
            hand: 0,
            items: 0,
            max,
            new: new.min(max),
        }
    }

    #[inline]
    fn bucket(&self, id: Id) -> usize {
        bucket_of(mix64(u64::from(id)), self.heads.len() as u64) as usize
    }

    /// Adds a bucket, which gets a part of the items of the one that it divides, and its value.
    fn divide(&mut self) {
        let bucket = self.heads.len();
        let parent = parent_of(bucket as u64) as usize;
        self.heads.push(NONE);
        self.values.push(self.values[parent]);
        let mut id = std::mem::replace(&mut self.heads[parent], NONE);
        while id != NONE {
            let after = self.next[id as usize];
            self.put(id);
            id = after;
        }
    }

    fn put(&mut self, id: Id) {
        let bucket = self.bucket(id);
        self.next[id as usize] = std::mem::replace(&mut self.heads[bucket], id);
    }

    /// Turns the hand until something was evicted.
    fn sweep(&mut self) {
        for looked in 0.. {
            let bucket = self.hand;
            self.hand = (bucket + 1) % self.heads.len();
            let value = faded(self.values[bucket]);
            self.values[bucket] = value.unwrap_or(0);
            if (value.is_none() || looked >= PATIENCE) && self.heads[bucket] != NONE {
                self.empty(bucket);
                return;
            }
            if value.is_some_and(has_lodgers) && self.evict_unread(bucket) {
                return;
            }
        }
    }

    /// Evicts what was never read of a bucket. True if there was anything.
    fn evict_unread(&mut self, bucket: usize) -> bool {
        let before = self.items;
        let mut id = std::mem::replace(&mut self.heads[bucket], NONE);
        while id != NONE {
            let after = self.next[id as usize];
            if self.was_read[id as usize] {
                self.put(id);
            } else {
                self.forget(id);
            }
            id = after;
        }
        self.items < before
    }

    fn empty(&mut self, bucket: usize) {
        let mut id = std::mem::replace(&mut self.heads[bucket], NONE);
        while id != NONE {
            self.forget(id);
            id = self.next[id as usize];
        }
    }

    fn forget(&mut self, id: Id) {
        self.held[id as usize] = false;
        self.room.give_back(id);
        self.items -= 1;
    }
}

impl Policy for BucketClock {
    #[inline]
    fn read(&mut self, id: Id) -> bool {
        if !self.held[id as usize] {
            return false;
        }
        self.was_read[id as usize] = true;
        let bucket = self.bucket(id);
        if let Some(value) = touched(self.values[bucket], self.max) {
            self.values[bucket] = value;
        }
        true
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if !self.room.admits(weight) {
            return;
        }
        while !self.room.fits(weight) && self.items > 0 {
            self.sweep();
        }
        self.room.take(id, weight);
        self.held[id as usize] = true;
        self.was_read[id as usize] = false;
        self.items += 1;
        self.put(id);
        let bucket = self.bucket(id);
        self.values[bucket] = self.values[bucket].max(self.new);
        if is_crowded(self.items as u64, self.heads.len() as u64) {
            self.divide();
        }
    }

    fn remove(&mut self, id: Id) -> bool {
        if !self.held[id as usize] {
            return false;
        }
        let bucket = self.bucket(id);
        let after = self.next[id as usize];
        let mut before = self.heads[bucket];
        if before == id {
            self.heads[bucket] = after;
        } else {
            while self.next[before as usize] != id {
                before = self.next[before as usize];
            }
            self.next[before as usize] = after;
        }
        self.forget(id);
        true
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use super::BucketClock;
    use crate::policy::Policy;

    #[test]
    fn what_is_read_stays_and_the_rest_goes() {
        let mut clock = BucketClock::new(100, 1_000, 2, 1);
        for id in 0..1_000 {
            clock.insert(id, 1);
            // One in ten is read again and again.
            (0..id).step_by(100).for_each(|id| assert!(clock.read(id), "{id}"));
        }
        assert!((80..=100).contains(&clock.held()), "{}", clock.held());
    }

    #[test]
    fn the_room_is_kept_and_what_is_removed_is_gone() {
        let mut clock = BucketClock::new(50, 200, 1, 0);
        (0..200).for_each(|id| {
            clock.insert(id, 1 + id % 3);
            assert!(clock.held() <= 50);
        });
        let held: Vec<u32> = (0..200).filter(|id| clock.read(*id)).collect();
        let weight: u32 = held.iter().map(|id| 1 + id % 3).sum();
        assert_eq!(u64::from(weight), clock.held());
        for id in &held {
            assert!(clock.remove(*id));
            assert!(!clock.read(*id) && !clock.remove(*id));
        }
        assert_eq!((clock.held(), clock.items), (0, 0));
        assert!(held.len() > 20 && clock.heads.iter().all(|head| *head == super::NONE));
    }
}
