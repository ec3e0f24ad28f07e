//! What a server process costs: its processor time and its memory, read from /proc.

use std::path::PathBuf;
use std::{fs, io};

/// Processor time is counted in units of this when the finer source is missing.
fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// A running process whose costs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pid: u32,
}

impl Process {
    /// The process numbered `pid`.
    #[must_use]
    pub const fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// Processor time of all its threads so far, user and system, in nanoseconds.
    ///
    /// The scheduler's own account (`schedstat`) is exact, but tells nothing of threads that have ended; the clock ticks of `stat` tell of
    /// all. The larger of both is at most two ticks too small, as those of the user and of the system are whole.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu_ns(&self) -> io::Result<u64> {
        let mut total = 0;
        for task in fs::read_dir(self.file("task"))? {
            // A thread may end between the listing and the look.
            if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
                total += first_number(&text).unwrap_or(0);
            }
        }
        Ok(self.cpu_ns_by_ticks()?.max(total))
    }

    /// Processor time by the clock ticks of `/proc/PID/stat`.
    ///
    /// # Errors
    /// When the process is gone.
    fn cpu_ns_by_ticks(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.file("stat"))?;
        let ticks = ticks_of_stat(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat has an unknown form"))?;
        Ok(ticks * tick_ns())
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.file("status"))?;
        resident_of_status(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "status has no VmRSS"))
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// User and system time of a `stat` line, fields 14 and 15; the name in field 2 may contain anything.
fn ticks_of_stat(text: &str) -> Option<u64> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn resident_of_status(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(first_number(line)? * 1024)
}

#[cfg(test)]
mod tests {
    use super::{Process, resident_of_status, tick_ns, ticks_of_stat};

    #[test]
    fn stat_and_status_are_read() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 17 5 0 0 20 0 1 0 100 1000 10";
        assert_eq!(ticks_of_stat(stat), Some(22));
        assert_eq!(resident_of_status("Name:\tx\nVmRSS:\t   12 kB\nThreads:\t1\n"), Some(12 << 10));
        assert_eq!(resident_of_status("Name:\tx\n"), None);
    }

    #[test]
    fn this_process_has_costs() {
        let this = Process::new(std::process::id());
        assert!(this.resident_bytes().unwrap() > 0);
        let spin = move || {
            let (before, mut sum) = (this.cpu_ns().unwrap(), 0_u64);
            while this.cpu_ns().unwrap() < before + 10 * tick_ns() {
                sum = (0..1_000_000_u64).fold(sum, |sum, x| sum.rotate_left(5) ^ x);
            }
            (before, sum)
        };
        let (before, _) = std::thread::spawn(spin).join().unwrap();
        // What threads took that have ended counts as well. Those of other tests may add something.
        assert!(this.cpu_ns().unwrap() >= before + 8 * tick_ns());
    }
}
