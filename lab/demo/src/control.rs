//! Commands to a running region.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::home::{CONTROL, PREFIX};
use crate::web::{BREAK, RANDOM, STATUS};

/// The timeout of a reply.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error(
        "no region runs on this machine: start one with `guira fleet up`, or name its folder with --folder"
    )]
    NotRunning,
    #[error("several regions run on this machine: name the folder of one with --folder: {0}")]
    Several(String),
    #[error("the region in {folder} does not reply")]
    Unreachable { folder: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error(
        "the region sent an invalid reply: use the same version of guira for `fleet up` and `fleet break`"
    )]
    Nonsense,
}

#[derive(Clone, Debug)]
pub struct Wanted<'w> {
    pub kind: &'w str,
    pub what: Option<&'w str>,
    pub length: Duration,
    pub seed: Option<u64>,
}

/// A fault that the region has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The slot of a node, or that it has none; empty for other parts.
    duty: String,
    /// The name of the fault in the region's list, such as `kill node-1`.
    what: String,
    /// When the region accepted it, in milliseconds since 1970.
    at_ms: u64,
}

impl fmt::Display for Begun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)?;
        if self.duty.is_empty() { Ok(()) } else { write!(formatter, " ({})", self.duty) }
    }
}

/// The effect on users of a fault that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub summary: String,
    /// Replies that the documented bounds do not allow.
    pub wrong: u64,
}

#[derive(Debug)]
pub struct Region {
    folder: PathBuf,
}

impl Region {
    /// The region in this folder, or the only one that runs.
    ///
    /// # Errors
    /// When no region runs, or more than one.
    pub fn find(folder: Option<&Path>) -> Result<Self, ControlError> {
        if let Some(folder) = folder {
            return Ok(Region { folder: folder.to_owned() });
        }
        let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
        let mut running: Vec<PathBuf> = named
            .map(|entry| entry.path())
            .filter(|folder| UnixStream::connect(folder.join(CONTROL)).is_ok())
            .collect();
        running.sort();
        match running.as_slice() {
            [] => Err(ControlError::NotRunning),
            [one] => Ok(Region { folder: one.clone() }),
            several => {
                let several: Vec<String> = several.iter().map(|one| one.display().to_string()).collect();
                Err(ControlError::Several(several.join(", ")))
            }
        }
    }

    /// Breaks one part.
    ///
    /// # Errors
    /// If the region does not reply, or refuses.
    pub fn break_one(&self, wanted: &Wanted<'_>) -> Result<Begun, ControlError> {
        let answer = self.request("POST", &query(wanted))?;
        let part = answer["part"].as_str().ok_or(ControlError::Nonsense)?;
        let at_ms = answer["at_ms"].as_u64().ok_or(ControlError::Nonsense)?;
        let duty = answer["duty"].as_str().unwrap_or_default().to_owned();
        Ok(Begun { what: format!("{} {part}", wanted.kind), duty, at_ms })
    }

    /// The effect of a fault on users; `None` until it is over.
    ///
    /// # Errors
    /// If the region does not reply.
    pub fn report(&self, begun: &Begun) -> Result<Option<Report>, ControlError> {
        report(&self.request("GET", STATUS)?, begun)
    }

    /// Starts random faults. Returns their seed.
    ///
    /// # Errors
    /// When the region does not reply, or refuses.
    pub fn break_at_random(&self, length: Duration, seed: Option<u64>) -> Result<u64, ControlError> {
        let wanted = Wanted { kind: RANDOM, what: None, length, seed };
        let answer = self.request("POST", &query(&wanted))?;
        answer["seed"].as_u64().ok_or(ControlError::Nonsense)
    }

    /// The outcome of random faults once they are over: a summary, and the wrong replies.
    ///
    /// # Errors
    /// If the region does not reply.
    pub fn outcome(&self) -> Result<Option<(String, Vec<String>)>, ControlError> {
        let chaos = &self.request("GET", STATUS)?["chaos"];
        if chaos["is_over"] != Value::Bool(true) {
            return Ok(None);
        }
        let wrong = chaos["wrong"].as_array().ok_or(ControlError::Nonsense)?;
        let wrong = wrong.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        Ok(Some((chaos["summary"].as_str().unwrap_or_default().to_owned(), wrong)))
    }

    fn request(&self, method: &str, target: &str) -> Result<Value, ControlError> {
        let unreachable = |source| ControlError::Unreachable { folder: self.folder.clone(), source };
        let answer = self.exchange(method, target).map_err(unreachable)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(ControlError::Nonsense)?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(ControlError::Refused(body.trim_end().to_owned()));
        }
        serde_json::from_str(body).map_err(|_| ControlError::Nonsense)
    }

    fn exchange(&self, method: &str, target: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(self.folder.join(CONTROL))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let fields = "Host: localhost\r\nX-Guira: 1\r\nConnection: close\r\n\r\n";
        stream.write_all(format!("{method} {target} HTTP/1.1\r\n{fields}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn report(status: &Value, begun: &Begun) -> Result<Option<Report>, ControlError> {
    let faults = status["faults"].as_array().ok_or(ControlError::Nonsense)?;
    let is_it = |fault: &&Value| {
        fault["what"] == begun.what.as_str() && fault["at_ms"].as_u64().is_some_and(|at| at >= begun.at_ms)
    };
    let Some(fault) = faults.iter().rfind(is_it).filter(|fault| fault["is_over"] == Value::Bool(true)) else {
        return Ok(None);
    };
    let seen = &fault["seen"];
    let count = |name: &str| seen[name].as_u64().unwrap_or_default();
    let ms = |name: &str| seen[name].as_f64().map_or("-".to_owned(), |ms| format!("{ms:.2} ms"));
    let summary = format!(
        "{} lasted {:.1} s. In that time users sent {} requests. {} failed. {} were sent again to the other \
         router. {} reads missed. {} reads returned a value older than the last commit. {} replies were wrong. \
         Latency of reads: median {}, p99 {}.",
        begun.what,
        fault["lasted_s"].as_f64().unwrap_or_default(),
        count("requests"),
        count("failed"),
        count("retries"),
        count("misses"),
        count("stale"),
        count("wrong"),
        ms("median_ms"),
        ms("p99_ms"),
    );
    Ok(Some(Report { summary, wrong: count("wrong") }))
}

/// The command line may have any characters; only those that the region accepts are sent.
fn query(wanted: &Wanted<'_>) -> String {
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "?");
    let mut query = format!("{BREAK}?kind={}&for_ms={}", plain(wanted.kind), wanted.length.as_millis());
    if let Some(what) = wanted.what {
        query.push_str(&format!("&what={}", plain(what)));
    }
    if let Some(seed) = wanted.seed {
        query.push_str(&format!("&seed={seed}"));
    }
    query
}

#[cfg(test)]
mod tests {
    use super::{Begun, Region, Wanted, query, report};
    use guira_harness::scratch::Scratch;
    use std::time::Duration;

    #[test]
    fn what_is_asked_for_is_a_line_of_http() {
        let length = Duration::from_secs(5);
        let wanted = Wanted { kind: "kill", what: Some("a b\r\nc"), length, seed: None };
        assert_eq!(query(&wanted), "/break?kind=kill&for_ms=5000&what=a?b??c");
    }

    #[test]
    fn the_report_is_of_the_fault_that_was_begun_and_comes_when_it_is_over() {
        let seen = serde_json::json!({ "requests": 900, "failed": 3, "retries": 2, "misses": 40, "stale": 1,
            "wrong": 0, "median_ms": 0.25, "p99_ms": null });
        let fault = |what: &str, at_ms: u64, is_over: bool| serde_json::json!({ "what": what, "at_ms": at_ms, "is_over": is_over, "lasted_s": 10.04, "seen": seen });
        let status = |faults: Vec<serde_json::Value>| serde_json::json!({ "faults": faults });
        let begun = Begun { duty: "slot 0".to_owned(), what: "kill node-1".to_owned(), at_ms: 100 };
        assert_eq!(begun.to_string(), "kill node-1 (slot 0)");
        let others = || vec![fault("kill node-1", 99, true), fault("kill node-2", 101, true)];
        assert_eq!(report(&status(others()), &begun).unwrap(), None);
        let with = |is_over| [others(), vec![fault("kill node-1", 100, is_over)]].concat();
        assert_eq!(report(&status(with(false)), &begun).unwrap(), None);
        let report = report(&status(with(true)), &begun).unwrap().unwrap();
        assert!(report.summary.starts_with("kill node-1 lasted 10.0 s."), "{report:?}");
        assert!(report.summary.contains("900 requests. 3 failed. 2 were sent again"), "{report:?}");
        assert!(report.summary.ends_with("median 0.25 ms, p99 -."), "{report:?}");
        assert_eq!(report.wrong, 0);
    }

    #[test]
    fn a_folder_in_which_nothing_runs_is_told() {
        let scratch = Scratch::new();
        let error = Region::find(Some(scratch.path())).unwrap().outcome().unwrap_err();
        assert!(error.to_string().contains("does not reply"), "{error}");
    }
}
