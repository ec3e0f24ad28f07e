//! Starting the servers that are compared, and stopping them again.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::LoadError;
use crate::floor::Shape;
use crate::process::Process;

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
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1 and waits until it accepts connections.
    ///
    /// # Errors
    /// When it cannot be started or does not come up.
    pub fn start(spec: &Spec) -> Result<Self, LoadError> {
        let name = spec.kind.name();
        let fail = |problem: String| LoadError::Server { name: name.to_owned(), problem };
        let (mut command, port) = command_for(spec).map_err(|error| fail(error.to_string()))?;
        let mut child = spawn_on(&spec.cores, &mut command)
            .map_err(|error| fail(format!("cannot start {:?}: {error}", command.get_program())))?;
        let told = child.stdout.take().map(await_told_addr);
        let mut server = Self {
            name: name.to_owned(),
            child,
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0))),
        };
        if port.is_none() {
            server.addr = told
                .flatten()
                .ok_or_else(|| fail("it told no \"listening on 127.0.0.1:PORT\"".to_owned()))?;
        }
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

/// The command line, and the port when it had to be chosen here.
fn command_for(spec: &Spec) -> io::Result<(Command, Option<u16>)> {
    match &spec.kind {
        Kind::Guira { binary, args } => {
            let mut command = Command::new(binary);
            command.args(["serve", "--listen", "127.0.0.1:0", "--workers", &spec.workers.to_string()]);
            command.args(["--memory", &spec.memory.to_string()]).args(args).stdout(Stdio::piped());
            Ok((command, None))
        }
        Kind::Memcached { binary, args, .. } => {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut command = Command::new(binary);
            command.args(["-u", "root", "-l", "127.0.0.1", "-p", &port.to_string()]);
            command
                .args(["-t", &spec.workers.to_string(), "-m", &(spec.memory >> 20).to_string()])
                .args(args);
            command.stdout(Stdio::null());
            Ok((command, Some(port)))
        }
        Kind::Floor { binary } => {
            let mut command = Command::new(binary);
            command.args(["floor", "--listen", "127.0.0.1:0"]);
            command.args(["--key-size", &spec.shape.key_len.to_string()]);
            command.args(["--value-size", &spec.shape.value_len.to_string()]).stdout(Stdio::piped());
            Ok((command, None))
        }
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

/// The address that the server tells, unless it ends or takes too long before it does.
fn await_told_addr(stdout: impl Read + Send + 'static) -> Option<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Nobody waits for an address that comes too late.
        let _too_late = sender.send(told_addr(stdout));
    });
    receiver.recv_timeout(STEP * STEPS_MAX).ok().flatten()
}

/// Reads the line that tells the port, then keeps the pipe empty for as long as the server lives.
fn told_addr(stdout: impl Read + Send + 'static) -> Option<SocketAddr> {
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
        if let Some(addr) = addr_in(&line) {
            thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
            return Some(addr);
        }
        line.clear();
    }
    None
}

fn addr_in(line: &str) -> Option<SocketAddr> {
    let (_, after) = line.split_once("listening on ")?;
    after.split_whitespace().next()?.parse().ok()
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
    use super::{addr_in, await_told_addr, told_addr};

    #[test]
    fn the_port_is_read_from_the_line_that_tells_it() {
        assert_eq!(addr_in("INFO listening on 127.0.0.1:4321 with 1 worker"), "127.0.0.1:4321".parse().ok());
        assert_eq!(addr_in("starting"), None);
        let lines = b"starting\nguira listening on 127.0.0.1:99\nmore\n";
        assert_eq!(told_addr(lines.as_slice()), "127.0.0.1:99".parse().ok());
        assert_eq!(told_addr(b"no port\n".as_slice()), None);
        assert_eq!(await_told_addr(lines.as_slice()), "127.0.0.1:99".parse().ok());
    }
}
