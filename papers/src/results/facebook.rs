//! Facebook's claims.

use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    row(
        "S1",
        "facebook-pages",
        "items of a popular page (model); keys in a batch",
        "521, p95 1,740; 24, p95 95",
        |answer| {
            let [items, most, batch, batch_most, servers] = answer.after("popular pages:")?;
            let text = format!(
                "{items:.0}, p95 {most:.0}; {batch:.1} keys, p95 {batch_most:.0}, for a server of {servers:.0}"
            );
            Some((text, vec![(items / 521.0 - 1.0).abs() < 0.1, batch >= 20.0]))
        },
    ),
    row(
        "S2",
        "facebook-udp",
        "UDP directly against TCP through the router: latency of a get, mean / median / p95",
        "−20 %",
        |answer| {
            let one = answer.after::<3>("of a get of one key are")?;
            let many = answer.from("one key are")?.from("keys")?.after::<3>("")?;
            let text = |less: [f64; 3]| less.map(|less| format!("{:+.0}", -less)).join(" / ");
            let fifth = |less: [f64; 3]| less.iter().all(|less| *less >= 20.0);
            let shown = format!("{} %; of 24 keys at once {} %", text(one), text(many));
            Some((shown, vec![fifth(one), fifth(many)]))
        },
    ),
    row(
        "S3",
        "facebook-discards",
        "gets by UDP that are discarded, where as much is lost as the paper found",
        "0.25 %: 80 % late or lost, 20 % out of order",
        |answer| {
            let [discarded, lost, disordered, wrong, misses] = answer.after("")?;
            let text = format!(
                "{discarded:.2} %: {lost:.0} % late or lost, {disordered:.0} % out of order; {wrong:.0} wrong values"
            );
            Some((text, vec![discarded > 0.0, wrong + misses == 0.0]))
        },
    ),
    row(
        "S4",
        "facebook-window",
        "the sliding window: how long requests wait for a web server (model of a switch)",
        "least between small and large windows",
        |answer| {
            let [first] = answer.after("pages wait")?;
            let [least, best] = answer.after("the smallest window,")?;
            let [last] = answer.from("with one of")?.after(",")?;
            let [slides] = answer.after("the largest;")?;
            let text = format!(
                "{first:.0} ms with the smallest, {least:.1} with {best:.0} keys, {last:.0} with the largest; {slides:.1} as it slides"
            );
            Some((text, vec![first > 1.5 * least, last > 1.5 * least]))
        },
    ),
    row(
        "S5",
        "facebook-herd",
        "leases against herds: peak queries of the database",
        "17 K/s → 1.3 K/s, 13 ×",
        |answer| {
            let [plain, leases, ratio, outdated, with] = answer.after("peak")?;
            let text = format!(
                "{plain:.0} → {leases:.0} a second, {ratio:.1} ×; {outdated} outdated values without leases, {with} with"
            );
            Some((text, vec![ratio >= 13.0, with == 0.0]))
        },
    ),
    row(
        "S6",
        "facebook-churn",
        "working set of a week, of one that churns and of another one, in those of a day",
        "far above, and near",
        |answer| {
            let [high] = answer.after("weekly set is")?;
            let [low] = answer.after("high churn,")?;
            let [off] = answer.after("off by")?;
            let text = format!("{high:.1} ×, {low:.2} ×; the sample is off by {off:.0} % at most");
            Some((text, vec![high >= 3.0, low <= 1.3, off <= 10.0]))
        },
    ),
    row(
        "S7",
        "facebook-replicas",
        "replicate instead of split: of a client's requests for 100 keys each of two servers sees",
        "all when split, half with replicas",
        |answer| {
            let [split, replicas] = answer.after("each server sees")?;
            let [one, split_us, replicas_us] = answer.after("by one server")?;
            let text = format!(
                "{split:.2}, {replicas:.2}; the servers' work for a request {split_us:.0} µs split, {replicas_us:.0} µs with replicas ({one:.0} µs by one server)"
            );
            Some((text, vec![split > 0.99, replicas < 0.56]))
        },
    ),
    row(
        "S8",
        "facebook-gutter",
        "gutter: client-visible failures; hits after a server died",
        "−99 %; ≥ 35 % within 4 minutes, near 50 %",
        |answer| {
            let [fallen] = answer.after("fall by")?;
            let [hits] = answer.after("hits")?;
            let [soon] = answer.after("after")?;
            let text = format!("-{fallen:.1} %; at least 35 % after {soon:.0} s, {hits:.1} % at the end");
            Some((text, vec![fallen >= 99.0, soon <= 240.0]))
        },
    ),
    row(
        "S9",
        "facebook-rehash",
        "why not rehash: a key with 20 % of a server's requests when that server dies",
        "moves to one other server",
        |answer| {
            let [most, beyond] = answer.after("one server gets")?;
            let [gutter] = answer.after("the most is")?;
            let text = format!(
                "rehashed, one server {most:+.1} points, {beyond:.1} beyond the others; with a gutter {gutter:+.1} at most"
            );
            Some((text, vec![beyond >= 19.0, gutter <= 1.0]))
        },
    ),
    row(
        "S10",
        "facebook-deletes",
        "deletes that delete something, broadcast to all clusters of a region (model of users)",
        "4 %",
        |answer| {
            let [clusters, any, own] = answer.after("delete something:")?;
            let [one] = answer.after("one cluster")?;
            let text = format!(
                "{any:.1} % in {clusters:.0} clusters, {one:.1} % in one; {own:.1} % if whoever changes a row has just read it"
            );
            Some((text, vec![any < 10.0]))
        },
    ),
    row(
        "S11",
        "facebook-batches",
        "deletes in a packet (median), batched by the invalidator and sent by web servers",
        "18 ×",
        |answer| {
            let [batched] = answer.after("batched")?;
            let [direct] = answer.after("sent directly")?;
            let [ratio] = answer.after("that is")?;
            let text = format!("{batched:.0} and {direct:.0}: {ratio:.0} ×");
            Some((text, vec![ratio >= 18.0]))
        },
    ),
    row(
        "S12",
        "facebook-regional",
        "one copy of B in a region (model, four clusters)",
        "B regional, A not",
        |answer| {
            let [freed, b, a, ratio] = answer.after("a regional copy of B frees")?;
            let text = format!(
                "B frees {freed:.1} % of the wildcard pools for {b:.2} GB/s between clusters; A would take {a:.1} GB/s, {ratio:.1} ×"
            );
            Some((text, vec![ratio >= 10.0]))
        },
    ),
    row(
        "S13",
        "facebook-cold",
        "cold cluster: requests until clients hit 95 % as often; outdated values when the warm one is 1 s and 3 s late, hold-off 2 s",
        "hours instead of days; no figure",
        |answer| {
            let [with] = answer.after("warm cluster after")?;
            let [without, ratio] = answer.after("cold one, after")?;
            let [none, held, _, sentinels, _, _, late] = answer.after("held back for 1 s:")?;
            let text = format!(
                "{without:.0} alone, {with:.0} with the warm one, {ratio:.0} ×; {held:.0} and {late:.0} outdated values, {none:.0} without hold-off"
            );
            Some((text, vec![ratio >= 10.0, held + sentinels == 0.0, late > 0.0]))
        },
    ),
    row(
        "S14",
        "facebook-markers",
        "remote markers, replica 5 s late: reads older than the own last write; evicted markers, concurrent writers",
        "none; both rare, no figure",
        |answer| {
            let [without, _, with, _] = answer.after("without markers")?;
            let [evicted] = answer.after("evicted")?;
            let [few, few_share, many, many_share] = answer.after("concurrent writers")?;
            let text = format!(
                "{without:.0} without, {with:.0} with markers; {evicted:.0} evicted; concurrent {few_share:.1} % of writes of {few:.0} rows, {many_share:.1} % of {many:.0}"
            );
            Some((text, vec![with == 0.0 && without > 0.0, evicted == 0.0, many_share < 5.0]))
        },
    ),
    row(
        "S15",
        "facebook-rates",
        "fine-grained locks: hits, misses",
        "0.6 → 1.8, 2.7 → 4.5 M items/s",
        |answer| {
            let [one, fine, one_misses, fine_misses] = answer.after("each stripe")?;
            let server = |name| {
                let [hits, misses] = answer.from("over TCP")?.after(name)?;
                Some(misses / hits)
            };
            let (memcached, ours) = (
                server("hits")?,
                answer.from("Guira")?.after("hits").map(|[hits, misses]: [f64; 2]| misses / hits)?,
            );
            let text = format!(
                "lookups of two threads {one:.1} → {fine:.1}, {one_misses:.1} → {fine_misses:.1} M/s; misses ÷ hits of servers: memcached {memcached:.2}, Guira {ours:.2}"
            );
            Some((text, vec![fine >= 1.5 * one, memcached >= 1.25, ours >= 1.25]))
        },
    ),
    row(
        "S16",
        "facebook-rates",
        "UDP over TCP, single gets and 10 keys; 10 keys over single gets",
        "+13 %, +8 %; about 4 ×",
        |answer| {
            let [single, several] =
                answer.after("UDP ÷ TCP").map(|[single, several]: [f64; 2]| [single, several])?;
            let [ratio] = answer.after("keys ÷ one")?;
            let percent = |ratio: f64| 100.0 * (ratio - 1.0);
            let text = format!("{:+.0} %, {:+.0} %; {ratio:.1} ×", percent(single), percent(several));
            Some((text, vec![single >= 1.05, (0.96..=single).contains(&several), ratio >= 3.0]))
        },
    ),
    row(
        "S17",
        "facebook-balance",
        "balance of ages: near one LRU over all memory after a shift of sizes",
        "no figure",
        |answer| {
            let [paper, ours, one] = answer.after("four shifts")?;
            let [behind, behind_ours] = answer.after("points")?;
            let text = format!(
                "recovered after {paper:.2} fills (ours {ours:.2}, one LRU {one:.2}), {behind:.2} points behind one LRU (ours {behind_ours:.2})"
            );
            Some((text, vec![paper < 1.2 * one, behind < 1.0]))
        },
    ),
    row(
        "S18",
        "facebook-short-lived",
        "what a family of keys that live for a second takes of the items",
        "6 % → 0.3 %, at the same hit rate",
        |answer| {
            let [without] = answer.after("family takes")?;
            let [with] = answer.after("without,")?;
            let [hits, hits_with] = answer.after("others hit")?;
            let text = format!("{without:.1} → {with:.2} %; the others hit {hits:.1} → {hits_with:.1} %");
            Some((text, vec![with <= without / 10.0, hits_with >= hits - 0.5]))
        },
    ),
    row(
        "S19",
        "facebook-upgrades",
        "upgrades: how soon 90 % of the hit rate before",
        "hours without shared memory, at once with it",
        |answer| {
            let anew = answer.after::<1>("%) after");
            let [before] = answer.after("rate before (")?;
            let [region] = answer.after("requests hit")?;
            let [takeover] = answer.after("with the region,")?;
            let [ended, took] = answer.after("answers after")?;
            let anew = anew.map_or("more".to_owned(), |[requests]| format!("{:.0} K", requests / 1e3));
            let text = format!(
                "{anew} requests when begun with nothing; at once with the region ({ended:.0} ms) and by takeover ({took:.0} ms)"
            );
            Some((text, vec![region >= 0.9 * before, takeover >= 0.9 * before]))
        },
    ),
    row(
        "S20",
        "facebook-pages",
        "servers that a page asks (model)",
        "56 % of loads < 20; popular pages > 100",
        |answer| {
            let [few, _, servers, many] = answer.after("")?;
            let text = format!("{few:.0} % of loads < 20 of {servers:.0}, {many:.0} % > 100");
            Some((text, vec![(50.0..65.0).contains(&few), many >= 20.0]))
        },
    ),
    row(
        "S21",
        "facebook-sizes",
        "sizes of responses (workload model, ten wildcard servers beside one of each other pool)",
        "median 135 B, mean 954 B",
        |answer| {
            let [median] = answer.after("median")?;
            let [mean] = answer.after("mean")?;
            Some((
                format!("{median:.0} B, {mean:.0} B"),
                vec![(mean / 954.0 - 1.0).abs() < 0.1, (median / 135.0 - 1.0).abs() < 0.1],
            ))
        },
    ),
    row(
        "S22",
        "facebook-latencies",
        "a get through a router, p50 / p75 / p95, idle and busy (no network, two processors)",
        "178 / 219 / 374 and 333 / 475 / 1,135 µs",
        |answer| {
            let [p50, p75, p95] = answer.after("p95")?;
            let busy: [f64; 3] = answer.after("idle,")?;
            let [b50, b75, b95] = busy;
            let text = format!("{p50:.0} / {p75:.0} / {p95:.0} and {b50:.0} / {b75:.0} / {b95:.0} µs");
            Some((text, vec![p50 < 178.0, b50 > p50 && b75 > p75 && b95 > p95]))
        },
    ),
    row(
        "S23",
        "facebook-pools",
        "processors that the peak rates of the paper's servers take: wildcard, app, replicated, regional",
        "a server each",
        |answer| {
            let ours: [f64; 4] = answer.after("take")?;
            let theirs: [f64; 4] = answer.from("Guira and")?.after("")?;
            let list = |all: [f64; 4]| all.map(|cores| format!("{cores:.2}")).join(", ");
            let is_less = ours.iter().zip(theirs).all(|(ours, theirs)| *ours < theirs);
            Some((format!("{} (memcached {})", list(ours), list(theirs)), vec![is_less]))
        },
    ),
    row(
        "S24",
        "facebook-sizes",
        "sizes of items in four pools (workload model)",
        "tables of percentiles and means",
        |answer| {
            let [percentiles] = answer.after("percentile is off by")?;
            let [means] = answer.after("worst mean by")?;
            let text = format!("percentiles off by {percentiles:.1} %, means by {means:.1} % at the worst");
            Some((text, vec![percentiles < 10.0, means < 10.0]))
        },
    ),
    row(
        "S25",
        "facebook-delivery",
        "changes that the caches of the database's region have followed within 1 s",
        "99.99 %",
        |answer| {
            let [share, samples] = answer.after("master")?;
            Some((format!("{share:.4} % of {samples:.0}"), vec![share >= 99.99, samples >= 10_000.0]))
        },
    ),
    row(
        "S26",
        "facebook-delivery",
        "the same in a region whose deletes come 100 ms late",
        "99.9 %",
        |answer| {
            let [share, samples] = answer.after("late,")?;
            Some((format!("{share:.4} % of {samples:.0}"), vec![share >= 99.9]))
        },
    ),
];
