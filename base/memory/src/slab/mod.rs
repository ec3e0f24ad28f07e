//! Slab classes: memory is divided into pages of 256 KiB, a page into equal chunks, and pages of the same chunk
//! size form a class.
//!
//! ```text
//! page:  | recency bits | occupied bits | chunk 0 | chunk 1 | … | rest |
//!          1 bit a chunk  1 bit a chunk
//! ```
//!
//! Both bitmaps lie at the head of the page, so that a chunk carries no metadata of its own, and an item pays for
//! eviction one bit (MemC3, section 4). The *occupied* bit says that a chunk was handed out: it holds an item, or
//! lies in a session's cache of free chunks, or is being filled. The *recency* bit belongs to the policy.
//!
//! A page that changes its class is *drained* first: no chunk of it is handed out, and when the last one has come
//! back the owner waits for a quiescent point of all readers before [`SlabMemory::release`].

mod classes;
mod memory;
mod page;

pub use classes::{ClassId, ClassTable, Geometry, MAX_CLASSES};
pub use memory::{ClassGuard, ClassUse, Given, SlabMemory, Source};
pub use page::{PAGE_BYTES, PageId, PageState};
