//! The last half hour of the page's charts, so that a page that is opened later shows the past: `/history.json`.

use guira_sync::clock::Millis;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// From one point to the next, in milliseconds.
const EVERY_MS: u64 = 10_000;
/// Half an hour, and the point before.
const POINTS: usize = 181;
pub(crate) const SERIES_MAX: usize = 8;
/// What the points take at most, in bytes.
pub(crate) const HISTORY_BYTES: usize = POINTS * (size_of::<Millis>() + SERIES_MAX * size_of::<f32>());

/// A reading of a series; each point follows from two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// A counter: kept as its growth per second.
    Total(u64),
    /// Two counters, one of which counts a part of the other: kept as the share by which they grew.
    Share { part: u64, whole: u64 },
    /// A value that is kept as it is.
    Level(Option<f64>),
}

impl Reading {
    /// What there is to keep `seconds` after the reading `then`.
    fn since(self, then: Self, seconds: f64) -> Option<f64> {
        match (self, then) {
            (Reading::Total(now), Reading::Total(then)) => Some(now.saturating_sub(then) as f64 / seconds),
            (Reading::Share { part, whole }, Reading::Share { part: old_part, whole: old_whole }) => {
                let whole = whole.saturating_sub(old_whole);
                (whole > 0).then(|| part.saturating_sub(old_part) as f64 / whole as f64)
            }
            (Reading::Level(level), _) => level,
            _ => None,
        }
    }
}

/// A ring of points. Its memory is taken at the start, and does not grow.
#[derive(Debug)]
pub(crate) struct History {
    names: &'static [&'static str],
    last: Option<(Millis, Vec<Reading>)>,
    times: VecDeque<Millis>,
    /// The values of one point after those of another; an unknown value is NaN.
    values: VecDeque<f32>,
}

impl History {
    pub(crate) fn new(names: &'static [&'static str]) -> Self {
        let (times, values) =
            (VecDeque::with_capacity(POINTS), VecDeque::with_capacity(POINTS * names.len()));
        History { names, last: None, times, values }
    }

    /// Whether it is time for a reading. Readings keep to multiples of the interval, so that a late one makes the next one no later.
    pub(crate) fn is_due(&self, now: Millis) -> bool {
        let interval = |time: Millis| time.0 / EVERY_MS;
        !self.names.is_empty() && self.last.as_ref().is_none_or(|(then, _)| interval(*then) != interval(now))
    }

    /// Keeps a point. If the clock was set back, the points before are of another time, and go.
    pub(crate) fn note(&mut self, now: Millis, readings: Vec<Reading>) {
        match &self.last {
            Some((then, before)) if *then < now => {
                let seconds = (now.0 - then.0) as f64 / 1000.0;
                if self.times.len() == POINTS {
                    self.times.pop_front();
                    self.values.drain(..self.names.len());
                }
                self.times.push_back(now);
                let kept = readings.iter().zip(before).map(|(now, then)| now.since(*then, seconds));
                self.values.extend(kept.map(|value| value.map_or(f32::NAN, |value| value as f32)));
            }
            Some(_) => {
                self.times.clear();
                self.values.clear();
            }
            None => {}
        }
        self.last = Some((now, readings));
    }

    /// All points, the oldest first: each its age in seconds, and the values of the series. `unix_ms` is the time of the reply.
    pub(crate) fn json(&self, now: Millis, unix_ms: u64) -> String {
        let mut out = format!("{{\"unix_ms\":{unix_ms},\"every_s\":{},\"series\":[", EVERY_MS / 1000);
        for (index, name) in self.names.iter().enumerate() {
            let _ = write!(out, "{}\"{name}\"", comma(index));
        }
        out.push_str("],\"points\":[");
        let width = self.names.len();
        for (index, time) in self.times.iter().enumerate() {
            let age = now.0.saturating_sub(time.0) as f64 / 1000.0;
            let _ = write!(out, "{}[{age}", comma(index));
            for value in self.values.range(index * width..(index + 1) * width) {
                let _ = if value.is_finite() { write!(out, ",{value}") } else { write!(out, ",null") };
            }
            out.push(']');
        }
        out.push_str("]}");
        out
    }
}

fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_sync::clock::CoarseClock;

    const NAMES: &[&str] = &["gets", "hits", "waits"];

    /// Looks once a second for `seconds`, as the listener does; ten gets come in each, half of which are found.
    fn run(history: &mut History, clock: &CoarseClock, gets: &mut u64, seconds: u32) -> u32 {
        let mut noted = 0;
        for _ in 0..seconds {
            let now = clock.millis();
            if history.is_due(now) {
                let share = Reading::Share { part: *gets / 2, whole: *gets };
                history.note(now, vec![Reading::Total(*gets), share, Reading::Level(None)]);
                noted += 1;
            }
            *gets += 10;
            clock.advance(1);
        }
        noted
    }

    #[test]
    fn half_an_hour_is_kept_and_no_more() {
        let (clock, mut history, mut gets) = (CoarseClock::manual(1_000), History::new(NAMES), 0);
        let capacities = (history.times.capacity(), history.values.capacity());
        assert_eq!(run(&mut history, &clock, &mut gets, 28), 3, "at 2 s, 10 s and 20 s of the clock");
        assert_eq!(
            history.json(clock.millis(), 7),
            "{\"unix_ms\":7,\"every_s\":10,\"series\":[\"gets\",\"hits\",\"waits\"],\"points\":[[20,10,0.5,null],[10,10,0.5,null]]}"
        );
        run(&mut history, &clock, &mut gets, 2 * 3600);
        assert_eq!((history.times.len(), history.values.len()), (POINTS, POINTS * NAMES.len()));
        assert_eq!((history.times.capacity(), history.values.capacity()), capacities);
        let oldest = clock.millis().0 - history.times[0].0;
        assert!(oldest >= 1_800_000, "{oldest} ms");
        const { assert!(HISTORY_BYTES < 8 << 10) };
    }

    #[test]
    fn a_gap_is_one_point_and_a_clock_that_was_set_back_begins_again() {
        let (clock, mut history, mut gets) = (CoarseClock::manual(1_000), History::new(NAMES), 0);
        run(&mut history, &clock, &mut gets, 20);
        clock.advance(990);
        run(&mut history, &clock, &mut gets, 1);
        let last = history.values[2 * NAMES.len()];
        assert_eq!((history.times.len(), last), (3, 20.0 / 992.0), "20 gets since 992 s ago");
        let earlier = CoarseClock::manual(1_000);
        run(&mut history, &earlier, &mut gets, 1);
        assert_eq!((history.times.len(), history.values.len()), (0, 0));
        run(&mut history, &earlier, &mut gets, 10);
        assert_eq!(history.times.len(), 1);
    }

    #[test]
    fn a_counter_that_was_reset_has_not_grown() {
        let share = |part, whole| Reading::Share { part, whole };
        assert_eq!(Reading::Total(3).since(Reading::Total(5), 10.0), Some(0.0));
        assert_eq!(share(3, 9).since(share(3, 9), 10.0), None);
        assert_eq!(share(4, 13).since(share(3, 9), 10.0), Some(0.25));
        assert_eq!(Reading::Level(Some(1.5)).since(Reading::Level(None), 10.0), Some(1.5));
    }

    #[test]
    fn a_site_without_series_is_not_read() {
        let history = History::new(&[]);
        assert!(!history.is_due(Millis(0)));
        assert!(history.json(Millis(0), 0).ends_with("\"series\":[],\"points\":[]}"));
    }
}
