//! Another host: a network namespace with a cable (veth) to this one.

#![forbid(unsafe_code)]

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
    number: u32,
}

fn ip(command: &str) -> Result<(), CableError> {
    let status = Command::new("ip").args(command.split_whitespace()).stderr(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(CableError::Refused { command: command.to_owned() }) }
}

impl Cable {
    /// Lays a cable. Of those that one process has at the same time each has another number below 4.
    ///
    /// # Errors
    /// If this may not be done here.
    pub fn lay(number: u32) -> Result<Self, CableError> {
        let number = std::process::id() % 16_000 * 4 + number;
        let cable = Cable { number };
        let (here, there) = (cable.interface(), cable.host());
        ip(&format!("netns add {there}"))?;
        let [v4, v6] = cable.servers().map(|address| address.ip());
        let [a, b] = [number >> 8 & 0xff, number & 0xff];
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

    /// The other host's end.
    pub const REMOTE_INTERFACE: &str = "v0";

    /// This host's end.
    pub fn interface(&self) -> String {
        format!("gv{:x}", self.number)
    }

    fn host(&self) -> String {
        format!("guira-{:x}", self.number)
    }

    /// Where a server on the other host may take datagrams, over both families.
    pub fn servers(&self) -> [SocketAddr; 2] {
        let number = self.number as u16;
        let [high, low] = number.to_be_bytes();
        [([10, 214, high, low], 21_300).into(), ([0xfd21, 0, 0, 0, 0, 0, number, 2], 21_300).into()]
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
