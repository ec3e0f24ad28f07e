//! When a worker does the work that no request waits for.
//!
//! A worker is *idle* once it has waited for input and none has come in that time: then it does all that there is to do, until something comes. A round
//! without events is no sign of that: clients that wait for replies are about to send. A worker that is not idle gives the crawler *turns*, by
//! time and not by rounds: so it takes the same share of the processor whether requests are many or few, and whatever a step of it costs.

use guira_serving::Woken;
use guira_sync::clock::Millis;
use std::time::Duration;

/// After this long without work, a worker gives back the memory that its session keeps.
const REST_AFTER: Duration = Duration::from_millis(10);

/// While the crawler has work, a worker is idle after this long without input: longer than a client loses its processor for while others have their turn,
/// and no longer than the crawler can wait where requests come seldom and each brings it a turn.
const IDLE_AFTER: Duration = Duration::from_millis(4);

/// A turn of the crawler beside requests ends with the step in which this has passed …
pub(crate) const TURN: Duration = Duration::from_micros(30);
/// … and the next one comes after this many times as long as the turn took: a hundredth of the worker's time. That is a larger part of what the worker
/// uses where it waits between requests, and there it costs less.
const PAUSE: u32 = 80;
/// A turn that took longer than this allows for was interrupted, which costs no other connection anything.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The interval of checks whether the crawler has work, in milliseconds.
const LOOK_EVERY: u64 = 32;

/// The state of a worker's upkeep.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Whether the worker has waited without an event since.
    is_idle: bool,
    /// Whether the session has returned its memory, without an event since.
    is_rested: bool,
    /// Whether the crawler had work at the last check.
    has_work: bool,
    /// The time of the crawler's next turn.
    turn: Millis,
}

impl Default for Upkeep {
    fn default() -> Self {
        Upkeep { is_idle: false, is_rested: true, has_work: false, turn: Millis(0) }
    }
}

impl Upkeep {
    #[inline(always)]
    pub(crate) fn note_request(&mut self) {
        self.is_idle = false;
    }

    /// The worker has waited. True if the session is to give its memory back.
    pub(crate) fn has_waited(&mut self, woken: Woken) -> bool {
        self.is_idle = woken == Woken::ByTime;
        let was_rested = std::mem::replace(&mut self.is_rested, self.is_idle);
        self.is_idle && !was_rested
    }

    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// The longest that the worker may sleep.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match (self.has_work, self.is_rested) {
            (true, _) => Some(IDLE_AFTER),
            (false, false) => Some(REST_AFTER),
            (false, true) => None,
        }
    }

    /// An idle worker has looked for work.
    pub(crate) fn has_looked(&mut self, has_worked: bool) {
        self.has_work = has_worked;
    }

    /// Whether the crawler's turn is due.
    #[inline(always)]
    pub(crate) fn is_turn(&self, now: Millis) -> bool {
        // Clocks that tests move may go back: no pause is that long.
        let left = self.turn.0.wrapping_sub(now.0);
        left == 0 || left > PAUSE_MAX.as_millis() as u64
    }

    /// Ends a turn of the crawler that took this long; `None` if it had no work.
    pub(crate) fn end_turn(&mut self, now: Millis, took: Option<Duration>) {
        self.has_work = took.is_some();
        let pause = took.map_or(LOOK_EVERY, |took| {
            let pause = (took * PAUSE).min(PAUSE_MAX);
            pause.as_micros().div_ceil(1000) as u64
        });
        self.turn = Millis(now.0 + pause.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    /// Rounds of `step` microseconds, each with a request, for a second: how long the crawler was at work if a turn takes `took`.
    fn crawled(step: u64, took: Duration) -> Duration {
        let (mut upkeep, mut crawled) = (Upkeep::default(), Duration::ZERO);
        for at in (0..1_000_000).step_by(step as usize) {
            let now = Millis(5000 + at / 1000);
            upkeep.note_request();
            assert!(!upkeep.is_idle());
            if upkeep.is_turn(now) {
                upkeep.end_turn(now, Some(took));
                crawled += took;
            }
        }
        crawled
    }

    #[test]
    fn beside_requests_the_crawler_takes_its_share_of_the_time_whatever_a_round_takes() {
        for step in [1, 7, 50, 333] {
            for took in [TURN, 2 * TURN, 10 * TURN, 20 * TURN] {
                let crawled = crawled(step, took);
                let share = crawled.as_secs_f64();
                assert!((0.009..=0.013).contains(&share), "rounds of {step} us, turns of {took:?}: {share}");
            }
        }
        // A server with few requests: one turn for each.
        assert_eq!(crawled(10_000, TURN), 100 * TURN);
    }

    #[test]
    fn a_worker_is_idle_when_it_has_waited_until_something_comes() {
        let mut upkeep = Upkeep::default();
        assert!(!upkeep.is_idle(), "a round without events is not enough");
        upkeep.has_waited(Woken::ByEvent);
        assert!(!upkeep.is_idle());
        upkeep.has_waited(Woken::ByTime);
        assert!(upkeep.is_idle());
        upkeep.has_looked(true);
        assert!(upkeep.is_idle(), "as long as there is work");
        upkeep.note_request();
        assert!(!upkeep.is_idle());
        upkeep.has_waited(Woken::ByTime);
        upkeep.has_waited(Woken::ByEvent);
        assert!(!upkeep.is_idle());
    }

    #[test]
    fn a_worker_wakes_up_for_work_and_once_to_give_memory_back_and_then_sleeps() {
        let mut upkeep = Upkeep::default();
        assert_eq!(upkeep.deadline(), None);
        assert!(!upkeep.has_waited(Woken::ByEvent));
        upkeep.end_turn(Millis(5000), None);
        assert_eq!(upkeep.deadline(), Some(REST_AFTER));
        assert!(upkeep.has_waited(Woken::ByTime), "once");
        assert!(!upkeep.has_waited(Woken::ByTime));
        assert_eq!(upkeep.deadline(), None);
        upkeep.has_waited(Woken::ByEvent);
        upkeep.end_turn(Millis(6000), Some(TURN));
        assert_eq!(upkeep.deadline(), Some(IDLE_AFTER));
        assert!(upkeep.has_waited(Woken::ByTime));
        upkeep.has_looked(true);
        assert_eq!(upkeep.deadline(), Some(IDLE_AFTER));
        upkeep.has_looked(false);
        assert_eq!(upkeep.deadline(), None);
    }

    #[test]
    fn a_turn_that_was_interrupted_and_a_clock_that_goes_back_stop_nothing_for_long() {
        let mut upkeep = Upkeep::default();
        assert!(upkeep.is_turn(Millis(5000)));
        upkeep.end_turn(Millis(5000), Some(Duration::from_secs(60)));
        assert!(
            !upkeep.is_turn(Millis(5000)) && !upkeep.is_turn(Millis(5049)) && upkeep.is_turn(Millis(5050))
        );
        upkeep.end_turn(Millis(5000), Some(MICRO));
        assert!(
            !upkeep.is_turn(Millis(5000)) && upkeep.is_turn(Millis(5001)) && upkeep.is_turn(Millis(9000))
        );
        assert!(upkeep.is_turn(Millis(4000)));
        upkeep.end_turn(Millis(5000), None);
        assert!(!upkeep.is_turn(Millis(5031)) && upkeep.is_turn(Millis(5032)));
    }
}
