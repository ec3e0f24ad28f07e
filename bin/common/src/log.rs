//! The log: lines for standard error, written by a thread of its own. A worker that logs does not wait for the reader: if nothing
//! does, lines are left out, and counted.

use guira_sync::channel::{Receiver, SyncSender, sync_channel};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use guira_sync::atomic::{AtomicU64, Ordering};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Lines that are kept for the thread.
const QUEUE: usize = 256;

/// How long the end of the process waits for lines to be written.
const FLUSH_MAX: Duration = Duration::from_secs(1);

enum Message {
    Line(Vec<u8>),
    /// Everything before this was written.
    Flush(SyncSender<()>),
}

#[derive(Debug)]
struct Log {
    queue: SyncSender<Message>,
    /// Lines that did not fit. Relaxed: it is only printed.
    left_out: AtomicU64,
}

static LOG: OnceLock<Log> = OnceLock::new();

impl Log {
    /// A log whose lines are to be taken by [`write_lines`] from the other end.
    fn new() -> (Self, Receiver<Message>) {
        let (queue, lines) = sync_channel(QUEUE);
        (Log { queue, left_out: AtomicU64::new(0) }, lines)
    }

    fn put(&self, line: &[u8]) {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let mut text = Vec::new();
        if left_out > 0 {
            text.extend(format!("skipped {left_out} lines: the log's reader was too slow\n").bytes());
        }
        text.extend_from_slice(line);
        if self.queue.try_send(Message::Line(text)).is_err() {
            self.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
        }
    }
}

/// Writes lines as they come, until all senders are gone.
fn write_lines(lines: &Receiver<Message>, mut out: impl Write) {
    for message in lines.iter() {
        match message {
            // If it fails there is no place to report it.
            Message::Line(line) => drop(out.write_all(&line)),
            Message::Flush(done) => drop(done.try_send(())),
        }
    }
}

/// Begins to log to standard error: warnings, and more the more `verbose` it is to be. To be called after the process went to the
/// background, since it starts a thread.
pub fn start(verbose: u8) {
    start_to(verbose, io::stderr());
}

/// The same, to another place.
pub fn start_to(verbose: u8, out: impl Write + Send + 'static) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let (log, lines) = Log::new();
    let thread = thread::Builder::new().name("logger".to_owned());
    let started = thread.spawn(move || write_lines(&lines, out));
    if started.is_err() || LOG.set(log).is_err() {
        return;
    }
    let log = tracing_subscriber::fmt().with_writer(ToQueue).with_target(false).with_max_level(level);
    // It fails if there is a log already, which is as well.
    let _ = log.finish().with(shown(level)).try_init();
}

/// The levels that are logged. Libraries log warnings alone, because they log each lookup at lower levels.
fn shown(level: LevelFilter) -> Targets {
    Targets::new().with_default(LevelFilter::WARN).with_target("guira", level)
}

/// Waits until everything is written that was logged, but not for long.
pub fn flush() {
    let Some(log) = LOG.get() else { return };
    let (done, written) = sync_channel(1);
    // A queue is full when its reader does not read.
    if log.queue.try_send(Message::Flush(done)).is_ok() {
        let _ = written.recv_timeout(FLUSH_MAX);
    }
}

/// Writes whole lines into the queue.
struct ToQueue;

impl Write for ToQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(log) = LOG.get() {
            log.put(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for ToQueue {
    type Writer = ToQueue;

    fn make_writer(&self) -> ToQueue {
        ToQueue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_log_warnings_alone() {
        use tracing::Level;
        for level in [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
            let shown = shown(level.into());
            assert!(shown.would_enable("guira_router::reload", &level), "{level}");
            assert!(shown.would_enable("hickory_proto::udp", &Level::WARN), "{level}");
            assert!(!shown.would_enable("hickory_proto::udp", &Level::INFO), "{level}");
        }
        assert!(!shown(LevelFilter::WARN).would_enable("guira_router::reload", &Level::INFO));
    }

    #[test]
    fn logging_does_not_wait_for_the_reader_of_the_log() {
        let (log, lines) = Log::new();
        // Lines are not taken yet.
        for number in 0..QUEUE + 10 {
            log.put(format!("{number}\n").as_bytes());
        }
        let mut taken = Vec::new();
        while let Ok(Message::Line(line)) = lines.try_recv() {
            taken.push(line);
        }
        assert_eq!(taken.len(), QUEUE);
        log.put(b"again\n");
        log.put(b"and again\n");
        drop(log);
        let mut out = Vec::new();
        write_lines(&lines, &mut out);
        assert_eq!(out, b"skipped 10 lines: the log's reader was too slow\nagain\nand again\n");
    }
}
