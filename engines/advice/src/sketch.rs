//! Which keys were asked for in a window: the ones with the lowest hashes, of which there are enough to represent all (Bar-Yossef and
//! others, "Counting distinct elements in a data stream", RANDOM 2002).

use std::collections::BTreeMap;

/// The number of hashes: 2^64.
pub(crate) const ALL_HASHES: f64 = 18_446_744_073_709_551_616.0;

/// Keys that are remembered of a window.
pub(crate) const KEYS: usize = 1024;

/// About what a sketch takes of memory, in bytes.
pub(crate) const SKETCH_BYTES: usize = KEYS * 64;

/// A key that was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    /// What its items took of memory: the least, the most, and on average; 0 if none was ever there.
    least: u32,
    most: u32,
    mean: f32,
    /// Items that the average is of, up to a number from which on one more hardly counts.
    items: u8,
    /// Whether it was asked for in the window before as well.
    pub(crate) again: bool,
    /// When it was last asked for: that of others, as long as there are too many families, may have become one of its own.
    pub(crate) family: u16,
}

impl Asked {
    fn new(family: u16, again: bool) -> Self {
        Asked { least: 0, most: 0, mean: 0.0, items: 0, again, family }
    }

    /// An item of so many bytes was there, or was stored; 0 if there was none.
    fn note(&mut self, weight: u32) {
        if weight > 0 {
            let item = Asked { least: weight, most: weight, mean: weight as f32, items: 1, ..*self };
            self.merge(&item);
        }
    }

    /// Adds what is known of the same key from a later time.
    pub(crate) fn merge(&mut self, other: &Asked) {
        self.family = other.family;
        if other.items == 0 {
            return;
        }
        let (items, more) = (f32::from(self.items), f32::from(other.items));
        self.least = if self.items == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.mean += (other.mean - self.mean) * more / (items + more);
        self.items = self.items.saturating_add(other.items);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    lowest: BTreeMap<u64, Asked>,
    /// All keys with hashes below are here.
    below: u64,
    /// For these hashes it is known whether they were asked for in the window before.
    known_below: u64,
}

/// What a sketch knows of all keys, or of those of a family.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Extent {
    pub(crate) keys: f64,
    /// How many of them are remembered.
    pub(crate) sampled: u64,
    /// What they take of memory: each with the smallest item that it had, on average, and with the largest.
    pub(crate) least_bytes: f64,
    pub(crate) mean_bytes: f64,
    pub(crate) bytes: f64,
    /// The share of the keys that were not asked for in the window before; `None` if there was none.
    pub(crate) churn: Option<f64>,
}

impl Sketch {
    /// A sketch of hashes below `threshold`, after a window of which `before` is the sketch.
    pub(crate) fn new(threshold: u64, before: Option<&Sketch>) -> Self {
        Sketch {
            lowest: BTreeMap::new(),
            below: threshold,
            known_below: before.map_or(0, |before| before.below),
        }
    }

    /// Hashes from `threshold` on are not sampled any more.
    pub(crate) fn lower(&mut self, threshold: u64) {
        if threshold < self.below {
            self.below = threshold;
            drop(self.lowest.split_off(&threshold));
        }
    }

    /// A key was asked for, or stored; it takes so much of memory, as far as that is known.
    pub(crate) fn see(&mut self, hash: u64, weight: u32, family: u16, before: Option<&Sketch>) {
        if hash >= self.below {
            return;
        }
        let again = before.is_some_and(|before| before.lowest.contains_key(&hash));
        let asked = self.lowest.entry(hash).or_insert(Asked::new(family, again));
        asked.family = family;
        asked.note(weight);
        if self.lowest.len() > KEYS
            && let Some((highest, _)) = self.lowest.pop_last()
        {
            self.below = highest;
        }
    }

    /// What is known of all keys, or of those of a family.
    pub(crate) fn extent(&self, family: Option<u16>) -> Extent {
        Extent::of(self.keys(), (self.below, self.known_below), family)
    }

    /// The keys, by hash.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (u64, &Asked)> + Clone {
        self.lowest.iter().map(|(hash, asked)| (*hash, asked))
    }

    pub(crate) fn below(&self) -> u64 {
        self.below
    }

    /// Keys of family `from` are of family `to`.
    pub(crate) fn rename(&mut self, from: u16, to: u16) {
        self.lowest.values_mut().filter(|asked| asked.family == from).for_each(|asked| asked.family = to);
    }
}

impl Extent {
    /// What follows from these keys, which are all with hashes below the first number; for those below the second it is known whether they were
    /// asked for in the window before.
    pub(crate) fn of<'a>(
        keys: impl Iterator<Item = (u64, &'a Asked)> + Clone,
        (below, known_below): (u64, u64),
        family: Option<u16>,
    ) -> Self {
        if below == 0 {
            return Extent::default();
        }
        let scale = ALL_HASHES / below as f64;
        let chosen = keys.filter(|(_, asked)| family.is_none_or(|family| asked.family == family));
        let mut extent = Extent::default();
        let (mut known, mut new) = (0_u64, 0_u64);
        for (hash, asked) in chosen {
            extent.sampled += 1;
            extent.least_bytes += f64::from(asked.least);
            extent.mean_bytes += f64::from(asked.mean);
            extent.bytes += f64::from(asked.most);
            if hash < known_below {
                known += 1;
                new += u64::from(!asked.again);
            }
        }
        extent.keys = extent.sampled as f64 * scale;
        for bytes in [&mut extent.least_bytes, &mut extent.mean_bytes, &mut extent.bytes] {
            *bytes *= scale;
        }
        extent.churn = (known > 0).then(|| new as f64 / known as f64);
        extent
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Sketch};

    /// Some number for each key, as good as drawn.
    fn hash(key: u64) -> u64 {
        let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn sketch(keys: std::ops::Range<u64>, before: Option<&Sketch>) -> Sketch {
        let mut sketch = Sketch::new(u64::MAX, before);
        for key in keys.clone().chain(keys) {
            sketch.see(hash(key), 100, (key % 2) as u16, before);
        }
        sketch
    }

    fn is_about(found: f64, wanted: f64) -> bool {
        (found / wanted - 1.0).abs() < 0.1
    }

    #[test]
    fn few_keys_are_counted_and_many_estimated() {
        let few = sketch(0..600, None).extent(None);
        assert!(is_about(few.keys, 600.0) && is_about(few.bytes, 60_000.0) && few.churn.is_none(), "{few:?}");
        let many = sketch(0..500_000, None);
        assert!(is_about(many.extent(None).keys, 500_000.0), "{:?}", many.extent(None));
        assert!(is_about(many.extent(Some(1)).keys, 250_000.0));
    }

    #[test]
    fn churn_is_the_share_of_keys_that_are_new() {
        let first = sketch(0..100_000, None);
        let second = sketch(75_000..175_000, Some(&first));
        let churn = second.extent(None).churn.unwrap();
        assert!((churn - 0.75).abs() < 0.06, "{churn}");
        assert!(sketch(0..100_000, Some(&first)).extent(None).churn.unwrap() < 0.001);
    }

    #[test]
    fn a_key_is_of_the_family_that_it_was_last_asked_for_in() {
        let mut sketch = Sketch::new(u64::MAX, None);
        for (family, weight) in [(0, 100), (7, 0)] {
            sketch.see(hash(1), weight, family, None);
        }
        let of = |family| sketch.extent(Some(family)).sampled;
        assert_eq!((of(0), of(7)), (0, 1));
    }

    #[test]
    fn what_is_not_sampled_any_more_is_forgotten_and_made_up_for() {
        let mut sketch = sketch(0..800, None);
        sketch.lower(u64::MAX / 4);
        sketch.see(u64::MAX / 2, 100, 0, None);
        let Extent { keys, .. } = sketch.extent(None);
        assert!((keys / 800.0 - 1.0).abs() < 0.25, "{keys}");
    }
}
