//! The connection of a sender.

use super::acknowledged::{Acknowledged, Position};
use super::event::{self, Unreported};
use super::lines::{Line, Lines};
use super::{OnBadLine, Rules};
use crate::counters::{Count, Counts};
use crate::source::{Changes, Log, Place, SourceError};
use guira_client::text::{Listener, Socket};
use guira_sync::clock::{Stopwatch, wall_clock};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// A read without data returns after this time, so that acknowledgements are sent.
pub(super) const READ_WAIT: Duration = Duration::from_millis(100);
/// After this many reads without data, a second, the reader reports a pause of the changes.
const READS: u32 = 10;
/// The part of a skipped line that is logged, in bytes.
const SHOWN_MAX: usize = 200;

/// The open connection of a sender. It closes on drop, so that the sender notices in every case.
#[derive(Debug)]
pub(super) struct Sender<'l> {
    socket: Socket,
    listener: &'l Listener,
    rules: Rules,
    counts: Arc<Counts>,
    position: Position,
    acknowledged: Acknowledged,
    /// The number of lines whose acknowledgement was sent.
    reported: u64,
    lines: Lines,
    silence: Stopwatch,
    usefulness: Usefulness,
    /// Whether the sender has closed its side. Acknowledgements are still sent.
    has_ended: bool,
}

/// Whether a line was a change event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WasOfUse {
    Yes,
    No,
}

/// The time since a sender last sent a change event.
#[derive(Debug)]
struct Usefulness {
    /// Restarts with each change event, and with the connection.
    since: Stopwatch,
    /// The part of that time in which full queues blocked the reader.
    held_up: Duration,
}

impl Default for Usefulness {
    fn default() -> Self {
        Usefulness { since: Stopwatch::start(), held_up: Duration::ZERO }
    }
}

impl Usefulness {
    /// The time without a change event that the sender has to answer for.
    fn ended(&self) -> Duration {
        self.since.elapsed().saturating_sub(self.held_up)
    }
}

impl<'l> Sender<'l> {
    pub(super) fn new(
        socket: Socket,
        connection: u64,
        listener: &'l Listener,
        acknowledged: Acknowledged,
        rules: Rules,
        counts: Arc<Counts>,
    ) -> Self {
        acknowledged.begin(connection);
        Sender {
            socket,
            listener,
            rules,
            counts,
            position: Position { connection, lines: 0 },
            acknowledged,
            reported: 0,
            lines: Lines::default(),
            silence: Stopwatch::start(),
            usefulness: Usefulness::default(),
            has_ended: false,
        }
    }

    /// Sends the number of acknowledged lines, if it has grown.
    fn send_acknowledgement(&mut self) -> io::Result<()> {
        let lines = self.acknowledged.lines();
        if lines > self.reported {
            let unread = |error: io::Error| {
                io::Error::new(
                    error.kind(),
                    format!("cannot send acknowledgements to the sender; closed its connection: {error}"),
                )
            };
            (&self.socket).write_all(format!("{lines}\n").as_bytes()).map_err(unread)?;
            self.reported = lines;
        }
        Ok(())
    }

    /// Waits up to a second for bytes.
    fn wait_for_bytes(&mut self) -> io::Result<()> {
        for _ in 0..READS {
            self.send_acknowledgement()?;
            match self.lines.fill(&self.socket) {
                Ok(0) => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok(_) => {
                    self.silence = Stopwatch::start();
                    return if self.lines.has_one() { Ok(()) } else { self.keep_seat() };
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error),
            }
            self.keep_seat()?;
        }
        Ok(())
    }

    /// Fails if another sender waits and this one has sent no change event for too long. Incomplete
    /// lines and lines of another kind do not count.
    fn keep_seat(&self) -> io::Result<()> {
        let useless = self.usefulness.ended();
        if useless >= self.rules.useless_max && self.listener.is_waited_for() {
            let seconds = useless.as_secs();
            return Err(io::Error::other(format!(
                "closed the connection of a sender that sent no change event for {seconds} s, because another sender has connected"
            )));
        }
        Ok(())
    }

    /// A sender that has closed its side waits for its acknowledgements, unless another one
    /// connects.
    fn wait_for_acknowledgement(&mut self) -> io::Result<()> {
        self.send_acknowledgement()?;
        if self.reported >= self.position.lines || self.listener.is_waited_for() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sender closed the connection"));
        }
        self.acknowledged.wait_for_more(self.reported, READ_WAIT);
        Ok(())
    }

    fn take_line(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        let reported = match self.lines.next() {
            Some(Line::Whole(line)) => event::report(line, changes).map_err(|unreported| (unreported, line)),
            Some(Line::Long) => Err((Unreported::Wrong("over 64 MiB".to_owned()), &[][..])),
            None => return Ok(()),
        };
        let (when, was_of_use) = match reported {
            Ok(when) => (when, WasOfUse::Yes),
            Err((Unreported::Stopped(stopped), _)) => return Err(stopped.into()),
            Err((Unreported::Wrong(why), line)) => {
                let shown = line[..line.len().min(SHOWN_MAX)].escape_ascii().to_string();
                if self.rules.on_bad_line == OnBadLine::Stop {
                    return Err(SourceError::Unsuitable(format!(
                        "a line is not a change event: {why}: {shown}"
                    )));
                }
                self.keep_seat()?;
                if self.counts.add(Count::SkippedLines) {
                    // Operator: Check Debezium's configuration: envelopes with `before` and `after`, no
                    // flattening. Delete the keys by hand.
                    tracing::error!(
                        "skipped a line that is not a change event; its keys were not deleted: {why}: \
                             {shown}"
                    );
                }
                (wall_clock(), WasOfUse::No)
            }
        };
        self.position.lines += 1;
        let begun = Stopwatch::start();
        changes.committed(&self.position, when)?;
        match was_of_use {
            WasOfUse::Yes => {
                self.counts.used_line();
                self.usefulness = Usefulness::default();
            }
            WasOfUse::No => {
                self.counts.skipped_line(wall_clock());
                self.usefulness.held_up += begun.elapsed();
            }
        }
        Ok(())
    }
}

impl Log for Sender<'_> {
    fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
        if self.lines.has_one() {
            self.take_line(changes)?;
            // The reader was blocked by full queues; the sender was not silent.
            self.silence = Stopwatch::start();
            return if self.lines.has_one() { Ok(()) } else { Ok(changes.pause()?) };
        }
        if self.has_ended { Ok(self.wait_for_acknowledgement()?) } else { Ok(self.wait_for_bytes()?) }
    }

    fn position(&self) -> String {
        self.position.to_string()
    }

    fn place(&self) -> Place {
        Place::default()
    }

    fn silence(&self) -> Option<Duration> {
        (!self.has_ended).then(|| self.silence.elapsed())
    }
}
