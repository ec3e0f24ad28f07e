//! The keys, and prefixes of keys, with the most requests, bytes and misses (`stats topkeys`).
//!
//! ```text
//!  worker ── one batch in 128 or 512 ─ its Lists ──┐  every half minute, and for each report
//!  worker ── one batch in 128 or 512 ─ its Lists ──┴── History: the half minute before, and all since the start
//! ```
//!
//! Batches are sampled and not keys, so that no key is missed because of its hash; all requests of
//! a sampled batch are counted, each for the number of batches that the batch stands for. A worker
//! writes to lists of its own. While a reader holds them, it skips the request: no worker waits.

mod lists;
mod sampling;
mod summary;
mod text;

pub(crate) use lists::{List, MEASURES};
pub(crate) use sampling::UseSampler;
pub(crate) use summary::Top;

use guira_advice::family_prefix;
use guira_commands::observe::Used;
use guira_contract::KeyHash;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::{Mutex, MutexGuard};
use lists::{Lists, Name};
use sampling::FEWEST;

/// Keys of a list that are shown.
pub(crate) const SHOWN: usize = 10;

/// Half of the window of the last minute, in seconds.
const HALF: u32 = 30;

/// Counters of each list: by memory, within these limits. With 256 counters a list includes every
/// key with a hundredth of the list's weight.
const COUNTERS: std::ops::RangeInclusive<usize> = 32..=256;

/// Lists in addition to those of workers: the two of the history, and the result of a merge.
const EXTRA_LISTS: usize = 3;

/// The number of counters of each list within `budget` bytes for all lists.
fn counters(budget: usize, workers: usize) -> usize {
    // At a size at which the table is as sparse as possible.
    let each = Lists::bytes(513).div_ceil(513);
    (budget / (workers + EXTRA_LISTS) / each).clamp(*COUNTERS.start(), *COUNTERS.end())
}

#[derive(Debug)]
pub(crate) struct TopKeys {
    delimiter: u8,
    workers: Vec<Recorder>,
    /// LOCK: history. Taken before those of workers. A worker waits for it only when its client
    /// requests a report.
    history: Mutex<History>,
    counters: usize,
}

/// The counts of one worker in the current half minute, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Recorder {
    /// LOCK: lists of a worker. Leaf; the worker does not wait for it.
    now: Mutex<Lists>,
    /// The number of requests that each counted one stands for. Relaxed: only the worker uses it.
    scale: AtomicU64,
    /// Sampled requests that were skipped because a reader held the lists. Relaxed: a count.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct History {
    /// The last complete half minute.
    before: Lists,
    /// All complete half minutes since the start, or the last reset.
    total: Lists,
    before_began: Seconds,
    now_began: Seconds,
    since: Seconds,
}

/// The heaviest keys of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) name: &'static str,
    pub(crate) seconds: u32,
    /// The totals over all keys, by measure.
    pub(crate) all: [u64; MEASURES.len()],
    pub(crate) lists: Vec<(List, Vec<Top>)>,
}

/// A report of the top keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopReport {
    /// One request in this many was sampled since the start.
    pub(crate) sampling: u64,
    /// Sampled requests that were skipped.
    pub(crate) dropped: u64,
    pub(crate) windows: [Window; 2],
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl TopKeys {
    /// Top keys of this many workers, in about `budget` bytes. A prefix is the part of a key before
    /// `delimiter`.
    pub(crate) fn new(budget: usize, workers: usize, delimiter: u8, now: Seconds) -> Self {
        let counters = counters(budget, workers);
        let recorder = || Recorder {
            now: Mutex::new(Lists::new(counters)),
            scale: AtomicU64::new(u64::from(FEWEST)),
            dropped: AtomicU64::new(0),
        };
        TopKeys {
            delimiter,
            workers: std::iter::repeat_with(recorder).take(workers).collect(),
            history: Mutex::new(History::new(counters, now)),
            counters,
        }
    }

    /// The memory that it takes of a budget, in bytes.
    pub(crate) fn bytes(budget: usize, workers: usize) -> usize {
        (workers + EXTRA_LISTS) * Lists::bytes(counters(budget, workers))
    }

    /// Sets the number of requests that each counted one stands for. Called by the worker.
    fn scale(&self, worker: usize, scale: u32) {
        self.workers[worker].scale.store(u64::from(scale), Ordering::Relaxed);
    }

    /// Counts a sampled request. Called by the worker.
    pub(crate) fn see(&self, worker: usize, key: &[u8], hash: KeyHash, used: Used) {
        let recorder = &self.workers[worker];
        let Some(mut now) = recorder.now.try_lock() else {
            recorder.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let prefix = Name::of_prefix(family_prefix(self.delimiter, key).unwrap_or_default());
        let scale = recorder.scale.load(Ordering::Relaxed);
        now.note(Name { text: key, hash: hash.0 }, prefix, used, scale);
    }

    /// Ends a half minute that is over. Called regularly, and by each report.
    pub(crate) fn turn(&self, now: Seconds) {
        if let Some(mut history) = self.history.try_lock() {
            self.turn_history(&mut history, now);
        }
    }

    fn turn_history(&self, history: &mut History, now: Seconds) {
        if now.0.saturating_sub(history.now_began.0) < HALF {
            return;
        }
        history.before.clear();
        for recorder in &self.workers {
            let mut lists = lock(&recorder.now);
            history.before.merge(&lists);
            lists.clear();
        }
        let History { before, total, .. } = history;
        total.merge(before);
        (history.before_began, history.now_began) = (history.now_began, now);
    }

    pub(crate) fn reset(&self, now: Seconds) {
        let mut history = lock(&self.history);
        for recorder in &self.workers {
            lock(&recorder.now).clear();
            recorder.dropped.store(0, Ordering::Relaxed);
        }
        *history = History::new(self.counters, now);
    }

    /// The heaviest keys of these lists.
    pub(crate) fn report(&self, lists: &[List], now: Seconds) -> TopReport {
        let mut history = lock(&self.history);
        self.turn_history(&mut history, now);
        let [mut minute, mut total] =
            [("minute", history.before_began, &history.before), ("total", history.since, &history.total)]
                .map(|(name, began, over)| {
                    let seconds = now.0.saturating_sub(began.0);
                    (Window { name, seconds, all: over.all(), lists: Vec::new() }, over)
                });
        let mut samples = total.1.samples();
        for recorder in &self.workers {
            let now = lock(&recorder.now);
            samples += now.samples();
            for window in [&mut minute.0, &mut total.0] {
                window.all.iter_mut().zip(now.all()).for_each(|(all, more)| *all = all.saturating_add(more));
            }
        }
        for list in lists {
            let mut present = lock(&self.workers[0].now).of(*list).clone();
            for recorder in &self.workers[1..] {
                present.merge(lock(&recorder.now).of(*list));
            }
            for (window, over) in [&mut minute, &mut total] {
                let mut all = over.of(*list).clone();
                all.merge(&present);
                window.lists.push((*list, all.top(SHOWN)));
            }
        }
        let requests = total.0.all[List::Requests as usize];
        let sampling = (requests + samples / 2).checked_div(samples).unwrap_or(u64::from(FEWEST));
        let dropped = self.workers.iter().map(|recorder| recorder.dropped.load(Ordering::Relaxed)).sum();
        TopReport { sampling, dropped, windows: [minute.0, total.0] }
    }
}

impl History {
    fn new(counters: usize, now: Seconds) -> Self {
        let [before, total] = [(); 2].map(|()| Lists::new(counters));
        History { before, total, before_began: now, now_began: now, since: now }
    }
}

#[cfg(test)]
mod tests;
