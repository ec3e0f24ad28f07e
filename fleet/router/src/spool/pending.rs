//! The failed deletes of a worker, until they are logged.

use super::counts::{LogCount, LogCounts};
use super::entry::{Author, Entry, LogVersion};
use super::writer::{Batch, Order, Orders, Written};
use crate::ticket::Ticket;
use crate::upstream::Undelivered;
use guira_routing::config::Address;
use guira_routing::{DestinationId, Destinations, Origin, Outcome};
use guira_sync::clock::{Stopwatch, wall_clock_millis};
use guira_transport::Mailbox;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) struct LogAccess {
    pub(crate) version: LogVersion,
    pub(crate) author: Author,
    pub(crate) orders: Orders,
    pub(crate) counts: Arc<LogCounts>,
}

/// The limit of bytes of a worker that wait to be written; further deletes fail as if they could
/// not be logged.
const WAITING_MAX: usize = 8 << 20;
/// The bytes of a delete in addition to its line.
const EACH: usize = 128;

#[derive(Debug)]
pub(crate) struct DeleteLog {
    access: LogAccess,
    /// By number, in the syntax of the configuration in use.
    servers: Vec<Address>,
    names: Vec<Arc<str>>,
    present: Round,
    /// The batches that were sent to the thread, in order.
    sent: VecDeque<Sent>,
    written: Arc<Mailbox<Written>>,
    waiting: usize,
    /// Deletes beyond the limit. They are answered later, like others that could not be written.
    refused: Vec<Waiting>,
}

#[derive(Debug, Default)]
struct Round {
    lines: Vec<u8>,
    servers: HashSet<Address>,
    waiting: Vec<Waiting>,
}

#[derive(Debug)]
struct Sent {
    waiting: Vec<Waiting>,
    bytes: usize,
}

/// A request that waits for its delete to be logged.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) origin: Origin<Ticket>,
    /// The server's failure.
    pub(crate) why: Outcome,
    /// The miss line of a meta command; empty for a classic one.
    pub(crate) reply: Box<[u8]>,
}

impl DeleteLog {
    pub(crate) fn new(access: LogAccess) -> io::Result<Self> {
        Ok(DeleteLog {
            access,
            servers: Vec::new(),
            names: Vec::new(),
            present: Round::default(),
            sent: VecDeque::new(),
            written: Arc::new(Mailbox::new()?),
            waiting: 0,
            refused: Vec::new(),
        })
    }

    /// The mailbox that receives the results of writes.
    pub(crate) fn mailbox(&self) -> &Mailbox<Written> {
        &self.written
    }

    /// Uses the numbers of a new configuration from now on. Earlier deletes keep their server.
    pub(crate) fn take_names(&mut self, all: &Destinations) {
        self.servers = all.specs().iter().map(|spec| spec.address.clone()).collect();
        self.names = all.logs().to_vec();
    }

    /// Logs a delete at the end of the round, or fails it if too many bytes wait. [`Self::settled`]
    /// returns the result.
    pub(crate) fn take(
        &mut self,
        server: DestinationId,
        delete: Undelivered,
        origin: Origin<Ticket>,
        why: Outcome,
    ) {
        self.access.counts.add(LogCount::Requests, 1);
        let waiting = Waiting { origin, why, reply: delete.reply };
        if self.waiting > WAITING_MAX {
            self.access.counts.add(LogCount::NotWritten, 1);
            self.refused.push(waiting);
            return self.written.ring();
        }
        let before = self.present.lines.len();
        let server = &self.servers[server.0 as usize];
        let pool = Some(Box::from(&*self.names[delete.log.index()]));
        let entry = Entry { server: server.clone(), pool, delete: delete.delete };
        entry.write(self.access.version, &self.access.author, wall_clock_millis(), &mut self.present.lines);
        self.waiting += self.present.lines.len() - before + EACH;
        self.present.servers.insert(entry.server);
        self.present.waiting.push(waiting);
    }

    /// Whether no delete waits to be logged.
    pub(crate) fn is_idle(&self) -> bool {
        self.present.waiting.is_empty() && self.sent.is_empty() && self.refused.is_empty()
    }

    /// Sends the deletes of this round to the thread.
    #[inline]
    pub(crate) fn end_round(&mut self) {
        if !self.present.waiting.is_empty() {
            self.send();
        }
    }

    #[cold]
    fn send(&mut self) {
        let Round { lines, servers, waiting } = std::mem::take(&mut self.present);
        let (count, bytes) = (waiting.len() as u64, lines.len() + waiting.len() * EACH);
        let batch = Batch { lines, count, servers, since: Stopwatch::start(), to: self.written.clone() };
        self.sent.push_back(Sent { waiting, bytes });
        if self.access.orders.send(Order::Write(batch)).is_err() {
            // The thread outlives its workers, so this does not happen.
            self.written.send(Written::No);
        }
    }

    /// The results since the last call.
    pub(crate) fn settled(&mut self) -> Vec<(Waiting, Written)> {
        let mut settled: Vec<_> = self.refused.drain(..).map(|waiting| (waiting, Written::No)).collect();
        for written in self.written.take() {
            let Some(Sent { waiting, bytes }) = self.sent.pop_front() else { continue };
            self.waiting -= bytes;
            settled.extend(waiting.into_iter().map(|waiting| (waiting, written)));
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Delete;
    use crate::spool::named::{another_pool, log_of_a_pool, log_to_a_channel};
    use guira_routing::LogName;
    use guira_sync::channel::{Receiver, channel};

    fn log() -> (DeleteLog, Receiver<Order>, LogName) {
        let (orders, receiver) = channel();
        let author = Author { service: "s".into(), router: "r".into(), region: "g".into() };
        let access = LogAccess { version: LogVersion::Two, author, orders, counts: Arc::default() };
        let mut log = DeleteLog::new(access).unwrap();
        let (destinations, name) = log_of_a_pool();
        log.take_names(&destinations);
        log.take_names(&destinations);
        (log, receiver, name)
    }

    fn delete(log: LogName, key: &str) -> Undelivered {
        Undelivered { log, delete: Delete::of(key.as_bytes()), reply: Box::default() }
    }

    fn batch(order: Order) -> Batch {
        let Order::Write(batch) = order else { panic!("{order:?}") };
        batch
    }

    #[test]
    fn deletes_of_a_round_are_sent_together_and_settled_in_order() {
        let (mut log, orders, name) = log();
        log.end_round();
        assert!(orders.try_recv().is_err(), "nothing has failed");
        let client = |call| Origin::Client(Ticket { call, part: 0 });
        for (server, call) in [(1, 7), (0, 8)] {
            let delete = delete(name, &format!("k{call}"));
            log.take(DestinationId(server), delete, client(call), Outcome::Tko);
        }
        log.end_round();
        log.take(DestinationId(0), delete(name, "k9"), client(9), Outcome::Timeout);
        log.end_round();
        let (first, second) = (batch(orders.recv().unwrap()), batch(orders.recv().unwrap()));
        assert_eq!((first.count, second.count, first.servers.len()), (2, 1, 2));
        let entries: Vec<Entry> = first
            .lines
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| Entry::read(line).unwrap())
            .collect();
        let [a, b] = &*entries else { panic!("{entries:?}") };
        assert_eq!(
            (a.server.to_string(), &*a.delete.key, a.pool.as_deref()),
            ("b:2".into(), &b"k7"[..], Some("P"))
        );
        assert_eq!((b.server.to_string(), &*b.delete.key), ("a:1".into(), &b"k8"[..]));
        first.to.send(Written::Yes);
        second.to.send(Written::No);
        let settled = log.settled();
        let settled: Vec<_> = settled.iter().map(|(waiting, written)| (waiting.origin, *written)).collect();
        let expected = [(client(7), Written::Yes), (client(8), Written::Yes), (client(9), Written::No)];
        assert_eq!(settled, expected);
        assert_eq!(log.waiting, 0);
    }

    #[test]
    fn a_delete_keeps_its_server_when_the_number_is_given_to_another() {
        let (access, mut logged) = log_to_a_channel();
        let mut log = DeleteLog::new(access).unwrap();
        let (before, name) = log_of_a_pool();
        log.take_names(&before);
        log.take(DestinationId(0), delete(name, "k"), Origin::NoClient, Outcome::Tko);
        log.take_names(&another_pool(before));
        log.take(DestinationId(0), delete(name, "k"), Origin::NoClient, Outcome::Tko);
        log.end_round();
        assert_eq!(logged(), ["a:1 k", "c:3 k"]);
    }

    #[test]
    fn what_waits_to_be_written_is_bounded() {
        let (mut log, orders, name) = log();
        let key = "k".repeat(250);
        let take = |log: &mut DeleteLog| {
            log.take(DestinationId(0), delete(name, &key), Origin::NoClient, Outcome::Tko);
        };
        let mut waiting = 0;
        while log.refused.is_empty() {
            take(&mut log);
            waiting += 1;
            if waiting % 100 == 0 {
                log.end_round();
            }
        }
        let taken = waiting - 1;
        assert!((10_000..40_000).contains(&taken), "{taken}");
        assert_eq!(log.access.counts.get(LogCount::NotWritten), 1);
        let refused: Vec<_> = log.settled().iter().map(|(_, written)| *written).collect();
        assert_eq!((refused, log.settled().len()), (vec![Written::No], 0));
        log.end_round();
        for order in orders.try_iter() {
            batch(order).to.send(Written::Yes);
        }
        assert_eq!(log.settled().len(), taken);
        take(&mut log);
        assert!(log.refused.is_empty());
    }
}
