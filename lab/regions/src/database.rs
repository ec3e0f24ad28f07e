//! A MariaDB of our own, or a MySQL.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use guira_harness::certificate::Authority;
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal, Spec};
use guira_harness::statements::statements_to;

const TEMPORARY: &str = "temporary";
/// How long a database may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running database, gone when it is dropped. It writes a log of rows with the names of columns.
#[derive(Debug)]
pub struct MariaDb {
    scratch: Scratch,
    address: SocketAddr,
    certificate: Authority,
    words: Vec<OsString>,
    process: Mutex<Option<ServerProcess>>,
}

/// Where a database that is to be started keeps its files and listens.
#[derive(Debug)]
pub struct Place {
    scratch: Scratch,
    address: SocketAddr,
    certificate: Authority,
}

impl Place {
    /// A place that nobody else has.
    ///
    /// # Panics
    /// If there is none.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let scratch = Scratch::new();
        // A server that starts removes what it takes for its temporary files: in a folder of all, those of others.
        std::fs::create_dir(scratch.file(TEMPORARY)).expect("a scratch folder can be written");
        Place {
            scratch,
            address: free.expect("a port is free"),
            certificate: Authority::new().expect("a certificate"),
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// The options that name the folders of its files.
    pub fn folders(&self) -> [String; 2] {
        [("datadir", "data"), ("tmpdir", TEMPORARY)]
            .map(|(option, name)| format!("--{option}={}", self.file(name).display()))
    }

    /// Starts a server there, which listens and logs as all do.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start(self, mut server: Command) -> MariaDb {
        server.args(self.folders());
        server.args(["--bind-address=127.0.0.1", &format!("--port={}", self.address.port())]);
        server.arg(format!("--socket={}", self.file("socket").display()));
        logging(&mut server);
        // A kill of the process loses no commit, and nothing waits for a disk.
        server.arg("--innodb-flush-log-at-trx-commit=2");
        server.arg(format!("--ssl-cert={}", self.certificate.certificate().display()));
        server.arg(format!("--ssl-key={}", self.certificate.key().display()));
        as_root(&mut server);
        let words = iter::once(server.get_program()).chain(server.get_args()).map(OsString::from).collect();
        let Place { scratch, address, certificate } = self;
        let database = MariaDb { scratch, address, certificate, words, process: Mutex::default() };
        database.begin();
        database
    }
}

/// A command that does not read the configuration of the host.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("--no-defaults");
    command
}

pub fn is_installed() -> bool {
    let version = command("mariadbd").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Makes the first files of a MariaDB, where these options say.
///
/// # Errors
/// What the program says that makes them.
pub fn install(folders: &[String]) -> Result<(), String> {
    let mut install = command("mariadb-install-db");
    install.args(folders).args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    as_root(&mut install);
    let installed = install.output().map_err(|error| format!("mariadb-install-db: {error}"))?;
    let told = [&installed.stdout[..], &installed.stderr].concat();
    if installed.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&told).into_owned()) }
}

/// A MariaDB with this number among those that replicate from each other, without its place.
pub fn daemon(id: u32) -> Command {
    let mut server = command("mariadbd");
    server.args(["--log-slave-updates", "--binlog-format=ROW", &format!("--server-id={id}")]);
    server
}

/// Has a server write a log of rows with the names of columns, and be small.
pub fn logging(server: &mut Command) {
    server.args(["--log-bin=binlog", "--binlog-row-metadata=FULL", "--innodb-buffer-pool-size=16M"]);
}

/// Has a server accept to be root's.
pub fn as_root(command: &mut Command) {
    if rustix::process::getuid().is_root() {
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
        if !is_installed() {
            return None;
        }
        let place = Place::new();
        install(&place.folders()).unwrap_or_else(|error| panic!("{error}"));
        Some(place.start(daemon(id)))
    }

    /// Starts its process, and waits until that answers.
    #[track_caller]
    fn begin(&self) {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = || {
            let started = process.get_or_insert_with(|| self.spawn());
            // Somebody may have its port for a moment.
            if started.ended().is_some() {
                *process = None;
                return None;
            }
            self.run("SELECT 1").is_ok().then_some(())
        };
        Deadline::after(PATIENCE).poll(answers).expect("the database answers");
    }

    fn spawn(&self) -> ServerProcess {
        let mut server = Command::new(&self.words[0]);
        server.args(&self.words[1..]);
        ServerProcess::start(Spec::of_service(server)).unwrap()
    }

    /// Stops it in order, and starts it again at the same place. Sessions are lost.
    ///
    /// # Panics
    /// If it does not end, or does not start.
    #[track_caller]
    pub fn restart(&self) {
        if let Some(mut process) = self.taken() {
            process.signal(Signal::TERM);
            process.wait(PATIENCE).unwrap();
        }
        self.begin();
    }

    /// Kills it, and starts it again at the same place, where it recovers.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn crash(&self) {
        if let Some(mut process) = self.taken() {
            process.kill();
        }
        self.begin();
    }

    fn taken(&self) -> Option<ServerProcess> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

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

    pub fn file(&self, name: &str) -> PathBuf {
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

    /// The same, of a database that may be away.
    ///
    /// # Errors
    /// What the database or its client says.
    pub fn run(&self, statements: &str) -> Result<String, String> {
        statements_to(self.client(), statements)
    }

    /// A session that is asked for one row after the other.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    pub fn session(&self) -> Session {
        let mut client = self.client();
        // A statement that may have been executed is not sent again.
        client.args(["--unbuffered", "--skip-reconnect"]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = client.spawn().expect("the client program can be run");
        let requests = process.stdin.take().expect("it was piped");
        let rows = BufReader::new(process.stdout.take().expect("it was piped"));
        Session { process, requests, rows }
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

/// The database has not answered: what it was asked may have been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered(String);

impl fmt::Display for Unanswered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the database has not answered: {}", self.0)
    }
}

impl From<String> for Unanswered {
    /// What it has said in place of an answer.
    fn from(said: String) -> Self {
        Unanswered(said)
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
        self.try_row(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The same, of a database that may be away. A session that has failed once is of no use any more.
    ///
    /// # Errors
    /// When there is no row.
    pub fn try_row(&mut self, statements: &str) -> Result<String, Unanswered> {
        let sent = writeln!(self.requests, "{statements};").and_then(|()| self.requests.flush());
        let mut row = String::new();
        let read = sent.and_then(|()| self.rows.read_line(&mut row));
        match read {
            Ok(_) if row.ends_with('\n') => Ok(row.trim_end().to_owned()),
            read => Err(Unanswered(format!("{read:?}, {row:?}"))),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
