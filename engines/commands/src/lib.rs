//! The semantics of commands, written once above the engine contract.
//!
//! A worker owns an [`Executor`]: an engine's session, the time of the current batch, and counters. It executes
//! commands that guira-protocol has parsed and writes the replies into [`Replies`]. Nothing here depends on sockets
//! or on a particular engine.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment is there where it tells more than the name")]

mod arithmetic;
pub mod binary;
mod by_class;
mod change;
mod counters;
mod debug;
mod direct;
mod exptime;
mod item;
mod meta_get;
mod meta_reply;
mod meta_set;
pub mod observe;
mod retrieve;
mod showing;
mod store;
mod uniques;

pub use guira_protocol::Replies;

pub use by_class::{BY_CLASS, ClassCounters};
pub use counters::{CommandCount, CommandCounters};
pub use item::{Effect, GetKey, Item, ItemPacket, PIECES_MAX, refuse_block};
pub use retrieve::Answered;
pub use store::{Data, Incoming};
pub use uniques::Uniques;

use arithmetic::{Counted, Step};
use guira_contract::{Key, Session};
use guira_sync::clock::{CoarseClock, Seconds};
use observe::{Kinds, Observer};
use std::sync::Arc;

/// Executes commands on an engine, for one thread.
#[derive(Debug)]
pub struct Executor<S> {
    session: S,
    clock: CoarseClock,
    now: Seconds,
    counters: Arc<CommandCounters>,
    uniques: Uniques,
    observer: Box<dyn Observer>,
    /// The kinds of events that the observer receives.
    kinds: Kinds,
    /// The observer also receives all events of keys with lower hashes.
    sampled_below: u64,
}

impl<S: Session> Executor<S> {
    pub fn new(
        session: S,
        clock: CoarseClock,
        counters: Arc<CommandCounters>,
        observer: Box<dyn Observer>,
    ) -> Self {
        let now = clock.now();
        let (uniques, kinds) = (Uniques::default(), Kinds::NONE);
        Executor { session, clock, now, counters, uniques, observer, kinds, sampled_below: 0 }
    }

    /// Reads the clock. Commands are executed at this time until the next call.
    pub fn look_at_clock(&mut self) {
        self.now = self.clock.now();
    }

    /// The time at which commands are executed.
    pub fn now(&self) -> Seconds {
        self.now
    }

    pub fn session(&mut self) -> &mut S {
        &mut self.session
    }

    #[inline(always)]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.session.hash(bytes) }
    }

    #[inline(always)]
    fn count(&self, what: CommandCount) {
        self.counters.add(what, 1);
    }
}
