//! Instructions in user mode that a server takes for an operation, counted by valgrind's callgrind.
//!
//! A count does not depend on how busy the machine is, so that changes of less than a percent are seen. A load runs twice, with few
//! operations and with many, each against a server of its own: what the start takes is in both, and the difference is the
//! operations'. System calls are not in it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal, Spec};
use guira_workload::{Generator, KeyShape, Mix, Model, Operation, Rng, ValuePool};
use serde::Serialize;

use super::columns::{header, push};
use super::driver::Bench;
use crate::clock::MonotonicClock;
use crate::engine::{self, Quiet, Span};
use crate::error::LoadError;
use crate::pace::Pace;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::run::run_source;
use crate::server::{GUIRA, Kind};
use crate::source::{Draws, Limited, Preload, Source};
use crate::target::Target;

/// The caption of the table.
pub(super) const CAPTION: &str = "Instructions in user mode for an operation: callgrind, one worker and one connection, the difference of two runs.";

const KEYS: u64 = 1000;
const VALUE_LEN: u32 = 32;
/// How long a server may take to start or to end: valgrind is slow, and translates each line of code that it meets.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// Arguments of every server. valgrind has no clock for the advice.
const ARGUMENTS: [&str; 5] =
    ["serve", "--listen=127.0.0.1:0", "--workers=1", "--memory=64MiB", "--disable-advice"];

/// A load of which the requests are counted.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    operation: Operation,
    pipeline: usize,
    keys: u32,
    /// Requests of the shorter run, and of the longer one.
    requests: [u64; 2],
}

const CASES: [Case; 4] = [
    Case { name: "a get alone", operation: Operation::Get, pipeline: 1, keys: 1, requests: [1_000, 6_000] },
    Case {
        name: "a get in a pipeline of 64",
        operation: Operation::Get,
        pipeline: 64,
        keys: 1,
        requests: [6_400, 64_000],
    },
    Case {
        name: "a key of a get of 100",
        operation: Operation::Multiget,
        pipeline: 1,
        keys: 100,
        requests: [100, 1_000],
    },
    Case {
        name: "a set in a pipeline of 64",
        operation: Operation::Set,
        pipeline: 64,
        keys: 1,
        requests: [6_400, 64_000],
    },
];

/// Instructions for an operation of one load with one engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    pub load: &'static str,
    pub engine: String,
    pub instructions: f64,
    /// The same of the other binary.
    pub against: Option<f64>,
}

/// Counts every load with every engine; nothing without valgrind, which is reported to `log`.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<Counted>, LoadError> {
    if !has_valgrind() {
        bench.log("instructions: skipped: valgrind is not installed (apt-get install valgrind)");
        return Ok(Vec::new());
    }
    let (options, parameters) = (bench.options, bench.parameters);
    let mut all = Vec::new();
    for kind in &options.servers {
        let Kind::Guira { binary, args } = kind else { continue };
        for engine in &parameters.engines {
            for case in &CASES {
                let count = |binary: &Path| per_operation(binary, args, engine, case);
                let instructions = count(binary)?;
                let against = parameters.against.as_deref().map(count).transpose()?;
                bench.log(&format!("instructions: {engine:<8} {:<26} {instructions:.0}", case.name));
                all.push(Counted { load: case.name, engine: engine.clone(), instructions, against });
            }
        }
    }
    Ok(all)
}

/// A row for each load and a column for each engine; three if there is another binary.
pub(super) fn table(results: &[Counted]) -> String {
    let (mut loads, mut engines): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for counted in results {
        if !loads.contains(&counted.load) {
            loads.push(counted.load);
        }
        if !engines.contains(&counted.engine.as_str()) {
            engines.push(&counted.engine);
        }
    }
    let is_compared = results.iter().any(|counted| counted.against.is_some());
    let mut columns = vec![String::new()];
    for engine in &engines {
        columns.push((*engine).to_owned());
        if is_compared {
            columns.extend([format!("{engine}, the other"), "difference, %".to_owned()]);
        }
    }
    let mut table = header(&columns);
    for load in loads {
        push(&mut table, format_args!("| {load} |"));
        for engine in &engines {
            let is_it = |counted: &&Counted| counted.load == load && counted.engine == *engine;
            let Some(counted) = results.iter().find(is_it) else { continue };
            push(&mut table, format_args!(" {:.0} |", counted.instructions));
            if let Some(against) = counted.against {
                let difference = 100.0 * (counted.instructions / against.max(1e-9) - 1.0);
                push(&mut table, format_args!(" {against:.0} | {difference:+.1} |"));
            }
        }
        table.push('\n');
    }
    table
}

fn has_valgrind() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

fn per_operation(binary: &Path, args: &[String], engine: &str, case: &Case) -> Result<f64, LoadError> {
    let [few, many] = case.requests;
    let [of_few, of_many] = [few, many].map(|requests| count(binary, args, engine, case, requests));
    let operations = (many - few) * u64::from(case.keys);
    Ok((of_many? as f64 - of_few? as f64) / operations as f64)
}

/// The instructions of a whole server under that load.
fn count(binary: &Path, args: &[String], engine: &str, case: &Case, requests: u64) -> Result<u64, LoadError> {
    let fail = |problem: String| LoadError::Server { name: GUIRA.to_owned(), problem };
    let scratch = Scratch::new();
    let out = scratch.file("callgrind");
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display())).arg(binary);
    command.args(ARGUMENTS).args(["--engine", engine]).args(args);
    let listening = ServerProcess::listening(Spec::of_service(command), "");
    let (mut process, addr) = listening.map_err(|error| fail(error.to_string()))?;
    let model = Model::uniform(KeyShape::sixteen(), KEYS, VALUE_LEN, Mix::Only(case.operation));
    run_load(addr, 64, 1, Preload::new(model.clone(), 0, KEYS))?;
    let draws = Draws::new(Generator::new(model, Rng::new(1)));
    run_load(addr, case.pipeline, case.keys, Limited::new(draws, requests))?;
    process.signal(Signal::TERM);
    process.wait(WAIT_MAX).map_err(|error| fail(error.to_string()))?;
    let text = fs::read_to_string(&out).map_err(|source| LoadError::File { path: out.clone(), source })?;
    total(&text).ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidData, "there is no sum in it");
        LoadError::File { path: out, source }
    })
}

/// Sends a stream of requests to its end, over one connection.
fn run_load<S: Source>(
    addr: std::net::SocketAddr,
    pipeline: usize,
    keys: u32,
    source: S,
) -> Result<(), LoadError> {
    let plan = engine::Plan {
        target: Target::text(addr),
        connections: 1,
        pipeline,
        pace: Pace::Closed,
        style: ItemStyle { flags: 0, multiget_keys: keys },
        check: Check::Contents { sample: 1 },
        span: Span { from_ns: 0, until_ns: None },
    };
    let values = ValuePool::new(VALUE_LEN as usize);
    run_source(&plan, source, values, MonotonicClock::start(), None, &mut Quiet)?.require_right()
}

/// The sum of a file of callgrind's.
fn total(text: &str) -> Option<u64> {
    let sum = |line: &str| {
        let rest = line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:"))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    text.lines().rev().find_map(sum)
}

#[cfg(test)]
mod tests {
    use super::{CASES, total};

    #[test]
    fn the_sum_of_a_file_is_found() {
        let text = "version: 1\nevents: Ir\nfn=(1) main\n16 400\n\ntotals: 12345\n";
        assert_eq!(total(text), Some(12_345));
        assert_eq!(total("events: Ir\nsummary: 77 3\n"), Some(77));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn both_runs_of_a_load_end_with_a_whole_batch() {
        for case in CASES {
            let [few, many] = case.requests;
            assert!(few < many && [few, many].iter().all(|count| count % case.pipeline as u64 == 0));
        }
    }
}
