//! `guira load` against `guira serve`, by MICA's datagrams and through shared memory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};
use guira_harness::stats::{number, stats};
use serde_json::Value;

/// How long is waited for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// `guira`, which is built beside `guira-lab`.
fn guira() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_guira-lab")).with_file_name("guira")
}

/// A server of this test; it is ended when this is dropped.
struct Server {
    _process: ServerProcess,
    _scratch: Scratch,
    tcp: String,
    mica: String,
    rings: PathBuf,
}

impl Server {
    fn start() -> Self {
        let scratch = Scratch::new();
        let rings = scratch.file("rings");
        let mut command = Command::new(guira());
        command.args(["serve", "--listen=127.0.0.1:0", "--mica=127.0.0.1:0", "--engine=mica"]);
        command.args(["--access=erew", "--workers=2", "--memory=96MiB"]).arg("--local").arg(&rings);
        let (mut process, tcp) = ServerProcess::listening(Spec::new(command), "").unwrap();
        process.wait_until_ready(PATIENCE).unwrap();
        let mica = process.wait_for_address("mica", PATIENCE).unwrap().to_string();
        Server { _process: process, _scratch: scratch, tcp: tcp.to_string(), mica, rings }
    }

    fn stat(&self, name: &str) -> u64 {
        let stats = stats(self.tcp.parse().expect("an address"), "").expect("it answers");
        number(&stats, name).expect("it tells")
    }

    /// A short load on it, as it tells of itself.
    fn load(&self, arguments: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
        command.args(["load", "--server", &self.tcp, "--json", "--keys=2000", "--value-size=1-600"]);
        command.args(["--duration=300ms", "--warmup=50ms", "--check-every=1", "--flags=7"]).args(arguments);
        let output = command.output().expect("the binary was built");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).expect("json")
    }
}

fn count(record: &Value, name: &str) -> u64 {
    record["counts"][name].as_u64().unwrap_or_else(|| panic!("{name} in {record}"))
}

#[test]
fn every_operation_is_judged_whichever_way_datagrams_go() {
    let server = Server::start();
    let rings = server.rings.display().to_string();
    for way in [["--mica", &server.mica], ["--local", &rings]] {
        for closed in [true, false] {
            let pace: &[&str] = if closed { &["--pipeline=200"] } else { &["--rate=20k"] };
            let mix = ["--preload", "--get=5", "--multiget=2", "--multiget-keys=7", "--set=1", "--delete=1"];
            let record = server.load(&[&way[..], pace, &mix[..], &["--fill-misses", "--threads=2"]].concat());
            for name in ["gets", "hits", "sets", "deletes", "fills", "contents_checked", "bytes_out"] {
                assert!(count(&record, name) > 0, "{way:?}: {name} in {record}");
            }
            for name in ["wrong", "refused", "lost"] {
                assert_eq!(count(&record, name), 0, "{way:?}: {name} in {record}");
            }
            // Each key is compared, so at least its bytes have come.
            assert!(count(&record, "bytes_in") > count(&record, "hits"), "{way:?}: {record}");
            assert!(
                count(&record, "gets") > count(&record, "commands"),
                "keys of a multiget count: {record}"
            );
        }
    }
}

#[test]
fn what_is_preloaded_is_found_by_the_hash() {
    let server = Server::start();
    for per_datagram in ["--per-datagram=1", "--per-datagram=64"] {
        let record = server.load(&[
            "--mica",
            &server.mica,
            "--preload",
            "--pipeline=100",
            "--zipf=0.99",
            per_datagram,
        ]);
        assert_eq!(record["hit_ratio"].as_f64(), Some(1.0), "{record}");
    }
}

#[test]
fn what_datagrams_cannot_carry_is_said() {
    let server = Server::start();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
        command.args(["load", "--server", &server.tcp, "--keys=10", "--duration=100ms"]).args(arguments);
        let output = command.output().expect("the binary was built");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for more in ["--set=1", "--preload"] {
        let text = run(&["--mica", &server.mica, more, "--value-size=2000"]);
        assert!(text.contains("do not fit into MICA datagrams of 1408 bytes: use TCP"), "{text}");
    }
    assert_eq!(server.stat("cmd_set"), 0, "it is said before anything is sent");
    let text = run(&["--mica", "127.0.0.1:9"]);
    assert!(text.contains("cannot query 127.0.0.1:9"), "{text}");
    let text = run(&["--local", "/nowhere/at/all"]);
    assert!(text.contains("cannot query /nowhere/at/all"), "{text}");
    for other in ["--protocol=binary", "--tls", "--connections=3", "--local=x"] {
        assert!(run(&["--mica", &server.mica, other]).contains("cannot be used with"), "{other}");
    }
    assert!(run(&["--per-datagram=3"]).contains("--mica <ADDR>|--local <SOCKET>"));
    let mut second: SocketAddr = server.mica.parse().expect("an address");
    second.set_port(second.port() + 1);
    let text = run(&["--mica", &second.to_string()]);
    assert!(text.contains("is not the first worker's: its port is"), "{text}");
}

#[test]
fn a_server_that_goes_in_the_middle_is_told_by_datagrams() {
    a_server_that_goes_in_the_middle_is_told("--mica");
}

#[test]
fn a_server_that_goes_in_the_middle_is_told_through_memory() {
    a_server_that_goes_in_the_middle_is_told("--local");
}

fn a_server_that_goes_in_the_middle_is_told(way: &str) {
    let server = Server::start();
    let at = if way == "--mica" { server.mica.clone() } else { server.rings.display().to_string() };
    let mut command = Command::new(env!("CARGO_BIN_EXE_guira-lab"));
    command.args(["load", "--server", &server.tcp, way, &at, "--keys=100", "--duration=60s"]);
    let load = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    // It is under way.
    let begun = || (server.stat("mica_requests") >= 1000).then_some(());
    Deadline::after(PATIENCE).poll(begun).expect("it begins");
    drop(server);
    let output = load.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("the server sent nothing for"), "{way}: {text}");
}

#[test]
fn a_rate_that_nobody_keeps_up_with_makes_late_answers_and_no_lost_ones() {
    let server = Server::start();
    let rings = server.rings.display().to_string();
    for way in [["--mica", &server.mica], ["--local", &rings]] {
        let record = server.load(&[&way[..], &["--preload", "--rate=40M"]].concat());
        assert!(count(&record, "gets") > 1_000 && count(&record, "lost") == 0, "{record}");
        // It counts from when a request should have been sent.
        assert!(record["get_latency"]["p50_us"].as_f64() > Some(30_000.0), "{record}");
    }
}
