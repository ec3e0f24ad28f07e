//! Reports the acknowledged position to the database, also while full queues block the reader.

use super::position::{Lsn, Position};
use guira_sql::Writer;
use guira_sql::postgres::framed;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::lock::Mutex;
use guira_sync::stop::Stop;
use guira_sync::thread::{Builder, JoinHandle};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The interval of reports. The database replies to each, so that silence means a failure.
const EVERY: Duration = Duration::from_secs(1);

/// The position that was saved last; the database may remove the log before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confirmed(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// LOCK: invalidator_confirmed. Leaf.
    position: Mutex<Option<Position>>,
}

impl Confirmed {
    /// `position` was saved.
    pub(crate) fn set(&self, position: &str) {
        *self.0.position.lock() = position.parse().ok();
    }

    /// The position that may be confirmed to the database whose log was read from `of` to `read`; 0
    /// confirms nothing. A position of another database, or one that this connection has not read
    /// (the database was restored from a backup), could make the database remove log that was not
    /// read. A position before `of` would move the slot back.
    fn lsn(&self, of: Position, read: Lsn) -> u64 {
        let position = *self.0.position.lock();
        let is_of_it = |it: &Position| {
            it.system == of.system && it.timeline == of.timeline && (of.lsn..=read).contains(&it.lsn)
        };
        position.filter(is_of_it).map_or(0, |it| it.lsn.0)
    }
}

/// The thread that sends reports; it ends on drop.
#[derive(Debug)]
pub(super) struct Status {
    over: Stop,
    /// The end of the log that was read. Relaxed: a saved position was read before.
    read: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Status {
    /// Starts reports to the database whose log is read from `of`.
    pub(super) fn start(writer: Writer, confirmed: Confirmed, of: Position) -> io::Result<Self> {
        let over = Stop::default();
        let until = over.clone();
        let read = Arc::new(AtomicU64::new(of.lsn.0));
        let so_far = read.clone();
        let send = move || {
            let message = || framed(b'd', &update(confirmed.lsn(of, Lsn(so_far.load(Ordering::Relaxed)))));
            // The reader notices a failed connection itself.
            while message().and_then(|message| writer.write(&message)).is_ok() {
                if until.wait(EVERY).is_err() {
                    return;
                }
            }
        };
        Ok(Status { over, read, thread: Some(Builder::new().name("status".to_owned()).spawn(send)?) })
    }
}

impl Status {
    /// Records that the log was read up to here.
    pub(super) fn read(&self, lsn: Lsn) {
        self.read.store(lsn.0, Ordering::Relaxed);
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.over.set();
        if let Some(thread) = self.thread.take() {
            // The thread neither panics nor returns an error.
            let _ = thread.join();
        }
    }
}

/// A standby's status update: the written, synced and applied position, which are the same here, no
/// time, and a request for a reply.
fn update(lsn: u64) -> Vec<u8> {
    let lsn = lsn.to_be_bytes();
    [&b"r"[..], &lsn, &lsn, &lsn, &[0; 8], &[1]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sql::testing::{says, sent};

    const OF: Position = Position { system: 7, timeline: 1, lsn: Lsn(0x100) };

    #[test]
    fn only_a_position_of_what_is_read_is_told() {
        let confirmed = Confirmed::default();
        let read = Lsn(1 << 33);
        assert_eq!(confirmed.lsn(OF, read), 0);
        confirmed.set("7-1-1/2");
        assert_eq!(confirmed.lsn(OF, read), 1 << 32 | 2);
        assert_eq!(confirmed.lsn(OF, Lsn(1 << 32 | 2)), 1 << 32 | 2);
        assert_eq!(confirmed.lsn(OF, Lsn(1 << 32)), 0, "it has not come so far");
        assert_eq!(confirmed.lsn(Position { system: 8, ..OF }, read), 0);
        assert_eq!(confirmed.lsn(Position { timeline: 2, ..OF }, read), 0);
        assert_eq!(confirmed.lsn(Position { lsn: Lsn(1 << 33), ..OF }, read), 0);
    }

    #[test]
    fn a_status_is_told_at_once() {
        let (messages, mut server) = says(&[]);
        let confirmed = Confirmed::default();
        confirmed.set("7-1-0/102");
        let status = Status::start(messages.writer(), confirmed, OF).unwrap();
        status.read(Lsn(0x102));
        let mut first = [0; 39];
        // The first report may be sent before the log was read this far.
        while first[12..14] != [1, 2] {
            io::Read::read_exact(&mut server, &mut first).unwrap();
        }
        drop(status);
        assert_eq!(&first[..6], b"d\0\0\0\x26r");
        assert_eq!(
            (&first[6..14], &first[22..30], first[38]),
            (&[0, 0, 0, 0, 0, 0, 1, 2][..], &[0, 0, 0, 0, 0, 0, 1, 2][..], 1)
        );
        assert_eq!(sent(messages, server), b"", "it has ended");
    }
}
