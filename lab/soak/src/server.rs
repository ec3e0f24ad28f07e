//! The server under load: a process of its own, with what it says.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::plan::Plan;
use guira_sync::clock::Stopwatch;
use rustix::process::{Pid, Signal, kill_process};

/// Lines that are kept from the start, and from the end.
const FIRST_MAX: usize = 100;
const LAST_MAX: usize = 100;

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(30);

/// What the server has written.
#[derive(Debug, Default)]
struct Said {
    first: Vec<String>,
    last: VecDeque<String>,
    count: u64,
    bad: Vec<String>,
}

/// A server process; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    said: Arc<Mutex<Said>>,
}

fn lock(said: &Mutex<Said>) -> std::sync::MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the server says when it finds a certificate that is none, which it is given now and then.
const CERTIFICATES_SPOILT: &str = "certificates stay as they were";

/// Whether a line of the log tells of something that must not happen.
fn is_bad(line: &str) -> bool {
    let is_error = line.contains(" ERROR ") && !line.contains(CERTIFICATES_SPOILT);
    is_error || line.contains("panicked") || line.contains("overflow")
}

fn collect(source: Option<impl Read + Send + 'static>, said: &Arc<Mutex<Said>>) {
    let (Some(source), said) = (source, said.clone()) else { return };
    std::thread::spawn(move || {
        for line in BufReader::new(source).lines().map_while(Result::ok) {
            let mut said = lock(&said);
            said.count += 1;
            if is_bad(&line) {
                said.bad.push(line.clone());
            }
            if said.first.len() < FIRST_MAX {
                said.first.push(line);
                continue;
            }
            if said.last.len() == LAST_MAX {
                said.last.pop_front();
            }
            said.last.push_back(line);
        }
    });
}

/// Whether `guira serve` has this option.
pub(crate) fn has_option(binary: &Path, option: &str) -> bool {
    let output = Command::new(binary).args(["serve", "--help"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(option))
}

impl Server {
    /// Starts `guira serve` with these arguments, and does not wait for it.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn spawn(plan: &Plan, arguments: &[String]) -> Result<Self, String> {
        let binary = &plan.binary;
        let mut command = Command::new(binary);
        let (engine, access) = plan.engine.split_once(':').unwrap_or((&plan.engine, ""));
        command.args(["serve", "--engine", engine]);
        if !access.is_empty() {
            command.args(["--access", access]);
        }
        command.args(arguments).stdin(Stdio::null());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
        let said = Arc::new(Mutex::new(Said::default()));
        collect(child.stdout.take(), &said);
        collect(child.stderr.take(), &said);
        Ok(Server { child, said })
    }

    /// Waits until it serves; the TCP addresses that it listens on.
    ///
    /// # Errors
    /// In words, if it ends or does not get so far.
    pub(crate) fn wait_until_it_serves(&mut self) -> Result<Vec<SocketAddr>, String> {
        let begin = Stopwatch::start();
        loop {
            let lines = lock(&self.said).first.clone();
            // It comes after the lines with addresses.
            if lines.iter().any(|line| line.starts_with("memory ")) {
                let addresses = lines.iter().filter_map(|line| line.strip_prefix("listening on "));
                return Ok(addresses.filter_map(|text| text.parse().ok()).collect());
            }
            if let Some(status) = self.ended() {
                return Err(format!("the server ended with {status} instead of starting: {lines:?}"));
            }
            if begin.elapsed() > START_MAX {
                return Err(format!("the server does not start: {lines:?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // A process that has ended is noticed by whoever asks for it next.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// In words, if it does not end.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<ExitStatus, String> {
        let begin = Stopwatch::start();
        while begin.elapsed() < time {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("the server does not end within {time:?}"))
    }

    /// The first and the last lines that it has written.
    pub(crate) fn lines(&self) -> Vec<String> {
        let said = lock(&self.said);
        said.first.iter().chain(&said.last).cloned().collect()
    }

    /// How many lines it has written.
    pub(crate) fn line_count(&self) -> u64 {
        lock(&self.said).count
    }

    /// Lines that tell of something that must not happen.
    pub(crate) fn bad_lines(&self) -> Vec<String> {
        lock(&self.said).bad.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder of this run, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one in `parent`.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn new(parent: &Path, name: &str) -> Result<Self, String> {
        let path = parent.join(format!("guira-soak-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left over harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::is_bad;

    #[test]
    fn panics_and_errors_are_told_from_warnings() {
        assert!(is_bad("thread 'worker-0' (5) panicked at node/server/src/worker.rs:1:1:"));
        assert!(is_bad("2026-11-20T16:31:23.1Z ERROR cannot go on"));
        assert!(!is_bad("2026-11-20T16:31:23.1Z ERROR certificates stay as they were error=none"));
        assert!(!is_bad("2026-11-20T16:31:23.1Z  WARN a client said ERRORS"));
    }
}
