//! Asks nodes over connections: a thread for each, so that none waits for another that does not answer.

use guira_sync::channel::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use guira_sync::thread;
use std::io;
use std::time::Duration;

use guira_client::text::{Connection, Target, TextError};
use guira_protocol::client;
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;

use super::judge::{Ask, Look, Probe, SampleId, Seen, Settings};
use super::report::Report;

/// Questions that may wait for a node. It counts as not answering beyond that.
const WAITING_MAX: usize = 4096;

/// An answer to a later look that has taken longer is not known: it does not tell what was there at the look's delay.
const ANSWER_MAX: Duration = Duration::from_secs(2);

const TOGETHER: usize = 64;

/// A question, and how long ago it was asked.
type Asked = (Ask, Stopwatch);

/// The probe with connections to its nodes.
#[derive(Debug)]
pub struct Driver {
    probe: Probe,
    nodes: Vec<SyncSender<Asked>>,
    answers: Receiver<(Ask, Seen)>,
}

impl Driver {
    /// Starts a thread for each of `targets`, which are the nodes of `settings` in this order. Nodes are connected to
    /// when they are first asked.
    ///
    /// # Errors
    /// When the system has no threads left.
    pub fn start(settings: Settings, targets: &[Target]) -> io::Result<Self> {
        let (sender, answers) = channel();
        let mut nodes = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let (ask, asks) = sync_channel(WAITING_MAX);
            let (target, answers) = (target.clone(), sender.clone());
            let name = format!("node {number}");
            thread::Builder::new().name(name).spawn(move || run(&target, &asks, &answers))?;
            nodes.push(ask);
        }
        let settings = Settings { nodes: targets.len(), ..settings };
        Ok(Self { probe: Probe::new(settings), nodes, answers })
    }

    /// As [`Probe::sampled`]. The nodes are asked at once.
    pub fn sampled(&mut self, key: &[u8], now: Duration) -> Option<SampleId> {
        let id = self.probe.sampled(key, now)?;
        self.ask(now);
        Some(id)
    }

    /// As [`Probe::is_known`].
    pub fn is_known(&self, id: SampleId) -> bool {
        self.probe.is_known(id)
    }

    /// As [`Probe::sent`].
    pub fn sent(&mut self, id: SampleId, now: Duration) {
        self.probe.sent(id, now);
    }

    /// As [`Probe::give_up`].
    pub fn give_up(&mut self, id: SampleId) {
        self.probe.give_up(id);
    }

    /// As [`Probe::cancel`].
    pub fn cancel(&mut self, id: SampleId) {
        self.probe.cancel(id);
    }

    /// Asks what is due and takes answers. For the first one it waits up to `wait`, but not longer than until the next
    /// question is due.
    pub fn turn(&mut self, now: Duration, wait: Duration) {
        self.ask(now);
        let next = self.probe.next_due().map(|due| due.saturating_sub(now));
        let wait = next.map_or(wait, |next| wait.min(next));
        let first = self.answers.recv_timeout(wait).ok();
        for (ask, seen) in first.into_iter().chain(self.answers.try_iter()) {
            self.probe.answer(&ask, seen);
        }
    }

    fn ask(&mut self, now: Duration) {
        let asks: Vec<Ask> = self.probe.asks(now).collect();
        for ask in asks {
            let node = ask.node();
            if let Err(TrySendError::Full((ask, _)) | TrySendError::Disconnected((ask, _))) =
                self.nodes[node].try_send((ask, Stopwatch::start()))
            {
                self.probe.answer(&ask, Seen::Failed);
            }
        }
    }

    /// Samples that are looked after.
    pub fn under_way(&self) -> usize {
        self.probe.under_way()
    }

    pub fn report(&self) -> Report {
        self.probe.report()
    }
}

/// Asks a node until nobody has questions any more.
fn run(target: &Target, asks: &Receiver<Asked>, answers: &Sender<(Ask, Seen)>) {
    let mut connection = None;
    while let Ok(first) = asks.recv() {
        let batch: Vec<Asked> = [first].into_iter().chain(asks.try_iter().take(TOGETHER - 1)).collect();
        let mut heard = Vec::new();
        // What was not heard before a failure is not known, and the connection of no more use.
        if let Err(_failure) = ask_together(&mut connection, target, &batch, &mut heard) {
            connection = None;
        }
        heard.resize(batch.len(), Seen::Failed);
        for ((ask, asked), seen) in batch.into_iter().zip(heard) {
            let is_late = ask.look() != Look::First && asked.elapsed() > ANSWER_MAX;
            let seen = if is_late { Seen::Failed } else { seen };
            if answers.send((ask, seen)).is_err() {
                return;
            }
        }
    }
}

fn ask_together(
    connection: &mut Option<Connection>,
    target: &Target,
    batch: &[Asked],
    heard: &mut Vec<Seen>,
) -> Result<(), TextError> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(target)?),
    };
    let mut request = Vec::new();
    for (ask, _) in batch {
        // `me` looks without being a use: it neither makes the item more recent nor takes a lease, as `mg` would.
        client::debug(ask.key(), &mut request).end();
    }
    open.send(&request)?;
    for _ in batch {
        heard.push(seen(open.reply()?.line()));
    }
    Ok(())
}

fn seen(line: &[u8]) -> Seen {
    if line == reply::META_MISS {
        return Seen::Miss;
    }
    let mut words = client::words(line);
    if words.next() != Some(reply::META_DEBUG) {
        return Seen::Failed;
    }
    // Behind the key, which may look like anything.
    let unique = words.skip(1).find_map(|word| word.strip_prefix(b"cas="));
    let unique = unique.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    // 0 is the unique of items that have none, as with memcached -C.
    unique.filter(|unique| *unique != 0).map_or(Seen::Failed, Seen::Item)
}

#[cfg(test)]
mod tests {
    use super::{Seen, seen};

    #[test]
    fn an_answer_is_an_item_with_its_unique_a_miss_or_none() {
        assert_eq!(seen(b"ME key exp=-1 la=0 cas=17 fetch=no cls=1 size=65"), Seen::Item(17));
        assert_eq!(seen(b"ME cas=5 exp=-1 cas=18446744073709551615"), Seen::Item(u64::MAX));
        assert_eq!(seen(b"EN"), Seen::Miss);
        for line in [
            "ME key",
            "ME key cas=x",
            "ME key cas=0 x",
            "ME cas=5",
            "ERROR",
            "",
            "CLIENT_ERROR unauthenticated",
        ] {
            assert_eq!(seen(line.as_bytes()), Seen::Failed, "{line}");
        }
    }
}
