//! The thread that delivers batches to one target, again and again until each is acknowledged.

use super::dialect::{DeliveryError, Dialect, How, KEY_MAX, PROBE, Tally, flush};
use super::lane::{Lane, Round, Task};
use super::patience::Patience;
use crate::batch::Work;
use crate::counters::{Flushed, Health, TargetCount, TargetCounts};
use guira_client::text::{Connection, Target, TextError};
use guira_sql::reload;
use guira_sync::clock::Stopwatch;
use guira_sync::simulated::{is_planted, sometimes};
use guira_sync::stop::{Stop, Stopped};
use std::sync::Arc;
use std::time::Duration;

/// The backoff between attempts: its start and its end.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The backoff ends here for a target that sends no reply. A target may answer a probe and then
/// none of a batch; without a wait it would be sent whole batches all the time.
const SILENT_WAIT_MAX: Duration = Duration::from_secs(1);

/// This many probes a tenth of a second apart take a minute.
const OFTEN: usize = 600;

/// The server that is sent a target's deletes, and those that are sent its flushes.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub(crate) deletes: Target,
    pub(crate) flushes: Vec<Target>,
}

/// Connects with the current certificate files.
fn connect(server: &Target) -> Result<Connection, TextError> {
    server.connector().map(reload);
    Connection::open(server)
}

/// The state of the thread that delivers to one target.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) lane: Arc<Lane>,
    pub(crate) ways: Ways,
    pub(crate) dialect: Dialect,
    pub(crate) how: How,
    pub(crate) counts: Arc<TargetCounts>,
    /// The time for which keys are sent again that the target rejects while it accepts others.
    pub(crate) patience: Duration,
    pub(crate) stop: Stop,
}

/// Ends the lane on drop, also after a panic, so that the reader does not wait for a full queue
/// that no thread empties.
struct End<'a>(&'a Lane);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Delivery {
    /// Delivers until the lane ends or the invalidator stops.
    pub(crate) fn run(self) {
        let _end = End(&self.lane);
        let mut connection = None;
        let mut patience = Patience::new(self.patience);
        while let Some(task) = self.lane.next() {
            if self.stop.check().is_err() || self.deliver(&task, &mut connection, &mut patience).is_err() {
                return;
            }
            self.lane.delivered(&task);
        }
    }

    fn deliver(
        &self,
        task: &Task,
        connection: &mut Option<Connection>,
        patience: &mut Patience,
    ) -> Result<(), Stopped> {
        if task.batches.iter().all(|batch| batch.is_empty()) {
            return Ok(());
        }
        let since = Stopwatch::start();
        let (mut backoff, mut failures) = (Backoff::default(), 0);
        loop {
            let was_open = connection.is_some();
            match self.attempt(task, connection).and_then(|tally| tally.checked(patience)) {
                Ok(tally) => {
                    patience.end(!tally.rejected.is_empty());
                    self.count(task, &tally);
                    if failures > 0 {
                        let seconds = since.elapsed().as_secs_f64();
                        // Operator: Nothing: spooled deletes are sent now.
                        tracing::warn!(
                            "target {} accepts deletes again after {seconds:.1} s",
                            self.counts.name()
                        );
                    }
                    return Ok(());
                }
                Err(_) if is_planted("failed-delivery-acknowledged") => {
                    *connection = None;
                    return Ok(());
                }
                Err(error) => {
                    *connection = None;
                    // The target may have closed an idle connection; that is no failure.
                    let is_broken =
                        matches!(error, DeliveryError::Connection(TextError::Closed | TextError::Io(_)));
                    if was_open && failures == 0 && is_broken {
                        continue;
                    }
                    sometimes("delivery-failed");
                    failures += 1;
                    self.report(task, &error, failures);
                    self.stop.wait(backoff.after(&error))?;
                    if error.is_silence() && !is_flush(task) {
                        *connection = self.wait_for_answer()?;
                    }
                }
            }
        }
    }

    /// Counts and logs a failed attempt.
    fn report(&self, task: &Task, error: &DeliveryError, failures: u32) {
        self.counts.add(TargetCount::Failures, 1);
        self.counts.set_up(Health::Down);
        if is_flush(task) {
            self.counts.set_flushed(Flushed::Refused);
        }
        if failures == 1 {
            // Operator: Check that the target answers and that its login is right. Cached values stay old
            // until then.
            tracing::warn!("target {} does not accept deletes; retrying: {error}", self.counts.name());
        }
    }

    /// Waits until the target replies to a delete of a key that does not exist. Probes are
    /// frequent, since the target may be up for a moment only, and no whole batch is sent to a
    /// target that is down.
    fn wait_for_answer(&self) -> Result<Option<Connection>, Stopped> {
        for wait in waits_for_answer() {
            let result =
                connect(&self.ways.deletes).map_err(DeliveryError::from).and_then(|mut connection| {
                    self.exchange(&mut connection, [&PROBE.into()].into_iter()).map(|_| connection)
                });
            match result {
                Ok(connection) => return Ok(Some(connection)),
                // After an unexpected reply others may follow on this connection, so a new one is
                // opened.
                Err(error) if !error.is_silence() => return Ok(None),
                Err(_) => self.stop.wait(wait)?,
            }
        }
        Ok(None)
    }

    fn attempt(&self, task: &Task, connection: &mut Option<Connection>) -> Result<Tally, DeliveryError> {
        if is_flush(task) {
            // Flushes are rare and go to several servers: no connection is kept for them.
            self.ways.flushes.iter().try_for_each(|server| flush(&mut connect(server)?))?;
            return Ok(Tally::default());
        }
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(connect(&self.ways.deletes)?),
        };
        let keys: Vec<&Box<[u8]>> = keys(task).filter(|key| self.how.takes(key)).collect();
        let tally = self.exchange(connection, keys.iter().copied())?;
        if tally.rejected.is_empty() {
            return Ok(tally);
        }
        // If the target rejects the probe too, it rejects all deletes, and nothing may be dropped.
        if !self.exchange(connection, [&PROBE.into()].into_iter())?.rejected.is_empty() {
            return Err(DeliveryError::AllRejected);
        }
        if is_planted("rejected-once-dropped") {
            return Ok(tally);
        }
        // It may have rejected all a moment ago, and none any more.
        let again = self.exchange(connection, tally.rejected.iter().map(|place| keys[*place]))?;
        let (hits, misses) = (tally.hits + again.hits, tally.misses + again.misses);
        Ok(Tally { hits, misses, rejected: again.rejected })
    }

    fn exchange<'a>(
        &self,
        connection: &mut Connection,
        keys: impl Iterator<Item = &'a Box<[u8]>>,
    ) -> Result<Tally, DeliveryError> {
        let mut requests = Vec::new();
        let count = self.dialect.write(&self.how, keys, &mut requests);
        connection.send(&requests)?;
        self.counts.add(TargetCount::Packets, 1);
        self.dialect.read(connection, count)
    }

    fn count(&self, task: &Task, tally: &Tally) {
        let add = |counter, count| self.counts.add(counter, count);
        self.counts.set_up(Health::Up);
        if is_flush(task) {
            self.counts.set_flushed(Flushed::Done);
        }
        let [deletes, hits] = match task.round {
            Round::First(_) => [TargetCount::Deletes, TargetCount::Hits],
            Round::Again => [TargetCount::Again, TargetCount::AgainHits],
        };
        add(deletes, tally.hits + tally.misses);
        add(hits, tally.hits);
        if matches!(task.round, Round::First(_)) {
            add(TargetCount::Batches, task.batches.iter().filter(|batch| !batch.is_empty()).count() as u64);
        }
        if !tally.rejected.is_empty() {
            let (name, rejected) = (self.counts.name(), tally.rejected.len() as u64);
            add(TargetCount::Rejected, rejected);
            // Operator: Check the target's version and the keys. The cached values of these keys stay old
            // until they expire.
            tracing::error!("target {name} rejected {rejected} deletes with CLIENT_ERROR; dropped");
        }
        if matches!(task.round, Round::First(_)) {
            self.report_long(task);
        }
    }

    /// Logs keys that are too long with the target's prefix. A cache may still have them, through
    /// clients that use no prefix.
    fn report_long(&self, task: &Task) {
        let mut long = keys(task).filter(|key| !self.how.takes(key));
        let Some(example) = long.next() else { return };
        let count = 1 + long.count() as u64;
        self.counts.add(TargetCount::Rejected, count);
        // Operator: Shorten the target's `prefix` or the keys; delete the named keys by hand.
        tracing::error!(
            "target {}: {count} keys exceed {KEY_MAX} bytes with its prefix {}; their cached values were \
                 not deleted: {}",
            self.counts.name(),
            self.how.prefix,
            example.escape_ascii()
        );
    }
}

/// The waits between probes: a tenth of a second in the first minute, then a second.
fn waits_for_answer() -> impl Iterator<Item = Duration> {
    std::iter::repeat_n(WAIT_MIN, OFTEN).chain(std::iter::repeat(SILENT_WAIT_MAX))
}

fn is_flush(task: &Task) -> bool {
    task.batches.iter().any(|batch| matches!(batch.work(), Work::Flush))
}

fn keys(task: &Task) -> impl Iterator<Item = &Box<[u8]>> {
    let keys = task.batches.iter().filter_map(|batch| match batch.work() {
        Work::Delete(keys) => Some(keys),
        Work::Flush => None,
    });
    keys.flatten()
}

/// The wait after a failed attempt; doubles with each.
#[derive(Debug)]
struct Backoff {
    wait: Duration,
    was_silent: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { wait: WAIT_MIN, was_silent: false }
    }
}

impl Backoff {
    /// The wait after this error. The backoff starts again with the first reply of a silent target.
    fn after(&mut self, error: &DeliveryError) -> Duration {
        let is_silent = error.is_silence();
        if self.was_silent && !is_silent {
            self.wait = WAIT_MIN;
        }
        self.was_silent = is_silent;
        let most = if is_silent { SILENT_WAIT_MAX } else { WAIT_MAX };
        let wait = self.wait.min(most);
        self.wait = (wait * 2).min(most);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::deliver::lane::Limits;
    use crate::ledger::Ledger;
    use guira_harness::deadline::Deadline;
    use guira_harness::port::{Port, refusing_address};
    use guira_sync::thread::JoinHandle;
    use guira_transport::net::{TcpListener, TcpStream};
    use std::io::{BufRead, BufReader, Write};

    const PATIENCE: Duration = Duration::from_secs(20);

    struct Running {
        lane: Arc<Lane>,
        ledger: Arc<Ledger>,
        counts: Arc<TargetCounts>,
        stop: Stop,
        thread: JoinHandle<()>,
    }

    impl Running {
        fn start(address: &str, dialect: Dialect) -> Self {
            Running::start_with(address, dialect, None)
        }

        fn start_with(address: &str, dialect: Dialect, again_after: Option<Duration>) -> Self {
            Running::start_how(address, dialect, again_after, How::default())
        }

        fn start_how(address: &str, dialect: Dialect, again_after: Option<Duration>, how: How) -> Self {
            Running::start_patient(address, dialect, again_after, how, Duration::ZERO)
        }

        fn start_patient(
            address: &str,
            dialect: Dialect,
            again_after: Option<Duration>,
            how: How,
            patience: Duration,
        ) -> Self {
            let server = Target::new(address.parse().unwrap(), PATIENCE);
            let ledger = Arc::new(Ledger::new(1));
            let counts = Arc::new(TargetCounts::new("east"));
            let stop = Stop::default();
            let limits = Limits {
                batch_keys: 100,
                queue_weight: 100,
                linger: Duration::ZERO,
                again_after,
                spool_after: PATIENCE,
            };
            let lane = Arc::new(Lane::new(0, limits, None, ledger.clone(), counts.clone()));
            let delivery = Delivery {
                lane: lane.clone(),
                ways: Ways { deletes: server.clone(), flushes: vec![server] },
                dialect,
                how,
                counts: counts.clone(),
                patience,
                stop: stop.clone(),
            };
            let thread = guira_sync::thread::spawn(|| delivery.run());
            Running { lane, ledger, counts, stop, thread }
        }

        fn send(&self, number: u64, work: Work) {
            self.ledger.sent(number, 7, Some(number.to_string()));
            self.lane.push(&Arc::new(Batch::new(number, work))).unwrap();
        }

        fn delete(&self, number: u64, keys: &[&str]) {
            self.send(number, Work::Delete(keys.iter().map(|key| key.as_bytes().into()).collect()));
        }

        fn wait_for(&self, position: &str) {
            let taken = Deadline::after(PATIENCE)
                .poll(|| self.ledger.take(Duration::ZERO).filter(|taken| taken == position));
            assert!(taken.is_some(), "no position {position}");
        }

        fn end(self) {
            self.lane.end();
            self.thread.join().unwrap();
        }
    }

    /// Reads this many lines, and sends `answers`.
    fn serve(stream: &TcpStream, lines: usize, answers: &str) -> Vec<String> {
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let received = (0..lines).map(|_| line()).collect();
        let mut writer = stream;
        writer.write_all(answers.as_bytes()).unwrap();
        received
    }

    fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, address)
    }

    #[test]
    fn a_batch_is_acknowledged_once_all_answers_are_there() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Meta);
        running.delete(1, &["a", "b", "c"]);
        let (stream, _) = listener.accept().unwrap();
        let received = serve(&stream, 4, "HD\r\nNF\r\n");
        assert_eq!(received, ["md a", "md b", "md c", "mn"]);
        assert_eq!(running.ledger.take(Duration::ZERO), None);
        serve(&stream, 0, "CLIENT_ERROR too long\r\nMN\r\n");
        running.delete(2, &[]);
        assert_eq!(serve(&stream, 2, "NF\r\nMN\r\n"), ["md guira-invalidator", "mn"]);
        assert_eq!(serve(&stream, 2, "CLIENT_ERROR too long\r\nMN\r\n"), ["md c", "mn"]);
        running.wait_for("2");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Deletes), count(TargetCount::Hits)), (2, 1));
        assert_eq!((count(TargetCount::Rejected), count(TargetCount::Batches)), (1, 1));
        running.end();
    }

    #[test]
    fn a_target_that_takes_everything_for_wrong_is_asked_again() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Classic);
        running.delete(1, &["a"]);
        let (stream, _) = listener.accept().unwrap();
        for result in ["delete a", "delete guira-invalidator"] {
            assert_eq!(serve(&stream, 1, "CLIENT_ERROR unauthenticated\r\n"), [result]);
        }
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(serve(&stream, 1, "DELETED\r\n"), ["delete a"]);
        running.wait_for("1");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Rejected), count(TargetCount::Failures)), (0, 1));
        running.end();
    }

    #[test]
    fn what_was_rejected_before_a_target_accepted_deletes_is_sent_again() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Classic);
        running.delete(1, &["a", "b"]);
        let (stream, _) = listener.accept().unwrap();
        let rejections = "NOT_FOUND\r\nCLIENT_ERROR unauthenticated\r\n";
        assert_eq!(serve(&stream, 2, rejections), ["delete a", "delete b"]);
        assert_eq!(serve(&stream, 1, "NOT_FOUND\r\n"), ["delete guira-invalidator"]);
        assert_eq!(serve(&stream, 1, "DELETED\r\n"), ["delete b"]);
        running.wait_for("1");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Deletes), count(TargetCount::Hits)), (2, 1));
        assert_eq!(count(TargetCount::Rejected), 0);
        running.end();
    }

    #[test]
    fn keys_that_are_rejected_while_others_are_accepted_are_sent_again_for_a_while() {
        let (listener, address) = listen();
        let (dialect, how) = (Dialect::Classic, How::default());
        let running = Running::start_patient(&address, dialect, None, how, PATIENCE);
        running.delete(1, &["a", "b"]);
        let (stream, _) = listener.accept().unwrap();
        let rejections = "NOT_FOUND\r\nCLIENT_ERROR unauthenticated\r\n";
        assert_eq!(serve(&stream, 2, rejections), ["delete a", "delete b"]);
        assert_eq!(serve(&stream, 1, "NOT_FOUND\r\n"), ["delete guira-invalidator"]);
        assert_eq!(serve(&stream, 1, "CLIENT_ERROR unauthenticated\r\n"), ["delete b"]);
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(running.ledger.take(Duration::ZERO), None);
        assert_eq!(serve(&stream, 2, "NOT_FOUND\r\nDELETED\r\n"), ["delete a", "delete b"]);
        running.wait_for("1");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Rejected), count(TargetCount::Failures)), (0, 1));
        running.end();
    }

    #[test]
    fn a_batch_is_acknowledged_once_it_was_delivered_for_the_second_time() {
        let (listener, address) = listen();
        let running = Running::start_with(&address, Dialect::Classic, Some(Duration::from_millis(1)));
        running.delete(1, &["a"]);
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(serve(&stream, 1, "NOT_FOUND\r\n"), ["delete a"]);
        assert_eq!(serve(&stream, 1, ""), ["delete a"]);
        assert_eq!(running.ledger.take(Duration::ZERO), None);
        serve(&stream, 0, "DELETED\r\n");
        running.wait_for("1");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Deletes), count(TargetCount::Hits)), (1, 0));
        assert_eq!((count(TargetCount::Again), count(TargetCount::AgainHits)), (1, 1));
        running.end();
    }

    #[test]
    fn a_target_is_flushed_until_it_says_so() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Meta);
        running.send(1, Work::Flush);
        for (answer, refuses) in [("ERROR\r\n", false), ("OK\r\n", true)] {
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(running.counts.refuses_flush(), refuses);
            assert_eq!(serve(&stream, 1, answer), ["flush_all"]);
        }
        running.wait_for("1");
        assert!(!running.counts.refuses_flush());
        assert_eq!(running.counts.get(TargetCount::Failures), 1);
        running.end();
    }

    #[test]
    fn a_batch_that_fails_is_sent_again_as_a_whole() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Classic);
        running.delete(1, &["a", "b"]);
        let keys = ["delete a", "delete b"];
        let accept = || listener.accept().unwrap().0;
        // The target has replied: all deletes are sent again.
        assert_eq!(serve(&accept(), 2, "DELETED\r\nSERVER_ERROR timeout\r\n"), keys);
        assert_eq!(serve(&accept(), 2, "DELETED\r\n"), keys);
        // The target has closed the connection: a probe is sent first.
        let stream = accept();
        assert_eq!(serve(&stream, 1, "NOT_FOUND\r\n"), ["delete guira-invalidator"]);
        assert_eq!(serve(&stream, 2, "HD\r\n"), keys);
        assert_eq!(serve(&accept(), 2, ""), keys);
        let stream = accept();
        assert_eq!(serve(&stream, 1, "NOT_FOUND\r\n"), ["delete guira-invalidator"]);
        assert_eq!(serve(&stream, 2, "NOT_FOUND\r\nDELETED\r\n"), keys);
        running.wait_for("1");
        assert_eq!(running.counts.get(TargetCount::Failures), 4);
        assert!(running.counts.is_up());
        running.end();
    }

    #[test]
    fn a_target_that_was_away_is_found_as_soon_as_it_is_back() {
        let port = Port::hold().unwrap();
        let running = Running::start(&port.address().to_string(), Dialect::Classic);
        running.delete(1, &["a"]);
        let clock = Stopwatch::start();
        // A backoff that still grew would have attempts seconds apart by now.
        let is_long = || (clock.elapsed() > Duration::from_millis(3300)).then_some(());
        Deadline::after(PATIENCE).poll(is_long).expect("time passes");
        let listener = port.listen().unwrap();
        let clock = Stopwatch::start();
        let (stream, _) = listener.accept().unwrap();
        assert!(clock.elapsed() < Duration::from_secs(1), "{:?}", clock.elapsed());
        assert_eq!(serve(&stream, 1, "NOT_FOUND\r\n"), ["delete guira-invalidator"]);
        assert_eq!(serve(&stream, 1, "DELETED\r\n"), ["delete a"]);
        running.wait_for("1");
        assert_eq!(running.counts.get(TargetCount::Failures), 1);
        running.end();
    }

    #[test]
    fn a_target_that_is_away_for_long_is_asked_less_often() {
        let minute: Duration = waits_for_answer().take(OFTEN).sum();
        assert_eq!(minute, Duration::from_secs(60));
        assert_eq!(waits_for_answer().nth(OFTEN), Some(Duration::from_secs(1)));
    }

    #[test]
    fn waits_become_longer_and_begin_anew_with_the_first_answer() {
        let (silence, answer) = (DeliveryError::Connection(TextError::Closed), DeliveryError::AllRejected);
        let mut backoff = Backoff::default();
        let mut waits = |errors: &[&DeliveryError]| -> Vec<u128> {
            errors.iter().map(|error| backoff.after(error).as_millis()).collect()
        };
        assert_eq!(waits(&[&silence; 6]), [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(waits(&[&answer; 7]), [100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(waits(&[&answer, &silence]), [5000, 1000]);
    }

    #[test]
    fn keys_that_are_too_long_with_the_prefix_are_counted_and_the_others_deleted() {
        let (listener, address) = listen();
        let how = How { prefix: "/*/*/".to_owned(), hold_off_s: None };
        let running = Running::start_how(&address, Dialect::Classic, None, how);
        let (long, fits) = ("k".repeat(246), "k".repeat(245));
        running.delete(1, &["a", &fits, &long]);
        let (stream, _) = listener.accept().unwrap();
        let received = serve(&stream, 2, "DELETED\r\nNOT_FOUND\r\n");
        assert_eq!(received, ["delete /*/*/a".to_owned(), format!("delete /*/*/{fits}")]);
        running.wait_for("1");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Deletes), count(TargetCount::Rejected)), (2, 1));
        running.end();
    }

    #[test]
    fn a_connection_that_was_closed_meanwhile_is_no_failure() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Classic);
        for number in 1..4 {
            running.delete(number, &["a"]);
            let (stream, _) = listener.accept().unwrap();
            serve(&stream, 1, "DELETED\r\n");
            running.wait_for(&number.to_string());
        }
        assert_eq!(running.counts.get(TargetCount::Failures), 0);
        running.end();
    }

    #[test]
    fn a_target_that_is_away_does_not_hold_up_the_end() {
        let running = Running::start(&refusing_address().to_string(), Dialect::Meta);
        running.delete(1, &["a"]);
        let failed = || (running.counts.get(TargetCount::Failures) > 0).then_some(());
        Deadline::after(PATIENCE).poll(failed).expect("an attempt");
        assert!(!running.counts.is_up());
        running.stop.set();
        running.end();
    }
}
