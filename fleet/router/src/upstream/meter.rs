//! The counts that one worker has of one server. The worker writes them without a lock, and any
//! thread reads the sum of all workers.

use guira_routing::Outcome;
use guira_sync::counters::Counters;
use std::sync::Arc;

guira_sync::counters! {
    /// Counts other than the outcomes of requests.
    pub(crate) enum ServerCount {
        Requests = "requests", Count, "Requests to the server.";
        Probes = "probes", Count, "Probes of the server while it was marked as failed.";
        Opened = "connections_opened", Count, "Connections to the server.";
        Closed = "connections_closed", Count, "Closed connections to the server.";
        Writes = "writes", Count, "Writes to the server, each of one or more requests.";
        BytesSent = "bytes_sent", Bytes, "Sent to the server.";
        BytesReceived = "bytes_received", Bytes, "Received from the server.";
        SoftTkos = "soft_tkos", Count, "Times the server was marked as failed by timeouts.";
        HardTkos = "hard_tkos", Count, "Times the server was marked as failed because it was unreachable.";
        Moves = "moves", Count, "Times a worker changed to another address of the server because its name no longer had the previous one.";
    }
}

pub(crate) const OUTCOMES: usize = Outcome::ClientError as usize + 1;

/// The outcomes follow the rows of the table, and the gauges are last.
const FIRST_OUTCOME: usize = ServerCount::COUNT;
const FIRST_GAUGE: usize = FIRST_OUTCOME + OUTCOMES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gauge {
    /// Requests that waited to be sent when the gauges were last set.
    Pending,
    /// Requests that were sent and have no reply.
    Inflight,
    /// How many requests had been pushed when Pending was last set. Requests pushed since then are
    /// pending too.
    Shown,
    /// The maxima of Pending and Inflight.
    MostPending,
    MostInflight,
    State,
    /// The bits of the average in microseconds; 0 if no latency was measured.
    Latency,
}

const GAUGES: usize = Gauge::Latency as usize + 1;

/// The state of a connection, by its place among [`STATES`]. A connection is new before its first
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Up = 1,
    Down,
    /// Closed because it was idle, or because the server has moved.
    Closed,
}

/// The states, by mcrouter's names.
pub(crate) const STATES: [&str; 4] = ["new", "up", "down", "closed"];

/// Counters and gauges of one worker and one server.
#[derive(Debug, Default)]
pub(crate) struct Meter(Counters<{ FIRST_GAUGE + GAUGES }>);

/// A new latency counts for one part in this many of the average, as in mcrouter.
const WINDOW: f64 = 16.0;

/// A moving average with a new value, which counts for one part in `window`.
pub(crate) fn averaged(average: Option<f64>, value: f64, window: f64) -> f64 {
    average.map_or(value, |average| (value + (window - 1.0) * average) / window)
}

impl Meter {
    #[inline(always)]
    pub(crate) fn add(&self, counter: ServerCount, amount: u64) {
        self.0.add(counter as usize, amount);
    }

    #[inline]
    fn get(&self, counter: ServerCount) -> u64 {
        self.0.get(counter as usize)
    }

    /// All requests so far, with probes.
    fn pushed(&self) -> u64 {
        self.get(ServerCount::Requests) + self.get(ServerCount::Probes)
    }

    /// Counts requests that have ended with this outcome.
    #[inline(always)]
    pub(crate) fn ended(&self, outcome: Outcome, requests: u64) {
        self.0.add(FIRST_OUTCOME + outcome as usize, requests);
    }

    pub(crate) fn outcome(&self, outcome: Outcome) -> u64 {
        self.0.get(FIRST_OUTCOME + outcome as usize)
    }

    fn gauge(&self, counter: Gauge) -> u64 {
        self.0.get(FIRST_GAUGE + counter as usize)
    }

    fn set(&self, counter: Gauge, value: u64) {
        self.0.set(FIRST_GAUGE + counter as usize, value);
    }

    /// Sets how many requests wait to be sent, and for replies. Requests that are pushed afterwards
    /// count as pending.
    pub(crate) fn set_outstanding(&self, pending: u64, inflight: u64) {
        self.set(Gauge::Shown, self.pushed());
        self.set(Gauge::Pending, pending);
        self.set(Gauge::Inflight, inflight);
        self.note_most(Gauge::MostPending, pending);
        self.note_most(Gauge::MostInflight, inflight);
    }

    /// Notes that this many requests wait to be sent.
    pub(crate) fn note_pending(&self, pending: u64) {
        self.note_most(Gauge::MostPending, pending);
    }

    fn note_most(&self, most: Gauge, present: u64) {
        if present > self.gauge(most) {
            self.set(most, present);
        }
    }

    fn pending(&self) -> u64 {
        self.gauge(Gauge::Pending) + self.pushed().saturating_sub(self.gauge(Gauge::Shown))
    }

    pub(crate) fn set_state(&self, state: State) {
        self.set(Gauge::State, state as u64);
    }

    /// Adds the counts of another meter, except requests, which both have counted.
    pub(crate) fn absorb(&self, other: &Meter) {
        for index in (0..FIRST_GAUGE).filter(|index| *index != ServerCount::Requests as usize) {
            self.0.add(index, other.0.get(index));
        }
    }

    /// Adds a latency to the average.
    pub(crate) fn took(&self, micros: f64) {
        self.set(Gauge::Latency, averaged(self.latency(), micros, WINDOW).to_bits());
    }

    /// The average, in microseconds.
    fn latency(&self) -> Option<f64> {
        Some(self.gauge(Gauge::Latency)).filter(|bits| *bits != 0).map(f64::from_bits)
    }
}

/// The counts of one or several servers, without gauges.
#[derive(Clone, Debug)]
pub(crate) struct Counted([u64; FIRST_GAUGE]);

impl Default for Counted {
    fn default() -> Self {
        Counted([0; FIRST_GAUGE])
    }
}

impl Counted {
    pub(crate) fn count(&self, counter: ServerCount) -> u64 {
        self.0[counter as usize]
    }

    pub(crate) fn outcome(&self, outcome: Outcome) -> u64 {
        self.0[FIRST_OUTCOME + outcome as usize]
    }

    pub(crate) fn add(&mut self, other: &Counted) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// The counts of all workers for one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meters<'a>(pub(crate) &'a [Arc<Meter>]);

impl Meters<'_> {
    fn sum(self, value: impl Fn(&Meter) -> u64) -> u64 {
        self.0.iter().map(|meter| value(meter)).sum()
    }

    pub(crate) fn count(self, counter: ServerCount) -> u64 {
        self.sum(|meter| meter.get(counter))
    }

    pub(crate) fn outcome(self, outcome: Outcome) -> u64 {
        self.sum(|meter| meter.outcome(outcome))
    }

    pub(crate) fn counted(self) -> Counted {
        Counted(std::array::from_fn(|index| self.sum(|meter| meter.0.get(index))))
    }

    pub(crate) fn pending(self) -> u64 {
        self.sum(Meter::pending)
    }

    pub(crate) fn inflight(self) -> u64 {
        self.sum(|meter| meter.gauge(Gauge::Inflight))
    }

    /// The largest number of requests of one worker that waited to be sent.
    pub(crate) fn most_pending(self) -> u64 {
        self.most(Gauge::MostPending)
    }

    /// The largest number of requests of one worker that waited for replies.
    pub(crate) fn most_inflight(self) -> u64 {
        self.most(Gauge::MostInflight)
    }

    fn most(self, counter: Gauge) -> u64 {
        self.0.iter().map(|meter| meter.gauge(counter)).max().unwrap_or(0)
    }

    /// How many workers' connections are in each of [`STATES`].
    pub(crate) fn states(self) -> [u64; STATES.len()] {
        let mut states = [0; STATES.len()];
        for meter in self.0 {
            if let Some(state) = states.get_mut(meter.gauge(Gauge::State) as usize) {
                *state += 1;
            }
        }
        states
    }

    /// The average of the workers' averages, in microseconds. `None` if none has measured any.
    pub(crate) fn latency(self) -> Option<f64> {
        let known: Vec<f64> = self.0.iter().filter_map(|meter| meter.latency()).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_workers_are_added_and_latencies_are_averaged() {
        let workers: Vec<Arc<Meter>> = (0..3).map(|_| Arc::default()).collect();
        assert_eq!(Meters(&workers).latency(), None);
        workers[0].add(ServerCount::Requests, 2);
        workers[2].add(ServerCount::Requests, 3);
        workers[0].ended(Outcome::ClientError, 1);
        workers[1].ended(Outcome::Found, 4);
        workers[0].set_outstanding(1, 2);
        workers[1].set_outstanding(0, 5);
        workers[2].set_outstanding(0, 0);
        workers[1].set_state(State::Up);
        workers[2].set_state(State::Down);
        workers[0].took(100.0);
        workers[0].took(260.0);
        workers[1].took(10.0);
        let all = Meters(&workers);
        assert_eq!((all.count(ServerCount::Requests), all.count(ServerCount::HardTkos)), (5, 0));
        assert_eq!((all.outcome(Outcome::ClientError), all.outcome(Outcome::Found)), (1, 4));
        assert_eq!((all.pending(), all.inflight()), (1, 7));
        workers[1].set_outstanding(3, 0);
        assert_eq!((all.most_pending(), all.most_inflight()), (3, 5));
        workers[0].add(ServerCount::Requests, 2);
        assert_eq!((all.pending(), all.inflight()), (6, 2), "requests pushed since then wait");
        workers[0].set_outstanding(0, 4);
        assert_eq!((all.pending(), all.inflight()), (3, 4));
        let mut counted = all.counted();
        counted.add(&all.counted());
        assert_eq!((counted.count(ServerCount::Requests), counted.count(ServerCount::HardTkos)), (14, 0));
        assert_eq!((counted.outcome(Outcome::ClientError), counted.outcome(Outcome::Found)), (2, 8));
        assert_eq!(all.states(), [1, 1, 1, 0]);
        assert_eq!(all.latency(), Some((110.0 + 10.0) / 2.0), "a new latency counts for one sixteenth");
    }
}
