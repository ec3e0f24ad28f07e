//! The system's figures of the server's process.

use std::fs;
use std::time::Duration;

use guira_harness::process::Process;

use crate::field::Field;

/// How often memory is measured.
const EVERY: Duration = Duration::from_millis(100);

/// The target of each descriptor of the process, with the system's line about it for sockets.
pub(crate) fn descriptors(pid: u32) -> Vec<String> {
    let tables = ["tcp", "tcp6", "udp", "udp6", "unix"].map(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        (table, text)
    });
    let about = |name: &str| {
        let inode = name.strip_prefix("socket:[")?.strip_suffix(']')?;
        tables.iter().find_map(|(table, text)| {
            let line = text.lines().find(|line| line.split_ascii_whitespace().any(|word| word == inode))?;
            Some(format!("{table} {}", line.trim()))
        })
    };
    let describe = |entry: fs::DirEntry| {
        let name = fs::read_link(entry.path()).unwrap_or_default().to_string_lossy().into_owned();
        let about = about(&name).unwrap_or_default();
        format!("{} {name} {about}", entry.file_name().to_string_lossy())
    };
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    entries.map_or_else(|_| Vec::new(), |entries| entries.flatten().map(describe).collect())
}

/// Resident memory over time, and the most descriptors and threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// Milliseconds of the run, and bytes.
    samples: Vec<(u64, u64)>,
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

impl Course {
    /// Looks at the process until the run ends.
    pub(crate) fn of(field: &Field) -> Self {
        let mut course = Course::default();
        while field.goes_on() {
            let process = Process::new(field.pid);
            course.samples.push((field.now(), process.resident_bytes().unwrap_or(0)));
            if course.samples.len() % 10 == 1 {
                let holdings = process.holdings();
                course.descriptors = course.descriptors.max(holdings.descriptors);
                course.threads = course.threads.max(holdings.threads);
            }
            std::thread::sleep(EVERY);
        }
        course
    }

    /// When memory was highest, in milliseconds of the run, and how high.
    pub(crate) fn highest(&self) -> (u64, u64) {
        self.samples.iter().copied().max_by_key(|(_, bytes)| *bytes).unwrap_or_default()
    }

    /// How many samples there are, and how many lie above `ceiling`.
    pub(crate) fn above(&self, ceiling: u64) -> (usize, usize) {
        (self.samples.len(), self.samples.iter().filter(|(_, bytes)| *bytes > ceiling).count())
    }

    /// The highest of the first and of the last third of the run.
    pub(crate) fn thirds(&self) -> (u64, u64) {
        let third = self.samples.len() / 3;
        let highest = |part: &[(u64, u64)]| part.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        (highest(&self.samples[..third]), highest(&self.samples[self.samples.len() - third..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_tells_its_highest_points() {
        let samples = (0..9).map(|at| (at, if at == 4 { 100 } else { 10 + at })).collect();
        let course = Course { samples, descriptors: 0, threads: 0 };
        assert_eq!(course.highest(), (4, 100));
        assert_eq!(course.above(17), (9, 2));
        assert_eq!(course.thirds(), (12, 18));
    }
}
