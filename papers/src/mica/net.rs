//! Servers behind the paths of datagrams, and a client that asks them as fast as they answer, or at a rate.

use guira_client::mica::{ClientOptions, Outcome, PipelinedClient, Request, Ticket, fetch_directory};
use guira_harness::affinity::pin_thread;
use guira_harness::netns::Netns;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};
use guira_protocol::mica::{Directory, Operation, PartitionAccess, Status};
use guira_sync::clock::Stopwatch;
use guira_transport::{
    ClientPath, RingClientPath, UdpClientPath, XdpAttach, XdpClientOptions, XdpClientPath,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Ask, Data, KEY_MAX, Request as Asked, near};
use crate::experiment::{Context, Failure, failed};
use crate::servers::{CLIENT_CORE, SERVER_CORE};

/// How a client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    Ring,
    Kernel,
}

impl Path {
    pub(super) fn name(self) -> &'static str {
        match self {
            Path::Ring => "shared memory",
            Path::Kernel => "kernel UDP",
        }
    }
}

/// How long a server may take to start: a large Region is mapped first.
const START_MAX: Duration = Duration::from_secs(60);

/// A server on processors of its own.
pub(super) struct Server {
    process: ServerProcess,
    scratch: Scratch,
    udp: SocketAddr,
    tcp: SocketAddr,
}

/// The socket of the rings in a server's folder.
fn socket(scratch: &Scratch) -> PathBuf {
    scratch.file("socket")
}

impl Server {
    /// Starts guira with these arguments, with a processor for each of `workers`.
    pub(super) fn start(context: &Context, arguments: &[String], workers: usize) -> Result<Self, Failure> {
        let scratch = Scratch::new();
        let mut command = Command::new(&context.guira);
        command.args(["serve", "--listen", "127.0.0.1:0", "--mica", "127.0.0.1:0", "--local"]);
        command.arg(socket(&scratch)).args(["--workers", &workers.to_string()]).args(arguments);
        let cores: Vec<usize> = (0..workers).collect();
        let mut process = ServerProcess::start(Spec::new(quiet(command)).on(&cores)).map_err(failed)?;
        process.wait_until_ready(START_MAX).map_err(failed)?;
        let mut address = |by| process.wait_for_address(by, START_MAX).map_err(failed);
        let (udp, tcp) = (address("mica")?, address("")?);
        Ok(Server { process, scratch, udp, tcp })
    }

    /// Seconds of processor time so far; none when the process has gone.
    pub(super) fn processor_s(&self) -> f64 {
        self.process.process().cpu_ns().unwrap_or(0) as f64 / 1e9
    }

    pub(super) fn tcp(&self) -> SocketAddr {
        self.tcp
    }

    pub(super) fn connect(&self, path: Path) -> Result<Box<dyn ClientPath>, Failure> {
        connect(path, &socket(&self.scratch), self.udp)
    }
}

/// Without what it logs.
fn quiet(mut command: Command) -> Command {
    command.stderr(Stdio::null());
    command
}

pub(super) fn connect(path: Path, socket: &PathBuf, udp: SocketAddr) -> Result<Box<dyn ClientPath>, Failure> {
    Ok(match path {
        Path::Ring => Box::new(RingClientPath::connect(socket).map_err(failed)?),
        Path::Kernel => Box::new(UdpClientPath::connect(udp).map_err(failed)?),
    })
}

/// A server in another network namespace, at the other end of a veth pair, that bypasses the kernel's network stack.
pub(super) struct Remote {
    _process: ServerProcess,
    netns: Netns,
}

impl Remote {
    /// Starts guira with these arguments on the server's core; `mode` says where the program at its interface runs. `None` if there can be no
    /// namespace here.
    pub(super) fn start(
        context: &Context,
        arguments: &[String],
        mode: &str,
    ) -> Result<Option<Self>, Failure> {
        let Some(netns) = second_host() else { return Ok(None) };
        let [address, _] = netns.servers();
        let mut command = netns.command(&context.guira);
        command.args(["serve", "--listen", "0.0.0.0:0", "--workers", "1", "--mica", &address.to_string()]);
        command.args(["--xdp", &format!("{}:mode={mode}", Netns::REMOTE_INTERFACE)]).args(arguments);
        Self::run(netns, command).map(Some)
    }

    pub(super) fn echo(mode: &str) -> Result<Option<Self>, Failure> {
        let Some(netns) = second_host() else { return Ok(None) };
        let [address, _] = netns.servers();
        let mut command = netns.command(std::env::current_exe().map_err(failed)?);
        command.args(["--echo", &format!("{address},{},{mode}", Netns::REMOTE_INTERFACE)]);
        Self::run(netns, command).map(Some)
    }

    /// Runs a program there, on the server's processor, and waits until it is ready.
    fn run(netns: Netns, command: Command) -> Result<Self, Failure> {
        let spec = Spec::new(quiet(command)).on(&[SERVER_CORE]);
        let mut process = ServerProcess::start(spec).map_err(failed)?;
        process.wait_until_ready(START_MAX).map_err(failed)?;
        Ok(Remote { _process: process, netns })
    }

    /// A way to it that bypasses the kernel too, in the same mode.
    pub(super) fn connect(&self, mode: &str) -> Result<Box<dyn ClientPath>, Failure> {
        let [server, _] = self.netns.servers();
        let options = XdpClientOptions {
            interface: self.netns.interface(),
            server,
            cores: 1,
            threads: 1,
            attach: attach(mode),
        };
        let paths = XdpClientPath::open(&options).map_err(failed)?;
        let path = paths.into_iter().next().ok_or_else(|| Failure::Other("no path".to_owned()))?;
        Ok(Box::new(path))
    }
}

/// Where the program runs in a mode.
pub(super) fn attach(mode: &str) -> XdpAttach {
    if mode == "generic" { XdpAttach::Generic } else { XdpAttach::NativeOnly }
}

/// A second host, if there can be one.
fn second_host() -> Option<Netns> {
    Netns::create().inspect_err(|error| eprintln!("without AF_XDP: {error}")).ok()
}

#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    pub(super) per_datagram: u16,
    /// Requests per second; none: as fast as they are answered.
    pub(super) rate: Option<f64>,
    pub(super) duration: Duration,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Came {
    /// Requests answered per second.
    pub(super) per_s: f64,
    /// The same per second of the server's processor time.
    pub(super) per_cpu_s: f64,
    /// The share of requests that were not answered.
    pub(super) lost: f64,
    /// Microseconds until the answer: half of them, and 5 and 95 of a hundred.
    pub(super) delays: [f64; 3],
}

/// Datagrams under way in a closed loop, and at most in an open one.
pub(super) const WINDOW: usize = 256;
const WINDOW_OPEN: usize = 4096;
/// Requests that are made between two looks at what has arrived.
pub(super) const BURST: usize = 64;

pub(super) struct Client {
    client: PipelinedClient<Box<dyn ClientPath>>,
    watch: Stopwatch,
}

impl Client {
    pub(super) fn new(mut path: Box<dyn ClientPath>, how: How) -> Result<Self, Failure> {
        let directory = fetch_directory(&mut path, Duration::from_millis(20)).map_err(failed)?;
        Self::by(directory, path, how)
    }

    /// One that sends to the server's threads in turn, wherever keys are at home.
    pub(super) fn undirected(mut path: Box<dyn ClientPath>, how: How) -> Result<Self, Failure> {
        let directory = fetch_directory(&mut path, Duration::from_millis(20)).map_err(failed)?;
        Self::by(Directory { access: PartitionAccess::Shared, ..directory }, path, how)
    }

    fn by(directory: Directory, path: Box<dyn ClientPath>, how: How) -> Result<Self, Failure> {
        let window = if how.rate.is_some() { WINDOW_OPEN } else { WINDOW };
        let retries = if how.rate.is_some() { 0 } else { 4 };
        let options = ClientOptions {
            per_datagram: how.per_datagram,
            window,
            timeout: Duration::from_millis(50),
            retries,
        };
        let watch = Stopwatch::start();
        let id = u64::from(std::process::id()) << 32 | u64::from(how.per_datagram);
        Ok(Client { client: PipelinedClient::new(path, directory, id, options).map_err(failed)?, watch })
    }

    pub(super) fn fill(&mut self, data: Data, keys: u32) -> Result<(), Failure> {
        let value = vec![7; data.value];
        let (mut key, mut next) = ([0; KEY_MAX], 0);
        let mut again: Vec<u32> = Vec::new();
        while next < keys || !again.is_empty() || !self.client.is_idle() {
            for _ in 0..BURST {
                let Some(id) = again.pop().or((next < keys).then_some(next)) else {
                    break;
                };
                let key = data.key(id, &mut key);
                let request = Request { value: &value, ..Request::of(Operation::Set, key) };
                if self.client.submit(&request, Ticket(u64::from(id))).map_err(failed)?.is_err() {
                    if id < next {
                        again.push(id);
                    }
                    break;
                }
                next = next.max(id + 1);
            }
            let now = self.watch.elapsed();
            self.client.flush(now).map_err(failed)?;
            let lost = &mut again;
            self.client
                .poll(now, &mut |ticket, outcome| {
                    // Storing the same again does no harm: there is no other writer.
                    if outcome == Outcome::Lost {
                        lost.push(ticket.0 as u32);
                    }
                })
                .map_err(failed)?;
        }
        Ok(())
    }

    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        how: How,
        seed: u64,
        server: &dyn Fn() -> f64,
    ) -> Result<Came, Failure> {
        let requests = ask.requests(1 << 20, seed)?;
        near::measured(|| self.ask_once(ask, how, &requests, server))
    }

    fn ask_once(
        &mut self,
        ask: &Ask,
        how: How,
        requests: &[Asked],
        server: &dyn Fn() -> f64,
    ) -> Result<Came, Failure> {
        pin_thread(&[CLIENT_CORE]).map_err(failed)?;
        let value = vec![7; ask.data.value];
        let (mut made, mut answered, mut lost, mut missed) = (0usize, 0u64, 0u64, 0u64);
        let mut delays: Vec<u32> = Vec::new();
        let mut key = [0; KEY_MAX];
        let (begin, spent) = (self.watch.elapsed(), server());
        loop {
            let now = self.watch.elapsed();
            let gone = (now - begin).as_secs_f64();
            if gone >= how.duration.as_secs_f64() {
                break;
            }
            let due = how.rate.map_or(BURST, |rate| ((gone * rate) as usize).saturating_sub(made).min(BURST));
            for _ in 0..due {
                let request = requests[made & (requests.len() - 1)];
                let key = ask.data.key(request.id, &mut key);
                let ticket = Ticket(now.as_nanos() as u64);
                let asked = if request.is_set {
                    self.client.submit(&Request { value: &value, ..Request::of(Operation::Set, key) }, ticket)
                } else {
                    self.client.submit(&Request::of(Operation::Get, key), ticket)
                };
                match asked.map_err(failed)? {
                    Ok(()) => made += 1,
                    // In an open loop it is as good as lost.
                    Err(_) if how.rate.is_some() => (made, lost) = (made + 1, lost + 1),
                    Err(_) => break,
                }
            }
            self.client.flush(now).map_err(failed)?;
            let now = self.watch.elapsed().as_nanos() as u64;
            self.client
                .poll(Duration::from_nanos(now), &mut |ticket, outcome| match outcome {
                    Outcome::Answered(reply) => {
                        answered += 1;
                        missed += u64::from(reply.status != Status::Done);
                        if answered.is_multiple_of(64) {
                            delays.push(now.saturating_sub(ticket.0) as u32);
                        }
                    }
                    Outcome::Lost => lost += 1,
                })
                .map_err(failed)?;
        }
        let seconds = (self.watch.elapsed() - begin).as_secs_f64();
        let spent = (server() - spent).max(0.01);
        // A lossy index may lose a little while it grows.
        if missed * 100 > answered {
            return Err(Failure::Other(format!("{missed} of {answered} keys are not there")));
        }
        delays.sort_unstable();
        let delay =
            |part: usize| delays.get(delays.len() * part / 100).map_or(0.0, |ns| f64::from(*ns) / 1e3);
        Ok(Came {
            per_s: answered as f64 / seconds,
            per_cpu_s: answered as f64 / spent,
            lost: lost as f64 / (made as f64).max(1.0),
            delays: [delay(50), delay(5), delay(95)],
        })
    }
}

/// The highest rate at which less than one request in a hundred is lost, found by search from `from` requests a second on.
pub(super) fn highest(mut at: impl FnMut(f64) -> Result<Came, Failure>, from: f64) -> Result<Came, Failure> {
    let (mut low, mut high) = (0.0, from);
    let mut best = Came::default();
    for _ in 0..9 {
        let came = at(high)?;
        // A server that cannot keep up loses requests, or serves fewer than are sent.
        let kept = came.lost < 0.01 && came.per_s > 0.97 * high;
        if kept {
            (best, low) = (came, high);
            high *= 1.3;
        } else {
            high = (low + high) / 2.0;
        }
        if high - low < 0.03 * high {
            break;
        }
    }
    Ok(best)
}
