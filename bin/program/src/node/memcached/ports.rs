//! The file that memcached writes its ports to, for a parent process that let the system choose them.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use guira_server::{Address, Running};

use guira_cli::whole;

/// The file's name is in this variable.
const VARIABLE: &str = "MEMCACHED_PORT_FILENAME";

/// The file, if one is wanted.
pub(super) fn file() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).map(PathBuf::from)
}

/// Writes the ports of a server to the file, if one is wanted.
pub(super) fn write(file: Option<&Path>, running: &Running) -> io::Result<()> {
    let Some(path) = file else {
        return Ok(());
    };
    let mut text = String::new();
    let mut line = |protocol: &str, address: &std::net::SocketAddr| {
        let family = if address.is_ipv4() { "INET" } else { "INET6" };
        let _ = writeln!(text, "{protocol} {family}: {}", address.port());
    };
    for address in running.addresses() {
        if let Address::Tcp(address) = address {
            line("TCP", address);
        }
    }
    running.udp_addresses().iter().for_each(|address| line("UDP", address));
    whole::write(path, &text)
}
