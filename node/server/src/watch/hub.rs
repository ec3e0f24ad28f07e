//! The buffers between those who log and those who watch, and the thread between them.

use super::{CloseReason, LogKinds, lines};
use crate::errand::Guest;
use crate::registry::ConnectionFacts;
use crate::shared::Shared;
use guira_commands::observe::Event;
use guira_contract::Meta;
use guira_sync::atomic::{AtomicU8, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_transport::{Mailbox, Progress};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How much is kept for those who read late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBuffers {
    /// Of each worker, until the log's thread takes it; in bytes.
    pub worker: usize,
    /// Of each watcher; in bytes.
    pub watcher: usize,
}

impl Default for LogBuffers {
    /// As in memcached: 64 KiB and 256 KiB.
    fn default() -> Self {
        LogBuffers { worker: 64 << 10, watcher: 256 << 10 }
    }
}

/// There may be no more watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// As many watchers as in memcached.
const WATCHERS_MAX: u64 = 20;
/// Lines are handed out at most this often.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest that the thread waits.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Lines with their kinds.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The kind of each line, and where it ends.
    ends: Vec<(LogKinds, usize)>,
}

/// Counts of the log. All orderings are Relaxed.
#[derive(Debug, Default)]
pub(crate) struct LogCounts {
    /// Lines written by workers, and lines for which there was no room.
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
    /// Lines handed to watchers, and those that did not fit.
    pub(crate) sent: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) watchers: AtomicU64,
}

/// What connects those who log and those who watch.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Everything that somebody watches.
    kinds: AtomicU8,
    gid: AtomicU64,
    /// LOCK: log (one a worker, and one for everything else). Leaf.
    buffers: Vec<Mutex<Lines>>,
    limits: LogBuffers,
    newcomers: Mailbox<(Guest, LogKinds)>,
    /// LOCK: log thread. Whether there is one. Taken before the newcomers' lock.
    running: Mutex<bool>,
    pub(crate) counts: LogCounts,
}

impl Hub {
    /// A hub for so many workers.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn new(workers: usize, limits: LogBuffers) -> io::Result<Self> {
        Ok(Hub {
            kinds: AtomicU8::new(0),
            gid: AtomicU64::new(1),
            buffers: (0..=workers).map(|_| Mutex::default()).collect(),
            limits,
            newcomers: Mailbox::new()?,
            running: Mutex::new(false),
            counts: LogCounts::default(),
        })
    }

    /// What somebody watches. Relaxed: who looks late logs late.
    #[inline]
    pub(crate) fn kinds(&self) -> LogKinds {
        LogKinds(self.kinds.load(Ordering::Relaxed))
    }

    fn running(&self) -> std::sync::MutexGuard<'_, bool> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, buffer: usize, kinds: LogKinds, write: impl FnOnce(u64, &mut Vec<u8>)) {
        if !self.kinds().any(kinds) {
            return;
        }
        let mut lines = self.buffers[buffer].lock().unwrap_or_else(PoisonError::into_inner);
        if lines.bytes.len() >= self.limits.worker {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let was_empty = lines.ends.is_empty();
        write(self.gid.fetch_add(1, Ordering::Relaxed), &mut lines.bytes);
        let end = lines.bytes.len();
        lines.ends.push((kinds, end));
        drop(lines);
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        if was_empty {
            self.newcomers.ring();
        }
    }

    /// A command of worker `worker`, on connection `cfd`, did this.
    pub(super) fn command(&self, worker: usize, cfd: i32, event: &Event<'_>) {
        let kinds = match event {
            Event::Get { .. } | Event::StoreLookup { .. } => LogKinds::FETCHERS,
            Event::Store { .. } => LogKinds::MUTATIONS,
            Event::Delete { item: Some(_), .. } => LogKinds::DELETIONS,
            Event::Delete { item: None, .. } => return,
        };
        self.log(worker, kinds, |gid, out| lines::command(gid, cfd, event, out));
    }

    /// An item was evicted.
    pub(super) fn eviction(&self, key: &[u8], meta: &Meta, now: Seconds) {
        self.log(self.buffers.len() - 1, LogKinds::EVICTIONS, |gid, out| {
            lines::eviction(gid, key, meta, now, out);
        });
    }

    /// A connection has come.
    pub(crate) fn connection_new(&self, facts: &ConnectionFacts) {
        self.log(self.buffers.len() - 1, LogKinds::CONNEVENTS, |gid, out| {
            lines::connection_new(gid, facts, out);
        });
    }

    /// A connection is gone.
    pub(crate) fn connection_close(&self, facts: &ConnectionFacts, reason: CloseReason) {
        self.log(self.buffers.len() - 1, LogKinds::CONNEVENTS, |gid, out| {
            lines::connection_close(gid, facts, reason, out);
        });
    }

    /// Takes a watcher.
    ///
    /// # Errors
    /// If there are too many; then it is given back. If there is no thread to be had, it is gone.
    pub(crate) fn watch(
        self: &Arc<Self>,
        guest: Guest,
        kinds: LogKinds,
        shared: &Arc<Shared>,
    ) -> Result<(), (Guest, TooMany)> {
        if self.counts.watchers.fetch_add(1, Ordering::Relaxed) >= WATCHERS_MAX {
            self.counts.watchers.fetch_sub(1, Ordering::Relaxed);
            return Err((guest, TooMany));
        }
        let mut running = self.running();
        self.newcomers.send((guest, kinds));
        if !*running {
            let reporter = Reporter { hub: self.clone(), shared: shared.clone(), watchers: Vec::new() };
            let thread = std::thread::Builder::new().name("log".to_owned());
            match thread.spawn(move || reporter.run()) {
                Ok(_) => *running = true,
                Err(error) => {
                    tracing::error!(%error, "cannot start the log's thread");
                    for (guest, _) in self.newcomers.take() {
                        self.counts.watchers.fetch_sub(1, Ordering::Relaxed);
                        shared.gone(&guest.arrival.facts, CloseReason::Error);
                    }
                }
            }
        }
        Ok(())
    }
}

/// A client that watches.
#[derive(Debug)]
struct Watcher {
    guest: Guest,
    kinds: LogKinds,
    /// Lines that it has not taken yet.
    out: Vec<u8>,
    /// Lines that did not fit since the last that did.
    skipped: u64,
}

/// The thread that hands lines out.
struct Reporter {
    hub: Arc<Hub>,
    shared: Arc<Shared>,
    watchers: Vec<Watcher>,
}

impl Reporter {
    fn run(mut self) {
        let mut taken = Lines::default();
        while !self.shared.is_stopping() {
            self.admit();
            for buffer in 0..self.hub.buffers.len() {
                self.hand_out(buffer, &mut taken);
            }
            self.send();
            if self.watchers.is_empty() && self.rest() {
                return;
            }
            self.wait();
        }
        for watcher in std::mem::take(&mut self.watchers) {
            self.leave(&watcher);
        }
    }

    fn admit(&mut self) {
        for (guest, kinds) in self.hub.newcomers.take() {
            self.watchers.push(Watcher { guest, kinds, out: b"OK\r\n".to_vec(), skipped: 0 });
        }
        let all = self.watchers.iter().fold(0, |all, watcher| all | watcher.kinds.0);
        self.hub.kinds.store(all, Ordering::Relaxed);
    }

    fn hand_out(&mut self, buffer: usize, taken: &mut Lines) {
        taken.bytes.clear();
        taken.ends.clear();
        let mut lines = self.hub.buffers[buffer].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *lines, taken);
        drop(lines);
        let counts = &self.hub.counts;
        let mut begin = 0;
        for (kinds, end) in &taken.ends {
            let line = &taken.bytes[begin..*end];
            begin = *end;
            for watcher in self.watchers.iter_mut().filter(|watcher| watcher.kinds.any(*kinds)) {
                if watcher.out.len() + line.len() > self.hub.limits.watcher {
                    watcher.skipped += 1;
                    counts.skipped.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                if watcher.skipped > 0 {
                    watcher.out.extend(format!("skipped={}\n", watcher.skipped).as_bytes());
                    watcher.skipped = 0;
                }
                watcher.out.extend_from_slice(line);
                counts.sent.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn send(&mut self) {
        for watcher in std::mem::take(&mut self.watchers) {
            let mut watcher = watcher;
            match push(&mut watcher) {
                Ok(bytes) => {
                    self.shared.bytes_sent(bytes);
                    self.watchers.push(watcher);
                }
                Err(_) => self.leave(&watcher),
            }
        }
    }

    fn leave(&self, watcher: &Watcher) {
        self.hub.counts.watchers.fetch_sub(1, Ordering::Relaxed);
        self.shared.gone(&watcher.guest.arrival.facts, CloseReason::Normal);
    }

    /// Ends the thread, unless somebody has just come.
    fn rest(&mut self) -> bool {
        let hub = self.hub.clone();
        let mut running = hub.running();
        self.admit();
        *running = !self.watchers.is_empty();
        !*running
    }

    fn wait(&self) {
        std::thread::park_timeout(PAUSE);
        let mut waits = vec![PollFd::new(&self.hub.newcomers, PollFlags::IN)];
        waits.extend(self.watchers.iter().map(|watcher| {
            let flags = if watcher.out.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            PollFd::new(&watcher.guest.arrival.stream, flags)
        }));
        let timeout = Timespec { tv_sec: HEARTBEAT.as_secs() as i64, tv_nsec: 0 };
        // If it fails, the next round comes early.
        let _ = poll(&mut waits, Some(&timeout));
    }
}

/// Sends what a watcher takes, and looks whether it is still there. Returns how many bytes it took.
fn push(watcher: &mut Watcher) -> io::Result<usize> {
    let stream = &mut watcher.guest.arrival.stream;
    let mut total = 0;
    while total < watcher.out.len() {
        match stream.write(&watcher.out[total..])? {
            Progress::Moved(bytes) => total += bytes,
            Progress::Blocked => break,
            Progress::Ended => return Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
    watcher.out.drain(..total);
    stream.flush()?;
    // What a watcher says is not listened to.
    let mut ignored = [0; 512];
    loop {
        match stream.read(&mut ignored)? {
            Progress::Moved(_) => {}
            Progress::Blocked => return Ok(total),
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
