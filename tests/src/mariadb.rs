//! A MariaDB of a test's own, or a MySQL.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal};

use crate::deadline::Deadline;
use crate::server::{is_root, spawn};
use crate::statements::statements_to;
use crate::tls::Certificate;

/// How long a database may take to begin.
const START_MAX: Duration = Duration::from_secs(60);

/// A running database, gone when it is dropped. It writes a log of rows with the names of columns.
#[derive(Debug)]
pub struct MariaDb {
    scratch: Scratch,
    address: SocketAddr,
    certificate: Certificate,
    process: ServerProcess,
    /// What it was started by.
    words: Vec<OsString>,
}

/// Where a database that is to be started keeps its files and listens.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) scratch: Scratch,
    address: SocketAddr,
    certificate: Certificate,
}

impl Place {
    pub(crate) fn new() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        Place {
            scratch: Scratch::new(),
            address: free.expect("a port is free"),
            certificate: Certificate::issue(),
        }
    }

    pub(crate) fn data(&self) -> String {
        format!("--datadir={}", self.scratch.file("data").display())
    }

    /// Starts a server there.
    #[track_caller]
    pub(crate) fn start(self, mut server: Command) -> MariaDb {
        let Place { scratch, address, certificate } = self;
        server.arg(format!("--datadir={}", scratch.file("data").display()));
        server.args(["--bind-address=127.0.0.1", &format!("--port={}", address.port())]);
        server.arg(format!("--socket={}", scratch.file("socket").display()));
        server.args(["--log-bin=binlog", "--binlog-row-metadata=FULL", "--innodb-buffer-pool-size=16M"]);
        server.arg("--innodb-flush-log-at-trx-commit=0");
        server.arg(format!("--ssl-cert={}", certificate.chain().display()));
        server.arg(format!("--ssl-key={}", certificate.key().display()));
        as_root(&mut server);
        let words = iter::once(server.get_program()).chain(server.get_args()).map(OsString::from).collect();
        let database = MariaDb { scratch, address, certificate, process: spawn(server), words };
        database.wait_for_answer();
        database
    }
}

/// A command that does not read the configuration of the host, and accepts to be root's.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("--no-defaults");
    command
}

pub(crate) fn as_root(command: &mut Command) {
    if is_root() {
        command.arg("--user=root");
    }
}

impl MariaDb {
    /// Starts one; `None` when it is not installed.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start() -> Option<Self> {
        Self::start_as(1)
    }

    /// Starts one with this number among those that replicate from each other. What it is told by another one it writes to its own
    /// log too.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start_as(id: u32) -> Option<Self> {
        let version =
            command("mariadbd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.ok().filter(|status| status.success())?;
        let place = Place::new();
        let mut install = command("mariadb-install-db");
        install.args([&place.data(), "--auth-root-authentication-method=normal", "--skip-test-db"]);
        as_root(&mut install);
        let installed = install.output().expect("mariadb-install-db can be run");
        let told = [&installed.stdout[..], &installed.stderr].concat();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&told));
        let mut server = command("mariadbd");
        server.args(["--log-slave-updates", "--binlog-format=ROW", &format!("--server-id={id}")]);
        Some(place.start(server))
    }

    fn wait_for_answer(&self) {
        let answers = || self.run("SELECT 1").is_ok().then_some(());
        Deadline::after(START_MAX).poll(answers).expect("the database answers");
    }

    /// Stops it in order, and starts it again.
    ///
    /// # Panics
    /// If it does not stop or start.
    #[track_caller]
    pub fn restart(&mut self) {
        self.process.signal(Signal::TERM);
        self.process.wait(START_MAX).unwrap_or_else(|error| panic!("{error}"));
        let mut server = Command::new(&self.words[0]);
        server.args(&self.words[1..]);
        self.process = spawn(server);
        self.wait_for_answer();
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The authority behind its certificate, which names `localhost` and 127.0.0.1.
    pub fn authority(&self) -> PathBuf {
        self.certificate.root()
    }

    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.scratch.file("socket")
    }

    /// A file of its own.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// Executes statements, with their comments, and returns what they print.
    ///
    /// # Panics
    /// If one of them is refused.
    #[track_caller]
    pub fn execute(&self, statements: &str) -> String {
        self.run(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// A session that is asked for one row after the other.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn session(&self) -> Session {
        let mut client = self.client();
        client.arg("--unbuffered").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = client.spawn().expect("the client program can be run");
        let requests = process.stdin.take().expect("it was piped");
        let rows = BufReader::new(process.stdout.take().expect("it was piped"));
        Session { process, requests, rows }
    }

    fn run(&self, statements: &str) -> Result<String, String> {
        statements_to(self.client(), statements)
    }

    fn client(&self) -> Command {
        let mut client = command("mariadb");
        client.arg(format!("--socket={}", self.socket().display()));
        client.args([
            "--user=root",
            "--comments",
            "--batch",
            "--skip-column-names",
            "--default-character-set=utf8mb4",
        ]);
        client
    }
}

/// A session, ended on drop.
#[derive(Debug)]
pub struct Session {
    process: Child,
    requests: ChildStdin,
    rows: BufReader<ChildStdout>,
}

impl Session {
    /// Executes statements that give one row in all, and returns it.
    ///
    /// # Panics
    /// If one of them is refused.
    #[track_caller]
    pub fn row(&mut self, statements: &str) -> String {
        let sent = writeln!(self.requests, "{statements};").and_then(|()| self.requests.flush());
        let mut row = String::new();
        let read = sent.and_then(|()| self.rows.read_line(&mut row));
        assert!(read.is_ok() && row.ends_with('\n'), "{statements}: {read:?}, {row:?}");
        row.trim_end().to_owned()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
