//! A Prometheus of a test's own.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::process::Command;

use guira_harness::scratch::Scratch;
use guira_harness::server::ServerProcess;
use serde_json::Value;

use crate::http::HttpClient;
use crate::server::{spawn, wait_for};

/// A running Prometheus that scrapes every second, unless its jobs say otherwise, gone when it is dropped.
#[derive(Debug)]
pub struct Prometheus {
    address: SocketAddr,
    _process: ServerProcess,
    _scratch: Scratch,
}

impl Prometheus {
    /// Starts one with these `scrape_configs`, in YAML; `None` when it is not installed.
    ///
    /// # Panics
    /// If it does not start, as with jobs that it does not understand.
    #[track_caller]
    pub fn start(jobs: &str) -> Option<Self> {
        match Command::new("prometheus").arg("--version").output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            output => drop(output.expect("prometheus can be run")),
        }
        let scratch = Scratch::new();
        let text = format!("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n{jobs}");
        let mut command = Command::new("prometheus");
        command.arg("--config.file").arg(scratch.write("prometheus.yaml", &text));
        command.arg("--storage.tsdb.path").arg(scratch.file("data"));
        command.arg("--web.listen-address=127.0.0.1:0");
        let process = spawn(command);
        let address = wait_for("the address of prometheus", || {
            let log = process.errors();
            let line = log.lines().find(|line| line.contains("\"Listening on\""))?;
            line.rsplit_once("address=")?.1.trim().parse().ok()
        });
        Some(Prometheus { address, _process: process, _scratch: scratch })
    }

    /// The series that a query gives now.
    ///
    /// # Errors
    /// What Prometheus says of the query.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(char::from(byte)),
                _ => drop(write!(encoded, "%{byte:02X}")),
            }
        }
        let reply = HttpClient::connect(self.address).get(&format!("/api/v1/query?query={encoded}"), "");
        let body: Value = serde_json::from_str(&reply.body).map_err(|error| error.to_string())?;
        match body["data"]["result"].as_array() {
            Some(series) if body["status"] == "success" => Ok(series.clone()),
            _ => Err(format!("{query}: {body}")),
        }
    }
}
