//! For how long items of each size should stay, so that a given memory brings most hits.
//!
//! An item that waits costs its bytes for as long as it waits, and pays with a hit if it is read before it goes. *Hit density* is hits per byte and time
//! (Beckmann, Chen and Cidon, "LHD: improving cache hit rate by maximizing hit density", NSDI 2018). Here it is counted for each size and each age. Items of
//! every size should stay up to the age at which a byte of them brings as little as a byte of any other size does at its own limit: the marginal gains are
//! equal then (docs/develop/decisions/0056-memory-by-hits.md).

use guira_contract::SAMPLED_BY_CLASS;
use std::f64::consts::SQRT_2;

/// Steps of ages. Each ends at √2 times the end of the one before: up to 90 fills of the cache.
pub(crate) const STEPS: usize = 30;
/// The end of the first step, in fills.
const FIRST: f64 = 1.0 / 256.0;
/// The last step that is observed: 5.7 fills. What lies beyond is extrapolated.
const OBSERVED: usize = 21;

/// At each age one sampled key more was read, after as long a wait as is usual.
const PRIOR: f64 = 1.0;

/// Hits of a class are counted by so many at once: fewer more, or fewer that were expected, say nothing.
pub(crate) const COUNTED_BY: f64 = SAMPLED_BY_CLASS as f64;

/// Halvings of a range in which the density is looked for that fills the cache.
const HALVINGS: usize = 60;

/// How often keys are hit at each age: hits per key and fill.
pub(crate) type Rates = [f64; STEPS];

/// The ages at which the steps end, in fills.
const ENDS: [f64; STEPS] = {
    let (mut ends, mut step) = ([FIRST; STEPS], 1);
    while step < STEPS {
        ends[step] = ends[step - 1] * SQRT_2;
        step += 1;
    }
    ends
};

fn end(step: usize) -> f64 {
    ENDS[step]
}

fn begin(step: usize) -> f64 {
    if step == 0 { 0.0 } else { end(step - 1) }
}

fn step_of(age: f64) -> usize {
    ENDS.partition_point(|end| *end < age).min(STEPS - 1)
}

/// Up to what age keys are observed, in fills.
pub(crate) fn observed() -> f64 {
    end(OBSERVED)
}

/// What became of keys of one size while they waited for their next use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Keys that were read, by the age they had.
    hits: [f64; STEPS],
    /// Keys times the fills that they spent at each age.
    waited: [f64; STEPS],
}

impl Waits {
    /// Keys were read when they had waited for `age` fills.
    pub(crate) fn hit(&mut self, age: f64, keys: f64) {
        self.hits[step_of(age)] += keys;
    }

    /// Keys have waited from one age to another. Returns the hits that come of that at `rates`, among keys that are not older than `kept`.
    pub(crate) fn wait(&mut self, (from, to): (f64, f64), keys: f64, (rates, kept): (&Rates, f64)) -> f64 {
        let mut expected = 0.0;
        for (step, rate) in rates.iter().enumerate().take(step_of(to) + 1).skip(step_of(from)) {
            let until = if step + 1 == STEPS { to } else { to.min(end(step)) };
            let waited = (until - from.max(begin(step))).max(0.0) * keys;
            self.waited[step] += waited;
            if begin(step) < kept {
                expected += waited * rate;
            }
        }
        expected
    }

    /// What was seen so far counts this much.
    pub(crate) fn fade(&mut self, factor: f64) {
        self.hits.iter_mut().chain(&mut self.waited).for_each(|count| *count *= factor);
    }
}

/// What is known of the items of one size.
#[derive(Debug)]
pub(crate) struct Observations<'a> {
    pub(crate) waits: &'a Waits,
    /// Keys that a sampled one stands for.
    pub(crate) unit: f64,
    pub(crate) bytes: f64,
    /// Hits that the server counted, and hits that were expected at the usual rates.
    pub(crate) hits: f64,
    pub(crate) expected: f64,
    /// How much more often keys are hit lately.
    pub(crate) trend: f64,
    /// What a hit is worth.
    pub(crate) worth: f64,
}

/// How often keys of all sizes are hit; `None` if none was.
pub(crate) fn rates(sizes: &[Observations<'_>]) -> Option<Rates> {
    let sum = |of: &dyn Fn(&Observations<'_>) -> f64| sizes.iter().map(of).sum::<f64>();
    let all = |counts: &[f64; STEPS]| counts.iter().sum::<f64>();
    let (hits, waited) = (sum(&|size| all(&size.waits.hits)), sum(&|size| all(&size.waits.waited)));
    if hits <= 0.0 || waited <= 0.0 {
        return None;
    }
    let prior = PRIOR * sizes.iter().map(|size| size.unit).fold(f64::INFINITY, f64::min);
    let mut rates = [0.0; STEPS];
    // A key that has waited for twice as long is half as likely to be read in a moment, as far as nothing else is seen.
    let mut guess = hits / waited * SQRT_2;
    for (step, rate) in rates.iter_mut().enumerate() {
        guess /= SQRT_2;
        *rate = guess;
        if step <= OBSERVED {
            let hits = sum(&|size| size.waits.hits[step]);
            let waited = sum(&|size| size.waits.waited[step]);
            *rate = (hits + prior) / (waited + prior / guess);
            guess = *rate;
        }
    }
    Some(rates)
}

/// Neighbouring steps that are kept together or not at all.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Hits, each by its worth.
    hits: f64,
    byte_fills: f64,
    /// The age at which it ends.
    end: f64,
}

impl Block {
    fn density(self) -> f64 {
        self.hits / self.byte_fills
    }
}

/// What longer stays of items of one size bring and cost.
#[derive(Debug)]
struct Profile {
    /// In order of age; the density falls from each to the next.
    blocks: Vec<Block>,
    /// Bytes that are held by items that stay until each step ends.
    held: [f64; STEPS],
}

impl Profile {
    /// Waits were seen over `window` fills.
    fn of(size: &Observations<'_>, rates: &Rates, window: f64) -> Profile {
        // The server's own counts say how far this size is from the usual: they have every hit, the sample only some.
        let factor = (size.hits + COUNTED_BY) / (size.expected + COUNTED_BY);
        let prior = PRIOR * size.unit;
        let mut blocks: Vec<Block> = Vec::with_capacity(STEPS);
        let (mut held, mut sum) = ([0.0; STEPS], 0.0);
        for (step, usual) in rates.iter().enumerate() {
            let rate = usual * factor;
            let (waited, hits) = if step > OBSERVED {
                let waited = size.waits.waited[OBSERVED] * end(step) / end(OBSERVED);
                (waited, waited * rate)
            } else {
                (size.waits.waited[step], size.waits.hits[step])
            };
            sum += waited * size.bytes / window;
            held[step] = sum;
            let (hits, waited) = (hits + prior, waited + prior / rate);
            let mut block = Block {
                hits: hits * size.trend * size.worth,
                byte_fills: waited * size.bytes,
                end: end(step),
            };
            // A step with more hits than those before it is only to be had with these.
            while let Some(before) = blocks.pop_if(|before| before.density() < block.density()) {
                block.hits += before.hits;
                block.byte_fills += before.byte_fills;
            }
            blocks.push(block);
        }
        Profile { blocks, held }
    }

    /// How long items should stay where a byte has to bring at least `density`, in fills.
    fn age_at(&self, density: f64) -> f64 {
        let mut before: Option<Block> = None;
        for block in &self.blocks {
            if block.density() < density {
                let Some(before) = before else { return FIRST / SQRT_2 };
                // As if the density fell evenly between the two.
                let part = (before.density() / density).ln() / (before.density() / block.density()).ln();
                return before.end * (block.end / before.end).powf(part.clamp(0.0, 1.0));
            }
            before = Some(*block);
        }
        end(STEPS - 1)
    }

    /// The bytes held by items that stay for so long.
    fn held(&self, age: f64) -> f64 {
        let step = step_of(age);
        let before = if step == 0 { 0.0 } else { self.held[step - 1] };
        let part = (age - begin(step)) / (end(step) - begin(step));
        before + (self.held[step] - before) * part.clamp(0.0, 1.0)
    }
}

/// How long the items of each size should stay, in fills, so that together they take `capacity` bytes, if waits were seen over `window` fills. `None` if
/// everything has room.
pub(crate) fn ages(
    sizes: &[Observations<'_>],
    rates: &Rates,
    (window, capacity): (f64, f64),
) -> Option<Vec<f64>> {
    let profiles: Vec<Profile> = sizes.iter().map(|size| Profile::of(size, rates, window)).collect();
    let held = |density: f64| profiles.iter().map(|one| one.held(one.age_at(density))).sum::<f64>();
    let densities = || profiles.iter().flat_map(|one| &one.blocks).map(|block| block.density());
    let mut low = densities().fold(f64::INFINITY, f64::min) / 2.0;
    let mut high = densities().fold(0.0, f64::max) * 2.0;
    if held(low) <= capacity {
        return None;
    }
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if held(middle) > capacity { low = middle } else { high = middle }
    }
    Some(profiles.iter().map(|one| one.age_at(high)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Rates = [1.0; STEPS];

    fn observations(waits: &Waits, bytes: f64) -> Observations<'_> {
        Observations { waits, unit: 1.0, bytes, hits: 0.0, expected: 0.0, trend: 1.0, worth: 1.0 }
    }

    /// Of keys that wait, a constant share is read by each age that is √2 times the one before.
    fn halving(keys: f64) -> Waits {
        let mut waits = Waits::default();
        let mut left = keys;
        for step in 0..=OBSERVED {
            waits.wait((begin(step), end(step)), left, (&ALL, 1.0));
            waits.hit(end(step), left / 5.0);
            left -= left / 5.0;
        }
        waits
    }

    #[test]
    fn steps_of_ages_are_where_they_say() {
        for step in 0..STEPS {
            assert_eq!(step_of(end(step) * 0.999), step);
            assert_eq!(step_of(begin(step) * 1.001), step);
        }
        assert_eq!((step_of(0.0), step_of(1e9)), (0, STEPS - 1));
    }

    #[test]
    fn a_wait_is_counted_at_each_age_and_hits_are_expected_as_long_as_items_are_kept() {
        let mut waits = Waits::default();
        let expected = waits.wait((0.1, 3.0), 2.0, (&ALL, end(10)));
        assert!((waits.waited.iter().sum::<f64>() - 5.8).abs() < 1e-9);
        assert!((expected - 2.0 * (end(10) - 0.1)).abs() < 1e-9, "{expected}");
        waits.fade(0.5);
        assert!((waits.waited.iter().sum::<f64>() - 2.9).abs() < 1e-9);
    }

    #[test]
    fn items_stay_in_proportion_to_their_shortness_where_keys_are_read_alike() {
        let waits = halving(1e6);
        let sizes = [observations(&waits, 100.0), observations(&waits, 400.0)];
        let rates = rates(&sizes).unwrap();
        let ages = ages(&sizes, &rates, (1.0, 2e7)).unwrap();
        assert!((3.0..5.0).contains(&(ages[0] / ages[1])), "{ages:?}");
        let held: f64 =
            sizes.iter().zip(ages).map(|(size, age)| Profile::of(size, &rates, 1.0).held(age)).sum();
        assert!((held / 2e7 - 1.0).abs() < 0.01, "{held}");
    }

    #[test]
    fn items_of_all_sizes_stay_alike_where_bytes_count_and_keys_are_read_alike() {
        let waits = halving(1e6);
        let sizes = [100.0, 400.0].map(|bytes| Observations { worth: bytes, ..observations(&waits, bytes) });
        let rates = rates(&sizes).unwrap();
        let ages = ages(&sizes, &rates, (1.0, 2e7)).unwrap();
        assert!((0.9..1.1).contains(&(ages[0] / ages[1])), "{ages:?}");
    }

    #[test]
    fn nothing_is_said_where_nothing_is_hit_or_all_has_room() {
        assert_eq!(rates(&[observations(&Waits::default(), 100.0)]), None);
        let waits = halving(10.0);
        let sizes = [observations(&waits, 100.0)];
        assert_eq!(ages(&sizes, &rates(&sizes).unwrap(), (1.0, 1e12)), None);
    }

    #[test]
    fn a_loop_is_kept_as_a_whole() {
        // Read when they have waited for 3 fills, all of them.
        let mut around = Waits::default();
        around.wait((0.0, 3.0), 1e5, (&ALL, 1.0));
        around.hit(3.0, 1e5);
        let other = halving(1e5);
        let sizes = [observations(&around, 100.0), observations(&other, 100.0)];
        let rates = rates(&sizes).unwrap();
        // The loop takes 3e7 bytes.
        let ages = ages(&sizes, &rates, (1.0, 3.1e7)).unwrap();
        assert!(ages[0] >= 3.0, "{ages:?}");
    }

    #[test]
    fn what_waits_for_longer_than_is_observed_takes_memory_all_the_same() {
        let mut waits = Waits::default();
        waits.wait((0.0, observed()), 1e5, (&ALL, 1.0));
        waits.hit(0.1, 1e5);
        let sizes = [observations(&waits, 100.0)];
        let profile = Profile::of(&sizes[0], &rates(&sizes).unwrap(), 1.0);
        let (known, beyond) = (profile.held(observed()), profile.held(8.0 * observed()));
        assert!((beyond / known - 8.0).abs() < 0.5, "{known} and {beyond}");
    }

    #[test]
    fn the_servers_own_hits_count_where_the_sample_has_none() {
        let (seen, unseen) = (halving(1e5), Waits::default());
        let few = observations(&unseen, 100.0);
        let many = Observations { hits: 1e4, expected: 10.0, ..observations(&unseen, 100.0) };
        let sizes = [observations(&seen, 100.0), few, many];
        let ages = ages(&sizes, &rates(&sizes).unwrap(), (1.0, 1e6)).unwrap();
        assert!(ages[2] > 10.0 * ages[1], "{ages:?}");
    }
}
