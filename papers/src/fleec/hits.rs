//! F5: a CLOCK value for each bucket beside strict LRU.

use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, table, verdict};
use crate::simulate::{Misses, Replacement, in_parallel};
use crate::traces::{ALL, Source};
use guira_harness::rounds::median;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-hits",
    claims: &["F5"],
    about: "Hit ratios of a CLOCK value for each bucket, by its bits, beside strict LRU and beside a value for each item",
    run,
};

/// Sizes, in percent of the keys.
const SIZES: [f64; 4] = [5.0, 20.0, 50.0, 75.0];
/// Strict LRU, memc3's CLOCK, and values of a number of bits for each bucket.
const POLICIES: [Replacement; 7] = [
    Replacement::Lru,
    Replacement::Clock,
    Replacement::BucketClock(1),
    Replacement::BucketClock(2),
    Replacement::BucketClock(3),
    Replacement::BucketClock(4),
    Replacement::BucketClock(8),
];
const LRU: usize = 0;
const ITEMS: usize = 1;
const USUAL: usize = 3;

/// Percent of hits on one trace.
struct Hits {
    source: Source,
    /// By size, then by policy.
    hits: Vec<Vec<Figure>>,
}

fn hits(source: Source, context: &Context) -> Result<Option<Hits>, Failure> {
    let limit = context.scale.pick(2_000_000, 20_000);
    let Some(streams) = source.read_all(context, limit)? else {
        return Ok(None);
    };
    let jobs: Vec<(f64, Replacement)> =
        SIZES.iter().flat_map(|&size| POLICIES.map(|policy| (size, policy))).collect();
    let figures = in_parallel(&jobs, |&(size, policy)| {
        let hits = streams.iter().map(|stream| {
            let room = (stream.keys() as f64 * size / 100.0) as u64;
            100.0 * (1.0 - policy.with(stream, room.max(1), context.seed, Misses(stream.ids())))
        });
        Figure::of(&hits.collect::<Vec<f64>>())
    });
    let hits = figures.chunks(POLICIES.len()).map(<[Figure]>::to_vec).collect();
    Ok(Some(Hits { source, hits }))
}

/// Points of hits that `policy` has less than `other`, at every trace and size.
fn lost(all: &[Hits], policy: usize, other: usize) -> Vec<f64> {
    let of = |hits: &Hits| -> Vec<f64> {
        hits.hits.iter().map(|figures| figures[other].mean - figures[policy].mean).collect()
    };
    all.iter().flat_map(of).collect()
}

/// The most points of hits that `policy` has less than strict LRU.
fn worst_loss(all: &[Hits], policy: usize) -> f64 {
    lost(all, policy, LRU).iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn summary(all: &[Hits], policy: usize) -> String {
    let lost_to_lru = lost(all, policy, LRU);
    let within = lost_to_lru.iter().filter(|points| **points <= 1.0).count();
    let worst = worst_loss(all, policy);
    format!(
        "{}: {:.1} points of hits less than strict LRU in the median, within one point at {within} of {} sizes, at worst {worst:.1}",
        POLICIES[policy].name(),
        median(&lost_to_lru),
        lost_to_lru.len()
    )
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for source in ALL {
        match hits(source, context)? {
            Some(hits) => all.push(hits),
            None => missing.push(source.name),
        }
    }
    let mut how = "Every request reads and a miss is followed by an insert; sizes are shares of the keys, and objects have one size. A bucket's value by the engine's own rule, with 88 items for a hundred buckets, as the engine has it, where the paper has up to 1.5.".to_owned();
    if !missing.is_empty() {
        how.push_str(&format!(" Not there: {}.", missing.join(", ")));
    }
    let ours = [USUAL, USUAL - 1, USUAL + 1, ITEMS].map(|policy| summary(&all, policy)).join("; ");
    let answers = vec![answer(
        "F5",
        ours,
        verdict(&[
            (
                "a value for each bucket loses at most a point of hits at every size",
                worst_loss(&all, USUAL) <= 1.0,
            ),
            ("a value for each item loses at most a point", worst_loss(&all, ITEMS) <= 1.0),
        ]) + "What is rarely read stays because it shares its value with what is often read, or takes it along.",
    )];
    Ok(Outcome { how, answers, tables: vec![hit_table(&all)], charts: Vec::new() })
}

fn hit_table(all: &[Hits]) -> Table {
    let mut rows = Vec::new();
    for hits in all {
        for (size, figures) in SIZES.iter().zip(&hits.hits) {
            let mut row = vec![hits.source.name.to_owned(), format!("{size} %")];
            row.extend(figures.iter().map(|figure| format!("{figure:.2}")));
            rows.push(row);
        }
    }
    let names = POLICIES.map(Replacement::name);
    let head: Vec<&str> = ["trace", "size"].into_iter().chain(names.iter().map(String::as_str)).collect();
    table("Hits, % of the requests:", &head, rows)
}
