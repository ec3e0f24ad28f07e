//! Another host: a network namespace with a cable (veth) to this one.

#![forbid(unsafe_code)]

use guira_sync::atomic::{AtomicU32, Ordering};
use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// Why there can be no other host.
#[derive(Debug, thiserror::Error)]
pub enum CableError {
    /// It takes root and iproute2.
    #[error("network namespaces take root and iproute2: ip {command} failed")]
    Refused {
        /// What was tried.
        command: String,
    },
    /// There is no iproute2.
    #[error("there is no iproute2")]
    NoIp(#[from] io::Error),
}

/// A cable between this host and another, which has nothing else. Both ends go when this is dropped.
#[derive(Debug)]
pub struct Cable {
    number: u16,
}

fn host(number: u16) -> String {
    format!("guira-{number:x}")
}

fn ip(command: &str) -> Result<(), CableError> {
    let status = Command::new("ip").args(command.split_whitespace()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(CableError::Refused { command: command.to_owned() }) }
}

/// How many names are tried before there is another reason why none can be had.
const ATTEMPTS: u16 = 8;

impl Cable {
    /// Lays a cable.
    ///
    /// # Errors
    /// If this may not be done here.
    pub fn lay() -> Result<Self, CableError> {
        let cable = Self::new_host()?;
        let (here, there, number) = (cable.interface(), cable.host(), cable.number);
        let [v4, v6] = cable.servers().map(|address| address.ip());
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
        Ok(cable)
    }

    /// A host without a cable yet, under a name that no other process and no other thread of this one has: a namespace is made once only.
    fn new_host() -> Result<Self, CableError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut attempt = 0;
        loop {
            let number = (std::process::id() as u16)
                .wrapping_mul(8)
                .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed) as u16);
            // Not a cable before it is ours: dropping one takes the namespace away.
            match ip(&format!("netns add {}", host(number))) {
                Ok(()) => return Ok(Cable { number }),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// The other host's end.
    pub const REMOTE_INTERFACE: &str = "v0";

    /// This host's end.
    pub fn interface(&self) -> String {
        format!("gv{:x}", self.number)
    }

    fn host(&self) -> String {
        host(self.number)
    }

    /// Where a server on the other host may take datagrams, over both families.
    pub fn servers(&self) -> [SocketAddr; 2] {
        let [high, low] = self.number.to_be_bytes();
        [([10, 214, high, low], 21_300).into(), ([0xfd21, 0, 0, 0, 0, 0, self.number, 2], 21_300).into()]
    }

    /// Takes the cable away. True if it was there.
    pub fn cut(&self) -> bool {
        ip(&format!("link del {}", self.interface())).is_ok()
    }

    /// A program on the other host.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host()]).arg(program);
        command
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // The cable goes with its other end. If that fails there is nobody to tell.
        let _ = ip(&format!("netns del {}", self.host()));
    }
}
