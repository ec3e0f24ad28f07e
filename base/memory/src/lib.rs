//! The [`Region`], in which all of an engine's lasting state lies, and the allocators in it.
//!
//! Everything in a Region is addressed by [`Offset`]s, never by pointers, and reached as aligned 8-byte
//! atomics. Nothing that was read without a lock is used as an address before it was checked against the
//! Region's bounds; within them every byte may be read at any time, since a Region stays mapped, whole, until
//! it is dropped.

mod backing;
mod budget;
mod code;
mod fault;
pub mod lasting;
mod place;
mod prefetch;
mod region;
#[cfg(test)]
mod scratch;
pub mod slab;
mod value_pin;

pub use budget::Budget;
pub use code::release_code;
pub use place::{NoPlace, RegionPlace};
pub use prefetch::prefetch;
pub use region::{HugePages, Offset, Region};
pub use value_pin::ValuePin;

/// Bytes in a KiB.
pub const KIB: usize = 1024;
/// Bytes in a MiB.
pub const MIB: usize = 1024 * KIB;
