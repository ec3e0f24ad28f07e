//! Whether a server is in service. All threads that send it requests share one word.
//!
//! After several timeouts in a row, or when no connection can be made, a server is *out of service*
//! (mcrouter: TKO): its requests fail at once, and the thread that has detected the failure probes
//! it. Any reply brings it back into service.

use guira_sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// When a server is taken out of service, and how it is probed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthOptions {
    /// `None`: a server always stays in service.
    pub timeouts_until_tko: Option<u32>,
    /// How many servers may be out of service for timeouts at the same time; 0 is no limit.
    pub soft_tkos_max: u32,
    pub probe_initial: Duration,
    pub probe_max: Duration,
    /// Idle time after which a connection is closed; zero is never.
    pub inactive_after: Duration,
}

/// The health of a server in one word, so that a success and a failure at the same time are
/// ordered, and a server out of service always has a failure that its next reply clears. The
/// orderings are Relaxed: the word publishes no other memory, and a thread that reads an old value
/// only sends one more request.
#[derive(Debug, Default)]
pub struct Health {
    /// The state in the lowest two bits. Above them, failures in a row: timeouts, invalid replies,
    /// and failed attempts to connect.
    word: AtomicU32,
    /// How many servers are out of service for timeouts.
    soft_tkos: Arc<AtomicU32>,
}

const UP: u32 = 0;
const SOFT: u32 = 1;
const HARD: u32 = 2;
const STATE: u32 = 3;
const FAILURE: u32 = 4;

fn with_failure(word: u32) -> u32 {
    word.checked_add(FAILURE).unwrap_or(word)
}

fn failures(word: u32) -> u32 {
    word / FAILURE
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    Nothing,
    Failures,
}

/// Why a server is out of service, in mcrouter's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tko {
    /// Several requests in a row timed out or had invalid replies.
    Soft,
    /// No connection can be made.
    Hard,
}

/// Which thread probes a server that is out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prober {
    /// The one that has just taken the server out of service.
    Caller,
    Other,
}

impl Health {
    /// The health of one of the servers that share the count `soft_tkos`.
    pub fn new(soft_tkos: Arc<AtomicU32>) -> Self {
        Health { word: AtomicU32::new(UP), soft_tkos }
    }

    #[inline]
    pub fn is_up(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE == UP
    }

    /// Records a timeout or an invalid reply. Returns who probes the server if it is out of
    /// service.
    pub fn record_soft_failure(&self, options: &HealthOptions) -> Option<Prober> {
        let takes_out = |word: u32| {
            let is_enough =
                options.timeouts_until_tko.is_some_and(|most| failures(with_failure(word)) >= most);
            is_enough.then_some(word & STATE == UP)
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_first = takes_out(word) == Some(true);
            // Above the limit the network is at fault rather than the servers: all requests would
            // fail.
            let is_taken_out = is_first && self.reserve_soft_tko(options.soft_tkos_max);
            let next = with_failure(word) | if is_taken_out { SOFT } else { UP };
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if is_taken_out => return Some(Prober::Caller),
                Ok(_) => return (takes_out(word) == Some(false)).then_some(Prober::Other),
                Err(other) => {
                    if is_taken_out {
                        self.soft_tkos.fetch_sub(1, Ordering::Relaxed);
                    }
                    word = other;
                }
            }
        }
    }

    /// Counts one more server that is out of service for timeouts, unless the limit is reached.
    fn reserve_soft_tko(&self, most: u32) -> bool {
        let reserved = |count: u32| (most == 0 || count < most).then_some(count + 1);
        self.soft_tkos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserved).is_ok()
    }

    /// Records a failed attempt to connect. Returns who probes the server if it is out of service.
    pub fn record_hard_failure(&self, options: &HealthOptions) -> Option<Prober> {
        let next = |word: u32| match options.timeouts_until_tko {
            None => with_failure(word),
            Some(_) => with_failure(word) & !STATE | HARD,
        };
        let update = |word| Some(next(word));
        let before = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        let before = before.unwrap_or_else(|word| word) & STATE;
        options.timeouts_until_tko?;
        if before == SOFT {
            self.soft_tkos.fetch_sub(1, Ordering::Relaxed);
        }
        Some(if before == UP { Prober::Caller } else { Prober::Other })
    }

    /// Why the server is out of service. `None` if it is not.
    pub fn tko(&self) -> Option<Tko> {
        match self.word.load(Ordering::Relaxed) & STATE {
            SOFT => Some(Tko::Soft),
            HARD => Some(Tko::Hard),
            _ => None,
        }
    }

    pub fn failures_in_a_row(&self) -> u32 {
        failures(self.word.load(Ordering::Relaxed))
    }

    /// Records a reply, or clears failures that no longer count.
    #[inline]
    pub fn record_success(&self) -> Cleared {
        if self.word.load(Ordering::Relaxed) == 0 {
            return Cleared::Nothing;
        }
        if self.word.swap(0, Ordering::Relaxed) & STATE == SOFT {
            self.soft_tkos.fetch_sub(1, Ordering::Relaxed);
        }
        Cleared::Failures
    }
}

/// A server that is removed no longer counts against the limit of soft TKOs.
impl Drop for Health {
    fn drop(&mut self) {
        self.record_success();
    }
}

/// When the thread that probes a server sends the next probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSchedule {
    pub next_ms: u64,
    gap_ms: u32,
}

impl ProbeSchedule {
    pub fn begin(now_ms: u64, options: &HealthOptions) -> Self {
        let gap_ms = options.probe_initial.as_millis() as u32;
        ProbeSchedule { next_ms: now_ms + u64::from(gap_ms), gap_ms }
    }

    /// The next probe is sent now, whenever it was due.
    pub fn hasten(&mut self, now_ms: u64) {
        self.next_ms = now_ms;
    }

    /// A probe is sent now: the next gap is half as long again, plus a random part, so that servers
    /// that have failed together are not probed together.
    pub fn advance(&mut self, now_ms: u64, options: &HealthOptions, random: u32) {
        let gap = u64::from(self.gap_ms) * 3 / 2;
        self.gap_ms = gap.min(options.probe_max.as_millis() as u64) as u32;
        // From 5 to 50 % more.
        let more = u64::from(self.gap_ms) * u64::from(5 + random % 46) / 100;
        self.next_ms = now_ms + u64::from(self.gap_ms) + more;
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    const OPTIONS: HealthOptions = HealthOptions {
        timeouts_until_tko: Some(3),
        soft_tkos_max: 0,
        probe_initial: Duration::from_secs(10),
        probe_max: Duration::from_secs(60),
        inactive_after: Duration::ZERO,
    };

    #[test]
    fn a_server_is_out_of_service_after_timeouts_in_a_row_until_it_replies() {
        let health = Health::default();
        assert_eq!(
            (health.record_soft_failure(&OPTIONS), health.record_soft_failure(&OPTIONS)),
            (None, None)
        );
        health.record_success();
        assert_eq!(
            (health.record_soft_failure(&OPTIONS), health.record_soft_failure(&OPTIONS)),
            (None, None)
        );
        assert!(health.is_up());
        assert_eq!(health.record_soft_failure(&OPTIONS), Some(Prober::Caller));
        assert_eq!(health.record_soft_failure(&OPTIONS), Some(Prober::Other));
        assert_eq!(health.record_hard_failure(&OPTIONS), Some(Prober::Other));
        assert!(!health.is_up());
        assert_eq!((health.tko(), health.failures_in_a_row()), (Some(Tko::Hard), 5));
        health.record_success();
        assert!(health.is_up());
        assert_eq!((health.tko(), health.failures_in_a_row()), (None, 0));
        assert_eq!(health.record_hard_failure(&OPTIONS), Some(Prober::Caller));
        assert_eq!((health.tko(), health.failures_in_a_row()), (Some(Tko::Hard), 1));
        let never = HealthOptions { timeouts_until_tko: None, ..OPTIONS };
        let health = Health::default();
        assert!(
            (0..100).all(|_| health.record_soft_failure(&never).is_none())
                && health.record_hard_failure(&never).is_none()
        );
    }

    #[test]
    fn no_more_servers_are_out_of_service_for_timeouts_than_the_limit() {
        let soft_tkos = Arc::new(AtomicU32::new(0));
        let all: Vec<Health> = (0..3).map(|_| Health::new(soft_tkos.clone())).collect();
        let options = HealthOptions { timeouts_until_tko: Some(1), soft_tkos_max: 2, ..OPTIONS };
        let record_all =
            || all.iter().map(|it| it.record_soft_failure(&options).is_some()).collect::<Vec<_>>();
        assert_eq!(record_all(), [true, true, false]);
        assert!(all[2].is_up());
        all[0].record_success();
        assert_eq!(record_all(), [true, true, false], "the first one again");
        all[1].record_success();
        assert_eq!(all[2].record_soft_failure(&options), Some(Prober::Caller));
        assert_eq!(
            all[1].record_hard_failure(&options),
            Some(Prober::Caller),
            "the limit does not apply to unreachable servers"
        );
        all.iter().for_each(|it| _ = it.record_success());
        assert_eq!(soft_tkos.load(Ordering::Relaxed), 0);
        assert_eq!(record_all(), [true, true, false]);
        assert_eq!(all[0].record_hard_failure(&options), Some(Prober::Other));
        assert_eq!(all[0].tko(), Some(Tko::Hard));
        assert_eq!(record_all(), [true, true, true], "an unreachable server no longer counts as a soft TKO");
        all.iter().for_each(|it| _ = it.record_success());
        assert_eq!(soft_tkos.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_server_that_is_removed_while_out_of_service_no_longer_counts() {
        let soft_tkos = Arc::new(AtomicU32::new(0));
        let options = HealthOptions { timeouts_until_tko: Some(1), soft_tkos_max: 1, ..OPTIONS };
        let [one, other] = [(); 2].map(|()| Health::new(soft_tkos.clone()));
        assert_eq!(
            (one.record_soft_failure(&options), other.record_soft_failure(&options)),
            (Some(Prober::Caller), None)
        );
        drop(one);
        assert_eq!(other.record_soft_failure(&options), Some(Prober::Caller));
    }

    #[test]
    fn probes_become_less_frequent() {
        let mut schedule = ProbeSchedule::begin(1000, &OPTIONS);
        assert_eq!(schedule.next_ms, 11_000);
        let mut gaps = Vec::new();
        let mut now = schedule.next_ms;
        for random in 0..12 {
            schedule.advance(now, &OPTIONS, random * 7);
            gaps.push(schedule.next_ms - now);
            now = schedule.next_ms;
        }
        assert!((15_750..=22_500).contains(&gaps[0]), "{gaps:?}");
        assert!(gaps[8..].iter().all(|gap| (63_000..=90_000).contains(gap)), "{gaps:?}");
    }
}

#[cfg(all(test, guira_loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    const OPTIONS: HealthOptions = HealthOptions {
        timeouts_until_tko: Some(2),
        soft_tkos_max: 1,
        probe_initial: Duration::from_secs(1),
        probe_max: Duration::from_secs(1),
        inactive_after: Duration::ZERO,
    };

    /// A server out of service has a failure, so that its next reply clears it, and the count of
    /// soft TKOs is right.
    fn check(health: &Health, soft_tkos: &AtomicU32) {
        assert!(health.is_up() || health.failures_in_a_row() > 0, "{health:?}");
        let is_soft = health.tko() == Some(Tko::Soft);
        assert_eq!(soft_tkos.load(Ordering::Relaxed), u32::from(is_soft), "{health:?}");
        health.record_success();
        assert!(health.is_up() && health.failures_in_a_row() == 0);
        assert_eq!(soft_tkos.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_server_that_is_marked_while_it_replies_is_up_after_its_next_reply() {
        loom::model(|| {
            let soft_tkos = Arc::new(AtomicU32::new(0));
            let health = Arc::new(Health::new(soft_tkos.clone()));
            health.record_soft_failure(&OPTIONS);
            let threads: [fn(&Health); 2] =
                [|it| _ = it.record_soft_failure(&OPTIONS), |it| _ = it.record_success()];
            let threads = threads.map(|act| {
                let health = health.clone();
                thread::spawn(move || act(&health))
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            check(&health, &soft_tkos);
        });
    }

    #[test]
    fn one_of_two_threads_that_detect_a_failure_probes_the_server() {
        loom::model(|| {
            let soft_tkos = Arc::new(AtomicU32::new(0));
            let health = Arc::new(Health::new(soft_tkos.clone()));
            health.record_soft_failure(&OPTIONS);
            let acts: [fn(&Health) -> Option<Prober>; 2] =
                [|it| it.record_soft_failure(&OPTIONS), |it| it.record_hard_failure(&OPTIONS)];
            let threads = acts.map(|act| {
                let health = health.clone();
                thread::spawn(move || act(&health))
            });
            let probers = threads.map(|thread| thread.join().unwrap());
            assert_eq!(
                probers.iter().filter(|prober| **prober == Some(Prober::Caller)).count(),
                1,
                "{probers:?}"
            );
            check(&health, &soft_tkos);
        });
    }
}
