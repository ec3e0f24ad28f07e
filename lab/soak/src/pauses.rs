//! How long clients wait while a server with much memory is taken over from, every answer checked.
//!
//! Three clients get and set random keys once a millisecond, one connects all the time, and others only stay connected. No connection may be
//! refused or closed, no answer wrong, and nothing may be missing that was not evicted.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::ServerProcess;
use guira_protocol::client::{self, Reply};
use guira_protocol::{GetForm, Unique};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;
use rustix::process::Signal;

use crate::line::Line;
use crate::plan::Plan;
use crate::server;

/// Bytes of a value, and what an item takes with key and metadata.
const VALUE: usize = 1024;
const ITEM: u64 = 1100;

/// How full memory is, in percent: nothing has to be evicted.
const FULL: u64 = 85;

/// Clients that get and set; the connector comes after them.
const CLIENTS: usize = 3;

/// Connections that only stay.
const IDLE: usize = 500;

/// One request in this many is a set.
const SETS: u64 = 5;

/// Sets that are sent at once while memory is filled.
const AT_ONCE: u64 = 64;

/// Between two requests of a client.
const PACE: Duration = Duration::from_millis(1);

/// Before a takeover, and after it.
const CALM: Duration = Duration::from_secs(1);

/// How long an answer, or the end of a server, may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Seen {
    is_over: AtomicBool,
    /// The longest wait of each client since the last takeover, in microseconds.
    longest: [AtomicU64; CLIENTS + 1],
    gets: AtomicU64,
    sets: AtomicU64,
    misses: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl Seen {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn waited(&self, client: usize, since: &Stopwatch) {
        self.longest[client].fetch_max(since.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// The longest waits in milliseconds since the last call.
    fn take_longest(&self) -> [f64; CLIENTS + 1] {
        std::array::from_fn(|client| self.longest[client].swap(0, Ordering::Relaxed) as f64 / 1000.0)
    }

    fn fail(&self, what: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Line {
    fn get(&mut self, key: u64) -> io::Result<Option<Vec<u8>>> {
        let name = format!("key{key}");
        let mut request = Vec::new();
        client::get(GetForm::Plain(Unique::Omitted), [name.as_bytes()], &mut request);
        self.send(&request)?;
        let value = match self.reply()? {
            Reply::End => return Ok(None),
            Reply::Value(value)
                if (value.key, value.flags, value.value.len()) == (name.as_bytes(), 0, VALUE) =>
            {
                value.value.to_vec()
            }
            other => return Err(io::Error::other(other.line().escape_ascii().to_string())),
        };
        match self.reply()? {
            Reply::End => Ok(Some(value)),
            other => Err(io::Error::other(other.line().escape_ascii().to_string())),
        }
    }
}

/// The value that a client stores under a key as its `version`th.
fn value_of(key: u64, version: u64) -> Vec<u8> {
    let mut random = Rng::part(key, version);
    (0..VALUE / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

fn set_of(key: u64, version: u64) -> Vec<u8> {
    let mut request = format!("set key{key} 0 0 {VALUE}\r\n").into_bytes();
    request.extend(value_of(key, version));
    request.extend(b"\r\n");
    request
}

/// Measures as many takeovers as the plan says. Returns what failed.
pub(crate) fn run(plan: &Plan) -> Result<Vec<String>, String> {
    println!(
        "pauses: {}, {} MiB, {} takeovers, seed {}",
        plan.engine, plan.memory, plan.takeovers, plan.seed
    );
    let folder = Scratch::within(Path::new("/dev/shm")).map_err(|error| format!("no folder: {error}"))?;
    let mut server = start(plan, &folder)?;
    let address = *server::wait_until_ready(&mut server)?.first().ok_or("it listens on no port")?;
    measure(plan, &folder, &mut server, address).map_err(|error| format!("{error}: {}", server.errors()))
}

fn start(plan: &Plan, folder: &Scratch) -> Result<ServerProcess, String> {
    let file = |name: &str| folder.file(name).display().to_string();
    let (memory, region, takeover) = (format!("{}MiB", plan.memory), file("region"), file("takeover"));
    let words = ["--memory", &memory, "--region", &region, "--takeover", &takeover];
    let more = ["--listen", "127.0.0.1:0", "--workers", "2"];
    server::spawn(plan, &words.into_iter().chain(more).map(str::to_owned).collect::<Vec<_>>())
}

fn measure(
    plan: &Plan,
    folder: &Scratch,
    server: &mut ServerProcess,
    address: SocketAddr,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let keys = plan.memory * (1 << 20) * FULL / 100 / ITEM;
    fill(address, keys)?;
    let mut idle = (0..IDLE).map(|_| Line::open(address)).collect::<io::Result<Vec<_>>>()?;
    let mut asking = Line::open(address)?;
    println!("{} of {keys} items, {} evicted", asking.stat("curr_items")?, asking.stat("evictions")?);
    let seen = Seen::default();
    let mut longest = Vec::new();
    std::thread::scope(|scope| -> Result<(), String> {
        for number in 0..CLIENTS {
            let (seen, random) = (&seen, Rng::part(plan.seed, number as u64));
            scope.spawn(move || run_client(seen, address, (number as u64, keys), random));
        }
        scope.spawn(|| connect(&seen, address));
        let result = (0..plan.takeovers).try_for_each(|_| {
            longest.push(take_over(plan, folder, server, &seen)?);
            Ok(())
        });
        seen.is_over.store(true, Ordering::Relaxed);
        result
    })?;
    let is_lost = |line: &mut Line| line.request("version\r\n").is_err();
    let lost = idle.iter_mut().filter_map(|line| is_lost(line).then_some(())).count();
    if lost > 0 {
        seen.fail(format!("{lost} idle connections were closed"));
    }
    let (misses, evicted) = (seen.misses.load(Ordering::Relaxed), asking.stat("evictions")?);
    if misses > evicted {
        seen.fail(format!("{misses} misses, and {evicted} items were evicted"));
    }
    longest.sort_by(f64::total_cmp);
    let [median, most] =
        [longest.get(longest.len() / 2), longest.last()].map(|ms| ms.copied().unwrap_or(0.0));
    let [gets, sets] = [&seen.gets, &seen.sets].map(|count| count.load(Ordering::Relaxed));
    println!("longest pause, ms: median {median:.1}, most {most:.1}");
    println!("{gets} gets, {misses} misses, {sets} sets, {evicted} evicted");
    server.signal(Signal::KILL);
    let failures = seen.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.iter().for_each(|failure| println!("failure: {failure}"));
    Ok(failures)
}

fn fill(address: SocketAddr, keys: u64) -> io::Result<()> {
    let mut line = Line::open(address)?;
    for first in (0..keys).step_by(AT_ONCE as usize) {
        let some = first..(first + AT_ONCE).min(keys);
        line.send(&some.clone().flat_map(|key| set_of(key, 0)).collect::<Vec<_>>())?;
        for _ in some {
            let answer = line.line()?;
            if answer != "STORED" {
                return Err(io::Error::other(answer));
            }
        }
    }
    Ok(())
}

/// Runs a takeover. Returns the longest wait of a client, in milliseconds.
fn take_over(plan: &Plan, folder: &Scratch, server: &mut ServerProcess, seen: &Seen) -> Result<f64, String> {
    std::thread::sleep(CALM);
    let calm = seen.take_longest();
    let mut next = start(plan, folder)?;
    server::wait_until_ready(&mut next)?;
    let status = server.wait(PATIENCE).map_err(|error| error.to_string())?;
    std::thread::sleep(CALM);
    let waits = seen.take_longest();
    if !status.success() || !server.alarms().is_empty() {
        seen.fail(format!("the server ended with {status}: {}", server.errors()));
    }
    let said = server.errors();
    let report = said.lines().find(|line| line.contains("the new server took over")).unwrap_or_default();
    let times: Vec<&str> = report.split(' ').filter(|word| word.starts_with("us")).collect();
    *server = next;
    let longest = |waits: [f64; CLIENTS + 1]| waits.into_iter().fold(0.0, f64::max);
    println!("  {waits:.1?} ms, before {:.1} ms; {}", longest(calm), times.join(" "));
    Ok(longest(waits))
}

/// Gets and sets the keys of one client, which knows what it has stored.
fn run_client(seen: &Seen, address: SocketAddr, (number, keys): (u64, u64), mut random: Rng) {
    let mut versions: HashMap<u64, u64> = HashMap::new();
    let mut again = || -> io::Result<()> {
        let mut line = Line::open(address)?;
        while seen.goes_on() {
            let key = random.below(keys / CLIENTS as u64) * CLIENTS as u64 + number;
            let version = versions.get(&key).copied().unwrap_or(0);
            let since = Stopwatch::start();
            if random.below(SETS) == 0 {
                line.send(&set_of(key, version + 1))?;
                let answer = line.line()?;
                if answer != "STORED" {
                    return Err(io::Error::other(answer));
                }
                versions.insert(key, version + 1);
                seen.sets.fetch_add(1, Ordering::Relaxed);
            } else {
                let found = line.get(key)?;
                seen.gets.fetch_add(1, Ordering::Relaxed);
                match found {
                    Some(value) if value == value_of(key, version) => {}
                    Some(_) => seen.fail(format!("key{key} has another value than the {version}th")),
                    None => _ = seen.misses.fetch_add(1, Ordering::Relaxed),
                }
            }
            seen.waited(number as usize, &since);
            std::thread::sleep(PACE);
        }
        Ok(())
    };
    if let Err(error) = again() {
        seen.fail(format!("client {number}: {error}"));
    }
}

/// Connects, sends a request and disconnects, repeatedly.
fn connect(seen: &Seen, address: SocketAddr) {
    while seen.goes_on() {
        let since = Stopwatch::start();
        let answer = Line::open(address).and_then(|mut line| line.request("version\r\n"));
        if !answer.as_ref().is_ok_and(|line| line.starts_with("VERSION")) {
            seen.fail(format!("a new connection: {answer:?}"));
        }
        seen.waited(CLIENTS, &since);
        std::thread::sleep(PACE);
    }
}
