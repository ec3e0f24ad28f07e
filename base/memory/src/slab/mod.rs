//! Slab classes: memory is divided into pages of 256 KiB, a page into equal chunks, and pages of the same chunk
//! size form a class.
//!
//! ```text
//! page:  | chunk 0 | chunk 1 | … | rest | occupied bits |
//!                                           1 bit a chunk
//! ```
//!
//! A chunk carries no metadata of its own; the recency bits, one for each 32 bytes of pages, lie in an area of their
//! own. The *occupied* bit says that a chunk is allocated: it holds an item, lies in a session's cache of free
//! chunks, or is being filled. The *recency* bits belong to the policy.
//!
//! A page that changes its class is *drained* first: no chunk of it is allocated any more, and when the last one was
//! freed the owner waits for a quiescent point of all readers before [`SlabMemory::release`].

mod classes;
mod handed_out;
pub mod lockfree;
mod memory;
mod page;

pub use classes::{ClassId, ClassTable, Geometry, MAX_CLASSES, SMALLEST_CHUNK};
pub use handed_out::HandedOut;
pub use memory::{ClassGuard, ClassUse, FirstBit, Given, NoPages, PageCensus, SlabMemory, Source};
pub use page::{PAGE_BYTES, PageId, PageState};
