//! Misses: real traces through memcached and Guira, at equal resident size.
//!
//! memcached gets memory for a part of a trace's keys and values. The resident size of its process
//! at the end is the limit for Guira: the bench searches for the largest memory with which Guira
//! stays below it. One request is in flight at a time, so that none overtakes the set that follows
//! its own miss; the figures depend on the policies and the number of items in memory, not on the
//! clients. No time is measured, so traces are replayed on all processors in parallel, each server
//! on the processor of its client.

mod equal;
mod table;
mod traces;

use std::path::PathBuf;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use serde::Serialize;

use super::Options;
use super::driver::Bench;
use super::memory::{self, Case as Filling};
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::server::{Kind, Server, Spec};
use equal::Fit;
use guira_harness::scratch::Scratch;
use guira_workload::SizeModel;
pub(crate) use table::table;
use traces::{Case, Extent, Recorded};

const MIB: u64 = 1 << 20;

/// The options of Guira in the comparison, added to those of every server. The first has none.
const VARIANTS: &[Variant] = &[
    (DEFAULT, &[]),
    ("classic", &["--engine", "classic"]),
    ("clock", &["--policy", "clock"]),
    ("s3-fifo", &["--policy", "s3-fifo"]),
    ("sieve", &["--policy", "sieve"]),
    ("klru", &["--policy", "klru"]),
    ("lru", &["--policy", "lru"]),
    ("seg-lru", &["--policy", "seg-lru"]),
];

/// Guira without options.
const DEFAULT: &str = "guira";

/// Requests of each trace in a short bench.
const QUICK_REQUESTS: u64 = 20_000;

/// The text above the table.
pub(super) const CAPTION: &str = "Misses of real traces at equal resident size, in percent of the gets.";

#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// A folder of traces that are not in the repository.
    folder: Option<PathBuf>,
    /// The traces to measure, as NAME or NAME:PERCENT; empty for all.
    cases: Vec<String>,
    /// The variants of Guira to measure; empty for all.
    variants: Vec<String>,
    /// The most requests of each trace.
    limit: Option<u64>,
}

/// The misses of one server on one trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missed {
    pub trace: &'static str,
    /// The length of each value; `None` if the trace has sizes.
    pub value_len: Option<u32>,
    pub requests: u64,
    pub keys: u64,
    /// Bytes of those keys and their values.
    pub bytes: u64,
    /// The percentage of these bytes that memcached was given.
    pub percent: u64,
    /// `memcached`, or the command line of Guira.
    pub server: String,
    /// Memory allowed, in bytes.
    pub memory: u64,
    /// Resident size of the process at the end, in bytes.
    pub resident: u64,
    /// `curr_items` at the end.
    pub items: u64,
    pub evictions: u64,
    pub gets: u64,
    /// The gets that found nothing.
    pub misses: u64,
    pub refused: u64,
}

impl Missed {
    /// The share of gets that found nothing.
    fn ratio(&self) -> f64 {
        self.misses as f64 / self.gets.max(1) as f64
    }
}

/// A name of Guira with some options in the tables, and the options.
type Variant = (&'static str, &'static [&'static str]);

struct Job<'a> {
    case: &'a Case,
    extent: Extent,
    percent: u64,
    variants: &'a [Variant],
}

impl Plan {
    fn wants(&self, trace: &str, percent: u64) -> bool {
        let exact = format!("{trace}:{percent}");
        self.cases.is_empty() || self.cases.iter().any(|case| *case == trace || *case == exact)
    }

    fn wants_trace(&self, trace: &Recorded) -> bool {
        trace.percents.iter().any(|percent| self.wants(trace.name, *percent))
    }

    fn variants(&self) -> Result<Vec<Variant>, LoadError> {
        let names = || VARIANTS.iter().map(|(name, _)| *name);
        if let Some(unknown) = self.variants.iter().find(|wanted| names().all(|name| name != *wanted)) {
            let known = names().collect::<Vec<_>>().join(", ");
            return Err(LoadError::Options(format!("unknown variant {unknown:?}; use some of {known}")));
        }
        let is_wanted = |name: &str| self.variants.is_empty() || self.variants.iter().any(|one| one == name);
        Ok(VARIANTS.iter().copied().filter(|(name, _)| is_wanted(name)).collect())
    }
}

/// A message of a replaying thread.
enum Event {
    Line(String),
    Rows(Vec<Missed>),
}

/// Replays all available traces.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Missed>, LoadError> {
    let (options, folder) = (bench.options, bench.parameters.traces.clone());
    let limit = bench.scale().or(None, Some(QUICK_REQUESTS));
    let (wanted, variants) = (bench.parameters.cases.clone(), bench.parameters.variants.clone());
    let plan = Plan { folder, cases: wanted, variants, limit };
    let variants = plan.variants()?;
    let scratch = Scratch::new();
    let cases = traces::present(&plan, scratch.path(), bench.log)?;
    let mut jobs = Vec::new();
    for case in &cases {
        let extent = case.extent()?;
        let percents = case.trace.percents.iter().filter(|percent| plan.wants(case.trace.name, **percent));
        jobs.extend(percents.map(|&percent| Job { case, extent, percent, variants: &variants }));
    }
    let left = Mutex::new(jobs.iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let (events, received) = mpsc::channel();
    let mut rows = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = lanes(options)
            .into_iter()
            .map(|cores| {
                let (events, next) = (events.clone(), &next);
                scope.spawn(move || -> Result<(), LoadError> {
                    while let Some(job) = next() {
                        job.run(options, &cores, &events)?;
                    }
                    Ok(())
                })
            })
            .collect();
        drop(events);
        for event in received {
            match event {
                Event::Line(line) => bench.log(&line),
                Event::Rows(more) => rows.extend(more),
            }
        }
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(LoadError::Options("a replay panicked".to_owned())))
        })
    })?;
    let place = |row: &Missed| (cases.iter().position(|case| case.trace.name == row.trace), row.percent);
    rows.sort_by_key(place);
    Ok(rows)
}

fn lanes(options: &Options) -> Vec<Vec<usize>> {
    let mut cores: Vec<usize> = [&options.server_cores[..], &options.client_cores[..]].concat();
    cores.sort_unstable();
    cores.dedup();
    if cores.is_empty() { vec![Vec::new()] } else { cores.into_iter().map(|core| vec![core]).collect() }
}

impl Job<'_> {
    fn run(&self, options: &Options, cores: &[usize], events: &Sender<Event>) -> Result<(), LoadError> {
        let mut rows = Vec::new();
        // Without a memcached Guira gets the memory that memcached would have got.
        let mut target = (self.extent.bytes * self.percent / 100).max(2 * MIB) / MIB * MIB;
        if let Some(kind) = options.servers.iter().find(|kind| matches!(kind, Kind::Memcached { .. })) {
            let row = self.replay(&Spec::new(kind.clone(), target, cores), kind.name())?;
            target = row.resident;
            self.report(events, &row);
            rows.push(row);
        }
        for kind in &options.servers {
            let Kind::Guira { binary, args } = kind else { continue };
            for (name, more) in self.variants {
                let more = more.iter().map(|&word| word.to_owned());
                let args = args.iter().cloned().chain(more).collect();
                let kind = Kind::Guira { binary: binary.clone(), args };
                let row = self.replay_within(target, kind, name, options, cores)?;
                self.report(events, &row);
                rows.push(row);
            }
        }
        // The receiver is gone only if the bench has failed already.
        let _failed = events.send(Event::Rows(rows));
        Ok(())
    }

    /// Replays on a Guira whose process stays within `target`.
    fn replay_within(
        &self,
        target: u64,
        kind: Kind,
        name: &str,
        options: &Options,
        cores: &[usize],
    ) -> Result<Missed, LoadError> {
        let spec = Spec::new(kind, target, cores);
        let mut fit = Fit::new(target);
        // Filling a server with items of one length is faster than a replay, and gives the same
        // size.
        while !self.extent.is_sized
            && let Some(memory) = fit.next()
        {
            let server = Server::start(&Spec { memory, ..spec.clone() })?;
            memory::fill(&self.filling(target), &server, options)?;
            fit.tried(memory, server.resident_bytes()?);
        }
        if !self.extent.is_sized {
            fit = fit.again();
        }
        let mut best: Option<Missed> = None;
        while let Some(memory) = fit.next() {
            let row = self.replay(&Spec { memory, ..spec.clone() }, name)?;
            fit.tried(memory, row.resident);
            // A result above the target counts only if none is below it, as when the memory is
            // below the minimum.
            let rank = |row: &Missed| (row.resident <= target, row.memory);
            if best.as_ref().is_none_or(|best| rank(best) <= rank(&row)) {
                best = Some(row);
            }
        }
        best.ok_or_else(|| LoadError::Options("no memory was tried".to_owned()))
    }

    /// Items like those of the trace, and more than fit.
    fn filling(&self, target: u64) -> Filling {
        let len = self.case.trace.value_len;
        let keys = target * 3 / 2 / (u64::from(len) + 64);
        Filling { sizes: SizeModel::Constant(len), ..memory::small("filling", target, keys) }
    }

    fn replay(&self, spec: &Spec, name: &str) -> Result<Missed, LoadError> {
        let server = Server::start(spec)?;
        let outcome =
            self.case.replay().run_on(server.addr(), Some(server.process()), &spec.cores, &mut Quiet)?;
        outcome.require_right()?;
        let counts = &outcome.counters.counts;
        Ok(Missed {
            trace: self.case.trace.name,
            value_len: (!self.extent.is_sized).then_some(self.case.trace.value_len),
            requests: self.extent.requests,
            keys: self.extent.keys,
            bytes: self.extent.bytes,
            percent: self.percent,
            server: name.to_owned(),
            memory: spec.memory,
            resident: server.resident_bytes()?,
            items: server.stat("curr_items")?,
            evictions: server.stat("evictions")?,
            gets: counts.gets,
            misses: counts.gets - counts.hits,
            refused: counts.refused,
        })
    }

    fn report(&self, events: &Sender<Event>, row: &Missed) {
        let line = format!(
            "misses {} {} %: {:<9} misses {:.2} %, {:.1} MiB, {} items",
            row.trace,
            row.percent,
            row.server,
            100.0 * row.ratio(),
            row.resident as f64 / MIB as f64,
            row.items
        );
        let _failed = events.send(Event::Line(line));
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, VARIANTS};

    fn plan(cases: &[&str], variants: &[&str]) -> Plan {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Plan { cases: owned(cases), variants: owned(variants), ..Plan::default() }
    }

    #[test]
    fn traces_are_wanted_by_name_or_with_one_size() {
        let some = plan(&["P3", "OLTP:50"], &[]);
        assert!(some.wants("P3", 10) && some.wants("OLTP", 50));
        assert!(!some.wants("OLTP", 5) && !some.wants("P", 50));
        assert!(plan(&[], &[]).wants("P3", 10));
    }

    #[test]
    fn variants_are_found_by_name_and_unknown_ones_refused() {
        assert_eq!(plan(&[], &[]).variants().unwrap(), VARIANTS);
        let names: Vec<&str> =
            plan(&[], &["lru", "guira"]).variants().unwrap().iter().map(|one| one.0).collect();
        assert_eq!(names, ["guira", "lru"]);
        assert!(plan(&[], &["mru"]).variants().unwrap_err().to_string().contains("seg-lru"));
    }
}
