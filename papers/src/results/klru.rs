//! KLRU's claims.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    row(
        "K1",
        "klru-curves",
        "KLRU and segmented LRU miss equally often",
        "nearly, but for one trace",
        |answer| {
            let [near, all] = answer.after("points at")?;
            Some((format!("within 2 points at {near} of {all} sizes"), vec![near >= 0.9 * all]))
        },
    ),
    row(
        "K2",
        "klru-curves",
        "miss ratio, segmented minus KLRU, at 95 / 75 / 50 % of the keys",
        "about 0, growing; no winner",
        |answer| {
            let [large, ahead, of, behind] = answer.after("95 %:")?;
            let [small, half_ahead, _, half_behind] = answer.after("50 %:")?;
            let text = format!(
                "{large:.2} to {small:.2} points in the median; of {of} KLRU ahead on {ahead}, behind on {behind}; at 50 % on {half_ahead} and {half_behind}"
            );
            let no_winner = |ahead: f64, behind: f64| (ahead - behind).abs() <= of / 3.0;
            Some((text, vec![large < 0.1 && small > large, no_winner(half_ahead, half_behind)]))
        },
    ),
    row(
        "K3",
        "klru-samples",
        "distance of K = 1 from random, of K = 16 from LRU",
        "none, nearly none",
        |answer| {
            let [random] = answer.after("K = 1 within")?;
            let [exact] = answer.after("is within")?;
            Some((format!("within {random:.2} and {exact:.2} points"), vec![random < 0.5, exact < 0.5]))
        },
    ),
    row("K4", "klru-delay", "a long scan", "segmented LRU protected; KLRU recovers more slowly", |answer| {
        let [segmented] = answer.after("a request takes")?;
        let [klru] = answer.after("before the scan),")?;
        let [segmented_s, klru_s] = answer.after("hit ratio after")?;
        let text = format!(
            "{segmented:.1} against {klru:.1} µs after it; back after {segmented_s:.1} and {klru_s:.1} s"
        );
        Some((text, vec![segmented < klru, klru_s > segmented_s]))
    }),
    row("K5", "klru-delay", "a trace that favours KLRU", "clearly lower latency", |answer| {
        let [klru, segmented] = answer.after("lirs-zigzag:")?;
        Some((format!("{klru:.0} against {segmented:.0} µs"), vec![klru < 0.9 * segmented]))
    }),
    row("K6", "klru-server", "reads through the server, over plain LRU", "+45 %", |answer| {
        let [klru] = answer.after("klru ×")?;
        Some((format!("{:+.0} %", (klru - 1.0) * 100.0), vec![klru >= 1.2]))
    }),
    row(
        "K7",
        "klru-server",
        "writes through the server, over plain LRU",
        "KLRU alike; lazy LRU −35 %",
        |answer| {
            let [klru] = answer.after("klru ×")?;
            let [lazy] = answer.after("lazy ×")?;
            let text = format!("{:+.0} %; {:+.0} %", (klru - 1.0) * 100.0, (lazy - 1.0) * 100.0);
            Some((text, vec![(klru - 1.0).abs() <= 0.1, lazy <= 0.8]))
        },
    ),
    row(
        "K8",
        "klru-server",
        "latency p99 of lazy, segmented and KLRU, mixed and writes",
        "34 / 29 / 25, 48 / 36 / 33",
        |answer| {
            let of = |trace: &str| {
                let part = answer.from(trace)?;
                Some([part.after::<1>("lazy")?[0], part.after::<1>("seg")?[0], part.after::<1>("K ")?[0]])
            };
            let [lazy, segmented, klru] = of("041 (50/50):")?;
            let [lazy_write, segmented_write, klru_write] = of("032 (2/98):")?;
            let text = format!(
                "{lazy:.0} / {segmented:.0} / {klru:.0}, {lazy_write:.0} / {segmented_write:.0} / {klru_write:.0} µs"
            );
            let best = |lazy: f64, segmented: f64, klru: f64| klru <= segmented && segmented <= lazy;
            Some((text, vec![best(lazy, segmented, klru), best(lazy_write, segmented_write, klru_write)]))
        },
    ),
    row("K9", "klru-threads", "threads", "reads near linear; lazy LRU falls behind on writes", |answer| {
        let [_, _, reads] = answer.after("034 (94/6):")?;
        let [_, _, _, _, lazy, segmented, klru] = answer.after("032 (2/98):")?;
        let text = format!(
            "KLRU keeps {reads:.2} of a thread's reads with 2; writes with 8: lazy {lazy:.2}, segmented {segmented:.2}, KLRU {klru:.2}"
        );
        Some((text, vec![reads >= 0.9, lazy < segmented && lazy < klru]))
    }),
    row("K10", "klru-sampling", "drawing 16 items", "4.2 µs", |answer| {
        let [_, _, _, _, sixteen] = answer.after("K = 1 to 32:")?;
        Some((format!("{sixteen:.2} µs"), vec![sixteen <= 4.2]))
    }),
    row(
        "K11",
        "klru-metadata",
        "metadata saved against segmented LRU",
        "16 B an item, 17 % of memory",
        |answer| {
            let [bytes, share] = answer.after("lazy LRU 16:")?;
            Some((format!("{bytes:.1} B, {share:.1} %"), vec![bytes >= 15.0, share >= 16.0]))
        },
    ),
    row("K12", "klru-small", "small caches, KLRU ÷ segmented LRU", "1 at three sizes", |answer| {
        let [small] = answer.after("12 MiB: KLRU")?;
        let [middle] = answer.after("16 MiB: KLRU")?;
        let [large] = answer.after("32 MiB: KLRU")?;
        let near = [small, middle, large].map(|ratio| ratio >= 0.95);
        Some((format!("{small:.2}, {middle:.2}, {large:.2}"), near.to_vec()))
    }),
    row(
        "K13",
        "klru-expiry",
        "reclaiming expired items",
        "throughput equal or better; memory bounded",
        |answer| {
            let [rate] = answer.after("KLRU")?;
            let [klru, _, without] = answer.after("after 8 h")?;
            let text = format!("{rate:.2} × segmented LRU; {klru:.1} MiB, {without:.1} without the crawler");
            Some((text, vec![rate >= 0.98, klru < without / 2.0]))
        },
    ),
    row("K14", "klru-server", "without the network", "of reads plain LRU gains least, KLRU most", |answer| {
        let reads = answer.from("network reads")?;
        let [plain] = reads.after("lru ×")?;
        let [lazy] = reads.after("lazy-lru ×")?;
        let [segmented] = reads.after("seg-lru ×")?;
        let [klru] = reads.after("klru ×")?;
        let text =
            format!("plain × {plain:.0}, lazy × {lazy:.0}, segmented × {segmented:.0}, KLRU × {klru:.0}");
        let least = plain < lazy && plain < segmented && plain < klru;
        Some((text, vec![least, klru > lazy && klru > segmented]))
    }),
    row("K15", "klru-locks", "locks of the slab allocator: 1, 4, 8", "more locks, more writes", |answer| {
        let [one, _, one_waits, _, four, _, _, _, eight, _, eight_waits] = answer.after("2 threads:")?;
        let text =
            format!("{one:.1}, {four:.1}, {eight:.1} M/s; waits {one_waits:.0} → {eight_waits:.0} in 1,000");
        Some((text, vec![eight > one, eight_waits < one_waits]))
    }),
    row("K16", "klru-summary", "KLRU overall", "slightly ahead on writes", |answer| {
        let writes = answer.from("writes")?;
        let [klru] = writes.after("klru ×")?;
        let [segmented] = writes.after("seg-lru ×")?;
        let [evicting] = answer.after("12 MiB: KLRU")?;
        let text = format!(
            "without the network × {klru:.0} against × {segmented:.0}; where stores evict {evicting:.2} ×"
        );
        Some((text, vec![klru >= segmented, evicting >= 1.0]))
    }),
];
