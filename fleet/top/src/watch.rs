//! One thread for each node, which reads it regularly: no node delays the reading of another.

use guira_sync::channel::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use guira_sync::thread;
use std::time::Duration;

use guira_client::text::{Connection, Target};
use guira_sync::clock::Stopwatch;

use crate::read_stats::read_stats;
use crate::reading::{Group, Part, Reading};

/// Updates that may wait for the screen. A thread with more waits.
const WAITING_MAX: usize = 64;

/// The outcome of reading one node once.
pub(crate) struct Update {
    pub(crate) node: usize,
    pub(crate) outcome: Result<Reading, String>,
}

/// The groups of statistics to read from now on.
type Groups = &'static [Group];

pub(crate) struct Watch {
    updates: Receiver<Update>,
    requests: Vec<Sender<Groups>>,
}

impl Watch {
    /// Starts reading `groups` of all `targets` every `interval`.
    pub(crate) fn start(
        targets: &[Target],
        groups: Groups,
        interval: Duration,
        clock: Stopwatch,
    ) -> std::io::Result<Self> {
        let (sender, updates) = sync_channel(WAITING_MAX);
        let mut requests = Vec::new();
        for (node, target) in targets.iter().enumerate() {
            let (request, requested) = channel();
            let watcher = Watcher {
                node,
                target: target.clone(),
                interval,
                clock,
                groups,
                requested,
                updates: sender.clone(),
            };
            thread::Builder::new().name(format!("node {node}")).spawn(move || watcher.run())?;
            requests.push(request);
        }
        Ok(Self { updates, requests })
    }

    /// Requests `groups` at once, and from now on.
    pub(crate) fn request(&self, groups: Groups) {
        for request in &self.requests {
            // A thread that has ended needs no request.
            let _ = request.send(groups);
        }
    }

    pub(crate) fn updates(&self) -> impl Iterator<Item = Update> {
        self.updates.try_iter()
    }
}

struct Watcher {
    node: usize,
    target: Target,
    interval: Duration,
    clock: Stopwatch,
    groups: Groups,
    requested: Receiver<Groups>,
    updates: SyncSender<Update>,
}

impl Watcher {
    /// Reads until the receiver is dropped. A failed connection is opened again at the next
    /// interval.
    fn run(mut self) {
        let mut connection = None;
        loop {
            let next = self.clock.elapsed() + self.interval;
            let outcome = look(&mut connection, &self.target, self.groups, self.clock);
            if self.updates.send(Update { node: self.node, outcome }).is_err()
                || !self.wait(next, connection.is_some())
            {
                return;
            }
        }
    }

    /// Waits for the next reading, which comes sooner if other groups are requested and the node is
    /// up; false when the sender is dropped.
    fn wait(&mut self, next: Duration, answers: bool) -> bool {
        loop {
            match self.requested.recv_timeout(next.saturating_sub(self.clock.elapsed())) {
                Ok(groups) => {
                    self.groups = groups;
                    if answers {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
}

/// Reads a node once, over the open connection or a new one.
pub(crate) fn look(
    connection: &mut Option<Connection>,
    target: &Target,
    groups: &[Group],
    clock: Stopwatch,
) -> Result<Reading, String> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Connection::open(target).map_err(|error| error.to_string())?,
    };
    let reading = read_stats(&mut open, groups, clock).map_err(|error| error.to_string())?;
    if let Part::Refused(words) = &reading.general {
        return Err(format!("the server refuses stats: {words}"));
    }
    *connection = Some(open);
    Ok(reading)
}
