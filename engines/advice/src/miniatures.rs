//! Miniature caches of a policy, one for each size.

use crate::keys::{Id, Keys, Known};
use guira_slab::Policy;
use guira_slab::policy::miniature::{Miniature, Newcomer};

/// The caches of a policy, by size.
#[derive(Debug)]
pub(crate) struct Miniatures {
    pub(crate) policy: Policy,
    /// The size of each cache, as a multiple of the memory.
    pub(crate) scales: &'static [f64],
    pub(crate) caches: Vec<Box<dyn Miniature>>,
}

impl Miniatures {
    /// Empty caches with a limit of 0, for at most `keys` keys.
    pub(crate) fn new(policy: Policy, scales: &'static [f64], keys: usize) -> Self {
        let caches = (1..).zip(scales).map(|(seed, _)| policy.miniature(seed, 0, keys, keys)).collect();
        Miniatures { policy, scales, caches }
    }

    /// Whether any of them holds `id`.
    pub(crate) fn holds(&self, id: Id) -> bool {
        self.caches.iter().any(|cache| cache.holds(id))
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.caches.iter_mut().for_each(|cache| cache.remove(id));
    }

    /// Stores `id` in each cache that does not hold it, and in the others too if the server stored another value.
    pub(crate) fn store(&mut self, id: Id, known: &Known, stored: Stored, seconds: u32) {
        let newcomer = self.newcomer(known);
        for cache in &mut self.caches {
            match cache.holds(id) {
                false => cache.insert(id, newcomer, seconds),
                true if stored == Stored::Anew => cache.replace(id, newcomer, seconds),
                true => {}
            }
        }
    }

    /// Applies the options of this policy. False if that takes a new order, since it is another policy.
    pub(crate) fn tune(&mut self, policy: Policy) -> bool {
        let is_same = self.caches.iter_mut().all(|cache| cache.tune(policy));
        if is_same {
            self.policy = policy;
        }
        is_same
    }

    /// Moves the keys to each of `heirs`, in the order of eviction.
    pub(crate) fn pass_on(mut self, heirs: &mut [&mut Miniatures], keys: &Keys, seconds: u32) {
        for (scale, cache) in self.caches.iter_mut().enumerate() {
            while let Some((id, _)) = cache.evict(seconds) {
                let Some(known) = keys.get(id) else { continue };
                for heir in &mut *heirs {
                    let newcomer = heir.newcomer(known);
                    heir.caches[scale].adopt(id, newcomer, seconds);
                }
            }
        }
    }

    /// A key with the weight of its item and of the policy's notes.
    fn newcomer(&self, known: &Known) -> Newcomer {
        // Sampling uses the upper bits of the hash.
        let (weight, hash) =
            (known.weight.max(1).saturating_add(self.policy.item_bytes()), known.hash as u32);
        Newcomer { weight, hash, expires: known.expires }
    }

    /// Sets the limit of the present size.
    pub(crate) fn resize(&mut self, limit: f64, seconds: u32) {
        for (cache, scale) in self.caches.iter_mut().zip(self.scales) {
            cache.resize((limit * scale) as u64, seconds);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.bytes()).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The server missed the key; a larger cache may have it.
    AfterMiss,
    Anew,
}
