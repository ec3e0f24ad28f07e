//! K9: how throughput goes on with the number of threads.

use super::inside::{Driven, Inside, draw};
use super::mixes::{LAZY, MIXED, MORE_READS, Mix, POLICIES, READS, SAMPLED, SEGMENTED, WRITES};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, table, verdict};
use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_harness::rounds::turns;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-threads",
    claims: &["K9"],
    about: "Requests per second by threads inside the process, for four mixes of reads and writes",
    run,
};

const MIXES: [Mix; 4] = [READS, MORE_READS, MIXED, WRITES];
/// More than two threads share two cores: what is seen there is what a lock costs whose holder waits for a core.
const THREADS: [usize; 4] = [1, 2, 4, 8];

/// Millions of requests per second of one mix: by threads, then by policy.
struct Rates {
    mix: Mix,
    rates: Vec<Vec<Figure>>,
    /// The same per second of processor time: what does not fall with threads scales.
    of_core: Vec<Vec<Figure>>,
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick(1_000_000, 30_000);
    let requests = context.scale.pick(400_000, 20_000);
    let mut caches = Vec::new();
    for (_, policy) in POLICIES {
        let inside = Inside::open(policy, context.scale.pick(400 << 20, 32 << 20))?;
        inside.fill(keys);
        caches.push(inside);
    }
    let mut all = Vec::new();
    for mix in MIXES {
        let model = mix.model(keys)?;
        let driven = THREADS.map(|threads| {
            let mut driven = vec![Vec::new(); POLICIES.len()];
            for run in 0..context.runs as usize {
                let part =
                    |thread| draw(&model, requests / threads, context.seed + (run * 100 + thread) as u64);
                let parts: Vec<_> = (0..threads).map(part).collect();
                for index in turns(run, POLICIES.len()) {
                    driven[index].push(caches[index].drive(&parts));
                }
            }
            driven
        });
        let figures = |of: fn(&Driven) -> f64| -> Vec<Vec<Figure>> {
            let figure = |runs: &Vec<Driven>| Figure::of(&runs.iter().map(of).collect::<Vec<f64>>());
            driven.iter().map(|by_policy| by_policy.iter().map(figure).collect()).collect()
        };
        all.push(Rates { mix, rates: figures(Driven::rate), of_core: figures(Driven::rate_of_core) });
    }
    let keeps = |rates: &Rates, threads: usize, policy: usize| {
        rates.of_core[threads][policy].mean / rates.of_core[0][policy].mean
    };
    let policies = [LAZY, SEGMENTED, SAMPLED];
    let is_alike = all.iter().all(|rates| {
        let kept = policies.map(|policy| keeps(rates, THREADS.len() - 1, policy));
        kept.iter().all(|one| kept.iter().all(|other| (one - other).abs() < 0.1))
    });
    let remark = verdict(&[("no policy falls a tenth behind the others with threads", is_alike)]);
    let charts = all.iter().map(chart).collect();
    Ok(Outcome {
        how: format!(
            "The engine classic inside this process, {keys} keys that all fit, items of 96 bytes, {requests} requests a point in batches of 64, in turn for the policies; operations and popularity are those of the stand-ins for Twitter's clusters. The machine has two cores: 4 and 8 threads are oversubscribed."
        ),
        answers: vec![answer(
            "K9",
            summary(&all),
            remark
                + "Two cores, perhaps two threads of one, cannot show where 12 end; when the other works too a core does less.",
        )],
        tables: vec![
            rate_table(
                "Millions of requests per second of processor time, all threads together:",
                &all,
                |rates| &rates.of_core,
            ),
            rate_table("Millions of requests per second:", &all, |rates| &rates.rates),
        ],
        charts,
    })
}

fn summary(all: &[Rates]) -> String {
    let of = |rates: &Rates| {
        let keeps = |threads: usize, policy: usize| {
            format!("{:.2}", rates.of_core[threads][policy].mean / rates.of_core[0][policy].mean)
        };
        let all = |threads: usize| [LAZY, SEGMENTED, SAMPLED].map(|policy| keeps(threads, policy)).join("/");
        format!("{}: {} with 2 threads, {} with 8", rates.mix.title(), all(1), all(3))
    };
    let mixes: Vec<String> = all.iter().map(of).collect();
    format!("of what one thread does in a second of processor time, lazy/seg/klru keep {}", mixes.join("; "))
}

fn rate_table(title: &str, all: &[Rates], of: fn(&Rates) -> &Vec<Vec<Figure>>) -> Table {
    let mut rows = Vec::new();
    for rates in all {
        for (threads, figures) in THREADS.iter().zip(of(rates)) {
            let mut row = vec![rates.mix.title(), threads.to_string()];
            row.extend(figures.iter().map(|figure| format!("{figure:.2}")));
            rows.push(row);
        }
    }
    let head: Vec<&str> = ["mix", "threads"].into_iter().chain(POLICIES.map(|(name, _)| name)).collect();
    table(title, &head, rows)
}

fn chart(rates: &Rates) -> Chart {
    let lines = POLICIES.iter().enumerate().map(|(index, (name, _))| {
        let dots = THREADS.iter().zip(&rates.of_core).map(|(&threads, figures)| Dot {
            x: threads as f64,
            y: figures[index].mean,
            spread: figures[index].spread,
        });
        Line::new(name, dots.collect())
    });
    Chart {
        name: format!("klru-threads-{}", rates.mix.name),
        title: format!("Stand-in {}: what a core does, by threads on two cores", rates.mix.title()),
        x: Axis::new("threads", Steps::Linear),
        y: Axis::new("million requests a second of processor time", Steps::Linear),
        lines: lines.collect(),
    }
}
