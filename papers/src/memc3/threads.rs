//! Several threads on one index, with locks (Fig 4b and 5).

use super::drive::{LOAD, Measure, Plan, Point, measure, measure_all};
use super::table::{
    BucketLocks, Bytes, Chaining, Cuckoo, GlobalLock, Huge, Integers, Optimistic, Ours, Small, Tagged,
    Untagged,
};
use crate::experiment::{Context, Experiment, Failure};
use crate::outcome::{Answer, Outcome, Table, verdict};
use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-threads",
    claims: &["M1", "M4", "M5"],
    about: "Lookups and inserts of the bare index by several threads, with the locks of each design",
    run,
};

/// The bars of the figure. The last is not the paper's.
const BARS: &[(&str, Measure)] = &[
    ("chaining, global lock", measure::<Chaining<Small, Bytes, GlobalLock>>),
    ("+ huge pages", measure::<Chaining<Huge, Bytes, GlobalLock>>),
    ("+ integer keys", measure::<Chaining<Huge, Integers, GlobalLock>>),
    ("cuckoo, bucket locks", measure::<Cuckoo<Untagged, BucketLocks, 1>>),
    ("+ tags", measure::<Cuckoo<Tagged, BucketLocks, 1>>),
    ("+ optimistic locking", measure::<Cuckoo<Tagged, Optimistic, 1>>),
    ("+ 2 paths", measure::<Cuckoo<Tagged, Optimistic, 2>>),
    ("Guira's index", measure::<Ours<1>>),
    ("Guira's, 32 lookups at once", measure::<Ours<32>>),
];

const CHAINING: usize = 0;
const INTEGERS: usize = 2;
const BUCKET_LOCKS: usize = 3;
const PATHS: usize = 6;
const OURS: usize = 7;
const BATCHES: usize = 8;

/// The bars that have a line in the chart.
const LINES: [usize; 4] = [INTEGERS, PATHS, OURS, BATCHES];

/// Where in [`THREADS`] the machine's own number is.
const TWO: usize = 1;
const THREADS: [usize; 3] = [1, 2, 4];

fn run(context: &Context) -> Result<Outcome, Failure> {
    let plan = Plan {
        slots: context.scale.pick(1 << 21, 1 << 16),
        threads: THREADS.to_vec(),
        lookups: context.scale.pick(1_000_000, 50_000),
        load: LOAD,
        seed: context.seed,
    };
    let bars = measure_all(BARS, &plan, context.runs)?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let head = |threads: usize| match threads {
        0 => String::new(),
        1 => "1 thread".to_owned(),
        threads if threads > cores => format!("{threads} threads, oversubscribed"),
        threads => format!("{threads} threads"),
    };
    let table = |title: &str, figure: fn(&Point) -> String| Table {
        title: title.to_owned(),
        head: [0].into_iter().chain(THREADS).map(head).collect(),
        rows: BARS
            .iter()
            .zip(&bars)
            .map(|((name, _), points)| {
                [(*name).to_owned()].into_iter().chain(points.iter().map(figure)).collect()
            })
            .collect(),
    };
    Ok(Outcome {
        how: format!(
            "{:.1} M slots, filled and drawn from as for `memc3-factors`. The machine has {cores} processors; more threads than that \
             take turns on them, so that the paper's 6 and 12 cannot be shown here.",
            f64::from(plan.slots) / 1e6
        ),
        answers: answers(&bars),
        tables: vec![
            table("Lookups, M/s (Fig 4b)", |point| point.lookups.to_string()),
            table("90 % lookups and 10 % inserts, M/s (Fig 4b)", |point| point.mixed.to_string()),
        ],
        charts: vec![
            chart("memc3-threads-lookups", "Lookups by threads (Fig 5a)", &bars, |point| point.lookups),
            chart("memc3-threads-mixed", "90 % lookups, 10 % inserts (Fig 5b)", &bars, |point| point.mixed),
        ],
    })
}

fn chart(name: &str, title: &str, bars: &[Vec<Point>], figure: fn(&Point) -> crate::figure::Figure) -> Chart {
    let dot = |point: &Point| {
        let figure = figure(point);
        Dot { x: point.threads as f64, y: figure.mean, spread: figure.spread }
    };
    let line = |bar: usize| Line::new(BARS[bar].0, bars[bar].iter().map(dot).collect());
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        x: Axis::new("threads", Steps::Linear),
        y: Axis::new("million operations a second", Steps::Linear),
        lines: LINES.map(line).to_vec(),
    }
}

/// The paper's order of bars, of the rates of one bar as multiples of another's.
fn order_of_bars(lookups: impl Fn(usize, usize) -> f64, mixed: impl Fn(usize, usize) -> f64) -> String {
    let is_between = |of: &dyn Fn(usize, usize) -> f64| {
        (of(INTEGERS, CHAINING)..of(PATHS, CHAINING)).contains(&of(BUCKET_LOCKS, CHAINING))
    };
    verdict(&[
        (
            "huge pages and integer keys alone gain less than cuckoo does",
            lookups(INTEGERS, CHAINING) < lookups(PATHS, CHAINING),
        ),
        ("bucket-locked cuckoo lies between, for lookups", is_between(&lookups)),
        ("bucket-locked cuckoo lies between, at 90/10", is_between(&mixed)),
    ])
}

fn answers(bars: &[Vec<Point>]) -> Vec<Answer> {
    let lookups = |bar: usize, base: usize| bars[bar][TWO].lookups.mean / bars[base][TWO].lookups.mean;
    let mixed = |bar: usize, base: usize| bars[bar][TWO].mixed.mean / bars[base][TWO].mixed.mean;
    let rises = |bar: usize| bars[bar][TWO].lookups.mean / bars[bar][0].lookups.mean;
    let scaling = |bar: usize| {
        let points = &bars[bar];
        format!(
            "× {:.2} lookups, × {:.2} mixed",
            points[TWO].lookups.mean / points[0].lookups.mean,
            points[TWO].mixed.mean / points[0].mixed.mean
        )
    };
    vec![
        Answer {
            claim: "M1".to_owned(),
            ours: format!(
                "the paper's table {} M/s on 1 thread, {} on 2; Guira's index {} and {}, 32 at once {} and {}",
                bars[PATHS][0].lookups,
                bars[PATHS][TWO].lookups,
                bars[OURS][0].lookups,
                bars[OURS][TWO].lookups,
                bars[BATCHES][0].lookups,
                bars[BATCHES][TWO].lookups
            ),
            remark: verdict(&[("5 M/s on a thread", bars[PATHS][0].lookups.mean >= 4.75)])
                + "There are no twelve threads here. Guira's index does more for a lookup (counters of two buckets, twenty slots) and is made to be asked for many keys at once.",
        },
        Answer {
            claim: "M4".to_owned(),
            ours: format!(
                "2 threads: {:.1} × lookups, {:.1} × at 90/10; huge pages and integer keys alone {:.1} × and {:.1} ×; \
                 bucket-locked cuckoo {:.1} × and {:.1} ×",
                lookups(PATHS, CHAINING),
                mixed(PATHS, CHAINING),
                lookups(INTEGERS, CHAINING),
                mixed(INTEGERS, CHAINING),
                lookups(BUCKET_LOCKS, CHAINING),
                mixed(BUCKET_LOCKS, CHAINING)
            ),
            remark: order_of_bars(lookups, mixed) + "Two threads stand for the paper's six.",
        },
        Answer {
            claim: "M5".to_owned(),
            ours: format!(
                "from 1 to 2 threads: the paper's table {}; Guira's index {}; chaining {}",
                scaling(PATHS),
                scaling(OURS),
                scaling(INTEGERS)
            ),
            remark: verdict(&[
                ("the paper's table gains from a second thread", rises(PATHS) > 1.1),
                ("chaining gains nothing from a second thread", rises(INTEGERS) < 1.1),
            ]) + "Two processors show no more than a slope. At 90/10 the paper's table has one writer at a time and Guira's index several.",
        },
    ]
}
