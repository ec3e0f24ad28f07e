//! The [`Region`], in which all persistent state of an engine lies, and the allocators in it.
//!
//! Everything in a Region is addressed by [`Offset`]s, never by pointers, and accessed as aligned 8-byte atomics. An
//! offset that was read without a lock is checked against the Region's bounds before it is used; within them every
//! byte can be read at any time, since the whole Region stays mapped until it is dropped.

mod backing;
mod budget;
mod code;
mod fault;
pub mod lasting;
mod machine;
mod place;
mod prefetch;
mod region;
#[cfg(test)]
mod scratch;
pub mod slab;
mod value_pin;

pub use budget::Budget;
pub use code::{release_code, release_heap, release_stack};
pub use machine::{available_memory, machine_memory};
pub use place::{NoPlace, RegionPlace};
pub use prefetch::prefetch;
pub use region::{HugePages, Offset, Region};
pub use value_pin::ValuePin;

pub const KIB: usize = 1024;
pub const MIB: usize = 1024 * KIB;
