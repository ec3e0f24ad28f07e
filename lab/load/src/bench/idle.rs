//! The memory that an idle connection costs a server's process.
//!
//! Each connection requests one value, receives the reply, and stays open and idle, like most
//! connections of a fleet. The figure is the growth of the resident size; the kernel's memory for a
//! socket is not included, and is the same for all servers.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::Options;
use super::columns::{mib, rows};
use super::driver::Bench;
use crate::error::LoadError;
use crate::process::Process;
use crate::protocol::Protocol;
use crate::server::{Kind, Server, Spec, Wire};
use crate::stream::Stream;
use crate::target::{Carrier, Target};

/// Connections that are opened over TCP.
pub(super) const MANY: usize = 10_000;
/// The connection limit of the servers.
const CONNECTIONS_MAX: u32 = 20_000;
const MEMORY: u64 = 1 << 30;
/// The open files of this process, or a server, other than the connections.
const OTHER_FILES: u64 = 1000;
/// A resident size has settled when two readings this far apart are equal.
const SETTLE: Duration = Duration::from_millis(50);
const SETTLE_TRIES: usize = 40;
const REPLY_MAX: Duration = Duration::from_secs(10);
/// The longest expected reply: all of `stats`.
const REPLY_LEN_MAX: usize = 64 << 10;

/// The first source address, which the kernel also chooses by itself; others follow when its ports
/// are used up.
const SOURCE_FIRST: Ipv4Addr = Ipv4Addr::LOCALHOST;

const SET: &[u8] = b"set idle 0 0 32\r\n0123456789abcdef0123456789abcdef\r\n";
const GET: &[u8] = b"get idle\r\n";
const HIT: &[u8] = b"VALUE idle 0 32\r\n0123456789abcdef0123456789abcdef\r\nEND\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub name: &'static str,
    pub connections: usize,
    /// The transport to the server.
    pub wire: Wire,
}

/// The cost of a server's idle connections.
#[derive(Debug, Clone, Serialize)]
pub struct Idle {
    pub case: &'static str,
    pub server: String,
    pub connections: usize,
    /// Resident bytes of the process with one connection.
    pub resident_before: u64,
    /// Resident bytes of the process with all of them open.
    pub resident_after: u64,
    pub bytes_per_connection: f64,
}

/// Measures one cache after the other. Skipped with a notice if this process may not open enough
/// files.
pub(super) fn run(case: Case, bench: &mut Bench<'_>) -> Result<Vec<Idle>, LoadError> {
    if let Err(error) = allow_files(case.connections) {
        // The other results of the bench are kept.
        bench.log(&format!("{}: skipped: {error}", case.name));
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for kind in bench.caches(case.name, case.wire) {
        bench.log(&format!("{}: opening {} connections to {}", case.name, case.connections, kind.name()));
        all.push(measure(case, kind, bench.options)?);
    }
    Ok(all)
}

/// Opens the connections of `case` to one server, and reads its resident size before and after.
/// This process and the server have to be allowed to open that many files.
fn measure(case: Case, kind: &Kind, options: &Options) -> Result<Idle, LoadError> {
    let server = Server::start(&Spec {
        max_connections: Some(CONNECTIONS_MAX),
        wire: case.wire,
        ..Spec::new(kind.clone(), MEMORY, &options.server_cores)
    })?;
    let mut crowd = Crowd::new(server.target(Protocol::Text));
    crowd.add()?;
    crowd.send_first(SET, b"STORED\r\n")?;
    let resident_before = settled(server.process())?;
    for _ in 0..case.connections {
        crowd.add()?;
    }
    let resident_after = settled(server.process())?;
    crowd.require_open()?;
    Ok(Idle::new(case, kind.name(), resident_before, resident_after))
}

impl Idle {
    /// The result from the resident sizes with one connection and with all of them.
    pub(super) fn new(case: Case, server: &str, resident_before: u64, resident_after: u64) -> Self {
        let grown = resident_after.saturating_sub(resident_before);
        Self {
            case: case.name,
            server: server.to_owned(),
            connections: case.connections,
            resident_before,
            resident_after,
            bytes_per_connection: grown as f64 / case.connections.max(1) as f64,
        }
    }
}

pub(super) fn table(idle: &[Idle]) -> String {
    rows(
        idle,
        &[
            ("case", &|idle| idle.case.to_owned()),
            ("server", &|idle| idle.server.clone()),
            ("connections", &|idle| idle.connections.to_string()),
            ("resident before, MiB", &|idle| format!("{:.1}", mib(idle.resident_before))),
            ("after, MiB", &|idle| format!("{:.1}", mib(idle.resident_after))),
            ("bytes per connection", &|idle| format!("{:.0}", idle.bytes_per_connection)),
        ],
    )
}

/// Raises the limit of open files for this process and the servers that it starts.
///
/// # Errors
/// When the system refuses.
pub(super) fn allow_files(connections: usize) -> Result<(), LoadError> {
    let count = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(count));
    setrlimit(Resource::Nofile, Rlimit { current: Some(count), maximum })
        .map_err(|errno| LoadError::system("too few files may be open")(errno.into()))
}

/// The resident size of a server, once it has settled.
pub(super) fn settled(process: Process) -> Result<u64, LoadError> {
    let look = || {
        let resident = process.resident_bytes();
        resident.map_err(LoadError::system("cannot read the server's resident size"))
    };
    let mut last = look()?;
    for _ in 0..SETTLE_TRIES {
        thread::sleep(SETTLE);
        let next = look()?;
        if next == last {
            break;
        }
        last = next;
    }
    Ok(last)
}

/// Idle connections, each of which has sent one request.
pub(super) struct Crowd {
    target: Target,
    members: Vec<Stream>,
    /// The last number of the source address 127.0.0.x.
    source: u8,
}

impl Crowd {
    pub(super) const fn new(target: Target) -> Self {
        Self { target, members: Vec::new(), source: 1 }
    }

    /// Opens one more connection, and sends a request. The first one finds no value yet.
    fn add(&mut self) -> Result<(), LoadError> {
        let index = self.open()?;
        self.exchange(index, GET, if index == 0 { b"END\r\n" } else { HIT })
    }

    /// Opens one more connection; returns its number.
    pub(super) fn open(&mut self) -> Result<usize, LoadError> {
        let addr = self.target.addr;
        let mut socket = self.connect()?;
        let stream = match &self.target.carrier {
            Carrier::Tls(tls) => {
                let session = tls.shake_hands(&mut socket, addr)?;
                Stream::tls(socket, session)
            }
            Carrier::Tcp | Carrier::Udp(_) | Carrier::Mica(_) => Stream::Plain(socket),
        };
        self.members.push(stream);
        Ok(self.members.len() - 1)
    }

    /// A blocking connection; from the next source address once the ports of the current one are
    /// used up.
    fn connect(&mut self) -> Result<TcpStream, LoadError> {
        let addr = self.target.addr;
        loop {
            let source = Ipv4Addr::new(127, 0, 0, self.source);
            match connect_from(SocketAddr::from((source, 0)), addr) {
                Err(error) if is_out_of_ports(&error) && self.source < u8::MAX => self.source += 1,
                other => return other.map_err(|source| LoadError::Connect { addr, source }),
            }
        }
    }

    fn send_first(&mut self, request: &[u8], expected: &[u8]) -> Result<(), LoadError> {
        self.exchange(0, request, expected)
    }

    /// Sends `request` over connection `index` and requires the reply `expected`.
    fn exchange(&mut self, index: usize, request: &[u8], expected: &[u8]) -> Result<(), LoadError> {
        let is_whole = |reply: &[u8]| reply.len() >= expected.len() || !expected.starts_with(reply);
        self.require(index, request, is_whole, |reply| reply == expected)
    }

    /// Sends a get over connection `index` and requires any value in the reply.
    pub(super) fn require_hit(&mut self, index: usize, get: &[u8]) -> Result<(), LoadError> {
        let is_value = |reply: &[u8]| reply.starts_with(b"VALUE ");
        let is_whole = |reply: &[u8]| {
            let end: &[u8] = if is_value(reply) { b"\r\nEND\r\n" } else { b"\r\n" };
            reply.ends_with(end)
        };
        self.require(index, get, is_whole, is_value)
    }

    fn require(
        &mut self,
        index: usize,
        request: &[u8],
        is_whole: impl Fn(&[u8]) -> bool,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<(), LoadError> {
        let stream = &mut self.members[index];
        let reply =
            converse(stream, request, is_whole).map_err(|source| LoadError::Connection { index, source })?;
        if is_right(&reply) {
            return Ok(());
        }
        let first = format!("connection {index}: {:?}", String::from_utf8_lossy(&reply));
        Err(LoadError::WrongReplies { count: 1, first })
    }

    /// Fails unless the server still has all connections.
    fn require_open(&mut self) -> Result<(), LoadError> {
        let failed = |source| LoadError::Connection { index: 0, source };
        let reply = converse(&mut self.members[0], b"stats\r\n", |reply| reply.ends_with(b"END\r\n"))
            .map_err(failed)?;
        let open = curr_connections(&String::from_utf8_lossy(&reply)).unwrap_or(0);
        if open >= self.members.len() as u64 {
            return Ok(());
        }
        let problem = format!("it has {open} of {} connections", self.members.len());
        Err(LoadError::Server { name: self.target.addr.to_string(), problem })
    }
}

fn curr_connections(stats: &str) -> Option<u64> {
    stats.lines().find_map(|line| line.strip_prefix("STAT curr_connections ")?.trim().parse().ok())
}

fn is_out_of_ports(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

fn connect_from(source: SocketAddr, addr: SocketAddr) -> io::Result<TcpStream> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // The kernel finds a free port much faster on connect than on bind, so the first address is not
    // bound.
    if source.ip() != SOURCE_FIRST {
        rustix::net::bind(&socket, &source)?;
    }
    rustix::net::connect(&socket, &addr)?;
    let socket = TcpStream::from(socket);
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Sends `request` and reads until the reply is complete.
fn converse(
    stream: &mut Stream,
    mut request: &[u8],
    is_whole: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(REPLY_MAX)?;
    while !request.is_empty() {
        let count = stream.write(&[IoSlice::new(request)])?;
        request = &request[count..];
    }
    stream.flush()?;
    let (mut reply, mut piece) = (Vec::new(), [0; 4096]);
    while !is_whole(&reply) && reply.len() < REPLY_LEN_MAX {
        match stream.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => reply.extend_from_slice(&piece[..count]),
        }
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::thread;

    use super::{
        Crowd, HIT, OTHER_FILES, Resource, SET, allow_files, connect_from, curr_connections, getrlimit,
    };
    use crate::error::LoadError;
    use crate::target::Target;

    /// A server that has one value, closes nothing, and reports `count` connections.
    fn serve(count: usize) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut is_set = false;
            let mut open = Vec::new();
            for socket in listener.incoming() {
                open.push(socket.unwrap());
                let mut bytes = [0; 1000];
                // The first connection also sets; the next one is then accepted.
                for _ in 0..if open.len() == 1 { 2 } else { 1 } {
                    let socket = open.last_mut().unwrap();
                    let count = socket.read(&mut bytes).unwrap();
                    let reply: &[u8] = match &bytes[..count] {
                        SET => b"STORED\r\n",
                        _ if is_set => HIT,
                        _ => b"END\r\n",
                    };
                    is_set |= &bytes[..count] == SET;
                    socket.write_all(reply).unwrap();
                }
                if open.len() == 3 {
                    assert_eq!(open[0].read(&mut bytes).unwrap(), 7);
                    let reply = format!("STAT x 1\r\nSTAT curr_connections {count}\r\nEND\r\n");
                    open[0].write_all(reply.as_bytes()).unwrap();
                }
            }
        });
        addr
    }

    #[test]
    fn every_connection_is_answered_once_and_stays_open() {
        for (count, is_right) in [(3, true), (2, false)] {
            let mut crowd = Crowd::new(Target::text(serve(count)));
            crowd.add().unwrap();
            crowd.send_first(SET, b"STORED\r\n").unwrap();
            crowd.add().unwrap();
            crowd.add().unwrap();
            let result = crowd.require_open();
            assert_eq!(result.is_ok(), is_right, "{result:?}");
            assert_eq!(crowd.members.len(), 3);
        }
    }

    #[test]
    fn a_wrong_reply_is_told() {
        let mut crowd = Crowd::new(Target::text(serve(1)));
        crowd.add().unwrap();
        let error = crowd.send_first(SET, HIT).unwrap_err();
        assert!(
            matches!(&error, LoadError::WrongReplies { first, .. } if first.contains("STORED")),
            "{error}"
        );
    }

    #[test]
    fn connections_come_from_the_address_that_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect_from("127.0.0.9:0".parse().unwrap(), listener.local_addr().unwrap()).unwrap();
        assert_eq!(socket.local_addr().unwrap().ip().to_string(), "127.0.0.9");
    }

    #[test]
    fn as_many_files_are_allowed_as_connections_need() {
        allow_files(1).unwrap();
        let limit = getrlimit(Resource::Nofile);
        assert!(limit.current.is_none_or(|current| current > OTHER_FILES));
        let Some(maximum) = limit.maximum else { return };
        if let Err(error) = allow_files(usize::try_from(maximum).unwrap()) {
            assert_eq!(error.to_string(), "too few files may be open");
        }
    }

    #[test]
    fn the_number_of_connections_is_read_from_the_stats() {
        assert_eq!(curr_connections("STAT a 1\r\nSTAT curr_connections 12\r\nEND\r\n"), Some(12));
        assert_eq!(curr_connections("END\r\n"), None);
    }
}
