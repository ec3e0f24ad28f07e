//! The results of routers, as tables in Markdown.

use super::latency::DIRECT;
use super::{Delayed, Forwarded, Round, Routed};
use crate::bench::columns::{missing, rows, section, significant};
use crate::bench::idle;

/// All tables, each under a line that says what it shows.
pub(crate) fn table(routed: &Routed) -> String {
    let mut text = String::new();
    section(
        &mut text,
        "Routers in front of four servers with one worker each: millions of keys per second of the router's processor time, the\n\
         median of the rounds and half the distance between the best and the worst of them; processor time of the servers\n\
         behind for each key; latencies of gets in the closed loop. `relay` looks at no byte, and `floor` has no servers\n\
         behind it.",
        &routed.loads,
        loads,
    );
    section(
        &mut text,
        "Latencies of gets in µs, open loop at a tenth of nutcracker's saturated rate, from the moment a request should have\n\
         been sent: medians of the rounds, and what is more than directly in the same round.",
        &routed.latency,
        latency,
    );
    let caption = "Memory of a router for each idle client (without what the kernel keeps).";
    section(&mut text, caption, &routed.idle, idle::table);
    text
}

fn loads(results: &[Forwarded]) -> String {
    let per_cpu_s = |result: &Forwarded| result.median(|round| round.keys_per_cpu_s);
    rows(
        results,
        &[
            ("load", &|result| result.load.to_owned()),
            ("router", &|result| result.router.clone()),
            ("M keys/CPU s", &|result| {
                format!("{} ±{:.1} %", significant(per_cpu_s(result) / 1e6, 3), 50.0 * spread(result))
            }),
            ("÷ the first", &|result| {
                let first = results.iter().find(|other| other.load == result.load).unwrap_or(result);
                format!("{:.2}", per_cpu_s(result) / per_cpu_s(first).max(1e-9))
            }),
            ("M keys/s", &|result| significant(result.median(|round| round.keys_per_s) / 1e6, 3)),
            ("servers, µs a key", &|result| {
                let behind = result.median(|round| round.behind_us);
                if behind > 0.0 { significant(behind, 3) } else { missing() }
            }),
            ("p50, µs", &|result| format!("{:.0}", result.median(|round| round.p50_us))),
            ("p99, µs", &|result| format!("{:.0}", result.median(|round| round.p99_us))),
            ("misses", &|result| result.rounds.iter().map(|round| round.misses).sum::<u64>().to_string()),
        ],
    )
}

/// Largest less smallest, as a share of the median.
fn spread(result: &Forwarded) -> f64 {
    let of = |round: &Round| round.keys_per_cpu_s;
    let largest = result.rounds.iter().map(of).fold(0.0, f64::max);
    let smallest = result.rounds.iter().map(of).fold(f64::INFINITY, f64::min);
    (largest - smallest) / result.median(of).max(1e-9)
}

fn latency(results: &[Delayed]) -> String {
    let direct = results.iter().find(|result| result.router == DIRECT);
    let added = |result: &Delayed, at: usize| {
        let direct = direct.filter(|direct| direct.router != result.router);
        direct.map_or_else(missing, |direct| format!("{:+.0}", result.added(direct)[at]))
    };
    rows(
        results,
        &[
            ("way", &|result| result.router.clone()),
            ("requests/s", &|result| format!("{:.0}", result.rate_per_s)),
            ("p50", &|result| format!("{:.0}", result.medians()[0])),
            ("p99", &|result| format!("{:.0}", result.medians()[1])),
            ("added to p50", &|result| added(result, 0)),
            ("added to p99", &|result| added(result, 1)),
        ],
    )
}
