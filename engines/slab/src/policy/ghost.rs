//! Ghosts: which keys were evicted lately.
//!
//! A table of buckets, each a cache line, of fingerprints with the time of the eviction, counted in evictions (S3-FIFO, section 4.2, keeps
//! its ghost in the like). An entry is forgotten when as many keys as the ghost may remember were evicted since, or, seldom, when
//! its bucket needs its place. So there is no queue, and an entry takes 4 bytes, and 6 to 7 with the places that are kept free; up to 15 after the class has become smaller.

const WAYS: usize = 16;
/// How many entries a bucket is meant to have, at the most.
const LOAD: u64 = 11;
/// A table has room for this part more than its entries: a class grows a little now and then.
const SPARE: u64 = 5;
/// Time is counted in evictions, enough of them together that the ghost's entries span about this many units.
const SPAN: u64 = 256;

/// A fingerprint of 16 bits, never 0, how often the key came back in 2, and the time in 14; an entry that is 0 is none.
type Entry = u32;

/// The bits of the time.
const TIME_BITS: u32 = 14;
const TIME_MASK: u32 = (1 << TIME_BITS) - 1;
/// The most that is counted of how often a key came back.
pub(super) const GHOST_HITS_MAX: u32 = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct Ghost {
    buckets: Vec<[Entry; WAYS]>,
    entries: u64,
    /// Keys remembered since the table was made.
    evicted: u64,
}

impl Ghost {
    /// Remembers a key, and of those before it the last `entries - 1`.
    pub(super) fn remember(&mut self, hash: u32, entries: u64) {
        self.resize(entries);
        if self.entries == 0 {
            return;
        }
        self.evicted += 1;
        let now = self.now();
        let (bucket, fingerprint) = self.place(hash);
        let first = |entry: &&mut Entry| match **entry {
            // A key that came back keeps its count.
            entry if entry >> 16 == fingerprint => u32::MAX,
            0 => TIME_MASK + 1,
            entry => age(now, entry),
        };
        if let Some(entry) = self.buckets[bucket].iter_mut().max_by_key(first) {
            let hits = if *entry >> 16 == fingerprint { hits(*entry) } else { 0 };
            *entry = fingerprint << 16 | hits << TIME_BITS | now;
        }
    }

    /// Whether a key is remembered that came back `wanted` times before. It is forgotten now; otherwise this
    /// time is counted when the key is remembered again.
    pub(super) fn recall(&mut self, hash: u32, wanted: u32) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        let (now, span) = (self.now(), self.entries / self.unit());
        let (bucket, fingerprint) = self.place(hash);
        let found = self.buckets[bucket]
            .iter_mut()
            .find(|entry| **entry >> 16 == fingerprint && u64::from(age(now, **entry)) < span);
        let Some(entry) = found else { return false };
        let is_enough = hits(*entry) >= wanted;
        // Until the key is evicted again, the entry is one that has aged: stores over the item do not count.
        let aged = now.wrapping_sub(span as u32) & TIME_MASK;
        let counted = (hits(*entry) + 1).min(GHOST_HITS_MAX);
        *entry = if is_enough { 0 } else { fingerprint << 16 | counted << TIME_BITS | aged };
        is_enough
    }

    pub(super) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<[Entry; WAYS]>()
    }

    /// Makes a new table if the old one is much too small or too large. What it remembers is lost, which matters little: a class grows
    /// before it evicts.
    fn resize(&mut self, entries: u64) {
        let (buckets, wanted) = (self.buckets.len() as u64, (entries + entries / SPARE).div_ceil(LOAD));
        let fits = buckets * LOAD;
        if entries > fits || entries * 2 < fits && wanted < buckets {
            *self = Ghost { buckets: vec![[0; WAYS]; wanted as usize], entries, evicted: 0 };
        }
        self.entries = entries;
    }

    /// Evictions that are one unit of time.
    fn unit(&self) -> u64 {
        // It depends on the table alone, so that times remain what they were when `entries` changes.
        (self.buckets.len() as u64 * LOAD / SPAN).max(1)
    }

    fn now(&self) -> u32 {
        (self.evicted / self.unit()) as u32 & TIME_MASK
    }

    /// Bucket and fingerprint. They are of different bits of the hash, of which all are good.
    fn place(&self, hash: u32) -> (usize, u32) {
        let mixed = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bucket = (((mixed >> 32) * self.buckets.len() as u64) >> 32) as usize;
        (bucket, ((mixed >> 16) as u32 & 0xffff).max(1))
    }
}

fn hits(entry: Entry) -> u32 {
    entry >> TIME_BITS & GHOST_HITS_MAX
}

/// How long ago an entry was made.
fn age(now: u32, entry: Entry) -> u32 {
    now.wrapping_sub(entry) & TIME_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: u32) -> u32 {
        let mixed = u64::from(key + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32 ^ mixed as u32
    }

    #[test]
    fn a_key_is_recalled_once_and_only_if_few_went_after_it() {
        let mut ghost = Ghost::default();
        assert!(!ghost.recall(hash(1), 0) && ghost.bytes() == 0);
        (1..=8).for_each(|key| ghost.remember(hash(key), 4));
        let recalled: Vec<u32> = (1..=9).filter(|key| ghost.recall(hash(*key), 0)).collect();
        assert_eq!(recalled, [5, 6, 7, 8]);
        assert!((1..=9).all(|key| !ghost.recall(hash(key), 0)));
        ghost.remember(hash(1), 0);
        assert!(!ghost.recall(hash(1), 0), "a ghost of nothing");
    }

    #[test]
    fn a_key_is_recalled_after_it_came_back_as_often_as_is_wanted() {
        let mut ghost = Ghost::default();
        ghost.remember(hash(1), 4);
        assert!(!ghost.recall(hash(1), 2) && !ghost.recall(hash(2), 2));
        // It is evicted again, with others.
        [2, 1, 3].into_iter().for_each(|key| ghost.remember(hash(key), 4));
        assert!(!ghost.recall(hash(1), 2) && !ghost.recall(hash(1), 0), "it was not evicted since");
        ghost.remember(hash(1), 4);
        assert!(ghost.recall(hash(1), 2));
        assert!(!ghost.recall(hash(1), 0), "it is forgotten");
        (0..4).for_each(|_| {
            ghost.remember(hash(4), 4);
            assert!(!ghost.recall(hash(4), 9), "more than is counted");
        });
    }

    #[test]
    fn of_many_keys_nearly_all_are_remembered_for_as_long_as_they_should_be() {
        for entries in [100, 5_000, 90_000] {
            let mut ghost = Ghost::default();
            (0..3 * entries).for_each(|key| ghost.remember(hash(key), u64::from(entries)));
            let mut recalled =
                |keys: std::ops::Range<u32>| keys.filter(|key| ghost.recall(hash(*key), 0)).count() as u32;
            let (old, new) = (recalled(0..2 * entries - entries / 50), recalled(2 * entries..3 * entries));
            assert!(old <= entries / 100 && new >= entries - entries / 10, "{old} and {new} of {entries}");
            assert!(ghost.bytes() <= 64 + 7 * entries as usize, "{}", ghost.bytes());
        }
    }

    #[test]
    fn the_table_follows_the_number_of_entries() {
        let mut ghost = Ghost::default();
        ghost.remember(hash(1), 100_000);
        let large = ghost.bytes();
        ghost.remember(hash(2), 61_000);
        assert!(ghost.recall(hash(1), 0) && ghost.bytes() == large);
        ghost.remember(hash(3), 100);
        assert!(ghost.recall(hash(3), 0) && ghost.bytes() < large / 100);
    }
}
