//! Writes to cache lines that other workers touch, for each operation: what limits a server on many processors, counted
//! on a machine with few.
//!
//! A server with two workers runs under valgrind's lackey, which prints each load and store of each thread. Both workers
//! execute all operations; then one of them executes an operation many times, and each of its stores to a line that the other
//! worker has touched is counted. A count does not depend on how busy the machine is.

mod document;
mod tally;
mod trace;
mod traced;
mod work;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};

pub use document::{document, excesses};

use crate::error::LoadError;
use traced::{Counted, Traced, failed};

/// An engine, with the arguments of a server that uses it.
const ENGINES: [(&str, &[&str]); 9] = [
    ("memc3", &["--engine", "memc3"]),
    ("classic", &["--engine", "classic"]),
    ("fleec", &["--engine", "fleec"]),
    ("memclock", &["--engine", "memclock"]),
    ("mica", &["--engine", "mica"]),
    ("mica:crew", &["--engine", "mica", "--access", "crew"]),
    ("mica:erew", &["--engine", "mica", "--access", "erew"]),
    ("mica-store", &["--engine", "mica-store"]),
    (ROUTER, &[]),
];
/// The column of the router, which has no engine.
const ROUTER: &str = "router";
/// An engine that evicts nothing.
const STORE: &str = "mica-store";

/// Places of stores that are shown of an operation.
const PLACES: usize = 12;

/// The counts of one operation with one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedWrites {
    pub engine: &'static str,
    pub operation: &'static str,
    /// Lines that other workers touch and the operation writes to.
    pub lines_written: f64,
    /// Those of them that many operations write to.
    pub hot_lines_written: f64,
    /// Stores to such lines.
    pub stores: f64,
    /// Lines that other workers write to and the operation only reads.
    pub lines_read: f64,
}

/// Counts the operations of `guira` at `binary` with these engines; with all if none is named.
///
/// # Errors
/// When valgrind is not installed, or a server does not start, or replies wrongly.
pub fn run(
    binary: &Path,
    engines: &[String],
    log: &mut dyn FnMut(&str),
) -> Result<Vec<SharedWrites>, LoadError> {
    let named = |name: &str| engines.is_empty() || engines.iter().any(|engine| engine == name);
    if let Some(unknown) = engines.iter().find(|engine| !ENGINES.iter().any(|(name, _)| name == engine)) {
        let names = ENGINES.map(|(name, _)| name).join(", ");
        return Err(LoadError::Options(format!("unknown engine {unknown:?}; use {names}")));
    }
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !valgrind.is_ok_and(|status| status.success()) {
        return Err(LoadError::Options("valgrind is not installed (apt-get install valgrind)".to_owned()));
    }
    let mut all = Vec::new();
    for (engine, arguments) in ENGINES.iter().filter(|(name, _)| named(name)) {
        let mut note = |(counted, start): Run| {
            for counted in counted {
                let places = Places { binary, start };
                log(&format!("{engine}: {}\n{}", counted.operation, places.of(&counted)));
                all.push(SharedWrites::of(engine, &counted));
            }
        };
        if *engine == ROUTER {
            note(router(binary)?);
            continue;
        }
        note(with_room(binary, arguments)?);
        if *engine != STORE {
            note(when_full(binary, arguments)?);
        }
    }
    Ok(all)
}

impl SharedWrites {
    fn of(engine: &'static str, counted: &Counted) -> Self {
        let each = |count: u64| count as f64 / counted.operations as f64;
        Self {
            engine,
            operation: counted.operation,
            lines_written: each(counted.counts.lines_written),
            hot_lines_written: each(counted.counts.hot_lines_written),
            stores: each(counted.counts.stores),
            lines_read: each(counted.counts.lines_read),
        }
    }
}

/// The counts, and the address at which the program begins.
type Run = (Vec<Counted>, u64);

fn with_room(binary: &Path, engine: &[&str]) -> Result<Run, LoadError> {
    let mut traced = Traced::start(binary, &serve(engine, &["--memory=16MiB"]))?;
    work::with_room(&mut traced)?;
    traced.end()
}

/// A cache that was filled without valgrind, and is full when it is started again.
fn when_full(binary: &Path, engine: &[&str]) -> Result<Run, LoadError> {
    let scratch = Scratch::new();
    let region = format!("--region={}", scratch.file("region").display());
    let memory = format!("--memory={}", work::FULL_MEMORY);
    let arguments = serve(engine, &[&memory, &region]);
    let mut command = Command::new(binary);
    command.args(&arguments);
    let (mut process, addr) = ServerProcess::listening(Spec::of_service(command), "").map_err(failed)?;
    work::fill(addr)?;
    process.end().map_err(failed)?;
    let mut traced = Traced::start(binary, &arguments)?;
    work::when_full(&mut traced)?;
    traced.end()
}

/// A router before one server, which is not traced.
fn router(binary: &Path) -> Result<Run, LoadError> {
    let mut command = Command::new(binary);
    command.args(serve(&[], &["--memory=64MiB"]));
    let (mut server, addr) = ServerProcess::listening(Spec::of_service(command), "").map_err(failed)?;
    let config = format!(r#"{{"pools": {{"A": {{"servers": ["{addr}"]}}}}, "route": "PoolRoute|A"}}"#);
    let arguments = [
        "router",
        "--num-proxies=2",
        "--listen=127.0.0.1:0",
        // valgrind is slow.
        "--server-timeout=600000",
        "--config-str",
        &config,
    ]
    .map(str::to_owned);
    let mut traced = Traced::start(binary, &arguments)?;
    work::routed(&mut traced)?;
    let run = traced.end()?;
    server.end().map_err(failed)?;
    Ok(run)
}

fn serve(engine: &[&str], others: &[&str]) -> Vec<String> {
    let usual = ["serve", "--listen=127.0.0.1:0", "--workers=2", "--disable-advice", "--test-commands"];
    [&usual[..], engine, others].concat().into_iter().map(str::to_owned).collect()
}

/// Names the places of stores, with binutils' addr2line.
struct Places<'a> {
    binary: &'a Path,
    start: u64,
}

impl Places<'_> {
    /// The places with the most stores, with the stores for each operation.
    fn of(&self, counted: &Counted) -> String {
        let most = &counted.counts.places[..counted.counts.places.len().min(PLACES)];
        let addresses: Vec<String> =
            most.iter().map(|(at, _)| format!("{:x}", at.wrapping_sub(self.start))).collect();
        let mut command = Command::new("addr2line");
        command.args(["-C", "-f", "-i", "-p", "-a", "-e"]).arg(self.binary).args(&addresses);
        let output = command.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let named = by_address(&output.unwrap_or_default());
        let line = |(at, count): &(u64, u64)| {
            let at = at.wrapping_sub(self.start);
            let name = named.get(&at).map_or("", String::as_str);
            format!("  {:8.3} {at:x} {name}\n", *count as f64 / counted.operations as f64)
        };
        most.iter().map(line).collect()
    }
}

/// The functions of each address, the inner ones first.
fn by_address(text: &str) -> BTreeMap<u64, String> {
    let mut named = BTreeMap::<u64, String>::new();
    let mut at = 0;
    for line in text.lines() {
        let mut rest = line;
        if let Some((address, after)) = line.strip_prefix("0x").and_then(|line| line.split_once(": "))
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            (at, rest) = (address, after);
        }
        let place = rest.trim().trim_start_matches("(inlined by) ");
        let file = place.rsplit('/').next().unwrap_or_default();
        let function = place.split(" at ").next().unwrap_or_default();
        let all = named.entry(at).or_default();
        all.push_str(if all.is_empty() { "" } else { " < " });
        all.push_str(&format!("{function} ({file})"));
    }
    named
}
