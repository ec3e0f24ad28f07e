//! One worker's counters of one server and of the requests to it.

use super::meter::{Meter, ServerCount, State};
use super::pipeline::{Latency, Pipeline};
use crate::counters::{Counters, Event};
use guira_routing::Outcome;
use guira_upstream::Tko;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Tally {
    meter: Arc<Meter>,
    counters: Arc<Counters>,
}

impl Tally {
    pub(super) fn new(meter: Arc<Meter>, counters: Arc<Counters>) -> Self {
        Tally { meter, counters }
    }

    /// A tally of the same server.
    pub(super) fn renewed(&self) -> Self {
        Tally { meter: self.meter.clone(), counters: self.counters.clone() }
    }

    /// A tally for `requests` that the server's has counted, until [`Self::absorb`].
    pub(super) fn detached(&self, requests: usize) -> Self {
        let meter = Meter::default();
        meter.add(ServerCount::Requests, requests as u64);
        Tally { meter: Arc::new(meter), counters: self.counters.clone() }
    }

    /// Adds what a detached tally has counted.
    pub(super) fn absorb(&self, detached: &Tally) {
        self.meter.absorb(&detached.meter);
    }

    #[inline(always)]
    pub(super) fn add(&self, what: ServerCount, amount: u64) {
        self.meter.add(what, amount);
    }

    pub(super) fn add_event(&self, event: Event) {
        self.counters.add(event);
    }

    /// Counts requests that have ended so.
    #[inline(always)]
    pub(super) fn ended(&self, outcome: Outcome, requests: u64) {
        self.meter.ended(outcome, requests);
    }

    pub(super) fn set_state(&self, state: State) {
        self.meter.set_state(state);
    }

    /// Counts the server as taken out of service, if it was.
    pub(super) fn add_tko(&self, tko: Option<Tko>) {
        match tko {
            Some(Tko::Soft) => self.add(ServerCount::SoftTkos, 1),
            Some(Tko::Hard) => self.add(ServerCount::HardTkos, 1),
            None => {}
        }
    }

    pub(super) fn note_pending(&self, pipeline: &Pipeline) {
        self.meter.note_pending(pipeline.pending() as u64);
    }

    pub(super) fn show_outstanding(&self, pipeline: &Pipeline) {
        let (pending, waiting) = (pipeline.pending(), pipeline.waiting());
        self.meter.set_outstanding(pending as u64, (waiting - pending) as u64);
    }

    pub(super) fn add_latency(&self, latency: Option<Latency>) {
        if let Some(Latency { group, micros }) = latency {
            self.meter.took(micros as f64);
            self.counters.took(group, micros);
        }
    }
}
