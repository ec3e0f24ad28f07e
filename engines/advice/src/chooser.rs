//! Which policy a cache should have, from what the miniatures of all policies find and miss.
//!
//! For each policy it is added up how many reads it would have saved, and how many it would have cost: a cumulative sum that never falls
//! below 0 (E. S. Page: "Continuous inspection schemes", Biometrika 41, 1954). A large difference is found soon, a small one in the course of
//! time, and one of less than [`GAIN_LEAST`] of the misses never. What counts is the lowest that the sum has been for about as many reads as
//! keys fit into the cache: in a loop, policies that hold other parts of it are ahead of each other in turn. Each change of the policy makes the
//! next one take more, so that requests that are good for one policy and then for another one cannot have the cache change all the time.

use crate::conclusions::Savings;

/// A policy has to save this share of the misses at least.
const GAIN_LEAST: f64 = 0.005;
/// So many reads of the sample have to be saved …
const SAVED_LEAST: f64 = 32.0;
/// … and as many as this part of the sampled keys that fit into the cache: a new order has to learn again what the old one knew of them …
const SAVED_PART: f64 = 0.05;
/// … and so many standard deviations of what it would be by chance, if policies were equally good.
const DEVIATIONS: f64 = 4.0;
/// Each change takes so many times as many as the one before, for what it costs …
const MORE_EACH_TIME: f64 = 2.0;
/// … until that is half forgotten, after so many times as many misses as keys fit into the cache.
const FORGOTTEN_AFTER: f64 = 64.0;

/// What is known of one policy beside the served one.
#[derive(Clone, Copy, Debug, Default)]
struct Rival {
    /// Sampled reads that it would have saved, beyond what is asked of it.
    saved: f64,
    /// Reads in which it differs from the served one, since the sum was 0: their worth, squared.
    differences: f64,
    /// The least that was in the present part of the reads, and in the one before.
    least: f64,
    least_before: f64,
}

impl Rival {
    /// What it has saved for some time, if that is no chance.
    fn lowest(&self) -> f64 {
        let saved = self.least.min(self.least_before);
        if saved >= DEVIATIONS * self.differences.sqrt() { saved } else { 0.0 }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    rivals: Vec<Rival>,
    /// Sampled keys that fit into the cache.
    objects: usize,
    /// Sampled reads of the present part.
    reads: usize,
    /// How often the policy has been changed, as far as that is not forgotten.
    changes: f64,
}

impl Chooser {
    pub(crate) fn new(policies: usize) -> Self {
        Chooser { rivals: vec![Rival::default(); policies], objects: 0, reads: 0, changes: 0.0 }
    }

    /// A sampled key was read. `had` tells of each policy's miniature whether it had the key; the cache has the policy `served`, and keeps so
    /// many sampled keys.
    #[cfg(test)]
    pub(crate) fn read(&mut self, served: usize, objects: usize, had: &[bool]) {
        self.read_worth(served, objects, (had, 1.0));
    }

    /// The same for a key whose hit has this worth.
    pub(crate) fn read_worth(&mut self, served: usize, objects: usize, (had, worth): (&[bool], f64)) {
        let hit = had[served];
        self.objects = objects;
        let asked = if hit { 0.0 } else { GAIN_LEAST * worth };
        if !hit {
            self.changes *= 0.5f64.powf(1.0 / (FORGOTTEN_AFTER * objects.max(1) as f64));
        }
        self.reads += 1;
        let is_over = 2 * self.reads > objects;
        if is_over {
            self.reads = 0;
        }
        for (rival, &had) in self.rivals.iter_mut().zip(had) {
            let saved = worth * (f64::from(u8::from(had)) - f64::from(u8::from(hit)));
            rival.saved = (rival.saved + saved - asked).max(0.0);
            rival.differences = if rival.saved > 0.0 { rival.differences + saved * saved } else { 0.0 };
            rival.least = rival.least.min(rival.saved);
            if is_over {
                (rival.least_before, rival.least) = (rival.least, rival.saved);
            }
        }
    }

    /// The policy that the cache should have, if it is another one: of those that are `fit`.
    pub(crate) fn choice(&self, fit: impl Fn(usize) -> bool) -> Option<usize> {
        let enough = SAVED_LEAST.max(SAVED_PART * self.objects as f64) * MORE_EACH_TIME.powf(self.changes);
        let (best, rival) = self
            .rivals
            .iter()
            .enumerate()
            .filter(|(number, _)| fit(*number))
            .max_by(|(_, one), (_, other)| one.lowest().total_cmp(&other.lowest()))?;
        (rival.lowest() >= enough).then_some(best)
    }

    /// What a policy would have saved.
    pub(crate) fn savings(&self, number: usize) -> Savings {
        let Rival { saved, differences, least, least_before } = self.rivals[number];
        Savings { saved, differences, least: least.min(least_before) }
    }

    /// How often the policy has been changed, as far as that is not forgotten.
    pub(crate) fn changes(&self) -> f64 {
        self.changes
    }

    /// Continues with the comparison of another server.
    pub(crate) fn restore(&mut self, changes: f64, savings: impl Iterator<Item = (usize, Savings)>) {
        self.begin_anew();
        self.changes = changes;
        for (number, Savings { saved, differences, least }) in savings {
            self.rivals[number] = Rival { saved, differences, least, least_before: least };
        }
    }

    /// The policy is changed: what others would save is counted anew.
    pub(crate) fn changed(&mut self) {
        self.begin_anew();
        self.changes += 1.0;
    }

    /// The policy is changed before any was better than another.
    pub(crate) fn begin_anew(&mut self) {
        self.rivals.fill(Rival::default());
        self.reads = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: usize = 100;

    /// Reads until another policy is chosen, out of so many; of ten, the served one has `hits[0]`, and the other `hits[1]`.
    fn reads_until_choice(chooser: &mut Chooser, hits: [u64; 2], most: u64) -> Option<u64> {
        for number in 0..most {
            // Not the same reads.
            let had = [number % 10 < hits[0], (number + 5) % 10 < hits[1]];
            chooser.read(0, OBJECTS, &had);
            if let Some(choice) = chooser.choice(|_| true) {
                assert_eq!(choice, 1);
                return Some(number);
            }
        }
        None
    }

    #[test]
    fn a_policy_that_saves_much_is_chosen_soon_and_one_that_saves_little_later() {
        let until = |hits| reads_until_choice(&mut Chooser::new(2), hits, 100_000);
        let (much, little) = (until([0, 9]).unwrap(), until([5, 6]).unwrap());
        assert!(much < 2 * OBJECTS as u64 && little > 2 * much && little < 2000, "{much}, {little}");
        assert_eq!((until([5, 5]), until([6, 5])), (None, None));
    }

    #[test]
    fn policies_that_are_equally_good_are_not_exchanged_by_chance() {
        let mut random = 1u64;
        let mut chooser = Chooser::new(4);
        for number in 0..4_000_000 {
            // Each has nine reads of ten, not the same ones.
            let had = [(); 4].map(|()| {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                random >> 32 < (1 << 32) / 10 * 9
            });
            chooser.read(0, 2000, &had);
            assert_eq!(chooser.choice(|_| true), None, "{number}");
        }
    }

    #[test]
    fn what_is_saved_in_turn_is_no_reason_to_change() {
        let mut chooser = Chooser::new(2);
        for number in 0..100_000 {
            let is_first_half = number % OBJECTS < OBJECTS / 2;
            chooser.read(0, OBJECTS, &[is_first_half, !is_first_half]);
            assert_eq!(chooser.choice(|_| true), None, "{number}");
        }
    }

    #[test]
    fn each_change_makes_the_next_one_harder_until_it_is_forgotten() {
        let mut chooser = Chooser::new(2);
        let mut until = |hits| {
            let reads = reads_until_choice(&mut chooser, hits, 1 << 20).unwrap();
            chooser.changed();
            reads
        };
        let all = [(); 5].map(|()| until([0, 5]));
        assert!(all.windows(2).all(|two| two[1] > two[0]), "{all:?}");
        assert_eq!(reads_until_choice(&mut chooser, [0, 0], 1 << 20), None);
        assert!(reads_until_choice(&mut chooser, [0, 5], 1 << 20).unwrap() <= all[0]);
    }
}
