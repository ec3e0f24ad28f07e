//! Starting the servers that are compared, and stopping them again.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use guira_harness::certificate::Authority;
use guira_harness::deadline::Deadline;
use guira_harness::process::Process;
use guira_harness::server::{self as harness, ServerProcess};
use guira_harness::stats::{number, stats};

use crate::error::LoadError;
use crate::floor::Shape;
use crate::protocol::Protocol;
use crate::target::{Carrier, Target};
use crate::tls::{TlsClient, Trust};

/// How long a server may take until it accepts connections.
const START_MAX: Duration = Duration::from_secs(10);

/// The name of Guira in tables.
pub const GUIRA: &str = "guira";
/// The name of the no-cache server in tables.
pub const FLOOR: &str = "floor";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Guira {
        binary: PathBuf,
        /// Arguments after the usual ones.
        args: Vec<String>,
    },
    Memcached {
        label: String,
        binary: PathBuf,
        /// Arguments after the usual ones.
        args: Vec<String>,
    },
    /// The no-cache server, `guira floor`.
    Floor { binary: PathBuf },
}

impl Kind {
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Guira { .. } => GUIRA,
            Self::Memcached { label, .. } => label,
            Self::Floor { .. } => FLOOR,
        }
    }

    /// Whether it stores what it is given.
    #[must_use]
    pub const fn is_cache(&self) -> bool {
        !matches!(self, Self::Floor { .. })
    }

    #[must_use]
    pub fn is_installed(&self) -> bool {
        let (Self::Guira { binary, .. } | Self::Memcached { binary, .. } | Self::Floor { binary }) = self;
        let has_folder = binary.components().count() > 1;
        let path = std::env::var_os("PATH").filter(|_| !has_folder).unwrap_or_default();
        let mut folders = std::env::split_paths(&path);
        if has_folder { binary.is_file() } else { folders.any(|folder| folder.join(binary).is_file()) }
    }

    /// Whether it can be reached by `wire`, as its help says: a server may be built without.
    #[must_use]
    pub fn can(&self, wire: Wire) -> bool {
        let Some((guira, memcached)) = wire.options() else { return true };
        let (binary, arguments, option): (_, &[&str], _) = match self {
            Self::Floor { .. } => return true,
            Self::Guira { binary, .. } => (binary, &["serve", "--help"], guira),
            Self::Memcached { binary, .. } => (binary, &["-h"], memcached),
        };
        let output = Command::new(binary).args(arguments).output();
        // A binary that cannot be run is not left out: starting it will say why.
        output.map_or(true, |output| {
            let help = String::from_utf8_lossy(&output.stdout);
            help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == option)
        })
    }
}

/// By what a server can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Tcp,
    /// TCP connections, and datagrams.
    Udp,
    /// TCP connections with TLS, with a certificate that is made for the server.
    Tls,
}

impl Wire {
    /// Its name, for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Tls => "TLS",
        }
    }

    /// The options in the help of a server that supports this wire: Guira's, and memcached's.
    const fn options(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Tcp => None,
            Self::Udp => Some(("--udp", "--udp-port")),
            Self::Tls => Some(("--tls-cert", "--enable-ssl")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub kind: Kind,
    pub workers: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Connections that it may have at the same time; its own default when none.
    pub max_connections: Option<u32>,
    /// By what it can be reached.
    pub wire: Wire,
    /// Processors that it may use; empty for all.
    pub cores: Vec<usize>,
    pub shape: Shape,
}

impl Spec {
    /// One worker on `cores`, reached over TCP, for small items.
    #[must_use]
    pub fn new(kind: Kind, memory: u64, cores: &[usize]) -> Self {
        Self {
            kind,
            workers: 1,
            memory,
            max_connections: None,
            wire: Wire::Tcp,
            cores: cores.to_vec(),
            shape: Shape { key_len: 16, value_len: 32 },
        }
    }
}

/// A running server; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Server {
    name: String,
    process: ServerProcess,
    addr: SocketAddr,
    udp: Option<SocketAddr>,
    tls: Option<TlsClient>,
    /// Kept for as long as the server may read its files.
    _authority: Option<Authority>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1 and waits until it accepts connections.
    ///
    /// # Errors
    /// When it cannot be started or does not come up.
    pub fn start(spec: &Spec) -> Result<Self, LoadError> {
        let name = spec.kind.name();
        let fail = |problem: String| LoadError::Server { name: name.to_owned(), problem };
        let authority = match spec.wire {
            Wire::Tls => Some(Authority::new().map_err(|error| LoadError::Tls(error.to_string()))?),
            Wire::Tcp | Wire::Udp => None,
        };
        let root = authority.as_ref().map(Authority::root);
        let tls = root.map(|path| TlsClient::new(Trust::Authority(&path))).transpose()?;
        let (command, chosen) =
            command_for(spec, authority.as_ref()).map_err(|error| fail(error.to_string()))?;
        let start = || -> Result<(ServerProcess, Ports), harness::ServerError> {
            let mut process = ServerProcess::start(harness::Spec::new(command).on(&spec.cores))?;
            let ports = match chosen {
                Some(ports) => ports,
                None => Ports::printed_by(&mut process, spec.wire)?,
            };
            Ok((process, ports))
        };
        let (process, ports) = start().map_err(|error| fail(error.to_string()))?;
        let mut server = Self {
            name: name.to_owned(),
            process,
            addr: ports.tcp,
            udp: ports.udp,
            tls,
            _authority: authority,
        };
        server.await_connection()?;
        Ok(server)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The TLS version and cipher that the server agrees on with a client; `None` without TLS.
    ///
    /// # Errors
    /// When the handshake fails.
    pub fn agreed(&self) -> Result<Option<String>, LoadError> {
        self.tls.as_ref().map(|tls| tls.agreed(self.addr)).transpose()
    }

    /// How a client reaches it: by datagrams or with TLS if it was started for them.
    #[must_use]
    pub fn target(&self, protocol: Protocol) -> Target {
        let carrier = match (&self.tls, self.udp) {
            (Some(tls), _) => Carrier::Tls(tls.clone()),
            (None, Some(udp)) => Carrier::Udp(udp),
            (None, None) => Carrier::Tcp,
        };
        Target { addr: self.addr, protocol, carrier }
    }

    #[must_use]
    pub fn process(&self) -> Process {
        self.process.process()
    }

    /// Resident size of its process, in bytes.
    ///
    /// # Errors
    /// When the system does not report it.
    pub fn resident_bytes(&self) -> Result<u64, LoadError> {
        self.process().resident_bytes().map_err(LoadError::system("cannot read the server's resident size"))
    }

    /// The lines of `stats`.
    ///
    /// # Errors
    /// When the server does not reply.
    pub fn stats(&self) -> Result<Vec<(String, String)>, LoadError> {
        stats(self.addr, "").map_err(|source| LoadError::Connect { addr: self.addr, source })
    }

    /// One number of `stats`.
    ///
    /// # Errors
    /// When the server does not reply, or has no such number.
    pub fn stat(&self, stat: &str) -> Result<u64, LoadError> {
        number(&self.stats()?, stat).ok_or_else(|| LoadError::Server {
            name: self.name.clone(),
            problem: format!("the stats lack {stat}"),
        })
    }

    fn await_connection(&mut self) -> Result<(), LoadError> {
        let fail = |problem: String| LoadError::Server { name: self.name.clone(), problem };
        let connected = Deadline::after(START_MAX).poll(|| match self.process.ended() {
            Some(status) => Some(Err(fail(format!("the process exited at once: {status}")))),
            None => TcpStream::connect(self.addr).ok().map(|_| Ok(())),
        });
        connected
            .unwrap_or_else(|| Err(fail(format!("the process does not accept connections at {}", self.addr))))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    tcp: SocketAddr,
    udp: Option<SocketAddr>,
}

impl Ports {
    /// Free ports, for a server that does not choose its own.
    fn choose(wire: Wire) -> io::Result<Self> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let udp = match wire {
            Wire::Udp => Some(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?),
            Wire::Tcp | Wire::Tls => None,
        };
        Ok(Self { tcp, udp })
    }

    /// The ports that a server prints.
    fn printed_by(process: &mut ServerProcess, wire: Wire) -> Result<Self, harness::ServerError> {
        let mut address = |by: &str| process.wait_for_address(by, START_MAX);
        let udp = if wire == Wire::Udp { Some(address("udp")?) } else { None };
        Ok(Self { tcp: address("")?, udp })
    }
}

/// The command line, and the ports when they had to be chosen here.
fn command_for(spec: &Spec, authority: Option<&Authority>) -> io::Result<(Command, Option<Ports>)> {
    match &spec.kind {
        Kind::Guira { binary, args } => {
            let mut command = Command::new(binary);
            command.args(["serve", "--listen", "127.0.0.1:0", "--workers", &spec.workers.to_string()]);
            add_wire(&mut command, spec.wire, authority);
            if let Some(count) = spec.max_connections {
                command.args(["--max-connections", &count.to_string()]);
            }
            command.args(["--memory", &spec.memory.to_string()]).args(args);
            Ok((command, None))
        }
        Kind::Memcached { binary, args, .. } => {
            let ports = Ports::choose(spec.wire)?;
            let mut command = Command::new(binary);
            command.args(["-u", "root", "-l", "127.0.0.1", "-p", &ports.tcp.port().to_string()]);
            command.args(["-U", &ports.udp.map_or(0, |addr| addr.port()).to_string()]);
            command
                .args(["-t", &spec.workers.to_string(), "-m", &(spec.memory >> 20).to_string()])
                .args(args);
            if let Some(count) = spec.max_connections {
                command.args(["-c", &count.to_string()]);
            }
            if let Some(authority) = authority {
                let (chain, key) = (authority.certificate(), authority.key());
                let files = format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display());
                command.args(["-Z", "-o", &files]);
            }
            Ok((command, Some(ports)))
        }
        Kind::Floor { binary } => {
            let mut command = Command::new(binary);
            command.args(["floor", "--listen", "127.0.0.1:0"]);
            add_wire(&mut command, spec.wire, authority);
            command.args(["--key-size", &spec.shape.key_len.to_string()]);
            command.args(["--value-size", &spec.shape.value_len.to_string()]);
            Ok((command, None))
        }
    }
}

/// Adds the options of Guira and the floor for a wire.
fn add_wire(command: &mut Command, wire: Wire, authority: Option<&Authority>) {
    if wire == Wire::Udp {
        command.args(["--udp", "127.0.0.1:0"]);
    }
    if let Some(authority) = authority {
        command.arg("--tls-cert").arg(authority.certificate());
        command.arg("--tls-key").arg(authority.key());
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Wire};

    #[test]
    fn a_server_whose_help_lacks_an_option_cannot_use_it() {
        let echo = |args| Kind::Memcached { label: "x".to_owned(), binary: "/bin/echo".into(), args };
        assert!(echo(Vec::new()).can(Wire::Tcp));
        assert!(!echo(Vec::new()).can(Wire::Udp), "echo's help is \"-h\"");
        let missing = Kind::Guira { binary: "/nowhere/guira".into(), args: Vec::new() };
        assert!(missing.can(Wire::Udp), "starting it says that it cannot be run");
    }
}
