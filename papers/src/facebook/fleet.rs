//! Nodes, a router in front of them, and clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal, Spec};
use guira_harness::stats::{number, stats};

use crate::experiment::{Context, Failure, failed};

/// How long a start may take, or a reply.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Requests that are sent at once while many keys are set or looked up.
const AT_ONCE: usize = 128;

/// A `guira serve` with one worker.
pub(super) struct Node {
    process: ServerProcess,
    address: SocketAddr,
}

/// Keys that a node was asked for so far, and those that it had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gets {
    pub(super) asked: u64,
    pub(super) found: u64,
}

impl Gets {
    pub(super) fn since(self, before: Self) -> Self {
        Gets { asked: self.asked - before.asked, found: self.found - before.found }
    }
}

impl std::iter::Sum for Gets {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Gets {
            asked: sum.asked + one.asked,
            found: sum.found + one.found,
        })
    }
}

impl Node {
    pub(super) fn start(context: &Context, memory: &str) -> Result<Self, Failure> {
        Self::with(context, memory, &[])
    }

    pub(super) fn with(context: &Context, memory: &str, options: &[&str]) -> Result<Self, Failure> {
        let mut command = Command::new(&context.guira);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--workers", "1", "--memory", memory])
            .args(options);
        let (process, address) = start(command)?;
        Ok(Node { process, address })
    }

    /// One that takes memcached's datagrams too, at the port that it has for TCP.
    pub(super) fn with_datagrams(context: &Context, memory: &str) -> Result<Self, Failure> {
        // Somebody else may take the port meanwhile: then it does not start.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(failed)?;
        let mut command = Command::new(&context.guira);
        let free = free.to_string();
        command.args(["serve", "--listen", &free, "--udp", &free, "--workers", "1", "--memory", memory]);
        let (process, address) = start(command)?;
        Ok(Node { process, address })
    }

    pub(super) fn start_all(context: &Context, count: usize, memory: &str) -> Result<Vec<Self>, Failure> {
        (0..count).map(|_| Node::start(context, memory)).collect()
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn gets(&self) -> Result<Gets, Failure> {
        let [asked, found] = self.counts(["cmd_get", "get_hits"])?;
        Ok(Gets { asked, found })
    }

    pub(super) fn items(&self) -> Result<u64, Failure> {
        self.counts(["curr_items"]).map(|[items]| items)
    }

    fn counts<const N: usize>(&self, names: [&str; N]) -> Result<[u64; N], Failure> {
        let stats = stats(self.address, "").map_err(failed)?;
        let mut counts = [0; N];
        for (count, name) in counts.iter_mut().zip(names) {
            *count = number(&stats, name).ok_or_else(|| failed(format!("its stats lack {name}")))?;
        }
        Ok(counts)
    }

    /// Processor time so far, in seconds.
    pub(super) fn cpu_s(&self) -> Result<f64, Failure> {
        Ok(self.process.process().cpu_ns().map_err(failed)? as f64 / 1e9)
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        self.process.signal(Signal::TERM);
        self.wait()
    }

    /// Waits until it has ended by itself.
    pub(super) fn wait(mut self) -> Result<(), Failure> {
        self.process.wait(WAIT_MAX).map(drop).map_err(failed)
    }

    /// Ends its process: the system closes its connections.
    pub(super) fn kill(&mut self) {
        self.process.kill();
    }

    /// It answers nothing any more and its connections stay, as if its machine had lost its power.
    pub(super) fn stop(&self) {
        self.process.signal(Signal::STOP);
    }
}

fn start(command: Command) -> Result<(ServerProcess, SocketAddr), Failure> {
    ServerProcess::listening(Spec::of_service(command), "").map_err(failed)
}

/// A pool of a configuration, with these nodes.
pub(super) fn pool(name: &str, nodes: &[Node]) -> String {
    let servers: Vec<String> = nodes.iter().map(|node| format!("\"{}\"", node.address)).collect();
    format!("\"{name}\": {{\"servers\": [{}]}}", servers.join(", "))
}

/// A `guira router` with one worker, which tells gets that fail from misses.
pub(super) struct Router {
    _process: ServerProcess,
    pub(super) address: SocketAddr,
    _scratch: Scratch,
}

impl Router {
    /// Starts one with these pools and this route.
    pub(super) fn start(
        context: &Context,
        pools: &[String],
        route: &str,
        options: &[&str],
    ) -> Result<Self, Failure> {
        let scratch = Scratch::new();
        let config = format!("{{\"pools\": {{{}}}, \"route\": {route}}}", pools.join(", "));
        let file = scratch.write("router.json", &config);
        let mut command = Command::new(&context.guira);
        command.args([
            "router",
            "--listen",
            "127.0.0.1:0",
            "--num-proxies",
            "1",
            "--disable-miss-on-get-errors",
        ]);
        command.arg("--config-file").arg(file).args(options);
        let (process, address) = start(command)?;
        Ok(Router { _process: process, address, _scratch: scratch })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    Hit,
    Miss,
    Failed,
}

/// A connection of a client. Keys are numbers, and a value tells its key.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: String,
}

/// The length of every value.
const VALUE: usize = 100;

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(WAIT_MAX)).map_err(failed)?;
        Ok(Client { stream: BufReader::new(stream), request: Vec::new(), line: String::new() })
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.stream.get_mut().write_all(&self.request).map_err(failed)?;
        self.request.clear();
        Ok(())
    }

    fn read_line(&mut self) -> Result<&str, Failure> {
        self.line.clear();
        let count = self.stream.read_line(&mut self.line).map_err(failed)?;
        if count == 0 {
            Err(failed("the server has closed the connection"))
        } else {
            Ok(self.line.trim_end())
        }
    }

    /// Reads the value of `key`, whose line has been read, and checks it.
    fn read_value(&mut self, key: u64) -> Result<(), Failure> {
        let mut value = [0; VALUE + 2];
        self.stream.read_exact(&mut value).map_err(failed)?;
        let expected = format!("{key:0VALUE$}\r\n");
        if value == expected.as_bytes() { Ok(()) } else { Err(failed(format!("a wrong value of key {key}"))) }
    }

    /// Asks for each of `keys` with a request of its own, all at once.
    pub(super) fn get(&mut self, keys: &[u64]) -> Result<Vec<Got>, Failure> {
        keys.iter().for_each(|key| self.request.extend(format!("get key:{key}\r\n").into_bytes()));
        self.send()?;
        keys.iter().map(|key| self.got(*key)).collect()
    }

    fn got(&mut self, key: u64) -> Result<Got, Failure> {
        let line = self.read_line()?;
        if line == "END" {
            return Ok(Got::Miss);
        }
        if line.starts_with("SERVER_ERROR") {
            return Ok(Got::Failed);
        }
        if line != format!("VALUE key:{key} 0 {VALUE}") {
            return Err(failed(format!("a wrong reply to a get of key {key}: {line}")));
        }
        self.read_value(key)?;
        match self.read_line()? {
            "END" => Ok(Got::Hit),
            line => Err(failed(format!("a reply that does not end: {line}"))),
        }
    }

    /// Asks for all of `keys` with one request.
    pub(super) fn ask_together(&mut self, keys: &[u64]) -> Result<(), Failure> {
        self.request.extend_from_slice(b"get");
        keys.iter().for_each(|key| self.request.extend(format!(" key:{key}").into_bytes()));
        self.request.extend_from_slice(b"\r\n");
        self.send()
    }

    /// Reads the reply to such a request, in which no key may be missing.
    pub(super) fn hear_together(&mut self, keys: &[u64]) -> Result<(), Failure> {
        for key in keys {
            if self.read_line()? != format!("VALUE key:{key} 0 {VALUE}") {
                return Err(failed(format!("no value of key {key}: {}", self.line)));
            }
            self.read_value(*key)?;
        }
        match self.read_line()? {
            "END" => Ok(()),
            line => Err(failed(format!("a reply that does not end: {line}"))),
        }
    }

    /// Sets these keys; returns how many were not stored.
    pub(super) fn set(&mut self, keys: &[u64]) -> Result<u64, Failure> {
        let mut refused = 0;
        for keys in keys.chunks(AT_ONCE) {
            let set = |key: &u64| format!("set key:{key} 0 0 {VALUE}\r\n{key:0VALUE$}\r\n").into_bytes();
            self.request.extend(keys.iter().flat_map(set));
            self.send()?;
            for _ in keys {
                refused += u64::from(self.read_line()? != "STORED");
            }
        }
        Ok(refused)
    }

    /// The server that a router sends each of `keys` to.
    pub(super) fn routes(&mut self, keys: &[u64]) -> Result<Vec<SocketAddr>, Failure> {
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            let ask = |key: &u64| format!("get __mcrouter__.route(get,key:{key})\r\n").into_bytes();
            self.request.extend(keys.iter().flat_map(ask));
            self.send()?;
            for _ in keys {
                let length = self.read_line()?.rsplit(' ').next().and_then(|length| length.parse().ok());
                let mut answer = vec![0; length.ok_or_else(|| failed(format!("no route: {}", self.line)))?];
                self.stream.read_exact(&mut answer).map_err(failed)?;
                // Those that would be asked if it failed come after it.
                let answer = String::from_utf8_lossy(&answer).into_owned();
                let first = answer.split_whitespace().next().unwrap_or_default();
                found.push(first.parse().map_err(|_| failed(format!("a route to {answer:?}")))?);
                self.read_line()?;
                self.read_line()?;
            }
        }
        Ok(found)
    }
}
