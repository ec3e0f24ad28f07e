//! What a simulated cache is, and the policies of which there is one.

mod arc;
mod auto;
mod belady;
mod bucket_clock;
mod engine;
mod gdsf;
mod lirs;
mod list;
mod lru;
mod tinylfu;

pub(crate) use arc::Arc;
pub(crate) use auto::Auto;
pub(crate) use belady::{Belady, next_reads};
pub use bucket_clock::BucketClock;
pub use engine::Engine;
pub(crate) use engine::PACE;
pub(crate) use gdsf::{Gdsf, Worth};
pub(crate) use lirs::Lirs;
pub(crate) use lru::Lru;
pub(crate) use tinylfu::{TinyLfu, Window};

/// A key of a [`Stream`](crate::Stream): numbered from 0 in the order of first requests, so that what is known of it
/// lies in arrays.
pub type Id = u32;

/// A cache with a replacement policy.
///
/// This is the seam between the simulator and policies: a policy of an engine is put behind it by
/// an adaptor over plain arrays, as `policy/engine.rs` does, and gets its line in [`registry`](crate::registry).
pub trait Policy {
    /// Request number `number` of the stream begins. Only a policy that knows the future wants to know.
    #[inline]
    fn begin(&mut self, _number: usize) {}

    /// Whether `id` is held. If it is, it has been read.
    fn read(&mut self, id: Id) -> bool;

    /// Stores `id`, which is not held and takes `weight` of the room, after evicting what has to go for it.
    fn insert(&mut self, id: Id, weight: u32);

    /// Forgets `id`, if it is held: it was deleted, has expired, or is stored anew with another weight. Whether it was held.
    fn remove(&mut self, id: Id) -> bool;

    /// How much of the room is taken.
    fn held(&self) -> u64;
}

/// What each key takes of the room; empty while each takes 1, so that counting objects costs no memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    weights: Vec<u32>,
}

impl Weights {
    #[inline]
    pub(crate) fn set(&mut self, id: Id, weight: u32) {
        if weight != 1 || !self.weights.is_empty() {
            let index = id as usize;
            if index >= self.weights.len() {
                self.weights.resize(index + 1, 1);
            }
            self.weights[index] = weight;
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: Id) -> u32 {
        self.weights.get(id as usize).copied().unwrap_or(1)
    }
}

/// The capacity of a cache, in objects or in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    limit: u64,
    used: u64,
    weights: Weights,
}

impl Room {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, used: 0, weights: Weights::default() }
    }

    /// Whether an object of this weight can be held at all.
    #[inline]
    pub(crate) fn admits(&self, weight: u32) -> bool {
        u64::from(weight) <= self.limit
    }

    /// Whether an object of this weight fits beside what is held.
    #[inline]
    pub(crate) fn fits(&self, weight: u32) -> bool {
        self.used + u64::from(weight) <= self.limit
    }

    #[inline]
    pub(crate) fn take(&mut self, id: Id, weight: u32) {
        self.weights.set(id, weight);
        self.used += u64::from(weight);
    }

    #[inline]
    pub(crate) fn give_back(&mut self, id: Id) {
        self.used -= u64::from(self.weight(id));
    }

    #[inline]
    pub(crate) fn weight(&self, id: Id) -> u32 {
        self.weights.get(id)
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }
}
