//! The counters about logged deletes. Only those who deal with failed deletes come here.

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::lock::{Mutex, MutexGuard};
use std::time::Duration;

guira_sync::counters! {
    /// Counters of logged deletes, with mcrouter's names where it has them.
    pub(crate) enum LogCount {
        Requests = "asynclog_requests", Count, "Undelivered deletes";
        Written = "asynclog_written", Count, "Undelivered deletes that were logged and acknowledged";
        NotWritten = "asynclog_not_written", Count, "Undelivered deletes that could not be logged; their clients received the failure";
        Delivered = "asynclog_replay_delivered", Count, "Logged deletes that were delivered";
        Refused = "asynclog_replay_refused", Count, "Logged deletes that a server rejected; they were dropped";
        Unreadable = "asynclog_replay_unreadable", Count, "Malformed lines of delete logs; they were skipped";
        Failures = "asynclog_replay_failures", Count, "Failed replays to a server";
        FilesDone = "asynclog_replay_files", Count, "Files removed because all their deletes were delivered";
    }
}

/// Counters of all threads, and the rates of the last minute.
#[derive(Debug, Default)]
pub(crate) struct LogCounts {
    /// Relaxed: they are only printed.
    values: [AtomicU64; LogCount::COUNT],
    /// Logged deletes that no server has accepted yet, as of the last pass.
    left: AtomicU64,
    /// Logged deletes that the configuration has no server for any more, as of the last pass.
    homeless: AtomicU64,
    /// LOCK: log_rates. Leaf.
    recent: Mutex<Recent>,
}

#[derive(Debug, Default)]
struct Recent {
    requests: Window,
    written: Window,
    /// How long a delete waits until it is logged.
    average_us: f64,
}

/// Events of the last minute, by second.
#[derive(Debug)]
struct Window {
    seconds: [(u64, u64); WINDOW_S],
}

const WINDOW_S: usize = 60;
/// A new duration counts for one in this many.
const SMOOTHING: f64 = 64.0;

impl Default for Window {
    fn default() -> Self {
        Window { seconds: [(0, 0); WINDOW_S] }
    }
}

impl Window {
    fn add(&mut self, now_s: u64, count: u64) {
        let slot = &mut self.seconds[now_s as usize % WINDOW_S];
        if slot.0 != now_s {
            *slot = (now_s, 0);
        }
        slot.1 += count;
    }

    fn rate(&self, now_s: u64) -> u64 {
        let is_recent = |at: u64| at <= now_s && now_s - at < WINDOW_S as u64;
        let sum: u64 = self.seconds.iter().filter(|slot| is_recent(slot.0)).map(|slot| slot.1).sum();
        sum / WINDOW_S as u64
    }
}

impl LogCounts {
    pub(crate) fn add(&self, counter: LogCount, count: u64) {
        self.values[counter as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, counter: LogCount) -> u64 {
        self.values[counter as usize].load(Ordering::Relaxed)
    }

    /// Deletes that wait to be written.
    pub(crate) fn waiting(&self) -> u64 {
        let done = self.get(LogCount::Written) + self.get(LogCount::NotWritten);
        self.get(LogCount::Requests).saturating_sub(done)
    }

    /// How many logged deletes a pass has left: those whose servers did not accept them, and those without a server.
    pub(crate) fn set_left(&self, left: u64, homeless: u64) {
        self.left.store(left, Ordering::Relaxed);
        self.homeless.store(homeless, Ordering::Relaxed);
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn homeless(&self) -> u64 {
        self.homeless.load(Ordering::Relaxed)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock()
    }

    /// Counts deletes that were written or dropped after waiting for `waited`.
    pub(crate) fn settled(&self, counter: LogCount, count: u64, waited: Duration, now_s: u64) {
        self.add(counter, count);
        let mut recent = self.recent();
        recent.requests.add(now_s, count);
        if counter == LogCount::Written {
            recent.written.add(now_s, count);
        }
        recent.average_us += (waited.as_micros() as f64 - recent.average_us) / SMOOTHING;
    }

    /// Deletes a second that were to be logged, and that were, over the last minute.
    pub(crate) fn rates(&self, now_s: u64) -> (u64, u64) {
        let recent = self.recent();
        (recent.requests.rate(now_s), recent.written.rate(now_s))
    }

    pub(crate) fn average_us(&self) -> f64 {
        self.recent().average_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_minute() {
        let counts = LogCounts::default();
        for second in 100..200 {
            counts.settled(LogCount::Written, 120, Duration::from_micros(640), second);
        }
        counts.settled(LogCount::NotWritten, 60, Duration::from_micros(640), 199);
        assert_eq!(counts.rates(199), (121, 120));
        assert_eq!(counts.rates(229), (61, 60));
        assert_eq!(counts.rates(300), (0, 0));
        assert!((400.0..640.0).contains(&counts.average_us()), "{}", counts.average_us());
        assert_eq!(counts.get(LogCount::Written), 12_000);
    }

    #[test]
    fn what_was_not_settled_is_waiting() {
        let counts = LogCounts::default();
        counts.add(LogCount::Requests, 5);
        counts.settled(LogCount::Written, 2, Duration::ZERO, 1);
        counts.settled(LogCount::NotWritten, 1, Duration::ZERO, 1);
        assert_eq!(counts.waiting(), 2);
    }
}
