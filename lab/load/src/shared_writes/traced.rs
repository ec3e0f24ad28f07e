//! A server with two workers whose memory accesses are traced.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, str};

use guira_harness::server::{ServerProcess, Signal, Spec};

use super::tally::{Counts, Recording};
use crate::error::LoadError;
use crate::server::GUIRA;

/// How long the server may take to start, to reply and to end: valgrind prints each access.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// A request that nothing else has the length of: its arrival at a worker begins or ends a phase.
const MARKER: &[u8] = b"version\r\n";
/// The trace is read in pieces of this many bytes.
const PIECE: usize = 1 << 20;

/// A blocking connection.
#[derive(Debug)]
pub(super) struct Client {
    socket: TcpStream,
    reply: Vec<u8>,
}

impl Client {
    pub(super) fn open(addr: SocketAddr) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Connect { addr, source };
        let socket = TcpStream::connect(addr).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(WAIT_MAX)).map_err(failed)?;
        Ok(Self { socket, reply: Vec::new() })
    }

    /// Sends `request` and requires the reply `expected`.
    pub(super) fn exchange(&mut self, request: &[u8], expected: &[u8]) -> Result<(), LoadError> {
        self.reply.clear();
        self.send(request)?;
        while self.reply.len() < expected.len() && expected.starts_with(&self.reply) {
            self.receive()?;
        }
        if self.reply == expected {
            return Ok(());
        }
        let first = String::from_utf8_lossy(&self.reply).into_owned();
        Err(LoadError::WrongReplies { count: 1, first })
    }

    /// Sends `request` and takes any reply that ends with `end`.
    pub(super) fn exchange_until(&mut self, request: &[u8], end: &[u8]) -> Result<(), LoadError> {
        self.reply.clear();
        self.send(request)?;
        while !self.reply.ends_with(end) {
            self.receive()?;
        }
        Ok(())
    }

    /// Closes the connection, and waits until the server has closed its end.
    pub(super) fn close(mut self) -> Result<(), LoadError> {
        self.socket.shutdown(std::net::Shutdown::Write).map_err(broken)?;
        match self.socket.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(LoadError::WrongReplies { count: 1, first: "an unexpected reply".to_owned() }),
            Err(source) => Err(broken(source)),
        }
    }

    pub(super) fn send(&mut self, request: &[u8]) -> Result<(), LoadError> {
        self.socket.write_all(request).map_err(broken)
    }

    fn receive(&mut self) -> Result<(), LoadError> {
        let mut piece = [0; 4096];
        match self.socket.read(&mut piece) {
            Ok(0) => Err(broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.reply.extend_from_slice(&piece[..count]);
                Ok(())
            }
            Err(source) => Err(broken(source)),
        }
    }
}

fn broken(source: io::Error) -> LoadError {
    LoadError::Connection { index: 0, source }
}

/// The counts of a phase for one operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counted {
    pub(super) operation: &'static str,
    pub(super) operations: u64,
    pub(super) counts: Counts,
}

/// A server under lackey. Its two clients are served by two workers.
#[derive(Debug)]
pub(super) struct Traced {
    /// As the system names it.
    program: PathBuf,
    process: ServerProcess,
    recording: JoinHandle<io::Result<Recording>>,
    pub(super) addr: SocketAddr,
    pub(super) clients: [Client; 2],
    phases: Vec<(&'static str, u64)>,
}

impl Traced {
    /// Starts `program`, which accepts connections and deals them out to its workers in turn.
    pub(super) fn start(program: &Path, arguments: &[String]) -> Result<Self, LoadError> {
        let (trace, writer) = io::pipe().map_err(LoadError::system("cannot make a pipe"))?;
        let mut command = Command::new("valgrind");
        command.args(["--tool=lackey", "--basic-counts=no", "--trace-mem=yes"]);
        command.args(["--trace-sched=yes", "--trace-syscalls=yes"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stderr(writer);
        let mut process = ServerProcess::start(Spec::new(command)).map_err(failed)?;
        let marker = MARKER.len() as u64;
        let recording = thread::spawn(move || Recording::of(BufReader::with_capacity(PIECE, trace), marker));
        let addr = process.wait_for_address("", WAIT_MAX).map_err(failed)?;
        let clients = [Client::open(addr)?, Client::open(addr)?];
        let program = program.canonicalize().map_err(failed)?;
        let mut traced = Self { program, process, recording, addr, clients, phases: vec![("", 0)] };
        // The first phase is empty: it names the workers.
        traced.mark(0)?;
        traced.mark(1)?;
        Ok(traced)
    }

    fn mark(&mut self, client: usize) -> Result<(), LoadError> {
        self.clients[client].exchange_until(MARKER, b"\r\n")
    }

    /// Counts `work` as this many operations.
    pub(super) fn count(
        &mut self,
        operation: &'static str,
        operations: u64,
        work: impl FnOnce(&mut Client, SocketAddr) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        self.mark(1)?;
        work(&mut self.clients[1], self.addr)?;
        self.mark(1)?;
        self.phases.push((operation, operations));
        Ok(())
    }

    /// Ends the server. Returns the counts, and the address at which its program begins.
    pub(super) fn end(mut self) -> Result<(Vec<Counted>, u64), LoadError> {
        let path = format!("/proc/{}/maps", self.process.id());
        let maps = fs::read_to_string(&path)
            .map_err(|source| LoadError::File { path: path.clone().into(), source })?;
        self.process.signal(Signal::TERM);
        self.process.wait(WAIT_MAX).map_err(failed)?;
        let recording = match self.recording.join() {
            Ok(recording) => recording.map_err(LoadError::system("cannot read the trace"))?,
            Err(_) => return Err(failed("the thread that reads the trace has panicked")),
        };
        if recording.phases() as usize != self.phases.len() {
            return Err(failed(format!(
                "the trace has {} phases instead of {}",
                recording.phases(),
                self.phases.len()
            )));
        }
        let mappings = writable(&maps);
        let counted = self.phases.iter().zip(0..).skip(1).map(|((operation, operations), phase)| Counted {
            operation,
            operations: *operations,
            counts: recording.counts(phase, *operations, &mappings),
        });
        Ok((counted.collect(), program_start(&maps, &self.program)))
    }
}

pub(super) fn failed(problem: impl ToString) -> LoadError {
    LoadError::Server { name: GUIRA.to_owned(), problem: problem.to_string() }
}

/// The addresses of a line of /proc/PID/maps.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The mappings that can be written to.
fn writable(maps: &str) -> Vec<Range<u64>> {
    let is_writable =
        |line: &&str| line.split_whitespace().nth(1).is_some_and(|rights| rights.starts_with("rw"));
    maps.lines().filter(is_writable).filter_map(addresses).collect()
}

/// Where the program lies: the first mapping of the lowest file.
fn program_start(maps: &str, program: &Path) -> u64 {
    let is_file = |line: &&str| line.split_whitespace().nth(5).is_some_and(|name| program.ends_with(name));
    maps.lines().filter(is_file).filter_map(addresses).map(|range| range.start).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{program_start, writable};
    use std::path::Path;

    #[test]
    fn mappings_are_read() {
        let maps = "00108000-00200000 r--p 00000000 00:1b 77    /x/guira\n\
                    00200000-00300000 rw-p 000f8000 00:1b 77    /x/guira\n\
                    04000000-84000000 rw-s 00000000 00:1b 78    /dev/shm/region\n\
                    94000000-94001000 rw-p 00000000 00:00 0\n";
        assert_eq!(writable(maps), [0x20_0000..0x30_0000, 0x400_0000..0x8400_0000, 0x9400_0000..0x9400_1000]);
        assert_eq!(program_start(maps, Path::new("/x/guira")), 0x10_8000);
    }
}
