//! An etcd of one member.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether one of its programs, such as `etcdctl`, is installed.
pub fn has(program: &str) -> bool {
    let known = Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    known.is_ok_and(|status| status.success())
}

/// One that keeps its files in the folder `data`, and tells clients that it is at `clients`, a URL.
pub fn daemon(data: &Path, clients: &str, peers: SocketAddr) -> Command {
    let peers = format!("http://{peers}");
    let mut server = Command::new("etcd");
    server.arg("--data-dir").arg(data);
    server.args(["--listen-client-urls", clients, "--advertise-client-urls", clients]);
    server.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
    server.args(["--initial-cluster", &format!("default={peers}"), "--logger=zap", "--log-level=error"]);
    server
}
