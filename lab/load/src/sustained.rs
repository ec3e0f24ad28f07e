//! The highest rate of an open loop at which the mean latency of gets stays below a limit.
//!
//! A closed loop tells about where that is; from there the rate rises until the server does not keep up, and what lies
//! between the last two rates is halved. A rate that was not kept is tried once more, since a single stall of the
//! machine, a twentieth of the measurement long, makes the mean of any server a long one.

use std::time::Duration;

use crate::bench::LOST_MAX;
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::{Gaps, Pace};
use crate::process::Process;
use crate::run::{Load, Outcome};

/// By how much the rate rises.
const RISE: f64 = 1.15;
/// The first rate, as a share of what a closed loop reaches.
const FIRST: f64 = 0.85;
/// The search ends when the highest rate kept and the lowest not kept are this close.
const CLOSE: f64 = 0.03;
/// Rates that are tried at most.
const RATES_MAX: usize = 16;
/// Times that a rate is tried until it counts as not kept.
const TRIES: usize = 2;
/// The share of the requests that must have been answered at the end: of what is under way then, little may be left.
const ANSWERED_MIN: f64 = 0.97;

/// What a server did at the highest rate that it kept.
#[derive(Debug, Clone)]
pub struct Sustained {
    /// Requests a second that were sent.
    pub rate_per_s: f64,
    /// What came of them.
    pub outcome: Outcome,
}

impl Sustained {
    /// Keys asked for per second.
    #[must_use]
    pub fn items_per_s(&self) -> f64 {
        self.outcome.counters.counts.gets as f64 / self.outcome.elapsed_s.max(1e-9)
    }

    /// Keys asked for per second of the server's processor time.
    #[must_use]
    pub fn items_per_cpu_s(&self) -> f64 {
        self.outcome.counters.counts.gets as f64 / self.outcome.server_cpu_s.unwrap_or(0.0).max(1e-9)
    }

    /// The share of the time in which the server was at work, in all its threads together.
    #[must_use]
    pub fn busy(&self) -> f64 {
        self.outcome.server_cpu_s.unwrap_or(0.0) / self.outcome.elapsed_s.max(1e-9)
    }
}

/// Finds the highest rate at which the mean latency of gets is below `limit`. The pace of `load` is of no account. `from`
/// is where the search begins, in requests a second; a closed loop finds it out if there is none.
///
/// # Errors
/// When a load fails, a reply is wrong, or no rate is kept.
pub fn highest(
    load: &Load,
    limit: Duration,
    from: Option<f64>,
    process: Option<Process>,
) -> Result<Sustained, LoadError> {
    let from = match from {
        Some(from) => from,
        None => {
            let closed = Load { pace: Pace::Closed, ..load.clone() }.run(process, &mut Quiet)?;
            closed.require_right()?;
            FIRST * closed.counters.counts.commands as f64 / closed.elapsed_s.max(1e-9)
        }
    };
    search(from, |rate_per_s| {
        let mut outcome = None;
        for _ in 0..TRIES {
            let pace = Pace::Open { rate_per_s, arrivals: Gaps::Poisson };
            let tried = Load { pace, ..load.clone() }.run(process, &mut Quiet)?;
            tried.require_right()?;
            if keeps(&tried, rate_per_s, limit) {
                outcome = Some(Sustained { rate_per_s, outcome: tried });
                break;
            }
        }
        Ok(outcome)
    })?
    .ok_or_else(|| LoadError::Options(format!("at no rate is the mean latency below {limit:?}")))
}

/// Whether a server has kept up.
fn keeps(outcome: &Outcome, rate_per_s: f64, limit: Duration) -> bool {
    let counts = &outcome.counters.counts;
    outcome.counters.get_ns.mean() < limit.as_nanos() as f64
        && counts.lost_ratio() <= LOST_MAX
        && counts.commands as f64 >= ANSWERED_MIN * rate_per_s * outcome.elapsed_s
}

/// The highest rate, from `from` on, at which `at` gives something; none if there is none.
fn search<T>(
    from: f64,
    mut at: impl FnMut(f64) -> Result<Option<T>, LoadError>,
) -> Result<Option<T>, LoadError> {
    let (mut kept, mut missed, mut best) = (0.0, f64::INFINITY, None);
    let mut rate = from;
    for _ in 0..RATES_MAX {
        match at(rate)? {
            Some(found) => (kept, best) = (rate, Some(found)),
            None => missed = rate,
        }
        if missed - kept < CLOSE * missed {
            break;
        }
        rate = if missed.is_infinite() {
            kept * RISE
        } else if kept == 0.0 {
            missed / RISE
        } else {
            f64::midpoint(kept, missed)
        };
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outcome, keeps, search};
    use crate::counters::Counters;

    /// The rate that is found where up to `most` is kept, and how many were tried.
    fn found(from: f64, most: f64) -> (Option<f64>, usize) {
        let mut tried = 0;
        let at = |rate: f64| {
            tried += 1;
            Ok((rate <= most).then_some(rate))
        };
        (search(from, at).unwrap(), tried)
    }

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for from in [40.0, 99.0, 101.0, 300.0] {
            let (rate, tried) = found(from, 100.0);
            assert!((97.0..=100.0).contains(&rate.unwrap()), "{from}: {rate:?}");
            assert!(tried <= 16, "{from}: {tried}");
        }
        assert_eq!(found(100.0, 0.0), (None, 16));
    }

    #[test]
    fn a_rate_is_kept_if_all_is_answered_soon() {
        let limit = Duration::from_millis(1);
        let outcome = |commands: u64, lost: u64, latency_us: u64| {
            let mut counters = Counters::default();
            (counters.counts.commands, counters.counts.lost) = (commands, lost);
            counters.get_ns.record(latency_us * 1000).unwrap();
            Outcome { counters, elapsed_s: 1.0, server_cpu_s: None }
        };
        assert!(keeps(&outcome(1000, 1, 900), 1000.0, limit));
        assert!(!keeps(&outcome(1000, 1, 1100), 1000.0, limit), "too slow");
        assert!(!keeps(&outcome(1000, 2, 900), 1000.0, limit), "too much was lost");
        assert!(!keeps(&outcome(960, 0, 900), 1000.0, limit), "too little was answered");
    }
}
