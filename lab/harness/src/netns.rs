//! A second host on this machine: a network namespace, joined to this one by a veth pair.

use guira_sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// Why no namespace could be made.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// `ip` refused, usually for want of root.
    #[error("network namespaces take root and iproute2: ip {command} failed")]
    Refused {
        /// The arguments of `ip`.
        command: String,
    },
    /// `ip` could not be run.
    #[error("there is no iproute2")]
    NoIp(#[from] io::Error),
}

/// A network namespace with a veth pair to this one. Dropping it removes both.
#[derive(Debug)]
pub struct Netns {
    number: u16,
}

fn name(number: u16) -> String {
    format!("guira-{number:x}")
}

fn ip(command: &str) -> Result<(), NetnsError> {
    let status = Command::new("ip").args(command.split_whitespace()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(NetnsError::Refused { command: command.to_owned() }) }
}

/// Names that are tried: after that many, the reason is not that a name is taken.
const ATTEMPTS: u16 = 8;

impl Netns {
    /// Makes a namespace and the veth pair, and gives both ends addresses and routes.
    ///
    /// # Errors
    /// When the caller lacks the privilege or iproute2 is missing.
    pub fn create() -> Result<Self, NetnsError> {
        let netns = Self::add()?;
        let (here, there, number) = (netns.interface(), netns.name(), netns.number);
        let [v4, v6] = netns.servers().map(|address| address.ip());
        let [a, b] = number.to_be_bytes();
        let (own4, own6) = (format!("10.213.{a}.{b}"), format!("fd21::{number:x}:1"));
        for command in [
            format!("link add {here} type veth peer name {} netns {there}", Self::REMOTE_INTERFACE),
            format!("addr add {own4}/32 dev {here}"),
            format!("addr add {own6}/128 dev {here} nodad"),
            format!("link set {here} up"),
            format!("-n {there} addr add {v4}/32 dev v0"),
            format!("-n {there} addr add {v6}/128 dev v0 nodad"),
            format!("-n {there} link set v0 up"),
            format!("route add {v4} dev {here} src {own4}"),
            format!("-6 route add {v6} dev {here} src {own6}"),
            format!("-n {there} route add {own4} dev v0 src {v4}"),
            format!("-n {there} -6 route add {own6} dev v0 src {v6}"),
        ] {
            ip(&command)?;
        }
        Ok(netns)
    }

    /// Adds a namespace under a name that no other process and no other thread of this one uses.
    fn add() -> Result<Self, NetnsError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut attempt = 0;
        loop {
            let number = (std::process::id() as u16)
                .wrapping_mul(8)
                .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed) as u16);
            // The value exists only once the namespace is ours: dropping it deletes the namespace.
            match ip(&format!("netns add {}", name(number))) {
                Ok(()) => return Ok(Netns { number }),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// The end of the veth pair inside the namespace.
    pub const REMOTE_INTERFACE: &str = "v0";

    /// The end of the veth pair on this host.
    pub fn interface(&self) -> String {
        format!("gv{:x}", self.number)
    }

    fn name(&self) -> String {
        name(self.number)
    }

    /// Addresses inside the namespace for a server's datagrams, IPv4 and IPv6.
    pub fn servers(&self) -> [SocketAddr; 2] {
        let [high, low] = self.number.to_be_bytes();
        [([10, 214, high, low], 21_300).into(), ([0xfd21, 0, 0, 0, 0, 0, self.number, 2], 21_300).into()]
    }

    /// Deletes the veth pair. True if it existed.
    pub fn disconnect(&self) -> bool {
        ip(&format!("link del {}", self.interface())).is_ok()
    }

    /// A command that runs `program` inside the namespace.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name()]).arg(program);
        command
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        // The veth pair goes with its other end. A failure here has no one to report to.
        let _ = ip(&format!("netns del {}", self.name()));
    }
}
