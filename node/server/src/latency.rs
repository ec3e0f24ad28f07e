//! How long requests take: histograms for each worker, of a sample of its batches and rounds.
//!
//! Three times are measured. The *service* time of a request: from the start of its batch to its
//! end, when the reply can be sent. The time in the *queue*: from the worker's poll until the turn
//! of the connection. And the time of a *round* of the worker: input that arrives during a round
//! waits until it ends, and no longer.
//!
//! About one batch and one round in [`GAP`] are measured: reading the clock costs as much as a get.

use crate::sampler::Sampler;
use guira_commands::Item;
use guira_protocol::binary::ItemOperation;
use guira_protocol::{GetForm, Meta, Verb};
use guira_sync::clock::Stopwatch;
use guira_sync::counters::Counters;
use guira_sync::histogram::Times;
use std::sync::Arc;
use std::time::Duration;

/// The measured series: commands by effect, in any protocol, and the worker itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Series {
    Get,
    Touch,
    Set,
    Delete,
    Arithmetic,
    Lease,
    /// Commands without a key, and me.
    Other,
    Queue,
    Round,
}

impl Series {
    pub(crate) const COMMANDS: [Series; 7] = [
        Series::Get,
        Series::Touch,
        Series::Set,
        Series::Delete,
        Series::Arithmetic,
        Series::Lease,
        Series::Other,
    ];
    const COUNT: usize = Series::Round as usize + 1;

    pub(crate) fn name(self) -> &'static str {
        match self {
            Series::Get => "get",
            Series::Touch => "touch",
            Series::Set => "set",
            Series::Delete => "delete",
            Series::Arithmetic => "arithmetic",
            Series::Lease => "lease",
            Series::Other => "other",
            Series::Queue => "queue",
            Series::Round => "round",
        }
    }

    pub(crate) fn of_form(form: GetForm) -> Self {
        match form {
            GetForm::Plain(_) => Series::Get,
            GetForm::Touch(..) => Series::Touch,
            GetForm::Lease => Series::Lease,
        }
    }

    /// The series of a request.
    pub(crate) fn of(item: &Item<'_>) -> Self {
        match item {
            Item::Get(get) | Item::KeyOfGet(get) => Self::of_form(get.form),
            Item::Store(store, _) if matches!(store.verb, Verb::Lease(_)) => Series::Lease,
            Item::Store(..) | Item::Meta(Meta::Set(_), _) => Series::Set,
            Item::Delete(_) | Item::Meta(Meta::Delete(_), _) => Series::Delete,
            Item::Arithmetic(_) | Item::Meta(Meta::Arithmetic(..), _) => Series::Arithmetic,
            Item::Touch(_) => Series::Touch,
            Item::Meta(Meta::Get(_), _) => Series::Get,
            Item::MetaDebug(_) => Series::Other,
            Item::Packet(packet) => match packet.operation {
                ItemOperation::Get { touch: None, .. } => Series::Get,
                ItemOperation::Get { touch: Some(_), .. } => Series::Touch,
                ItemOperation::Store(_) => Series::Set,
                ItemOperation::Delete => Series::Delete,
                ItemOperation::Arithmetic { .. } => Series::Arithmetic,
            },
        }
    }
}

/// The measurements of one worker. Only it writes them, and any thread reads them.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    times: [Times; Series::COUNT],
    rounds: Counters<1>,
}

impl Latencies {
    fn note(&self, series: Series, times: u64, each: Duration) {
        self.times[series as usize].note(times, each);
    }

    pub(crate) fn of(&self, series: Series) -> &Times {
        &self.times[series as usize]
    }

    /// The number of the worker's polls.
    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.get(0)
    }
}

/// One in this many batches and rounds is measured, on average.
const GAP: u32 = 16;

#[derive(Debug)]
pub(crate) struct BatchMeter {
    latencies: Arc<Latencies>,
    sampler: Sampler,
    /// The present batch is measured, since then.
    since: Option<Stopwatch>,
}

impl BatchMeter {
    pub(crate) fn new(worker: usize, latencies: Arc<Latencies>) -> Self {
        BatchMeter { latencies, sampler: Sampler::new(worker, GAP), since: None }
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        if self.sampler.is_due() {
            self.start();
        }
    }

    #[cold]
    #[inline(never)]
    fn start(&mut self) {
        self.sampler.again();
        self.since = Some(Stopwatch::start());
    }

    /// Whether the present batch is measured.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// All of the batch was executed: requests of these series.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&mut self, series: impl Iterator<Item = Series>) {
        let Some(since) = self.since.take() else {
            return;
        };
        let elapsed = since.elapsed();
        let mut times = [0; Series::COUNT];
        series.for_each(|series| times[series as usize] += 1);
        for series in Series::COMMANDS {
            if times[series as usize] > 0 {
                self.latencies.note(series, times[series as usize], elapsed);
            }
        }
    }

    /// The measurement that has begun is not of a batch of requests.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.since = None;
    }
}

/// Measures rounds of one worker, and how long connections wait in them.
#[derive(Debug)]
pub(crate) struct RoundMeter {
    latencies: Arc<Latencies>,
    sampler: Sampler,
    since: Option<Stopwatch>,
    turns: u32,
}

impl RoundMeter {
    pub(crate) fn new(worker: usize, latencies: Arc<Latencies>) -> Self {
        RoundMeter { latencies, sampler: Sampler::new(worker, GAP), since: None, turns: 0 }
    }

    /// The worker has polled its sockets.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        self.latencies.rounds.add(0, 1);
        if self.sampler.is_due() {
            self.start();
        }
    }

    #[cold]
    #[inline(never)]
    fn start(&mut self) {
        self.sampler.again();
        self.turns = 0;
        self.since = Some(Stopwatch::start());
    }

    #[inline(always)]
    pub(crate) fn turn(&mut self) {
        if self.since.is_some() {
            self.note_turn();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_turn(&mut self) {
        if let Some(since) = self.since {
            self.turns += 1;
            self.latencies.note(Series::Queue, 1, since.elapsed());
        }
    }

    /// All connections have had their turns.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        if self.since.is_some() {
            self.note_round();
        }
    }

    #[cold]
    #[inline(never)]
    fn note_round(&mut self) {
        if let Some(since) = self.since.take().filter(|_| self.turns > 0) {
            self.latencies.note(Series::Round, 1, since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::histogram::Histogram;

    #[test]
    fn about_one_batch_in_sixteen_is_measured_and_all_requests_of_it() {
        let latencies = Arc::<Latencies>::default();
        let mut meter = BatchMeter::new(0, latencies.clone());
        let batches = 10_000;
        for _ in 0..batches {
            meter.begin();
            if meter.is_on() {
                meter.end([Series::Get, Series::Set, Series::Get].into_iter());
            }
        }
        let count = |series| Histogram::sum([latencies.of(series)]).count();
        assert_eq!(count(Series::Get), 2 * count(Series::Set));
        let share = f64::from(batches) / count(Series::Set) as f64;
        assert!((14.0..18.0).contains(&share), "one in {share}");
    }

    #[test]
    fn a_round_without_a_turn_is_not_counted() {
        let latencies = Arc::<Latencies>::default();
        let mut meter = RoundMeter::new(0, latencies.clone());
        for round in 0..1000 {
            meter.begin();
            if round >= 500 {
                meter.turn();
                meter.turn();
            }
            meter.end();
        }
        let count = |series| Histogram::sum([latencies.of(series)]).count();
        assert!(count(Series::Round) > 20 && count(Series::Queue) == 2 * count(Series::Round));
        assert_eq!(latencies.rounds(), 1000);
    }
}
