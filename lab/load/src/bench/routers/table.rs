//! What routers did, as tables in Markdown.

use super::latency::DIRECT;
use super::{Delayed, Forwarded, Round, Routed};
use crate::bench::table::{header, idle, push, significant};

/// All tables, each under a line that says what it shows.
pub(crate) fn table(routed: &Routed) -> String {
    let mut text = String::new();
    if !routed.loads.is_empty() {
        text.push_str(
            "\nRouters in front of four servers with one worker each: millions of keys per second of the router's processor time, the\n\
             median of the rounds and half the distance between the best and the worst of them; processor time of the servers\n\
             behind for each key; latencies of gets in the closed loop. `relay` looks at no byte, and `floor` has no servers\n\
             behind it.\n\n",
        );
        text.push_str(&loads(&routed.loads));
    }
    if !routed.latency.is_empty() {
        text.push_str(
            "\nLatencies of gets in µs, open loop at a tenth of nutcracker's saturated rate, from the moment a request should have\n\
             been sent: medians of the rounds, and what is more than directly in the same round.\n\n",
        );
        text.push_str(&latency(&routed.latency));
    }
    if !routed.idle.is_empty() {
        text.push_str("\nMemory of a router for each idle client (without what the kernel keeps).\n\n");
        text.push_str(&idle(&routed.idle));
    }
    text
}

fn loads(results: &[Forwarded]) -> String {
    let columns = [
        "load",
        "router",
        "M keys/CPU s",
        "÷ the first",
        "M keys/s",
        "servers, µs a key",
        "p50, µs",
        "p99, µs",
        "misses",
    ];
    let mut table = header(&columns.map(str::to_owned));
    for result in results {
        let first = results.iter().find(|other| other.load == result.load).unwrap_or(result);
        let figure = result.median(|round| round.keys_per_cpu_s);
        let behind = result.median(|round| round.behind_us);
        push(
            &mut table,
            format_args!(
                "| {} | {} | {} ±{:.1} % | {:.2} | {} | {} | {:.0} | {:.0} | {} |\n",
                result.load,
                result.router,
                significant(figure / 1e6, 3),
                50.0 * spread(result),
                figure / first.median(|round| round.keys_per_cpu_s).max(1e-9),
                significant(result.median(|round| round.keys_per_s) / 1e6, 3),
                if behind > 0.0 { significant(behind, 3) } else { "–".to_owned() },
                result.median(|round| round.p50_us),
                result.median(|round| round.p99_us),
                result.rounds.iter().map(|round| round.misses).sum::<u64>()
            ),
        );
    }
    table
}

/// Largest less smallest, as a share of the median.
fn spread(result: &Forwarded) -> f64 {
    let of = |round: &Round| round.keys_per_cpu_s;
    let largest = result.rounds.iter().map(of).fold(0.0, f64::max);
    let smallest = result.rounds.iter().map(of).fold(f64::INFINITY, f64::min);
    (largest - smallest) / result.median(of).max(1e-9)
}

fn latency(results: &[Delayed]) -> String {
    let columns = ["way", "requests/s", "p50", "p99", "added to p50", "added to p99"];
    let mut table = header(&columns.map(str::to_owned));
    let direct = results.iter().find(|result| result.router == DIRECT);
    for result in results {
        let [p50, p99] = result.medians();
        let added = direct.filter(|direct| direct.router != result.router).map(|direct| result.added(direct));
        let added = added.map_or_else(
            || ["–".to_owned(), "–".to_owned()],
            |added| added.map(|figure| format!("{figure:+.0}")),
        );
        push(
            &mut table,
            format_args!(
                "| {} | {:.0} | {p50:.0} | {p99:.0} | {} | {} |\n",
                result.router, result.rate_per_s, added[0], added[1]
            ),
        );
    }
    table
}
