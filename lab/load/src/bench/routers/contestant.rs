//! The routers, and how each is started in front of its servers.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::process::Process;
use guira_harness::scratch::Scratch;
use guira_harness::server::{self as harness, ServerProcess};

use super::super::Options;
use crate::error::LoadError;
use crate::reply::Check;
use crate::server::{FLOOR, GUIRA, Kind, Server, Spec};

/// The longest time until a router accepts connections.
const START_MAX: Duration = Duration::from_secs(10);
const SERVERS: usize = 4;
/// Memory of each server, much more than the keys need.
const MEMORY: u64 = 128 << 20;
/// The connection limit of each server: the forwarding floor opens one for each client.
const CONNECTIONS_MAX: u32 = 20_000;

/// The names of routers in tables.
const NUTCRACKER: &str = "nutcracker";
const PROXY: &str = "memcached-proxy";
const RELAY: &str = "relay";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Router {
    /// `guira router` with one worker.
    Guira {
        label: String,
        binary: PathBuf,
    },
    Nutcracker {
        binary: PathBuf,
    },
    /// memcached as a router, with its own library of routes.
    MemcachedProxy {
        /// A memcached that was built with `--enable-proxy`.
        binary: PathBuf,
    },
    /// The forwarding floor, `guira relay`.
    Relay {
        binary: PathBuf,
    },
    /// The no-cache server, `guira floor`, without servers behind it.
    Floor {
        binary: PathBuf,
    },
}

impl Router {
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Guira { label, .. } => label,
            Self::Nutcracker { .. } => NUTCRACKER,
            Self::MemcachedProxy { .. } => PROXY,
            Self::Relay { .. } => RELAY,
            Self::Floor { .. } => FLOOR,
        }
    }

    /// Whether its binary can be run.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        match self {
            Self::MemcachedProxy { binary } => Command::new(binary).arg("-h").output().is_ok_and(|output| {
                // Most builds have no proxy.
                String::from_utf8_lossy(&output.stdout).contains("proxy_config")
            }),
            _ => self.requested_version().output().is_ok(),
        }
    }

    /// The version that its binary prints.
    pub(super) fn version(&self) -> String {
        let Ok(output) = self.requested_version().output() else { return "unknown".to_owned() };
        let text = [output.stdout, output.stderr].concat();
        let line = String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").to_owned();
        line.trim_start_matches("This is ").to_owned()
    }

    fn requested_version(&self) -> Command {
        let (binary, argument) = match self {
            Self::Guira { binary, .. } | Self::Relay { binary } | Self::Floor { binary } => {
                (binary, "--version")
            }
            Self::Nutcracker { binary } | Self::MemcachedProxy { binary } => (binary, "-V"),
        };
        let mut command = Command::new(binary);
        command.arg(argument);
        command
    }

    /// The command line in front of `servers`, and the address if the bench had to choose it.
    fn command(
        &self,
        servers: &[Server],
        folder: &Scratch,
    ) -> std::io::Result<(Command, Option<SocketAddr>)> {
        let list = |quote: &str, end: &str, between: &str| {
            let names = servers.iter().map(|server| format!("{quote}{}{end}{quote}", server.addr()));
            names.collect::<Vec<_>>().join(between)
        };
        Ok(match self {
            Self::Guira { binary, .. } => {
                let pool = list("\"", "", ",");
                let config =
                    format!(r#"{{"pools": {{"A": {{"servers": [{pool}]}}}}, "route": "PoolRoute|A"}}"#);
                let mut command = Command::new(binary);
                command.args(["router", "--num-proxies", "1", "--listen", "127.0.0.1:0"]);
                command.args(["--disable-miss-on-get-errors", "--config-str", &config]);
                (command, None)
            }
            Self::Nutcracker { binary } => {
                let (addr, stats) = (free_address()?, free_address()?);
                let servers = list("", ":1", "\n   - ");
                let config = format!(
                    "bench:\n  listen: {addr}\n  hash: fnv1a_64\n  distribution: ketama\n  timeout: 1000\n  \
                     backlog: 1024\n  preconnect: true\n  auto_eject_hosts: false\n  server_connections: 1\n  \
                     servers:\n   - {servers}\n"
                );
                let file = folder.write("nutcracker.yml", &config);
                let mut command = Command::new(binary);
                command.args(["-v", "0", "-a", "127.0.0.1", "-s", &stats.port().to_string(), "-c"]);
                command.arg(file).arg("-o").arg(folder.file("nutcracker.log"));
                command.arg("-p").arg(folder.file("nutcracker.pid"));
                (command, Some(addr))
            }
            Self::MemcachedProxy { binary } => {
                let addr = free_address()?;
                let backends = list("\"", "", ", ");
                let config = format!(
                    "pools{{ main = {{ backends = {{ {backends} }} }} }}\n\
                     routes{{ default = route_direct{{ child = \"main\" }} }}\n"
                );
                let file = folder.write("routes.lua", &config);
                let mut command = Command::new(binary);
                command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-c", "20000", "-u", "root"]);
                command.args(["-p", &addr.port().to_string()]);
                command.arg("-o").arg(format!("proxy_config=routelib,proxy_arg={}", file.display()));
                (command, Some(addr))
            }
            Self::Relay { binary } => {
                let mut command = Command::new(binary);
                command.args(["relay", "--listen", "127.0.0.1:0", "--to", &list("", "", ",")]);
                (command, None)
            }
            Self::Floor { binary } => {
                let mut command = Command::new(binary);
                command.args(["floor", "--listen", "127.0.0.1:0"]);
                (command, None)
            }
        })
    }
}

/// An address for a program that does not choose one by itself.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The servers behind routers: the first memcached in the comparison, or Guira if there is none.
pub(super) fn behind(options: &Options) -> &Kind {
    let memcached = options.servers.iter().find(|kind| matches!(kind, Kind::Memcached { .. }));
    let other = || options.servers.iter().find(|kind| kind.is_cache()).or(options.servers.first());
    memcached.or_else(other).expect("there is always a server")
}

/// Starts a server behind a router.
pub(super) fn start_server(options: &Options) -> Result<Server, LoadError> {
    let kind = behind(options);
    if !kind.is_cache() {
        let problem = "routers need a cache as their server: add guira or memcached to --servers";
        return Err(LoadError::Options(problem.to_owned()));
    }
    let spec = Spec::new(kind.clone(), MEMORY, &[]);
    Server::start(&Spec { max_connections: Some(CONNECTIONS_MAX), ..spec })
}

/// A running router with its servers; all are stopped on drop.
#[derive(Debug)]
pub(super) struct Running {
    kind: Router,
    process: ServerProcess,
    addr: SocketAddr,
    servers: Vec<Server>,
    _folder: Scratch,
}

impl Running {
    /// Starts a router on a free port of 127.0.0.1, and waits until it accepts connections.
    pub(super) fn start(kind: &Router, options: &Options) -> Result<Self, LoadError> {
        let fail = |problem: String| LoadError::Server { name: kind.name().to_owned(), problem };
        let count = if matches!(kind, Router::Floor { .. }) { 0 } else { SERVERS };
        let servers = (0..count).map(|_| start_server(options)).collect::<Result<Vec<_>, _>>()?;
        let folder = Scratch::new();
        let (mut command, chosen) =
            kind.command(&servers, &folder).map_err(|error| fail(error.to_string()))?;
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process =
            ServerProcess::start(harness::Spec::new(command)).map_err(|error| fail(error.to_string()))?;
        let addr = match chosen {
            Some(addr) => addr,
            None => process.wait_for_address("", START_MAX).map_err(|error| fail(error.to_string()))?,
        };
        let connected = Deadline::after(START_MAX).poll(|| match process.ended() {
            Some(status) => {
                Some(Err(fail(format!("the process exited at once: {status}: {}", process.errors()))))
            }
            None => TcpStream::connect(addr).ok().map(|_| Ok(())),
        });
        connected
            .unwrap_or_else(|| Err(fail(format!("the process does not accept connections at {addr}"))))?;
        Ok(Self { kind: kind.clone(), process, addr, servers, _folder: folder })
    }

    pub(super) fn name(&self) -> &str {
        self.kind.name()
    }

    pub(super) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn process(&self) -> Process {
        self.process.process()
    }

    pub(super) fn servers(&self) -> Vec<Process> {
        self.servers.iter().map(Server::process).collect()
    }

    /// Whether each key goes to one server.
    pub(super) const fn routes(&self) -> bool {
        !matches!(self.kind, Router::Relay { .. } | Router::Floor { .. })
    }

    /// The addresses at which the keys have to be set.
    pub(super) fn preloaded_at(&self) -> Vec<SocketAddr> {
        if self.routes() { vec![self.addr] } else { self.servers.iter().map(Server::addr).collect() }
    }

    /// How replies are checked: the plain floor makes up its values.
    pub(super) fn check(&self) -> Check {
        if self.servers.is_empty() { Check::Framing } else { Check::Contents { sample: super::SAMPLE } }
    }
}

#[derive(Debug, Clone)]
pub struct Binaries {
    /// The `guira` that is measured.
    pub guira: PathBuf,
    /// The `guira` of the two floors.
    pub floor: PathBuf,
    pub nutcracker: PathBuf,
    pub proxy: PathBuf,
}

/// The router with this name; `NAME=PATH` is another `guira`.
///
/// # Errors
/// When there is no such router.
pub fn named(text: &str, binaries: &Binaries) -> Result<Router, String> {
    let Binaries { guira, floor, nutcracker, proxy } = binaries.clone();
    let is_known = |label: &str| [GUIRA, NUTCRACKER, PROXY, RELAY, FLOOR].contains(&label);
    match (text, text.split_once('=')) {
        (GUIRA, _) => Ok(Router::Guira { label: GUIRA.to_owned(), binary: guira }),
        (NUTCRACKER, _) => Ok(Router::Nutcracker { binary: nutcracker }),
        (PROXY, _) => Ok(Router::MemcachedProxy { binary: proxy }),
        (RELAY, _) => Ok(Router::Relay { binary: floor }),
        (FLOOR, _) => Ok(Router::Floor { binary: floor }),
        (_, Some((label, path))) if !label.is_empty() && !is_known(label) => {
            Ok(Router::Guira { label: label.to_owned(), binary: path.into() })
        }
        _ => Err(format!(
            "unknown router {text:?}; use guira, nutcracker, memcached-proxy, relay, floor, or NAME=PATH for another guira"
        )),
    }
}
