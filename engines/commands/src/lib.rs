//! What the commands mean, written once above the engine contract.
//!
//! A worker owns an [`Executor`]: an engine's session, the time of the current batch, and counters. It executes commands
//! that were parsed by guira-protocol and writes the replies where [`Replies`] says. Nothing here knows of sockets or of any one engine.

#![forbid(unsafe_code)]

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
    /// What the observer is told of.
    kinds: Kinds,
    /// It is told of all events of keys with hashes below.
    sampled_below: u64,
}

impl<S: Session> Executor<S> {
    /// An executor that counts in `counters`, and tells `observer` of what it is asked to tell.
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

    /// Looks at the clock. All commands until the next look are executed at this time.
    pub fn look_at_clock(&mut self) {
        self.now = self.clock.now();
    }

    /// The time that commands are executed at.
    pub fn now(&self) -> Seconds {
        self.now
    }

    /// The engine's session.
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
