//! Lengths of items in the paper's pools, and of responses, as the workloads draw them.

use guira_workload::{Recipe, Rng, SizeModel};

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Answer, Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-sizes",
    claims: &["S21", "S24"],
    about: "Lengths of items of the paper's pools and of responses, as the workloads fb-wildcard, fb-app, fb-replicated and fb-regional draw them",
    run,
};

/// A pool as tables 2 and 3 have it: gets a second of a server, and the mean, standard deviation and percentiles of its items.
struct Pool {
    name: &'static str,
    gets: f64,
    mean: f64,
    deviation: f64,
    percentiles: [f64; 6],
}

const PERCENTS: [f64; 6] = [0.05, 0.25, 0.5, 0.75, 0.95, 0.99];

const POOLS: [Pool; 4] = [
    Pool {
        name: "wildcard",
        gets: 262e3,
        mean: 1110.0,
        deviation: 8280.0,
        percentiles: [77.0, 102.0, 169.0, 363.0, 3650.0, 18_300.0],
    },
    Pool {
        name: "app",
        gets: 96.5e3,
        mean: 881.0,
        deviation: 7700.0,
        percentiles: [103.0, 247.0, 269.0, 337.0, 1680.0, 10_400.0],
    },
    Pool {
        name: "replicated",
        gets: 710e3,
        mean: 66.0,
        deviation: 2.0,
        percentiles: [62.0, 68.0, 68.0, 68.0, 68.0, 68.0],
    },
    Pool {
        name: "regional",
        gets: 9.1e3,
        mean: 31_800.0,
        deviation: 75_400.0,
        percentiles: [231.0, 824.0, 5310.0, 24_000.0, 158_000.0, 381_000.0],
    },
];

/// Servers of each pool for one of the replicated one: the paper does not tell, and the mean response depends on it.
const MIXES: [(&str, [f64; 4]); 3] = [
    ("one of each", [1.0; 4]),
    ("ten wildcard", [10.0, 1.0, 1.0, 1.0]),
    ("wildcard alone", [1.0, 0.0, 0.0, 0.0]),
];

struct Drawn {
    sorted: Vec<f64>,
    mean: f64,
    deviation: f64,
}

impl Drawn {
    fn of(mut lengths: Vec<f64>) -> Self {
        lengths.sort_by(f64::total_cmp);
        let count = lengths.len().max(1) as f64;
        let mean = lengths.iter().sum::<f64>() / count;
        let variance = lengths.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / count;
        Drawn { sorted: lengths, mean, deviation: variance.sqrt() }
    }

    fn at(&self, share: f64) -> f64 {
        self.sorted[((self.sorted.len() as f64 * share) as usize).min(self.sorted.len() - 1)]
    }
}

fn sizes(name: &str) -> Result<SizeModel, Failure> {
    let recipe =
        Recipe::parse(&format!("fb-{name}"), &|path| std::fs::read_to_string(path)).map_err(failed)?;
    Ok(recipe.model.sizes)
}

/// How far the worst percentile is from the paper's, as a factor.
fn farthest(pool: &Pool, drawn: &Drawn) -> f64 {
    let factor = |(share, theirs): (&f64, &f64)| {
        let ratio = drawn.at(*share) / theirs;
        ratio.max(1.0 / ratio)
    };
    PERCENTS.iter().zip(&pool.percentiles).map(factor).fold(1.0, f64::max)
}

fn row(pool: &Pool, drawn: &Drawn) -> Vec<String> {
    let cell = |theirs: f64, ours: f64| format!("{theirs:.0} / {ours:.0}");
    let percentiles =
        PERCENTS.iter().zip(&pool.percentiles).map(|(share, theirs)| cell(*theirs, drawn.at(*share)));
    [
        vec![pool.name.to_owned(), cell(pool.mean, drawn.mean), cell(pool.deviation, drawn.deviation)],
        percentiles.collect(),
    ]
    .concat()
}

/// Responses, drawn of the pools by the gets of so many servers of each.
fn mixed(models: &[SizeModel], servers: [f64; 4], number: usize, rng: &mut Rng) -> Drawn {
    let gets: Vec<f64> = POOLS.iter().zip(servers).map(|(pool, servers)| pool.gets * servers).collect();
    let all: f64 = gets.iter().sum();
    let mut lengths = Vec::with_capacity(number);
    for (sizes, gets) in models.iter().zip(&gets) {
        let share = (number as f64 * gets / all) as usize;
        lengths.extend((0..share).map(|_| f64::from(sizes.of(rng.next_u64()))));
    }
    Drawn::of(lengths)
}

fn answers(mixes: &[(&str, Drawn); 3], worst: f64, off: f64) -> Vec<Answer> {
    let wildcard = &mixes[2].1;
    vec![
        answer(
            "S21",
            format!(
                "ten wildcard servers beside one of each other pool: median {:.0} B, mean {:.0} B; wildcard alone: median {:.0} B, mean {:.0} B",
                mixes[1].1.at(0.5),
                mixes[1].1.mean,
                wildcard.at(0.5),
                wildcard.mean
            ),
            verdict(&[(
                "with ten wildcard servers beside one of each other pool, which is our guess, median and mean are within a tenth of the paper's",
                (mixes[1].1.at(0.5) / 135.0 - 1.0).abs() < 0.1 && (mixes[1].1.mean / 954.0 - 1.0).abs() < 0.1,
            )]),
        ),
        answer(
            "S24",
            format!(
                "the worst percentile is off by {:.1} %, the worst mean by {:.1} %",
                100.0 * (worst - 1.0),
                100.0 * off
            ),
            verdict(&[
                ("percentiles are those of the paper, by which the model was made", worst < 1.1),
                ("so are means", off < 0.1),
            ]),
        ),
    ]
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let number = context.scale.pick(4_000_000, 20_000);
    let mut rng = Rng::new(context.seed);
    let models = POOLS.iter().map(|pool| sizes(pool.name)).collect::<Result<Vec<_>, _>>()?;
    let drawn: Vec<Drawn> = models
        .iter()
        .map(|sizes| Drawn::of((0..number).map(|_| f64::from(sizes.of(rng.next_u64()))).collect()))
        .collect();
    let worst = POOLS.iter().zip(&drawn).map(|(pool, drawn)| farthest(pool, drawn)).fold(1.0, f64::max);
    let means = POOLS.iter().zip(&drawn).map(|(pool, drawn)| (drawn.mean / pool.mean - 1.0).abs());
    let off = means.fold(0.0, f64::max);
    let mixes = MIXES.map(|(name, servers)| (name, mixed(&models, servers, number, &mut rng)));
    let responses = mixes.iter().map(|(name, drawn)| {
        vec![
            (*name).to_owned(),
            format!("{:.0}", drawn.at(0.5)),
            format!("{:.0}", drawn.mean),
            format!("{:.0}", drawn.at(0.95)),
        ]
    });
    Ok(Outcome {
        how: format!(
            "{number} lengths are drawn of each pool's workload, which is made of the percentiles of table 3. Responses are drawn of the pools by their gets a second of a \
             server (table 2), with so many servers of each; the paper does not tell how many there are."
        ),
        answers: answers(&mixes, worst, off),
        tables: vec![
            table(
                "Items, the paper / drawn, in bytes:",
                &["pool", "mean", "deviation", "p5", "p25", "p50", "p75", "p95", "p99"],
                POOLS.iter().zip(&drawn).map(|(pool, drawn)| row(pool, drawn)).collect(),
            ),
            table(
                "Responses by the servers of each pool, in bytes (the paper: median 135, mean 954):",
                &["servers", "median", "mean", "p95"],
                responses.collect(),
            ),
        ],
        charts: Vec::new(),
    })
}
