//! Servers over the network: multigets of 100 keys (Fig 8).

use std::time::Duration;

use guira_harness::rounds::turns;
use guira_load::engine::Quiet;
use guira_load::pace::Pace;
use guira_load::reply::Check;
use guira_load::request::{ItemStyle, Protocol};
use guira_load::run::{Load, Outcome as Measured};
use guira_load::server::{Kind, Server};
use guira_workload::mix::Weights;
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Popularity, SizeModel};

use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};
use crate::servers::{self, CLIENT_CORE};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-network",
    claims: &["M18"],
    about: "Servers with one worker over the loopback: multigets of 100 keys and sets, 95/5, 50 connections",
    run,
};

const THETA: f64 = 0.99;

const MULTIGET: u32 = 100;

/// One value in this many has its contents compared; every length is.
const SAMPLE: u32 = 64;

#[derive(Debug, Clone, Copy)]
struct Size {
    memory: u64,
    keys: u64,
    /// Requests until the cache holds what it will hold.
    settle: u64,
    duration: Duration,
}

fn kinds(context: &Context) -> Vec<Kind> {
    vec![
        servers::memcached(context, "memcached", &[]),
        servers::memcached(context, "memcached -L", &["-L"]),
        servers::guira(context, Vec::new()),
    ]
}

/// Where memcached as it is and Guira are among them.
const MEMCACHED: usize = 0;
const HUGE: usize = 1;
const GUIRA: usize = 2;

fn load(server: &Server, size: Size, on_miss: OnMiss, seed: u64) -> Result<Load, Failure> {
    let fail = |error: &dyn std::error::Error| Failure::Other(error.to_string());
    // 95 of 100 keys are asked for by multigets, 5 are set.
    let weights = Weights { multiget: 0.95 / f64::from(MULTIGET), set: 0.05, ..Weights::default() };
    Ok(Load {
        target: server.target(Protocol::Text),
        threads: 1,
        connections: 50,
        pipeline: 4,
        pace: Pace::Closed,
        model: Model {
            popularity: Popularity::zipf(size.keys, THETA).map_err(|error| fail(&error))?,
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(32),
            mix: Mix::new(&weights).map_err(|error| fail(&error))?,
            expiry: Expiry::NEVER,
            on_miss,
        },
        style: ItemStyle { flags: 0, multiget_keys: MULTIGET },
        check: Check::Contents { sample: SAMPLE },
        warmup: size.duration / 5,
        duration: size.duration,
        seed,
        cores: vec![CLIENT_CORE],
    })
}

fn start(kind: &Kind, size: Size, seed: u64) -> Result<Server, Failure> {
    let server = Server::start(&servers::spec(kind.clone(), size.memory))?;
    let load = load(&server, size, OnMiss::Fill, seed)?;
    load.settle(size.settle, &mut Quiet)?.require_right()?;
    Ok(server)
}

/// Measurements of one server with one load.
#[derive(Debug, Clone, Default)]
struct Runs(Vec<Measured>);

impl Runs {
    fn figure(&self, of: impl Fn(&Measured) -> f64) -> Figure {
        Figure::of(&self.0.iter().map(of).collect::<Vec<_>>())
    }

    fn per_cpu_second(&self) -> Figure {
        self.figure(|run| run.per_cpu_second().unwrap_or(0.0) / 1e6)
    }
}

/// What is done about a miss: the paper does not say for this experiment.
const ON_MISS: [(OnMiss, &str); 2] =
    [(OnMiss::Leave, "a miss is left"), (OnMiss::Fill, "a miss is followed by a set")];

fn run(context: &Context) -> Result<Outcome, Failure> {
    let size = Size {
        memory: context.scale.pick(128 << 20, 16 << 20),
        keys: context.scale.pick(12_500_000, 1_000_000),
        settle: context.scale.pick(600_000, 20_000),
        duration: Duration::from_millis(context.scale.pick(1000, 100)),
    };
    let kinds = kinds(context);
    let servers = kinds.iter().map(|kind| start(kind, size, context.seed)).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Vec<Runs>> = vec![vec![Runs::default(); servers.len()]; ON_MISS.len()];
    for run in 0..context.runs {
        for ((on_miss, _), of_load) in ON_MISS.iter().zip(&mut all) {
            for index in turns(run as usize, servers.len()) {
                let server = &servers[index];
                let load = load(server, size, *on_miss, context.seed + 1 + u64::from(run))?;
                let measured = load.run(Some(server.process()), &mut Quiet)?;
                measured.require_right()?;
                of_load[index].0.push(measured);
            }
        }
    }
    let tables = ON_MISS.iter().zip(&all).map(|((_, about), runs)| table(about, &kinds, runs)).collect();
    Ok(Outcome {
        how: format!(
            "Server with one worker on one processor, client on the other, 50 connections over the loopback with up to 4 requests in flight on \
             each; {} MiB allowed, {} M keys of 16 + 32 bytes, Zipf {THETA}, the cache settled before. Of 100 keys 95 are asked for, by multigets of \
             {MULTIGET}, and 5 are set. memcached is {}. The paper has 1 GB, 50 machines and 10 Gb Ethernet.",
            size.memory >> 20,
            size.keys as f64 / 1e6,
            servers::version(context)
        ),
        answers: vec![answer(&all)],
        tables,
        charts: Vec::new(),
    })
}

fn table(about: &str, kinds: &[Kind], runs: &[Runs]) -> Table {
    let base = runs[MEMCACHED].per_cpu_second().mean;
    let row = |(kind, runs): (&Kind, &Runs)| {
        vec![
            kind.name().to_owned(),
            runs.per_cpu_second().to_string(),
            format!("{:.2}", runs.per_cpu_second().mean / base),
            runs.figure(|run| run.per_second() / 1e6).to_string(),
            format!("{:.2}", runs.figure(|run| run.counters.counts.hit_ratio() * 100.0)),
        ]
    };
    let head = [
        "",
        "M operations per CPU second of the server",
        "÷ memcached",
        "M operations per second",
        "hits, %",
    ];
    Table {
        title: format!("Multigets of {MULTIGET} and sets, 95/5; {about}"),
        head: head.map(str::to_owned).to_vec(),
        rows: kinds.iter().zip(runs).map(row).collect(),
    }
}

fn answer(all: &[Vec<Runs>]) -> Answer {
    let told = |runs: &[Runs]| {
        let rate = |server: usize| runs[server].per_cpu_second();
        format!(
            "{} against {} M operations per CPU second ({:.2} ×), memcached with huge pages {} ({:.2} ×)",
            rate(GUIRA),
            rate(MEMCACHED),
            rate(GUIRA).mean / rate(MEMCACHED).mean,
            rate(HUGE),
            rate(HUGE).mean / rate(MEMCACHED).mean
        )
    };
    let ratio =
        |server: usize| all[0][server].per_cpu_second().mean / all[0][MEMCACHED].per_cpu_second().mean;
    Answer {
        claim: "M18".to_owned(),
        ours: format!("{}; when misses are filled {}", told(&all[0]), told(&all[1])),
        remark: verdict(&[
            ("at least the paper's factor over memcached, almost 3", ratio(GUIRA) >= 2.9),
            ("memcached with huge pages lies between", (1.0..ratio(GUIRA)).contains(&ratio(HUGE))),
        ]) + "The paper compares with memcached 1.4, which has a global lock; 1.6 has none. One core shows what a key costs, not how servers scale. `-L` stands for the paper's tuned memcached.",
    }
}
