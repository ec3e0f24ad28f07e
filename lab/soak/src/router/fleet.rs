//! Servers, and a router in front of them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};
use rustix::process::Signal;

use super::as_text;
use crate::plan::Plan;
use crate::server;

pub(super) struct Node {
    process: ServerProcess,
    pub(super) address: SocketAddr,
}

impl Node {
    pub(super) fn start(plan: &Plan) -> Result<Self, String> {
        Node::start_at(plan, "127.0.0.1:0")
    }

    fn start_at(plan: &Plan, address: &str) -> Result<Self, String> {
        let words = ["--listen", address, "--workers", "1", "--memory", "64MiB"];
        let mut process = server::spawn(plan, &words.map(str::to_owned))?;
        let address = *server::wait_until_ready(&mut process)?.first().ok_or("it listens on no port")?;
        Ok(Node { process, address })
    }

    /// Kills it and starts another one in its place, which has nothing.
    pub(super) fn replace(&mut self, plan: &Plan) -> Result<(), String> {
        self.process.kill();
        *self = Node::start_at(plan, &self.address.to_string())?;
        Ok(())
    }

    pub(super) fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(super) fn go_on(&self) {
        self.process.signal(Signal::CONT);
    }
}

/// A pool called `name` as a configuration has it.
pub(super) fn pool(name: &str, addresses: &[SocketAddr]) -> String {
    let servers: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    format!("\"{name}\": {{\"servers\": [{}]}}", servers.join(", "))
}

/// A configuration that sends everything to these servers.
pub(super) fn only(addresses: &[SocketAddr]) -> String {
    format!("{{\"pools\": {{{}}}, \"route\": \"PoolRoute|A\"}}", pool("A", addresses))
}

/// A running router. Its alarms are panics.
pub(super) struct Router {
    pub(super) process: ServerProcess,
    pub(super) address: SocketAddr,
    folder: Scratch,
}

impl Router {
    /// Starts a router that takes servers out of service early, and probes them early.
    pub(super) fn start(binary: &Path, config: &str, options: &[&str]) -> Result<Self, String> {
        let folder = Scratch::new();
        let file = folder.write("router.json", config);
        let mut command = Command::new(binary);
        command.args([
            "router",
            "--listen",
            "127.0.0.1:0",
            "--num-proxies",
            "2",
            "--disable-miss-on-get-errors",
        ]);
        command.args(["--server-timeout-ms", "50", "--probe-timeout-initial-ms", "10"]);
        command.args(["--probe-timeout-max-ms", "50", "--config-file"]).arg(file).args(options);
        let spec = Spec::of_service(command).alarmed_by(|line| line.contains("panicked"));
        let (process, address) = ServerProcess::listening(spec, "").map_err(as_text)?;
        Ok(Router { process, address, folder })
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.file("router.json")
    }

    /// Panics that the router logged, and whether it has ended.
    pub(super) fn failures(&mut self) -> Vec<String> {
        let ended = self.process.ended().map(|status| format!("the router ended with {status}"));
        self.process.alarms().into_iter().chain(ended).collect()
    }
}
