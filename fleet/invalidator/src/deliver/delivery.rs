//! The thread that delivers batches to one target, again and again until each is acknowledged.

use super::dialect::{DeliveryError, Dialect, How, PROBE, Tally, flush};
use super::lane::{Lane, Round, Task};
use crate::batch::Work;
use crate::counters::{Health, TargetCount, TargetCounts};
use guira_client::text::{Connection, TextError};
use guira_databases::{Stop, Stopped, Way};
use guira_sync::clock::Stopwatch;
use std::sync::Arc;
use std::time::Duration;

/// How long it is waited before the next attempt: the first time, and at most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Where deletes of a target go, and flushes.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    pub(crate) deletes: Way,
    /// All of them.
    pub(crate) flushes: Vec<Way>,
}

/// A target, and what it is to be given.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) lane: Arc<Lane>,
    pub(crate) ways: Ways,
    pub(crate) dialect: Dialect,
    pub(crate) how: How,
    pub(crate) counts: Arc<TargetCounts>,
    pub(crate) stop: Stop,
}

/// Whoever fills a lane is told when nobody empties it any more, also after a panic.
struct End<'a>(&'a Lane);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Delivery {
    /// Delivers until the lane ends, or it is told to stop.
    pub(crate) fn run(self) {
        let _end = End(&self.lane);
        let mut connection = None;
        while let Some(task) = self.lane.next() {
            if self.stop.check().is_err() || self.deliver(&task, &mut connection).is_err() {
                return;
            }
            self.lane.delivered(&task);
        }
    }

    fn deliver(&self, task: &Task, connection: &mut Option<Connection>) -> Result<(), Stopped> {
        if task.batches.iter().all(|batch| batch.is_empty()) {
            return Ok(());
        }
        let since = Stopwatch::start();
        let (mut wait, mut failures) = (WAIT_MIN, 0);
        loop {
            let was_open = connection.is_some();
            match self.attempt(task, connection) {
                Ok(tally) => {
                    self.count(task, tally);
                    if failures > 0 {
                        let seconds = since.elapsed().as_secs_f64();
                        tracing::warn!("target {} is back after {seconds:.1} s", self.counts.name());
                    }
                    return Ok(());
                }
                Err(error) => {
                    *connection = None;
                    // The target may have closed it long ago, since it was not used.
                    let is_broken =
                        matches!(error, DeliveryError::Connection(TextError::Closed | TextError::Io(_)));
                    if was_open && failures == 0 && is_broken {
                        continue;
                    }
                    failures += 1;
                    self.counts.add(TargetCount::Failures, 1);
                    self.counts.set_up(Health::Away);
                    if failures == 1 {
                        tracing::warn!("target {} does not take deletes: {error}", self.counts.name());
                    }
                }
            }
            self.stop.wait(wait)?;
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    fn attempt(&self, task: &Task, connection: &mut Option<Connection>) -> Result<Tally, DeliveryError> {
        if task.batches.iter().any(|batch| matches!(batch.work(), Work::Flush)) {
            // Rare, and of several servers: none of them needs a connection that stays.
            self.ways.flushes.iter().try_for_each(|way| flush(&mut way.connect()?))?;
            return Ok(Tally::default());
        }
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(self.ways.deletes.connect()?),
        };
        let keys = task.batches.iter().filter_map(|batch| match batch.work() {
            Work::Delete(keys) => Some(keys),
            Work::Flush => None,
        });
        let tally = self.ask(connection, keys.flatten())?;
        // A target that takes every delete for wrong has not been told anything: nothing may be dropped.
        if tally.rejected > 0 && self.ask(connection, [&PROBE.into()].into_iter())?.rejected > 0 {
            return Err(DeliveryError::AllRejected);
        }
        Ok(tally)
    }

    fn ask<'a>(
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

    fn count(&self, task: &Task, tally: Tally) {
        let add = |counter, count| self.counts.add(counter, count);
        self.counts.set_up(Health::Up);
        let [deletes, hits] = match task.round {
            Round::First(_) => [TargetCount::Deletes, TargetCount::Hits],
            Round::Again => [TargetCount::Again, TargetCount::AgainHits],
        };
        add(deletes, tally.hits + tally.misses);
        add(hits, tally.hits);
        if matches!(task.round, Round::First(_)) {
            add(TargetCount::Batches, task.batches.iter().filter(|batch| !batch.is_empty()).count() as u64);
        }
        if tally.rejected > 0 {
            add(TargetCount::Rejected, tally.rejected);
            let (name, rejected) = (self.counts.name(), tally.rejected);
            tracing::error!("target {name} takes {rejected} deletes for wrong: they are dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::deliver::lane::Limits;
    use crate::ledger::Ledger;
    use guira_databases::Security;
    use guira_harness::deadline::Deadline;
    use guira_harness::port::nobody;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::JoinHandle;

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
            let way = Way {
                endpoint: address.parse().unwrap(),
                timeout: PATIENCE,
                security: Security::Plain,
                login_file: None,
            };
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
                ways: Ways { deletes: way.clone(), flushes: vec![way] },
                dialect,
                how: How::default(),
                counts: counts.clone(),
                stop: stop.clone(),
            };
            let thread = std::thread::spawn(|| delivery.run());
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

    /// Reads so many lines, and answers with `answers`.
    fn serve(stream: &TcpStream, lines: usize, answers: &str) -> Vec<String> {
        let mut reader = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let told = (0..lines).map(|_| line()).collect();
        let mut writer = stream;
        writer.write_all(answers.as_bytes()).unwrap();
        told
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
        let told = serve(&stream, 4, "HD\r\nNF\r\n");
        assert_eq!(told, ["md a", "md b", "md c", "mn"]);
        assert_eq!(running.ledger.take(Duration::ZERO), None);
        serve(&stream, 0, "CLIENT_ERROR too long\r\nMN\r\n");
        running.delete(2, &[]);
        assert_eq!(serve(&stream, 2, "NF\r\nMN\r\n"), ["md guira-invalidator", "mn"]);
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
        for asked in ["delete a", "delete guira-invalidator"] {
            assert_eq!(serve(&stream, 1, "CLIENT_ERROR unauthenticated\r\n"), [asked]);
        }
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(serve(&stream, 1, "DELETED\r\n"), ["delete a"]);
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
        for answer in ["ERROR\r\n", "OK\r\n"] {
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(serve(&stream, 1, answer), ["flush_all"]);
        }
        running.wait_for("1");
        assert_eq!(running.counts.get(TargetCount::Failures), 1);
        running.end();
    }

    #[test]
    fn a_batch_that_fails_is_sent_again_as_a_whole() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Classic);
        running.delete(1, &["a", "b"]);
        for answers in ["DELETED\r\nSERVER_ERROR timeout\r\n", "DELETED\r\n", "HD\r\n", ""] {
            let (stream, _) = listener.accept().unwrap();
            assert_eq!(serve(&stream, 2, answers), ["delete a", "delete b"], "before {answers}");
        }
        let (stream, _) = listener.accept().unwrap();
        serve(&stream, 2, "NOT_FOUND\r\nDELETED\r\n");
        running.wait_for("1");
        assert_eq!(running.counts.get(TargetCount::Failures), 4);
        assert!(running.counts.is_up());
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
        let running = Running::start(&nobody().to_string(), Dialect::Meta);
        running.delete(1, &["a"]);
        let failed = || (running.counts.get(TargetCount::Failures) > 0).then_some(());
        Deadline::after(PATIENCE).poll(failed).expect("an attempt");
        assert!(!running.counts.is_up());
        running.stop.set();
        running.end();
    }
}
