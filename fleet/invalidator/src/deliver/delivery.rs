//! The thread that delivers batches to one target, again and again until each is acknowledged.

use super::dialect::{DeliveryError, Dialect, Tally, flush};
use crate::batch::{Batch, Work};
use crate::counters::{Health, TargetCount, TargetCounts};
use crate::ledger::Ledger;
use crate::stop::{Stop, Stopped};
use guira_client::text::{Connection, Target, TextError};
use guira_sync::clock::Stopwatch;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long it is waited before the next attempt: the first time, and at most.
const WAIT_MIN: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A target, and what it is to be given.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Its number in the ledger.
    pub(crate) number: usize,
    pub(crate) target: Target,
    pub(crate) dialect: Dialect,
    /// What is put before each key.
    pub(crate) prefix: String,
    pub(crate) batches: Receiver<Arc<Batch>>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) counts: Arc<TargetCounts>,
    pub(crate) stop: Stop,
}

impl Delivery {
    /// Delivers until there are no more batches, or it is told to stop.
    pub(crate) fn run(self) {
        let mut connection = None;
        while let Ok(batch) = self.batches.recv() {
            if self.stop.check().is_err() || self.deliver(&batch, &mut connection).is_err() {
                return;
            }
            self.ledger.acknowledged(self.number, batch.number());
        }
    }

    fn deliver(&self, batch: &Batch, connection: &mut Option<Connection>) -> Result<(), Stopped> {
        if matches!(batch.work(), Work::Delete(keys) if keys.is_empty()) {
            return Ok(());
        }
        let since = Stopwatch::start();
        let (mut wait, mut failures) = (WAIT_MIN, 0);
        loop {
            let was_open = connection.is_some();
            match self.attempt(batch, connection) {
                Ok(tally) => {
                    self.count(tally);
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

    fn attempt(&self, batch: &Batch, connection: &mut Option<Connection>) -> Result<Tally, DeliveryError> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(Connection::open(&self.target)?),
        };
        match batch.work() {
            Work::Delete(keys) => {
                let mut requests = Vec::new();
                self.dialect.write(&self.prefix, keys, &mut requests);
                connection.send(&requests)?;
                self.dialect.read(connection, keys.len())
            }
            Work::Flush => flush(connection).map(|()| Tally::default()),
        }
    }

    fn count(&self, tally: Tally) {
        self.counts.set_up(Health::Up);
        self.counts.add(TargetCount::Batches, 1);
        self.counts.add(TargetCount::Deletes, tally.hits + tally.misses);
        self.counts.add(TargetCount::Hits, tally.hits);
        if tally.rejected > 0 {
            self.counts.add(TargetCount::Rejected, tally.rejected);
            let (name, rejected) = (self.counts.name(), tally.rejected);
            tracing::error!("target {name} takes {rejected} deletes for wrong: they are dropped");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_harness::deadline::Deadline;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{SyncSender, sync_channel};
    use std::thread::JoinHandle;

    const PATIENCE: Duration = Duration::from_secs(20);

    struct Running {
        outlet: Option<SyncSender<Arc<Batch>>>,
        ledger: Arc<Ledger>,
        counts: Arc<TargetCounts>,
        stop: Stop,
        thread: JoinHandle<()>,
    }

    impl Running {
        fn start(address: &str, dialect: Dialect) -> Self {
            let (outlet, batches) = sync_channel(4);
            let target = Target::new(address.parse().unwrap(), PATIENCE);
            let ledger = Arc::new(Ledger::new(1));
            let counts = Arc::new(TargetCounts::new("east"));
            let stop = Stop::default();
            let delivery = Delivery {
                number: 0,
                target,
                dialect,
                prefix: String::new(),
                batches,
                ledger: ledger.clone(),
                counts: counts.clone(),
                stop: stop.clone(),
            };
            let thread = std::thread::spawn(|| delivery.run());
            Running { outlet: Some(outlet), ledger, counts, stop, thread }
        }

        fn send(&self, number: u64, keys: &[&str]) {
            self.ledger.sent(number, 7, Some(number.to_string()));
            self.outlet.as_ref().unwrap().send(Arc::new(Batch::new(number, keys))).unwrap();
        }

        fn wait_for(&self, position: &str) {
            let taken = Deadline::after(PATIENCE)
                .poll(|| self.ledger.take(Duration::ZERO).filter(|taken| taken == position));
            assert!(taken.is_some(), "no position {position}");
        }

        fn end(mut self) {
            self.outlet = None;
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
        running.send(1, &["a", "b", "c"]);
        running.send(2, &[]);
        let (stream, _) = listener.accept().unwrap();
        let told = serve(&stream, 4, "HD\r\nNF\r\n");
        assert_eq!(told, ["md a", "md b", "md c", "mn"]);
        assert_eq!(running.ledger.take(Duration::ZERO), None);
        serve(&stream, 0, "CLIENT_ERROR too long\r\nMN\r\n");
        running.wait_for("2");
        let count = |counter| running.counts.get(counter);
        assert_eq!((count(TargetCount::Deletes), count(TargetCount::Hits)), (2, 1));
        assert_eq!((count(TargetCount::Rejected), count(TargetCount::Batches)), (1, 1));
        running.end();
    }

    #[test]
    fn a_target_is_flushed_until_it_says_so() {
        let (listener, address) = listen();
        let running = Running::start(&address, Dialect::Meta);
        running.ledger.sent(1, 7, Some("1".to_owned()));
        let flush = Arc::new(Batch::flush(1));
        running.outlet.as_ref().unwrap().send(flush).unwrap();
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
        running.send(1, &["a", "b"]);
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
            running.send(number, &["a"]);
            let (stream, _) = listener.accept().unwrap();
            serve(&stream, 1, "DELETED\r\n");
            running.wait_for(&number.to_string());
        }
        assert_eq!(running.counts.get(TargetCount::Failures), 0);
        running.end();
    }

    #[test]
    fn a_target_that_is_away_does_not_hold_up_the_end() {
        let (listener, address) = listen();
        drop(listener);
        let running = Running::start(&address, Dialect::Meta);
        running.send(1, &["a"]);
        let failed = || (running.counts.get(TargetCount::Failures) > 0).then_some(());
        Deadline::after(PATIENCE).poll(failed).expect("an attempt");
        assert!(!running.counts.is_up());
        running.stop.set();
        running.end();
    }
}
