//! How items lie in their chunks, for the engines whose memory is chunks: a header that says what follows it, the fields that
//! the item uses, its key and its value. And what sessions count of them.

#![forbid(unsafe_code)]

mod chain;
mod closing;
mod counts;
mod flushes;
pub mod hooks;
mod item;
mod key_words;
mod lasting;
mod named;
mod pending;
mod pending_chunks;
mod saved;
mod setup;
mod shell;
mod short_lived;
mod walks;

pub use chain::{CONTINUATION, Continuation, HeldItem, Pieces, claim_chain, write_continuation};
pub use closing::{Leaves, close, hand_over, preview};
pub use counts::{ClassUsage, ClassValues, Registry, Removal, Removed, SavedCounts, SessionCounters};
pub use flushes::{Crawled, Flushable, Flushes, Prefixes, SavedFlushes, SavedPrefixes};
pub use item::{
    BEHIND_CHUNKS, Chain, Fields, GENERATIONS, Header, INLINE_MAX, Item, ItemHeaderSpec, NOTED_FOR, Shape,
};
pub use key_words::KeyWords;
pub use lasting::{Begun, EmptyRegion, Failure, Restored, open_lasting, reopen};
pub use pending::{Arriving, ChunkHome, Pending};
pub use pending_chunks::PendingChunks;
pub use saved::{HASHED, Numbers, SavedSetup, bytes_of};
pub use setup::{
    ClassOptions, DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, EngineOptions, Eviction, Hashing, MAX_MEMORY,
    MINIMUM, OpenError, Residence,
};
pub use shell::{Shell, ShellState};
pub use short_lived::{SHORT_LIVED_MAX, ShortLived};
pub use walks::Walks;
