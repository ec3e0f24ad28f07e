//! Miniature caches of a policy, one for each size.

use crate::advice::SCALES;
use crate::keys::{Id, Known};
use guira_slab::Policy;
use guira_slab::policy::miniature::{Keeper, KeeperUser, Miniature, Newcomer};
use std::fmt::Debug;

/// A miniature cache of any policy.
pub(crate) trait Small: Debug + Send {
    fn read(&mut self, id: Id, seconds: u32) -> bool;
    fn insert(&mut self, id: Id, newcomer: Newcomer, seconds: u32);
    fn replace(&mut self, id: Id, newcomer: Newcomer, seconds: u32);
    fn remove(&mut self, id: Id);
    fn holds(&self, id: Id) -> bool;
    fn resize(&mut self, limit: u64, seconds: u32);
    fn len(&self) -> usize;
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
struct Kept<K>(Miniature<K>);

impl<K: Keeper + Debug + Send> Small for Kept<K> {
    fn read(&mut self, id: Id, seconds: u32) -> bool {
        self.0.read(id, || seconds)
    }

    fn insert(&mut self, id: Id, newcomer: Newcomer, seconds: u32) {
        self.0.insert(id, newcomer, seconds);
    }

    fn replace(&mut self, id: Id, newcomer: Newcomer, seconds: u32) {
        self.0.replace(id, newcomer, seconds);
    }

    fn remove(&mut self, id: Id) {
        self.0.remove(id);
    }

    fn holds(&self, id: Id) -> bool {
        self.0.holds(id)
    }

    fn resize(&mut self, limit: u64, seconds: u32) {
        self.0.resize(limit, seconds);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

/// Makes a miniature of a keeper.
struct Make {
    keys: usize,
}

impl KeeperUser for Make {
    type Output = Box<dyn Small>;

    fn with<K: Keeper + Debug + Send + 'static>(self, keeper: K) -> Box<dyn Small> {
        Box::new(Kept(Miniature::new(keeper, 0).with_keys(self.keys)))
    }
}

/// The caches of a policy, by size.
#[derive(Debug)]
pub(crate) struct Miniatures {
    pub(crate) policy: Policy,
    pub(crate) caches: [Box<dyn Small>; SCALES.len()],
}

impl Miniatures {
    /// Empty caches without room, for at most `keys` keys.
    pub(crate) fn new(policy: Policy, keys: usize) -> Self {
        let mut seed = 0;
        let caches = SCALES.map(|_| {
            seed += 1;
            policy.keep(seed, Make { keys })
        });
        Miniatures { policy, caches }
    }

    /// Whether any of them holds `id`.
    pub(crate) fn holds(&self, id: Id) -> bool {
        self.caches.iter().any(|cache| cache.holds(id))
    }

    pub(crate) fn remove(&mut self, id: Id) {
        self.caches.iter_mut().for_each(|cache| cache.remove(id));
    }

    /// Stores `id` where it is not held. What is held stays as it is, or is stored anew if it is another value.
    pub(crate) fn store(&mut self, id: Id, known: &Known, stored: Stored, seconds: u32) {
        for cache in &mut self.caches {
            match cache.holds(id) {
                false => cache.insert(id, newcomer(known), seconds),
                true if stored == Stored::Anew => cache.replace(id, newcomer(known), seconds),
                true => {}
            }
        }
    }

    /// The room at the size that there is is `limit`.
    pub(crate) fn resize(&mut self, limit: f64, seconds: u32) {
        for (cache, scale) in self.caches.iter_mut().zip(SCALES) {
            cache.resize((limit * scale) as u64, seconds);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.caches.iter().map(|cache| cache.bytes()).sum()
    }
}

/// Why something is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// The server did not have it. A larger cache may have.
    AfterMiss,
    /// It is another value.
    Anew,
}

fn newcomer(known: &Known) -> Newcomer {
    // Of the hash, the part by which keys are not sampled.
    Newcomer { weight: known.weight.max(1), hash: known.hash as u32, expires: known.expires }
}
