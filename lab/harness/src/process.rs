//! What a process costs, read from /proc: processor time, memory, threads and descriptors.

use std::path::PathBuf;
use std::{fs, io};

use rustix::time::{ClockId, clock_gettime};

/// The unit of the processor time in `stat`.
fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// What a process holds of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    pub descriptors: usize,
    pub threads: usize,
}

/// Processor time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub total_ns: u64,
    /// In user and system mode, by clock ticks: less exact than the total.
    pub user_ns: u64,
    pub system_ns: u64,
}

impl CpuTime {
    /// The time from an earlier reading to this one.
    #[must_use]
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }

    /// The share of user mode; 0 when no tick was counted.
    #[must_use]
    pub fn user_share(self) -> f64 {
        self.user_ns as f64 / (self.user_ns + self.system_ns).max(1) as f64
    }
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
    /// `schedstat` is exact but leaves out threads that have ended; the clock ticks of `stat` include them. The larger of both is at most two
    /// ticks too small, since user and system ticks are rounded down.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu_ns(&self) -> io::Result<u64> {
        Ok(self.cpu_time()?.total_ns)
    }

    /// The same, with the parts of user and system mode.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cpu_time(&self) -> io::Result<CpuTime> {
        let mut total = 0;
        for task in fs::read_dir(self.file("task"))? {
            // A thread may end between the listing and the read.
            if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
                total += first_number(&text).unwrap_or(0);
            }
        }
        let [user_ns, system_ns] = self.ns_by_ticks()?;
        Ok(CpuTime { total_ns: total.max(user_ns + system_ns), user_ns, system_ns })
    }

    /// User and system time by the clock ticks of `/proc/PID/stat`.
    fn ns_by_ticks(&self) -> io::Result<[u64; 2]> {
        let text = fs::read_to_string(self.file("stat"))?;
        let ticks = ticks_of_stat(&text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat has an unknown form"))?;
        Ok(ticks.map(|ticks| ticks * tick_ns()))
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.status_bytes(&["VmRSS:"])
    }

    /// Resident memory in bytes without the pages of files. The kernel maps more or fewer pages of the program's file, depending on its page
    /// cache.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn private_bytes(&self) -> io::Result<u64> {
        self.status_bytes(&["RssAnon:", "RssShmem:"])
    }

    /// The most memory that it ever had, with what it has mapped of its file.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn peak_bytes(&self) -> io::Result<u64> {
        self.status_bytes(&["VmHWM:"])
    }

    /// Threads and open descriptors; none when the process is gone.
    pub fn holdings(&self) -> Holdings {
        let count = |what: &str| fs::read_dir(self.file(what)).map_or(0, |entries| entries.count());
        Holdings { descriptors: count("fd"), threads: count("task") }
    }

    fn status_bytes(&self, names: &[&str]) -> io::Result<u64> {
        let text = fs::read_to_string(self.file("status"))?;
        let missing =
            |name: &str| io::Error::new(io::ErrorKind::InvalidData, format!("status has no {name}"));
        names.iter().map(|name| bytes_of_status(&text, name).ok_or_else(|| missing(name))).sum()
    }

    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// User and system time of a `stat` line, fields 14 and 15; the name in field 2 may contain anything.
fn ticks_of_stat(text: &str) -> Option<[u64; 2]> {
    let after_name = &text[text.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some([user, system])
}

fn bytes_of_status(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(first_number(line)? * 1024)
}

/// Processor time of the calling thread so far, in seconds. Other work on the machine makes a thread wait but adds nothing here.
pub fn thread_cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Process, bytes_of_status, thread_cpu_s, tick_ns, ticks_of_stat};

    #[test]
    fn a_thread_that_sleeps_takes_no_processor_time() {
        let before = thread_cpu_s();
        std::thread::sleep(Duration::from_millis(50));
        assert!(thread_cpu_s() - before < 0.04);
        while thread_cpu_s() - before < 0.05 {}
    }

    #[test]
    fn stat_and_status_are_read() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 17 5 0 0 20 0 1 0 100 1000 10";
        assert_eq!(ticks_of_stat(stat), Some([17, 5]));
        assert_eq!(bytes_of_status("Name:\tx\nVmRSS:\t   12 kB\nThreads:\t1\n", "VmRSS:"), Some(12 << 10));
        assert_eq!(bytes_of_status("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn this_process_has_costs() {
        let this = Process::new(std::process::id());
        let (resident, private) = (this.resident_bytes().unwrap(), this.private_bytes().unwrap());
        assert!(resident > 100_000 && private > 0 && private <= resident, "{resident} and {private}");
        let holdings = this.holdings();
        assert!(holdings.threads >= 1 && holdings.descriptors >= 3, "{holdings:?}");
        let spin = move || {
            let (before, mut sum) = (this.cpu_ns().unwrap(), 0_u64);
            while this.cpu_ns().unwrap() < before + 10 * tick_ns() {
                sum = (0..1_000_000_u64).fold(sum, |sum, x| sum.rotate_left(5) ^ x);
            }
            (before, sum)
        };
        let (before, _) = std::thread::spawn(spin).join().unwrap();
        // Threads that have ended count as well, and those of other tests may add to them.
        assert!(this.cpu_ns().unwrap() >= before + 8 * tick_ns());
    }
}
