//! The history of a region: faults with their effect on users, and other events.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use guira_regions::judge::lock;
use guira_sync::clock::{Stopwatch, wall_clock_millis};

use crate::counts::{Seen, Sums};

/// The most events, faults and wrong replies that are kept.
const EVENTS_MAX: usize = 200;
const FAULTS_MAX: usize = 50;
const WRONG_MAX: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) what: String,
}

#[derive(Debug)]
pub(crate) struct Fault {
    number: u64,
    pub(crate) at_ms: u64,
    /// Such as `kill node-1`.
    pub(crate) what: String,
    pub(crate) part: String,
    pub(crate) state: &'static str,
    since: Stopwatch,
    before: Sums,
    /// The length of the fault and its effect on users; `None` while it lasts.
    pub(crate) after: Option<(Duration, Seen)>,
}

impl Fault {
    /// The length of the fault so far, and its effect on users.
    pub(crate) fn seen(&self, now: &Sums) -> (Duration, Seen) {
        self.after.clone().unwrap_or_else(|| (self.since.elapsed(), Seen::between(&self.before, now)))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// LOCK: demo_events. Leaf.
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    events: VecDeque<Event>,
    faults: VecDeque<Fault>,
    wrong: Vec<String>,
    number: u64,
}

impl Remembered {
    fn event(&mut self, what: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { at_ms: wall_clock_millis(), what });
    }
}

impl Events {
    pub(crate) fn event(&self, what: impl Into<String>) {
        lock(&self.remembered).event(what.into());
    }

    /// Records a wrong reply.
    pub(crate) fn wrong(&self, what: String) {
        let mut remembered = lock(&self.remembered);
        if remembered.wrong.len() < WRONG_MAX {
            remembered.event(format!("wrong: {what}"));
            remembered.wrong.push(what);
        }
    }

    /// Wrong replies, up to twenty.
    pub(crate) fn all_wrong(&self) -> Vec<String> {
        lock(&self.remembered).wrong.clone()
    }

    /// Records the start of a fault. Returns its number.
    pub(crate) fn begins(&self, verb: &str, part: &str, state: &'static str, before: Sums) -> u64 {
        let mut remembered = lock(&self.remembered);
        remembered.number += 1;
        let (number, what) = (remembered.number, format!("{verb} {part}"));
        remembered.event(format!("{what}: begins"));
        if remembered.faults.len() >= FAULTS_MAX {
            // A caller still waits for a fault that is not over.
            let over = remembered.faults.iter().position(|fault| fault.after.is_some());
            over.map(|index| remembered.faults.remove(index));
        }
        let (at_ms, since, part) = (wall_clock_millis(), Stopwatch::start(), part.to_owned());
        remembered.faults.push_back(Fault { number, at_ms, what, part, state, since, before, after: None });
        number
    }

    pub(crate) fn ends(&self, number: u64, now: &Sums) {
        let mut remembered = lock(&self.remembered);
        let Some(fault) = remembered.faults.iter_mut().find(|fault| fault.number == number) else { return };
        let (lasted, seen) = fault.seen(now);
        let what = format!(
            "{}: ended after {:.1} s; {} of {} requests failed, {} reads were older than the last commit",
            fault.what,
            lasted.as_secs_f64(),
            seen.failed,
            seen.reads + seen.writes + seen.failed,
            seen.stale
        );
        fault.after = Some((lasted, seen));
        remembered.event(what);
    }

    /// The fault of a part at this moment.
    pub(crate) fn state_of(&self, part: &str) -> Option<&'static str> {
        let remembered = lock(&self.remembered);
        remembered
            .faults
            .iter()
            .rev()
            .find(|fault| fault.after.is_none() && fault.part == part)
            .map(|it| it.state)
    }

    /// Events, the newest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        lock(&self.remembered).events.iter().rev().cloned().collect()
    }

    /// Calls `of_fault` for each fault, the newest first.
    pub(crate) fn each_fault<T>(&self, of_fault: impl Fn(&Fault) -> T) -> Vec<T> {
        lock(&self.remembered).faults.iter().rev().map(of_fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Events;
    use crate::counts::{Counts, Sums};

    #[test]
    fn a_fault_is_a_state_of_its_part_until_it_is_over() {
        let (events, sums) = (Events::default(), Sums::of(&Counts::default(), &[]));
        let number = events.begins("kill", "node-1", "killed", sums.clone());
        assert_eq!((events.state_of("node-1"), events.state_of("node-2")), (Some("killed"), None));
        events.ends(number, &sums);
        assert_eq!(events.state_of("node-1"), None);
        assert!(events.events()[0].what.starts_with("kill node-1: ended"));
        assert!(events.each_fault(|fault| fault.after.is_some())[0]);
    }
}
