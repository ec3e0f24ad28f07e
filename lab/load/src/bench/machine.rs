//! The machine and the programs that were measured, for the record.

use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::server::Kind;

/// The machine that a bench ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub processor: String,
    /// How many processors the system has.
    pub processors: usize,
    pub memory: u64,
    pub kernel: String,
    /// Processes that wanted to run in the minute before (the load average): above 0.3, others disturbed.
    pub busy: String,
}

impl Machine {
    /// Describes this machine; a value that the system does not report is `unknown`.
    #[must_use]
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = field(&meminfo, "MemTotal").and_then(|text| text.split_whitespace().next()?.parse().ok());
        let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let uname = rustix::system::uname();
        Self {
            processor: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            processors: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory: kib.unwrap_or(0_u64) * 1024,
            kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
            busy: loadavg.split_whitespace().next().unwrap_or("unknown").to_owned(),
        }
    }

    /// A short name for folders: `amd-epyc-2cpu`.
    #[must_use]
    pub fn slug(&self) -> String {
        let words: Vec<String> = self
            .processor
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(4)
            .map(str::to_ascii_lowercase)
            .collect();
        format!("{}-{}cpu", words.join("-"), self.processors)
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

/// Each server's name and what its binary says of its version.
#[must_use]
pub fn versions(kinds: &[Kind]) -> Vec<(String, String)> {
    kinds.iter().map(|kind| (kind.name().to_owned(), version(kind))).collect()
}

fn version(kind: &Kind) -> String {
    let (binary, argument) = match kind {
        Kind::Guira { binary, .. } | Kind::Floor { binary } => (binary, "--version"),
        Kind::Memcached { binary, .. } => (binary, "-V"),
    };
    let output = Command::new(binary).arg(argument).output();
    let text =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::{Machine, field};

    #[test]
    fn this_machine_has_a_name() {
        let machine = Machine::this();
        assert!(machine.processors > 0 && machine.memory > 0);
        let slug = Machine { processor: "AMD EPYC (tm) 7B13 64-Core".to_owned(), ..machine }.slug();
        assert!(slug.starts_with("amd-epyc-tm-7b13-"), "{slug}");
    }

    #[test]
    fn fields_are_read() {
        assert_eq!(field("MemFree: 1 kB\nMemTotal:   12 kB\n", "MemTotal"), Some("12 kB"));
        assert_eq!(field("", "MemTotal"), None);
    }
}
