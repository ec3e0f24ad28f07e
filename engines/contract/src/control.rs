//! An engine as a whole: its sessions, and what an operator asks of it.

use crate::item::Meta;
use crate::lasting::{CloseError, NotHandedOver, Preview};
use crate::partitioning::Partitioning;
use crate::session::Session;
use crate::spec::Spec;
use crate::stats::{EngineStats, OptionError};
use guira_memory::lasting::HandedRegion;
use guira_sync::clock::Seconds;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// An engine, shared by all threads. Clones are the same engine.
pub trait Engine: Control + Clone + fmt::Debug {
    /// Its sessions.
    type Session: Session + Send;

    /// A session for one thread.
    fn session(&self) -> Self::Session;

    /// Closes the engine at `now`. What it holds lasts if it was opened to last, and `notes` with it, for the next to open it. All clones, sessions,
    /// pinned values and pending values are gone before.
    ///
    /// # Errors
    /// If they are not, or the file cannot be written. Then the next to open it finds nothing.
    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError>;

    /// Closes the engine at `now` for another process that goes on at once; this takes no longer for more items. All clones, sessions, pinned values and
    /// pending values are gone before.
    ///
    /// # Errors
    /// If they are not, it does not last, or the notes are too long. The engine comes back unchanged.
    fn hand_over(self, now: Seconds, notes: &[u8]) -> Result<HandedRegion, NotHandedOver<Self>>;

    /// What another engine would be given to go on with, as of now, if it lasts: enough to find out whether it would.
    fn preview(&self) -> Option<Preview>;
}

/// What an operator asks of an engine. Object-safe, so that code about the server does not depend on the engine's type. [`Any`], so that
/// the roster can return the typed parts of an engine.
pub trait Control: Any + Send + Sync {
    /// Makes all items that are stored now, and until `at`, disappear at `at`; at once, if that has passed.
    fn flush(&self, now: Seconds, at: Seconds);

    /// Makes all items that are stored now, and whose keys begin with one of `prefixes`, disappear at once. Each has 1 to [`crate::KEY_MAX`] bytes, and
    /// there are at most [`PREFIXES_MAX`]. The memory of the items comes free in the background, in [`Session::maintain`].
    ///
    /// # Errors
    /// If what earlier calls have flushed is not removed yet, and no more can be remembered at a time. Then nothing has changed.
    fn flush_prefixes(&self, now: Seconds, prefixes: &[&[u8]]) -> Result<(), FlushBusy>;

    /// Reports evictions to `watcher` from now on. To be called once; the first watcher stays.
    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>);

    /// The replacement policy with its options, and the one that is taking over, if there is one.
    fn policy(&self) -> (Spec, Option<Spec>);

    /// Switches to another replacement policy while the engine is in use. Only items that no longer fit are lost: they are evicted and counted.
    ///
    /// # Errors
    /// If there is no such policy or option (the error lists those that exist), or a switch is under way.
    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError>;

    /// Changes a setting.
    fn tune(&self, tuning: Tuning);

    /// Moves a page from class `from`, or from any class, to class `to`, or to the pool if that is 0. Classes are numbered from 1. Items in the page
    /// that were never read are evicted.
    fn reassign(&self, from: Option<u32>, to: u32) -> Reassign;

    /// The sizes of the chunks that items lie in, in ascending order, if memory is divided among these.
    fn chunk_sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Bytes of chunks that were taken for items since the start, if ages are counted in these; 0 if they are not.
    fn stored_bytes(&self) -> u64 {
        0
    }

    /// Items whose age counts more go earlier, from now on: bands of sizes with their weights, the smallest first. As long as this was not called, or with
    /// no bands, all items stay for the same time.
    fn weigh_sizes(&self, _weights: &[SizeWeight]) {}

    /// From now on the engine may commit `memory` bytes. It uses more at once; it gives memory back step by step, in [`Session::maintain`], and evicts
    /// and counts the items that have to go for it.
    ///
    /// # Errors
    /// If that is less than the engine needs, or more than was reserved. Then nothing has changed.
    fn resize(&self, memory: usize) -> Result<(), ResizeError>;

    /// How keys are divided among threads, if they are.
    fn partitioning(&self) -> Option<Partitioning> {
        None
    }

    /// Commits a piece of the memory that will be needed next, so that no store has to wait for the system, which clears what it commits. To be called
    /// again and again by one thread that no request waits for; an engine that nobody does this for commits memory when it needs it.
    fn commit_ahead(&self) -> CommitAhead {
        CommitAhead::Unsupported
    }

    /// Its counters and gauges.
    fn stats(&self) -> EngineStats;

    /// Sets the counters to zero. Gauges stay.
    fn reset_stats(&self);
}

impl fmt::Debug for dyn Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Control")
    }
}

/// The most prefixes that may be flushed, and not be removed yet, at a time, with one slot more for a flush of everything.
pub const PREFIXES_MAX: usize = 32;

/// Prefixes that were flushed before are still being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("earlier prefix deletes are still in progress")]
pub struct FlushBusy;

/// How much the age of items of some sizes counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeWeight {
    /// The largest chunk that these items lie in, in bytes.
    pub upto: usize,
    /// The factor by which their age is multiplied, beside those of other sizes; more than 0.
    pub weight: f64,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// A setting that an operator may change while an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Whether the crawler looks for expired items in the background.
    Crawler(Switch),
    /// Start the crawler now.
    CrawlNow,
    /// Whether pages move between classes. A class without a page gets one in any case.
    Automove(Switch),
}

/// The result of [`Control::commit_ahead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAhead {
    /// A piece was committed, and there may be more to do.
    Committed,
    /// There is nothing to do for now. The thread that has called is unparked when there is.
    Idle,
    /// The engine commits memory when it needs it, whatever is called.
    Unsupported,
}

/// Gets a report of each eviction.
pub trait EvictionWatcher: Send + Sync {
    /// The time, if reports are wanted at the moment.
    fn watches(&self) -> Option<Seconds>;

    /// An item was evicted.
    fn evicted(&self, key: &[u8], meta: &Meta, now: Seconds);
}

impl fmt::Debug for dyn EvictionWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EvictionWatcher")
    }
}

/// The result of [`Control::reassign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassign {
    /// The page is on its way.
    Begun,
    /// Another page is on its way.
    Busy,
    /// There is no such class.
    NoClass,
    /// The donor has no page to spare.
    NothingToSpare,
}

/// Why an engine does not switch to a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is no such policy, option or value.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A switch is under way.
    #[error("a policy change is in progress")]
    Busy,
    /// The policy's metadata does not fit, and eviction is off.
    #[error("no memory for the policy's metadata, and eviction is disabled")]
    NoRoom,
}

/// Why the memory of an engine cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// It would not hold what it must.
    #[error("{memory} bytes are too little: the minimum is {least}")]
    TooSmall {
        /// The size asked for, in bytes.
        memory: usize,
        /// The least that is possible, in bytes.
        least: usize,
    },
    /// More was not reserved when the engine was opened.
    #[error("{memory} bytes are too much: the cache reserved {most} at start")]
    TooBig {
        /// The size asked for, in bytes.
        memory: usize,
        /// The reserve, in bytes.
        most: usize,
    },
    /// The file system on which it lasts is too full.
    #[error("the file system of the region has room for only {room} bytes")]
    NoRoom {
        /// Bytes that the file system has left, with what the file has already.
        room: u64,
    },
}
