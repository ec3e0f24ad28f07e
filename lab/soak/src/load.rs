//! All loads at once against one server, and its resources afterwards.

use std::time::Duration;

use guira_harness::certificate::Authority;
use guira_harness::process::{Holdings, Process};
use guira_harness::scratch::Scratch;
use guira_harness::server::ServerProcess;
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;
use rustix::process::Signal;

use crate::admin::{files, flush, lists, stat, verbs};
use crate::checked::{reader, writer::Writer};
use crate::field::{Field, Losses};
use crate::history::{History, Kind};
use crate::link::{Addresses, tls_client};
use crate::plan::{Plan, Scale};
use crate::report::{self, mebibytes};
use crate::rough::{crowd, cut, garbage, greedy, slow};
use crate::server;
use crate::vitals::{Course, descriptors};

/// How long the server may take to let go of everything.
const REST: Duration = Duration::from_secs(45);

/// Above `--memory` the process may have this much: allocator, TLS, and in a debug build a larger binary.
const ALLOWANCE: u64 = 16 << 20;

/// … and this for each connection that there may be: copies of replies that are not read, beside long values,
/// which lie in the engine's memory. The server does not bound the sum of them yet, so a run that needs this
/// part reports it, and fails only beyond it.
const FOR_EACH_CONNECTION: u64 = 128 << 10;

/// By how much the highest of the last third may lie above that of the first; or above `--memory`, if the first third
/// did not come so far, since memory is made less and more during the run.
const GROWTH: u64 = 16 << 20;

/// Runs the load. Returns what failed.
pub(crate) fn run(plan: &Plan) -> Result<Vec<String>, String> {
    println!("load: seed {}, {:?}, {} MiB", plan.seed, plan.length, plan.memory);
    let scale = plan.scale();
    let folder = Scratch::new();
    let authority = Authority::new().map_err(|error| error.to_string())?;
    let mut server = server::spawn(plan, &arguments(plan, scale, &folder, &authority))?;
    let tcp = server::wait_until_ready(&mut server)?;
    let [tls, plain] = tcp[..] else { return Err(format!("it listens on {tcp:?}, not on two ports")) };
    let addresses =
        Addresses { tcp: plain, tls: Some((tls, tls_client(&authority)?)), unix: folder.file("socket") };
    let field = Field::new(addresses, server.id(), plan.length, Losses::Wrong);
    let before = at_rest(&field)?;
    let start = server.process().resident_bytes().unwrap_or(0);
    let course = everything(plan, scale, &field, &authority, &mut server);
    let seconds = field.now() as f64 / 1000.0;
    let after = wait_for_rest(&field, before);
    let ceiling = plan.memory << 20;
    let connections = scale.connections as u64 * FOR_EACH_CONNECTION;
    judge_memory(&field, &course, ceiling, connections);
    end(&field, &mut server);
    report::counts(&field, seconds);
    report_course(&course, before, after, ceiling);
    report::line("resident at the start", &mebibytes(start));
    let counts = field.counts();
    let checked =
        counts.iter().filter(|(what, _)| what.starts_with("checked ")).map(|(_, count)| count).sum::<u64>();
    report::line("seconds", &format!("{seconds:.1}"));
    report::line("checked operations a second", &format!("{:.0}", checked as f64 / seconds));
    report::line("lines in the server's log", &server.line_count().to_string());
    report_misses(&field);
    judge_refusals(&field, checked);
    Ok(report::verdict("load", &field, plan.seed, &server.lines()))
}

fn arguments(plan: &Plan, scale: Scale, folder: &Scratch, authority: &Authority) -> Vec<String> {
    let words = [
        "--workers",
        "2",
        "--listen",
        "127.0.0.1:0",
        "--listen",
        "notls:127.0.0.1:0",
        "--listen",
        &format!("unix:{}", folder.file("socket").display()),
        "--memory",
        &format!("{}MiB", plan.memory),
        "--max-connections",
        &scale.connections.to_string(),
        "--idle-timeout",
        &scale.idle.as_secs().to_string(),
        "--tls-cert",
        &authority.both().display().to_string(),
    ]
    .map(str::to_owned);
    words.to_vec()
}

/// All parts of the load, until it ends; how memory went.
fn everything(
    plan: &Plan,
    scale: Scale,
    field: &Field,
    authority: &Authority,
    server: &mut ServerProcess,
) -> Course {
    let kinds = [
        (Kind::Warm, scale.warm),
        (Kind::Up, scale.numbers),
        (Kind::Down, scale.numbers),
        (Kind::Bulk, scale.bulk),
    ];
    let history = &History::new("soak", &kinds);
    let parts = std::cell::Cell::new(0);
    let random = || {
        parts.set(parts.get() + 1);
        Rng::part(plan.seed, parts.get())
    };
    std::thread::scope(|scope| {
        for number in 0..scale.writers {
            let writer = Writer::new(field, history, number, scale.writers, random());
            scope.spawn(move || writer.run());
        }
        for random in (0..scale.readers).map(|_| random()) {
            scope.spawn(move || reader::run(field, history, random));
        }
        for random in (0..scale.cutters).map(|_| random()) {
            scope.spawn(move || cut::run(field, random));
        }
        let (one, two, three, four, five) = (random(), random(), random(), random(), random());
        scope.spawn(move || garbage::run(field, one));
        scope.spawn(move || greedy::run(field, two, scale.greedy));
        scope.spawn(move || slow::run(field, three));
        scope.spawn(move || crowd::rush(field, four, scale.connections));
        scope.spawn(move || crowd::idlers(field, five, scale.idle));
        let (one, two, three, four, five) = (random(), random(), random(), random(), random());
        scope.spawn(move || flush::run(field, history, one, scale.flushes));
        scope.spawn(move || files::run(field, authority, two));
        scope.spawn(move || lists::dumps(field, three));
        scope.spawn(move || lists::watchers(field, four));
        scope.spawn(move || verbs::run(field, five, plan.memory));
        let course = scope.spawn(|| Course::of(field));
        while field.goes_on() {
            watch(field, server);
            field.pause(Duration::from_millis(100));
        }
        course.join().unwrap_or_default()
    })
}

/// Checks that the server is alive, and reads its log.
fn watch(field: &Field, server: &mut ServerProcess) {
    if let Some(status) = server.ended() {
        field.fail(format!("the server ended with {status}"));
    }
    for line in server.alarms() {
        field.fail(format!("the server says: {line}"));
    }
}

/// The server's resources after the connections of its start are closed.
fn at_rest(field: &Field) -> Result<Holdings, String> {
    let begin = Stopwatch::start();
    while begin.elapsed() < REST {
        let is_alone = stat(field, "curr_connections") == Some(1);
        let pause = Duration::from_millis(100);
        std::thread::sleep(pause);
        let first = Process::new(field.pid).holdings();
        std::thread::sleep(pause);
        if is_alone && Process::new(field.pid).holdings() == first {
            return Ok(first);
        }
    }
    Err(format!("the server has connections {REST:?} after its start"))
}

/// Everything is closed now: waits until the server has let go of it.
fn wait_for_rest(field: &Field, before: Holdings) -> Holdings {
    let begin = Stopwatch::start();
    loop {
        // Read first, so that the connection of this query is closed again.
        let connections = stat(field, "curr_connections");
        let after = Process::new(field.pid).holdings();
        if connections == Some(1) && after == before {
            return after;
        }
        if begin.elapsed() > REST {
            field.fail(format!(
                "{REST:?} after the load: {connections:?} connections instead of 1, {after:?} instead of {before:?}: {:#?}",
                descriptors(field.pid)
            ));
            return after;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn judge_memory(field: &Field, course: &Course, ceiling: u64, connections: u64) {
    let (at, highest) = course.highest();
    let above = mebibytes(highest.saturating_sub(ceiling));
    if highest > ceiling + ALLOWANCE + connections {
        field.fail(format!("at {at} ms memory was {above} above the ceiling"));
    } else if highest > ceiling + ALLOWANCE {
        println!(
            "reported: at {at} ms memory was {above} above the ceiling; connections are not bounded yet"
        );
    }
    let (first, last) = course.thirds();
    if last > first.max(ceiling) + GROWTH {
        let (first, last) = (mebibytes(first), mebibytes(last));
        field.fail(format!("memory grows: at most {first} in the first third and {last} in the last"));
    }
}

fn end(field: &Field, server: &mut ServerProcess) {
    watch(field, server);
    server.signal(Signal::TERM);
    match server.wait(REST) {
        Ok(status) if status.success() => {}
        Ok(status) => field.fail(format!("the server ended with {status} when it was asked to stop")),
        Err(error) => field.fail(error.to_string()),
    }
}

/// Giving an item its cas unique is a write, which may find no memory while memory becomes less; but hardly ever.
fn judge_refusals(field: &Field, checked: u64) {
    let refused = field.counts().get(reader::REFUSED).copied().unwrap_or(0);
    if refused > checked / 1000 {
        field.fail(format!("{refused} of {checked} reads found no memory"));
    }
}

fn report_course(course: &Course, before: Holdings, after: Holdings, ceiling: u64) {
    let (at, highest) = course.highest();
    let (samples, above) = course.above(ceiling);
    let (first, last) = course.thirds();
    report::line("resident at most", &format!("{} at {at} ms", mebibytes(highest)));
    let text = format!("{}; {above} of {samples} samples above it", mebibytes(ceiling));
    report::line("… the ceiling", &text);
    report::line("… allowed above it", &mebibytes(ALLOWANCE));
    report::line("… in the first and last third", &format!("{}, {}", mebibytes(first), mebibytes(last)));
    let text = |now: usize, most: usize, then: usize| {
        format!("{now} at the start, {most} at most, {then} afterwards")
    };
    report::line("descriptors", &text(before.descriptors, course.descriptors, after.descriptors));
    report::line("threads", &text(before.threads, course.threads, after.threads));
}

fn report_misses(field: &Field) {
    let counts = field.counts();
    let count = |what: &str| counts.get(what).copied().unwrap_or(0) as f64;
    for (name, hits, misses) in [
        ("few short values", "hits of few short values", "evicted: few short values"),
        ("others", "hits of others", "evicted: others"),
    ] {
        let rate = 100.0 * count(misses) / (count(hits) + count(misses)).max(1.0);
        report::line(&format!("misses of what was there: {name}"), &format!("{rate:.3} %"));
    }
}
