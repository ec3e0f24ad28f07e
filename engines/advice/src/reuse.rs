//! How many keys of a band of sizes are used again, and after how long.
//!
//! Time is counted in uses of the band's keys.

/// Steps of time: each is twice as long as the one before.
const STEPS: usize = 32;
/// From how long ago on repetitions tell what longer stays would bring, in parts of the time in which the cache is filled once …
const FROM_FILLS: f64 = 0.25;
/// … and up to when.
const TO_FILLS: f64 = 16.0;
/// The mean length is of so many items.
const WEIGHED_OF: f64 = 256.0;

/// Uses of a band's keys, which stand for those of all keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reuse {
    now: u64,
    /// The time when it began.
    since: u64,
    /// The time when the cache was filled last, and uses while it was filled.
    filled: u64,
    fill: Option<f64>,
    uses: f64,
    /// Uses by how long ago the one before was, and those of them that were reads.
    repeated: [f64; STEPS],
    read: [f64; STEPS],
    /// Keys that were forgotten by how long ago their last use was.
    forgotten: [f64; STEPS],
    /// The mean length of an item, in bytes.
    weight: f64,
    weighed: f64,
}

/// How many keys were not used for some time, and how many of these were read again before twice that time was over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Returns {
    pub(crate) waited: f64,
    pub(crate) read: f64,
}

impl Reuse {
    /// The time.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    fn age(&self, used: u64) -> u64 {
        self.now - used.min(self.now)
    }

    /// How long ago that was, in 4096ths of what was used of late.
    pub(crate) fn relative_age(&self, used: u64) -> u64 {
        self.age(used).saturating_mul(4096) / (self.uses as u64).max(1)
    }

    /// A key was read that was used at that time, and stands for so many.
    pub(crate) fn read_again(&mut self, used: u64, keys: u64) {
        let step = self.use_again(used, keys);
        self.read[step] += keys as f64;
    }

    /// Such a key was stored.
    pub(crate) fn stored_again(&mut self, used: u64, keys: u64) {
        self.use_again(used, keys);
    }

    fn use_again(&mut self, used: u64, keys: u64) -> usize {
        self.used_first(keys);
        let step = self.step(used);
        self.repeated[step] += keys as f64;
        step
    }

    fn step(&self, used: u64) -> usize {
        (self.age(used).max(1).ilog2() as usize).min(STEPS - 1)
    }

    /// A key was used of which nothing was known.
    pub(crate) fn used_first(&mut self, keys: u64) {
        self.now += keys;
        self.uses += keys as f64;
    }

    /// A key was forgotten that was used at that time, and stands for so many: whether it is used again is not seen.
    pub(crate) fn forget(&mut self, used: u64, keys: u64) {
        self.forgotten[self.step(used)] += keys as f64;
    }

    /// All keys were forgotten.
    pub(crate) fn forget_all(&mut self) {
        (self.since, self.uses) = (self.now, 0.0);
        (self.repeated, self.read, self.forgotten) = ([0.0; STEPS], [0.0; STEPS], [0.0; STEPS]);
    }

    /// An item was stored that has so many bytes.
    pub(crate) fn weigh(&mut self, weight: u32) {
        self.weighed = (self.weighed + 1.0).min(WEIGHED_OF);
        self.weight += (f64::from(weight) - self.weight) / self.weighed;
    }

    /// The mean length of an item, in bytes; 0 if there was none.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    /// Uses of late.
    pub(crate) fn uses(&self) -> f64 {
        self.uses
    }

    /// As much was stored in the cache as it has room for, or so many times as much. What was seen before counts half from now on, for each time.
    pub(crate) fn filled(&mut self, times: u32) {
        let uses = (self.now - self.filled) as f64 / f64::from(times);
        self.fill = Some(self.fill.map_or(uses, |fill| (fill + uses) / 2.0));
        self.filled = self.now;
        let part = 0.5f64.powi(times as i32);
        self.uses *= part;
        let counts = self.repeated.iter_mut().chain(&mut self.read).chain(&mut self.forgotten);
        counts.for_each(|count| *count *= part);
    }

    /// What becomes of keys that have not been used for about as long as items stay, in any cache of a size like this one's: the sum over
    /// times of which each is twice the one before.
    pub(crate) fn returns(&self) -> Returns {
        let fill = self.fill.unwrap_or(self.now as f64);
        // Later repetitions were not seen.
        let to = (fill * TO_FILLS).min((self.now - self.since) as f64);
        let mut returns = Returns::default();
        // Keys that are seen at a time, and how many would be if none were forgotten: as Kaplan and Meier estimate survival.
        let (mut left, mut all) = (self.uses, self.uses);
        for step in 0..STEPS {
            let begin = (1u64 << step) as f64;
            if 2.0 * begin > to || left <= 0.0 {
                break;
            }
            if begin >= fill * FROM_FILLS {
                returns.waited += all;
                returns.read += all * (self.read[step] / left).min(1.0);
            }
            all *= (1.0 - self.repeated[step] / left).max(0.0);
            left -= self.repeated[step] + self.forgotten[step];
        }
        returns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are read one after another, again and again, of a cache that holds `fill` of them.
    fn around(keys: u64, fill: u64, rounds: u64) -> Reuse {
        let mut reuse = Reuse::default();
        let mut used = vec![None; keys as usize];
        for number in 0..keys * rounds {
            let key = (number % keys) as usize;
            match used[key] {
                Some(used) => reuse.read_again(used, 1),
                None => reuse.used_first(1),
            }
            used[key] = Some(reuse.now());
            if number % fill == fill - 1 {
                reuse.filled(1);
            }
        }
        reuse
    }

    #[test]
    fn keys_that_are_read_after_several_fills_return() {
        let Returns { waited, read } = around(4000, 1000, 10).returns();
        // Nearly all wait at each time until the one in which they are read.
        assert!(read > 0.15 * waited && read < 0.35 * waited, "{read} of {waited}");
    }

    #[test]
    fn what_is_read_much_sooner_or_never_does_not_count() {
        assert_eq!(around(100, 1000, 100).returns().read, 0.0);
        let mut once = Reuse::default();
        (0..10_000).for_each(|_| once.used_first(1));
        let Returns { waited, read } = once.returns();
        assert!(read == 0.0 && waited >= 10_000.0, "{waited}");
    }

    #[test]
    fn the_share_that_is_read_is_of_the_keys_that_are_not_forgotten_before() {
        // Half of the keys are forgotten when they have waited for half of the time.
        let (mut all, mut half) = (Reuse::default(), Reuse::default());
        let mut used = [0; 4000];
        for number in 0..40_000 {
            let key = number % 4000;
            let forgotten = (number + 2000) % 4000;
            if number >= 4000 {
                all.read_again(used[key], 1);
                if key % 2 == 0 {
                    half.read_again(used[key], 1)
                } else {
                    half.used_first(1)
                }
                if forgotten % 2 == 1 {
                    half.forget(used[forgotten], 1);
                }
            } else {
                [&mut all, &mut half].into_iter().for_each(|reuse| reuse.used_first(1));
            }
            used[key] = all.now();
            if number % 1000 == 999 {
                [&mut all, &mut half].into_iter().for_each(|reuse| reuse.filled(1));
            }
        }
        let share = |reuse: &Reuse| {
            let Returns { waited, read } = reuse.returns();
            read / waited
        };
        assert!((share(&all) - share(&half)).abs() < 0.05, "{} and {}", share(&all), share(&half));
    }

    #[test]
    fn what_is_new_counts_more_than_what_was_long_ago() {
        let mut reuse = around(4000, 1000, 10);
        for _ in 0..20 {
            (0..1000).for_each(|_| reuse.used_first(1));
            reuse.filled(1);
        }
        let Returns { waited, read } = reuse.returns();
        assert!(read < waited / 1000.0, "{read} of {waited}");
    }

    #[test]
    fn the_mean_length_is_of_late() {
        let mut reuse = Reuse::default();
        reuse.weigh(100);
        assert_eq!(reuse.weight(), 100.0);
        (0..5_000).for_each(|_| reuse.weigh(300));
        assert!((reuse.weight() - 300.0).abs() < 1.0);
    }
}
