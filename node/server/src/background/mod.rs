//! Background tasks: long commands, such as a list of all keys. The connection of the client is
//! *detached* from its worker, served by its own thread, and returned afterwards. Workers do not
//! wait for it.

mod detached;
mod lister;
mod listing;
mod tasks;
mod walker;

pub(crate) use detached::DetachedConnection;
pub(crate) use lister::Lister;
pub(crate) use listing::{ClassFilter, LAST_DUMPED, Listing, push_encoded};
pub(crate) use tasks::BackgroundTasks;

use crate::watch::LogKinds;
use guira_serving::Host;
use guira_sync::clock::Stopwatch;
use guira_transport::{Interest, Progress, Stream, wait_for};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BackgroundTask {
    /// Send all items, in some form.
    List(Listing),
    /// Send a log of what happens.
    Watch(LogKinds),
}

/// How long a client may keep the one walk that there can be waiting …
const PATIENCE: Duration = Duration::from_secs(30);
/// … and how long if another client has requested one.
const PATIENCE_WANTED: Duration = Duration::from_secs(2);
/// Bytes a second that a client may take slowly for ever: fewer count as waiting.
const SLOWEST: usize = 16 << 10;
/// How often a thread that waits for a client looks whether the server stops.
const LOOK: Duration = Duration::from_millis(200);

/// How long a client has kept others waiting. A byte now and then does not make up for it.
#[derive(Debug, Default)]
pub(crate) struct Waited(Duration);

impl Waited {
    fn add(&mut self, waited: Duration) {
        self.0 += waited;
    }

    fn took(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(Duration::from_secs(1).mul_f64(bytes as f64 / SLOWEST as f64));
    }

    fn is_over(&self, tasks: &BackgroundTasks) -> bool {
        let patience = if tasks.is_walk_wanted() { PATIENCE_WANTED } else { PATIENCE };
        self.0 >= patience
    }
}

/// Sends as much as the client takes, and waits for it while more than `kept` bytes are left. Sent bytes are removed from `bytes`.
///
/// # Errors
/// If the client is gone, has kept others waiting for too long, or the server stops.
pub(crate) fn send_down_to(
    kept: usize,
    stream: &mut Stream,
    bytes: &mut Vec<u8>,
    waited: &mut Waited,
    (host, tasks): (&Host, &BackgroundTasks),
) -> io::Result<()> {
    loop {
        let sent = send_some(stream, bytes)?;
        waited.took(sent);
        tasks.add_bytes_sent(sent);
        bytes.drain(..sent);
        if bytes.len() <= kept {
            return Ok(());
        }
        if host.is_stopping() || waited.is_over(tasks) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let stopwatch = Stopwatch::start();
        wait_for_room(stream)?;
        waited.add(stopwatch.elapsed());
    }
}

/// Sends what the client takes without waiting; how many bytes that is.
///
/// # Errors
/// If the client is gone.
pub(crate) fn send_some(stream: &mut Stream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..])? {
            Progress::Moved(count) => sent += count,
            Progress::Blocked => break,
            Progress::Ended => return Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
    Ok(sent)
}

fn wait_for_room(stream: &Stream) -> io::Result<()> {
    wait_for(&[(stream.as_fd(), Interest::Write)], Some(LOOK)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_now_and_then_does_not_make_up_for_waiting() {
        let mut waited = Waited::default();
        waited.took(1 << 20);
        for _ in 0..10 {
            waited.add(Duration::from_secs(3));
            waited.took(1);
        }
        assert!(waited.0 > Duration::from_secs(29));
        for _ in 0..100 {
            waited.add(Duration::from_secs(1));
            waited.took(2 * SLOWEST);
        }
        assert_eq!(waited.0, Duration::ZERO, "a client at a good pace is waited for");
    }
}
