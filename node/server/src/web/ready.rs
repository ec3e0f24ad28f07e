//! Whether the server can serve.

use crate::shared::Shared;
use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// A worker that does not answer for as long is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches workers: each is woken now and then, and has to make a round.
#[derive(Debug)]
pub(super) struct Readiness {
    workers: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    rounds: u64,
    /// Since when that is so.
    since: Stopwatch,
}

impl Readiness {
    pub(super) fn new(workers: usize) -> Self {
        let watched = || Watched { rounds: 0, since: Stopwatch::start() };
        Readiness { workers: (0..workers).map(|_| watched()).collect() }
    }

    /// Looks at the rounds that workers have made, and wakes them for the next look. To be called once a second.
    pub(super) fn look(&mut self, shared: &Shared) {
        self.note(shared.latencies.iter().map(|latencies| latencies.rounds()));
        shared.ring();
    }

    fn note(&mut self, rounds: impl Iterator<Item = u64>) {
        for (watched, rounds) in self.workers.iter_mut().zip(rounds) {
            if watched.rounds != rounds {
                *watched = Watched { rounds, since: Stopwatch::start() };
            }
        }
    }

    /// Why the server is not ready, if it is not.
    pub(super) fn fault(&mut self, shared: &Shared) -> Option<String> {
        if shared.is_stopping() {
            return Some("the server stops".to_owned());
        }
        self.note(shared.latencies.iter().map(|latencies| latencies.rounds()));
        self.stuck(PATIENCE).map(|worker| format!("worker {worker} does not answer"))
    }

    fn stuck(&self, patience: Duration) -> Option<usize> {
        self.workers.iter().position(|watched| watched.since.elapsed() > patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_makes_no_round_is_found() {
        let mut readiness = Readiness::new(2);
        readiness.note([1, 1].into_iter());
        assert_eq!(readiness.stuck(PATIENCE), None);
        let moment = Stopwatch::start();
        while moment.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        readiness.note([2, 1].into_iter());
        assert_eq!(readiness.stuck(Duration::from_millis(1)), Some(1));
        readiness.note([2, 2].into_iter());
        assert_ne!(readiness.stuck(Duration::from_millis(1)), Some(1));
    }
}
