//! A whole load: several threads of the engine, and the processor time of the server.

use std::io;
use std::thread;
use std::time::Duration;

use guira_client::mica::ITEM_MAX;
use guira_harness::affinity::pin_thread;
use guira_harness::process::{CpuTime, Process};
use guira_workload::{Generator, Model, Operation, Rng, ValuePool};
use serde::Serialize;

use crate::clock::{Clock, MonotonicClock};
use crate::counters::{Counters, Counts, Percentiles};
use crate::engine::{self, Measured, Observer, Plan, Quiet, Span};
use crate::error::LoadError;
use crate::pace::Pace;
use crate::protocol::Protocol;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::source::{Draws, Limited, Preload, Source};
use crate::target::{Carrier, Target};

/// The most bytes of keys in a get that is sent as a datagram: memcached and Guira limit their own
/// datagrams to 1,400 bytes, including header and command.
const UDP_GET_MAX: usize = 1380;

/// A load as its user describes it.
#[derive(Debug, Clone)]
pub struct Load {
    pub target: Target,
    pub threads: usize,
    pub connections: usize,
    /// Requests in flight on each connection.
    pub pipeline: usize,
    /// When requests are sent.
    pub pace: Pace,
    pub model: Model,
    pub style: ItemStyle,
    pub check: Check,
    /// Time before the measured part.
    pub warmup: Duration,
    /// Length of the measured part.
    pub duration: Duration,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Processors for the client's threads; empty for all.
    pub cores: Vec<usize>,
}

impl Load {
    /// One request in flight on one connection, without an end of its own; every reply is compared
    /// as a whole.
    #[must_use]
    pub const fn new(target: Target, model: Model, seed: u64) -> Self {
        Self {
            target,
            threads: 1,
            connections: 1,
            pipeline: 1,
            pace: Pace::Closed,
            model,
            style: ItemStyle { flags: 0, multiget_keys: 1 },
            check: Check::Contents { sample: 1 },
            warmup: Duration::ZERO,
            duration: Duration::ZERO,
            seed,
            cores: Vec::new(),
        }
    }
}

/// The result of a load.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Counts and latencies of all threads.
    pub counters: Counters,
    /// Length of the measured part in seconds.
    pub elapsed_s: f64,
    /// Processor time of the server in the measured part, in seconds, if the server was measured.
    pub server_cpu_s: Option<f64>,
    /// The part of it in user mode.
    pub server_user_s: Option<f64>,
}

/// An [`Outcome`] in the form in which it is written to a file.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// Length of the measured part in seconds.
    pub elapsed_s: f64,
    /// Processor time of the server in it, in seconds.
    pub server_cpu_s: Option<f64>,
    /// The part of it in user mode, by clock ticks.
    pub server_user_s: Option<f64>,
    /// Operations per second of time.
    pub operations_per_s: f64,
    /// Operations per second of the server's processor time.
    pub operations_per_server_cpu_s: Option<f64>,
    /// The share of requested keys that were found.
    pub hit_ratio: f64,
    pub counts: Counts,
    pub get_latency: Percentiles,
    /// Latencies of sets, fills and deletes.
    pub set_latency: Percentiles,
    /// The first wrong or refused replies, in words.
    pub examples: Vec<String>,
}

impl Outcome {
    fn new(counters: Counters, elapsed_s: f64, server_s: Option<[f64; 2]>) -> Self {
        let [server_cpu_s, server_user_s] = server_s.map_or([None; 2], |seconds| seconds.map(Some));
        Outcome { counters, elapsed_s, server_cpu_s, server_user_s }
    }

    /// The outcome in the form in which it is written to a file.
    #[must_use]
    pub fn record(&self) -> Record {
        Record {
            elapsed_s: self.elapsed_s,
            server_cpu_s: self.server_cpu_s,
            server_user_s: self.server_user_s,
            operations_per_s: self.per_second(),
            operations_per_server_cpu_s: self.per_cpu_second(),
            hit_ratio: self.counters.counts.hit_ratio(),
            counts: self.counters.counts.clone(),
            get_latency: Percentiles::of(&self.counters.get_ns),
            set_latency: Percentiles::of(&self.counters.set_ns),
            examples: self.counters.examples.clone(),
        }
    }

    /// Operations per second of time.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.counters.counts.operations() as f64 / self.elapsed_s.max(1e-9)
    }

    /// Operations per second of the server's processor time, if the server was measured.
    #[must_use]
    pub fn per_cpu_second(&self) -> Option<f64> {
        self.server_cpu_s.map(|cpu| self.counters.counts.operations() as f64 / cpu.max(1e-9))
    }

    /// Nanoseconds of the server in user and in system mode for an operation, if the server was
    /// measured.
    #[must_use]
    pub fn server_ns(&self) -> Option<[f64; 2]> {
        let (cpu, user) = (self.server_cpu_s?, self.server_user_s?);
        let operations = self.counters.counts.operations().max(1) as f64;
        Some([user, cpu - user].map(|seconds| seconds * 1e9 / operations))
    }

    /// An error when a larger share of the requests than `limit` was never answered.
    ///
    /// # Errors
    /// When a larger share was lost.
    pub fn require_answered(&self, limit: f64) -> Result<(), LoadError> {
        let counts = &self.counters.counts;
        if counts.lost_ratio() <= limit {
            return Ok(());
        }
        Err(LoadError::Lost { lost: counts.lost, requests: counts.commands + counts.lost, limit })
    }

    /// An error when any reply was wrong.
    ///
    /// # Errors
    /// When any reply was wrong.
    pub fn require_right(&self) -> Result<(), LoadError> {
        if self.counters.counts.wrong == 0 {
            return Ok(());
        }
        let first = self.counters.examples.first().cloned().unwrap_or_default();
        Err(LoadError::WrongReplies { count: self.counters.counts.wrong, first })
    }
}

/// Reads a server's processor time at both ends of the measured part, and forwards all phases.
struct Meter<'a> {
    process: Option<Process>,
    from: Option<io::Result<CpuTime>>,
    to: Option<io::Result<CpuTime>>,
    listener: &'a mut dyn Observer,
}

impl Observer for Meter<'_> {
    fn started(&mut self) {
        self.from = self.process.map(|process| process.cpu_time());
        self.listener.started();
    }

    fn ended(&mut self) {
        self.to = self.process.map(|process| process.cpu_time());
        self.listener.ended();
    }

    fn progress(&mut self, counters: &Counters) {
        self.listener.progress(counters);
    }
}

impl Meter<'_> {
    /// The server's processor time in seconds: all of it, and the part in user mode.
    fn seconds(self) -> Result<Option<[f64; 2]>, LoadError> {
        let system = LoadError::system("cannot read the server's processor time");
        match (self.from, self.to) {
            (Some(from), Some(to)) => {
                let (from, to) = (from.map_err(&system)?, to.map_err(&system)?);
                let spent = to.since(from);
                let seconds = spent.total_ns as f64 / 1e9;
                Ok(Some([seconds, seconds * spent.user_share()]))
            }
            _ => Ok(None),
        }
    }
}

/// Runs `source` on this thread; `process` is the server whose processor time is read.
///
/// # Errors
/// As [`engine::run`], and when the processor time cannot be read.
pub fn run_source<S: Source>(
    plan: &Plan,
    source: S,
    values: ValuePool,
    clock: MonotonicClock,
    process: Option<Process>,
    listener: &mut dyn Observer,
) -> Result<Outcome, LoadError> {
    let mut meter = Meter { process, from: None, to: None, listener };
    let Measured { counters, elapsed_ns } =
        engine::run(plan, source, values, clock, Rng::new(0), &mut meter)?;
    Ok(Outcome::new(counters, elapsed_ns as f64 / 1e9, meter.seconds()?))
}

impl Load {
    /// Runs the load; `process` is the server whose processor time is read.
    ///
    /// # Errors
    /// When the options make no sense, or a thread's engine fails.
    pub fn run(&self, process: Option<Process>, listener: &mut dyn Observer) -> Result<Outcome, LoadError> {
        self.require_sense()?;
        let clock = MonotonicClock::start();
        let from_ns = u64::try_from(self.warmup.as_nanos()).unwrap_or(u64::MAX) + clock.now_ns();
        let until_ns = from_ns.saturating_add(u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX));
        let span = Span { from_ns, until_ns: Some(until_ns) };
        let values = ValuePool::new(self.model.sizes.max() as usize);
        thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads)
                .map(|index| {
                    let values = values.clone();
                    scope.spawn(move || self.run_part(index, span, values, clock, &mut Quiet))
                })
                .collect();
            let mut meter = Meter { process, from: None, to: None, listener };
            let first = self.run_part(0, span, values.clone(), clock, &mut meter);
            let mut results = vec![first];
            for other in others {
                results
                    .push(other.join().map_err(|_| LoadError::Options("a load thread panicked".to_owned()))?);
            }
            let mut counters = Counters::default();
            let mut elapsed_s: f64 = 0.0;
            for result in results {
                let measured = result?;
                counters.merge(&measured.counters);
                elapsed_s = elapsed_s.max(measured.elapsed_ns as f64 / 1e9);
            }
            Ok(Outcome::new(counters, elapsed_s, meter.seconds()?))
        })
    }

    /// Sets every key once, so that later gets find it.
    ///
    /// # Errors
    /// When the options make no sense, and as [`engine::run`].
    pub fn preload(&self, listener: &mut dyn Observer) -> Result<Outcome, LoadError> {
        let source = Preload::new(self.model.clone(), 0, self.model.popularity.count());
        self.run_unmeasured(4, 64, source, listener)
    }

    /// Sends `requests` requests of the load unmeasured, to bring the contents of a cache to their
    /// steady state.
    ///
    /// # Errors
    /// When the options make no sense, and as [`engine::run`].
    pub fn settle(&self, requests: u64, listener: &mut dyn Observer) -> Result<Outcome, LoadError> {
        let draws = Draws::new(Generator::new(self.model.clone(), Rng::part(self.seed, u64::MAX)));
        self.run_unmeasured(self.connections, self.pipeline, Limited::new(draws, requests), listener)
    }

    fn run_unmeasured<S: Source>(
        &self,
        connections: usize,
        pipeline: usize,
        source: S,
        listener: &mut dyn Observer,
    ) -> Result<Outcome, LoadError> {
        self.require_sense()?;
        let plan = Plan {
            target: self.target.by_connection(),
            connections,
            pipeline,
            pace: Pace::Closed,
            style: self.style,
            check: self.check,
            span: Span { from_ns: 0, until_ns: None },
        };
        let values = ValuePool::new(self.model.sizes.max() as usize);
        run_source(&plan, source, values, MonotonicClock::start(), None, listener)
    }

    fn require_sense(&self) -> Result<(), LoadError> {
        let fail = |problem: &str| Err(LoadError::Options(problem.to_owned()));
        if self.threads == 0 || self.connections == 0 || self.pipeline == 0 || self.style.multiget_keys == 0 {
            return fail("threads, connections, pipeline and multiget keys must each be at least 1");
        }
        if self.connections < self.threads {
            return fail("connections must be at least the number of threads");
        }
        if matches!(self.target.carrier, Carrier::Udp(_)) {
            if self.target.protocol != Protocol::Text {
                return fail("UDP supports only the text protocol");
            }
            let get = self.style.multiget_keys as usize * (self.model.keys.len_max() + 1);
            if self.model.mix.has(Operation::Multiget) && get > UDP_GET_MAX {
                return Err(LoadError::Options(format!(
                    "over UDP a request is one datagram: {} keys of {} bytes do not fit into {UDP_GET_MAX}",
                    self.style.multiget_keys,
                    self.model.keys.len_max()
                )));
            }
        }
        if matches!(self.target.carrier, Carrier::Mica(_)) {
            self.require_sense_of_datagrams()?;
        }
        match self.pace {
            Pace::Open { rate_per_s, .. } if !rate_per_s.is_finite() || rate_per_s <= 0.0 => {
                fail("the rate must be a positive number")
            }
            _ => Ok(()),
        }
    }

    fn require_sense_of_datagrams(&self) -> Result<(), LoadError> {
        if self.connections != self.threads {
            let problem = "with MICA datagrams, every thread has one connection";
            return Err(LoadError::Options(problem.to_owned()));
        }
        let (key, value) = (self.model.keys.len_max(), self.model.sizes.max() as usize);
        if key + value > ITEM_MAX {
            return Err(LoadError::Options(format!(
                "keys of {key} bytes and values of {value} do not fit into MICA datagrams of {ITEM_MAX} bytes: use TCP"
            )));
        }
        Ok(())
    }

    fn run_part(
        &self,
        index: usize,
        span: Span,
        values: ValuePool,
        clock: MonotonicClock,
        observer: &mut dyn Observer,
    ) -> Result<Measured, LoadError> {
        if let Some(&core) = self.cores.get(index % self.cores.len().max(1)) {
            pin_thread(&[core]).map_err(LoadError::system("cannot keep a load thread on its processor"))?;
        }
        let share = self.connections / self.threads + usize::from(index < self.connections % self.threads);
        let plan = Plan {
            target: self.target.clone(),
            connections: share,
            pipeline: self.pipeline,
            pace: match self.pace {
                Pace::Closed => Pace::Closed,
                Pace::Open { rate_per_s, arrivals } => {
                    Pace::Open { rate_per_s: rate_per_s * share as f64 / self.connections as f64, arrivals }
                }
            },
            style: self.style,
            check: self.check,
            span,
        };
        let draws = Draws::new(Generator::new(self.model.clone(), Rng::part(self.seed, 2 * index as u64)));
        engine::run(&plan, draws, values, clock, Rng::part(self.seed, 2 * index as u64 + 1), observer)
    }
}
