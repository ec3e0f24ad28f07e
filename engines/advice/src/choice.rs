//! Which policy would miss least, from a sample of keys in miniatures of the present size.
//!
//! It samples more keys than the model of other sizes does: policies differ in few reads.

use crate::chooser::Chooser;
use crate::conclusions::Comparison;
use crate::keys::Id;
use crate::observed::{Observed, Pulse, What};
use crate::sampled::{Extent, KEYS_RANGE, Sampled};
use crate::worth::Worth;
use guira_slab::Policy;
use guira_slab::policy::clock::ReadBits;
use guira_slab::policy::lru::LruOptions;
use guira_slab::policy::s3_fifo::S3FifoOptions;
use guira_slab::policy::sieve::SieveOptions;
use guira_slab::policy::two_q::TwoQOptions;
use guira_sync::clock::Seconds;

/// Policies that the server may choose. Each is the best by far on some traces, and no other policy of the engine is better than these by more
/// than a hundredth on any of them; fewer policies leave memory for more keys (docs/develop/decisions/0053-auto.md).
pub const CANDIDATES: [Policy; 8] = [
    Policy::Clock(ReadBits::Two),
    Policy::Lru(LruOptions),
    Policy::S3Fifo(S3FifoOptions { skip_percent: 30, promote_reads: 1, ..S3FifoOptions::with_small(10) }),
    Policy::S3Fifo(S3FifoOptions {
        ghost_percent: Some(200),
        skip_percent: 30,
        promote_reads: 1,
        ..S3FifoOptions::with_small(10)
    }),
    Policy::Sieve(SieveOptions),
    Policy::S3Fifo(S3FifoOptions::with_small(2)),
    Policy::S3Fifo(S3FifoOptions { skip_percent: 50, promote_reads: 1, ..S3FifoOptions::with_small(25) }),
    Policy::TwoQ(TwoQOptions { in_percent: 25 }),
];
/// Bytes of a sampled key in all miniatures, with one for a policy that is no candidate, ghosts, and expiry.
const KEY_BYTES: usize = 420;
/// The memory for the fewest keys, in bytes.
pub(crate) const LEAST_BUDGET: usize = *KEYS_RANGE.start() * KEY_BYTES;
/// Sampled requests in a second of processor time: each costs about a microsecond.
const PER_CPU_SECOND: f64 = 5_000.0;
/// Seconds from one increase of the sample to the next: until then the miniatures fill with the new keys.
const RAISE_AFTER: u32 = 15;
/// Recent misses are those of this many reads for each key that fits into the cache.
const READS_OF_LATE: u64 = 16;
const OBJECTS_LEAST: u64 = 64;
/// The candidate that takes over when memory is full for the first time. Of the fixed policies it misses least on average; `clock` has no notes,
/// and so more items until then …
const WHEN_FULL: usize = 2;
/// … if its notes are at most one part in this many of an item.
const NOTES_PART: f64 = 32.0;
/// It takes over within this many seconds, or not at all.
const ENDS_WITHIN: u32 = 60;
const SCALE: [f64; 1] = [1.0];

#[derive(Debug)]
pub(crate) struct Choice {
    sample: Sampled,
    chooser: Chooser,
    /// Whether each policy's miniature had the key that was read.
    had: Vec<bool>,
    /// Recent sampled reads, and the misses of each policy's miniature.
    reads: u64,
    misses: Vec<u64>,
    worth: Worth,
    /// What those misses would have been worth as hits.
    lost: Vec<f64>,
    raised: Option<Pulse>,
    filling: Filling,
    /// The comparison of another server, until its policy has taken over here.
    restored: Option<Restored>,
}

#[derive(Debug)]
struct Restored {
    comparison: Comparison,
    /// The first pulse after it was restored.
    since: Option<Seconds>,
}

/// Whether the cache fills for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    /// There was no pulse yet.
    Unknown,
    Begun,
    /// Memory is full since then, and [`WHEN_FULL`] should take over.
    Ends(Seconds),
    /// Memory was full at the start, or [`WHEN_FULL`] or another policy has taken over.
    Over,
}

/// Recent misses of the policies at the present size.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// The share of keys that is sampled.
    pub rate: f64,
    /// Sampled keys that fit into the cache. With fewer than some hundred the figures are unreliable.
    pub objects: u64,
    pub reads: u64,
    /// Each policy, and its misses of these reads.
    pub misses: Vec<(Policy, u64)>,
    /// Bytes of memory of the miniatures.
    pub bytes: u64,
}

/// A policy that should replace the present one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Better {
    pub policy: Policy,
    pub why: WhyBetter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyBetter {
    /// Memory is full for the first time, and this policy is the best for most requests.
    MemoryIsFull,
    MissesLess {
        reads: u64,
        /// Reads that it would have missed.
        misses: u64,
        /// Reads that the present policy has missed.
        present_misses: u64,
    },
}

impl Choice {
    /// A model that takes about `budget` bytes.
    pub(crate) fn new(budget: usize) -> Self {
        let keys = (budget / KEY_BYTES).clamp(*KEYS_RANGE.start(), *KEYS_RANGE.end());
        let extent = Extent { first_rate: 1.0, keys, per_cpu_second: PER_CPU_SECOND };
        let sample = Sampled::new(CANDIDATES.into_iter(), &SCALE, extent);
        // One more, if the present policy is no candidate.
        let policies = CANDIDATES.len() + 1;
        Choice {
            sample,
            chooser: Chooser::new(policies),
            had: vec![false; policies],
            reads: 0,
            misses: vec![0; policies],
            worth: Worth::Objects,
            lost: vec![0.0; policies],
            raised: None,
            filling: Filling::Unknown,
            restored: None,
        }
    }

    /// The same with another aim.
    pub(crate) fn aiming_at(self, worth: Worth) -> Self {
        Choice { worth, ..self }
    }

    /// The comparison of the served policy with the others.
    pub(crate) fn comparison(&self) -> Comparison {
        if let Some(Restored { comparison, .. }) = &self.restored {
            return comparison.clone();
        }
        let sets = self.sample.sets();
        let rivals = sets.iter().enumerate().filter(|(number, _)| *number != self.sample.served());
        Comparison {
            served: sets[self.sample.served()].policy,
            is_filled: self.filling == Filling::Over,
            changes: self.chooser.changes(),
            rivals: rivals.map(|(number, set)| (set.policy, self.chooser.savings(number))).collect(),
        }
    }

    /// Continues with the comparison of another server as soon as its policy is the present one.
    pub(crate) fn restore(&mut self, comparison: Comparison) {
        if comparison.is_filled {
            self.filling = Filling::Over;
        }
        self.restored = Some(Restored { comparison, since: None });
    }

    /// A policy takes over in the first seconds after a restart, or not at all.
    fn resume(&mut self, now: Seconds) {
        let Some(Restored { comparison, since }) = &mut self.restored else { return };
        let since = *since.get_or_insert(now);
        if comparison.served == self.sample.sets()[self.sample.served()].policy {
            let find = |(policy, savings): &(Policy, _)| Some((self.sample.find(*policy)?, *savings));
            self.chooser.restore(comparison.changes, comparison.rivals.iter().filter_map(find));
        } else if now.0.saturating_sub(since.0) < ENDS_WITHIN {
            return;
        }
        self.restored = None;
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.sample.threshold()
    }

    pub(crate) fn see(&mut self, observed: Observed<'_>, now: Seconds) {
        let Observed { hash, what, .. } = observed;
        self.sample.look(hash, now);
        if hash >= self.threshold() {
            return;
        }
        match what {
            // A hit that no miniature knows is no miss: they have not run from the start.
            What::Hit { weight, expires } => {
                self.read(hash);
                self.sample.hit(hash, weight, expires);
            }
            What::Miss => match self.read(hash) {
                Some(id) => self.sample.missed(id),
                None => self.misses.iter_mut().for_each(|misses| *misses += 1),
            },
            What::Stored { weight, expires } | What::Updated { weight, expires } => {
                self.sample.stored(hash, weight, expires)
            }
            What::Deleted => self.sample.forget(hash),
        }
    }

    /// A key was read: `None` if no miniature knows it.
    fn read(&mut self, hash: u64) -> Option<Id> {
        self.fade();
        let Choice { sample, had, misses, .. } = self;
        let id = sample.read(hash, |number, _, hit| {
            had[number] = hit;
            misses[number] += u64::from(!hit);
        })?;
        let worth = self.worth_of(id);
        for (lost, had) in self.lost.iter_mut().zip(&self.had) {
            *lost += if *had { 0.0 } else { worth };
        }
        self.chooser.read_worth(self.sample.served(), self.objects(), (&self.had, worth));
        Some(id)
    }

    /// The worth of a hit of this key, compared with other keys.
    fn worth_of(&self, id: Id) -> f64 {
        let keys = self.sample.keys();
        let weights = keys.get(id).map(|known| f64::from(known.weight)).zip(keys.mean_weight());
        weights.map_or(1.0, |(weight, mean)| self.worth.of(weight, mean))
    }

    /// What the recent misses of a policy would have been worth as hits.
    fn missed(&self, number: usize) -> f64 {
        match self.worth {
            Worth::Objects => self.misses[number] as f64,
            Worth::Bytes => self.lost[number],
        }
    }

    /// Counts a read, and halves the counts now and then, so that they are recent.
    fn fade(&mut self) {
        if self.reads >= READS_OF_LATE * (self.objects() as u64).max(OBJECTS_LEAST) {
            self.reads /= 2;
            self.misses.iter_mut().for_each(|misses| *misses /= 2);
            self.lost.iter_mut().for_each(|lost| *lost /= 2.0);
        }
        self.reads += 1;
    }

    /// Sampled keys that fit into the cache.
    fn objects(&self) -> usize {
        self.sample.sets()[self.sample.served()].caches.iter().map(|cache| cache.len()).sum()
    }

    /// Reports the state of the server, and its policy.
    pub(crate) fn pulse(&mut self, pulse: Pulse, policy: Option<Policy>) {
        if let Some(policy) = policy
            && self.sample.sets()[self.sample.served()].policy != policy
        {
            let number = self.sample.find(policy).unwrap_or(CANDIDATES.len());
            self.sample.hand_over(number, policy);
            match self.filling {
                Filling::Ends(_) if number == WHEN_FULL => self.chooser.begin_anew(),
                _ => self.chooser.changed(),
            }
            if self.filling != Filling::Unknown {
                self.filling = Filling::Over;
            }
            self.reads = 0;
            self.misses.fill(0);
            self.lost.fill(0.0);
        }
        self.resume(pulse.now);
        self.filling = self.filling_at(pulse);
        self.sample.pulse(pulse);
        let raised = *self.raised.get_or_insert(pulse);
        if pulse.now.0.saturating_sub(raised.now.0) >= RAISE_AFTER {
            self.raised = Some(pulse);
            self.sample.raise_if_cheap(pulse.busy.saturating_sub(raised.busy));
        }
    }

    pub(crate) fn policies(&self) -> Policies {
        let policies = self.sample.sets().iter().map(|set| set.policy);
        Policies {
            rate: self.sample.rate(),
            objects: self.objects() as u64,
            reads: self.reads,
            misses: policies.zip(self.misses.iter().copied()).collect(),
            bytes: self.sample.bytes() as u64,
        }
    }

    pub(crate) fn better(&self) -> Option<Better> {
        let present_misses = self.misses[self.sample.served()];
        // If requests of two kinds take turns, a policy may be ahead for a while and miss more in total.
        let misses_less = |number: usize| self.missed(number) < self.missed(self.sample.served());
        let Some(number) = self.chooser.choice(misses_less) else { return self.when_full() };
        let why = WhyBetter::MissesLess { reads: self.reads, misses: self.misses[number], present_misses };
        Some(Better { policy: self.sample.sets()[number].policy, why })
    }

    fn when_full(&self) -> Option<Better> {
        let policy = self.sample.sets()[WHEN_FULL].policy;
        matches!(self.filling, Filling::Ends(_)).then_some(Better { policy, why: WhyBetter::MemoryIsFull })
    }

    fn filling_at(&self, pulse: Pulse) -> Filling {
        match self.filling {
            Filling::Unknown if pulse.is_full => Filling::Over,
            Filling::Unknown => Filling::Begun,
            Filling::Begun if pulse.is_full => match self.has_room_for_notes() {
                None => Filling::Begun,
                Some(true) => Filling::Ends(pulse.now),
                Some(false) => Filling::Over,
            },
            // There may be no memory for its notes at once. Later the miniatures have results.
            Filling::Ends(since) if pulse.now.0.saturating_sub(since.0) >= ENDS_WITHIN => Filling::Over,
            filling => filling,
        }
    }

    /// Whether [`WHEN_FULL`] notes little beside items, and the present policy nothing: two lists take pages at the same time while one takes over,
    /// and the most recent items may be in those pages. `None` if no item is known.
    fn has_room_for_notes(&self) -> Option<bool> {
        let notes_of = |number: usize| f64::from(self.sample.sets()[number].policy.item_bytes());
        let mean = self.sample.keys().mean_weight()?;
        Some(mean >= NOTES_PART * notes_of(WHEN_FULL) && notes_of(self.sample.served()) == 0.0)
    }

    pub(crate) fn flush(&mut self) {
        self.sample.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_contract::Spec;
    use std::time::Duration;

    /// The policy that takes over when memory is full for the first time.
    const FULL: &str = "s3-fifo:small_pct=10,skip_pct=30,promote=1";

    #[test]
    fn candidates_are_policies_and_no_two_are_the_same() {
        let choice = Choice::new(0);
        let sets = choice.sample.sets();
        assert_eq!(sets.len(), CANDIDATES.len());
        assert_eq!(CANDIDATES[WHEN_FULL], policy(FULL));
        assert_eq!([CANDIDATES[0], CANDIDATES[7]], ["clock", "2q"].map(policy));
        for (number, set) in sets.iter().enumerate() {
            assert_eq!(choice.sample.find(set.policy), Some(number));
        }
    }

    fn policy(text: &str) -> Policy {
        Policy::read(&Spec::parse(text).unwrap()).unwrap()
    }

    /// A choice that has seen one pulse, with this policy and room for so many items of 100 bytes.
    fn serving(name: &str, items: u32) -> Choice {
        let mut choice = Choice::new(1 << 20);
        let capacity = f64::from(items) * 100.0;
        choice.pulse(Pulse { now: Seconds(1), capacity, ..Pulse::default() }, Some(policy(name)));
        choice
    }

    /// Which of these keys the miniature of a policy holds.
    fn held(choice: &Choice, name: &str, keys: std::ops::Range<u64>) -> Vec<u64> {
        let number = choice.sample.find(policy(name)).unwrap();
        let holds = |key: &u64| {
            choice.sample.keys().find(*key).is_some_and(|id| choice.sample.sets()[number].holds(id))
        };
        keys.filter(holds).collect()
    }

    /// Keys are asked for, and stored.
    fn ask(choice: &mut Choice, keys: impl Iterator<Item = u64>) {
        for key in keys {
            let stored = What::Stored { weight: 100, expires: u32::MAX };
            for what in [What::Miss, stored] {
                choice.see(Observed { key: b"", hash: key, what }, Seconds(1));
            }
        }
    }

    /// A second later `policy` is served.
    fn serve(choice: &mut Choice, name: &str) {
        let busy = Duration::from_secs(1);
        choice.pulse(
            Pulse { now: Seconds(2), busy, capacity: 10_000.0, ..Pulse::default() },
            Some(policy(name)),
        );
    }

    /// Asks for every key once in a second that takes so many of processor time. Returns how many of the requests were sampled.
    fn flood(choice: &mut Choice, (second, busy): (u32, Duration), requests: u64) -> f64 {
        let hashes = (0..requests).map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut looked_at = 0.0;
        for hash in hashes {
            if hash < choice.threshold() {
                looked_at += 1.0;
                choice.see(Observed { key: b"", hash, what: What::Miss }, Seconds(second));
            }
        }
        let pulse = Pulse { now: Seconds(second + 1), busy, capacity: 1e5, ..Pulse::default() };
        choice.pulse(pulse, Some(policy("clock")));
        looked_at
    }

    #[test]
    fn after_a_flood_as_many_keys_are_sampled_as_there_is_time_for() {
        // Of one processor, and of four.
        for processors in [1, 4] {
            let mut choice = serving("clock", 1000);
            let busy = |second: u32| Duration::from_secs(u64::from(second * processors));
            let allowed = f64::from(processors) * PER_CPU_SECOND;
            let first = flood(&mut choice, (1, busy(1)), 400_000);
            assert!(first > PER_CPU_SECOND && first < 5.0 * PER_CPU_SECOND, "{first}");
            let rate = choice.sample.rate();
            // Not equally many in each second.
            for (second, requests) in (2..10).zip([400_000, 430_000, 380_000, 440_000].into_iter().cycle()) {
                let looked_at = flood(&mut choice, (second, busy(second)), requests);
                assert!(looked_at < allowed * 1.1, "{looked_at}");
            }
            assert!(choice.sample.rate() > rate * 0.75 && rate * 400_000.0 > PER_CPU_SECOND / 2.0, "{rate}");
        }
    }

    #[test]
    fn a_policy_that_takes_over_goes_on_with_what_the_cache_holds() {
        let mut choice = serving("lru", 100);
        // CLOCK keeps what was read, LRU what was stored last.
        (0..4).for_each(|_| ask(&mut choice, 0..50));
        ask(&mut choice, (50..150).chain(70..80));
        let [lru, clock] = ["lru", "clock"].map(|name| held(&choice, name, 0..150));
        assert!(lru != clock && lru[0] > 50 && clock[0] < 50, "{lru:?}, {clock:?}");
        serve(&mut choice, "clock");
        let after = held(&choice, "clock", 0..150);
        assert!(after.len() > 80 && after.iter().all(|key| lru.contains(key)), "{after:?} of {lru:?}");
        // Both evict first what LRU would have.
        ask(&mut choice, 150..190);
        for policy in ["clock", "lru"] {
            let held = held(&choice, policy, 0..190);
            assert!(held[0] == 70 && held[10] > 80 && held.contains(&189), "{policy}: {held:?} of {after:?}");
        }
        // The sample has no miniature of this one before.
        let clock = held(&choice, "clock", 0..190);
        serve(&mut choice, "klru:samples=3");
        let klru = held(&choice, "klru:samples=3", 0..190);
        assert!(klru.len() > 80 && klru.iter().all(|key| clock.contains(key)), "{klru:?} of {clock:?}");
        serve(&mut choice, "klru:samples=4");
        assert_eq!(held(&choice, "klru:samples=4", 0..190), klru);
        serve(&mut choice, "lazy-lru");
        assert!(held(&choice, "lazy-lru", 0..190).len() > 80);
        assert_eq!(
            choice.sample.sets().len(),
            CANDIDATES.len() + 1,
            "in place of the others that are no candidates"
        );
    }

    #[test]
    fn a_policy_that_only_has_other_options_keeps_its_order() {
        let [wide, narrow] = ["s3-fifo:small_pct=10", "s3-fifo:small_pct=2"];
        let mut choice = serving(wide, 100);
        ask(&mut choice, 0..300);
        let before = held(&choice, wide, 0..300);
        serve(&mut choice, narrow);
        assert_eq!(held(&choice, narrow, 0..300), before);
        // What is on probation is more than its share now and goes, and not what is in main, as it would if all had been adopted there.
        ask(&mut choice, 300..305);
        assert_eq!(held(&choice, narrow, 0..300)[..50], before[..50]);
        serve(&mut choice, "s3-fifo:small_pct=50");
        let half = held(&choice, "s3-fifo:small_pct=50", 0..300);
        assert_eq!(half[..50], before[..50]);
        // The one before, which had no rival with these options, begins with the same keys.
        let narrow = held(&choice, narrow, 0..300);
        assert!(narrow.len() > 80 && narrow.iter().all(|key| half.contains(key)), "{narrow:?} of {half:?}");
    }

    #[test]
    fn a_policy_that_is_ahead_for_a_while_but_misses_more_all_in_all_does_not_take_over() {
        let mut choice = serving("clock", 100);
        let mut had = [false; CANDIDATES.len() + 1];
        had[1] = true;
        (0..10_000).for_each(|_| choice.chooser.read(0, 100, &had));
        had[2] = true;
        (0..1_000).for_each(|_| choice.chooser.read(0, 100, &had));
        assert_eq!(choice.chooser.choice(|_| true), Some(1));
        choice.reads = 100;
        for (misses, expected) in
            [([50, 50, 50], None), ([50, 50, 49], Some(FULL)), ([50, 49, 40], Some("lru"))]
        {
            choice.misses[..3].copy_from_slice(&misses);
            assert_eq!(choice.better().map(|better| better.policy), expected.map(policy), "{misses:?}");
        }
    }

    /// What takes over after these pulses, each of which tells whether memory is full, and of a policy, of a cache with items of so many bytes.
    fn taking_over(weight: u32, pulses: &[(bool, &str)]) -> Option<Better> {
        let mut choice = Choice::new(1 << 20);
        for (second, (is_full, name)) in (1..).zip(pulses) {
            let busy = Duration::from_secs(u64::from(second));
            let (now, is_full) = (Seconds(second), *is_full);
            let pulse = Pulse { now, is_full, busy, capacity: 1e6, ..Pulse::default() };
            choice.pulse(pulse, Some(policy(name)));
            let what = What::Stored { weight, expires: u32::MAX };
            choice.see(Observed { key: b"", hash: u64::from(second), what }, Seconds(second));
        }
        choice.better()
    }

    #[test]
    fn where_bytes_count_a_policy_is_better_that_has_the_long_items() {
        let take_over = |worth| {
            let mut choice = serving("clock", 1000).aiming_at(worth);
            let store =
                |hash, weight| Observed { key: b"", hash, what: What::Stored { weight, expires: u32::MAX } };
            choice.see(store(1, 10), Seconds(1));
            choice.see(store(2, 1000), Seconds(1));
            // `lru` has only the long item, which one read of three is for, `clock` the short one.
            let [lru, clock] = ["lru", "clock"].map(|name| choice.sample.find(policy(name)).unwrap());
            for number in 0..20_000 {
                let (hash, has) = if number % 3 == 0 { (2, lru) } else { (1, clock) };
                let worth = choice.worth_of(choice.sample.keys().find(hash).unwrap());
                let mut had = [false; CANDIDATES.len() + 1];
                had[has] = true;
                choice.chooser.read_worth(choice.sample.served(), 100, (&had, worth));
            }
            choice.chooser.choice(|_| true).map(|number| choice.sample.sets()[number].policy)
        };
        assert_eq!([Worth::Objects, Worth::Bytes].map(take_over), [None, Some(policy("lru"))]);
    }

    #[test]
    fn the_comparison_of_another_server_continues_once_its_policy_has_taken_over() {
        let mut choice = serving("sieve", 100);
        let mut had = [false; CANDIDATES.len() + 1];
        had[1] = true;
        (0..1_000).for_each(|_| choice.chooser.read(choice.sample.served(), 100, &had));
        let comparison = Comparison { is_filled: true, ..choice.comparison() };
        assert_eq!(comparison.served, policy("sieve"));
        assert!(comparison.changes > 0.5 && comparison.rivals.len() == CANDIDATES.len() - 1);
        let mut next = Choice::new(1 << 20);
        next.restore(comparison.clone());
        let pulse = |second| Pulse { now: Seconds(second), is_full: true, capacity: 1e4, ..Pulse::default() };
        // The switch to the previous policy is not complete.
        next.pulse(pulse(1), Some(policy("clock")));
        assert_eq!((next.comparison(), next.chooser.choice(|_| true)), (comparison.clone(), None));
        next.pulse(pulse(2), Some(policy("sieve")));
        assert_eq!(next.chooser.choice(|_| true), Some(1));
        assert_eq!(next.comparison(), comparison);
        assert_eq!((next.filling, next.better()), (Filling::Over, None), "no recent reads");
    }

    #[test]
    fn the_comparison_of_another_server_is_forgotten_if_the_policy_does_not_come() {
        let comparison = Comparison { is_filled: false, ..serving("sieve", 100).comparison() };
        let mut next = Choice::new(1 << 20);
        next.restore(comparison);
        for second in [1, 1 + ENDS_WITHIN] {
            assert!(next.restored.is_some());
            next.pulse(Pulse { now: Seconds(second), ..Pulse::default() }, Some(policy("clock")));
        }
        assert!(next.restored.is_none());
        assert_eq!(next.comparison().served, policy("clock"));
    }

    #[test]
    fn when_memory_is_full_for_the_first_time_another_policy_takes_over_if_items_are_long() {
        let first = "clock:bits=2";
        let when_full = Better { policy: policy(FULL), why: WhyBetter::MemoryIsFull };
        let filled = [(false, first), (false, first), (true, first)];
        let and = |more: &[(bool, &'static str)]| [&filled[..], more].concat();
        assert_eq!(taking_over(1000, &filled), Some(when_full));
        assert_eq!(taking_over(1000, &and(&[(true, first)])), Some(when_full), "no room yet");
        assert_eq!(taking_over(1000, &and(&[(true, first); 60])), None, "nobody wants it");
        assert_eq!(taking_over(100, &filled), None, "its notes would take a fifth of the memory");
        assert_eq!(taking_over(1000, &filled[..2]), None, "not full");
        assert_eq!(taking_over(1000, &[(true, first); 2]), None, "it was full before");
        assert_eq!(
            taking_over(1000, &[(false, first), (false, "lru"), (true, "lru")]),
            None,
            "somebody has chosen"
        );
        assert_eq!(taking_over(1000, &and(&[(true, "lru"), (true, first)])), None, "once");
        let same = FULL;
        assert_eq!(taking_over(1000, &[(false, same), (true, same)]), None, "it is there");
    }
}
