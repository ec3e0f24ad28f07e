//! What each step from chaining to the paper's table brings, on one thread without locks (Fig 4a).

use super::drive::{LOAD, Measure, Plan, Point, measure, measure_all};
use super::table::{Alone, Bytes, Chaining, Cuckoo, Huge, Integers, Ours, Small, Tagged, Untagged};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-factors",
    claims: &["M2", "M3"],
    about: "Lookups and inserts of the bare index on one thread without locks, from memcached's table to the paper's, step by step",
    run,
};

/// The bars of the figure. The last two are not the paper's.
const BARS: &[(&str, Measure)] = &[
    ("chaining", measure::<Chaining<Small, Bytes, Alone>>),
    ("+ huge pages", measure::<Chaining<Huge, Bytes, Alone>>),
    ("+ integer keys", measure::<Chaining<Huge, Integers, Alone>>),
    ("cuckoo", measure::<Cuckoo<Untagged, Alone, 1>>),
    ("+ tags", measure::<Cuckoo<Tagged, Alone, 1>>),
    ("+ 2 paths", measure::<Cuckoo<Tagged, Alone, 2>>),
    ("Guira's index, with its counters", measure::<Ours<1>>),
    ("the same, 32 lookups at once", measure::<Ours<32>>),
];

const CHAINING: usize = 0;
const HUGE: usize = 1;
const INTEGERS: usize = 2;
const CUCKOO: usize = 3;
const TAGS: usize = 4;
const PATHS: usize = 5;

fn run(context: &Context) -> Result<Outcome, Failure> {
    let plan = Plan {
        slots: context.scale.pick(1 << 22, 1 << 16),
        threads: vec![1],
        lookups: context.scale.pick(2_000_000, 100_000),
        load: LOAD,
        seed: context.seed,
    };
    let bars: Vec<Point> = measure_all(BARS, &plan, context.runs)?.iter().map(|points| points[0]).collect();
    Ok(outcome(plan.slots, &bars))
}

fn outcome(slots: u32, bars: &[Point]) -> Outcome {
    let rows = BARS.iter().zip(bars).map(|((name, _), bar)| {
        let times = |figure: Figure, base: Figure| format!("{:.2}", figure.mean / base.mean);
        vec![
            (*name).to_owned(),
            bar.lookups.to_string(),
            times(bar.lookups, bars[CHAINING].lookups),
            bar.mixed.to_string(),
            times(bar.mixed, bars[CHAINING].mixed),
        ]
    });
    let head = ["", "M lookups/s", "÷ chaining", "M operations/s, 90/10", "÷ chaining"];
    Outcome {
        how: format!(
            "{:.1} M slots, filled to {} % for the lookups and from there to {} % by the inserts of the mixed load; chaining has as many \
             items, and 1.5 of them for each bucket in the end, which is where memcached's table is full. Keys are 16 random \
             bytes, drawn evenly, one lookup after the other. The paper says neither how large its table was nor how full.",
            f64::from(slots) / 1e6,
            LOAD.0,
            LOAD.1
        ),
        answers: answers(bars),
        tables: vec![Table {
            title: "One thread, no locks (Fig 4a)".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }],
        charts: Vec::new(),
    }
}

fn answers(bars: &[Point]) -> Vec<Answer> {
    let lookups = |bar: usize, base: usize| bars[bar].lookups.mean / bars[base].lookups.mean;
    let mixed = |bar: usize, base: usize| bars[bar].mixed.mean / bars[base].mixed.mean;
    let percent = |ratio: f64| format!("{:+.0} %", (ratio - 1.0) * 100.0);
    let step = |bar: usize, base: usize| {
        format!("{} lookups, {} mixed", percent(lookups(bar, base)), percent(mixed(bar, base)))
    };
    vec![
        Answer {
            claim: "M2".to_owned(),
            ours: format!(
                "{:.1} × lookups ({} against {} M/s), {:.1} × at 90/10",
                lookups(PATHS, CHAINING),
                bars[PATHS].lookups,
                bars[CHAINING].lookups,
                mixed(PATHS, CHAINING)
            ),
            remark: verdict(&[
                ("the paper's factor of about 3", lookups(PATHS, CHAINING) >= 2.7),
                ("the same factor at 90/10", mixed(PATHS, CHAINING) >= 2.7),
            ]) + "The processor overlaps the misses of lookups that do not depend on each other, which helps chains most, and today's memcmp spends little on 16 bytes.",
        },
        Answer {
            claim: "M3".to_owned(),
            ours: format!(
                "huge pages {}; integer keys {}; cuckoo without tags {} against that; tags {}; 2 paths {}",
                step(HUGE, CHAINING),
                step(INTEGERS, HUGE),
                step(CUCKOO, INTEGERS),
                step(TAGS, CUCKOO),
                step(PATHS, TAGS)
            ),
            remark: verdict(&[
                ("huge pages help", lookups(HUGE, CHAINING) > 1.0),
                ("integer keys help", lookups(INTEGERS, HUGE) > 1.0),
                ("integer keys help by 80 % or more", lookups(INTEGERS, HUGE) >= 1.8),
                ("cuckoo without tags is slower", lookups(CUCKOO, INTEGERS) < 1.0),
                ("tags repair lookups", lookups(TAGS, CUCKOO) > 1.0),
                ("a second path helps inserts more than lookups", mixed(PATHS, TAGS) > lookups(PATHS, TAGS)),
            ])
            .trim_end()
            .to_owned(),
        },
    ]
}
