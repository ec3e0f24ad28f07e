//! Tasks that wait for the same thing.

use crate::scheduler::{self, Ticket, Woken};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Tasks that wait. Std's mutex is never contended here: no task runs while another one has it.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Vec<Ticket>>);

impl Waiters {
    pub(crate) const fn new() -> Self {
        Waiters(Mutex::new(Vec::new()))
    }

    fn tickets(&self) -> std::sync::MutexGuard<'_, Vec<Ticket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self) {
        self.tickets().push(scheduler::ticket());
    }

    /// Waits until it is woken, or for `limit`. [`Waiters::enter`] comes first.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Woken {
        let ticket = scheduler::ticket();
        let woken = scheduler::wait(limit);
        if woken == Woken::ByTime {
            self.tickets().retain(|other| *other != ticket);
        }
        woken
    }

    /// Wakes one, which the seed chooses.
    pub(crate) fn wake_one(&self) {
        let mut tickets = self.tickets();
        if !tickets.is_empty() {
            let place = scheduler::draw(tickets.len() as u64) as usize;
            scheduler::wake(tickets.swap_remove(place));
        }
    }

    pub(crate) fn wake_all(&self) {
        self.tickets().drain(..).for_each(scheduler::wake);
    }
}
