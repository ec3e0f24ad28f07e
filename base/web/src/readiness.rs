//! Whether a server's workers answer.

use guira_sync::clock::Stopwatch;
use std::time::Duration;

/// A worker that does not answer for as long is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// Watches workers: each is woken now and then, and has to make a round.
#[derive(Debug)]
pub struct Readiness {
    workers: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    rounds: u64,
    /// Since when that is so.
    since: Stopwatch,
}

impl Readiness {
    pub fn new(workers: usize) -> Self {
        let watched = || Watched { rounds: 0, since: Stopwatch::start() };
        Readiness { workers: (0..workers).map(|_| watched()).collect() }
    }

    /// Notes how many rounds each worker has made. To be called once a second, before the workers are woken for the next look.
    pub fn note(&mut self, rounds: impl Iterator<Item = u64>) {
        for (watched, rounds) in self.workers.iter_mut().zip(rounds) {
            if watched.rounds != rounds {
                *watched = Watched { rounds, since: Stopwatch::start() };
            }
        }
    }

    /// Why the server is not ready, if a worker has not made a round for too long.
    pub fn fault(&mut self, rounds: impl Iterator<Item = u64>) -> Option<String> {
        self.note(rounds);
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
