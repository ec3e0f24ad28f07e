//! How often keys were asked for lately, approximately: a count-min sketch with small counters that are halved from
//! time to time (TinyLFU, section 3).

use guira_workload::rng::mix64;

use crate::policy::Id;

const ROWS: usize = 4;
/// The highest count: more requests than this do not matter.
const COUNT_MAX: u8 = 15;
/// Counters of a row for each entry of the cache.
const COUNTERS: usize = 4;
/// Requests for each entry of the cache until counts are halved.
const PERIOD: usize = 10;

/// Counts that are never too low, within a period.
#[derive(Debug)]
pub(super) struct Sketch {
    rows: [Vec<u8>; ROWS],
    mask: usize,
    period: usize,
    noted: usize,
}

impl Sketch {
    pub(super) fn new(entries: usize) -> Self {
        let entries = entries.max(16);
        let len = (entries * COUNTERS).next_power_of_two();
        Self {
            rows: std::array::from_fn(|_| vec![0; len]),
            mask: len - 1,
            period: entries * PERIOD,
            noted: 0,
        }
    }

    fn places(&self, id: Id) -> [usize; ROWS] {
        let hash = mix64(u64::from(id) ^ 0x7469_6e79_6c66_7531);
        let (base, step) = (hash as usize, (hash >> 32) as usize | 1);
        std::array::from_fn(|row| base.wrapping_add(row.wrapping_mul(step)) & self.mask)
    }

    /// Counts a request. Only the lowest of its counters rise: the others have been raised by other keys already.
    pub(super) fn note(&mut self, id: Id) {
        let places = self.places(id);
        let count = self.lowest(places);
        if count < COUNT_MAX {
            for (row, place) in self.rows.iter_mut().zip(places) {
                row[place] = row[place].max(count + 1);
            }
        }
        self.noted += 1;
        if self.noted >= self.period {
            self.noted /= 2;
            self.rows.iter_mut().flatten().for_each(|counter| *counter /= 2);
        }
    }

    /// How often `id` was asked for.
    pub(super) fn count(&self, id: Id) -> u8 {
        self.lowest(self.places(id))
    }

    fn lowest(&self, places: [usize; ROWS]) -> u8 {
        self.rows.iter().zip(places).map(|(row, place)| row[place]).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT_MAX, Sketch};

    #[test]
    fn counts_are_right_up_to_their_limit_and_halved_after_a_period() {
        let mut sketch = Sketch::new(16);
        (0..3).for_each(|_| sketch.note(7));
        (0..40).for_each(|_| sketch.note(8));
        assert_eq!((sketch.count(7), sketch.count(8), sketch.count(9)), (3, COUNT_MAX, 0));
        (0..117).for_each(|_| sketch.note(1));
        assert_eq!((sketch.count(7), sketch.count(8), sketch.noted), (1, COUNT_MAX / 2, 80));
    }

    #[test]
    fn few_of_many_keys_share_all_their_counters() {
        let mut sketch = Sketch::new(1000);
        (0..1000).for_each(|id| sketch.note(id));
        let wrong = (0..1000).filter(|&id| sketch.count(id) != 1).count();
        assert!(wrong < 10, "{wrong}");
    }
}
