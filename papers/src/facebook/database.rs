//! A PostgreSQL of our own, and connections to it: each is a `psql` that answers line by line.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_harness::server::{ServerProcess, Spec};

use crate::experiment::{Failure, failed};

/// Where Debian keeps the programs of a server.
const PROGRAMS: &str = "/usr/lib/postgresql";

/// The server refuses to be run by root.
const USER: &str = "postgres";

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(60);

/// A database, which is gone when it is dropped.
pub(super) struct Database {
    scratch: Scratch,
    _process: ServerProcess,
}

fn program(name: &str) -> Result<PathBuf, Failure> {
    let versions = fs::read_dir(PROGRAMS)
        .map_err(|_| failed("PostgreSQL is not installed: apt-get install postgresql"))?;
    let mut programs: Vec<PathBuf> = versions
        .flatten()
        .map(|version| version.path().join("bin").join(name))
        .filter(|path| path.exists())
        .collect();
    programs.sort();
    programs.pop().ok_or_else(|| failed(format!("there is no {name} in {PROGRAMS}")))
}

/// A command as the server's user.
fn as_user(name: &str) -> Result<Command, Failure> {
    let program = program(name)?;
    if !rustix::process::getuid().is_root() {
        return Ok(Command::new(program));
    }
    // It becomes the program, so that whoever ends it ends the program.
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--init-groups", "--"])
        .arg(program);
    Ok(command)
}

impl Database {
    /// Starts an empty database for as many connections.
    pub(super) fn start(connections: usize) -> Result<Self, Failure> {
        Self::start_with(connections, &[])
    }

    pub(super) fn start_with(connections: usize, settings: &[&str]) -> Result<Self, Failure> {
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
        let data = scratch.file("data");
        fs::create_dir(&data).map_err(failed)?;
        if rustix::process::getuid().is_root() {
            let id = Command::new("id").args(["-u", USER]).output().map_err(failed)?;
            let id = String::from_utf8_lossy(&id.stdout).trim().parse().map_err(failed)?;
            chown(&data, Some(id), None).map_err(failed)?;
        }
        let made = as_user("initdb")?
            .arg("-D")
            .arg(&data)
            .args(["--auth=trust", "--username=herd", "--no-sync"])
            .output();
        let made = made.map_err(failed)?;
        if !made.status.success() {
            return Err(failed(String::from_utf8_lossy(&made.stderr)));
        }
        let mut command = as_user("postgres")?;
        command.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        command.arg("-c").arg(format!("unix_socket_directories={}", data.display()));
        command.arg("-c").arg(format!("max_connections={}", connections + 10));
        for setting in settings {
            command.args(["-c", setting]);
        }
        let process = ServerProcess::start(Spec::of_service(command)).map_err(failed)?;
        let database = Database { scratch, _process: process };
        // Until it accepts connections, a psql says nothing and ends.
        let answers = || database.connect().and_then(|mut connection| connection.row("SELECT 1"));
        let ready = || answers().is_ok_and(|row| row == "1").then_some(());
        Deadline::after(START_MAX).poll(ready).ok_or_else(|| failed("the database does not answer"))?;
        Ok(database)
    }

    /// Its socket in the file system.
    pub(super) fn socket(&self) -> PathBuf {
        self.scratch.file("data").join(".s.PGSQL.5432")
    }

    pub(super) fn connect(&self) -> Result<Connection, Failure> {
        let mut child = Command::new("psql")
            .args(["--quiet", "--no-align", "--tuples-only", "--no-psqlrc", "--username=herd", "--host"])
            .arg(self.scratch.file("data"))
            .arg("postgres")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("psql has no streams"));
        };
        Ok(Connection { child, input, output: BufReader::new(output) })
    }
}

pub(super) struct Connection {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Connection {
    /// Asks for one row of one column.
    pub(super) fn row(&mut self, query: &str) -> Result<String, Failure> {
        self.input.write_all(format!("{query};\n").as_bytes()).map_err(failed)?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(failed)?;
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _is_gone = self.child.kill();
        let _is_reaped = self.child.wait();
    }
}
