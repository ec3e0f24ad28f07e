//! Deletes in time: of each change of a database the checker looks what the caches of two regions have after it, one of which is told of changes later.

use super::database::Database;
use super::fleet::{Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table, verdict};
use guira_client::lookaside::{LookAside, Value};
use guira_client::text::Target;
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal, Spec};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_workload::Rng;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-delivery",
    claims: &["S25", "S26"],
    about: "Changes that the caches of the database's region and of another one have followed within a second, when the other one's deletes come late",
    run,
};

/// Rows, which are changed and read at random.
const ROWS: u64 = 5000;
const MEMORY: &str = "64MiB";
/// How late deletes are in the other region, in milliseconds. The first is that of the answer.
const LAGS: [u32; 3] = [100, 900, 2000];
/// When the checker looks, in milliseconds.
const DELAYS: [u32; 2] = [1000, 5000];
/// Between two changes, and between two reads of each region.
const WRITE_EVERY: Duration = Duration::from_millis(4);
const READ_EVERY: Duration = Duration::from_millis(1);
const SECONDS: u64 = 120;
const SECONDS_QUICK: u64 = 4;
/// How long a start or an end may take.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Samples of a region at one delay.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    consistent: u64,
    missing: u64,
    inconsistent: u64,
    unknown: u64,
    superseded: u64,
}

impl Found {
    fn judged(self) -> u64 {
        self.consistent + self.missing + self.inconsistent
    }

    fn share(self) -> f64 {
        100.0 * (self.judged() - self.inconsistent) as f64 / self.judged().max(1) as f64
    }
}

/// A program with an admin listener, and where that is.
fn start(command: Command) -> Result<(ServerProcess, SocketAddr), Failure> {
    ServerProcess::listening(Spec::of_service(command), "admin").map_err(failed)
}

/// What an admin listener has at this path.
fn get(admin: SocketAddr, path: &str) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(admin).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).map_err(failed)?;
    Ok(reply)
}

fn metric(metrics: &str, name: &str) -> Result<u64, Failure> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    value.ok_or_else(|| failed(format!("its metrics lack {name}")))
}

/// What was found in both regions at both delays, and how many changes were committed.
struct Course {
    lag_ms: u32,
    hints: u64,
    regions: [[Found; 2]; 2],
}

/// The programs beside a database and two regions.
struct Pipeline {
    checker: ServerProcess,
    admin: SocketAddr,
    _invalidator: ServerProcess,
}

fn pipeline(
    context: &Context,
    database: &Database,
    nodes: [SocketAddr; 2],
    late: SocketAddr,
    scratch: &Scratch,
) -> Result<Pipeline, Failure> {
    let (socket, hints) = (database.socket(), scratch.file("hints"));
    let [master, replica] = nodes;
    let text = format!(
        "listen = \"unix:{hints}\"\nadmin = \"127.0.0.1:0\"\nsample = 1\ndelays-ms = {DELAYS:?}\n[database.postgres]\naddress = \"unix:{socket}\"\n\
         database = \"postgres\"\nuser = \"herd\"\n[[check]]\nkey = \"row:{{id}}\"\nquery = \"SELECT '', version FROM rows WHERE id = {{id}}\"\n\
         [[cluster]]\nname = \"master\"\naddress = \"{master}\"\n[[cluster]]\nname = \"replica\"\naddress = \"{replica}\"\n",
        hints = hints.display(),
        socket = socket.display(),
    );
    let mut command = Command::new(&context.guira);
    command.args(["check", "--config"]).arg(scratch.write("checker.toml", &text));
    let (checker, admin) = start(command)?;
    let text = format!(
        "position = {:?}\nspool = {:?}\nadmin = \"127.0.0.1:0\"\n[source.postgres]\naddress = \"unix:{}\"\ndatabase = \"postgres\"\nuser = \"herd\"\nslot = \"guira\"\n\
         publication = \"guira\"\n[[template]]\ntable = \"rows\"\nkeys = [\"row:{{id}}\"]\n[[target]]\nname = \"master\"\naddress = \"{master}\"\n\
         [[target]]\nname = \"replica\"\naddress = \"{late}\"\n[[target]]\nname = \"checker\"\naddress = \"unix:{}\"\nagain-after-ms = 0\n",
        scratch.file("position"),
        scratch.file("spool"),
        socket.display(),
        hints.display(),
    );
    let mut command = Command::new(&context.guira);
    command.args(["invalidate", "--config"]).arg(scratch.write("invalidator.toml", &text));
    let (invalidator, ready) = start(command)?;
    let is_ready = || get(ready, "/ready").is_ok_and(|reply| reply.starts_with("HTTP/1.1 200")).then_some(());
    Deadline::after(WAIT_MAX).poll(is_ready).ok_or_else(|| failed("the invalidator does not read"))?;
    Ok(Pipeline { checker, admin, _invalidator: invalidator })
}

/// Reads rows of one region until it is over.
fn read(database: &Database, node: SocketAddr, seed: u64, is_over: &AtomicBool) -> Result<(), Failure> {
    let target = Target::new(node.to_string().parse().map_err(failed)?, WAIT_MAX);
    let (cache, mut connection) = (LookAside::new(target), database.connect()?);
    let mut rng = Rng::part(seed, u64::from(node.port()));
    // Relaxed: it ends a loop.
    while !is_over.load(Ordering::Relaxed) {
        let id = rng.below(ROWS);
        cache.get_or_fill(&format!("row:{id}"), |_| {
            let version = connection.row(&format!("SELECT version FROM rows WHERE id = {id}"))?;
            Ok::<_, Failure>(Some(Value::new("").with_version(version.parse().map_err(failed)?)))
        })?;
        thread::sleep(READ_EVERY);
    }
    Ok(())
}

fn write(database: &Database, seed: u64, is_over: &AtomicBool) -> Result<(), Failure> {
    let (mut connection, mut rng) = (database.connect()?, Rng::part(seed, 1));
    // Relaxed: as for readers.
    while !is_over.load(Ordering::Relaxed) {
        let id = rng.below(ROWS);
        connection
            .row(&format!("UPDATE rows SET version = version + 1 WHERE id = {id} RETURNING version"))?;
        thread::sleep(WRITE_EVERY);
    }
    Ok(())
}

fn measure(context: &Context, lag_ms: u32, length: Duration) -> Result<Course, Failure> {
    let database = Database::start_with(8, &["wal_level=logical"])?;
    database.connect()?.row(&format!(
        "CREATE TABLE rows (id int PRIMARY KEY, version bigint NOT NULL); INSERT INTO rows SELECT id, 0 FROM generate_series(0, {}) AS id; \
         CREATE PUBLICATION guira FOR ALL TABLES; SELECT 1",
        ROWS - 1
    ))?;
    let (nodes, scratch) = (Node::start_all(context, 2, MEMORY)?, Scratch::new());
    let route = format!(
        r#"{{"type": "LatencyInjectionRoute", "child": "PoolRoute|replica", "before_latency_ms": {lag_ms}}}"#
    );
    let router = Router::start(context, &[pool("replica", &nodes[1..])], &route, &[])?;
    let addresses = [nodes[0].address(), nodes[1].address()];
    let mut pipeline = pipeline(context, &database, addresses, router.address, &scratch)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut threads = vec![scope.spawn(|| write(&database, context.seed, &is_over))];
        for node in addresses {
            let (database, is_over) = (&database, &is_over);
            threads.push(scope.spawn(move || read(database, node, context.seed, is_over)));
        }
        thread::sleep(length);
        // Relaxed: as for readers.
        is_over.store(true, Ordering::Relaxed);
        let panicked = |_| failed("a reader or writer has panicked");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
    })?;
    let metrics = || get(pipeline.admin, "/metrics");
    let is_done =
        || metrics().and_then(|text| metric(&text, "guira_checker_under_way")).is_ok_and(|left| left == 0);
    Deadline::after(WAIT_MAX)
        .poll(|| is_done().then_some(()))
        .ok_or_else(|| failed("samples stay under way"))?;
    let text = metrics()?;
    pipeline.checker.signal(Signal::TERM);
    pipeline.checker.wait(WAIT_MAX).map_err(failed)?;
    let mut regions = [[Found::default(); 2]; 2];
    for (region, name) in regions.iter_mut().zip(["master", "replica"]) {
        for (found, delay) in region.iter_mut().zip(DELAYS) {
            let count = |outcome: &str| {
                let delay = delay / 1000;
                metric(
                    &text,
                    &format!(
                        "guira_checker_looks_total{{delay=\"{delay}\",cluster=\"{name}\",outcome=\"{outcome}\"}}"
                    ),
                )
            };
            *found = Found {
                consistent: count("consistent")?,
                missing: count("missing")?,
                inconsistent: count("inconsistent")?,
                unknown: count("unknown")?,
                superseded: count("superseded")?,
            };
        }
    }
    Ok(Course { lag_ms, hints: metric(&text, "guira_checker_hints_total")?, regions })
}

/// A row of the table for each region and delay of a course.
fn rows(course: &Course) -> Vec<Vec<String>> {
    let regions = course.regions.iter().zip(["master", "replica"]);
    let looks = regions.flat_map(|(region, name)| region.iter().zip(DELAYS).map(move |look| (name, look)));
    let row = |(name, (found, delay)): (&str, (&Found, u32))| {
        vec![
            course.lag_ms.to_string(),
            name.to_owned(),
            format!("{} s", delay / 1000),
            course.hints.to_string(),
            found.consistent.to_string(),
            found.missing.to_string(),
            found.inconsistent.to_string(),
            found.unknown.to_string(),
            found.superseded.to_string(),
            format!("{:.4} %", found.share()),
        ]
    };
    looks.map(row).collect()
}

fn ours([soon, later]: [Found; 2]) -> String {
    format!(
        "{:.4} % of {} within 1 s, {:.4} % of {} within 5 s",
        soon.share(),
        soon.judged(),
        later.share(),
        later.judged()
    )
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let length = Duration::from_secs(context.scale.pick(SECONDS, SECONDS_QUICK));
    let courses: Vec<Course> =
        LAGS.iter().map(|lag_ms| measure(context, *lag_ms, length)).collect::<Result<_, _>>()?;
    let first = courses.first().ok_or_else(|| failed("a lag is measured"))?;
    let [master, replica] = first.regions;
    let late = courses.iter().filter(|course| course.lag_ms > DELAYS[0]);
    let is_seen =
        late.clone().count() > 0 && late.clone().all(|course| course.regions[1][0].inconsistent > 0);
    Ok(Outcome {
        how: format!(
            "A row of {ROWS} in a PostgreSQL is changed about every {} ms for {} s, and those of both regions, a node each, are read about every {} ms by the \
             look-aside client, which fills what it misses from the database. guira invalidate deletes in both regions, in the other one by way of a router that holds each \
             request back for so long. guira check samples every change, and compares the items of both nodes with the database.",
            WRITE_EVERY.as_millis(),
            length.as_secs(),
            READ_EVERY.as_millis(),
        ),
        answers: vec![
            answer(
                "S25",
                format!("master {}", ours(master)),
                verdict(&[
                    ("in the region of the database four nines within a second", master[0].share() >= 99.99),
                    ("there are samples enough to show that", master[0].judged() >= 10_000),
                ]) + "A share of changes after which a cache had something else than the database, and not of deletes that have failed; the faults of a fleet of years are not here.",
            ),
            answer(
                "S26",
                format!("replica, {} ms late, {}", first.lag_ms, ours(replica)),
                verdict(&[
                    ("in the other region three nines within a second", replica[0].share() >= 99.9),
                    ("deletes that are later than that are seen", is_seen),
                ]),
            ),
        ],
        tables: vec![table(
            "Changes by the lag of the other region:",
            &[
                "lag (ms)",
                "region",
                "after",
                "changes",
                "consistent",
                "missing",
                "inconsistent",
                "unknown",
                "superseded",
                "right",
            ],
            courses.iter().flat_map(rows).collect(),
        )],
        charts: Vec::new(),
    })
}
