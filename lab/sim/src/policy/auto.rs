//! A cache that chooses its policy: the server's advisor observes a sample of the requests and returns a policy that would miss less. The new
//! policy adopts the items in the order in which the old one would have evicted them.

use guira_advice::{Advisor, Observed, Pulse, Subjects, What};
use guira_slab::Policy as Evicting;
use guira_slab::policy::miniature::{Miniature, NEVER, Newcomer};
use guira_sync::clock::Seconds;
use guira_workload::rng::mix64;
use guira_workload::trace::Action;
use std::time::Duration;

use super::engine::{expires, second};
use super::{Id, Policy, Weights};
use crate::run::Measure;
use crate::stream::Stream;

/// Bytes of an object whose size is not simulated. The advisor's share of memory, as in the server, depends on it.
const OBJECT_BYTES: u32 = 1024;
/// The simulator shows no families of keys.
const DELIMITER: u8 = b':';

#[derive(Debug)]
pub(crate) struct Auto<'a> {
    cache: Box<dyn Miniature>,
    policy: Evicting,
    advisor: Advisor,
    weights: Weights,
    /// When each key expires; empty as long as none does.
    expiries: Vec<u32>,
    stream: &'a Stream,
    pace: u64,
    limit: u64,
    keys: usize,
    /// Bytes that stand for one unit of weight.
    unit: u32,
    number: usize,
    /// The second of the last pulse.
    pulsed: Option<u32>,
    reads: u64,
    hits: u64,
    /// An object was evicted.
    is_full: bool,
}

impl<'a> Auto<'a> {
    /// A cache for `keys` keys of `stream`, of which `pace` requests take a second if it has no times. It begins with the policy `first`.
    pub(crate) fn new(
        first: Evicting,
        (limit, measure): (u64, Measure),
        (stream, keys): (&'a Stream, usize),
        pace: u64,
    ) -> Self {
        let unit = if measure == Measure::Objects { OBJECT_BYTES } else { 1 };
        // If the stream is a sample, the server has the memory for all keys.
        let bytes = limit as f64 * f64::from(unit) / stream.rate();
        Auto {
            cache: first.miniature(0, limit, keys, 0),
            policy: first,
            advisor: Advisor::new(
                bytes as usize / Advisor::MEMORY_PART,
                DELIMITER,
                (Subjects::SizesAndPolicies, &[]),
            ),
            weights: Weights::default(),
            expiries: if stream.ttls.is_usual() { Vec::new() } else { vec![NEVER; keys] },
            stream,
            pace,
            limit,
            keys,
            unit,
            number: 0,
            pulsed: None,
            reads: 0,
            hits: 0,
            is_full: false,
        }
    }

    fn second(&self) -> u32 {
        second(self.stream, self.pace, self.number)
    }

    fn expiry(&self, id: Id) -> u32 {
        self.expiries.get(id as usize).copied().unwrap_or(NEVER)
    }

    /// The object of `id` expires at `second`.
    fn renew(&mut self, id: Id, second: u32) {
        if let Some(known) = self.expiries.get_mut(id as usize) {
            *known = second;
        }
    }

    fn see(&self, id: Id, what: What) {
        let hash = mix64(u64::from(id) + 1);
        if hash < self.advisor.threshold() {
            self.advisor.see(Observed { key: b"", hash, what }, Seconds(self.second()));
        }
    }

    /// What a server does once in a second.
    fn tick(&mut self) {
        let now = self.second();
        if self.pulsed.replace(now) == Some(now) {
            return;
        }
        let pulse = Pulse {
            now: Seconds(now),
            reads: self.reads,
            hits: self.hits,
            is_full: self.is_full,
            // The simulator does not limit the time for samples.
            busy: Duration::from_secs(1_000_000).saturating_mul(now),
            capacity: self.limit as f64 * f64::from(self.unit),
            stored: 0,
        };
        self.advisor.pulse(pulse, Some(self.policy), &[]);
        let Some(better) = self.advisor.better() else { return };
        self.change_to(better.policy, now);
        self.advisor.pulse(pulse, Some(self.policy), &[]);
    }

    fn change_to(&mut self, policy: Evicting, now: u32) {
        self.policy = policy;
        if self.cache.tune(policy) {
            return;
        }
        let mut heir = policy.miniature(0, self.limit, self.keys, 0);
        while let Some((id, weight)) = self.cache.evict(now) {
            heir.adopt(
                id,
                Newcomer { weight, hash: mix64(u64::from(id)) as u32, expires: self.expiry(id) },
                now,
            );
        }
        self.cache = heir;
    }
}

impl Policy for Auto<'_> {
    fn begin(&mut self, number: usize) {
        self.number = number;
        self.tick();
    }

    fn read(&mut self, id: Id) -> bool {
        let hit = self.cache.read(id, self.second());
        let weight = self.weights.get(id).saturating_mul(self.unit);
        if self.stream.actions.get(self.number) == Action::Get {
            self.reads += 1;
            self.hits += u64::from(hit);
            self.see(id, if hit { What::Hit { weight, expires: self.expiry(id) } } else { What::Miss });
        } else if hit && !self.stream.ttls.is_usual() {
            let expires = expires(self.stream, self.pace, self.number);
            self.cache.renew(id, expires);
            self.renew(id, expires);
            self.see(id, What::Stored { weight, expires });
        }
        hit
    }

    fn insert(&mut self, id: Id, weight: u32) {
        self.weights.set(id, weight);
        let expires = expires(self.stream, self.pace, self.number);
        self.renew(id, expires);
        let before = self.cache.used() + u64::from(weight);
        self.cache.insert(id, Newcomer { weight, hash: mix64(u64::from(id)) as u32, expires }, self.second());
        self.is_full |= self.cache.used() < before && self.cache.holds(id);
        let weight = weight.saturating_mul(self.unit);
        self.see(id, What::Stored { weight, expires });
    }

    fn remove(&mut self, id: Id) -> bool {
        let was_held = self.cache.holds(id);
        self.cache.remove(id);
        self.see(id, What::Deleted);
        was_held
    }

    fn held(&self) -> u64 {
        self.cache.used()
    }
}
