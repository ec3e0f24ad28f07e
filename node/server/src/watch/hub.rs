//! The log buffers of workers, the watchers, and the thread that copies lines from the buffers to
//! the watchers.

use super::{LogKinds, lines};
use crate::background::{BackgroundTasks, DetachedConnection};
use crate::counters::{ServerCount, ServerCounters};
use crate::options::Options;
use guira_commands::observe::Event;
use guira_contract::Meta;
use guira_serving::{CloseReason, ConnBudget, ConnectionFacts, ConnectionObserver, Host};
use guira_sync::atomic::{AtomicU8, AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::lock::Mutex;
use guira_transport::{Interest, Mailbox, Progress, Stream, wait_for};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// The limit of watchers is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The limit of watchers, as in memcached.
const WATCHERS_MAX: u64 = 20;
/// The shortest interval between two copies of lines to watchers.
const PAUSE: Duration = Duration::from_millis(2);
/// The longest wait of the thread.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The longest line: a key of 250 bytes, each escaped as three bytes, and the other fields.
const LINE_MAX: usize = 1 << 10;
/// The longest `skipped=` line.
const SKIPPED_MAX: usize = 32;
/// The capacity that the empty buffer of a watcher keeps.
const KEPT_MAX: usize = 4 << 10;
/// The bytes read from a watcher in a round.
const IGNORED_BYTES: usize = 4 << 10;

#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    ends: Vec<End>,
    /// The bytes of both vectors that are charged to the budget.
    lent: usize,
}

/// The properties of a line.
#[derive(Clone, Copy, Debug)]
struct End {
    kinds: LogKinds,
    gid: u64,
    at: usize,
}

impl Lines {
    fn len(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<End>()
    }

    /// Makes room for another line, within `limit`. False if there is none.
    fn reserve(&mut self, limit: usize, room: &ConnBudget) -> bool {
        self.len() < limit
            && grow(&mut self.bytes, LINE_MAX, limit + LINE_MAX, &mut self.lent, room)
            && grow(&mut self.ends, 1, limit.div_ceil(size_of::<End>()), &mut self.lent, room)
    }

    /// Drops all lines, and returns their memory to the budget.
    fn give_back(&mut self, room: &ConnBudget) {
        room.take_back(std::mem::take(self).lent);
    }
}

/// Makes room for `spare` more elements: doubles the capacity, up to `most`. False if the budget has
/// no room.
fn grow<T>(all: &mut Vec<T>, spare: usize, most: usize, lent: &mut usize, room: &ConnBudget) -> bool {
    let (least, capacity) = (all.len() + spare, all.capacity());
    if least <= capacity {
        return true;
    }
    let wanted = least.max((2 * capacity).min(most));
    let more = (wanted - capacity) * size_of::<T>();
    if !room.lend(more) {
        return false;
    }
    *lent += more;
    all.reserve_exact(wanted - all.len());
    true
}

/// The state that workers, watchers and the thread share.
#[derive(Debug)]
pub(crate) struct Hub {
    kinds: AtomicU8,
    gid: AtomicU64,
    /// LOCK: log (one a worker, and one for everything else). Leaf.
    buffers: Vec<Mutex<Lines>>,
    /// The configured limit of a worker's buffer, in bytes. In a small cache the budget of
    /// connections sets a lower limit.
    worker_max: usize,
    watcher_max: usize,
    pub(crate) budget: Arc<ConnBudget>,
    newcomers: Mailbox<Newcomer>,
    /// LOCK: log thread. Whether the log thread runs. Taken before the newcomers' lock.
    running: Mutex<bool>,
    pub(crate) counters: Arc<ServerCounters>,
    /// The number of watchers. Relaxed: the limit may be exceeded for a moment.
    watchers: AtomicU64,
}

/// A client that starts to watch.
#[derive(Debug)]
struct Newcomer {
    detached: DetachedConnection,
    kinds: LogKinds,
    /// The watcher receives lines from this number on.
    since: u64,
}

impl Hub {
    /// A hub for this many workers, with the buffer sizes of the options.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn new(options: &Options, budget: Arc<ConnBudget>) -> io::Result<Self> {
        Ok(Hub {
            kinds: AtomicU8::new(0),
            gid: AtomicU64::new(1),
            buffers: (0..=options.workers).map(|_| Mutex::default()).collect(),
            worker_max: options.worker_log_buffer.0,
            watcher_max: options.watcher_buffer.0,
            budget,
            newcomers: Mailbox::new()?,
            running: Mutex::new(false),
            counters: Arc::default(),
            watchers: AtomicU64::new(0),
        })
    }

    /// The watched kinds. Relaxed: a worker that reads them late logs late.
    #[inline]
    pub(crate) fn kinds(&self) -> LogKinds {
        LogKinds(self.kinds.load(Ordering::Relaxed))
    }

    fn running(&self) -> guira_sync::lock::MutexGuard<'_, bool> {
        self.running.lock()
    }

    fn buffer(&self, number: usize) -> guira_sync::lock::MutexGuard<'_, Lines> {
        self.buffers[number].lock()
    }

    /// The limit of each log buffer: half of the budget for logs, divided among all buffers and the
    /// one that is being copied.
    fn worker_limit(&self) -> usize {
        self.worker_max.min(self.budget.for_logs() / 2 / (self.buffers.len() + 1))
    }

    /// The limit of the buffer of each of this many watchers.
    fn watcher_limit(&self, watchers: usize) -> usize {
        self.watcher_max.min(self.budget.for_logs() / 2 / watchers.max(1))
    }

    fn log(&self, buffer: usize, kinds: LogKinds, write: impl FnOnce(u64, &mut Vec<u8>)) {
        if !self.kinds().any(kinds) {
            return;
        }
        let mut lines = self.buffer(buffer);
        if !lines.reserve(self.worker_limit(), &self.budget) {
            self.counters.add(ServerCount::WorkerDropped, 1);
            return;
        }
        let was_empty = lines.ends.is_empty();
        let gid = self.gid.fetch_add(1, Ordering::Relaxed);
        write(gid, &mut lines.bytes);
        let at = lines.bytes.len();
        lines.ends.push(End { kinds, gid, at });
        drop(lines);
        self.counters.add(ServerCount::WorkerWritten, 1);
        if was_empty {
            self.newcomers.ring();
        }
    }

    /// Logs a command of worker `worker` on connection `cfd`.
    pub(super) fn command(&self, worker: usize, cfd: i32, event: &Event<'_>) {
        let kinds = match event {
            Event::Get { .. } | Event::Lookup { .. } => LogKinds::FETCHERS,
            Event::Store { .. } => LogKinds::MUTATIONS,
            Event::Delete { item: Some(_), .. } => LogKinds::DELETIONS,
            Event::Delete { item: None, .. } | Event::Use { .. } => return,
        };
        self.log(worker, kinds, |gid, out| lines::command(gid, cfd, event, out));
    }

    pub(super) fn eviction(&self, key: &[u8], meta: &Meta, now: Seconds) {
        self.log(self.buffers.len() - 1, LogKinds::EVICTIONS, |gid, out| {
            lines::eviction(gid, key, meta, now, out);
        });
    }

    pub(crate) fn watchers(&self) -> u64 {
        self.watchers.load(Ordering::Relaxed)
    }

    /// Starts to watch for a client.
    ///
    /// # Errors
    /// If there are too many watchers, the client is returned. If no thread can be started, its
    /// connection is closed.
    pub(crate) fn watch(
        self: &Arc<Self>,
        detached: DetachedConnection,
        kinds: LogKinds,
        (host, background): (&Arc<Host>, &Arc<BackgroundTasks>),
    ) -> Result<(), (DetachedConnection, TooMany)> {
        if self.watchers.fetch_add(1, Ordering::Relaxed) >= WATCHERS_MAX {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
            return Err((detached, TooMany));
        }
        let mut running = self.running();
        self.newcomers.send(Newcomer { detached, kinds, since: self.gid.load(Ordering::Relaxed) });
        if !*running {
            let (hub, background) = (self.clone(), background.clone());
            let reporter = Reporter { hub, host: host.clone(), background, watchers: Vec::new() };
            let thread = guira_sync::thread::Builder::new().name("log".to_owned());
            match thread.spawn(move || reporter.run()) {
                Ok(_) => *running = true,
                Err(error) => {
                    // Operator: Raise the limit of threads (`TasksMax=`). `watch` does not work until
                    // then.
                    tracing::error!(%error, "cannot start the log thread");
                    for Newcomer { detached, .. } in self.newcomers.take() {
                        self.watchers.fetch_sub(1, Ordering::Relaxed);
                        host.gone(&detached.arrival.facts, CloseReason::Error);
                    }
                }
            }
        }
        Ok(())
    }
}

impl ConnectionObserver for Hub {
    fn connected(&self, facts: &ConnectionFacts) {
        self.log(self.buffers.len() - 1, LogKinds::CONNEVENTS, |gid, out| {
            lines::connection_new(gid, facts, out);
        });
    }

    fn closed(&self, facts: &ConnectionFacts, reason: CloseReason) {
        self.log(self.buffers.len() - 1, LogKinds::CONNEVENTS, |gid, out| {
            lines::connection_close(gid, facts, reason, out);
        });
    }

    fn users_kept(&self) {
        self.counters.add(ServerCount::AuthFileErrors, 1);
    }
}

#[derive(Debug)]
struct Watcher {
    detached: DetachedConnection,
    kinds: LogKinds,
    /// The number of the first line that the watcher receives.
    since: u64,
    /// The bytes that the watcher has not taken yet.
    out: Vec<u8>,
    /// The bytes of the buffer that are charged to the budget.
    lent: usize,
    /// The number of lines skipped since the last line that fitted.
    skipped: u64,
}

impl Watcher {
    /// Adds a line if it fits. Before the next line that fits, it adds the number of skipped lines.
    fn put(&mut self, line: &[u8], limit: usize, room: &ConnBudget) -> bool {
        let fits = self.out.len() + line.len() <= limit
            && grow(&mut self.out, line.len() + SKIPPED_MAX, limit + SKIPPED_MAX, &mut self.lent, room);
        if !fits {
            self.skipped += 1;
            return false;
        }
        if self.skipped > 0 {
            self.out.extend(format!("skipped={}\n", std::mem::take(&mut self.skipped)).as_bytes());
        }
        self.out.extend_from_slice(line);
        true
    }

    /// Frees the empty buffer after a peak.
    fn tidy_up(&mut self, room: &ConnBudget) {
        if self.out.is_empty() && self.out.capacity() > KEPT_MAX {
            self.out = Vec::new();
            room.take_back(std::mem::take(&mut self.lent));
        }
    }
}

/// The thread that copies lines to watchers.
struct Reporter {
    hub: Arc<Hub>,
    host: Arc<Host>,
    background: Arc<BackgroundTasks>,
    watchers: Vec<Watcher>,
}

impl Reporter {
    fn run(mut self) {
        let mut taken = Lines::default();
        while !self.host.is_stopping() {
            self.admit();
            for buffer in 0..self.hub.buffers.len() {
                self.hand_out(buffer, &mut taken);
            }
            self.send();
            if self.watchers.is_empty() && self.rest(&mut taken) {
                return;
            }
            self.wait();
        }
        for watcher in std::mem::take(&mut self.watchers) {
            self.leave(&watcher);
        }
    }

    fn admit(&mut self) {
        for Newcomer { detached, kinds, since } in self.hub.newcomers.take() {
            let out = b"OK\r\n".to_vec();
            self.watchers.push(Watcher { detached, kinds, since, out, lent: 0, skipped: 0 });
        }
        let all = self.watchers.iter().fold(0, |all, watcher| all | watcher.kinds.0);
        self.hub.kinds.store(all, Ordering::Relaxed);
    }

    fn hand_out(&mut self, buffer: usize, taken: &mut Lines) {
        taken.bytes.clear();
        taken.ends.clear();
        std::mem::swap(&mut *self.hub.buffer(buffer), taken);
        let (counters, limit) = (&self.hub.counters, self.hub.watcher_limit(self.watchers.len()));
        let mut begin = 0;
        for End { kinds, gid, at } in &taken.ends {
            let line = &taken.bytes[begin..*at];
            begin = *at;
            let watches = |watcher: &&mut Watcher| watcher.kinds.any(*kinds) && watcher.since <= *gid;
            for watcher in self.watchers.iter_mut().filter(watches) {
                if watcher.put(line, limit, &self.hub.budget) {
                    counters.add(ServerCount::WatcherSent, 1);
                } else {
                    counters.add(ServerCount::WatcherSkipped, 1);
                }
            }
        }
    }

    fn send(&mut self) {
        for watcher in std::mem::take(&mut self.watchers) {
            let mut watcher = watcher;
            match push(&mut watcher) {
                Ok(bytes) => {
                    self.background.add_bytes_sent(bytes);
                    watcher.tidy_up(&self.hub.budget);
                    self.watchers.push(watcher);
                }
                Err(_) => self.leave(&watcher),
            }
        }
    }

    fn leave(&self, watcher: &Watcher) {
        self.hub.watchers.fetch_sub(1, Ordering::Relaxed);
        self.hub.budget.take_back(watcher.lent);
        self.host.gone(&watcher.detached.arrival.facts, CloseReason::Normal);
    }

    /// Whether the thread ends: not if a watcher has just arrived. Drops lines without a watcher.
    fn rest(&mut self, taken: &mut Lines) -> bool {
        let hub = self.hub.clone();
        let mut running = hub.running();
        self.admit();
        *running = !self.watchers.is_empty();
        if !*running {
            taken.give_back(&hub.budget);
            (0..hub.buffers.len()).for_each(|number| hub.buffer(number).give_back(&hub.budget));
        }
        !*running
    }

    fn wait(&self) {
        guira_sync::thread::park_timeout(PAUSE);
        let mut waits = vec![(self.hub.newcomers.as_fd(), Interest::Read)];
        waits.extend(self.watchers.iter().map(|watcher| {
            let interest = if watcher.out.is_empty() { Interest::Read } else { Interest::ReadWrite };
            (watcher.detached.arrival.stream.as_fd(), interest)
        }));
        // If the wait fails, the next round starts early.
        let _ = wait_for(&waits, Some(HEARTBEAT));
    }
}

/// Sends a watcher's lines, and checks its connection. Returns the number of bytes sent.
fn push(watcher: &mut Watcher) -> io::Result<usize> {
    let stream = &mut watcher.detached.arrival.stream;
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
    ignore_input(stream)?;
    Ok(total)
}

/// Drops the input of a watcher. At most one buffer is read in a round, so that a busy watcher does
/// not delay the lines of others.
fn ignore_input(stream: &mut Stream) -> io::Result<()> {
    match stream.read(&mut [0; IGNORED_BYTES])? {
        Progress::Moved(_) | Progress::Blocked => Ok(()),
        Progress::Ended => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_transport::net::UnixStream;
    use std::io::Write;

    #[test]
    fn a_watcher_that_sends_much_is_read_a_little_of_in_a_round() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut stream = Stream::Unix(ours);
        ignore_input(&mut stream).unwrap();
        theirs.write_all(&[b'x'; 10 * IGNORED_BYTES]).unwrap();
        ignore_input(&mut stream).unwrap();
        let mut left = 0;
        while let Progress::Moved(bytes) = stream.read(&mut [0; IGNORED_BYTES]).unwrap() {
            left += bytes;
        }
        assert_eq!(left, 9 * IGNORED_BYTES, "the rest waits for the next rounds");
        drop(theirs);
        assert!(ignore_input(&mut stream).is_err(), "it has gone");
    }
}
