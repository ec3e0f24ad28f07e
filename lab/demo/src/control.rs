//! Those who talk to a region that runs.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::home::{CONTROL, PREFIX};
use crate::web::{BREAK, RANDOM, STATUS};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Why something cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("no region runs here: start one by `guira fleet up`, or name its folder by --folder")]
    Nobody,
    #[error("several regions run here: name the folder of one by --folder: {0}")]
    Several(String),
    #[error("the region in {folder} does not answer")]
    Away { folder: PathBuf, source: io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("the region has answered nonsense")]
    Nonsense,
}

/// What is to be broken.
#[derive(Clone, Debug)]
pub struct Wanted<'w> {
    pub kind: &'w str,
    pub what: Option<&'w str>,
    pub length: Duration,
    pub seed: Option<u64>,
}

/// A region that runs.
#[derive(Debug)]
pub struct Region {
    folder: PathBuf,
}

impl Region {
    /// The one in this folder, or the only one that runs.
    ///
    /// # Errors
    /// When there is none, or which one is not clear.
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
            [] => Err(ControlError::Nobody),
            [one] => Ok(Region { folder: one.clone() }),
            several => {
                let several: Vec<String> = several.iter().map(|one| one.display().to_string()).collect();
                Err(ControlError::Several(several.join(", ")))
            }
        }
    }

    /// Breaks something. Returns which part it is, and the slot of a node.
    ///
    /// # Errors
    /// When it does not answer, or why that cannot be.
    pub fn break_one(&self, wanted: &Wanted<'_>) -> Result<String, ControlError> {
        let answer = self.ask("POST", &query(wanted))?;
        let part = answer["part"].as_str().ok_or(ControlError::Nonsense)?;
        Ok(match answer["duty"].as_str() {
            Some(duty) if !duty.is_empty() => format!("{part} ({duty})"),
            _ => part.to_owned(),
        })
    }

    /// Begins random faults. Returns their seed.
    ///
    /// # Errors
    /// When it does not answer, or why that cannot be.
    pub fn break_at_random(&self, length: Duration, seed: Option<u64>) -> Result<u64, ControlError> {
        let wanted = Wanted { kind: RANDOM, what: None, length, seed };
        let answer = self.ask("POST", &query(&wanted))?;
        answer["seed"].as_u64().ok_or(ControlError::Nonsense)
    }

    /// What has come of random faults, if they are over: figures, and what was wrong.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn outcome(&self) -> Result<Option<(String, Vec<String>)>, ControlError> {
        let chaos = &self.ask("GET", STATUS)?["chaos"];
        if chaos["is_over"] != Value::Bool(true) {
            return Ok(None);
        }
        let wrong = chaos["wrong"].as_array().ok_or(ControlError::Nonsense)?;
        let wrong = wrong.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect();
        Ok(Some((chaos["summary"].as_str().unwrap_or_default().to_owned(), wrong)))
    }

    fn ask(&self, method: &str, target: &str) -> Result<Value, ControlError> {
        let away = |source| ControlError::Away { folder: self.folder.clone(), source };
        let answer = self.exchange(method, target).map_err(away)?;
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

/// What comes from a command line may have any characters, and only those that the region knows are passed on.
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
    use super::{Region, Wanted, query};
    use guira_harness::scratch::Scratch;
    use std::time::Duration;

    #[test]
    fn what_is_asked_for_is_a_line_of_http() {
        let length = Duration::from_secs(5);
        let wanted = Wanted { kind: "kill", what: Some("a b\r\nc"), length, seed: None };
        assert_eq!(query(&wanted), "/break?kind=kill&for_ms=5000&what=a?b??c");
    }

    #[test]
    fn a_folder_in_which_nothing_runs_is_told() {
        let scratch = Scratch::new();
        let error = Region::find(Some(scratch.path())).unwrap().outcome().unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
    }
}
