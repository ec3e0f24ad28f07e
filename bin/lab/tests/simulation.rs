//! Whether a simulation tells what a server does: the same requests to both, at the number of items that the server held.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use guira_harness::server::{ServerProcess, Spec};
use guira_harness::stats::{number, stats};
use serde_json::Value;

const TRACE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/workload/traces/cache2k-orm-busy.trace.zst");
/// The first requests of the trace: they ask for 15,128 keys, four times as many as the server holds.
const REQUESTS: &str = "100k";
const MEMORY: &str = "10MiB";
/// By how much the hit ratios may differ. They are equal to the second decimal where nothing of the server depends on
/// when its maintenance runs.
const TOLERANCE: f64 = 0.01;

/// A server of this test; it is stopped when this is dropped.
struct Server {
    _process: ServerProcess,
    addr: SocketAddr,
}

impl Server {
    fn start(engine: &str, policy: &str) -> Self {
        let mut command = Command::new(guira());
        command.args(["serve", "--listen", "127.0.0.1:0", "--workers", "1", "--memory", MEMORY]);
        command.args(["--engine", engine, "--policy", policy]);
        let (process, addr) = ServerProcess::listening(Spec::new(command), "").unwrap();
        Self { _process: process, addr }
    }

    fn items(&self) -> u64 {
        let stats = stats(self.addr, "").expect("it answers");
        number(&stats, "curr_items").expect("it tells")
    }
}

/// `guira`, which is built beside `guira-lab`.
fn guira() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_guira-lab")).with_file_name("guira")
}

/// What `guira-lab` with these arguments and `--json` prints.
fn lab(args: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_guira-lab")).args(args).arg("--json").output();
    let output = output.expect("the binary was built");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn assert_simulated_as_served(engine: &str, policy: &str) {
    let server = Server::start(engine, policy);
    // One connection: with more, a key is asked for again before its miss has been filled.
    let replay =
        ["replay", TRACE, "--limit", REQUESTS, "--connections", "1", "--server", &server.addr.to_string()];
    let served = lab(&replay)["hit_ratio"].as_f64().expect("a number");
    let items = server.items();
    assert!((2_000..8_000).contains(&items), "{policy}: {items} items, and it should have evicted");
    let sim = ["sim", TRACE, "--limit", REQUESTS, "--policy", policy, "--sizes", &items.to_string()];
    let simulated = lab(&sim)["points"][0]["hit_ratio"].as_f64().expect("a number");
    assert!(
        (served - simulated).abs() < TOLERANCE,
        "{policy}, {items} items: {served} served, {simulated} simulated"
    );
    // So that the comparison means something: the policies are only some points apart.
    assert!((0.7..0.9).contains(&served), "{policy}: {served}");
}

#[test]
fn clock_is_simulated_as_the_server_does_it() {
    assert_simulated_as_served("memc3", "clock");
}

#[test]
fn segmented_lru_is_simulated_as_the_server_does_it() {
    assert_simulated_as_served("classic", "seg-lru");
}

#[test]
fn klru_is_simulated_as_the_server_does_it() {
    assert_simulated_as_served("memc3", "klru");
}

#[test]
fn s3_fifo_is_simulated_as_the_server_does_it() {
    assert_simulated_as_served("memc3", "s3-fifo");
}
