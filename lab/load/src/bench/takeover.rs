//! A successor takes over from a server that holds gigabytes: how long the clients wait, and whether they miss anything.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Operation, Popularity, SizeModel};
use serde::Serialize;

use super::{Options, SAMPLE};
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::Pace;
use crate::reply::Check;
use crate::request::ItemStyle;
use crate::run::Load;
use crate::server::{GUIRA, Kind};
use crate::target::Target;

const VALUE_LEN: u32 = 1024;
const WORKERS: &str = "2";
/// Clients that have one get in flight each.
const CLIENTS: usize = 3;
/// Clients that only stay connected.
const IDLE: usize = 500;
/// The share of the keys set that a server must hold: mica's index may lose some.
const HELD_MIN: f64 = 0.99;
/// How long a server may take to start, or to end once another has taken over.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// What the servers hold, and how long clients ask.
#[derive(Debug, Clone)]
pub struct Case {
    pub keys: u64,
    /// The server's memory in bytes.
    pub memory: u64,
    /// How long clients ask each time; a takeover begins in the middle.
    pub duration: Duration,
    pub engines: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TakenOver {
    pub engine: String,
    pub items: u64,
    /// The longest that a client has waited in each takeover, in milliseconds.
    pub longest_ms: Vec<f64>,
    /// The same in as long a time without a takeover: what the machine does to clients by itself.
    pub quiet_ms: Vec<f64>,
    /// Gets beside takeovers and after them.
    pub gets: u64,
    pub misses: u64,
    /// The share of the gets before that missed: mica's index may have lost some.
    pub missed_before: f64,
    pub closed: usize,
}

/// Measures each engine of a Guira; other servers are left out, which is reported to `log`.
///
/// # Errors
/// When a server cannot be started or taken over, a load fails, or an answer is wrong.
pub fn run(case: &Case, options: &Options, log: &mut dyn FnMut(&str)) -> Result<Vec<TakenOver>, LoadError> {
    let mut all = Vec::new();
    for kind in options.servers.iter().filter(|kind| kind.is_cache()) {
        let Kind::Guira { binary, args } = kind else {
            log(&format!("takeover: skipped {}: takeover is not supported", kind.name()));
            continue;
        };
        for engine in &case.engines {
            log(&format!("takeover: setting {} keys in {engine}", case.keys));
            let line = Line::new(case, binary, args, engine)?;
            all.push(line.measure(case, engine, options, log)?);
        }
    }
    Ok(all)
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
    fn new(case: &Case, binary: &Path, args: &[String], engine: &str) -> Result<Self, LoadError> {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = Scratch::within(&parent).map_err(LoadError::system("cannot make a folder"))?;
        let file = |name: &str| folder.file(name).display().to_string();
        let mut all = args.to_vec();
        all.extend(["--engine".to_owned(), engine.to_owned()]);
        all.extend(["--memory".to_owned(), case.memory.to_string()]);
        all.extend(["--region".to_owned(), file("region"), "--takeover".to_owned(), file("takeover")]);
        let (server, addr) = spawn(binary, &all, "127.0.0.1:0")?;
        Ok(Self { binary: binary.to_owned(), args: all, _folder: folder, server, addr })
    }

    fn measure(
        mut self,
        case: &Case,
        engine: &str,
        options: &Options,
        log: &mut dyn FnMut(&str),
    ) -> Result<TakenOver, LoadError> {
        let load = load(self.addr, case, options.seed);
        load.preload(&mut Quiet)?.require_right()?;
        let mut found = TakenOver {
            engine: engine.to_owned(),
            items: guira_harness::stats::stats(self.addr, "")
                .ok()
                .and_then(|stats| guira_harness::stats::number(&stats, "curr_items"))
                .unwrap_or(0),
            longest_ms: Vec::new(),
            quiet_ms: Vec::new(),
            gets: 0,
            misses: 0,
            missed_before: 0.0,
            closed: 0,
        };
        if (found.items as f64) < HELD_MIN * case.keys as f64 {
            return Err(fail(format!("{engine}: only {} items of {} fit", found.items, case.keys)));
        }
        let connect = || TcpStream::connect(self.addr);
        let idle: Vec<TcpStream> = (0..IDLE)
            .map(|_| connect())
            .collect::<Result<_, _>>()
            .map_err(LoadError::system("cannot connect"))?;
        for round in 0..options.rounds {
            let longest = |outcome: &crate::run::Outcome| outcome.counters.get_ns.max() as f64 / 1e6;
            let quiet = load.run(None, &mut Quiet)?;
            quiet.require_right()?;
            found.quiet_ms.push(longest(&quiet));
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
            found.longest_ms.push(longest(&outcome));
            log(&format!(
                "takeover: round {} of {}: {engine:<8} {:.0} ms, {:.0} without one",
                round + 1,
                options.rounds,
                found.longest_ms[round],
                found.quiet_ms[round]
            ));
        }
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
    Load {
        target: Target::text(addr),
        threads: 1,
        connections: CLIENTS,
        pipeline: 1,
        pace: Pace::Closed,
        model: Model {
            popularity: Popularity::Uniform { count: case.keys },
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(VALUE_LEN),
            mix: Mix::Only(Operation::Get),
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Leave,
        },
        style: ItemStyle { flags: 0, multiget_keys: 1 },
        check: Check::Contents { sample: SAMPLE },
        warmup: Duration::ZERO,
        duration: case.duration,
        seed,
        cores: Vec::new(),
    }
}

/// Whether a connection that was idle is answered.
fn is_served(mut client: &TcpStream) -> bool {
    let mut line = String::new();
    let timed = client.set_read_timeout(Some(WAIT_MAX)).is_ok();
    let asked = timed && client.write_all(b"mn\r\n").is_ok();
    asked && BufReader::new(client).read_line(&mut line).is_ok() && line == "MN\r\n"
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
