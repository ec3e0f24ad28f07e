//! The thread that writes logged deletes. One write and one sync serve all batches that have
//! arrived since the last.

use super::counts::{LogCount, LogCounts};
use super::file::{AppendError, Next, OpenLog, Place};
use super::names::LIFETIME_S;
use guira_routing::config::Address;
use guira_sync::channel::{Receiver, RecvTimeoutError, Sender};
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::Mailbox;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// The lines of one round of a worker.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) lines: Vec<u8>,
    pub(crate) count: u64,
    /// The servers that the lines are for.
    pub(crate) servers: HashSet<Address>,
    pub(crate) since: Stopwatch,
    pub(crate) to: Arc<Mailbox<Written>>,
}

/// The result of a batch. A worker receives its results in the order of its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Yes,
    No,
}

#[derive(Debug)]
pub(crate) enum Order {
    Write(Batch),
    /// Ends the file, so that it can be replayed.
    Seal,
    /// Everything before this is written, and nothing follows.
    End,
}

/// The servers that the current file has deletes for.
#[derive(Debug, Default)]
pub(crate) struct Unsealed {
    /// LOCK: log_unsealed. Leaf.
    servers: Mutex<HashSet<Address>>,
}

impl Unsealed {
    fn servers(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.servers.lock()
    }

    /// Whether one of these servers `is_ready`.
    pub(crate) fn has(&self, is_ready: impl FnMut(&Address) -> bool) -> bool {
        let servers: Vec<Address> = self.servers().iter().cloned().collect();
        servers.iter().any(is_ready)
    }
}

/// The most bytes of one write, unless a single batch has more.
const WRITE_MAX: usize = 4 << 20;
/// A file ends at this size, since an interrupted replay starts again with the file that it was
/// reading.
const FILE_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct LogWriter {
    place: Place,
    orders: Receiver<Order>,
    counts: Arc<LogCounts>,
    unsealed: Arc<Unsealed>,
    log: Option<OpenLog>,
    health: Health,
}

/// Whether the last write succeeded: only a change is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    Bad,
}

/// The order that ends a series of batches.
enum After {
    Write,
    Seal,
    End,
}

impl LogWriter {
    pub(crate) fn new(
        place: Place,
        orders: Receiver<Order>,
        counts: Arc<LogCounts>,
        unsealed: Arc<Unsealed>,
    ) -> Self {
        LogWriter { place, orders, counts, unsealed, log: None, health: Health::Good }
    }

    /// Runs until its owner ends it.
    pub(crate) fn run(mut self) {
        let mut batches = Vec::new();
        loop {
            let first = match self.next() {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => {
                    self.seal();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let after = self.gather(first, &mut batches);
            self.write(&mut batches);
            match after {
                After::Write => {}
                After::Seal => self.seal(),
                After::End => return,
            }
        }
    }

    /// Waits for an order, or until the file is old enough to be ended.
    fn next(&self) -> Result<Order, RecvTimeoutError> {
        match &self.log {
            Some(log) => {
                let left = LIFETIME_S.saturating_sub(log.age(wall_clock()));
                self.orders.recv_timeout(Duration::from_secs(left))
            }
            None => self.orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn gather(&self, first: Order, batches: &mut Vec<Batch>) -> After {
        let (mut order, mut bytes) = (first, 0);
        loop {
            match order {
                Order::Write(batch) => {
                    bytes += batch.lines.len();
                    batches.push(batch);
                }
                Order::Seal => return After::Seal,
                Order::End => return After::End,
            }
            if bytes >= WRITE_MAX {
                return After::Write;
            }
            order = match self.orders.try_recv() {
                Ok(next) => next,
                Err(_) => return After::Write,
            };
        }
    }

    fn write(&mut self, batches: &mut Vec<Batch>) {
        if batches.is_empty() {
            return;
        }
        let now = wall_clock();
        let lines: Vec<u8> = match &mut **batches {
            [only] => std::mem::take(&mut only.lines),
            many => many.iter().flat_map(|batch| &batch.lines).copied().collect(),
        };
        // Before the lines are written: too many servers in the set do no harm.
        let servers = batches.iter_mut().flat_map(|batch| std::mem::take(&mut batch.servers));
        self.unsealed.servers().extend(servers);
        let written = self.append(&lines, now);
        let (counter, result) = match &written {
            Ok(()) => (LogCount::Written, Written::Yes),
            Err(_) => (LogCount::NotWritten, Written::No),
        };
        self.note(written);
        for batch in batches.drain(..) {
            self.counts.settled(counter, batch.count, batch.since.elapsed(), now);
            batch.to.send(result);
        }
    }

    fn append(&mut self, lines: &[u8], now: u64) -> std::io::Result<()> {
        let is_over = |log: &OpenLog| log.age(now) > LIFETIME_S || log.length() >= FILE_MAX;
        if self.log.as_ref().is_some_and(is_over) {
            self.log = None;
        }
        let log = match &mut self.log {
            Some(log) => log,
            None => self.log.insert(OpenLog::create(&mut self.place, now)?),
        };
        log.append(lines).map_err(|AppendError { error, next }| {
            if next == Next::NewFile {
                self.log = None;
            }
            error
        })
    }

    fn note(&mut self, written: std::io::Result<()>) {
        let folder = self.place.folder.display();
        let health = match written {
            Ok(()) if self.health == Health::Bad => {
                tracing::info!(%folder, "logging failed deletes again");
                Health::Good
            }
            Err(error) if self.health == Health::Good => {
                // Operator: Free space in `--async-dir`. Clients must repeat failed deletes.
                tracing::error!(%folder, %error, "cannot log failed deletes; clients receive the error \
                    instead");
                Health::Bad
            }
            Ok(()) | Err(_) => return,
        };
        self.health = health;
    }

    fn seal(&mut self) {
        self.log = None;
        self.unsealed.servers().clear();
    }
}

pub(crate) type Orders = Sender<Order>;

#[cfg(test)]
mod tests {
    use super::super::file::LogSync;
    use super::super::names;
    use super::*;
    use guira_disk as disk;
    use guira_sync::channel::channel;
    use guira_sync::thread::JoinHandle;

    struct Thread {
        place: Place,
        orders: Orders,
        counts: Arc<LogCounts>,
        unsealed: Arc<Unsealed>,
        results: Arc<Mailbox<Written>>,
        thread: JoinHandle<()>,
    }

    fn start(name: &str, sync: LogSync) -> Thread {
        let folder = std::env::temp_dir().join(format!("guira-router-writer-{name}-{}", std::process::id()));
        let _ = disk::remove_dir_all(&folder);
        disk::create_dir_all(&folder).unwrap();
        let place = Place { folder, naming: names::Naming::new("s", "r"), sync };
        let (orders, receiver) = channel();
        let (counts, unsealed) = (Arc::<LogCounts>::default(), Arc::<Unsealed>::default());
        let writer = LogWriter::new(place.clone(), receiver, counts.clone(), unsealed.clone());
        let thread = guira_sync::thread::spawn(|| writer.run());
        Thread { place, orders, counts, unsealed, results: Arc::new(Mailbox::new().unwrap()), thread }
    }

    impl Thread {
        fn write(&self, line: &str, server: &str) {
            let servers = [Address::Tcp { host: server.into(), port: 1 }].into();
            let (since, to) = (Stopwatch::start(), self.results.clone());
            self.counts.add(LogCount::Requests, 1);
            let batch = Batch { lines: line.into(), count: 1, servers, since, to };
            self.orders.send(Order::Write(batch)).unwrap();
        }

        /// Ends the thread. Returns its files, and the results.
        fn end(self) -> (Vec<String>, Vec<Written>) {
            self.orders.send(Order::End).unwrap();
            self.thread.join().unwrap();
            let read = |file: &names::LogFile| disk::read_to_string(&file.path).unwrap();
            let files = names::list(&self.place.folder).map(|files| files.iter().map(read).collect());
            let _ = disk::remove_dir_all(&self.place.folder);
            (files.unwrap_or_default(), self.results.take())
        }
    }

    #[test]
    fn lines_of_all_workers_are_written_in_order_and_told() {
        for sync in [LogSync::Never, LogSync::Always] {
            let thread = start("order", sync);
            (0..100).for_each(|number| thread.write(&format!("{number}\n"), "a"));
            let counts = thread.counts.clone();
            let (files, results) = thread.end();
            assert_eq!(files, [(0..100).map(|number| format!("{number}\n")).collect::<String>()]);
            assert_eq!(results, [Written::Yes; 100]);
            assert_eq!((counts.get(LogCount::Written), counts.waiting()), (100, 0));
        }
    }

    #[test]
    fn a_sealed_file_is_followed_by_another() {
        let thread = start("seal", LogSync::Never);
        thread.write("one\n", "a");
        thread.orders.send(Order::Seal).unwrap();
        thread.write("two\n", "b");
        let unsealed = thread.unsealed.clone();
        let (mut files, results) = thread.end();
        files.sort();
        assert_eq!((files, results), (vec!["one\n".to_owned(), "two\n".to_owned()], vec![Written::Yes; 2]));
        let is = |name: &str| unsealed.has(|server| server.to_string() == format!("{name}:1"));
        assert_eq!((is("a"), is("b")), (false, true));
    }

    #[test]
    fn what_cannot_be_written_is_told_so_until_the_folder_is_back() {
        let thread = start("gone", LogSync::Never);
        let wait = |count| {
            while thread.counts.get(LogCount::NotWritten) + thread.counts.get(LogCount::Written) < count {
                guira_sync::thread::yield_now();
            }
        };
        disk::remove_dir_all(&thread.place.folder).unwrap();
        thread.write("one\n", "a");
        wait(1);
        disk::create_dir_all(&thread.place.folder).unwrap();
        thread.write("two\n", "a");
        wait(2);
        disk::remove_dir_all(&thread.place.folder).unwrap();
        disk::create_dir_all(&thread.place.folder).unwrap();
        // The open file has lost its name.
        thread.write("three\n", "a");
        wait(3);
        thread.write("four\n", "a");
        wait(4);
        let (files, results) = thread.end();
        assert_eq!(results.iter().filter(|results| **results == Written::No).count() as u64, 2);
        assert_eq!((results[0], results[1], results[3]), (Written::No, Written::Yes, Written::Yes));
        assert_eq!(files, ["four\n"]);
    }
}
