//! A server at a socket in the file system, which is killed, frozen and started again there.

use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guira_client::text::{Connection, Endpoint, Target, TextError};
use guira_harness::deadline::Deadline;
use guira_harness::server::{ServerProcess, Signal, Spec};
use guira_protocol::client::Reply;

use crate::http;

/// How long a server may take to begin.
const START_MAX: Duration = Duration::from_secs(30);

/// A server that can be started again. It is killed when this is dropped.
pub struct Member {
    socket: PathBuf,
    command: Box<dyn Fn(&Path) -> Command + Send + Sync>,
    process: Mutex<Option<ServerProcess>>,
}

impl fmt::Debug for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Member").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Member {
    /// Starts the server that `command` makes for this socket, and waits until it listens.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn start(socket: PathBuf, command: impl Fn(&Path) -> Command + Send + Sync + 'static) -> Self {
        let member = Member { socket, command: Box::new(command), process: Mutex::default() };
        member.start_again();
        member
    }

    /// A node of Guira with these arguments.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn node(guira: &Path, socket: PathBuf, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let guira = guira.to_owned();
        Self::start(socket, move |socket| {
            let mut command = Command::new(&guira);
            command.args(["serve", "--workers", "1", "--memory", "64MiB"]);
            command.arg("--listen").arg(format!("unix:{}", socket.display())).args(&arguments);
            command
        })
    }

    fn process(&self) -> MutexGuard<'_, Option<ServerProcess>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it at the same place, if it does not run.
    ///
    /// # Panics
    /// If it does not listen soon.
    #[track_caller]
    pub fn start_again(&self) {
        let mut process = self.process();
        if process.is_some() {
            return;
        }
        // One that was killed has left it behind.
        let _ = std::fs::remove_file(&self.socket);
        let spec = Spec::of_service((self.command)(&self.socket));
        let started = process.insert(ServerProcess::start(spec).unwrap());
        let listens = || match started.ended() {
            Some(status) => Some(Err(status)),
            None => UnixStream::connect(&self.socket).ok().map(|_| Ok(())),
        };
        match Deadline::after(START_MAX).poll(listens) {
            Some(Ok(())) => {}
            other => panic!("{} does not listen: {other:?}, {}", self.socket.display(), started.errors()),
        }
    }

    /// Kills it with all that it has.
    pub fn kill(&self) {
        if let Some(mut process) = self.process().take() {
            process.kill();
        }
    }

    /// Has it stand still, as a host does that swaps.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &*self.process() {
            process.signal(signal);
        }
    }

    /// How it has ended by itself, and what it has said, if it has.
    pub fn fault(&self) -> Option<String> {
        let mut process = self.process();
        let process = process.as_mut()?;
        process
            .ended()
            .map(|status| format!("{} has ended with {status}: {}", self.socket.display(), process.errors()))
    }

    /// What it has written to standard error so far.
    pub fn log(&self) -> String {
        self.process().as_ref().map_or_else(String::new, ServerProcess::errors)
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where it listens, as programs are told.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// It, for a client with this patience.
    pub fn target(&self, timeout: Duration) -> Target {
        Target::new(Endpoint::Unix(self.socket.clone()), timeout)
    }

    /// A connection for a client of tests, which is patient.
    fn open(&self) -> Result<Connection, TextError> {
        Connection::open(&self.target(START_MAX))
    }

    /// What its admin listener, if that is its socket, has at this path; `None` unless it answers 200.
    pub fn page(&self, path: &str) -> Option<String> {
        http::page(&self.socket, path)
    }

    /// The value of `key`, by a plain get.
    ///
    /// # Errors
    /// When it does not answer as it should.
    pub fn value(&self, key: &str) -> Result<Option<Vec<u8>>, TextError> {
        let mut connection = self.open()?;
        connection.send(format!("get {key}\r\n").as_bytes())?;
        Ok(match connection.reply()? {
            Reply::Value(value) => Some(value.value.to_vec()),
            _ => None,
        })
    }

    /// The answer to a request of one line, which has one line too.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(&self, request: &str) -> Result<String, TextError> {
        let mut connection = self.open()?;
        connection.send(format!("{request}\r\n").as_bytes())?;
        connection.line().map(|line| String::from_utf8_lossy(line).into_owned())
    }

    /// A number of its statistics, 0 if it has none of this name.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn stat(&self, name: &str) -> Result<u64, TextError> {
        let mut number = 0;
        self.open()?.stats("", |found, value| {
            if found == name.as_bytes() {
                number = String::from_utf8_lossy(value).parse().unwrap_or(0);
            }
        })?;
        Ok(number)
    }
}
