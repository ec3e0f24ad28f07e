//! What every engine offers, and every caller may rely on.
//!
//! An engine is used through [`Session`]s, one for each thread. A session reads ([`Session::read`]) without changing what is stored, and changes it only
//! by [`Session::update`], one atomic read-modify-write of one key, in which all commands are expressed (guira-commands). Between batches its thread
//! calls [`Session::quiesce`]. What an operator asks of an engine is [`Control`].
//!
//! **What a cache promises.** It may lose any item at any time, and counts it. It never answers with an older value than the last acknowledged one,
//! never brings back a deleted, flushed or expired item, and never mixes two. Each key is linearised for itself; several reads are no snapshot.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod control;
mod item;
mod lasting;
mod partitioning;
mod session;
mod sink;
mod spec;
mod stats;
pub mod suite;

pub use control::{
    CommitAhead, Control, Engine, EvictionWatcher, FlushBusy, PREFIXES_MAX, PolicyError, Reassign,
    ResizeError, SizeWeight, Switch, Tuning,
};
pub use guira_memory::ValuePin;
pub use item::{
    Amendment, Decision, Digits, Expiry, ItemState, ItemView, Meta, NewItem, Recency, Value, counted_size,
};
pub use lasting::{CloseError, Dropped, Emptied, NotHandedOver, Opened, Opening, Preview, Shortage};
pub use partitioning::{Access, Partitioning};
pub use session::{
    ItemSpec, Key, KeyHash, Lossiness, MissKind, OldItem, Pace, PendingValue, Provision, Read, Session,
    StoreError, Walked, WalkedItem,
};
pub use sink::{Presence, Sink, Want};
pub use spec::Spec;
pub use stats::{ClassCounter, ClassCounts, ClassStats, Counter, EngineStats, OptionError, SAMPLED_BY_CLASS};

/// The longest key, in bytes.
pub const KEY_MAX: usize = 250;
