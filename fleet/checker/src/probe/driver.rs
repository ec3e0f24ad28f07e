//! Queries nodes over connections, with one thread for each node, so that an unresponsive node
//! delays no other.

use guira_sync::channel::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use guira_sync::thread;
use std::io;
use std::time::Duration;

use guira_client::text::{Connection, Target, TextError};
use guira_protocol::client;
use guira_protocol::word::reply;
use guira_sync::clock::Stopwatch;

use super::judge::{Look, Probe, ProbeRequest, SampleId, Seen, Settings};
use super::report::Report;

/// The most requests that may wait for a node; further ones count as failed.
const WAITING_MAX: usize = 4096;

/// A later reply to a later look counts as unknown: it does not show the state at the look's delay.
const ANSWER_MAX: Duration = Duration::from_secs(2);

const TOGETHER: usize = 64;

/// A request, and the time since it was queued.
type Queued = (ProbeRequest, Stopwatch);

/// The probe with connections to its nodes.
#[derive(Debug)]
pub struct Driver {
    probe: Probe,
    nodes: Vec<SyncSender<Queued>>,
    answers: Receiver<(ProbeRequest, Seen)>,
}

impl Driver {
    /// Starts a thread for each of `targets`, which are the nodes of `settings` in this order. A
    /// node is connected to at the first request.
    ///
    /// # Errors
    /// When the system has no threads left.
    pub fn start(settings: Settings, targets: &[Target]) -> io::Result<Self> {
        let (sender, answers) = channel();
        let mut nodes = Vec::new();
        for (number, target) in targets.iter().enumerate() {
            let (probe_request, requests) = sync_channel(WAITING_MAX);
            let (target, answers) = (target.clone(), sender.clone());
            let name = format!("node {number}");
            thread::Builder::new().name(name).spawn(move || run(&target, &requests, &answers))?;
            nodes.push(probe_request);
        }
        let settings = Settings { nodes: targets.len(), ..settings };
        Ok(Self { probe: Probe::new(settings), nodes, answers })
    }

    /// Like [`Probe::sampled`]. Sends the first requests to the nodes.
    pub fn sampled(&mut self, key: &[u8], now: Duration) -> Option<SampleId> {
        let id = self.probe.sampled(key, now)?;
        self.request(now);
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

    /// Sends the requests that are due, and takes replies. Waits up to `wait` for the first reply,
    /// but not beyond the next due time.
    pub fn turn(&mut self, now: Duration, wait: Duration) {
        self.request(now);
        let next = self.probe.next_due().map(|due| due.saturating_sub(now));
        let wait = next.map_or(wait, |next| wait.min(next));
        let first = self.answers.recv_timeout(wait).ok();
        for (probe_request, seen) in first.into_iter().chain(self.answers.try_iter()) {
            self.probe.answer(&probe_request, seen);
        }
    }

    fn request(&mut self, now: Duration) {
        let requests: Vec<ProbeRequest> = self.probe.requests(now).collect();
        for probe_request in requests {
            let node = probe_request.node();
            if let Err(
                TrySendError::Full((probe_request, _)) | TrySendError::Disconnected((probe_request, _)),
            ) = self.nodes[node].try_send((probe_request, Stopwatch::start()))
            {
                self.probe.answer(&probe_request, Seen::Failed);
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

/// Sends requests to a node until the sender is dropped.
fn run(target: &Target, requests: &Receiver<Queued>, answers: &Sender<(ProbeRequest, Seen)>) {
    let mut connection = None;
    while let Ok(first) = requests.recv() {
        let batch: Vec<Queued> = [first].into_iter().chain(requests.try_iter().take(TOGETHER - 1)).collect();
        let mut replies = Vec::new();
        // Requests without a reply before a failure count as failed, and the connection is closed.
        if let Err(_failure) = request_together(&mut connection, target, &batch, &mut replies) {
            connection = None;
        }
        replies.resize(batch.len(), Seen::Failed);
        for ((probe_request, queued), seen) in batch.into_iter().zip(replies) {
            let is_late = probe_request.look() != Look::First && queued.elapsed() > ANSWER_MAX;
            let seen = if is_late { Seen::Failed } else { seen };
            if answers.send((probe_request, seen)).is_err() {
                return;
            }
        }
    }
}

fn request_together(
    connection: &mut Option<Connection>,
    target: &Target,
    batch: &[Queued],
    replies: &mut Vec<Seen>,
) -> Result<(), TextError> {
    let open = match connection {
        Some(open) => open,
        None => connection.insert(Connection::open(target)?),
    };
    let mut request = Vec::new();
    for (probe_request, _) in batch {
        // `me` looks without being a use: it neither makes the item more recent nor takes a lease, as `mg` would.
        client::debug(probe_request.key(), &mut request).end();
    }
    open.send(&request)?;
    for _ in batch {
        replies.push(seen(open.reply()?.line()));
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
