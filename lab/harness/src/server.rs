//! A server as a child process: how it is started, what it prints, where it listens and how it ends.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::affinity::spawn_on;
use crate::deadline::Deadline;
use crate::process::Process;

/// How the last line begins that `guira serve` prints when it starts; the lines before it name its addresses.
pub const READY: &str = "memory ";

/// Lines of a stream that are kept from its beginning, and from its end.
const FIRST_MAX: usize = 1000;
const LAST_MAX: usize = 100;

/// How long the rest of the output of a server that has ended is waited for. A process that it has started may keep the pipe open.
const REST: Duration = Duration::from_secs(2);

/// How long a server may take to start or to end, however busy the machine is.
pub const SERVER_PATIENCE: Duration = Duration::from_secs(60);

/// Why a server does not do what was waited for.
#[derive(thiserror::Error)]
pub enum ServerError {
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("it ended with {status} and printed no {awaited}: {printed:?}")]
    Ended { status: ExitStatus, awaited: String, printed: Vec<String> },
    #[error("it printed no {awaited} within {wait:?}: {printed:?}")]
    Silent { awaited: String, wait: Duration, printed: Vec<String> },
    /// It does not end.
    #[error("the server does not end within {0:?}")]
    Running(Duration),
}

/// The text for people: tests unwrap it.
impl fmt::Debug for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[derive(Debug)]
pub struct Spec {
    command: Command,
    cores: Vec<usize>,
    is_alarming: fn(&str) -> bool,
}

impl Spec {
    /// By `command`. Its standard output is read; its standard error too if the command makes it a pipe.
    pub fn new(command: Command) -> Self {
        Self { command, cores: Vec::new(), is_alarming: |_| false }
    }

    /// By `command`, without an input, and with its standard error read too.
    pub fn of_service(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        Self::new(command)
    }

    /// On these processors only; on all if there are none.
    pub fn on(self, cores: &[usize]) -> Self {
        Self { cores: cores.to_vec(), ..self }
    }

    /// Keeps all lines that `is_alarming` picks: see [`ServerProcess::alarms`].
    pub fn alarmed_by(self, is_alarming: fn(&str) -> bool) -> Self {
        Self { is_alarming, ..self }
    }
}

#[derive(Debug, Default)]
struct Printed {
    first: Vec<String>,
    last: VecDeque<String>,
    count: u64,
    alarms: Vec<String>,
}

impl Printed {
    fn add(&mut self, line: String) {
        self.count += 1;
        if self.first.len() < FIRST_MAX {
            self.first.push(line);
            return;
        }
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn lines(&self) -> impl Iterator<Item = &String> {
        self.first.iter().chain(&self.last)
    }
}

fn lock(printed: &Mutex<Printed>) -> MutexGuard<'_, Printed> {
    printed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads a stream to its end, so that the server never waits for room in the pipe.
fn read(source: impl Read, printed: &Mutex<Printed>, is_alarming: fn(&str) -> bool) {
    let mut source = BufReader::new(source);
    let mut bytes = Vec::new();
    while source.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
        bytes.clear();
        let mut printed = lock(printed);
        if is_alarming(&line) {
            printed.alarms.push(line.clone());
        }
        printed.add(line);
    }
}

/// A place where a server says that it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The word before the address, such as `udp` or `mica`; empty for connections.
    pub by: String,
    /// The address, or `unix:` and a path.
    pub place: String,
}

impl Listening {
    /// What a line says, if it says where the server listens: `listening on 127.0.0.1:1` or `… listening on udp 127.0.0.1:1 …`.
    fn read(line: &str) -> Option<Self> {
        let (_, after) = line.split_once("listening on ")?;
        let mut words = after.split_whitespace();
        let first = words.next()?;
        let is_place = first.contains(':');
        let (by, place) = if is_place { ("", first) } else { (first, words.next()?) };
        Some(Self { by: by.to_owned(), place: place.to_owned() })
    }

    /// The address, unless this is a path.
    pub fn address(&self) -> Option<SocketAddr> {
        self.place.parse().ok()
    }
}

/// A running server; it is killed when this is dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    output: Arc<Mutex<Printed>>,
    errors: Arc<Mutex<Printed>>,
    readers: Vec<JoinHandle<()>>,
}

impl ServerProcess {
    /// Starts a server and does not wait for it.
    ///
    /// # Errors
    /// When its program cannot be run.
    pub fn start(spec: Spec) -> Result<Self, ServerError> {
        let Spec { mut command, cores, is_alarming } = spec;
        command.stdout(Stdio::piped());
        let child = spawn_on(&cores, &mut command).map_err(|source| ServerError::Start {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        let mut server = Self { child, output: Arc::default(), errors: Arc::default(), readers: Vec::new() };
        if let Some(source) = server.child.stdout.take() {
            server.read_from(source, server.output.clone(), is_alarming);
        }
        if let Some(source) = server.child.stderr.take() {
            server.read_from(source, server.errors.clone(), is_alarming);
        }
        Ok(server)
    }

    /// Starts a server and waits until it says that it listens `by` this word: see [`ServerProcess::wait_for_address`].
    ///
    /// # Errors
    /// When it does not start, or does not say so.
    pub fn listening(spec: Spec, by: &str) -> Result<(Self, SocketAddr), ServerError> {
        let mut server = Self::start(spec)?;
        let address = server.wait_for_address(by, SERVER_PATIENCE)?;
        Ok((server, address))
    }

    fn read_from(
        &mut self,
        source: impl Read + Send + 'static,
        printed: Arc<Mutex<Printed>>,
        is_alarming: fn(&str) -> bool,
    ) {
        self.readers.push(thread::spawn(move || read(source, &printed, is_alarming)));
    }

    /// Waits until `find` finds something in the first lines of standard output.
    ///
    /// # Errors
    /// When the server ends, or `wait` is over, before.
    pub fn wait_for<T>(
        &mut self,
        awaited: &str,
        wait: Duration,
        mut find: impl FnMut(&[String]) -> Option<T>,
    ) -> Result<T, ServerError> {
        let awaited = || awaited.to_owned();
        let ended = Deadline::after(wait).poll(|| {
            if let Some(found) = find(&lock(&self.output).first) {
                return Some(Ok(found));
            }
            let status = self.ended()?;
            self.drain();
            Some(find(&lock(&self.output).first).ok_or(status))
        });
        match ended {
            Some(Ok(found)) => Ok(found),
            Some(Err(status)) => {
                Err(ServerError::Ended { status, awaited: awaited(), printed: self.lines() })
            }
            None => Err(ServerError::Silent { awaited: awaited(), wait, printed: self.lines() }),
        }
    }

    /// Waits until the server says that it listens `by` this word, such as `mica`; for connections the word is empty.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_for_address(&mut self, by: &str, wait: Duration) -> Result<SocketAddr, ServerError> {
        let awaited = if by.is_empty() { "address".to_owned() } else { format!("address by {by}") };
        self.wait_for(&awaited, wait, |lines| {
            let places = lines.iter().filter_map(|line| Listening::read(line));
            places.filter(|listening| listening.by == by).find_map(|listening| listening.address())
        })
    }

    /// Waits until `guira serve` is ready; everywhere that it listens.
    ///
    /// # Errors
    /// When it does not get there.
    pub fn wait_until_ready(&mut self, wait: Duration) -> Result<Vec<Listening>, ServerError> {
        let places = |lines: &[String]| lines.iter().filter_map(|line| Listening::read(line)).collect();
        let ready = |lines: &[String]| lines.iter().any(|line| line.starts_with(READY));
        self.wait_for("line of its memory", wait, |lines| ready(lines).then(|| places(lines)))
    }

    /// Its process, whose costs can be read.
    pub fn process(&self) -> Process {
        Process::new(self.id())
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has. Then all that it printed has been read.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.drain();
        Some(status)
    }

    /// Sends a signal, which a process that has ended does not get.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end, and then for the rest of what it printed.
    ///
    /// # Errors
    /// When it does not end within `wait`.
    pub fn wait(&mut self, wait: Duration) -> Result<ExitStatus, ServerError> {
        Deadline::after(wait).poll(|| self.ended()).ok_or(ServerError::Running(wait))
    }

    /// Asks it to end, and waits for its end.
    ///
    /// # Errors
    /// When it does not end, or not in order.
    pub fn end(&mut self) -> Result<(), ServerError> {
        self.signal(Signal::TERM);
        match self.wait(SERVER_PATIENCE)? {
            status if status.success() => Ok(()),
            status => {
                Err(ServerError::Ended { status, awaited: "orderly end".to_owned(), printed: self.lines() })
            }
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.drain();
    }

    /// The first and the last lines of standard output, then those of standard error.
    pub fn lines(&self) -> Vec<String> {
        let all = |printed: &Mutex<Printed>| lock(printed).lines().cloned().collect::<Vec<_>>();
        [all(&self.output), all(&self.errors)].concat()
    }

    /// Standard error so far, of a very long one the first and the last lines.
    pub fn errors(&self) -> String {
        lock(&self.errors).lines().flat_map(|line| [line, "\n"]).collect()
    }

    /// How many lines it has printed.
    pub fn line_count(&self) -> u64 {
        lock(&self.output).count + lock(&self.errors).count
    }

    /// All lines that [`Spec::alarmed_by`] picks.
    pub fn alarms(&self) -> Vec<String> {
        [&self.output, &self.errors].map(|printed| lock(printed).alarms.clone()).concat()
    }

    /// Waits until everything is read that a server has printed which has ended.
    fn drain(&self) {
        let is_read = || self.readers.iter().all(JoinHandle::is_finished);
        // If not, a process that it has started has the pipe.
        let _rest = Deadline::after(REST).poll(|| is_read().then_some(()));
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use rustix::process::Signal;

    use super::{FIRST_MAX, LAST_MAX, Listening, ServerError, ServerProcess, Spec};

    const WAIT: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> ServerProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        ServerProcess::start(Spec::new(command).alarmed_by(|line| line.contains("panicked"))).unwrap()
    }

    #[test]
    fn a_line_says_where_a_server_listens() {
        let read = |line| Listening::read(line).map(|found| (found.by, found.place));
        let found = |by: &str, place: &str| Some((by.to_owned(), place.to_owned()));
        assert_eq!(read("INFO listening on 127.0.0.1:4321 with 1 worker"), found("", "127.0.0.1:4321"));
        assert_eq!(read("floor: listening on udp [::1]:1"), found("udp", "[::1]:1"));
        assert_eq!(read("listening on unix:/run/x"), found("", "unix:/run/x"));
        assert_eq!(read("starting"), None);
        assert_eq!(read("listening on udp"), None);
    }

    #[test]
    fn a_server_is_ready_when_it_says_so_and_ends_by_a_signal() {
        let mut server = shell(
            "echo listening on mica 127.0.0.1:2; echo listening on 127.0.0.1:1; echo memory 1; exec sleep 60",
        );
        assert_eq!(server.wait_for_address("", WAIT).unwrap().to_string(), "127.0.0.1:1");
        assert_eq!(server.wait_until_ready(WAIT).unwrap().len(), 2);
        assert!(server.ended().is_none() && server.process().resident_bytes().unwrap() > 0);
        server.signal(Signal::TERM);
        assert!(!server.wait(WAIT).unwrap().success());
    }

    #[test]
    fn a_server_that_ends_or_is_silent_is_an_error_with_what_it_printed() {
        let mut server = shell("echo refused; echo why >&2; exit 3");
        let error = server.wait_until_ready(WAIT).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("refused"), "{error}");
        assert_eq!((server.errors().as_str(), server.line_count()), ("why\n", 2));
        let mut server = shell("exec sleep 60");
        let error = server.wait_until_ready(Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, ServerError::Silent { .. }), "{error}");
        let missing = ServerProcess::start(Spec::new(Command::new("/nowhere/guira")));
        assert!(matches!(missing.unwrap_err(), ServerError::Start { .. }));
    }

    #[test]
    fn alarming_lines_are_kept_and_of_many_the_first_and_the_last() {
        let mut server = shell("seq 5000; echo thread panicked >&2");
        assert!(server.wait(WAIT).unwrap().success());
        let lines = server.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (FIRST_MAX + LAST_MAX + 1, "1"));
        assert_eq!(lines[FIRST_MAX + LAST_MAX - 1], "5000");
        assert_eq!((server.alarms(), server.line_count()), (vec!["thread panicked".to_owned()], 5001));
    }
}
