//! The models as threads use them.

use crate::advice::Advice;
use crate::choice::{self, Better, Choice, Policies};
use crate::conclusions::Conclusions;
use crate::division::{ChunkUse, Division};
use crate::model::{self, Model};
use crate::observed::{Observed, Pulse};
use crate::worth::Worth;
use guira_contract::SizeWeight;
use guira_slab::Policy;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::{Mutex, MutexGuard};

/// One part in this many of the memory for all models is for the division of memory among sizes.
const DIVISION_PART: usize = 8;

#[derive(Debug)]
pub struct Advisor {
    /// Relaxed: a request more or less.
    threshold: AtomicU64,
    /// Requests that were skipped, since another thread held the models. Relaxed: a count.
    dropped: AtomicU64,
    /// LOCK: learnt. Leaf; no worker waits for it.
    learnt: Mutex<Learnt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subjects {
    /// The misses of other sizes, and of other policies at the present size.
    SizesAndPolicies,
    /// Sizes alone: the engine has one policy.
    Sizes,
}

impl Subjects {
    /// The least memory with which an advisor can learn, in bytes.
    pub const fn least_budget(self) -> usize {
        match self {
            Subjects::SizesAndPolicies => choice::LEAST_BUDGET,
            Subjects::Sizes => model::LEAST_BUDGET,
        }
    }
}

/// The models, which take no memory before the first sampled request.
#[derive(Debug)]
struct Learnt {
    budget: usize,
    delimiter: u8,
    subjects: Subjects,
    worth: Worth,
    /// The sizes of chunks that memory is divided among, in ascending order.
    chunks: Vec<usize>,
    /// The last pulse before there were models.
    last: Option<(Pulse, Option<Policy>)>,
    /// The conclusions of another server, until there are models.
    restored: Conclusions,
    models: Option<Models>,
}

impl Learnt {
    fn models(&mut self) -> &mut Models {
        let Learnt { budget, delimiter, subjects, worth, chunks, last, restored, models } = self;
        models.get_or_insert_with(|| {
            let mut models = Models::new(*budget, *delimiter, (*subjects, chunks), *worth);
            models.restore(std::mem::take(restored));
            if let Some((pulse, policy)) = last.take() {
                models.pulse(pulse, policy, &[]);
            }
            models
        })
    }
}

#[derive(Debug)]
struct Models {
    /// `None` if the engine has one policy.
    choice: Option<Choice>,
    /// `None` if the engine does not divide memory among sizes of items, or the budget is too small.
    division: Option<Division>,
    /// `None` if the budget is too small.
    sizes: Option<Model>,
}

impl Models {
    fn new(budget: usize, delimiter: u8, (subjects, chunks): (Subjects, &[usize]), worth: Worth) -> Self {
        let for_division = (budget / DIVISION_PART).clamp(Division::LEAST_BUDGET, Division::MOST_BUDGET);
        let divides = !chunks.is_empty() && budget >= for_division + subjects.least_budget();
        let division = divides.then(|| Division::new(for_division, chunks).aiming_at(worth));
        let budget = budget - if divides { for_division } else { 0 };
        if subjects == Subjects::Sizes {
            return Models { choice: None, division, sizes: Some(Model::new(budget, delimiter)) };
        }
        let for_sizes = (budget / 2).max(model::LEAST_BUDGET);
        let is_enough = budget >= for_sizes + choice::LEAST_BUDGET;
        let sizes = is_enough.then(|| Model::new(for_sizes, delimiter));
        let choice = Choice::new(if is_enough { budget - for_sizes } else { budget }).aiming_at(worth);
        Models { choice: Some(choice), division, sizes }
    }

    fn restore(&mut self, Conclusions { comparison, ages }: Conclusions) {
        if let Some((choice, comparison)) = self.choice.as_mut().zip(comparison) {
            choice.restore(comparison);
        }
        if let Some(division) = &mut self.division {
            division.restore(&ages);
        }
    }

    fn threshold(&self) -> u64 {
        let sizes = self.sizes.as_ref().map_or(0, Model::threshold);
        let division = self.division.as_ref().map_or(0, Division::threshold);
        sizes.max(self.choice.as_ref().map_or(0, Choice::threshold)).max(division)
    }

    fn see(&mut self, observed: Observed<'_>, now: Seconds) {
        // Each has its own sample, and counts its cost.
        if let Some(choice) = self.choice.as_mut().filter(|choice| observed.hash < choice.threshold()) {
            choice.see(observed, now);
        }
        if let Some(division) = self.division.as_mut().filter(|division| observed.hash < division.threshold())
        {
            division.see(observed, now);
        }
        if let Some(sizes) = self.sizes.as_mut().filter(|sizes| observed.hash < sizes.threshold()) {
            sizes.see(observed, now);
        }
    }

    fn pulse(&mut self, pulse: Pulse, policy: Option<Policy>, uses: &[ChunkUse]) {
        if let Some(choice) = &mut self.choice {
            choice.pulse(pulse, policy);
        }
        if let Some(division) = &mut self.division {
            division.count_uses(uses);
            division.pulse(pulse);
        }
        if let Some(sizes) = &mut self.sizes {
            policy.into_iter().for_each(|policy| sizes.serve(policy));
            sizes.pulse(pulse);
        }
    }
}

impl Advisor {
    /// A server gives an advisor one part in this many of its memory.
    pub const MEMORY_PART: usize = 64;

    /// An advisor that takes at most `budget` bytes of memory, or [`Subjects::least_budget`] if that is more, and none before the first
    /// request. A key's family ends at `delimiter`. `chunks` are the sizes that memory is divided among, in ascending order; empty if it
    /// is not.
    pub fn new(budget: usize, delimiter: u8, (subjects, chunks): (Subjects, &[usize])) -> Self {
        Advisor {
            // All keys, until there are models.
            threshold: AtomicU64::new(u64::MAX),
            dropped: AtomicU64::new(0),
            learnt: Mutex::new(Learnt {
                budget,
                delimiter,
                subjects,
                worth: Worth::Objects,
                chunks: chunks.to_vec(),
                last: None,
                restored: Conclusions::default(),
                models: None,
            }),
        }
    }

    /// The same with another aim.
    #[must_use]
    pub fn aiming_at(self, worth: Worth) -> Self {
        self.learnt().worth = worth;
        self
    }

    /// Callers report requests for keys with a hash below this.
    #[inline]
    pub fn threshold(&self) -> u64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Learns from a request, or skips it if another thread holds the models: no thread waits.
    pub fn see(&self, observed: Observed<'_>, now: Seconds) {
        let Some(mut learnt) = self.learnt.try_lock() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let models = learnt.models();
        models.see(observed, now);
        self.sample_below(models.threshold());
    }

    fn sample_below(&self, threshold: u64) {
        if threshold != self.threshold() {
            self.threshold.store(threshold, Ordering::Relaxed);
        }
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock()
    }

    /// Reports the state of the server, its policy (`None` if miniatures cannot have it) and the items of each size.
    pub fn pulse(&self, pulse: Pulse, policy: Option<Policy>, uses: &[ChunkUse]) {
        let mut learnt = self.learnt();
        let Some(models) = &mut learnt.models else {
            learnt.last = Some((pulse, policy));
            return;
        };
        models.pulse(pulse, policy, uses);
        self.sample_below(models.threshold());
    }

    /// The conclusions so far, for another server that takes over the items.
    pub fn conclusions(&self) -> Conclusions {
        let learnt = self.learnt();
        let Some(models) = &learnt.models else { return learnt.restored.clone() };
        Conclusions {
            comparison: models.choice.as_ref().map(Choice::comparison),
            ages: models.division.as_ref().map_or_else(Vec::new, Division::ages),
        }
    }

    /// Continues with what another server has learnt about these items. To be called before the first request.
    pub fn restore(&self, conclusions: Conclusions) {
        let mut learnt = self.learnt();
        match &mut learnt.models {
            Some(models) => models.restore(conclusions),
            None => learnt.restored = conclusions,
        }
    }

    /// Removes all items.
    pub fn flush(&self) {
        if let Some(Models { choice, division, sizes }) = &mut self.learnt().models {
            choice.iter_mut().for_each(Choice::flush);
            division.iter_mut().for_each(Division::flush);
            sizes.iter_mut().for_each(Model::flush);
        }
    }

    /// Sets the counters to zero.
    pub fn reset(&self) {
        // The choice only keeps recent counts, and the division shows none.
        if let Some(Models { sizes, .. }) = &mut self.learnt().models {
            sizes.iter_mut().for_each(Model::reset);
        }
        self.dropped.store(0, Ordering::Relaxed);
    }

    /// The misses of other sizes; `None` if the budget is too small.
    pub fn advice(&self) -> Option<Advice> {
        self.learnt().models().sizes.as_ref().map(Model::advice)
    }

    /// The misses of the policies at the present size; `None` if the engine has one policy.
    pub fn policies(&self) -> Option<Policies> {
        self.learnt().models().choice.as_ref().map(Choice::policies)
    }

    /// A policy that misses clearly less than the present one, if there is one.
    pub fn better(&self) -> Option<Better> {
        self.learnt().models.as_ref()?.choice.as_ref()?.better()
    }

    /// The weight of ages by the size of items; empty if memory is not divided among sizes.
    pub fn size_weights(&self) -> Vec<SizeWeight> {
        let learnt = self.learnt();
        let division = learnt.models.as_ref().and_then(|models| models.division.as_ref());
        division.map_or_else(Vec::new, Division::weights)
    }

    /// Requests that were skipped, since another thread held the models.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::What;
    use guira_slab::policy::seg_lru::SegLruOptions;
    use guira_slab::policy::sieve::SieveOptions;
    use std::time::Duration;

    const PULSE: Pulse = Pulse {
        now: Seconds(1),
        reads: 0,
        hits: 0,
        is_full: false,
        busy: Duration::from_secs(1),
        capacity: 1e6,
        stored: 0,
    };

    #[test]
    fn models_take_no_memory_before_there_is_a_request_and_know_then_what_they_were_told() {
        let advisor = Advisor::new(1 << 20, b':', (Subjects::SizesAndPolicies, &[]));
        advisor.pulse(PULSE, Some(Policy::Sieve(SieveOptions)), &[]);
        advisor.flush();
        advisor.reset();
        assert!(advisor.better().is_none() && advisor.learnt().models.is_none());
        let what = What::Stored { weight: 100, expires: u32::MAX };
        advisor.see(Observed { key: b"k", hash: 1, what }, Seconds(1));
        assert!(advisor.learnt().models.is_some());
        assert_eq!(advisor.policies().unwrap().objects, 1);
        let advice = advisor.advice().unwrap();
        let served: Vec<_> = advice.policies.iter().filter(|one| one.is_served).collect();
        assert_eq!(served.len(), 1);
        assert_eq!(served[0].policy.name(), "sieve");
    }

    #[test]
    fn what_an_advisor_has_learnt_passes_through_servers_without_requests() {
        let chunks = [64, 96, 1024, 2048];
        let advisor = || Advisor::new(1 << 20, b':', (Subjects::SizesAndPolicies, &chunks));
        let text = "learnt-policy filled 2.000 sieve\nlearnt-rival 40.00 50 35.00 lru\n\
                    learnt-age 96 2.00000 1.50000\nlearnt-age 2048 0.50000 0.50000\n";
        let idle = advisor();
        idle.restore(Conclusions::read(text));
        assert_eq!(idle.conclusions().to_string(), text);
        let busy = advisor();
        busy.restore(idle.conclusions());
        busy.pulse(PULSE, Some(Policy::Sieve(SieveOptions)), &[]);
        busy.see(Observed { key: b"k", hash: 1, what: What::Miss }, Seconds(1));
        let weights: Vec<_> = busy.size_weights().iter().map(|one| (one.upto, one.weight)).collect();
        assert_eq!(weights, [(96, 0.5), (2048, 2.0)]);
        let conclusions = busy.conclusions().to_string();
        assert!(conclusions.contains("learnt-rival 40.00 50 35.00 lru\n"), "{conclusions}");
        assert!(conclusions.contains("filled 2.000 sieve\n"), "{conclusions}");
    }

    #[test]
    fn where_no_policy_is_to_be_chosen_there_is_advice_about_sizes_for_less() {
        let least = Subjects::Sizes.least_budget();
        let advisor = Advisor::new(least, b':', (Subjects::Sizes, &[]));
        assert!(advisor.policies().is_none() && advisor.better().is_none());
        assert!(advisor.advice().unwrap().sample.bytes <= least as u64);
        // Sizes have their own sample from the beginning.
        advisor.see(Observed { key: b"k", hash: u64::MAX / 2, what: What::Miss }, Seconds(1));
        assert!(advisor.threshold() < u64::MAX / 2);
    }

    #[test]
    fn each_model_pays_for_its_own_sample_and_keeps_to_the_budget() {
        const BUDGET: usize = 4 << 20;
        let advisor = Advisor::new(BUDGET, b':', (Subjects::SizesAndPolicies, &[]));
        let policy = Some(Policy::SegLru(SegLruOptions::default()));
        let mut state = 1u64;
        for second in 1..120 {
            let pulse = Pulse {
                now: Seconds(second),
                reads: u64::from(second) * 20_000,
                busy: Duration::from_secs(u64::from(second)),
                capacity: 1e7,
                ..Pulse::default()
            };
            advisor.pulse(pulse, policy, &[]);
            for _ in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Of 4,000 keys, whose hashes are spread.
                let hash = (state >> 33) % 4_000 * (u64::MAX / 4_000);
                if hash < advisor.threshold() {
                    let what = What::Stored { weight: 100, expires: second + 600 };
                    advisor.see(Observed { key: b"k", hash, what }, Seconds(second));
                }
            }
        }
        // 20,000 requests a second of which a sixteenth is looked at are no more than is allowed for other sizes.
        let (advice, policies) = (advisor.advice().unwrap(), advisor.policies().unwrap());
        assert!(advice.sample.rate > 0.05, "{}", advice.sample.rate);
        assert!(policies.rate > 0.1, "{}", policies.rate);
        assert_eq!(policies.misses.len(), 9, "seg-lru is served, and no candidate");
        assert!(
            advice.sample.bytes + policies.bytes <= BUDGET as u64,
            "{} and {}",
            advice.sample.bytes,
            policies.bytes
        );
    }
}
