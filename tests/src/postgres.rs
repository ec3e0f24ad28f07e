//! A PostgreSQL of a test's own.

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Signal};

use crate::deadline::Deadline;
use crate::server::{is_root, spawn};
use crate::tls::Certificate;
use guira_harness::statements::statements_to;

/// How long a database may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where Debian keeps the programs of a server.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// Who runs a server in the place of root, which it refuses.
const USER: &str = "postgres";

/// A running database, gone when it is dropped. Its log has rows, it speaks TLS, and users prove their passwords over TCP by `scram-sha-256`.
#[derive(Debug)]
pub struct Postgres {
    scratch: Scratch,
    programs: PathBuf,
    address: SocketAddr,
    process: Option<ServerProcess>,
    certificate: Certificate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Once all its log was sent to who reads it.
    Fast,
    Immediate,
}

/// The folder with the programs of the newest version.
fn programs() -> Option<PathBuf> {
    let folders = fs::read_dir(PROGRAMS).ok()?.flatten().map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("initdb").exists()).max()
}

/// A command as the server's user.
fn as_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    // It becomes the program, so that whoever ends it ends the program.
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--init-groups", "--"])
        .arg(program);
    command
}

/// Gives a file or folder to the server's user.
fn give(path: &Path) {
    if is_root() {
        let id = Command::new("id").args(["-u", USER]).output().expect("id can be run");
        let id = String::from_utf8_lossy(&id.stdout).trim().parse().expect("a number");
        chown(path, Some(id), None).expect("root gives away files");
    }
}

impl Postgres {
    /// Starts one with these settings beside others; `None` when it is not installed.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start(settings: &str) -> Option<Self> {
        let programs = programs()?;
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let data = scratch.file("data");
        fs::create_dir(&data).expect("a scratch folder can be written");
        give(&data);
        let mut install = as_user(&programs.join("initdb"));
        install.arg("-D").arg(&data).args([
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        install.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
        let installed = install.output().expect("initdb can be run");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a port is free");
        let certificate = Certificate::issue();
        for (from, to) in [(certificate.chain(), "server.crt"), (certificate.key(), "server.key")] {
            let to = data.join(to);
            fs::copy(from, &to).expect("a scratch folder can be written");
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).expect("it is ours");
            give(&to);
        }
        let mut file =
            fs::File::options().append(true).open(data.join("postgresql.conf")).expect("it is there");
        let port = address.port();
        let socket = data.display();
        let text = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{socket}'\nssl = on\nfsync = off\n\
             wal_level = logical\nmax_wal_size = 32MB\nmin_wal_size = 32MB\nshared_buffers = 16MB\nautovacuum = off\n{settings}\n"
        );
        file.write_all(text.as_bytes()).expect("it can be written");
        let mut database = Postgres { scratch, programs, address, process: None, certificate };
        database.run_again();
        Some(database)
    }

    /// Starts it once more after its end.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn run_again(&mut self) {
        let mut server = as_user(&self.programs.join("postgres"));
        server.arg("-D").arg(self.scratch.file("data"));
        self.process = Some(spawn(server));
        let answers = || self.run("postgres", "SELECT 1").is_ok().then_some(());
        Deadline::after(PATIENCE).poll(answers).expect("the database answers");
    }

    /// Ends it.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn stop(&mut self, how: Shutdown) {
        let mut process = self.process.take().expect("it runs");
        process.signal(match how {
            Shutdown::Fast => Signal::INT,
            Shutdown::Immediate => Signal::QUIT,
        });
        process.wait(PATIENCE).unwrap();
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its socket in the file system.
    pub fn socket(&self) -> PathBuf {
        self.scratch.file("data").join(format!(".s.PGSQL.{}", self.address.port()))
    }

    /// The authority behind its certificate, which names `localhost` and 127.0.0.1.
    pub fn authority(&self) -> PathBuf {
        self.certificate.root()
    }

    /// Has it begin as a standby of nobody the next time, which can be promoted.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn make_standby(&self) {
        let file = self.scratch.file("data").join("standby.signal");
        fs::write(&file, "").expect("a scratch folder can be written");
        give(&file);
    }

    /// Executes statements in a database, each for itself, and returns what they print.
    ///
    /// # Panics
    /// If one of them is refused.
    #[track_caller]
    pub fn execute(&self, database: &str, statements: &str) -> String {
        self.run(database, statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    fn run(&self, database: &str, statements: &str) -> Result<String, String> {
        let mut client = Command::new(self.programs.join("psql"));
        client.args(["--quiet", "--no-align", "--tuples-only", "--no-psqlrc", "--username=postgres"]);
        client.args(["--set=ON_ERROR_STOP=1", "--host"]).arg(self.scratch.file("data"));
        client.args(["--port", &self.address.port().to_string(), database]);
        client.env("PGCLIENTENCODING", "UTF8");
        statements_to(client, statements)
    }
}
