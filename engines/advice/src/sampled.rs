//! Sampled keys, and the miniature caches that hold them.

use crate::keys::{Id, Keys, Known};
use crate::load::Load;
use crate::miniatures::{Miniatures, Stored};
use crate::observed::Pulse;
use crate::sketch::ALL_HASHES;
use guira_slab::Policy;
use guira_sync::clock::Seconds;
use std::time::Duration;

/// With fewer keys in a sample there is nothing to be learnt, and with more there is hardly more.
pub(crate) const KEYS_RANGE: std::ops::RangeInclusive<usize> = 224..=16_384;
/// What is left of the sample then: a flood may need much more time than there is.
const LESS_IN_FLOOD: f64 = 0.5;
/// What is left of the sample if its keys need a little more memory than there is.
const LESS_IN_MEMORY: f64 = 0.75;
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// The share of all keys at first, and at most.
    pub(crate) first_rate: f64,
    /// Keys that are known at once.
    pub(crate) keys: usize,
    /// Sampled requests in a second of processor time.
    pub(crate) per_cpu_second: f64,
}

#[derive(Debug)]
pub(crate) struct Sampled {
    extent: Extent,
    threshold: u64,
    /// Bytes of items that there is room for beside what the served policy, of these miniatures, notes of them.
    capacity: f64,
    served: usize,
    /// The room of the miniatures of the present size.
    limit: f64,
    keys: Keys,
    sets: Vec<Miniatures>,
    load: Load,
    now: Seconds,
}

impl Sampled {
    /// A miniature for each of the policies, and of these one for each of the scales of the memory.
    pub(crate) fn new(
        policies: impl Iterator<Item = Policy>,
        scales: &'static [f64],
        extent: Extent,
    ) -> Self {
        Sampled {
            extent,
            threshold: (extent.first_rate * ALL_HASHES) as u64,
            capacity: 0.0,
            served: 0,
            limit: 0.0,
            keys: Keys::new(extent.keys),
            sets: policies.map(|policy| Miniatures::new(policy, scales, extent.keys)).collect(),
            load: Load::new(extent.per_cpu_second),
            now: Seconds(0),
        }
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The share of keys that is sampled.
    pub(crate) fn rate(&self) -> f64 {
        self.threshold as f64 / ALL_HASHES
    }

    pub(crate) fn capacity(&self) -> f64 {
        self.capacity
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn sets(&self) -> &[Miniatures] {
        &self.sets
    }

    /// A request was seen; what is known of its key is forgotten, if it has expired. At most so many are, and then fewer keys are sampled.
    pub(crate) fn look(&mut self, hash: u64, now: Seconds) {
        self.now = now;
        let is_flood = self.load.count(self.rate());
        if let Some(id) = self.keys.find(hash)
            && self.keys.get(id).is_some_and(|known| known.expires <= now.0)
        {
            self.remove(id);
        }
        if is_flood {
            self.lower(LESS_IN_FLOOD);
        }
    }

    /// A key was read: tells of each miniature, by the number of its policy and of its scale, whether it has the key. `None` if none knows it.
    pub(crate) fn read(&mut self, hash: u64, mut tell: impl FnMut(usize, usize, bool)) -> Option<Id> {
        let id = self.keys.find(hash)?;
        for (number, set) in self.sets.iter_mut().enumerate() {
            for (scale, cache) in set.caches.iter_mut().enumerate() {
                tell(number, scale, cache.read(id, self.now.0));
            }
        }
        Some(id)
    }

    /// The server did not have it.
    pub(crate) fn missed(&mut self, id: Id) {
        if let Some(known) = self.keys.get_mut(id) {
            known.missed = true;
        }
    }

    pub(crate) fn hit(&mut self, hash: u64, weight: u32, expires: u32) {
        self.hold(Known { hash, weight, expires, missed: false }, Stored::AfterMiss);
    }

    pub(crate) fn stored(&mut self, hash: u64, weight: u32, expires: u32) {
        let known = self.keys.find(hash).and_then(|id| self.keys.get(id));
        let stored = if known.is_some_and(|known| known.missed) { Stored::AfterMiss } else { Stored::Anew };
        self.hold(Known { hash, weight, expires, missed: false }, stored);
    }

    /// Stores a key in the miniatures.
    fn hold(&mut self, known: Known, stored: Stored) {
        let id = match self.keys.find(known.hash) {
            Some(id) => id,
            None => {
                if self.keys.is_full() {
                    self.make_room();
                }
                if known.hash >= self.threshold || self.keys.is_full() {
                    return;
                }
                self.keys.add(known)
            }
        };
        if let Some(place) = self.keys.get_mut(id) {
            *place = known;
        }
        self.sets.iter_mut().for_each(|set| set.store(id, &known, stored, self.now.0));
    }

    /// Forgets keys that no miniature holds; if these are few, fewer are sampled.
    fn make_room(&mut self) {
        let held = |id| self.sets.iter().any(|set| set.holds(id));
        let gone: Vec<Id> = self.keys.all().map(|(id, _)| id).filter(|id| !held(*id)).collect();
        gone.iter().for_each(|id| self.keys.remove(*id));
        if gone.len() < self.keys.most() / 8 {
            self.lower(LESS_IN_MEMORY);
        }
    }

    pub(crate) fn forget(&mut self, hash: u64) {
        if let Some(id) = self.keys.find(hash) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: Id) {
        self.sets.iter_mut().for_each(|set| set.remove(id));
        self.keys.remove(id);
    }

    pub(crate) fn flush(&mut self) {
        let all: Vec<Id> = self.keys.all().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.remove(id));
    }

    /// Samples fewer keys than before: this share of them.
    pub(crate) fn lower(&mut self, share: f64) {
        self.threshold = ((self.threshold as f64 * share) as u64).max(1);
        let threshold = self.threshold;
        let gone: Vec<Id> =
            self.keys.all().filter(|(_, known)| known.hash >= threshold).map(|(id, _)| id).collect();
        gone.into_iter().for_each(|id| self.remove(id));
        self.fit();
    }

    /// Gives the miniatures the room that they should have.
    fn fit(&mut self) {
        self.limit = self.room();
        self.sets.iter_mut().for_each(|set| set.resize(self.limit, self.now.0));
    }

    /// Room for items and for what is noted of them: a policy that notes less has more of it for items.
    fn room(&self) -> f64 {
        let notes = f64::from(self.sets[self.served].policy.item_bytes());
        let share = self.keys.mean_weight().map_or(0.0, |mean| notes / mean.max(1.0));
        self.capacity * self.rate() * (1.0 + share)
    }

    pub(crate) fn pulse(&mut self, pulse: Pulse) {
        self.now = pulse.now;
        self.capacity = pulse.capacity;
        if (self.room() - self.limit).abs() > self.limit / 100.0 {
            self.fit();
        }
        if let Some(share) = self.load.pulse(pulse, self.rate()) {
            self.lower(share);
        }
    }

    /// The server has worked for so long since this was asked last. If few keys are sampled, though there is memory and time for four times as
    /// many, it may be twice as many.
    pub(crate) fn raise_if_cheap(&mut self, busy: Duration) {
        if self.load.is_cheap(busy)
            && self.keys.len() < self.keys.most() / 4
            && self.rate() < self.extent.first_rate
        {
            self.threshold =
                self.threshold.saturating_mul(2).min((self.extent.first_rate * ALL_HASHES) as u64);
            self.fit();
        }
    }

    /// The number of the miniatures of the policy that is served.
    pub(crate) fn served(&self) -> usize {
        self.served
    }

    /// These are the miniatures of the policy that is served.
    pub(crate) fn serve(&mut self, number: usize) {
        self.served = number;
    }

    /// The number of the miniatures of this policy, with these options.
    pub(crate) fn find(&self, policy: Policy) -> Option<usize> {
        self.sets.iter().position(|set| set.policy == policy)
    }

    /// Miniatures of a policy, which hold nothing.
    fn empty(&self, policy: Policy) -> Miniatures {
        let mut set = Miniatures::new(policy, self.sets[self.served].scales, self.keys.most());
        set.resize(self.limit, self.now.0);
        set
    }

    /// Puts miniatures of another policy in the place of some. They begin with what those of the served one hold.
    pub(crate) fn put(&mut self, number: usize, policy: Policy) {
        let mut heir = self.empty(policy);
        for (id, known) in self.keys.all() {
            if self.sets[self.served].holds(id) {
                heir.store(id, known, Stored::AfterMiss, self.now.0);
            }
        }
        self.sets[number] = heir;
    }

    /// `policy`, whose miniatures have this number, or get it behind all, takes over from the served one. They go on with what those of that one hold, as the cache
    /// does, and not with what they have kept since long ago, which the cache does not have; and so do those of the former one, should it come back, if it is not
    /// the same one with other options. While they change hands, there are two sets of miniatures more.
    pub(crate) fn hand_over(&mut self, number: usize, policy: Policy) {
        let (served, former) = (self.served, self.sets[self.served].policy);
        let is_new = self.sets.get(number).is_none_or(|set| set.policy != policy) && number != served;
        if is_new {
            let set = self.empty(policy);
            self.sets.truncate(number);
            self.sets.push(set);
        }
        if self.sets[served].tune(policy) {
            // The cache keeps its order then. The former one's goes on with what that of the other options has.
            if is_new {
                self.put(number, former);
            } else if number != served {
                self.sets[number].tune(former);
            }
            self.sets.swap(number, served);
        } else {
            let back = self.empty(former);
            let before = std::mem::replace(&mut self.sets[served], back);
            self.sets[number] = self.empty(policy);
            let heirs = self.sets.iter_mut().enumerate();
            let heirs = heirs.filter(|(set, _)| [number, served].contains(set)).map(|(_, set)| set);
            before.pass_on(&mut heirs.collect::<Vec<_>>(), &self.keys, self.now.0);
        }
        self.served = number;
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.bytes() + self.sets.iter().map(Miniatures::bytes).sum::<usize>()
    }
}
