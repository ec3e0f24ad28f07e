//! The keys that weigh most, in bounded memory: Space-Saving (Metwally and others, "Efficient computation of frequent and top-k
//! elements in data streams", ICDT 2005), with many counters replaced at once, which needs no order among them (Anderson and others,
//! "A high-performance algorithm for identifying frequent items in data streams", IMC 2017).
//!
//! A key that has no counter weighs at most [`Summary::floor`]: a new counter begins there, and that is how much it may be too high.
//! When all counters are in use the lower half goes, and the floor rises to the highest of these. With `n` counters and a total weight `w` it is
//! at most `2 w / n`.

use super::text::Texts;

#[derive(Clone, Copy, Debug)]
struct Counter {
    hash: u64,
    /// At least what the key weighs.
    count: u64,
    /// By how much that may be too high.
    error: u64,
}

/// The known state of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    pub(crate) key: Box<[u8]>,
    /// At least what it weighs.
    pub(crate) count: u64,
    /// By how much that may be too high.
    pub(crate) error: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Summary {
    counters: Vec<Counter>,
    texts: Texts,
    /// A hash table with linear probing: number of a counter and 1; 0 for none.
    places: Vec<u16>,
    most: usize,
    floor: u64,
}

impl Summary {
    /// Counters for `most` keys of at most `longest` bytes.
    pub(crate) fn new(most: usize, longest: usize) -> Self {
        Summary {
            counters: Vec::with_capacity(most),
            texts: Texts::new(most, longest),
            places: vec![0; places(most)],
            most,
            floor: 0,
        }
    }

    /// Bytes that it takes.
    pub(crate) const fn bytes(most: usize, longest: usize) -> usize {
        most * (size_of::<Counter>() + Texts::bytes_each(longest)) + places(most) * size_of::<u16>()
    }

    /// The place of the key's counter, or the vacant one where it would be.
    #[inline]
    fn place(&self, key: &[u8], hash: u64) -> usize {
        let mask = self.places.len() - 1;
        // Not the bits by which a client of mica can see to it that all are alike; if they are, it is a short list that is searched.
        let mut at = (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match self.places[at] {
                0 => return at,
                number => {
                    let number = usize::from(number) - 1;
                    if self.counters[number].hash == hash && self.texts.get(number) == key {
                        return at;
                    }
                }
            }
            at = (at + 1) & mask;
        }
    }

    /// `key` weighs so much more.
    pub(crate) fn add(&mut self, key: &[u8], hash: u64, weight: u64) {
        let mut at = self.place(key, hash);
        if self.places[at] == 0 {
            if self.counters.len() == self.most {
                self.make_room();
                at = self.place(key, hash);
            }
            self.put(at, key, Counter { hash, count: self.floor, error: self.floor });
        }
        let counter = &mut self.counters[usize::from(self.places[at]) - 1];
        counter.count = counter.count.saturating_add(weight);
    }

    fn put(&mut self, at: usize, key: &[u8], counter: Counter) {
        self.texts.set(self.counters.len(), key);
        self.counters.push(counter);
        self.places[at] = self.counters.len() as u16;
    }

    /// Drops the lower half of the counters.
    #[cold]
    fn make_room(&mut self) {
        let mut counts: Vec<u64> = self.counters.iter().map(|counter| counter.count).collect();
        let middle = counts.len() / 2;
        let (_, floor, _) = counts.select_nth_unstable(middle);
        self.floor = *floor;
        let mut kept = 0;
        for number in 0..self.counters.len() {
            if self.counters[number].count > self.floor {
                self.counters[kept] = self.counters[number];
                self.texts.copy(number, kept);
                kept += 1;
            }
        }
        self.counters.truncate(kept);
        self.places.fill(0);
        for number in 0..kept {
            let at = self.place(self.texts.get(number), self.counters[number].hash);
            self.places[at] = number as u16 + 1;
        }
    }

    /// Adds what `other` knows: the weights of a key are added.
    pub(crate) fn merge(&mut self, other: &Summary) {
        let mut all: Vec<(Counter, &[u8])> = Vec::with_capacity(self.counters.len() + other.counters.len());
        for (number, counter) in self.counters.iter().enumerate() {
            let key = self.texts.get(number);
            all.push((counter.with(other.known(key, counter.hash)), key));
        }
        for (number, counter) in other.counters.iter().enumerate() {
            let key = other.texts.get(number);
            if self.places[self.place(key, counter.hash)] == 0 {
                all.push((counter.with((self.floor, self.floor)), key));
            }
        }
        let mut merged = Summary::new(self.most, self.texts.longest());
        merged.floor = self.floor.saturating_add(other.floor);
        if all.len() > self.most {
            let (_, first, rest) = all
                .select_nth_unstable_by_key(self.most - 1, |(counter, _)| std::cmp::Reverse(counter.count));
            debug_assert!(rest.iter().all(|(counter, _)| counter.count <= first.0.count));
            let dropped = rest.iter().map(|(counter, _)| counter.count).max().unwrap_or(0);
            merged.floor = merged.floor.max(dropped);
            all.truncate(self.most);
        }
        for (counter, key) in all {
            let at = merged.place(key, counter.hash);
            merged.put(at, key, counter);
        }
        *self = merged;
    }

    /// What a key weighs at least here, and by how much that may be too high.
    fn known(&self, key: &[u8], hash: u64) -> (u64, u64) {
        match self.places[self.place(key, hash)] {
            0 => (self.floor, self.floor),
            number => {
                let counter = &self.counters[usize::from(number) - 1];
                (counter.count, counter.error)
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.counters.clear();
        self.places.fill(0);
        self.floor = 0;
    }

    /// The `most` keys that weigh most, the heaviest first.
    pub(crate) fn top(&self, most: usize) -> Vec<Top> {
        let mut all: Vec<usize> = (0..self.counters.len()).collect();
        // Among equals that which is certain to weigh more.
        all.sort_by_key(|number| {
            let Counter { count, error, .. } = self.counters[*number];
            (std::cmp::Reverse(count), error)
        });
        all.truncate(most);
        let top = |number| {
            let Counter { count, error, .. } = self.counters[number];
            Top { key: self.texts.get(number).into(), count, error }
        };
        all.into_iter().map(top).collect()
    }
}

impl Counter {
    fn with(self, (count, error): (u64, u64)) -> Self {
        Counter { count: self.count.saturating_add(count), error: self.error.saturating_add(error), ..self }
    }
}

/// At most half of the places are taken.
const fn places(most: usize) -> usize {
    (2 * most).next_power_of_two()
}

#[cfg(test)]
#[path = "summary_tests.rs"]
pub(crate) mod tests;
