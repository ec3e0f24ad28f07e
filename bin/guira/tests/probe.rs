//! `guira probe` and its driver against real nodes.

use std::io::Write;
use std::num::NonZeroU64;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use guira_checker::probe::{Driver, FirstLook, Settings, Tally};
use guira_client::text::{Connection, Target};
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};

/// How long is waited for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

fn guira(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira"));
    command.args(arguments).env_remove("NOTIFY_SOCKET");
    command
}

/// A node, and a connection to it.
struct Node {
    _process: ServerProcess,
    address: String,
    client: Connection,
}

fn target(address: &str) -> Target {
    Target::new(address.parse().expect("an address"), PATIENCE)
}

impl Node {
    fn start() -> Self {
        Self::with_engine("memc3")
    }

    fn with_engine(engine: &str) -> Self {
        let mut command = guira(&["serve", "--workers", "1", "--memory", "64MiB", "--listen", "127.0.0.1:0"]);
        command.args(["--engine", engine]);
        let mut process = ServerProcess::start(Spec::new(command)).expect("the binary was built");
        let address = process.wait_until_ready(PATIENCE).expect("it serves")[0].place.clone();
        let client = Connection::open(&target(&address)).expect("it answers");
        Self { _process: process, address, client }
    }

    #[track_caller]
    fn ask(&mut self, request: &str, reply: &str) {
        self.client.send(request.as_bytes()).expect("it reads");
        assert_eq!(self.client.line().expect("it answers").escape_ascii().to_string(), reply, "{request:?}");
    }

    fn store(&mut self, key: &str) {
        self.ask(&format!("set {key} 0 0 1\r\nx\r\n"), "STORED");
    }
}

/// `guira probe` with these keys as its input.
fn probe(arguments: &[&str], keys: &str) -> Output {
    let mut command = guira(&["probe", "--sample", "1", "--delays", "50ms"]);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built");
    child.stdin.take().expect("a pipe").write_all(keys.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// Lines of standard output with one blank between words.
fn lines(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
fn assert_has(lines: &[String], wanted: &[String]) {
    for line in wanted {
        assert!(lines.contains(line), "no {line:?} in {lines:#?}");
    }
}

#[test]
fn a_delete_that_arrives_late_is_stale_until_then() {
    for engine in ["memc3", "classic", "fleec", "memclock", "mica", "mica-store"] {
        arrives_late(Node::with_engine(engine), Node::with_engine(engine));
    }
}

fn arrives_late(mut early: Node, mut late: Node) {
    let seconds = Duration::from_secs;
    let settings = Settings {
        one_in: NonZeroU64::MIN,
        delays: [1, 10, 60].map(seconds).to_vec(),
        nodes: 2,
        first_look: FirstLook::BeforeDelete,
        under_way_max: 10,
    };
    let targets = [target(&early.address), target(&late.address)];
    let mut driver = Driver::start(settings, &targets).expect("threads");
    early.store("k");
    late.store("k");
    // The clock of the deletes is moved; what is waited for are answers.
    let mut now = Duration::ZERO;
    let id = driver.sampled(b"k", now).expect("sampled");
    let wait = |driver: &mut Driver, now: Duration, is_done: &dyn Fn(&Driver) -> bool| {
        let done = Deadline::after(PATIENCE).poll(|| {
            driver.turn(now, Duration::from_millis(1));
            is_done(driver).then_some(())
        });
        assert!(done.is_some(), "{:?}", driver.report());
    };
    wait(&mut driver, now, &|driver| driver.is_known(id));
    driver.sent(id, now);
    early.ask("delete k\r\n", "DELETED");
    let (consistent, stale) =
        (Tally { consistent: 1, ..Tally::default() }, Tally { stale: 1, ..Tally::default() });
    let nodes = |driver: &Driver, delay: usize| driver.report().delays[delay].nodes.clone();
    now = seconds(1);
    wait(&mut driver, now, &|driver| nodes(driver, 0).iter().all(|tally| tally.judged() == 1));
    assert_eq!(nodes(&driver, 0), [consistent, stale]);
    // The delete arrives, and the key is filled again: the new item is not the old one.
    late.ask("delete k\r\n", "DELETED");
    late.store("k");
    now = seconds(10);
    wait(&mut driver, now, &|driver| nodes(driver, 1).iter().all(|tally| tally.judged() == 1));
    assert_eq!(nodes(&driver, 1), [consistent, consistent]);
    now = seconds(60);
    wait(&mut driver, now, &|driver| driver.under_way() == 0);
    let report = driver.report();
    assert_eq!([0, 1, 2].map(|delay| report.delays[delay].overall), [stale, consistent, consistent]);
    assert_eq!(
        (report.examples.len(), report.examples[0].node, report.examples[0].seen),
        (1, 1, [seconds(1); 2])
    );
    // Looking was no use of the items.
    late.ask("mg k h\r\n", "HD h0");
}

#[test]
fn deletes_are_carried_out_after_the_first_look() {
    let (mut a, mut b) = (Node::start(), Node::start());
    a.store("both");
    b.store("both");
    a.store("one");
    let output =
        probe(&["--node", &a.address, "--node", &b.address, "--delete"], "both\none\r\n\nno key\nnone\n");
    assert_has(
        &lines(&output),
        &[
            "3 deletes: 3 sampled, 0 dropped, 0 in progress; 2 lines without a valid key".to_owned(),
            "50ms all nodes 2 0 1 0 100.0000% >0.3".to_owned(),
            format!("{} 2 0 1 0 100.0000% >0.3", a.address),
            format!("{} 1 0 2 0 100.0000% >0.0", b.address),
        ],
    );
    a.ask("mg both\r\n", "EN");
    b.ask("mg both\r\n", "EN");
}

#[test]
fn a_router_that_loses_deletes_and_a_dead_node_are_found() {
    let (mut a, mut b, folder) = (Node::start(), Node::start(), Scratch::new());
    a.store("k");
    b.store("k");
    // This router sends deletes to one node only.
    let metrics = folder.path().join("probe.prom").display().to_string();
    let nodes = ["--node", &a.address, "--node", &b.address, "--node", "127.0.0.1:1"];
    let more = ["--delete", "--via", &a.address, "--metrics", &metrics];
    let output = probe(&[&nodes[..], &more].concat(), "k\n");
    let lines = lines(&output);
    assert_has(
        &lines,
        &[
            "50ms all nodes 0 1 0 0 0.0000% 0.0".to_owned(),
            format!("{} 1 0 0 0 100.0000% >0.0", a.address),
            format!("{} 0 1 0 0 0.0000% 0.0", b.address),
            "127.0.0.1:1 0 0 0 1 - -".to_owned(),
        ],
    );
    let example = format!("k at {}: deleted at ", b.address);
    assert!(
        lines.iter().any(|line| line.starts_with(&example) && line.ends_with("after 50ms to 50ms")),
        "{lines:#?}"
    );
    let text = std::fs::read_to_string(&metrics).expect("metrics");
    let line =
        format!("guira_probe_looks_total{{delay=\"0.05\",node=\"{}\",outcome=\"stale\"}} 1\n", b.address);
    assert!(text.contains(&line) && text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn an_observer_deletes_nothing() {
    let (mut a, b) = (Node::start(), Node::start());
    a.store("k");
    let output = probe(&["--node", &a.address, "--node", &b.address], "k\n");
    assert_has(
        &lines(&output),
        &[format!("{} 0 1 0 0 0.0000% 0.0", a.address), format!("{} 1 0 0 0 100.0000% >0.0", b.address)],
    );
    a.ask("mg k\r\n", "HD");
}

#[test]
fn arguments_that_make_no_sense_are_explained() {
    for (arguments, message) in [
        (&["probe"][..], "--node"),
        (&["probe", "--node", "x"][..], "HOST:PORT"),
        (&["probe", "--node", "a:1", "--sample", "0"][..], "at least 1"),
        (&["probe", "--node", "a:1", "--delays", "1,soon"][..], "soon"),
        (&["probe", "--node", "a:1", "--via", "b:1"][..], "--delete"),
    ] {
        let output = guira(arguments).stdin(Stdio::null()).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(message), "{arguments:?}: {output:?}");
    }
}
