//! The thread that reads the log, and connects again when the connection fails.

use super::flushes::Flushes;
use super::{Changes, Log, OnGap, SourceError};
use crate::counters::{Count, Counts};
use guira_sync::clock::{Stopwatch, wall_clock};
use guira_sync::simulated::{is_planted, sometimes};
use guira_sync::stop::Stop;
use std::sync::Arc;
use std::time::Duration;

/// The backoff between connections: its start and its end.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Reads a log until the invalidator stops.
#[derive(Debug)]
pub(crate) struct Tail<C> {
    pub(crate) changes: C,
    pub(crate) counts: Arc<Counts>,
    pub(crate) on_gap: OnGap,
    pub(crate) stop: Stop,
}

/// The place at which reading starts.
#[derive(Debug)]
enum Start {
    At(String),
    /// The present end of the log, since no position is saved.
    End,
    /// The present end of the log, since the log before it is lost.
    EndAfterGap,
}

impl<C: Changes> Tail<C> {
    /// Reads from `position`, or from the present end, which `save` stores before anything is read.
    /// `open` connects to the database.
    ///
    /// # Errors
    /// When a retry cannot help: a gap in the log, a refused login, an event that is not supported.
    pub(crate) fn run<L: Log>(
        mut self,
        position: Option<String>,
        mut open: impl FnMut(Option<&str>) -> Result<L, SourceError>,
        save: impl Fn(&str) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let mut start = position.map_or(Start::End, Start::At);
        let (mut wait, mut was_let_in) = (WAIT_MIN, false);
        let (clock, mut flushes) = (Stopwatch::start(), Flushes::default());
        loop {
            let error = match self.begin(&start, &mut open, &save) {
                Ok(mut log) => {
                    was_let_in = true;
                    if matches!(start, Start::EndAfterGap) {
                        flushes.flushed(clock.elapsed());
                    }
                    tracing::info!("reading the log from '{}'", log.position());
                    let (error, events) = self.follow(&mut log);
                    if events > 0 {
                        wait = WAIT_MIN;
                    }
                    start =
                        if is_planted("log-not-resumed") { Start::End } else { Start::At(log.position()) };
                    error
                }
                Err(error) => error,
            };
            self.counts.lost();
            let mut left = Duration::ZERO;
            match error {
                SourceError::Stopped(_) => return Ok(()),
                SourceError::Gap(gap) if self.on_gap == OnGap::Flush => {
                    sometimes("gap-in-the-log");
                    self.counts.add(Count::Gaps);
                    start = if is_planted("gap-unflushed") { Start::End } else { Start::EndAfterGap };
                    left = flushes.left(clock.elapsed());
                    report_gap(&gap, left);
                }
                // A changed password is often changed on the database first: keep trying once a
                // login has worked.
                error if !(error.is_passing() || was_let_in && matches!(error, SourceError::Login(_))) => {
                    return Err(error);
                }
                error => {
                    sometimes("log-connection-failed");
                    self.counts.add(Count::SourceFailures);
                    // Operator: Check that the database answers, and the invalidator's login and grants.
                    // Cached values stay old until then.
                    tracing::warn!("cannot read the database log; retrying: {error}");
                }
            }
            if self.stop.wait(wait.max(left)).is_err() {
                return Ok(());
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    fn begin<L: Log>(
        &mut self,
        start: &Start,
        open: &mut impl FnMut(Option<&str>) -> Result<L, SourceError>,
        save: &impl Fn(&str) -> Result<(), SourceError>,
    ) -> Result<L, SourceError> {
        match start {
            Start::At(position) => open(Some(position)),
            Start::End => {
                let log = open(None)?;
                save(&log.position())?;
                // Operator: Nothing at the first start. Otherwise find out who removed the position file,
                // and flush the caches.
                tracing::warn!(
                    "no saved position: starting at the current end of the log; earlier changes were not \
                         deleted"
                );
                Ok(log)
            }
            // The end is read before the flush is sent, so that changes during the flush are read
            // from the log.
            Start::EndAfterGap => {
                if is_planted("gap-flushed-early") {
                    self.changes.skipped("0", wall_clock())?;
                    return open(None);
                }
                let log = open(None)?;
                self.changes.skipped(&log.position(), wall_clock())?;
                Ok(log)
            }
        }
    }

    /// Reads events until one fails; returns the error, and the number of events before it.
    fn follow(&mut self, log: &mut impl Log) -> (SourceError, u64) {
        let mut events = 0;
        loop {
            if let Err(stopped) = self.stop.check() {
                return (stopped.into(), events);
            }
            if let Err(error) = log.read(&mut self.changes) {
                return (error, events);
            }
            self.changes.passed(log.place());
            events += 1;
            self.counts.add(Count::Events);
            match log.silence() {
                Some(silence) => self.counts.record_message(wall_clock().saturating_sub(silence.as_secs())),
                None => self.counts.lost(),
            }
        }
    }
}

fn report_gap(gap: &str, left: Duration) {
    if left.is_zero() {
        // Operator: Expect misses. Raise the database's log retention: the invalidator was away for too
        // long.
        tracing::error!("the database log has a gap; flushing all targets: {gap}");
    } else {
        let seconds = left.as_secs();
        // Operator: Look for a second invalidator with the same `server-id`, or a log retention that is
        // too short.
        tracing::error!(
            "the database log has a gap again within a minute; reading is paused and all targets are \
                 flushed in {seconds} s: {gap}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Place, Row};
    use super::*;
    use guira_harness::deadline::Deadline;
    use guira_sync::stop::Stopped;
    use std::cell::RefCell;
    use std::fmt::Display;
    use std::io;

    #[derive(Debug, Default)]
    struct Notes(Vec<String>);

    impl Changes for &mut Notes {
        fn wants(&self, _: &[u8], _: &[u8]) -> bool {
            false
        }
        fn statement(&mut self, text: &[u8], _: u64) -> Result<(), Stopped> {
            self.0.push(String::from_utf8_lossy(text).into_owned());
            Ok(())
        }
        fn message(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
            Ok(())
        }
        fn reached(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
            Ok(())
        }
        fn row(&mut self, _: &Row<'_>) -> Result<(), Stopped> {
            Ok(())
        }
        fn unseen(&mut self, _: &[u8], _: &str) {}
        fn committed(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
            Ok(())
        }
        fn pause(&mut self) -> Result<(), Stopped> {
            Ok(())
        }
        fn skipped(&mut self, position: &str, _: u64) -> Result<(), Stopped> {
            self.0.push(format!("skipped to {position}"));
            Ok(())
        }
    }

    /// A log of numbers, whose connection fails after every third.
    #[derive(Debug)]
    struct Numbers {
        next: u64,
        left: u64,
    }

    impl Log for Numbers {
        fn read(&mut self, changes: &mut dyn Changes) -> Result<(), SourceError> {
            if self.left == 0 {
                return Err(io::Error::other("the connection").into());
            }
            self.left -= 1;
            changes.statement(self.next.to_string().as_bytes(), 7)?;
            self.next += 1;
            if self.next == 8 { Err(SourceError::Gap("after 7".to_owned())) } else { Ok(()) }
        }
        fn position(&self) -> String {
            self.next.to_string()
        }
        fn place(&self) -> Place {
            Place::default()
        }
    }

    #[test]
    fn reading_goes_on_where_a_connection_has_failed_and_ends_at_a_gap() {
        let (mut notes, counts) = (Notes::default(), Arc::<Counts>::default());
        let saved = RefCell::new(Vec::new());
        let tail =
            Tail { changes: &mut notes, counts: counts.clone(), on_gap: OnGap::Stop, stop: Stop::default() };
        let open = |position: Option<&str>| {
            let next = position.map_or(2, |position| position.parse().expect("a number"));
            Ok(Numbers { next, left: 3 })
        };
        let save = |position: &str| {
            saved.borrow_mut().push(position.to_owned());
            Ok(())
        };
        let error = tail.run(None, open, save).unwrap_err();
        assert!(error.to_string().contains("gap: after 7"), "{error}");
        assert_eq!(notes.0, ["2", "3", "4", "5", "6", "7"]);
        assert_eq!((counts.get(Count::SourceFailures), counts.is_connected()), (1, false));
        assert_eq!(*saved.borrow(), ["2"], "only where it was not known");
    }

    #[test]
    fn a_login_that_is_refused_is_tried_again_if_it_was_good_before() {
        let (mut notes, mut tries) = (Notes::default(), 0);
        let stop = Stop::default();
        let tail =
            Tail { changes: &mut notes, counts: Arc::default(), on_gap: OnGap::Stop, stop: stop.clone() };
        let open = |_: Option<&str>| {
            tries += 1;
            match tries {
                1 => Ok(Numbers { next: 20, left: 1 }),
                2 => Err(SourceError::Login("no".to_owned())),
                _ => {
                    stop.set();
                    Ok(Numbers { next: 21, left: 1 })
                }
            }
        };
        tail.run(Some("20".to_owned()), open, |_| Ok(())).unwrap();
        assert_eq!(tries, 3);
        let (stop, mut tries) = (Stop::default(), 0);
        let tail =
            Tail { changes: &mut notes, counts: Arc::default(), on_gap: OnGap::Stop, stop: stop.clone() };
        let open = |_: Option<&str>| {
            tries += 1;
            // Without this a retry would go without end.
            if tries == 2 {
                stop.set();
            }
            Err::<Numbers, _>(SourceError::Login("no".to_owned()))
        };
        assert!(matches!(tail.run(None, open, |_| Ok(())), Err(SourceError::Login(_))));
        assert_eq!(tries, 1);
    }

    #[test]
    fn after_a_gap_everything_is_flushed_if_that_is_wanted() {
        let mut notes = Notes::default();
        let counts = Arc::<Counts>::default();
        let tail =
            Tail { changes: &mut notes, counts: counts.clone(), on_gap: OnGap::Flush, stop: Stop::default() };
        let open = |position: Option<&str>| match position {
            Some("7") => Ok(Numbers { next: 7, left: 3 }),
            Some(position) => Err(SourceError::Refused(position.to_owned())),
            None => Ok(Numbers { next: 20, left: 2 }),
        };
        let save = |_: &str| panic!("it is not saved before all targets are flushed");
        assert!(tail.run(Some("7".to_owned()), open, save).is_err());
        assert_eq!(notes.0, ["7", "skipped to 20", "20", "21"]);
        assert_eq!(counts.get(Count::Gaps), 1);
    }

    #[test]
    fn a_gap_that_comes_again_at_once_does_not_flush_again_at_once() {
        let (stop, counts) = (Stop::default(), Arc::<Counts>::default());
        let (at_work, of_work) = (stop.clone(), counts.clone());
        let thread = guira_sync::thread::spawn(move || {
            let mut notes = Notes::default();
            let tail = Tail { changes: &mut notes, counts: of_work, on_gap: OnGap::Flush, stop: at_work };
            let open = |_: Option<&str>| Ok(Numbers { next: 7, left: 3 });
            tail.run(Some("7".to_owned()), open, |_| Ok(())).unwrap();
            notes.0
        });
        let is_twice = || (counts.get(Count::Gaps) == 2).then_some(());
        Deadline::after(Duration::from_secs(20)).poll(is_twice).expect("a second gap");
        // Without the wait the third flush would be sent by now.
        let is_thrice = || (counts.get(Count::Gaps) > 2).then_some(());
        assert!(Deadline::after(Duration::from_millis(700)).poll(is_thrice).is_none());
        stop.set();
        assert_eq!(thread.join().unwrap(), ["7", "skipped to 7", "7"]);
    }

    #[test]
    fn nothing_is_read_before_the_first_position_is_saved() {
        let (mut notes, tries) = (Notes::default(), RefCell::new(0));
        let tail =
            Tail { changes: &mut notes, counts: Arc::default(), on_gap: OnGap::Stop, stop: Stop::default() };
        let save = |_: &str| {
            *tries.borrow_mut() += 1;
            match *tries.borrow() {
                1 => Err(SourceError::Position(io::Error::other("the disk is full"))),
                _ => Err(SourceError::Gap("the end".to_owned())),
            }
        };
        assert!(tail.run(None, |_| Ok(Numbers { next: 0, left: 3 }), save).is_err());
        assert_eq!((notes.0.len(), *tries.borrow()), (0, 2));
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let mut notes = Notes::default();
        let stop = Stop::default();
        stop.set();
        let tail = Tail { changes: &mut notes, counts: Arc::default(), on_gap: OnGap::Stop, stop };
        tail.run(None, |_| Ok(Numbers { next: 0, left: 3 }), |_| Ok(())).unwrap();
        assert_eq!(notes.0, [""; 0]);
    }
}
