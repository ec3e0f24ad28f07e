//! Starting the servers that are compared, and stopping them again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::certificate::Certificate;
use crate::error::LoadError;
use crate::floor::Shape;
use crate::process::Process;
use crate::request::Protocol;
use crate::target::{Carrier, Target};
use crate::tls::{TlsClient, Trust};

/// How long a server may take until it accepts connections, in steps of [`STEP`].
const STEPS_MAX: u32 = 500;
const STEP: Duration = Duration::from_millis(20);

/// The name of Guira in tables.
pub const GUIRA: &str = "guira";
/// The name of the no-cache server in tables.
pub const FLOOR: &str = "floor";

/// Which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `guira serve`.
    Guira {
        /// The `guira` binary.
        binary: PathBuf,
        /// Arguments after the usual ones.
        args: Vec<String>,
    },
    /// A server with memcached's options.
    Memcached {
        /// Its name in tables.
        label: String,
        /// The memcached binary.
        binary: PathBuf,
        /// Arguments after the usual ones.
        args: Vec<String>,
    },
    /// The no-cache server, `guira floor`.
    Floor {
        /// A `guira` binary.
        binary: PathBuf,
    },
}

impl Kind {
    /// The name used in tables.
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

    /// Whether it can be reached by `wire`, as its help says: a server may be built without.
    #[must_use]
    pub fn can(&self, wire: Wire) -> bool {
        let Some((guira, memcached)) = wire.options() else { return true };
        let (binary, arguments, option): (_, &[&str], _) = match self {
            Self::Floor { .. } => return true,
            Self::Guira { binary, .. } => (binary, &["serve", "--help"], guira),
            Self::Memcached { binary, .. } => (binary, &["-h"], memcached),
        };
        let told = Command::new(binary).args(arguments).output();
        // A binary that cannot be run is not left out: starting it will say why.
        told.map_or(true, |told| {
            let help = String::from_utf8_lossy(&told.stdout);
            help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|word| word == option)
        })
    }
}

/// By what a server can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// TCP connections.
    Tcp,
    /// TCP connections and, beside them, datagrams.
    Udp,
    /// TCP connections with TLS, by a certificate that is made for the server.
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

    /// What the help of a server with this wire names: of Guira, and of memcached.
    const fn options(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Tcp => None,
            Self::Udp => Some(("--udp", "--udp-port")),
            Self::Tls => Some(("--tls-cert", "--enable-ssl")),
        }
    }
}

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Which server.
    pub kind: Kind,
    /// Worker threads.
    pub workers: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Connections that it may have at the same time; its own default when none.
    pub max_connections: Option<u32>,
    /// By what it can be reached.
    pub wire: Wire,
    /// Processors that it may use; empty for all.
    pub cores: Vec<usize>,
    /// What the floor answers with.
    pub shape: Shape,
}

/// A running server; it is stopped when this is dropped.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    addr: SocketAddr,
    udp: Option<SocketAddr>,
    tls: Option<TlsClient>,
    /// Kept for as long as the server may read it.
    _certificate: Option<Certificate>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1 and waits until it accepts connections.
    ///
    /// # Errors
    /// When it cannot be started or does not come up.
    pub fn start(spec: &Spec) -> Result<Self, LoadError> {
        let name = spec.kind.name();
        let fail = |problem: String| LoadError::Server { name: name.to_owned(), problem };
        let certificate = match spec.wire {
            Wire::Tls => Some(Certificate::make()?),
            Wire::Tcp | Wire::Udp => None,
        };
        let trust = certificate.as_ref().map(Certificate::authority);
        let tls = trust.map(|path| TlsClient::new(Trust::Authority(&path))).transpose()?;
        let (mut command, chosen) =
            command_for(spec, certificate.as_ref()).map_err(|error| fail(error.to_string()))?;
        let mut child = spawn_on(&spec.cores, &mut command)
            .map_err(|error| fail(format!("cannot start {:?}: {error}", command.get_program())))?;
        let told = child.stdout.take().map(|stdout| await_told(stdout, spec.wire));
        // From here on the child is stopped if anything fails.
        let unknown = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut server =
            Self { name: name.to_owned(), child, addr: unknown, udp: None, tls, _certificate: certificate };
        let ports = chosen.or(told.flatten());
        let ports = ports.ok_or_else(|| fail(format!("it told no {}", wanted_line(spec.wire))))?;
        (server.addr, server.udp) = (ports.tcp, ports.udp);
        server.await_connection()?;
        Ok(server)
    }

    /// The server's name in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it agrees on with a client that speaks TLS: version and cipher; none when it was started without TLS.
    ///
    /// # Errors
    /// When it does not agree.
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

    /// Its costs.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::new(self.child.id())
    }

    /// Its answer to `stats`, by name.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn stats(&self) -> Result<Vec<(String, String)>, LoadError> {
        stats(self.addr).map_err(|source| LoadError::Connect { addr: self.addr, source })
    }

    /// One number of its answer to `stats`.
    ///
    /// # Errors
    /// When it cannot be asked or does not tell.
    pub fn stat(&self, stat: &str) -> Result<u64, LoadError> {
        let stats = self.stats()?;
        stats.iter().find(|(name, _)| name == stat).and_then(|(_, value)| value.parse().ok()).ok_or_else(
            || LoadError::Server { name: self.name.clone(), problem: format!("its stats lack {stat}") },
        )
    }

    fn await_connection(&mut self) -> Result<(), LoadError> {
        let fail = |problem: String| LoadError::Server { name: self.name.clone(), problem };
        for _ in 0..STEPS_MAX {
            if TcpStream::connect(self.addr).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(fail(format!("it ended at once: {status}")));
            }
            thread::sleep(STEP);
        }
        Err(fail(format!("it does not accept connections at {}", self.addr)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way nothing is left running.
        let _already_ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Where a server listens.
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
}

/// The command line, and the ports when they had to be chosen here.
fn command_for(spec: &Spec, certificate: Option<&Certificate>) -> io::Result<(Command, Option<Ports>)> {
    match &spec.kind {
        Kind::Guira { binary, args } => {
            let mut command = Command::new(binary);
            command.args(["serve", "--listen", "127.0.0.1:0", "--workers", &spec.workers.to_string()]);
            add_wire(&mut command, spec.wire, certificate);
            if let Some(count) = spec.max_connections {
                command.args(["--max-connections", &count.to_string()]);
            }
            command.args(["--memory", &spec.memory.to_string()]).args(args).stdout(Stdio::piped());
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
            if let Some(certificate) = certificate {
                let (chain, key) = (certificate.certificate(), certificate.key());
                let files = format!("ssl_chain_cert={},ssl_key={}", chain.display(), key.display());
                command.args(["-Z", "-o", &files]);
            }
            command.stdout(Stdio::null());
            Ok((command, Some(ports)))
        }
        Kind::Floor { binary } => {
            let mut command = Command::new(binary);
            command.args(["floor", "--listen", "127.0.0.1:0"]);
            add_wire(&mut command, spec.wire, certificate);
            command.args(["--key-size", &spec.shape.key_len.to_string()]);
            command.args(["--value-size", &spec.shape.value_len.to_string()]).stdout(Stdio::piped());
            Ok((command, None))
        }
    }
}

/// Adds what Guira and the floor are told of their wire.
fn add_wire(command: &mut Command, wire: Wire, certificate: Option<&Certificate>) {
    if wire == Wire::Udp {
        command.args(["--udp", "127.0.0.1:0"]);
    }
    if let Some(certificate) = certificate {
        command.arg("--tls-cert").arg(certificate.certificate());
        command.arg("--tls-key").arg(certificate.key());
    }
}

/// Starts `command` on `cores`: a child inherits the processors of the thread that starts it.
fn spawn_on(cores: &[usize], command: &mut Command) -> io::Result<Child> {
    if cores.is_empty() {
        return command.spawn();
    }
    let before = sched_getaffinity(None)?;
    pin_thread(cores)?;
    let child = command.spawn();
    sched_setaffinity(None, &before)?;
    child
}

/// Keeps the calling thread on `cores`.
///
/// # Errors
/// When the machine has no such processors.
pub fn pin_thread(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

/// What a server must tell, for a message.
const fn wanted_line(wire: Wire) -> &'static str {
    match wire {
        Wire::Udp => "\"listening on 127.0.0.1:PORT\" and \"listening on udp 127.0.0.1:PORT\"",
        Wire::Tcp | Wire::Tls => "\"listening on 127.0.0.1:PORT\"",
    }
}

/// The addresses that the server tells, unless it ends or takes too long before it does.
fn await_told(stdout: impl Read + Send + 'static, wire: Wire) -> Option<Ports> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody waits for an address that comes too late.
        let _too_late = sender.send(told(stdout, wire));
    });
    receiver.recv_timeout(STEP * STEPS_MAX).ok().flatten()
}

/// Reads the lines that tell the ports, then keeps the pipe empty for as long as the server lives.
fn told(stdout: impl Read + Send + 'static, wire: Wire) -> Option<Ports> {
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    let (mut tcp, mut udp) = (None, None);
    while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
        match addr_in(&line) {
            Some((Wire::Udp, addr)) => udp = Some(addr),
            Some((_, addr)) => tcp = Some(addr),
            None => {}
        }
        if let Some(tcp) = tcp
            && (wire != Wire::Udp || udp.is_some())
        {
            thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
            return Some(Ports { tcp, udp });
        }
        line.clear();
    }
    None
}

/// The address in a line that tells one, and whether it is one for datagrams.
fn addr_in(line: &str) -> Option<(Wire, SocketAddr)> {
    let (_, after) = line.split_once("listening on ")?;
    let mut words = after.split_whitespace();
    let first = words.next()?;
    match first.parse() {
        Ok(addr) => Some((Wire::Tcp, addr)),
        Err(_) if first == "udp" => Some((Wire::Udp, words.next()?.parse().ok()?)),
        // Such as the word "tls".
        Err(_) => Some((Wire::Tcp, words.next()?.parse().ok()?)),
    }
}

fn stats(addr: SocketAddr) -> io::Result<Vec<(String, String)>> {
    let mut socket = TcpStream::connect(addr)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.write_all(b"stats\r\n")?;
    let mut found = Vec::new();
    for line in BufReader::new(socket).lines() {
        let line = line?;
        if line.trim_end() == "END" {
            break;
        }
        let mut fields = line.split_whitespace().skip(1);
        if let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            found.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Kind, Ports, Wire, addr_in, await_told, told};

    #[test]
    fn the_port_is_read_from_the_line_that_tells_it() {
        let addr = |text: &str| text.parse().unwrap();
        assert_eq!(
            addr_in("INFO listening on 127.0.0.1:4321 with 1 worker"),
            Some((Wire::Tcp, addr("127.0.0.1:4321")))
        );
        assert_eq!(addr_in("listening on udp 127.0.0.1:1"), Some((Wire::Udp, addr("127.0.0.1:1"))));
        assert_eq!(addr_in("listening on tls 127.0.0.1:1"), Some((Wire::Tcp, addr("127.0.0.1:1"))));
        assert_eq!(addr_in("listening on unix:/run/x"), None);
        assert_eq!(addr_in("starting"), None);
        let lines = b"starting\nguira listening on 127.0.0.1:99\nmore\n";
        let ports = Some(Ports { tcp: addr("127.0.0.1:99"), udp: None });
        assert_eq!(told(lines.as_slice(), Wire::Tcp), ports);
        assert_eq!(told(lines.as_slice(), Wire::Udp), None, "the port for datagrams was not told");
        assert_eq!(told(b"no port\n".as_slice(), Wire::Tcp), None);
        assert_eq!(await_told(lines.as_slice(), Wire::Tcp), ports);
        let lines = b"listening on udp 127.0.0.1:7\nlistening on 127.0.0.1:99\n";
        let both = Some(Ports { tcp: addr("127.0.0.1:99"), udp: Some(addr("127.0.0.1:7")) });
        assert_eq!(told(lines.as_slice(), Wire::Udp), both);
    }

    #[test]
    fn a_server_whose_help_lacks_an_option_cannot_use_it() {
        let echo = |args| Kind::Memcached { label: "x".to_owned(), binary: "/bin/echo".into(), args };
        assert!(echo(Vec::new()).can(Wire::Tcp));
        assert!(!echo(Vec::new()).can(Wire::Udp), "echo's help is \"-h\"");
        let missing = Kind::Guira { binary: "/nowhere/guira".into(), args: Vec::new() };
        assert!(missing.can(Wire::Udp), "that it cannot be run is told when it is started");
    }
}
