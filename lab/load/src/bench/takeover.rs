//! A successor takes over from a server that holds gigabytes: how long the clients wait, and whether they miss anything.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use guira_harness::rounds::median;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};
use guira_harness::stats::{number, stats};
use guira_workload::{KeyShape, Mix, Model, Operation};
use serde::Serialize;

use super::SAMPLE;
use super::columns::{rows, significant};
use super::driver::{Bench, require_held};
use super::parameters::Scale;
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::reply::Check;
use crate::run::{Load, Outcome};
use crate::server::{GUIRA, Kind};
use crate::target::Target;

const NAME: &str = "takeover";
/// The caption of the table.
pub(super) const CAPTION: &str = "A successor takes over while three clients have a get in flight each: the longest that one of them waits, and without a takeover.";

const VALUE_LEN: u32 = 1024;
const WORKERS: &str = "2";
/// Clients that have one get in flight each.
const CLIENTS: usize = 3;
/// Clients that only stay connected.
const IDLE: usize = 500;
/// How long a server may take to start, or to end once another has taken over.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The items of the servers, and the duration of the load.
#[derive(Debug, Clone)]
pub struct Case {
    pub keys: u64,
    /// The server's memory in bytes.
    pub memory: u64,
    /// The duration of the load each time; a takeover begins in the middle.
    pub duration: Duration,
}

impl Case {
    /// Items of 1 KiB, with all that belongs to them somewhat less than 4 GiB.
    pub(super) const fn new(scale: Scale) -> Self {
        Self { keys: scale.part(3_400_000), memory: scale.part(4 << 30), duration: Duration::from_secs(4) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TakenOver {
    pub engine: String,
    pub items: u64,
    /// The longest that a client has waited in each takeover, in milliseconds.
    pub longest_ms: Vec<f64>,
    /// The same over an equal time without a takeover: the delays caused by the machine.
    pub quiet_ms: Vec<f64>,
    /// Gets during takeovers and after them.
    pub gets: u64,
    pub misses: u64,
    /// The share of the gets before that missed: mica's index may have lost some.
    pub missed_before: f64,
    pub closed: usize,
}

/// Measures each engine of a Guira; other servers are left out, which is reported.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<Vec<TakenOver>, LoadError> {
    let case = Case::new(bench.scale());
    let mut all = Vec::new();
    for (engine, kind) in bench.engines(NAME) {
        let Kind::Guira { binary, args } = kind else { continue };
        bench.log(&format!("{NAME}: setting {} keys in {engine}", case.keys));
        all.push(Line::new(&case, binary, args)?.measure(&case, engine, bench)?);
    }
    Ok(all)
}

pub(super) fn table(results: &[TakenOver]) -> String {
    rows(
        results,
        &[
            ("engine", &|taken| taken.engine.clone()),
            ("items", &|taken| taken.items.to_string()),
            ("longest wait, ms, median", &|taken| significant(median(&taken.longest_ms), 3)),
            ("most", &|taken| significant(taken.longest_ms.iter().copied().fold(0.0, f64::max), 3)),
            ("without, median", &|taken| significant(median(&taken.quiet_ms), 3)),
            ("misses", &|taken| taken.misses.to_string()),
            ("gets", &|taken| taken.gets.to_string()),
            ("missed before, %", &|taken| format!("{:.3}", 100.0 * taken.missed_before)),
            ("idle connections closed", &|taken| taken.closed.to_string()),
        ],
    )
}

/// Servers that follow each other on one region and one port.
struct Line {
    binary: PathBuf,
    args: Vec<String>,
    _folder: Scratch,
    server: ServerProcess,
    addr: SocketAddr,
}

fn fail(problem: impl std::fmt::Display) -> LoadError {
    LoadError::Server { name: GUIRA.to_owned(), problem: problem.to_string() }
}

fn spawn(binary: &Path, args: &[String], listen: &str) -> Result<(ServerProcess, SocketAddr), LoadError> {
    let mut command = Command::new(binary);
    command.args(["serve", "--workers", WORKERS, "--listen", listen]).args(args);
    let (mut server, addr) = ServerProcess::listening(Spec::of_service(command), "").map_err(fail)?;
    server.wait_until_ready(WAIT_MAX).map_err(fail)?;
    Ok((server, addr))
}

impl Line {
    fn new(case: &Case, binary: PathBuf, mut args: Vec<String>) -> Result<Self, LoadError> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = Scratch::within(&parent).map_err(LoadError::system("cannot make a folder"))?;
        let file = |name: &str| folder.file(name).display().to_string();
        args.extend(["--memory".to_owned(), case.memory.to_string()]);
        args.extend(["--region".to_owned(), file("region"), "--takeover".to_owned(), file("takeover")]);
        let (server, addr) = spawn(&binary, &args, "127.0.0.1:0")?;
        Ok(Self { binary, args, _folder: folder, server, addr })
    }

    fn measure(mut self, case: &Case, engine: &str, bench: &mut Bench<'_>) -> Result<TakenOver, LoadError> {
        let load = load(self.addr, case, bench.options.seed);
        load.preload(&mut Quiet)?.require_right()?;
        let items = stats(self.addr, "").ok().and_then(|stats| number(&stats, "curr_items")).unwrap_or(0);
        require_held(engine, items, case.keys)?;
        let mut found = TakenOver { engine: engine.to_owned(), items, ..TakenOver::default() };
        let idle: Vec<TcpStream> = (0..IDLE)
            .map(|_| TcpStream::connect(self.addr))
            .collect::<Result<_, _>>()
            .map_err(LoadError::system("cannot connect"))?;
        let waits = bench.repeat(NAME, engine, |round| {
            let longest = |outcome: &Outcome| outcome.counters.get_ns.max() as f64 / 1e6;
            let quiet = load.run(None, &mut Quiet)?;
            quiet.require_right()?;
            if round == 0 {
                found.missed_before = 1.0 - quiet.counters.counts.hit_ratio();
            }
            let outcome = thread::scope(|scope| {
                let clients = scope.spawn(|| load.run(None, &mut Quiet));
                thread::sleep(case.duration / 2);
                let taken = self.take_over();
                let outcome = clients.join().unwrap_or_else(|_| Err(fail("the clients panicked")));
                taken.and(outcome)
            })?;
            outcome.require_right()?;
            let after = load.run(None, &mut Quiet)?;
            for counts in [&outcome.counters.counts, &after.counters.counts] {
                found.gets += counts.gets;
                found.misses += counts.gets - counts.hits;
            }
            let waits = (longest(&outcome), longest(&quiet));
            Ok((waits, format!("{:.0} ms, {:.0} without one", waits.0, waits.1)))
        })?;
        (found.longest_ms, found.quiet_ms) = waits.into_iter().unzip();
        found.closed = idle.into_iter().filter(|client| !is_served(client)).count();
        Ok(found)
    }

    /// Starts a successor and waits until its predecessor has ended.
    fn take_over(&mut self) -> Result<(), LoadError> {
        let (next, _) = spawn(&self.binary, &self.args, &self.addr.to_string())?;
        let status = self.server.wait(WAIT_MAX).map_err(fail)?;
        if !status.success() {
            return Err(fail(format!("the previous server exited with {status}: {}", self.server.errors())));
        }
        self.server = next;
        Ok(())
    }
}

fn load(addr: SocketAddr, case: &Case, seed: u64) -> Load {
    let model = Model::uniform(KeyShape::sixteen(), case.keys, VALUE_LEN, Mix::Only(Operation::Get));
    Load {
        connections: CLIENTS,
        check: Check::Contents { sample: SAMPLE },
        duration: case.duration,
        ..Load::new(Target::text(addr), model, seed)
    }
}

/// Whether a connection that was idle is answered.
fn is_served(mut client: &TcpStream) -> bool {
    let mut line = String::new();
    let timed = client.set_read_timeout(Some(WAIT_MAX)).is_ok();
    let is_sent = timed && client.write_all(b"mn\r\n").is_ok();
    is_sent && BufReader::new(client).read_line(&mut line).is_ok() && line == "MN\r\n"
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::is_served;

    #[test]
    fn a_connection_that_was_closed_is_told_from_one_that_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let served = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.write_all(b"MN\r\n").unwrap();
        let closed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        drop(listener.accept().unwrap());
        assert!(!is_served(&closed));
        assert!(is_served(&served));
    }
}
