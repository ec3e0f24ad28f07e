//! The highest rate at which the mean latency of gets stays below a limit.
//!
//! Each connection of a closed loop has one batch in flight, so that more connections mean a higher
//! rate. Their number doubles until the mean latency exceeds the limit, and then the interval
//! between the last two numbers is halved a few times. An open loop would send due requests on
//! connections that still wait: the higher the rate, the more requests share a packet, and single
//! gets would be measured as pipelines.

use std::time::Duration;

use crate::bench::LOST_MAX;
use crate::engine::Quiet;
use crate::error::LoadError;
use crate::pace::Pace;
use crate::process::Process;
use crate::run::{Load, Outcome};

/// Connections at first, and at most: each takes a descriptor here and one in the server.
const CONNECTIONS_FIRST: usize = 8;
const CONNECTIONS_MAX: usize = 512;
/// How often what lies between two numbers is halved.
const HALVINGS: usize = 2;

/// The result at the highest rate with short latencies.
#[derive(Debug, Clone)]
pub struct Sustained {
    pub connections: usize,
    pub outcome: Outcome,
}

impl Sustained {
    /// Requested keys per second.
    #[must_use]
    pub fn items_per_s(&self) -> f64 {
        self.outcome.counters.counts.gets as f64 / self.outcome.elapsed_s.max(1e-9)
    }

    /// Requested keys per second of the server's processor time.
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

/// Finds the highest rate at which the mean latency of gets is below `limit`. Pace and connections of `load` are of no
/// account.
///
/// # Errors
/// When a load fails, a reply is wrong, or the limit is passed with one connection for each thread.
pub fn highest(load: &Load, limit: Duration, process: Option<Process>) -> Result<Sustained, LoadError> {
    let mut best: Option<Sustained> = None;
    search([load.threads, CONNECTIONS_FIRST.max(load.threads)], |connections| {
        let outcome = Load { pace: Pace::Closed, connections, ..load.clone() }.run(process, &mut Quiet)?;
        outcome.require_right()?;
        let is_short = keeps(&outcome, limit);
        let found = Sustained { connections, outcome };
        if is_short && best.as_ref().is_none_or(|best| best.items_per_s() < found.items_per_s()) {
            best = Some(found);
        }
        Ok(is_short)
    })?;
    best.ok_or_else(|| LoadError::Options(format!("the mean latency is never below {limit:?}")))
}

/// Whether latencies were short, and nearly all was answered.
fn keeps(outcome: &Outcome, limit: Duration) -> bool {
    let counts = &outcome.counters.counts;
    // Without any reply this process was stopped.
    let is_short = counts.commands > 0 && outcome.counters.get_ns.mean() < limit.as_nanos() as f64;
    is_short && counts.lost_ratio() <= LOST_MAX
}

/// Searches for the highest number for which `is_short` is true, approximately: from `first`
/// upwards, or down to `least` if it is false for `first`.
fn search(
    [least, first]: [usize; 2],
    mut is_short: impl FnMut(usize) -> Result<bool, LoadError>,
) -> Result<(), LoadError> {
    let (mut short, mut long) = (0, first);
    while long <= CONNECTIONS_MAX && is_short(long)? {
        (short, long) = (long, 2 * long);
    }
    while short == 0 && long / 2 >= least {
        if is_short(long / 2)? {
            short = long / 2;
        } else {
            long /= 2;
        }
    }
    if short == 0 || long > CONNECTIONS_MAX {
        return Ok(());
    }
    for _ in 0..HALVINGS {
        let middle = usize::midpoint(short, long);
        *(if is_short(middle)? { &mut short } else { &mut long }) = middle;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CONNECTIONS_MAX, Outcome, keeps, search};
    use crate::counters::Counters;

    /// The numbers in question where up to `most` is short.
    fn asked(most: usize) -> Vec<usize> {
        let mut all = Vec::new();
        let is_short = |number: usize| {
            all.push(number);
            Ok(number <= most)
        };
        search([1, 8], is_short).unwrap();
        all
    }

    #[test]
    fn numbers_double_until_they_are_too_many_and_are_halved_then() {
        assert_eq!(asked(100), [8, 16, 32, 64, 128, 96, 112]);
        assert_eq!(asked(7), [8, 4, 6, 7]);
        assert_eq!(asked(0), [8, 4, 2, 1]);
        assert_eq!(asked(usize::MAX).last(), Some(&CONNECTIONS_MAX));
    }

    #[test]
    fn a_rate_is_kept_if_nearly_all_is_answered_soon() {
        let limit = Duration::from_millis(1);
        let outcome = |commands: u64, lost: u64, latency_us: u64| {
            let mut counters = Counters::default();
            (counters.counts.commands, counters.counts.lost) = (commands, lost);
            counters.get_ns.record(latency_us * 1000).unwrap();
            Outcome { counters, elapsed_s: 1.0, server_cpu_s: None, server_user_s: None }
        };
        assert!(keeps(&outcome(1000, 1, 900), limit));
        assert!(!keeps(&outcome(1000, 1, 1100), limit), "too slow");
        assert!(!keeps(&outcome(1000, 2, 900), limit), "too much was lost");
        assert!(!keeps(&outcome(0, 0, 1), limit), "nothing was answered");
    }
}
