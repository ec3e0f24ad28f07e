//! K1 and K2: miss-ratio curves, and how far segmented LRU and KLRU lie apart.

use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, table, verdict};
use crate::simulate::{Misses, Replacement, in_parallel};
use crate::traces::{ALL, Source};
use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_harness::rounds::median;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-curves",
    claims: &["K1", "K2"],
    about: "Miss ratios by size of the cache, simulated with the engine's policies",
    run,
};

/// Sizes, in percent of the keys; the last three are those of K2.
const SIZES: [f64; 7] = [5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 95.0];
/// In the paper's order: K1 compares all, K2 the first two.
const POLICIES: [Replacement; 5] =
    [Replacement::SegLru, Replacement::Klru(16), Replacement::LazyLru, Replacement::Lru, Replacement::Fifo];
const SEGMENTED: usize = 0;
const SAMPLED: usize = 1;

/// A curve of each policy on one trace.
struct Curves {
    source: Source,
    /// By size, then by policy.
    misses: Vec<Vec<Figure>>,
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let mut all = Vec::new();
    let mut missing = Vec::new();
    for source in ALL {
        match curves(source, context)? {
            Some(curves) => all.push(curves),
            None => missing.push(source.name),
        }
    }
    let mut how = format!(
        "Every request reads and a miss is followed by an insert; sizes are shares of the keys, and objects have one size, as in one slab class. \
         Of a recorded trace only what is drawn differs between runs: KLRU's samples; made-up requests are others in each run. The interval \
         of lazy LRU is 60 s, and 1,000 requests are a second of a trace that tells no time. Traces: {}.",
        all.iter()
            .map(|curves| format!("{} ({})", curves.source.name, curves.source.about))
            .collect::<Vec<_>>()
            .join(", ")
    );
    if !missing.is_empty() {
        how.push_str(&format!(" Not there: {}.", missing.join(", ")));
    }
    let charts = all.iter().filter(|curves| DRAWN.contains(&curves.source.name)).map(chart).collect();
    let (nearest, furthest) = apart(&all);
    Ok(Outcome {
        how,
        answers: vec![
            answer(
                "K1",
                nearest,
                "The traces are others: MSR's, Twitter's and IBM's are not at hand. Lazy LRU is FIFO in traces that are over within its minute.",
            ),
            answer("K2", furthest, verdict(&[("the two drift apart as the cache shrinks", is_wider(&all))])),
        ],
        tables: vec![curve_table(&all), difference_table(&all)],
        charts,
    })
}

fn curves(source: Source, context: &Context) -> Result<Option<Curves>, Failure> {
    let limit = context.scale.pick(2_000_000, 20_000);
    let Some(streams) = source.read_all(context, limit)? else {
        return Ok(None);
    };
    let jobs: Vec<(f64, Replacement)> =
        SIZES.iter().flat_map(|&size| POLICIES.map(|policy| (size, policy))).collect();
    let figures = in_parallel(&jobs, |&(size, policy)| {
        let runs = if source.is_made() || policy.draws() { context.runs } else { 1 };
        let figures: Vec<f64> = (0..runs as usize)
            .map(|run| {
                let stream = &streams[run % streams.len()];
                let room = (stream.keys() as f64 * size / 100.0) as u64;
                policy.with(stream, room.max(1), context.seed + run as u64, Misses(stream.ids()))
            })
            .collect();
        Figure::of(&figures)
    });
    let misses = figures.chunks(POLICIES.len()).map(<[Figure]>::to_vec).collect();
    Ok(Some(Curves { source, misses }))
}

/// Traces of which a chart is drawn.
const DRAWN: [&str; 4] = ["cache2k-orm-busy", "CloudPhysics", "lirs-zigzag", "Twitter 034"];

fn chart(curves: &Curves) -> Chart {
    let name = curves.source.name.to_lowercase().replace(' ', "-");
    let lines = POLICIES.iter().enumerate().map(|(index, policy)| {
        let dots = SIZES.iter().zip(&curves.misses).map(|(&size, misses)| Dot {
            x: size,
            y: 100.0 * misses[index].mean,
            spread: 100.0 * misses[index].spread,
        });
        Line::new(&policy.name(), dots.collect())
    });
    Chart {
        name: format!("klru-curve-{name}"),
        title: format!("{}: misses by size", curves.source.name),
        x: Axis::new("objects, % of the keys", Steps::Linear),
        y: Axis::new("misses, %", Steps::Linear),
        lines: lines.collect(),
    }
}

fn curve_table(all: &[Curves]) -> Table {
    let mut rows = Vec::new();
    for curves in all {
        for (size, misses) in SIZES.iter().zip(&curves.misses) {
            let mut row = vec![curves.source.name.to_owned(), format!("{size} %")];
            row.extend(misses.iter().map(|figure| format!("{:.2}", figure.scaled(100.0))));
            rows.push(row);
        }
    }
    let names = POLICIES.map(Replacement::name);
    let head: Vec<&str> = ["trace", "size"].into_iter().chain(names.iter().map(String::as_str)).collect();
    table("Misses, % of the requests:", &head, rows)
}

/// Segmented LRU less KLRU, in points: positive where KLRU misses less.
fn difference(curves: &Curves, size: usize) -> f64 {
    let misses = &curves.misses[size];
    100.0 * (misses[SEGMENTED].mean - misses[SAMPLED].mean)
}

fn difference_table(all: &[Curves]) -> Table {
    let sizes = [SIZES.len() - 1, SIZES.len() - 2, SIZES.len() - 3];
    let rows = all.iter().map(|curves| {
        let mut row = vec![curves.source.name.to_owned()];
        row.extend(sizes.map(|size| format!("{:+.2}", difference(curves, size))));
        row
    });
    table(
        "Misses of segmented LRU less those of KLRU, in points (positive: KLRU misses less):",
        &["trace", "95 % of the keys", "75 %", "50 %"],
        rows.collect(),
    )
}

/// Points within which two count as equal.
const EVEN: f64 = 0.05;

/// Whether the median gap of the two grows from each size of K2 to the next smaller one.
fn is_wider(all: &[Curves]) -> bool {
    let gap =
        |size: usize| median(&all.iter().map(|curves| difference(curves, size).abs()).collect::<Vec<f64>>());
    let count = SIZES.len();
    gap(count - 1) < gap(count - 2) && gap(count - 2) < gap(count - 3)
}

/// What the curves come to: over all of them, and at the sizes of K2.
fn apart(all: &[Curves]) -> (String, String) {
    let mut gaps: Vec<(f64, &str, f64)> = all
        .iter()
        .flat_map(|curves| {
            (0..SIZES.len()).map(|size| (difference(curves, size), curves.source.name, SIZES[size]))
        })
        .collect();
    gaps.sort_by(|left, right| left.0.total_cmp(&right.0));
    let within = gaps.iter().filter(|gap| gap.0.abs() <= 2.0).count();
    let told = |gap: Option<&(f64, &str, f64)>| {
        gap.map_or(String::new(), |(gap, name, size)| format!("{gap:+.1} points ({name} at {size} %)"))
    };
    let nearest = format!(
        "segmented LRU and KLRU within 2 points at {within} of {} sizes; furthest apart {} and {}",
        gaps.len(),
        told(gaps.last()),
        told(gaps.first())
    );
    let at = |size: usize| {
        let gaps: Vec<f64> = all.iter().map(|curves| difference(curves, size)).collect();
        let led = gaps.iter().filter(|gap| **gap > EVEN).count();
        let lost = gaps.iter().filter(|gap| **gap < -EVEN).count();
        format!(
            "{} %: {:.2} points apart in the median, KLRU ahead on {led} of {}, behind on {lost}",
            SIZES[size],
            median(&gaps.iter().map(|gap| gap.abs()).collect::<Vec<f64>>()),
            gaps.len()
        )
    };
    let count = SIZES.len();
    (nearest, [at(count - 1), at(count - 2), at(count - 3)].join("; "))
}
