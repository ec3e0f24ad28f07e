//! The bench's results as tables in Markdown.

use guira_harness::rounds::median_of;

use super::columns::{header, missing, push, rows, section, significant};
use super::{
    LoadResult, Results, Series, delete_prefix, dump, fairness, idle, instructions, memory, misses,
    open_loop, routers, takeover,
};
use crate::counters::Counts;
use crate::run::Outcome;
use crate::server::{FLOOR, GUIRA};

/// All tables, each under a line that says what it shows.
#[must_use]
pub fn all(results: &Results) -> String {
    let Results { loads: by_load, open, memory, equal, .. } = results;
    let mut text = String::new();
    section(
        &mut text,
        "Millions of operations per second of server processor time: the median of the rounds, and half the \
         distance between the best and the worst of them.",
        by_load,
        loads,
    );
    let caption = "Nanoseconds of server time for an operation, user + system: medians of the rounds.";
    section(&mut text, caption, by_load, times);
    if by_load.iter().any(|load| load.series.iter().any(|series| has_misses(&series.rounds))) {
        section(&mut text, "Hit ratios of the loads that miss.", by_load, hit_ratios);
    }
    if !workers(by_load).is_empty() {
        let caption = "Two workers beside one on mget100: what is left of the figure (1 is no loss).";
        section(&mut text, caption, by_load, workers);
    }
    section(&mut text, open_loop::CAPTION, open, open_loop::table);
    section(&mut text, "Memory of the process for each item that it holds.", memory, memory::table);
    section(&mut text, "Items held at equal resident size.", equal, memory::table);
    let caption = "Memory of the process for each idle connection (without what the kernel keeps).";
    section(&mut text, caption, &results.idle, idle::table);
    section(&mut text, dump::CAPTION, &results.dumped, dump::table);
    section(&mut text, fairness::CAPTION, &results.fairness, fairness::table);
    section(&mut text, misses::CAPTION, &results.missed, misses::table);
    section(&mut text, delete_prefix::CAPTION, &results.deleted, delete_prefix::table);
    section(&mut text, takeover::CAPTION, &results.taken_over, takeover::table);
    section(&mut text, instructions::CAPTION, &results.counted, instructions::table);
    text.push_str(&routers::table(&results.routed));
    text.trim_start().to_owned()
}

fn has_misses(rounds: &[crate::run::Outcome]) -> bool {
    rounds.iter().any(|round| round.counters.counts.hits < round.counters.counts.gets)
}

/// A row for each load: medians in millions of operations per CPU second with their spread, then ratios.
#[must_use]
pub fn loads(results: &[LoadResult]) -> String {
    let servers = servers(results);
    let ratios = ratios(&servers);
    let mut columns = vec!["load".to_owned()];
    columns.extend(servers.iter().map(|&server| server.to_owned()));
    columns.extend(ratios.iter().map(|(one, other)| format!("{one} ÷ {other}")));
    let mut table = header(&columns);
    for result in results {
        push(&mut table, format_args!("| {} |", result.spec.name));
        for series in servers.iter().map(|server| result.of(server)) {
            let figure = series.map_or_else(missing, |series| {
                let spread = series.spread() * 50.0;
                format!("{} ±{spread:.1} %", significant(series.median() / 1e6, 3))
            });
            push(&mut table, format_args!(" {figure} |"));
        }
        for (one, other) in &ratios {
            let ratio = result.ratio(one, other).map_or_else(missing, |ratio| significant(ratio, 3));
            push(&mut table, format_args!(" {ratio} |"));
        }
        table.push('\n');
    }
    table
}

/// A row for each load: times in user and system mode.
fn times(results: &[LoadResult]) -> String {
    let servers = servers(results);
    let mut columns = vec!["load".to_owned()];
    columns.extend(servers.iter().map(|&server| server.to_owned()));
    let mut table = header(&columns);
    for result in results {
        push(&mut table, format_args!("| {} |", result.spec.name));
        for series in servers.iter().map(|server| result.of(server)) {
            let [user, system] = [0, 1].map(|mode| {
                let time = |round: &Outcome| round.server_ns().map_or(0.0, |times| times[mode]);
                series.map_or_else(missing, |series| format!("{:.0}", median_of(&series.rounds, time)))
            });
            push(&mut table, format_args!(" {user} + {system} |"));
        }
        table.push('\n');
    }
    table
}

/// Every server of any load, in the order of the one that has most: some loads leave a server out.
fn servers(results: &[LoadResult]) -> Vec<&str> {
    let most = results.iter().max_by_key(|result| result.series.len());
    most.into_iter().flat_map(|result| &result.series).map(|series| series.server.as_str()).collect()
}

/// Pairs of servers whose ratio is shown: Guira by every other, and every cache by the floor.
fn ratios<'a>(servers: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let of = |wanted: &'static str| servers.iter().copied().filter(move |&server| server == wanted);
    let others = || servers.iter().copied().filter(|&server| server != GUIRA);
    let during = of(GUIRA).flat_map(|guira| others().map(move |other| (guira, other)));
    let below = of(FLOOR)
        .flat_map(|floor| others().filter(|&server| server != FLOOR).map(move |server| (server, floor)));
    during.chain(below).collect()
}

fn hit_ratios(results: &[LoadResult]) -> String {
    let all = results.iter().flat_map(|load| load.series.iter().map(move |series| (load.spec.name, series)));
    let missing: Vec<(&str, &Series)> = all.filter(|(_, series)| has_misses(&series.rounds)).collect();
    rows(
        &missing,
        &[
            ("load", &|(load, _)| (*load).to_owned()),
            ("server", &|(_, series)| series.server.clone()),
            ("hit ratio", &|(_, series)| {
                format!("{:.4}", median_of(&series.rounds, |round| round.counters.counts.hit_ratio()))
            }),
            ("fills for each operation", &|(_, series)| {
                let fills = |counts: &Counts| counts.fills as f64 / counts.operations().max(1) as f64;
                format!("{:.4}", median_of(&series.rounds, |round| fills(&round.counters.counts)))
            }),
        ],
    )
}

/// For each cache its figure with two workers as a share of that with one; nothing unless both were measured.
fn workers(results: &[LoadResult]) -> String {
    let named = |name: &str| results.iter().find(|result| result.spec.name == name);
    let (Some(one), Some(two)) = (named("mget100"), named("mget100-2w")) else { return String::new() };
    let alone = |series: &Series| one.of(&series.server).map_or(0.0, Series::median);
    let caches = two.series.iter().filter(|series| series.server != FLOOR && alone(series) > 0.0);
    rows(
        &caches.collect::<Vec<_>>(),
        &[
            ("server", &|series| series.server.clone()),
            ("two workers ÷ one", &|series| format!("{:.2}", series.median() / alone(series))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::{all, loads};
    use crate::bench::delete_prefix::{Deleted, Rate, Round as DeleteRound};
    use crate::bench::dump::Dumped;
    use crate::bench::fairness::{Contended, Round};
    use crate::bench::idle::Idle;
    use crate::bench::instructions::Counted;
    use crate::bench::takeover::TakenOver;
    use crate::bench::{LoadResult, Results, Series, loads as specs};
    use crate::counters::{Counters, Percentiles};
    use crate::run::Outcome;

    #[test]
    fn two_workers_are_shown_beside_one() {
        let load = |name: &str, figure: u64| {
            let spec = specs::all().unwrap().into_iter().find(|spec| spec.name == name).unwrap();
            LoadResult { spec, series: vec![series("guira", [figure; 3]), series("floor", [9; 3])] }
        };
        let table = super::workers(&[load("mget100", 1000), load("mget100-2w", 950)]);
        assert!(table.ends_with("|---|---|\n| guira | 0.95 |\n"), "{table}");
        assert_eq!(super::workers(&[load("mget100", 1000)]), "");
    }

    #[test]
    fn idle_connections_and_dumps_have_their_tables() {
        let idle = Idle {
            case: "idle-connections",
            server: "guira".to_owned(),
            connections: 10_000,
            resident_before: 1 << 20,
            resident_after: 11 << 20,
            bytes_per_connection: 1048.576,
        };
        let dumped = Dumped {
            server: "memcached".to_owned(),
            items: 100,
            listed: 99,
            dumps: 2,
            seconds_per_dump: 1.25,
            alone_per_s: 2e6,
            during_per_s: 1e6,
            alone_per_cpu_s: 3e6,
            during_per_cpu_s: 1.5e6,
        };
        let text = all(&Results { idle: vec![idle], dumped: vec![dumped], ..Results::default() });
        assert!(text.contains("| idle-connections | guira | 10000 | 1.0 | 11.0 | 1049 |"), "{text}");
        assert!(
            text.contains("| memcached | 100 | 99 | 1.25 | 2.00 | 1.00 | 0.50 | 3.00 | 1.50 |"),
            "{text}"
        );
    }

    #[test]
    fn what_engines_do_has_its_tables() {
        let rate = |per_s: f64| Rate { per_s, per_cpu_s: 2.0 * per_s };
        let round = DeleteRound {
            reply_us: [30.0, 45.0],
            crawl_s: 1.5,
            before: rate(1e6),
            during: rate(0.9e6),
            after: rate(1e6),
            requested: 100,
            found: 0,
        };
        let deleted = Deleted { engine: "memc3".to_owned(), items: 1000, rounds: vec![round] };
        let taken = TakenOver {
            engine: "mica".to_owned(),
            items: 7,
            longest_ms: vec![90.0, 150.0, 101.0],
            quiet_ms: vec![1.0],
            gets: 9,
            misses: 0,
            missed_before: 0.0,
            closed: 0,
        };
        let text = all(&Results { taken_over: vec![taken], ..Results::default() });
        assert!(text.contains("| mica | 7 | 101 | 150 | 1.00 | 0 | 9 | 0.000 | 0 |"), "{text}");
        let counted = |engine: &str, against| Counted {
            load: "a get alone",
            engine: engine.to_owned(),
            instructions: 110.0,
            against,
        };
        let one = vec![counted("memc3", None), counted("mica", None)];
        let text = all(&Results { deleted: vec![deleted], counted: one, ..Results::default() });
        let row = "| memc3 | 1000 | 30 | 45 | 1.50 | 2.00 | 1.80 | 2.00 | 90.0 | 1.00 | 0.900 | 1.00 | 90.0 | 0 of 100 |";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("|  | memc3 | mica |") && text.contains("| a get alone | 110 | 110 |"),
            "{text}"
        );
        let text = all(&Results { counted: vec![counted("memc3", Some(100.0))], ..Results::default() });
        assert!(text.contains("| a get alone | 110 | 100 | +10.0 |"), "{text}");
    }

    #[test]
    fn a_client_beside_others_has_its_medians() {
        let round = |p99_us, others_per_s| Round {
            latency: Percentiles { p99_us, ..Percentiles::default() },
            others_per_s,
            others_bytes_per_s: 2e6,
        };
        let of = |rounds| Contended { other: "metadump", pace: "free", server: "guira".to_owned(), rounds };
        let rounds = vec![round(3.0, vec![10.0, 2000.0]), round(1.0, vec![10.0, 1000.0])];
        let alone = vec![round(1.0, Vec::new())];
        let text = all(&Results { fairness: vec![of(rounds), of(alone)], ..Results::default() });
        assert!(text.contains("| metadump | free | guira | 0 | 2 | 0 | 0 | 10.0 + 1500 | 2 |"), "{text}");
        assert!(text.contains("| 0 | 1 | 0 | 0 | – | 2 |"), "{text}");
    }

    #[test]
    fn a_server_that_a_load_leaves_out_has_no_figure() {
        let mut specs = specs::all().unwrap();
        let (one, two) = (specs.remove(0), specs.remove(0));
        let results = vec![
            LoadResult { spec: one, series: vec![series("floor", [2_000_000; 3])] },
            LoadResult {
                spec: two,
                series: vec![series("guira", [1_000_000; 3]), series("floor", [2_000_000; 3])],
            },
        ];
        let table = loads(&results);
        assert!(table.contains("| get1 | – | 2.00 ±0.0 % | – |"), "{table}");
        assert!(table.contains("| get32 | 1.00 ±0.0 % | 2.00 ±0.0 % | 0.500 |"), "{table}");
    }

    fn series(server: &str, figures: [u64; 3]) -> Series {
        let outcome = |gets| {
            let mut counters = Counters::default();
            (counters.counts.gets, counters.counts.hits) = (gets, gets);
            Outcome { counters, elapsed_s: 1.0, server_cpu_s: Some(1.0), server_user_s: Some(0.25) }
        };
        Series { server: server.to_owned(), rounds: figures.map(outcome).to_vec() }
    }

    #[test]
    fn a_row_has_medians_spreads_and_ratios() {
        let spec = specs::all().unwrap().remove(0);
        let series = vec![
            series("guira", [2_000_000, 2_200_000, 1_800_000]),
            series("memcached", [500_000, 500_000, 500_000]),
        ];
        let results = vec![LoadResult { spec, series }];
        let table = loads(&results);
        assert!(
            table.contains("| load | guira | memcached | guira ÷ memcached |\n|---|---|---|---|\n"),
            "{table}"
        );
        assert!(table.contains("| get1 | 2.00 ±10.0 % | 0.500 ±0.0 % | 4.00 |"), "{table}");
        let times = super::times(&results);
        assert!(times.contains("| get1 | 125 + 375 | 500 + 1500 |"), "{times}");
        let text = all(&Results { loads: results, ..Results::default() });
        assert!(!text.contains("Open loop") && !text.contains("Hit ratios"));
    }
}
