//! A server that is taken over repeatedly while clients use it.
//!
//! No connection is closed, none is refused, no reply is wrong and nothing is lost. Some successors
//! cannot take over, and the server resumes. Values are short: one of more than 16 KiB that takes
//! too long to arrive may be cut off.

use std::path::Path;
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::ServerProcess;
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;
use rustix::process::Signal;

use crate::admin::{flush, stat};
use crate::checked::{reader, writer::Writer};
use crate::client::Client;
use crate::field::{Field, Losses};
use crate::history::{History, Kind};
use crate::link::{Addresses, Carrier};
use crate::plan::Plan;
use crate::report;
use crate::server::{self, has_option};
use crate::speech::Speech;

/// Memory of the server, in MiB, and another amount.
const MEMORY: [u64; 2] = [64, 96];
const RESERVE: u64 = 128;

/// Keys: so few that nothing has to be evicted.
const KEYS: [(Kind, usize); 3] = [(Kind::Warm, 300), (Kind::Up, 30), (Kind::Down, 30)];

/// Threads that write, and as many that read.
const THREADS: usize = 2;

/// How long a server may take to end once another has taken over.
const END_MAX: Duration = Duration::from_secs(30);

const LONG: Duration = Duration::from_secs(3600);

/// Runs as many takeovers as the plan says. Returns the failures.
pub(crate) fn run(plan: &Plan) -> Result<Vec<String>, String> {
    if !has_option(&plan.binary, "--takeover") {
        println!("takeovers: skipped: this guira has no --takeover");
        return Ok(Vec::new());
    }
    println!("takeovers: seed {}, {} times", plan.seed, plan.takeovers);
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = Scratch::within(&parent).map_err(|error| format!("cannot make a folder: {error}"))?;
    let mut random = Rng::new(plan.seed);
    let mut server = start(plan, &folder, &["--workers", "2"])?;
    let tcp = server::wait_until_ready(&mut server)?;
    let tcp = *tcp.first().ok_or("it listens on no port")?;
    let addresses = Addresses { tcp, tls: None, unix: folder.file("socket") };
    let field = Field::new(addresses, server.id(), LONG, Losses::Wrong);
    flush::once(&field).map_err(|error| format!("cannot flush: {error}"))?;
    let history = History::new("t", &KEYS);
    let result = std::thread::scope(|scope| {
        let (field, history) = (&field, &history);
        for number in 0..THREADS {
            let writer = Writer::new(field, history, number, THREADS, Rng::part(plan.seed, number as u64));
            scope.spawn(move || writer.run());
            let random = Rng::part(plan.seed, 100 + number as u64);
            scope.spawn(move || reader::run(field, history, random));
        }
        scope.spawn(move || connect(field));
        let result = take_over(plan, &folder, field, &mut server, &mut random);
        field.stop();
        result
    });
    result?;
    let (evictions, lost) = (stat(&field, "evictions"), missing(&field));
    if evictions == Some(0) && lost > 0 {
        field.fail(format!("{lost} items were lost, and none was evicted"));
    }
    server.signal(Signal::TERM);
    ended(&field, &mut server);
    report::counts(&field, field.now() as f64 / 1000.0);
    Ok(report::verdict("takeovers", &field, plan.seed, &server.lines()))
}

/// Misses of keys that were acknowledged and not removed.
fn missing(field: &Field) -> u64 {
    let counts = field.counts();
    let lost = ["evicted: few short values", "evicted: others"].map(|name| counts.get(name).copied());
    lost.into_iter().flatten().sum()
}

fn start(plan: &Plan, folder: &Scratch, more: &[&str]) -> Result<ServerProcess, String> {
    let file = |name: &str| folder.file(name).display().to_string();
    let (memory, reserve) = (format!("{}MiB", MEMORY[0]), format!("{RESERVE}MiB"));
    let (region, takeover, unix) = (file("region"), file("takeover"), format!("unix:{}", file("socket")));
    let words = ["--memory", &memory, "--reserve", &reserve, "--region", &region, "--takeover", &takeover];
    let listen = ["--listen", "127.0.0.1:0", "--listen", &unix];
    let arguments = words.into_iter().chain(listen).chain(more.iter().copied());
    server::spawn(plan, &arguments.map(str::to_owned).collect::<Vec<_>>())
}

fn take_over(
    plan: &Plan,
    folder: &Scratch,
    field: &Field,
    server: &mut ServerProcess,
    random: &mut Rng,
) -> Result<(), String> {
    let mut counters = field.counters();
    for round in 0..plan.takeovers {
        field.pause(Duration::from_millis(random.below(200)));
        if !field.goes_on() {
            return Ok(());
        }
        if random.below(5) == 0 {
            field.remember(format!("round {round}: a successor that cannot take over"));
            // A region of other items cannot be gone on with.
            let mut other = start(plan, folder, &["--max-item-size", "2MiB"])?;
            let status = other.wait(END_MAX).map_err(|error| error.to_string())?;
            if status.success() || server.ended().is_some() {
                field.fail("a server that could not go on with the items took over");
            }
            counters.one("successors that could not take over");
        }
        let workers = (1 + random.below(3)).to_string();
        let memory = format!("{}MiB", MEMORY[random.below(2) as usize]);
        field.remember(format!("round {round}: {workers} workers, {memory}"));
        let mut next = start(plan, folder, &["--workers", &workers, "--memory", &memory])?;
        server::wait_until_ready(&mut next)?;
        ended(field, server);
        *server = next;
        counters.one("takeovers");
    }
    if stat(field, "takeovers") != Some(plan.takeovers) {
        field.fail(format!("{:?} takeovers are counted", stat(field, "takeovers")));
    }
    Ok(())
}

/// The server has to end in order, and to have complained of nothing.
fn ended(field: &Field, server: &mut ServerProcess) {
    match server.wait(END_MAX) {
        Ok(status) if status.success() => {}
        Ok(status) => field.fail(format!("the server ended with {status}: {}", server.errors())),
        Err(error) => field.fail(error.to_string()),
    }
    for line in server.alarms() {
        field.fail(format!("the server says: {line}"));
    }
}

/// Connects, sends a request and disconnects in a loop: no connection may be refused. Records the
/// longest wait.
fn connect(field: &Field) {
    let mut counters = field.counters();
    let mut longest = Duration::ZERO;
    while field.goes_on() {
        let begin = Stopwatch::start();
        let requested = Client::try_open(field, Carrier::Tcp, Speech::Text).and_then(|mut client| {
            client.wire().send(b"version\r\n")?;
            client.wire().line()
        });
        longest = longest.max(begin.elapsed());
        match requested {
            Ok(line) if line.starts_with("VERSION") => counters.one("connections made"),
            Ok(line) => field.fail(format!("a new connection is told {line:?}")),
            Err(error) => field.fail(format!("a new connection is refused: {error}")),
        }
    }
    counters.add("longest wait of a new connection, ms", longest.as_millis() as u64);
}
