//! Hit ratios of the three caches (Tab 3), by simulation with the engines' own policies.

use std::convert::Infallible;

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_sim::{Choice, Means, Measure, OnMiss, Reading, Rules, Sample, Size, Stream, Sweep, Writes};
use guira_workload::trace::{Action, Request};
use guira_workload::{Rng, Zipf};

use super::items::SIZES;
use crate::caches::{CONFIGS, DEFAULT, MEMC3};
use crate::experiment::{Context, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};

const THETA: f64 = 0.99;

/// Keys of the paper's working set: 1 GB of its default cache is a tenth of it.
const KEYS: u64 = 96_000_000;

const QUERIES: u64 = 100_000_000;

/// One query in this many is a set.
const SET_EACH: u64 = 20;

/// What the paper's caches stored, in thousands, in the order of [`CONFIGS`] and [`SIZES`].
const PAPER: [[u64; SIZES.len()]; 3] = [
    [600, 1200, 2400, 4790, 9590, 19_170],
    [650, 1290, 2580, 5160, 10_320, 20_650],
    [840, 1680, 3350, 6710, 13_420, 26_840],
];

/// All requests, of a working set and as many queries as `scale` times fewer than the paper's.
fn stream(scale: u64, seed: u64) -> Result<Stream, Failure> {
    let zipf = Zipf::new(KEYS / scale, THETA).map_err(|error| Failure::Other(error.to_string()))?;
    let mut rng = Rng::new(seed);
    let requests = (0..QUERIES / scale).map(|_| {
        let request = Request::number(zipf.draw(&mut rng));
        let action = if rng.below(SET_EACH) == 0 { Action::Set } else { Action::Get };
        Ok::<_, Infallible>(Request { action, ..request })
    });
    let reading = Reading { writes: Writes::Store, sample: Sample::All, limit: u64::MAX };
    let Ok(stream) = Stream::read(requests, reading);
    Ok(stream)
}

/// Hit ratios, in percent, of each cache at each size, if they store these numbers of items. Scaled down as the stream is.
fn simulate(stream: &Stream, items: &[[u64; SIZES.len()]; 3], scale: u64) -> Result<Vec<Vec<f64>>, Failure> {
    let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    let means = Means { threads: 2, now_ns: &|| 0, progress: &|_| () };
    CONFIGS
        .iter()
        .zip(items)
        .map(|(config, items)| {
            let fail = |error: &dyn std::error::Error| Failure::Other(error.to_string());
            let policies = [Choice::parse(config.policy()).map_err(|error| fail(&error))?];
            let sizes = items.map(|count| Size::Objects((count / scale).max(1)));
            let sweep = Sweep { stream, policies: &policies, sizes: &sizes, rules };
            let points = sweep.run(means).map_err(|error| fail(&error))?;
            Ok(points.iter().map(|point| point.counters.hit_ratio() * 100.0).collect())
        })
        .collect()
}

/// Simulates the three caches, which store these numbers of items at each size.
pub(super) fn run(context: &Context, items: &[[u64; SIZES.len()]; 3]) -> Result<Outcome, Failure> {
    let scale = context.scale.pick(16, 1000);
    let mut runs = Vec::new();
    for run in 0..context.runs {
        runs.push(simulate(&stream(scale, context.seed + u64::from(run))?, items, scale)?);
    }
    let figure = |config: usize, size: usize| {
        Figure::of(&runs.iter().map(|run| run[config][size]).collect::<Vec<_>>())
    };
    let ours: Vec<Vec<Figure>> =
        (0..3).map(|config| (0..SIZES.len()).map(|size| figure(config, size)).collect()).collect();
    let paper_scale = context.scale.pick(1, 1000);
    let paper_items = PAPER.map(|row| row.map(|thousands| thousands * 1000));
    let paper = simulate(&stream(paper_scale, context.seed)?, &paper_items, paper_scale)?;
    Ok(outcome(scale, &ours, &paper))
}

fn outcome(scale: u64, ours: &[Vec<Figure>], paper: &[Vec<f64>]) -> Outcome {
    let names = || CONFIGS.iter().map(|config| config.name.to_owned());
    let head = || [String::new()].into_iter().chain(SIZES.iter().map(|size| format!("{size} MiB"))).collect();
    let of_ours = names().zip(ours).map(|(name, figures)| {
        [name].into_iter().chain(figures.iter().map(|figure| format!("{figure:.2}"))).collect()
    });
    let of_paper = names().zip(paper).map(|(name, ratios)| {
        [name].into_iter().chain(ratios.iter().map(|ratio| format!("{ratio:.2}"))).collect()
    });
    let dot =
        |(size, figure): (&u64, &Figure)| Dot { x: *size as f64, y: figure.mean, spread: figure.spread };
    let lines = names()
        .zip(ours)
        .map(|(name, figures)| Line::new(&name, SIZES.iter().zip(figures).map(dot).collect()));
    Outcome {
        how: format!(
            "Hit ratios: requests with Zipf's law, {THETA}, 95 % gets and 5 % sets, a miss is followed by an insert; what is simulated is the code of the \
             engines' policies, and they store as many items as above; keys ({} M) and queries ({} M) are {scale} times \
             fewer than the paper's, and so are the items. Once, beside that, the paper's own numbers of items were simulated at its full size.",
            KEYS as f64 / scale as f64 / 1e6,
            QUERIES as f64 / scale as f64 / 1e6
        ),
        answers: vec![answer(ours, paper)],
        tables: vec![
            Table {
                title: "Hit ratio, %, with the items that Guira's caches store".to_owned(),
                head: head(),
                rows: of_ours.collect(),
            },
            Table {
                title:
                    "Hit ratio, %, with as many items as the paper's caches stored, at its full size, once"
                        .to_owned(),
                head: head(),
                rows: of_paper.collect(),
            },
        ],
        charts: vec![Chart {
            name: "memc3-hits".to_owned(),
            title: "Hit ratios of the three caches (Tab 3)".to_owned(),
            x: Axis::new("cache, MiB", Steps::Logarithmic),
            y: Axis::new("hit ratio, %", Steps::Linear),
            lines: lines.collect(),
        }],
    }
}

fn answer(ours: &[Vec<Figure>], paper: &[Vec<f64>]) -> Answer {
    let list =
        |ratios: &[f64]| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" ");
    let mean = |figures: &[Figure]| list(&figures.iter().map(|figure| figure.mean).collect::<Vec<_>>());
    let told = |all: &dyn Fn(usize) -> String| {
        CONFIGS
            .iter()
            .enumerate()
            .map(|(index, config)| format!("{} {}", config.name, all(index)))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let best = (0..SIZES.len())
        .filter(|&size| (0..MEMC3).all(|other| ours[MEMC3][size].mean > ours[other][size].mean))
        .map(|size| SIZES[size].to_string())
        .collect::<Vec<_>>();
    let is_best = best.len() == SIZES.len();
    let remark = verdict(&[
        ("CLOCK + cuckoo hits most at each size", is_best),
        (
            "with the paper's numbers of items LRU + chaining is ahead of it in the smallest cache",
            paper[DEFAULT][0] > paper[MEMC3][0],
        ),
    ]);
    Answer {
        claim: "M14".to_owned(),
        ours: format!(
            "{}; CLOCK+cuckoo is best at {} MiB. With the paper's numbers of items: {}",
            told(&|index| mean(&ours[index])),
            if best.is_empty() { "no".to_owned() } else { best.join(", ") },
            told(&|index| list(&paper[index]))
        ),
        remark: remark
            + "Here a new item begins with a clear bit, so that what is not read goes when the hand next comes by; the paper does not say how its items begin. Nothing was loaded before, so that first reads hold back large caches.",
    }
}

#[cfg(test)]
mod tests {
    use super::{PAPER, simulate, stream};

    #[test]
    fn larger_caches_hit_more_and_fewer_items_less() {
        let scale = 2000;
        let stream = stream(scale, 1).unwrap();
        let ratios =
            simulate(&stream, &PAPER.map(|row| row.map(|thousands| thousands * 1000)), scale).unwrap();
        for row in &ratios {
            assert!(row.windows(2).all(|pair| pair[0] <= pair[1]), "{row:?}");
        }
        // The same policy with more items.
        assert!(ratios[0][0] < ratios[1][0], "{ratios:?}");
    }
}
