//! Caches byte by byte: how items lie in memory, what is copied to keep them there, and how much of it is lost.
//!
//! ```text
//!  Stream ──► drive ──► Layout: slab      the engine memc3 itself, in process, with any of its policies
//!                               segments  a log of segments, after Segcache and S3-FIFO
//! ```
//!
//! All of a cache is charged to its memory: items with their headers, index, what the policy notes, and what is free.

mod choice;
mod drive;
mod item;
mod report;
mod segments;
mod slab;
mod sweep;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub use choice::{LayoutChoice, layouts};
pub use drive::Outcome;
pub use report::LayoutReport;
pub use sweep::{LayoutPoint, LayoutSweep};

use crate::policy::Id;
use item::Object;

/// A cache whose memory is simulated.
///
/// A key that was removed, has expired or was replaced is never read as it was.
trait Layout {
    /// Whether `id` is held, and has not expired. If so, it has been read.
    fn read(&mut self, id: Id, now: u32) -> bool;

    /// Stores `id`, whether it is held or not. False if it is refused; then it is not held.
    fn store(&mut self, id: Id, object: Object, now: u32) -> bool;

    /// Forgets `id`, if it is held.
    fn remove(&mut self, id: Id, now: u32);

    /// Bytes of items that the cache has copied from one place to another.
    fn moved(&self) -> u64;

    fn usage(&mut self, now: u32) -> Usage;
}

/// What memory is used for, in bytes. Together it is all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Items that can be read: header, key and value.
    pub live: f64,
    /// What has expired, or was replaced or removed, and has not been freed.
    pub dead: f64,
    /// What items take beyond their length: the rest of a chunk, a page or a segment that nothing more is put into.
    pub rounding: f64,
    /// What is free, or still to be written.
    pub free: f64,
    /// Index, notes of the policy, bitmaps, descriptors.
    pub metadata: f64,
}

impl Usage {
    #[must_use]
    pub fn total(&self) -> f64 {
        self.live + self.dead + self.rounding + self.free + self.metadata
    }

    fn add(&mut self, other: &Self) {
        self.live += other.live;
        self.dead += other.dead;
        self.rounding += other.rounding;
        self.free += other.free;
        self.metadata += other.metadata;
    }

    fn scaled(self, factor: f64) -> Self {
        Self {
            live: self.live * factor,
            dead: self.dead * factor,
            rounding: self.rounding * factor,
            free: self.free * factor,
            metadata: self.metadata * factor,
        }
    }
}
