//! Whether a server is sent requests: all threads that ask it know what one has found out.
//!
//! A server that has not answered several requests in a row, or cannot be connected to, is *out* (mcrouter: TKO): requests for it fail at once, and the
//! one that has found out asks it from time to time whether it is there again. Any reply says that it is.

use guira_sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// When servers count as down, and how they are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Off if there is none.
    pub timeouts_until_tko: Option<u32>,
    /// How many servers may be down for their timeouts at once; any number if 0.
    pub soft_tkos_max: u32,
    pub probe_initial: Duration,
    pub probe_max: Duration,
    /// A connection that is not used for so long is closed; never if it is zero.
    pub inactive_after: Duration,
}

/// What is known of a server: one word, so that a reply and a failure that meet are ordered, and a server that is out always has a failure that the
/// next reply takes back. The orderings are Relaxed: nothing else is published by it, and a thread that learns a little later sends a request
/// more.
#[derive(Debug, Default)]
pub struct Standing {
    /// `IN`, or why it is out, in the lowest two bits. Above them, failures in a row: requests that were not answered in time, or by nonsense, and
    /// attempts to connect.
    word: AtomicU32,
    /// How many servers of the router are out for their timeouts.
    slow: Arc<AtomicU32>,
}

const IN: u32 = 0;
const SLOW: u32 = 1;
const GONE: u32 = 2;
const STATE: u32 = 3;
const FAILURE: u32 = 4;

/// The word with one failure more.
fn one_more(word: u32) -> u32 {
    word.checked_add(FAILURE).unwrap_or(word)
}

fn failures(word: u32) -> u32 {
    word / FAILURE
}

/// What a reply has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Nothing,
    /// Failures in a row, or the time for which the server was out.
    Failures,
}

/// Why a server is out, as mcrouter has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tko {
    /// It has not answered in time, or made no sense, several times in a row.
    Soft,
    /// It cannot be connected to.
    Hard,
}

/// Who asks a server whether it is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prober {
    /// Who was told this.
    You,
    SomebodyElse,
}

impl Standing {
    /// A server of a router of which `slow` are out for their timeouts.
    pub fn new(slow: Arc<AtomicU32>) -> Self {
        Standing { word: AtomicU32::new(IN), slow }
    }

    #[inline]
    pub fn is_in(&self) -> bool {
        self.word.load(Ordering::Relaxed) & STATE == IN
    }

    /// A request was not answered in time, or by what makes no sense. `None` if it is sent more all the same.
    pub fn timed_out(&self, options: &Health) -> Option<Prober> {
        let puts_out = |word: u32| {
            let is_enough = options.timeouts_until_tko.is_some_and(|most| failures(one_more(word)) >= most);
            is_enough.then_some(word & STATE == IN)
        };
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let is_first = puts_out(word) == Some(true);
            // If many are slow at once, it is not they who are: all of their requests would fail.
            let is_out = is_first && self.take_place(options.soft_tkos_max);
            let next = one_more(word) | if is_out { SLOW } else { IN };
            match self.word.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if is_out => return Some(Prober::You),
                Ok(_) => return (puts_out(word) == Some(false)).then_some(Prober::SomebodyElse),
                Err(other) => {
                    if is_out {
                        self.slow.fetch_sub(1, Ordering::Relaxed);
                    }
                    word = other;
                }
            }
        }
    }

    /// One of the places for servers that are out for their timeouts.
    fn take_place(&self, most: u32) -> bool {
        let may_go = |slow: u32| (most == 0 || slow < most).then_some(slow + 1);
        self.slow.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may_go).is_ok()
    }

    /// It cannot be connected to.
    pub fn unreachable(&self, options: &Health) -> Option<Prober> {
        let turned = |word: u32| match options.timeouts_until_tko {
            None => one_more(word),
            Some(_) => one_more(word) & !STATE | GONE,
        };
        let update = |word| Some(turned(word));
        let before = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
        let before = before.unwrap_or_else(|word| word) & STATE;
        options.timeouts_until_tko?;
        if before == SLOW {
            self.slow.fetch_sub(1, Ordering::Relaxed);
        }
        Some(if before == IN { Prober::You } else { Prober::SomebodyElse })
    }

    /// Why it is out, if it is.
    pub fn tko(&self) -> Option<Tko> {
        match self.word.load(Ordering::Relaxed) & STATE {
            SLOW => Some(Tko::Soft),
            GONE => Some(Tko::Hard),
            _ => None,
        }
    }

    /// How often it has failed since it has last answered.
    pub fn failures(&self) -> u32 {
        failures(self.word.load(Ordering::Relaxed))
    }

    /// It has answered, or what was found out before counts no more.
    #[inline]
    pub fn heard(&self) -> Ended {
        if self.word.load(Ordering::Relaxed) == 0 {
            return Ended::Nothing;
        }
        if self.word.swap(0, Ordering::Relaxed) & STATE == SLOW {
            self.slow.fetch_sub(1, Ordering::Relaxed);
        }
        Ended::Failures
    }
}

/// A server that is forgotten leaves its place to another.
impl Drop for Standing {
    fn drop(&mut self) {
        self.heard();
    }
}

/// When a server that is out is asked next, by the worker that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    pub next_ms: u64,
    gap_ms: u32,
}

impl Probes {
    pub fn begin(now_ms: u64, options: &Health) -> Self {
        let gap_ms = options.probe_initial.as_millis() as u32;
        Probes { next_ms: now_ms + u64::from(gap_ms), gap_ms }
    }

    /// It was asked. The next time is half as long away again, and a part of that which is different for each, so that servers which have
    /// failed together are not asked together.
    pub fn asked(&mut self, now_ms: u64, options: &Health, random: u32) {
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

    /// mcrouter's.
    const OPTIONS: Health = Health {
        timeouts_until_tko: Some(3),
        soft_tkos_max: 0,
        probe_initial: Duration::from_secs(10),
        probe_max: Duration::from_secs(60),
        inactive_after: Duration::ZERO,
    };

    #[test]
    fn a_server_is_out_after_timeouts_in_a_row_and_in_again_once_it_answers() {
        let standing = Standing::default();
        assert_eq!((standing.timed_out(&OPTIONS), standing.timed_out(&OPTIONS)), (None, None));
        standing.heard();
        assert_eq!((standing.timed_out(&OPTIONS), standing.timed_out(&OPTIONS)), (None, None));
        assert!(standing.is_in());
        assert_eq!(standing.timed_out(&OPTIONS), Some(Prober::You));
        assert_eq!(standing.timed_out(&OPTIONS), Some(Prober::SomebodyElse));
        assert_eq!(standing.unreachable(&OPTIONS), Some(Prober::SomebodyElse));
        assert!(!standing.is_in());
        assert_eq!((standing.tko(), standing.failures()), (Some(Tko::Hard), 5));
        standing.heard();
        assert!(standing.is_in());
        assert_eq!((standing.tko(), standing.failures()), (None, 0));
        assert_eq!(standing.unreachable(&OPTIONS), Some(Prober::You));
        assert_eq!((standing.tko(), standing.failures()), (Some(Tko::Hard), 1));
        let never = Health { timeouts_until_tko: None, ..OPTIONS };
        let standing = Standing::default();
        assert!(
            (0..100).all(|_| standing.timed_out(&never).is_none()) && standing.unreachable(&never).is_none()
        );
    }

    #[test]
    fn no_more_servers_are_out_for_timeouts_than_is_allowed() {
        let slow = Arc::new(AtomicU32::new(0));
        let all: Vec<Standing> = (0..3).map(|_| Standing::new(slow.clone())).collect();
        let options = Health { timeouts_until_tko: Some(1), soft_tkos_max: 2, ..OPTIONS };
        let put_out = || all.iter().map(|it| it.timed_out(&options).is_some()).collect::<Vec<_>>();
        assert_eq!(put_out(), [true, true, false]);
        assert!(all[2].is_in());
        all[0].heard();
        assert_eq!(put_out(), [true, true, false], "the first of them again");
        all[1].heard();
        assert_eq!(all[2].timed_out(&options), Some(Prober::You));
        assert_eq!(
            all[1].unreachable(&options),
            Some(Prober::You),
            "one that cannot be connected to is always out"
        );
        all.iter().for_each(|it| _ = it.heard());
        assert_eq!(slow.load(Ordering::Relaxed), 0);
        assert_eq!(put_out(), [true, true, false]);
        assert_eq!(all[0].unreachable(&options), Some(Prober::SomebodyElse));
        assert_eq!(all[0].tko(), Some(Tko::Hard));
        assert_eq!(
            put_out(),
            [true, true, true],
            "one that is gone is slow no more, and leaves its place to another"
        );
        all.iter().for_each(|it| _ = it.heard());
        assert_eq!(slow.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_server_that_is_forgotten_while_it_is_out_leaves_its_place() {
        let slow = Arc::new(AtomicU32::new(0));
        let options = Health { timeouts_until_tko: Some(1), soft_tkos_max: 1, ..OPTIONS };
        let [one, other] = [(); 2].map(|()| Standing::new(slow.clone()));
        assert_eq!((one.timed_out(&options), other.timed_out(&options)), (Some(Prober::You), None));
        drop(one);
        assert_eq!(other.timed_out(&options), Some(Prober::You));
    }

    #[test]
    fn it_is_asked_less_and_less_often() {
        let mut probes = Probes::begin(1000, &OPTIONS);
        assert_eq!(probes.next_ms, 11_000);
        let mut gaps = Vec::new();
        let mut now = probes.next_ms;
        for random in 0..12 {
            probes.asked(now, &OPTIONS, random * 7);
            gaps.push(probes.next_ms - now);
            now = probes.next_ms;
        }
        assert!((15_750..=22_500).contains(&gaps[0]), "{gaps:?}");
        assert!(gaps[8..].iter().all(|gap| (63_000..=90_000).contains(gap)), "{gaps:?}");
    }
}

#[cfg(all(test, guira_loom))]
mod loom_tests {
    use super::*;
    use loom::thread;

    const OPTIONS: Health = Health {
        timeouts_until_tko: Some(2),
        soft_tkos_max: 1,
        probe_initial: Duration::from_secs(1),
        probe_max: Duration::from_secs(1),
        inactive_after: Duration::ZERO,
    };

    /// A server that is out has a failure, so that the next reply brings it in, and the places of slow servers are those that are taken.
    fn check(standing: &Standing, slow: &AtomicU32) {
        assert!(standing.is_in() || standing.failures() > 0, "{standing:?}");
        let is_slow = standing.tko() == Some(Tko::Soft);
        assert_eq!(slow.load(Ordering::Relaxed), u32::from(is_slow), "{standing:?}");
        standing.heard();
        assert!(standing.is_in() && standing.failures() == 0);
        assert_eq!(slow.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_server_that_is_put_out_while_it_answers_is_brought_in_by_its_next_reply() {
        loom::model(|| {
            let slow = Arc::new(AtomicU32::new(0));
            let standing = Arc::new(Standing::new(slow.clone()));
            standing.timed_out(&OPTIONS);
            let threads: [fn(&Standing); 2] = [|it| _ = it.timed_out(&OPTIONS), |it| _ = it.heard()];
            let threads = threads.map(|act| {
                let standing = standing.clone();
                thread::spawn(move || act(&standing))
            });
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            check(&standing, &slow);
        });
    }

    #[test]
    fn one_of_two_that_find_a_server_out_probes_it() {
        loom::model(|| {
            let slow = Arc::new(AtomicU32::new(0));
            let standing = Arc::new(Standing::new(slow.clone()));
            standing.timed_out(&OPTIONS);
            let acts: [fn(&Standing) -> Option<Prober>; 2] =
                [|it| it.timed_out(&OPTIONS), |it| it.unreachable(&OPTIONS)];
            let threads = acts.map(|act| {
                let standing = standing.clone();
                thread::spawn(move || act(&standing))
            });
            let found = threads.map(|thread| thread.join().unwrap());
            assert_eq!(found.iter().filter(|found| **found == Some(Prober::You)).count(), 1, "{found:?}");
            check(&standing, &slow);
        });
    }
}
