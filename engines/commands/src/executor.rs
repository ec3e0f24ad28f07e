//! The executor: the state that all commands share.

use crate::counters::{CommandCount, CommandCounters};
use crate::observe::{Kinds, Observer};
use crate::token::Leases;
use crate::uniques::Uniques;
use guira_contract::{Key, Session};
use guira_sync::clock::{CoarseClock, Millis, Seconds};
use std::sync::Arc;

/// Executes commands on an engine, for one thread.
#[derive(Debug)]
pub struct Executor<S> {
    pub(crate) session: S,
    pub(crate) clock: CoarseClock,
    pub(crate) now: Seconds,
    pub(crate) now_fine: Millis,
    pub(crate) counters: Arc<CommandCounters>,
    pub(crate) uniques: Uniques,
    pub(crate) leases: Leases,
    pub(crate) observer: Box<dyn Observer>,
    /// The kinds of events that the observer receives.
    pub(crate) kinds: Kinds,
    /// The observer also receives all events of keys with lower hashes.
    pub(crate) sampled_below: u64,
}

impl<S: Session> Executor<S> {
    pub fn new(
        session: S,
        clock: CoarseClock,
        counters: Arc<CommandCounters>,
        observer: Box<dyn Observer>,
    ) -> Self {
        let now_fine = clock.millis();
        Executor {
            session,
            now: now_fine.seconds(),
            now_fine,
            clock,
            counters,
            uniques: Uniques::default(),
            leases: Leases::default(),
            observer,
            kinds: Kinds::NONE,
            sampled_below: 0,
        }
    }

    #[must_use]
    pub fn with_uniques(self, uniques: Uniques) -> Self {
        Executor { uniques, ..self }
    }

    #[must_use]
    pub fn with_leases(self, leases: Leases) -> Self {
        Executor { leases, ..self }
    }

    /// Reads the clock. Commands are executed at this time until the next call.
    pub fn look_at_clock(&mut self) {
        self.now_fine = self.clock.millis();
        self.now = self.now_fine.seconds();
    }

    /// The time at which commands are executed.
    pub fn now(&self) -> Seconds {
        self.now
    }

    /// The same, more finely.
    #[inline(always)]
    pub fn now_fine(&self) -> Millis {
        self.now_fine
    }

    pub fn session(&mut self) -> &mut S {
        &mut self.session
    }

    #[inline(always)]
    pub(crate) fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.session.hash(bytes) }
    }

    #[inline(always)]
    pub(crate) fn count(&self, what: CommandCount) {
        self.counters.add(what, 1);
    }

    /// A new cas unique, if items have them.
    pub(crate) fn fresh_unique(&mut self) -> Option<u64> {
        (self.uniques == Uniques::Kept).then(|| self.session.next_cas())
    }
}
