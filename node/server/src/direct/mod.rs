//! The paths of MICA's datagrams, and when a worker polls them.
//!
//! While datagrams arrive, a worker polls path after path, and its connections only rarely; when
//! none have arrived for a while it sleeps until a path notifies it.

mod burst;
pub(crate) mod bytes;
mod directory;
mod histogram;
mod interface;
mod open;

pub(crate) use histogram::BurstSizes;
pub use interface::Interface;
pub use open::DirectError;
pub(crate) use open::{OpenPath, describe_all, open};

use crate::counters::WorkerCount;
use crate::requests::{Interpreter, Runner};
use burst::Burst;
use guira_contract::{Partitioning, Session};
use guira_protocol::mica::Directory;
use guira_serving::{Next, TrafficCount};
use guira_transport::{Interest, Park, Poll, ServerPath, Token};
use rustix::fd::AsRawFd;
use std::io;
use std::sync::Arc;

/// Rounds without a datagram before a worker sleeps, with a look at its connections in each: some tens of microseconds if that has been worth
/// while lately, and a few if datagrams come seldom.
const AWAKE: std::ops::RangeInclusive<u32> = 8..=64;
/// Rounds with datagrams before a worker looks at its connections.
const ROUNDS: u32 = 16;

/// A path, and what its clients learn of the server.
#[derive(Debug)]
pub(crate) struct DirectPath {
    pub(crate) path: Box<dyn ServerPath>,
    pub(crate) directory: Directory,
}

/// The facts by which a worker detects a request for another worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) worker: usize,
    pub(crate) workers: usize,
    pub(crate) partitioning: Option<Partitioning>,
}

#[derive(Debug)]
pub(crate) struct DatagramListener {
    ways: Vec<DirectPath>,
    place: Place,
    sizes: Arc<BurstSizes>,
    /// Rounds without a datagram.
    quiet: u32,
    /// How many of them pass before the worker sleeps.
    patience: u32,
    /// Rounds since the last poll of the connections.
    rounds: u32,
}

impl DatagramListener {
    pub(crate) fn new(ways: Vec<DirectPath>, place: Place, sizes: Arc<BurstSizes>) -> Self {
        let patience = *AWAKE.start();
        DatagramListener { ways, place, sizes, quiet: patience, patience, rounds: 0 }
    }

    /// Registers the paths at `poll`.
    pub(crate) fn listen(&self, poll: &Poll, token: Token) -> io::Result<()> {
        self.ways.iter().try_for_each(|way| poll.add(way.path.bell(), token, Interest::Read))
    }

    pub(crate) fn serve<S: Session>(&mut self, interpreter: &mut Interpreter<S>) -> Next {
        if self.ways.is_empty() {
            return Next::Wait;
        }
        let Interpreter { runner: Runner { executor, uses, .. }, event_sink, counters, traffic } =
            interpreter;
        let mut total = 0;
        let mut failed = None;
        for (number, way) in self.ways.iter_mut().enumerate() {
            let count = match way.path.receive() {
                Ok(0) => continue,
                Ok(count) => count,
                Err(error) => {
                    failed = Some((number, error));
                    continue;
                }
            };
            self.sizes.note(count);
            // After they have come: what had to expire before they were sent has.
            executor.look_at_clock();
            event_sink.serve(way.path.bell().as_raw_fd());
            let answers = Burst::new(&mut *way.path, &way.directory, self.place, (counters, traffic))
                .serve(executor, uses, count);
            let sent = way.path.send();
            counters.add(WorkerCount::MicaUnsent, answers.saturating_sub(sent.datagrams) as u64);
            traffic.add(TrafficCount::BytesWritten, sent.bytes as u64);
            executor.session().quiesce();
            total += count;
        }
        if let Some((number, error)) = failed {
            // Clients of other paths are served on.
            let way = self.ways.swap_remove(number);
            let name = way.path.name();
            // Operator: Correct what `error` names, then restart the server. TCP clients are not
            // affected.
            tracing::error!(path = name, %error, worker = self.place.worker, "the datagram listener failed; disabled");
        }
        self.log_failures();
        self.note(total);
        self.rounds += 1;
        if total > 0 && self.rounds < ROUNDS {
            return Next::Again;
        }
        self.rounds = 0;
        if self.quiet < self.patience { Next::LookAround } else { Next::Wait }
    }

    /// Logs the paths that no longer accept clients.
    fn log_failures(&mut self) {
        for way in &mut self.ways {
            if let Some(error) = way.path.failure() {
                let name = way.path.name();
                // Operator: Restart the server. Clients that are connected are still served.
                tracing::error!(path = name, %error, "the path accepts no new clients until the server restarts");
            }
        }
    }

    /// Adapts to the number of datagrams in a round.
    fn note(&mut self, datagrams: usize) {
        let was_awake = self.quiet < self.patience;
        if datagrams == 0 {
            self.quiet = self.quiet.saturating_add(1);
            if was_awake && self.quiet == self.patience {
                // In vain.
                self.patience = (self.patience / 2).max(*AWAKE.start());
                self.quiet = self.patience;
            }
        } else {
            if was_awake && self.quiet > 0 {
                self.patience = (2 * self.patience).min(*AWAKE.end());
            }
            self.quiet = 0;
        }
    }

    /// The worker is about to sleep.
    pub(crate) fn park(&mut self) -> Park {
        let mut park = Park::Quiet;
        for way in &mut self.ways {
            if way.path.park() == Park::Pending {
                park = Park::Pending;
            }
        }
        park
    }

    pub(crate) fn unpark(&mut self) {
        self.ways.iter_mut().for_each(|way| way.path.unpark());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_as_patient_as_it_has_been_worth_while() {
        let place = Place { worker: 0, workers: 1, partitioning: None };
        let mut end = DatagramListener::new(Vec::new(), place, Arc::default());
        let rounds_until_sleep = |end: &mut DatagramListener| {
            let mut rounds = 0;
            while end.quiet < end.patience {
                end.note(0);
                rounds += 1;
            }
            rounds
        };
        assert_eq!(rounds_until_sleep(&mut end), 0, "nothing has come yet");
        for _ in 0..5 {
            end.note(1);
            end.note(0);
        }
        end.note(1);
        assert_eq!(rounds_until_sleep(&mut end), 64, "they come one after another");
        for expected in [32, 16, 8, 8] {
            end.note(1);
            assert_eq!(rounds_until_sleep(&mut end), expected, "they come seldom");
        }
    }
}
