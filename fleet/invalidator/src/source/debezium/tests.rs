//! Senders over Unix sockets.

use super::*;
use crate::counters::{Count, Counts};
use crate::source::{OnGap, Row};
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_sync::clock::Stopwatch;
use guira_sync::stop::{Stop, Stopped};
use guira_sync::thread::JoinHandle;
use guira_transport::net::{Shutdown, UnixStream};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

const PATIENCE: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_millis(300);

/// Acknowledges everything at once, or nothing.
struct Ledger(Option<Acknowledged>);

impl Changes for Ledger {
    fn wants(&self, _: &[u8], _: &[u8]) -> bool {
        false
    }
    fn statement(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn message(&mut self, _: &[u8], _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn row(&mut self, _: &Row<'_>) -> Result<(), Stopped> {
        Ok(())
    }
    fn unseen(&mut self, _: &[u8], _: &str) {}
    fn committed(&mut self, position: &dyn Display, _: u64) -> Result<(), Stopped> {
        if let Some(acknowledged) = &self.0 {
            acknowledged.set(&position.to_string());
        }
        Ok(())
    }
    fn reached(&mut self, _: &dyn Display, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
    fn pause(&mut self) -> Result<(), Stopped> {
        Ok(())
    }
    fn skipped(&mut self, _: &str, _: u64) -> Result<(), Stopped> {
        Ok(())
    }
}

struct Running {
    _scratch: Scratch,
    path: PathBuf,
    acknowledged: Acknowledged,
    counts: Arc<Counts>,
    stop: Stop,
    thread: JoinHandle<Result<(), SourceError>>,
}

impl Running {
    fn start(on_bad_line: OnBadLine, acknowledges: bool) -> Self {
        let scratch = Scratch::new();
        let path = scratch.file("events");
        let (acknowledged, counts, stop) =
            (Acknowledged::default(), Arc::<Counts>::default(), Stop::default());
        let options = Options {
            listen: format!("unix:{}", path.display()).parse().unwrap(),
            acknowledged: acknowledged.clone(),
            rules: Rules { on_bad_line, useless_max: SILENCE },
        };
        let tail = Tail {
            changes: Ledger(acknowledges.then(|| acknowledged.clone())),
            counts: counts.clone(),
            on_gap: OnGap::Stop,
            stop: stop.clone(),
        };
        let thread = guira_sync::thread::spawn(move || run(&options, tail));
        Running { _scratch: scratch, path, acknowledged, counts, stop, thread }
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let connected = Deadline::after(PATIENCE).poll(|| UnixStream::connect(&self.path).ok());
        let stream = connected.expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        BufReader::new(stream)
    }

    fn end(self) {
        self.stop.set();
        self.thread.join().unwrap().unwrap();
    }
}

fn send(sender: &mut BufReader<UnixStream>, line: &str) {
    writeln!(sender.get_mut(), "{line}").unwrap();
}

fn reported(sender: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    sender.read_line(&mut line).unwrap();
    line
}

#[test]
fn a_silent_sender_is_left_when_another_one_comes() {
    let running = Running::start(OnBadLine::Skip, true);
    let mut silent = running.connect();
    let connected = || running.counts.is_connected().then_some(());
    Deadline::after(PATIENCE).poll(connected).expect("the first one is read");
    let mut other = running.connect();
    send(&mut other, r#"{"ts_ms":7}"#);
    assert_eq!(reported(&mut other), "1\n");
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0, "its connection ends");
    running.end();
}

#[test]
fn a_sender_that_says_something_is_not_left() {
    let running = Running::start(OnBadLine::Skip, true);
    let mut first = running.connect();
    send(&mut first, "");
    assert_eq!(reported(&mut first), "1\n");
    let mut other = running.connect();
    send(&mut other, "");
    let clock = Stopwatch::start();
    let mut lines = 1;
    while clock.elapsed() < SILENCE * 3 {
        send(&mut first, "");
        lines += 1;
        assert_eq!(reported(&mut first), format!("{lines}\n"));
    }
    drop(first);
    assert_eq!(reported(&mut other), "1\n");
    running.end();
}

/// Sends these bytes repeatedly until the connection ends.
#[track_caller]
fn is_left_with(mut sender: BufReader<UnixStream>, bytes: &[u8]) {
    sender.get_ref().set_nonblocking(true).unwrap();
    let mut reported = Vec::new();
    let has_ended = || match sender.get_mut().write_all(bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => Some(()),
        // The acknowledgements are read, so that a full socket is not the reason for the end.
        _ => sender.read_to_end(&mut reported).ok().map(drop),
    };
    Deadline::after(PATIENCE).poll(has_ended).expect("it is left");
}

#[test]
fn a_sender_of_bytes_that_are_no_line_is_left_when_another_one_comes() {
    let running = Running::start(OnBadLine::Skip, true);
    let slow = running.connect();
    let connected = || running.counts.is_connected().then_some(());
    Deadline::after(PATIENCE).poll(connected).expect("the first one is read");
    let mut other = running.connect();
    send(&mut other, r#"{"ts_ms":7}"#);
    is_left_with(slow, b"x");
    assert_eq!(reported(&mut other), "1\n");
    running.end();
}

#[test]
fn a_sender_of_lines_that_are_no_change_events_is_left_when_another_one_comes() {
    let running = Running::start(OnBadLine::Skip, true);
    let useless = running.connect();
    let connected = || running.counts.is_connected().then_some(());
    Deadline::after(PATIENCE).poll(connected).expect("the first one is read");
    let mut other = running.connect();
    send(&mut other, r#"{"ts_ms":7}"#);
    is_left_with(useless, b"nonsense\n");
    assert_eq!(reported(&mut other), "1\n");
    running.end();
}

#[test]
fn a_sender_that_does_not_read_sees_the_end_of_its_connection() {
    let running = Running::start(OnBadLine::Skip, true);
    let mut sender = running.connect();
    let has_ended = || sender.get_mut().write_all(b"\n").err();
    Deadline::after(PATIENCE).poll(has_ended).expect("it is left");
    // The next sender counts its lines from 1.
    let mut other = running.connect();
    send(&mut other, "");
    assert_eq!(reported(&mut other), "1\n");
    running.end();
}

#[test]
fn a_sender_that_has_said_all_is_told_what_is_acknowledged_later() {
    let running = Running::start(OnBadLine::Skip, false);
    let mut sender = running.connect();
    send(&mut sender, "\n");
    sender.get_ref().shutdown(Shutdown::Write).unwrap();
    // The two lines of this sender, and no others.
    let is_read = || (running.counts.get(Count::Events) >= 3).then_some(());
    Deadline::after(PATIENCE).poll(is_read).expect("its lines are read");
    for lines in [1, 2] {
        running.acknowledged.set(&format!("1-{lines}"));
        assert_eq!(reported(&mut sender), format!("{lines}\n"));
    }
    assert_eq!(reported(&mut sender), "", "the connection ends");
    running.end();
}

#[test]
fn a_line_that_is_no_event_is_skipped_counted_and_acknowledged() {
    let running = Running::start(OnBadLine::Skip, true);
    let mut sender = running.connect();
    for line in ["{", "{\"id\":1}", "GET / HTTP/1.1", "{\"ts_ms\":7}"] {
        send(&mut sender, line);
    }
    let mut last = String::new();
    while last != "4\n" {
        last = reported(&mut sender);
        assert!(!last.is_empty(), "the connection ended");
    }
    assert_eq!((running.counts.get(Count::SkippedLines), running.counts.get(Count::SourceFailures)), (3, 0));
    assert_eq!(running.counts.useless_lines(u64::MAX), None, "the last one was of use");
    (0..10).for_each(|_| send(&mut sender, "{"));
    let reported = || (running.counts.useless_lines(u64::MAX)?.0 == 10).then_some(());
    Deadline::after(PATIENCE).poll(reported).expect("ten lines of no use");
    running.end();
}

#[test]
fn a_line_that_is_no_event_ends_the_process_if_that_is_wanted() {
    let running = Running::start(OnBadLine::Stop, true);
    let mut sender = running.connect();
    send(&mut sender, "{\"id\":1}");
    let error = running.thread.join().unwrap().unwrap_err();
    assert!(matches!(&error, SourceError::Unsuitable(text) if text.contains("no op")), "{error}");
    assert_eq!(reported(&mut sender), "", "it is not acknowledged");
}
