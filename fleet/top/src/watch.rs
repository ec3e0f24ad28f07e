//! A thread for each node, which asks it again and again: no node waits for another that does not answer.

use guira_sync::channel::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use guira_sync::thread;
use std::time::Duration;

use guira_client::text::{Connection, Target};
use guira_sync::clock::Stopwatch;

use crate::ask::ask;
use crate::reading::{Group, Part, Reading};

/// Updates that may wait for the screen. A thread with more waits.
const WAITING_MAX: usize = 64;

/// What came of one look at a node.
pub(crate) struct Update {
    pub(crate) node: usize,
    pub(crate) outcome: Result<Reading, String>,
}

/// What is asked for from now on.
type Groups = &'static [Group];

pub(crate) struct Watch {
    updates: Receiver<Update>,
    wishes: Vec<Sender<Groups>>,
}

impl Watch {
    /// Begins to ask all `targets` for `groups` every `interval`.
    pub(crate) fn start(
        targets: &[Target],
        groups: Groups,
        interval: Duration,
        clock: Stopwatch,
    ) -> std::io::Result<Self> {
        let (sender, updates) = sync_channel(WAITING_MAX);
        let mut wishes = Vec::new();
        for (node, target) in targets.iter().enumerate() {
            let (wish, wished) = channel();
            let watcher = Watcher {
                node,
                target: target.clone(),
                interval,
                clock,
                groups,
                wished,
                updates: sender.clone(),
            };
            thread::Builder::new().name(format!("node {node}")).spawn(move || watcher.run())?;
            wishes.push(wish);
        }
        Ok(Self { updates, wishes })
    }

    /// Asks for `groups` at once, and from now on.
    pub(crate) fn wish(&self, groups: Groups) {
        for wish in &self.wishes {
            // A thread that has ended wishes for nothing.
            let _ = wish.send(groups);
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
    wished: Receiver<Groups>,
    updates: SyncSender<Update>,
}

impl Watcher {
    /// Asks until nobody listens any more. A connection that has failed is opened anew at the next interval.
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

    /// Waits for the next look, which comes sooner if something else is wished for and the node answers; false when
    /// nobody is left to wish.
    fn wait(&mut self, next: Duration, answers: bool) -> bool {
        loop {
            match self.wished.recv_timeout(next.saturating_sub(self.clock.elapsed())) {
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

/// One look at a node, over the connection that is open, or over a new one.
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
    let reading = ask(&mut open, groups, clock).map_err(|error| error.to_string())?;
    if let Part::Refused(words) = &reading.general {
        return Err(format!("the server refuses stats: {words}"));
    }
    *connection = Some(open);
    Ok(reading)
}
