//! K12: caches that are too small for all keys, where every store evicts.

use super::inside::{AVOIDED, Driven, Inside, START, draw};
use super::mixes::{LAZY, POLICIES, READS, RECLAIMING, SAMPLED, SEGMENTED};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, percent, table, verdict};
use guira_harness::rounds::turns;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-small",
    claims: &["K12"],
    about: "Requests per second of processor time inside the process in caches that evict, at three sizes",
    run,
};

/// What was measured at one size: rates and misses by policy.
struct Size {
    memory: usize,
    rates: Vec<Figure>,
    misses: Vec<Figure>,
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick(1_000_000, 100_000);
    let memories: [usize; 3] =
        context.scale.pick([12 << 20, 16 << 20, 32 << 20], [3 << 20, 4 << 20, 5 << 20]);
    let sizes =
        memories.into_iter().map(|memory| measure(context, keys, memory)).collect::<Result<Vec<_>, _>>()?;
    let ratio = |size: &Size, policy: usize, other: usize| size.rates[policy].mean / size.rates[other].mean;
    let ours = sizes
        .iter()
        .map(|size| {
            format!(
                "{} MiB: KLRU {:.2} × segmented LRU at {} against {} % misses",
                size.memory >> 20,
                ratio(size, SAMPLED, SEGMENTED),
                percent(size.misses[SAMPLED].mean),
                percent(size.misses[SEGMENTED].mean)
            )
        })
        .collect::<Vec<_>>()
        .join("; ");
    let reclaim = sizes.iter().map(|size| format!("{:.2}", ratio(size, RECLAIMING, LAZY)));
    let mut rows = Vec::new();
    for size in &sizes {
        for (index, (name, _)) in POLICIES.iter().enumerate() {
            rows.push(vec![
                format!("{} MiB", size.memory >> 20),
                (*name).to_owned(),
                format!("{:.2}", size.rates[index]),
                format!("{:.2}", size.misses[index].scaled(100.0)),
            ]);
        }
    }
    Ok(Outcome {
        how: format!(
            "The engine classic inside this process, one thread, the mix of the stand-in for Twitter's cluster {} over {keys} keys, items of 96 bytes; a get that misses is followed by a set. Sizes are those of the paper's claim: where both policies miss about as often. {AVOIDED}",
            READS.title()
        ),
        answers: vec![answer(
            "K12",
            ours,
            verdict(&[(
                "KLRU within a tenth of segmented LRU at each size",
                sizes.iter().all(|size| (ratio(size, SAMPLED, SEGMENTED) - 1.0).abs() < 0.1),
            )]) + &format!(
                "Without a network a draw that misses the processor's cache (K10) is part of each eviction, and a stamp of each read. Tail reclaim, which looks at the tail once for a batch of victims, leaves lazy LRU {} of its rate.",
                reclaim.collect::<Vec<_>>().join(", ")
            ),
        )],
        tables: vec![table(
            "Small caches:",
            &["memory", "policy", "million requests a second of processor time", "misses, % of the gets"],
            rows,
        )],
        charts: Vec::new(),
    })
}

fn measure(context: &Context, keys: u32, memory: usize) -> Result<Size, Failure> {
    let model = READS.model(keys)?;
    let settling = draw(&model, context.scale.pick(2_000_000, 50_000), context.seed);
    let mut caches = Vec::new();
    for (_, policy) in POLICIES {
        let inside = Inside::open(policy, memory)?;
        inside.hand().drive(&settling, START);
        caches.push(inside);
    }
    let mut driven: Vec<Vec<Driven>> = vec![Vec::new(); POLICIES.len()];
    for run in 0..context.runs as usize {
        let requests = draw(&model, context.scale.pick(700_000, 30_000), context.seed + 1 + run as u64);
        for index in turns(run, POLICIES.len()) {
            driven[index].push(caches[index].hand().drive(&requests, START));
        }
    }
    let figures = |of: fn(&Driven) -> f64| -> Vec<Figure> {
        driven.iter().map(|runs| Figure::of(&runs.iter().map(of).collect::<Vec<f64>>())).collect()
    };
    Ok(Size { memory, rates: figures(Driven::rate_of_core), misses: figures(Driven::miss_ratio) })
}
