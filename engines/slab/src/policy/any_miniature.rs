//! A miniature cache of any policy, chosen while the program runs.

use super::miniature::{Keeper, KeeperUser, Miniature, Newcomer};
use super::table::Policy;
use std::fmt::Debug;

/// A [`Miniature`], whatever its policy.
pub trait AnyMiniature: Debug + Send {
    /// [`Miniature::read`].
    fn read(&mut self, id: u32, seconds: u32) -> bool;
    /// [`Miniature::insert`].
    fn insert(&mut self, id: u32, newcomer: Newcomer, seconds: u32);
    /// [`Miniature::adopt`].
    fn adopt(&mut self, id: u32, newcomer: Newcomer, seconds: u32);
    /// [`Miniature::replace`].
    fn replace(&mut self, id: u32, newcomer: Newcomer, seconds: u32);
    /// [`Miniature::renew`].
    fn renew(&mut self, id: u32, expires: u32);
    /// [`Miniature::remove`].
    fn remove(&mut self, id: u32);
    /// [`Miniature::evict`].
    fn evict(&mut self, seconds: u32) -> Option<(u32, u32)>;
    /// [`Miniature::tune`].
    fn tune(&mut self, policy: Policy) -> bool;
    /// [`Miniature::holds`].
    fn holds(&self, id: u32) -> bool;
    /// [`Miniature::resize`].
    fn resize(&mut self, limit: u64, seconds: u32);
    /// [`Miniature::used`].
    fn used(&self) -> u64;
    /// [`Miniature::len`].
    fn len(&self) -> usize;
    /// [`Miniature::bytes`].
    fn bytes(&self) -> usize;

    /// Whether it holds nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K: Keeper + Debug + Send> AnyMiniature for Miniature<K> {
    fn read(&mut self, id: u32, seconds: u32) -> bool {
        self.read(id, || seconds)
    }

    fn insert(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.insert(id, newcomer, seconds);
    }

    fn adopt(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.adopt(id, newcomer, seconds);
    }

    fn replace(&mut self, id: u32, newcomer: Newcomer, seconds: u32) {
        self.replace(id, newcomer, seconds);
    }

    fn renew(&mut self, id: u32, expires: u32) {
        self.renew(id, expires);
    }

    fn remove(&mut self, id: u32) {
        self.remove(id);
    }

    fn evict(&mut self, seconds: u32) -> Option<(u32, u32)> {
        self.evict(seconds)
    }

    fn tune(&mut self, policy: Policy) -> bool {
        self.tune(policy)
    }

    fn holds(&self, id: u32) -> bool {
        self.holds(id)
    }

    fn resize(&mut self, limit: u64, seconds: u32) {
        self.resize(limit, seconds);
    }

    fn used(&self) -> u64 {
        self.used()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }
}

struct Make {
    limit: u64,
    keys: usize,
    chunks: usize,
}

impl KeeperUser for Make {
    type Output = Box<dyn AnyMiniature>;

    fn with<K: Keeper + Debug + Send + 'static>(self, keeper: K) -> Self::Output {
        Box::new(Miniature::new(keeper, self.limit).with_keys(self.keys).with_chunks(self.chunks))
    }
}

impl Policy {
    /// An empty miniature of it with room for `limit`, for about `keys` keys. What it draws at random follows from `seed`.
    pub fn miniature(self, seed: u64, limit: u64, keys: usize) -> Box<dyn AnyMiniature> {
        self.keep(seed, Make { limit, keys, chunks: 0 })
    }

    /// The same, of which it is known that it will hold most of the keys.
    pub fn full_miniature(self, seed: u64, limit: u64, keys: usize) -> Box<dyn AnyMiniature> {
        self.keep(seed, Make { limit, keys, chunks: keys })
    }
}
