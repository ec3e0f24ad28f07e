//! What a page asks for, and of how many servers, by a model of pages.

use std::collections::HashSet;

use guira_routing::hash::{HashKind, Selector, ServerIdentity};
use guira_workload::{Popularity, Recipe, Rng};

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-pages",
    claims: &["S1", "S20"],
    about: "Items and servers that a page asks for, and keys in a batch, by a model of pages and the hash of a router",
    run,
};

/// Servers of a cluster; the paper has hundreds.
const SERVERS: [usize; 4] = [50, 100, 200, 400];
const ANSWERED: usize = 2;
/// A page's items depend on each other in so many steps: those of a step are fetched at once. The paper does not tell.
const STEPS: u32 = 4;
/// A popular page is one that asks for more items than this.
const POPULAR: u32 = 19;

/// What loads of pages came to.
#[derive(Debug, Default)]
struct Loads {
    items: Vec<u32>,
    servers: Vec<u32>,
    /// Keys in each request to a server, where the keys of a step go at once.
    batches: Vec<u32>,
    /// Rounds that a load waits for.
    rounds: u64,
}

fn quantile(sorted: &[u32], share: f64) -> u32 {
    sorted.get((sorted.len() as f64 * share) as usize).or(sorted.last()).copied().unwrap_or(0)
}

fn mean(numbers: &[u32]) -> f64 {
    numbers.iter().map(|number| f64::from(*number)).sum::<f64>() / numbers.len().max(1) as f64
}

fn share_of(numbers: &[u32], counts: impl Fn(u32) -> bool) -> f64 {
    numbers.iter().filter(|number| counts(**number)).count() as f64 / numbers.len().max(1) as f64
}

fn selector(servers: usize) -> Result<Selector, Failure> {
    let names: Vec<String> = (0..servers).map(|number| format!("server-{number}")).collect();
    let identities: Vec<ServerIdentity<'_>> = names.iter().map(|name| ServerIdentity::named(name)).collect();
    Selector::new(HashKind::Ch3, &identities, "").map_err(failed)
}

fn loads(context: &Context, servers: usize, number: usize) -> Result<Loads, Failure> {
    let recipe = Recipe::parse("fb-page", &|path| std::fs::read_to_string(path)).map_err(failed)?;
    let Popularity::Pages(pages) = &recipe.model.popularity else {
        return Err(failed("the workload has pages"));
    };
    let (selector, mut rng, mut loads) = (selector(servers)?, Rng::new(context.seed), Loads::default());
    for _ in 0..number {
        let load = pages.draw_load(&mut rng);
        let keys: Vec<u64> = load.collect();
        let step = keys.len().div_ceil(STEPS as usize);
        let mut asked = HashSet::new();
        for keys in keys.chunks(step) {
            let mut batches = vec![0_u32; servers];
            for key in keys {
                batches[selector.pick(format!("item:{key}").as_bytes())] += 1;
            }
            let used = batches.iter().enumerate().filter(|(_, keys)| **keys > 0);
            for (server, keys) in used {
                asked.insert(server);
                loads.batches.push(*keys);
            }
            loads.rounds += 1;
        }
        loads.items.push(keys.len() as u32);
        loads.servers.push(asked.len() as u32);
    }
    for numbers in [&mut loads.batches, &mut loads.servers] {
        numbers.sort_unstable();
    }
    Ok(loads)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let number = context.scale.pick(200_000, 2000);
    let all = SERVERS.map(|servers| loads(context, servers, number));
    let all: Vec<Loads> = all.into_iter().collect::<Result<_, _>>()?;
    let rows = SERVERS.iter().zip(&all).map(|(servers, loads)| {
        vec![
            servers.to_string(),
            percent(share_of(&loads.servers, |servers| servers < 20)),
            percent(share_of(&loads.servers, |servers| servers > 100)),
            quantile(&loads.servers, 0.5).to_string(),
            quantile(&loads.servers, 0.95).to_string(),
            format!("{:.1}", mean(&loads.batches)),
            quantile(&loads.batches, 0.95).to_string(),
            format!("{:.1}", loads.rounds as f64 / number as f64),
        ]
    });
    let loads = &all[ANSWERED];
    let mut popular: Vec<u32> = loads.items.iter().copied().filter(|items| *items > POPULAR).collect();
    popular.sort_unstable();
    let (items, most) = (mean(&popular), quantile(&popular, 0.95));
    let few = share_of(&loads.servers, |servers| servers < 20);
    Ok(Outcome {
        how: format!(
            "A model: {number} loads of pages by the workload `fb-page`, whose items are drawn so that figure 9 and section 3.1 come out (guira sim --list). A router's hash \
             says which of the servers has an item. The items of a load are fetched in {STEPS} steps, each of which depends on the one before, with a request for each server \
             in each step. A popular page asks for more than {POPULAR} items."
        ),
        answers: vec![
            answer(
                "S1",
                format!(
                    "popular pages: {items:.0} items on average, p95 {most}; {:.1} keys a batch, p95 {} with {} servers",
                    mean(&loads.batches),
                    quantile(&loads.batches, 0.95),
                    SERVERS[ANSWERED]
                ),
                verdict(&[
                    (
                        "the items are those of the paper, by which the model was made",
                        (items / 521.0 - 1.0).abs() < 0.1,
                    ),
                    (
                        "batches are as large as the paper's where an item may be on any server",
                        mean(&loads.batches) >= 20.0,
                    ),
                ]) + "The paper's batches need pools that are smaller than a cluster, or items of a page that lie together.",
            ),
            answer(
                "S20",
                format!(
                    "{:.0} % of loads ask fewer than 20 of {} servers, {:.0} % more than 100",
                    100.0 * few,
                    SERVERS[ANSWERED],
                    100.0 * share_of(&loads.servers, |servers| servers > 100)
                ),
                verdict(&[("most loads ask few servers", (0.5..0.65).contains(&few))])
                    + "The share of small pages is the paper's; what is found is that a hash spreads the items of the others over most of the cluster.",
            ),
        ],
        tables: vec![table(
            "Loads by the servers of the cluster:",
            &["servers", "ask < 20", "ask > 100", "p50", "p95", "keys a batch", "p95", "rounds"],
            rows.collect(),
        )],
        charts: Vec::new(),
    })
}
