//! K4 and K5: the mean delay of requests over time, if a miss costs what a database takes.

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_sim::policy::{Id, Policy};
use guira_workload::{Rng, Zipf};

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, answer, table, verdict};
use crate::simulate::{Drive, Replacement, in_parallel, look_aside};
use crate::traces::{DISK, LOOP, Source, ZIGZAG, numbered};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-delay",
    claims: &["K4", "K5"],
    about: "Mean delay over time when a miss costs 100 to 300 µs, on a clock that is moved",
    run,
};

const POLICIES: [Replacement; 3] = [Replacement::SegLru, Replacement::Klru(16), Replacement::Lru];

/// What a request takes that is answered from the cache, in microseconds: a round trip.
const HIT_US: f64 = 20.0;
/// What a miss costs beside it, at least and at most.
const MISS_US: [f64; 2] = [100.0, 300.0];

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Span {
    requests: u64,
    hits: u64,
    delay_us: f64,
}

impl Span {
    fn mean_us(&self) -> f64 {
        self.delay_us / self.requests.max(1) as f64
    }

    fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.requests.max(1) as f64
    }

    fn of(spans: &[Self]) -> Self {
        spans.iter().fold(Self::default(), |sum, span| Self {
            requests: sum.requests + span.requests,
            hits: sum.hits + span.hits,
            delay_us: sum.delay_us + span.delay_us,
        })
    }
}

/// What became of requests that were sent one after the other by each of some clients.
struct Timeline {
    spans: Vec<Span>,
    /// In which span each mark was come by.
    marks: Vec<usize>,
}

struct Timed<'a> {
    ids: &'a [Id],
    /// Requests before time begins.
    warm: usize,
    /// Clients that each wait for one answer at a time.
    clients: f64,
    span_us: f64,
    /// Numbers of requests of which the time is wanted, in their order.
    marks: &'a [usize],
    costs: Rng,
}

impl Drive for Timed<'_> {
    type Output = Timeline;

    fn run<P: Policy>(mut self, cache: &mut P) -> Timeline {
        let (mut spans, mut marks) = (vec![Span::default()], Vec::new());
        let mut now_us = 0.0;
        for (number, &id) in self.ids.iter().enumerate() {
            let is_hit = look_aside(cache, number, id);
            if self.marks.get(marks.len()) == Some(&number) {
                marks.push(spans.len() - 1);
            }
            if number < self.warm {
                continue;
            }
            let miss_us = MISS_US[0] + self.costs.unit() * (MISS_US[1] - MISS_US[0]);
            let delay_us = if is_hit { HIT_US } else { HIT_US + miss_us };
            now_us += delay_us / self.clients;
            let index = (now_us / self.span_us) as usize;
            spans.resize(spans.len().max(index + 1), Span::default());
            let span = &mut spans[index];
            span.requests += 1;
            span.hits += u64::from(is_hit);
            span.delay_us += delay_us;
        }
        Timeline { spans, marks }
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let scan = scan(context)?;
    let (favoured, tables, charts) = favoured(context)?;
    let mut outcome = Outcome {
        how: format!(
            "Simulated with the engine's policies: a hit takes {HIT_US} µs, a miss {} to {} µs more, at random; each client waits for its answer, and time goes on by what requests take. What is drawn differs between runs.",
            MISS_US[0], MISS_US[1]
        ),
        answers: vec![scan.answer, favoured],
        tables: vec![scan.table],
        charts: vec![scan.chart],
    };
    outcome.tables.extend(tables);
    outcome.charts.extend(charts);
    Ok(outcome)
}

/// Keys of the load that is scanned into, and how many the cache has room for.
struct Sizes {
    keys: u64,
    room: u64,
    warm: usize,
    before: usize,
    scanned: usize,
    after: usize,
}

struct Scan {
    answer: Answer,
    table: Table,
    chart: Chart,
}

/// What a scan did to one policy in one run.
struct Blow {
    before: Span,
    during: Span,
    /// The ten seconds after it.
    after: Span,
    /// Seconds until the hit ratio was back within a point.
    recovery_s: f64,
    spans: Vec<Span>,
}

fn scan(context: &Context) -> Result<Scan, Failure> {
    let sizes = context.scale.pick(
        Sizes {
            keys: 2_000_000,
            room: 200_000,
            warm: 3_000_000,
            before: 1_000_000,
            scanned: 300_000,
            after: 2_000_000,
        },
        Sizes { keys: 20_000, room: 2_000, warm: 30_000, before: 300_000, scanned: 50_000, after: 900_000 },
    );
    let zipf = Zipf::new(sizes.keys, 0.99).map_err(failed)?;
    let runs: Vec<u64> = (0..u64::from(context.runs)).collect();
    // By run, then by policy: all policies see the same requests.
    let blows: Vec<Vec<Blow>> = in_parallel(&runs, |run| blows(&sizes, &zipf, context.seed + run));
    let figure = |policy: usize, of: fn(&Blow) -> f64| {
        Figure::of(&blows.iter().map(|blows| of(&blows[policy])).collect::<Vec<f64>>())
    };
    let mut rows = Vec::new();
    for (index, policy) in POLICIES.iter().enumerate() {
        rows.push(vec![
            policy.name(),
            format!("{:.1}", figure(index, |blow| blow.before.mean_us())),
            format!("{:.1}", figure(index, |blow| 100.0 * blow.before.hit_ratio())),
            format!("{:.1}", figure(index, |blow| blow.during.mean_us())),
            format!("{:.1}", figure(index, |blow| blow.after.mean_us())),
            format!("{:.1}", figure(index, |blow| blow.recovery_s)),
        ]);
    }
    let ours = format!(
        "in the ten seconds after the scan a request takes {:.1} µs with segmented LRU ({:.1} before the scan), {:.1} with KLRU ({:.1}); back within a point of the hit ratio after {:.1} and {:.1} s",
        figure(0, |blow| blow.after.mean_us()),
        figure(0, |blow| blow.before.mean_us()),
        figure(1, |blow| blow.after.mean_us()),
        figure(1, |blow| blow.before.mean_us()),
        figure(0, |blow| blow.recovery_s),
        figure(1, |blow| blow.recovery_s),
    );
    let spans: Vec<Vec<&[Span]>> = (0..POLICIES.len())
        .map(|policy| blows.iter().map(|blows| &blows[policy].spans[..]).collect())
        .collect();
    let slowed = |policy: usize| {
        figure(policy, |blow| blow.after.mean_us()).mean / figure(policy, |blow| blow.before.mean_us()).mean
    };
    let recovery = |policy: usize| figure(policy, |blow| blow.recovery_s).mean;
    let remark = verdict(&[
        ("the scan costs segmented LRU less than KLRU", slowed(0) < slowed(1)),
        ("KLRU recovers more slowly", recovery(1) > recovery(0)),
    ]);
    Ok(Scan {
        answer: answer(
            "K4",
            ours,
            remark
                + "What WARM holds outlives the scan; KLRU with 16 samples is as open to it as LRU. Each recovers to its own level before the scan.",
        ),
        table: table(
            &format!(
                "A scan of {} keys into Zipf 0.99 over {} keys, room for {}, 4 clients (delays in µs):",
                sizes.scanned, sizes.keys, sizes.room
            ),
            &["policy", "before", "hits, %", "in the scan", "10 s after", "s until hits are back"],
            rows,
        ),
        chart: chart("klru-scan", "A scan in the middle: mean delay of each second", 1.0, &spans),
    })
}

fn blows(sizes: &Sizes, zipf: &Zipf, seed: u64) -> Vec<Blow> {
    let mut rng = Rng::new(seed);
    let first = sizes.warm + sizes.before;
    let mut ids: Vec<u32> = (0..first).map(|_| zipf.draw(&mut rng) as u32).collect();
    ids.extend((0..sizes.scanned).map(|number| (sizes.keys as usize + number) as u32));
    ids.extend((0..sizes.after).map(|_| zipf.draw(&mut rng) as u32));
    let stream = numbered(&ids);
    let marks = [first, first + sizes.scanned];
    let blow = |policy: &Replacement| {
        let timed = Timed {
            ids: stream.ids(),
            warm: sizes.warm,
            clients: 4.0,
            span_us: 1e6,
            marks: &marks,
            costs: Rng::new(seed),
        };
        blow(policy.with(&stream, sizes.room, seed, timed))
    };
    POLICIES.iter().map(blow).collect()
}

fn blow(timeline: Timeline) -> Blow {
    let (from, to) = (timeline.marks[0], timeline.marks[1]);
    let spans = timeline.spans;
    let before = Span::of(&spans[..from]);
    let later = &spans[(to + 1).min(spans.len())..];
    let is_back = |span: &Span| span.hit_ratio() >= before.hit_ratio() - 0.01;
    Blow {
        before,
        during: Span::of(&spans[(from + 1).min(to)..to]),
        after: Span::of(&later[..later.len().min(10)]),
        recovery_s: later.iter().position(is_back).unwrap_or(later.len()) as f64,
        spans,
    }
}

/// Mean delays over time, a line for each policy: of each moment the mean of its runs.
fn chart(name: &str, title: &str, span_s: f64, spans: &[Vec<&[Span]>]) -> Chart {
    let lines = POLICIES.iter().zip(spans).map(|(policy, runs)| {
        let length = runs.iter().map(|run| run.len()).min().unwrap_or(0);
        let dots = (0..length).map(|index| {
            let delays: Vec<f64> = runs.iter().map(|run| run[index].mean_us()).collect();
            let delay = Figure::of(&delays);
            Dot { x: index as f64 * span_s, y: delay.mean, spread: delay.spread }
        });
        Line::new(&policy.name(), dots.collect())
    });
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x: Axis::new("seconds", Steps::Linear),
        y: Axis::new("µs a request", Steps::Linear),
        lines: lines.collect(),
    }
}

/// A trace on which segmented LRU does worse.
struct Favour {
    source: Source,
    chart: &'static str,
    /// Room, in percent of the keys.
    size: f64,
}

const FAVOURS: [Favour; 3] = [
    Favour { source: ZIGZAG, chart: "klru-zigzag", size: 50.0 },
    Favour { source: DISK, chart: "klru-disk", size: 75.0 },
    Favour { source: LOOP, chart: "klru-loop", size: 95.0 },
];

const POINTS: f64 = 60.0;

fn favour(summary: &[String], is_faster: bool) -> Answer {
    if summary.is_empty() {
        return answer("K5", "not measured: the traces are not there".to_owned(), "");
    }
    let remark = verdict(&[(
        "a request takes less with KLRU than with segmented LRU on all of them",
        is_faster,
    )]) + "IBM 029 is not at hand; these stand in for it. Drawing keeps a part of what LRU loses whole on a loop.";
    answer("K5", summary.join("; "), remark)
}

fn favoured(context: &Context) -> Result<(Answer, Vec<Table>, Vec<Chart>), Failure> {
    let (mut rows, mut charts, mut summary) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_slower = false;
    for Favour { source, chart: name, size } in FAVOURS {
        let Some(stream) = source.read(context, context.scale.pick(u64::MAX, 30_000), context.seed)? else {
            continue;
        };
        let room = ((stream.keys() as f64 * size / 100.0) as u64).max(1);
        // If half of the requests miss.
        let span_us = (stream.len() as f64 * (HIT_US + MISS_US[0]) / POINTS).max(1e4).round();
        let jobs: Vec<(Replacement, u64)> = POLICIES
            .iter()
            .flat_map(|&policy| (0..u64::from(context.runs)).map(move |run| (policy, context.seed + run)))
            .collect();
        let lines = in_parallel(&jobs, |&(policy, seed)| {
            let timed = Timed {
                ids: stream.ids(),
                warm: 0,
                clients: 1.0,
                span_us,
                marks: &[],
                costs: Rng::new(seed),
            };
            policy.with(&stream, room, seed, timed).spans
        });
        let by_policy: Vec<&[Vec<Span>]> = lines.chunks(context.runs as usize).collect();
        let figure = |policy: usize, of: fn(&Span) -> f64| {
            Figure::of(&by_policy[policy].iter().map(|spans| of(&Span::of(spans))).collect::<Vec<f64>>())
        };
        for (index, policy) in POLICIES.iter().enumerate() {
            let hits = figure(index, Span::hit_ratio).scaled(100.0);
            rows.push(vec![
                format!("{} at {size} %", source.name),
                policy.name(),
                format!("{hits:.1}"),
                format!("{:.1}", figure(index, Span::mean_us)),
            ]);
        }
        is_slower |= figure(1, Span::mean_us).mean >= figure(0, Span::mean_us).mean;
        summary.push(format!(
            "{}: {:.0} µs with KLRU, {:.0} with segmented LRU",
            source.name,
            figure(1, Span::mean_us),
            figure(0, Span::mean_us)
        ));
        let spans: Vec<Vec<&[Span]>> =
            by_policy.iter().map(|runs| runs.iter().map(Vec::as_slice).collect()).collect();
        charts.push(chart(
            name,
            &format!("{} with room for {size} % of its keys", source.name),
            span_us / 1e6,
            &spans,
        ));
    }
    let answer = favour(&summary, !is_slower);
    let table = table(
        "Traces that favour KLRU, one client:",
        &["trace and room", "policy", "hits, %", "µs a request"],
        rows,
    );
    Ok((answer, vec![table], charts))
}

#[cfg(test)]
mod tests {
    use guira_workload::Rng;

    use super::{HIT_US, MISS_US, Span, Timed, blow};
    use crate::simulate::Replacement;
    use crate::traces::numbered;

    /// Two keys that fit, and between them a scan of a hundred that do not.
    fn ids() -> Vec<u32> {
        let popular = |count: usize| (0..count).map(|number| (number % 2) as u32);
        popular(1000).chain(10..110).chain(popular(1000)).collect()
    }

    #[test]
    fn time_goes_on_by_what_requests_take() {
        let stream = numbered(&ids());
        let timed = |clients| Timed {
            ids: stream.ids(),
            warm: 0,
            clients,
            span_us: 1000.0,
            marks: &[],
            costs: Rng::new(1),
        };
        let one = Replacement::Lru.with(&stream, 3, 1, timed(1.0));
        let all = Span::of(&one.spans);
        assert_eq!((all.requests, all.hits), (2100, 2100 - 2 - 100 - 2));
        let misses_us = all.delay_us - 2100.0 * HIT_US;
        assert!((104.0 * MISS_US[0]..104.0 * MISS_US[1]).contains(&misses_us), "{misses_us}");
        assert!((one.spans.len() as f64 - all.delay_us / 1000.0).abs() <= 1.0);
        let two = Replacement::Lru.with(&stream, 3, 1, timed(2.0));
        assert!((two.spans.len() as f64 - all.delay_us / 2000.0).abs() <= 1.0);
    }

    #[test]
    fn a_scan_is_found_between_its_marks() {
        let stream = numbered(&ids());
        let timed = Timed {
            ids: stream.ids(),
            warm: 100,
            clients: 1.0,
            span_us: 1000.0,
            marks: &[1000, 1100],
            costs: Rng::new(1),
        };
        let blow = blow(Replacement::Lru.with(&stream, 3, 1, timed));
        assert_eq!((blow.before.hit_ratio(), blow.during.hit_ratio()), (1.0, 0.0));
        assert!(blow.after.hit_ratio() > 0.9 && blow.recovery_s <= 1.0);
    }
}
