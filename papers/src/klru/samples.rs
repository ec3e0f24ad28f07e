//! K3: how many samples make KLRU an LRU.

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_sim::Stream;

use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table, verdict};
use crate::simulate::{Misses, Replacement, in_parallel};
use crate::traces::{OLTP, PAGES, SHOP, Source, ZIPF, infallible};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-samples",
    claims: &["K3"],
    about: "Hit ratios by the number of samples, beside exact LRU and random replacement",
    run,
};

const SAMPLES: [u32; 6] = [1, 2, 4, 8, 16, 32];
const TRACES: [Source; 4] = [SHOP, PAGES, OLTP, ZIPF];
/// The room, in percent of the keys.
const SIZE: f64 = 10.0;

/// Hit ratios on one trace: random, by number of samples, LRU.
struct Row {
    name: &'static str,
    random: Figure,
    sampled: Vec<Figure>,
    lru: Figure,
}

impl Row {
    /// How far from random replacement towards LRU a number of samples leads: 0 to 1.
    fn way(&self, index: usize) -> f64 {
        (self.sampled[index].mean - self.random.mean) / (self.lru.mean - self.random.mean)
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let mut rows = Vec::new();
    for source in TRACES {
        if let Some(stream) = source.read(context, context.scale.pick(2_000_000, 20_000), context.seed)? {
            rows.push(measure(source, &stream, context));
        }
    }
    let ways = |index: usize| {
        rows.iter().map(|row| format!("{:.0} %", 100.0 * row.way(index))).collect::<Vec<_>>().join(", ")
    };
    let gap = |index: usize| {
        let gaps = rows.iter().map(|row| 100.0 * (row.sampled[index].mean - row.lru.mean).abs());
        gaps.fold(0.0, f64::max)
    };
    let from_random =
        rows.iter().map(|row| 100.0 * (row.sampled[0].mean - row.random.mean).abs()).fold(0.0, f64::max);
    let ours = format!(
        "K = 1 within {from_random:.2} points of random replacement; of the way from there to LRU K = 4 goes {}, K = 16 goes {} and is within {:.2} points of LRU, K = 32 within {:.2}",
        ways(2),
        ways(4),
        gap(4),
        gap(5)
    );
    let remark = verdict(&[
        ("K = 1 is random, within half a point", from_random < 0.5),
        ("K = 16 is within a point of LRU", gap(4) < 1.0),
        ("K = 32 is no further from it", gap(5) <= gap(4)),
    ]);
    Ok(Outcome {
        how: format!(
            "Room for {SIZE} % of the keys; every request reads, a miss is followed by an insert. Random replacement is written apart from the engine. Runs differ by what is drawn, not by the requests."
        ),
        answers: vec![answer("K3", ours, remark)],
        tables: vec![result_table(&rows)],
        charts: vec![chart(&rows)],
    })
}

fn measure(source: Source, stream: &Stream, context: &Context) -> Row {
    let jobs: Vec<Replacement> =
        [Replacement::Random, Replacement::Lru].into_iter().chain(SAMPLES.map(Replacement::Klru)).collect();
    let room = ((stream.keys() as f64 * SIZE / 100.0) as u64).max(1);
    let mut figures = in_parallel(&jobs, |&replacement| {
        let runs = if replacement.draws() { context.runs } else { 1 };
        infallible(Figure::measure(runs, |run| {
            let seed = context.seed + u64::from(run);
            Ok(1.0 - replacement.with(stream, room, seed, Misses(stream.ids())))
        }))
    });
    let sampled = figures.split_off(2);
    Row { name: source.name, random: figures[0], sampled, lru: figures[1] }
}

fn result_table(rows: &[Row]) -> crate::outcome::Table {
    let cells = rows.iter().map(|row| {
        let figures = [row.random].into_iter().chain(row.sampled.iter().copied()).chain([row.lru]);
        let cells = figures.map(|figure| format!("{:.2}", figure.scaled(100.0)));
        [row.name.to_owned()].into_iter().chain(cells).collect()
    });
    table(
        "Hits, % of the requests:",
        &["trace", "random", "K = 1", "2", "4", "8", "16", "32", "LRU"],
        cells.collect(),
    )
}

fn chart(rows: &[Row]) -> Chart {
    let lines = rows.iter().map(|row| {
        let dots = SAMPLES.iter().enumerate().map(|(index, &samples)| Dot {
            x: f64::from(samples),
            y: 100.0 * row.way(index),
            spread: 100.0 * row.sampled[index].spread / (row.lru.mean - row.random.mean).abs(),
        });
        Line::new(row.name, dots.collect())
    });
    Chart {
        name: "klru-samples".to_owned(),
        title: "From random replacement (0 %) to LRU (100 %)".to_owned(),
        x: Axis::new("samples", Steps::Logarithmic),
        y: Axis::new("of the way, %", Steps::Linear),
        lines: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::Row;
    use crate::figure::Figure;

    #[test]
    fn the_way_goes_from_random_to_lru() {
        let figure = |mean: f64| Figure::of(&[mean]);
        let sampled = vec![figure(0.5), figure(0.6), figure(0.7)];
        let row = Row { name: "t", random: figure(0.5), sampled, lru: figure(0.7) };
        assert_eq!([0, 2].map(|index| row.way(index)), [0.0, 1.0]);
        assert!((row.way(1) - 0.5).abs() < 1e-9);
    }
}
