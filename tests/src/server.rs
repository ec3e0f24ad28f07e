//! A server process of its own for each test, on a free port, killed on drop.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use guira_harness::process::Process;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal, Spec};
pub use guira_harness::socket::Address;

use crate::client::Client;
use crate::deadline::{Deadline, PATIENCE};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// The version whose behaviour the tests describe.
pub const LAW: Version = Version(1, 6, 45);

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Which server a test talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Guira,
    Memcached(Version),
}

/// The engines that a test tries one after the other: all of them, or the one that the tests are run with. If
/// they are run with memcached, only one, which [`Setup::start`] ignores.
pub fn engines() -> Vec<&'static str> {
    const ENGINES: [&str; 6] = ["memc3", "classic", "fleec", "memclock", "mica", "mica-store"];
    let chosen = std::env::var("GUIRA_TEST_ENGINE").ok();
    let is_chosen =
        |engine: &&str| chosen.as_deref().is_none_or(|chosen| chosen.split(':').next() == Some(*engine));
    if is_peer() { vec![ENGINES[0]] } else { ENGINES.into_iter().filter(is_chosen).collect() }
}

/// Whether the server under test is memcached.
fn is_peer() -> bool {
    std::env::var("GUIRA_TEST_SERVER").is_ok_and(|server| server == "memcached")
}

/// How to start a server: the defaults are two workers and 64 MiB on a free port of 127.0.0.1.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    max_item_mib: Option<u32>,
    unix_socket: Option<PathBuf>,
    arguments: Vec<OsString>,
    /// Engines that lack what is tested.
    unsuitable: Vec<&'static str>,
    engine: Option<&'static str>,
    options: Vec<OsString>,
}

impl Setup {
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts items up to this size instead of 1 MiB.
    pub fn max_item_mib(mut self, mib: u32) -> Self {
        self.max_item_mib = Some(mib);
        self
    }

    /// Listens on a socket in the file system instead of a port.
    pub fn unix_socket(mut self, path: &Path) -> Self {
        self.unix_socket = Some(path.to_owned());
        self
    }

    /// Adds an argument that only guira knows; ignored for memcached.
    pub fn guira_argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Does without `engine`, which lacks what is tested: the default takes its place.
    pub fn not_with(mut self, engine: &'static str) -> Self {
        self.unsuitable.push(engine);
        self
    }

    /// Runs guira with this engine, whatever engine the tests are run with; ignored for memcached.
    pub fn engine(mut self, engine: &'static str) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Adds options in memcached's own words. Guira is then started as `guira memcached`.
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(OsString::from));
        self
    }

    /// Starts the server under test: guira, or memcached when `GUIRA_TEST_SERVER=memcached`.
    #[track_caller]
    pub fn start(&self) -> Server {
        match std::env::var("GUIRA_TEST_SERVER").as_deref() {
            Err(_) | Ok("guira") => self.start_guira(),
            Ok("memcached") => {
                let binary = std::env::var_os("GUIRA_MEMCACHED").unwrap_or_else(|| "memcached".into());
                let Some(server) = self.start_memcached(&binary) else {
                    panic!(
                        "GUIRA_TEST_SERVER=memcached, but there is no memcached (set GUIRA_MEMCACHED to its path)"
                    )
                };
                server
            }
            Ok(other) => panic!("GUIRA_TEST_SERVER is guira or memcached, not {other}"),
        }
    }

    /// Starts guira whatever the environment says.
    #[track_caller]
    pub fn start_guira(&self) -> Server {
        if !self.options.is_empty() {
            return self.start_by_options(guira(["memcached"]), Subject::Guira);
        }
        let mut command = guira(["serve", "--workers", "2", "--memory", "64MiB", "--listen"]);
        match &self.unix_socket {
            Some(path) => command.arg(format!("unix:{}", path.display())),
            None => command.arg("127.0.0.1:0"),
        };
        if let Some(mib) = self.max_item_mib {
            command.args(["--max-item-size", &format!("{mib}MiB")]);
        }
        let engine = std::env::var("GUIRA_TEST_ENGINE").ok();
        let engine = self.engine.map(str::to_owned).or(engine);
        let name = |engine: &str| engine.split(':').next().unwrap_or_default().to_owned();
        if let Some(engine) = engine.filter(|engine| !self.unsuitable.contains(&name(engine).as_str())) {
            command.arg("--engine").arg(name(&engine));
            if let Some((_, access)) = engine.split_once(':') {
                command.arg("--access").arg(access);
            }
        }
        command.args(&self.arguments);
        let mut process = spawn(command);
        let address = match &self.unix_socket {
            Some(path) => {
                let listens = |lines: &[String]| lines.iter().any(|line| line.contains("listening on "));
                process.wait_for("socket", PATIENCE, |lines| listens(lines).then_some(())).unwrap();
                Address::Unix(path.clone())
            }
            None => Address::Tcp(process.wait_for_address("", PATIENCE).unwrap()),
        };
        Server { process, address, subject: Subject::Guira, _scratch: None, _nodes: Vec::new() }
    }

    /// Starts a router with this configuration in front of these nodes; `%0`, `%1` … in it stand for their addresses.
    #[track_caller]
    pub fn start_router(&self, configuration: &str, nodes: Vec<Server>) -> Server {
        let scratch = Scratch::new();
        let mut text = configuration.to_owned();
        for (number, node) in nodes.iter().enumerate().rev() {
            let Address::Tcp(address) = node.address() else {
                panic!("a node behind a router listens on TCP")
            };
            text = text.replace(&format!("%{number}"), &address.to_string());
        }
        let file = scratch.path().join("router.json");
        std::fs::write(&file, text).expect("a scratch folder can be written to");
        let mut command = guira(["router", "--listen", "127.0.0.1:0", "--config"]);
        command.arg(&file).args(&self.arguments);
        let (process, address) = listening(command, "");
        let subject = Subject::Guira;
        Server { process, address: Address::Tcp(address), subject, _scratch: Some(scratch), _nodes: nodes }
    }

    /// Starts the memcached that is compared with, whatever the environment says about the server under test;
    /// `None` when it is not installed.
    #[track_caller]
    pub fn start_peer(&self) -> Option<Server> {
        self.start_memcached(&std::env::var_os("GUIRA_PEER").unwrap_or_else(|| "memcached".into()))
    }

    #[track_caller]
    fn start_memcached(&self, binary: &OsString) -> Option<Server> {
        let version = memcached_version(binary)?;
        Some(self.start_by_options(Command::new(binary), Subject::Memcached(version)))
    }

    #[track_caller]
    fn start_by_options(&self, mut command: Command, subject: Subject) -> Server {
        let scratch = Scratch::new();
        let port_file = scratch.path().join("port");
        command.args(["-t", "2", "-m", "64"]);
        if is_root() {
            command.args(["-u", "root"]);
        }
        match &self.unix_socket {
            Some(path) => command.arg("-s").arg(path),
            None => {
                command.env("MEMCACHED_PORT_FILENAME", &port_file);
                command.args(["-l", "127.0.0.1", "-p", "-1"])
            }
        };
        if let Some(mib) = self.max_item_mib {
            command.args(["-I", &format!("{mib}m")]);
        }
        command.args(&self.options);
        let process = spawn(command);
        let address = match &self.unix_socket {
            Some(path) => {
                // The file is there before somebody listens.
                wait_for("memcached's socket", || std::os::unix::net::UnixStream::connect(path).ok());
                Address::Unix(path.clone())
            }
            None => {
                let port = wait_for("memcached's port", || port_of("TCP", &port_file));
                Address::Tcp(([127, 0, 0, 1], port).into())
            }
        };
        Server { process, address, subject, _scratch: Some(scratch), _nodes: Vec::new() }
    }
}

/// Limits a process to `most` descriptors from now on.
///
/// # Panics
/// If the system does not.
#[track_caller]
pub fn limit_descriptors(process_id: u32, most: u32) {
    // The hard limit stays, so that the soft one can be raised again.
    let (pid, limit) = (process_id.to_string(), format!("--nofile={most}:"));
    let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot limit its descriptors");
}

/// A running server, killed on drop.
///
/// | variable | meaning |
/// |---|---|
/// | `GUIRA_TEST_SERVER` | `guira` (default) or `memcached` |
/// | `GUIRA_TEST_ENGINE` | engine that guira runs, unless it is started by memcached's options; `mica:erew` names an access mode too |
/// | `GUIRA_TEST_SYSTEM_CALLS` | `listed` restricts every server and router to listed system calls |
/// | `GUIRA_BIN` | path of the guira binary; default: beside the test binary in the target directory |
/// | `GUIRA_MEMCACHED` | path of the memcached under test; default: the one in `PATH` |
/// | `GUIRA_PEER` | path of the memcached that the differential test compares with; default: the one in `PATH` |
#[derive(Debug)]
pub struct Server {
    process: ServerProcess,
    address: Address,
    subject: Subject,
    _scratch: Option<Scratch>,
    _nodes: Vec<Server>,
}

impl Server {
    /// Starts the server under test with the defaults of [`Setup`].
    #[track_caller]
    pub fn start() -> Self {
        Setup::new().start()
    }

    #[track_caller]
    pub fn connect(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Where it takes datagrams from, if it was started by options that say so.
    #[track_caller]
    pub fn udp_address(&self) -> SocketAddr {
        let scratch = self._scratch.as_ref().expect("it was started by options");
        let file = scratch.path().join("port");
        let port = wait_for("the port of UDP", || port_of("UDP", &file));
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Where its admin listener is, if it was started with one.
    #[track_caller]
    pub fn admin_address(&mut self) -> SocketAddr {
        self.process.wait_for_address("admin", PATIENCE).unwrap()
    }

    /// Sends it a signal by its name, such as `HUP`.
    ///
    /// # Panics
    /// If no test has used this signal before.
    pub fn signal(&self, name: &str) {
        self.process.signal(match name {
            "HUP" => Signal::HUP,
            "TERM" => Signal::TERM,
            "USR1" => Signal::USR1,
            "USR2" => Signal::USR2,
            "KILL" => Signal::KILL,
            "STOP" => Signal::STOP,
            "CONT" => Signal::CONT,
            _ => panic!("a signal without a name here: {name}"),
        });
    }

    /// Stops it, and waits until all its threads stand still.
    #[track_caller]
    pub fn freeze(&self) {
        self.signal("STOP");
        let tasks = format!("/proc/{}/task", self.process_id());
        wait_for("the end of its work", || {
            let mut tasks = std::fs::read_dir(&tasks).expect("it runs");
            let is_still = tasks.all(|task| {
                let stat = task.expect("a task").path().join("stat");
                let stat = std::fs::read_to_string(stat).unwrap_or_default();
                stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
            });
            is_still.then_some(())
        });
    }

    /// Ends it by a signal and waits until it is gone.
    #[track_caller]
    pub fn stop(mut self, signal: &str) {
        self.signal(signal);
        self.process.wait(PATIENCE).unwrap();
    }

    /// Waits until it has ended by itself. Returns what it has written to standard error.
    #[track_caller]
    pub fn wait(mut self) -> String {
        let status = self.process.wait(PATIENCE).unwrap();
        assert!(status.success(), "the server ended with {status}");
        self.log()
    }

    /// How much memory the process holds, in bytes, without the pages of files.
    #[track_caller]
    pub fn memory(&self) -> usize {
        self.costs().private_bytes().expect("it runs") as usize
    }

    /// Its process, whose costs can be read.
    pub fn costs(&self) -> Process {
        self.process.process()
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// The server's version, if it is a memcached older than the one that the tests describe.
    pub fn older_than_the_law(&self) -> Option<Version> {
        match self.subject {
            Subject::Memcached(version) if version < LAW => Some(version),
            _ => None,
        }
    }

    /// The id of the server's process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// What it has written to standard error so far.
    pub fn log(&self) -> String {
        self.process.errors()
    }

    /// Limits it to `most` descriptors from now on.
    #[track_caller]
    pub fn limit_descriptors(&self, most: u32) {
        limit_descriptors(self.process_id(), most);
    }

    /// Fails if the server has ended.
    #[track_caller]
    pub fn expect_running(&mut self) {
        if let Some(status) = self.process.ended() {
            panic!("the server ended with {status}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.process.kill();
            eprintln!("its standard error:\n{}", self.log());
        } else if are_restricted() {
            let log = self.log();
            assert!(!log.contains("refused a system call"), "{log}");
        }
    }
}

/// Starts a server whose standard error is read too.
///
/// # Panics
/// If its program cannot be run.
#[track_caller]
pub fn spawn(command: Command) -> ServerProcess {
    ServerProcess::start(Spec::of_service(command)).unwrap()
}

/// Starts a server, and waits until it says that it listens `by` this word, such as `admin`.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn listening(command: Command, by: &str) -> (ServerProcess, SocketAddr) {
    ServerProcess::listening(Spec::of_service(command), by).unwrap()
}

/// `guira` with these words.
pub fn guira(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(guira_binary());
    let mut words = words.into_iter().peekable();
    if let Some(program) = words.next() {
        command.arg(&program);
        // `guira router replay` and the like are no servers.
        let has_options = words.peek().is_some_and(|word| word.as_ref().as_encoded_bytes().starts_with(b"-"));
        match program.as_ref().to_str() {
            Some("memcached") if are_restricted() => command.args(["-o", "drop_privileges"]),
            Some("serve" | "router" | "mcrouter") if are_restricted() && has_options => {
                command.args(["--system-calls", "listed"])
            }
            _ => &mut command,
        };
    }
    command.args(words);
    command
}

/// Whether all servers and routers of this run are restricted to listed system calls.
fn are_restricted() -> bool {
    std::env::var("GUIRA_TEST_SYSTEM_CALLS").is_ok_and(|calls| calls == "listed")
}

/// `GUIRA_BIN`, or the binary in the target directory of this test, its own profile first.
pub fn guira_binary() -> PathBuf {
    if let Some(path) = std::env::var_os("GUIRA_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a path");
    // target/<profile>/deps/protocol-<hash>
    let profile = test.ancestors().nth(2).expect("a test lies in target/<profile>/deps");
    let target = profile.parent().expect("a profile lies in target");
    let candidates = [profile.join("guira"), target.join("debug/guira"), target.join("release/guira")];
    candidates.iter().find(|path| path.is_file()).cloned().unwrap_or_else(|| {
        panic!("no guira binary at {candidates:?}: run `cargo build --workspace --bin guira` first, or set GUIRA_BIN")
    })
}

/// What `memcached --version` says; `None` when it cannot be run.
fn memcached_version(binary: &OsString) -> Option<Version> {
    let output = Command::new(binary).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().nth(1)?.split('.').map(|number| number.parse::<u32>().ok());
    Some(Version(numbers.next()??, numbers.next()??, numbers.next()??))
}

/// The port of `protocol` in the file that memcached writes: a line `TCP INET: <port>`.
fn port_of(protocol: &str, file: &Path) -> Option<u16> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(" INET: "));
    lines.next()?.trim().parse().ok()
}

/// Whether the tests, and so the servers they start, are root's.
pub fn is_root() -> bool {
    owner_of(Path::new("/proc/self")) == Some(0)
}

fn owner_of(path: &Path) -> Option<u32> {
    std::fs::metadata(path).ok().map(|metadata| metadata.uid())
}

/// Runs the guira binary, which is expected to refuse to serve: its exit code, and what it says.
#[track_caller]
pub fn refused_guira(arguments: &[&str]) -> (Option<i32>, String) {
    let mut process = spawn(guira(arguments));
    let status = process.wait(PATIENCE).unwrap();
    (status.code(), process.errors())
}

/// Runs the guira binary to its end, which is expected to come soon.
pub fn run_guira(arguments: &[&str]) -> std::process::Output {
    guira(arguments).output().expect("guira can be run")
}

/// Polls until `condition` gives a value.
///
/// # Panics
/// If it does not for too long.
#[track_caller]
pub fn wait_for<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    Deadline::after(PATIENCE).poll(condition).unwrap_or_else(|| panic!("{what} did not appear"))
}

/// How long a line of a log is waited for: it may tell of something that takes long on a busy machine.
const LOG_MAX: Duration = Duration::from_secs(60);

/// Waits until `log`, which a running process has written so far, has `text`, and returns how often. Lines are written by a thread of their own, a moment after
/// what they tell of.
#[track_caller]
pub fn wait_for_log(log: impl Fn() -> String, text: &str) -> usize {
    let count = || log().matches(text).count();
    let Some(times) = Deadline::after(LOG_MAX).poll(|| Some(count()).filter(|count| *count > 0)) else {
        panic!("the log has no {text:?}: {}", log());
    };
    times
}
