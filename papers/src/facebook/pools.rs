//! The paper's pools at the rates of its servers: what they would take of a processor here.

use std::time::Duration;

use guira_harness::rounds::turns;
use guira_load::engine::Quiet;
use guira_load::pace::Pace;
use guira_load::reply::Check;
use guira_load::request::{ItemStyle, Protocol};
use guira_load::run::{Load, Outcome as Measured};
use guira_load::server::Server;
use guira_workload::Recipe;

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table, verdict};
use crate::servers::{self, CLIENT_CORE};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-pools",
    claims: &["S23"],
    about: "What a processor serves of the paper's four pools, and what is left of one at the rates of the paper's servers",
    run,
};

/// A pool by its workload, its gets, sets and deletes a second at a server in the busiest four minutes of a month, and its misses (table 2).
struct Pool {
    name: &'static str,
    rates: [f64; 3],
    misses: f64,
}

const POOLS: [Pool; 4] = [
    Pool { name: "wildcard", rates: [262e3, 8.26e3, 21.2e3], misses: 1.76 },
    Pool { name: "app", rates: [96.5e3, 11.9e3, 6.28e3], misses: 7.85 },
    Pool { name: "replicated", rates: [710e3, 1.75e3, 3.22e3], misses: 0.053 },
    Pool { name: "regional", rates: [9.1e3, 0.79e3, 35.9e3], misses: 6.35 },
];

const MEMORY: u64 = 512 << 20;
const SERVERS: [&str; 2] = ["memcached", "Guira"];

impl Pool {
    fn load(&self, context: &Context, server: &Server, seed: u64) -> Result<Load, Failure> {
        let keys = context.scale.pick(200_000, 2000);
        let recipe =
            Recipe::parse(&format!("fb-{}:keys={keys}", self.name), &|path| std::fs::read_to_string(path));
        let duration = Duration::from_millis(context.scale.pick(2000, 100));
        Ok(Load {
            target: server.target(Protocol::Text),
            threads: 1,
            // Packets are nearly as many as requests in table 2: nothing is sent together.
            connections: 50,
            pipeline: 1,
            pace: Pace::Closed,
            model: recipe.map_err(failed)?.model,
            style: ItemStyle { flags: 0, multiget_keys: 1 },
            check: Check::Contents { sample: 64 },
            warmup: duration / 5,
            duration,
            seed,
            cores: vec![CLIENT_CORE],
        })
    }

    /// Requests a second of the paper's server.
    fn rate(&self) -> f64 {
        self.rates.iter().sum()
    }
}

/// Requests per second of the server's processor time, and misses.
#[derive(Debug, Clone, Default)]
struct Runs(Vec<Measured>);

impl Runs {
    fn per_cpu_second(&self) -> Figure {
        Figure::of(&self.0.iter().map(|run| run.per_cpu_second().unwrap_or(0.0)).collect::<Vec<_>>())
    }
}

fn measure(context: &Context, pool: &Pool) -> Result<[Figure; 2], Failure> {
    let kinds = [servers::memcached(context, "memcached", &[]), servers::guira(context, Vec::new())];
    let mut running = Vec::new();
    for kind in kinds {
        let server = Server::start(&servers::spec(kind, MEMORY))?;
        pool.load(context, &server, context.seed)?.preload(&mut Quiet)?.require_right()?;
        running.push((server, Runs::default()));
    }
    for run in 0..context.runs {
        for index in turns(run as usize, running.len()) {
            let (server, runs) = &mut running[index];
            let load = pool.load(context, server, context.seed + 1 + u64::from(run))?;
            let measured = load.run(Some(server.process()), &mut Quiet)?;
            measured.require_right()?;
            runs.0.push(measured);
        }
    }
    let [memcached, guira] = &running[..] else { return Err(failed("two servers run")) };
    Ok([memcached.1.per_cpu_second(), guira.1.per_cpu_second()])
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let all = POOLS.iter().map(|pool| measure(context, pool)).collect::<Result<Vec<_>, _>>()?;
    let processors =
        |server: usize| POOLS.iter().zip(&all).map(move |(pool, found)| pool.rate() / found[server].mean);
    let list =
        |server: usize| processors(server).map(|cores| format!("{cores:.2}")).collect::<Vec<_>>().join(", ");
    let fewer =
        all.iter().map(|[memcached, guira]| guira.mean / memcached.mean).fold(f64::INFINITY, f64::min);
    let rows = POOLS.iter().zip(&all).map(|(pool, [memcached, guira])| {
        vec![
            pool.name.to_owned(),
            format!("{:.0}", pool.rate() / 1e3),
            format!("{}", pool.misses),
            memcached.scaled(1e-3).to_string(),
            guira.scaled(1e-3).to_string(),
            format!("{:.2}", pool.rate() / memcached.mean),
            format!("{:.2}", pool.rate() / guira.mean),
        ]
    });
    Ok(Outcome {
        how: format!(
            "The workloads fb-wildcard, fb-app, fb-replicated and fb-regional over the loopback, one request in flight on each of 50 connections, {} MiB, a server with one worker \
             ({} and {}). Their misses follow from memory and from keys that the paper does not tell, so they are the paper's, and not measured.",
            MEMORY >> 20,
            servers::version(context),
            SERVERS[1],
        ),
        answers: vec![answer(
            "S23",
            format!(
                "processors for the paper's rates: wildcard, app, replicated, regional take {} of Guira and {} of memcached",
                list(1),
                list(0)
            ),
            verdict(&[
                ("Guira takes less of a processor than memcached in every pool", fewer > 1.0),
                ("no pool takes more than eight processors here", processors(1).all(|cores| cores < 8.0)),
            ]),
        )],
        tables: vec![table(
            "Thousands of requests, and processors at the paper's rate:",
            &[
                "pool",
                "a second (paper)",
                "misses, % (paper)",
                "a CPU second, memcached",
                "Guira",
                "processors, memcached",
                "Guira",
            ],
            rows.collect(),
        )],
        charts: Vec::new(),
    })
}
