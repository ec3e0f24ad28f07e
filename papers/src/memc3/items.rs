//! Items stored in the same memory by the three caches and by memcached (Tab 1 and 3).

use std::time::Duration;

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_load::engine::Quiet;
use guira_load::pace::Pace;
use guira_load::reply::Check;
use guira_load::request::ItemStyle;
use guira_load::run::Load;
use guira_load::server::{Kind, Server, Spec};
use guira_load::target::Target;
use guira_load::{LoadError, equal};
use guira_workload::{Expiry, KeyShape, Mix, Model, OnMiss, Operation, Popularity, SizeModel};

use super::hits;
use crate::caches::{CONFIGS, DEFAULT, MEMC3};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table};
use crate::servers;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-items",
    claims: &["M6", "M12", "M13", "M14"],
    about: "Items of 16 + 32 bytes that the three caches and memcached store in processes of equal size, and the hit ratios that follow",
    run,
};

/// Sizes of the caches, in MiB.
pub(super) const SIZES: [u64; 6] = [64, 128, 256, 512, 1024, 2048];

/// What is measured to see whether it works; the items at other sizes are reckoned from it.
const QUICK_SIZES: [u64; 1] = [16];

/// Runs at the smallest size, to see how much they differ.
const SMALL_RUNS: u32 = 3;

const MIB: u64 = 1 << 20;

/// The servers: the paper's three, and memcached as it is installed.
const SERVERS: usize = CONFIGS.len() + 1;
const MEMCACHED: usize = CONFIGS.len();

/// Bytes of resident memory for an item, less than any of the servers needs: what more keys than fit are reckoned by.
const LEAST: [u64; SERVERS] = [68, 60, 59, 88];

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    memory: u64,
    resident: u64,
    items: u64,
    /// What it says of its index.
    index_bytes: u64,
}

/// The measurements of one server at one size.
#[derive(Debug, Clone, Default)]
struct Runs(Vec<Held>);

impl Runs {
    fn figure(&self, of: impl Fn(&Held) -> f64) -> Figure {
        Figure::of(&self.0.iter().map(of).collect::<Vec<_>>())
    }

    fn items(&self) -> Figure {
        self.figure(|held| held.items as f64)
    }

    fn bytes_an_item(&self) -> Figure {
        self.figure(|held| held.resident as f64 / held.items.max(1) as f64)
    }
}

fn kind(server: usize, context: &Context) -> Kind {
    match CONFIGS.get(server) {
        Some(config) => servers::guira(context, config.arguments()),
        None => servers::memcached(context, name(server), &[]),
    }
}

fn name(server: usize) -> &'static str {
    CONFIGS.get(server).map_or("memcached", |config| config.name)
}

fn fill(server: &Server, keys: u64, seed: u64) -> Result<(), LoadError> {
    let load = Load {
        target: Target::text(server.addr()),
        threads: 1,
        connections: 4,
        pipeline: 64,
        pace: Pace::Closed,
        model: Model {
            popularity: Popularity::Uniform { count: keys },
            keys: KeyShape::sixteen(),
            sizes: SizeModel::Constant(32),
            mix: Mix::Only(Operation::Set),
            expiry: Expiry::NEVER,
            on_miss: OnMiss::Leave,
        },
        style: ItemStyle { flags: 0, multiget_keys: 1 },
        check: Check::Framing,
        warmup: Duration::ZERO,
        duration: Duration::ZERO,
        seed,
        cores: Vec::new(),
    };
    load.preload(&mut Quiet)?.require_right()
}

fn spec(server: usize, memory: u64, context: &Context) -> Spec {
    servers::spec(kind(server, context), memory)
}

fn held(server: &Server, memory: u64) -> Result<Held, LoadError> {
    let resident = server.process().resident_bytes().map_err(|error| LoadError::Server {
        name: server.name().to_owned(),
        problem: format!("its resident size cannot be read: {error}"),
    })?;
    let (items, index_bytes) = (server.stat("curr_items")?, server.stat("hash_bytes")?);
    Ok(Held { memory, resident, items, index_bytes })
}

/// What a server holds when it is allowed `memory` bytes.
fn measure(server: usize, memory: u64, seed: u64, context: &Context) -> Result<Held, LoadError> {
    let running = Server::start(&spec(server, memory, context))?;
    fill(&running, memory * 21 / 20 / LEAST[server], seed)?;
    held(&running, memory)
}

/// The same when it is as large as `resident` bytes, and what it has to be allowed for that.
fn measure_at(server: usize, resident: u64, seed: u64, context: &Context) -> Result<Held, LoadError> {
    let mut tries: Vec<Held> = Vec::new();
    let best = equal::fit(&spec(server, resident, context), resident, &mut |running| {
        fill(running, resident * 21 / 20 / LEAST[server], seed)?;
        tries.push(held(running, 0)?);
        Ok(())
    })?;
    let nearest = tries.into_iter().min_by_key(|held| held.resident.abs_diff(resident));
    Ok(Held { memory: best, ..nearest.unwrap_or_default() })
}

/// Runs at a size: one of the large ones, since they take long and hardly differ.
fn runs_at(size: u64, context: &Context) -> u32 {
    if size > SIZES[0] { 1 } else { context.runs.min(SMALL_RUNS) }
}

fn measure_size(size: u64, context: &Context) -> Result<[Runs; SERVERS], LoadError> {
    let mut all: [Runs; SERVERS] = Default::default();
    for run in 0..runs_at(size, context) {
        let seed = context.seed + u64::from(run);
        let base = measure(MEMC3, size * MIB, seed, context)?;
        all[MEMC3].0.push(base);
        for server in (0..SERVERS).filter(|&server| server != MEMC3) {
            let held = match all[server].0.first() {
                Some(before) => measure(server, before.memory, seed, context)?,
                None => measure_at(server, base.resident, seed, context)?,
            };
            all[server].0.push(held);
        }
    }
    Ok(all)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let sizes = context.scale.pick(&SIZES[..], &QUICK_SIZES);
    let all = sizes.iter().map(|&size| measure_size(size, context)).collect::<Result<Vec<_>, _>>()?;
    let items: [[u64; SIZES.len()]; 3] = std::array::from_fn(|server| {
        std::array::from_fn(|index| {
            let measured = index.min(all.len() - 1);
            let items = all[measured][server].items().mean as u64;
            items * SIZES[index] / sizes[measured]
        })
    });
    let hits = hits::run(context, &items)?;
    let mut outcome = outcome(sizes, &all, context);
    outcome.how = format!("{} {}", outcome.how, hits.how);
    outcome.answers.extend(hits.answers);
    outcome.tables.extend(hits.tables);
    outcome.charts.extend(hits.charts);
    Ok(outcome)
}

fn outcome(sizes: &[u64], all: &[[Runs; SERVERS]], context: &Context) -> Outcome {
    let head = [String::new()].into_iter().chain(sizes.iter().map(|size| format!("{size} MiB")));
    let head: Vec<String> = head.collect();
    let table = |title: &str, cell: &dyn Fn(&[Runs; SERVERS], usize) -> String| Table {
        title: title.to_owned(),
        head: head.clone(),
        rows: (0..SERVERS)
            .map(|server| {
                let cells = all.iter().map(|runs| cell(runs, server));
                [name(server).to_owned()].into_iter().chain(cells).collect()
            })
            .collect(),
    };
    let dots = |server: usize| {
        let dot = |(size, runs): (&u64, &[Runs; SERVERS])| {
            let figure = runs[server].bytes_an_item();
            Dot { x: *size as f64, y: figure.mean, spread: figure.spread }
        };
        sizes.iter().zip(all).map(dot).collect()
    };
    Outcome {
        how: format!(
            "Items: CLOCK + cuckoo is `guira serve --memory SIZE`, filled until it evicts; the others are allowed as much as makes their \
             process equally large (resident size, within half a percent or a MiB), so that index, buffers and heap count, which the paper \
             leaves out. memcached is {}. {} runs at {} MiB and one at each larger size: what is stored hardly varies.",
            servers::version(context),
            runs_at(sizes[0], context),
            sizes[0]
        ),
        answers: answers(all),
        tables: vec![
            table("Items stored, millions (Tab 3)", &|runs, server| {
                format!("{:.3}", runs[server].items().scaled(1e-6))
            }),
            table("Items ÷ those of memcached", &|runs, server| {
                format!("{:.2}", runs[server].items().mean / runs[MEMCACHED].items().mean)
            }),
            table("Resident size of the process, MiB", &|runs, server| {
                format!("{:.1}", runs[server].figure(|held| held.resident as f64 / MIB as f64))
            }),
            table("Resident bytes for an item", &|runs, server| {
                format!("{:.1}", runs[server].bytes_an_item())
            }),
        ],
        charts: vec![Chart {
            name: "memc3-items".to_owned(),
            title: "Resident bytes for an item of 16 + 32 bytes".to_owned(),
            x: Axis::new("process, MiB", Steps::Logarithmic),
            y: Axis::new("bytes", Steps::Linear),
            lines: (0..SERVERS).map(|server| Line::new(name(server), dots(server))).collect(),
        }],
    }
}

fn answers(all: &[[Runs; SERVERS]]) -> Vec<Answer> {
    let list = |server: usize, of: &dyn Fn(&[Runs; SERVERS]) -> f64| {
        let cells = all.iter().map(|runs| format!("{:.2}", of(runs))).collect::<Vec<_>>().join(" ");
        format!("{} {cells}", name(server))
    };
    let items = |server: usize| list(server, &|runs| runs[server].items().mean / 1e6);
    let over = |server: usize, base: usize| {
        let ratios = all.iter().map(|runs| runs[server].items().mean / runs[base].items().mean);
        let (least, most) =
            ratios.fold((f64::INFINITY, 0.0_f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
        format!("{least:.2} to {most:.2} ×")
    };
    let last = &all[all.len() - 1];
    let index =
        |server: usize| last[server].figure(|held| held.index_bytes as f64 / held.items.max(1) as f64).mean;
    vec![
        Answer {
            claim: "M6".to_owned(),
            ours: format!(
                "index: {:.1} B of table an item for CLOCK + cuckoo, {:.1} B and a link of 8 B for LRU + chaining; eviction: 2 bits for an item \
                 of this size with CLOCK, 12 B with LRU; memcached's table {:.1} B beside a link of 8 B and 16 B of LRU pointers",
                index(MEMC3),
                index(DEFAULT),
                index(MEMCACHED)
            ),
            remark: "Guira's slot takes 6 B where the paper's takes 9, and its table grows by steps of its own. A recency bit stands for 32 bytes \
                     of a page, so that it is found without a division. Its LRU has two links and a time of 4 B each beside the pages."
                .to_owned(),
        },
        Answer {
            claim: "M12".to_owned(),
            ours: (0..SERVERS).map(items).collect::<Vec<_>>().join("; "),
            remark: "The paper counts the space of items alone, this the whole process with its index: what a machine loses by it.".to_owned(),
        },
        Answer {
            claim: "M13".to_owned(),
            ours: format!(
                "CLOCK + cuckoo stores {} as many items as memcached, {} as LRU + chaining and {} as LRU + cuckoo; LRU + cuckoo {} as LRU + chaining",
                over(MEMC3, MEMCACHED),
                over(MEMC3, DEFAULT),
                over(MEMC3, 1),
                over(1, DEFAULT)
            ),
            remark: "Guira's items have a header of 8 bytes with what they use added, where memcached 1.6's have 48 to 56; the index is smaller than its table and links; and the chunk classes are closer together.".to_owned(),
        },
    ]
}
