//! The model of a pool beside a real one: what `guira capacity` says, and what nodes and a router do with the same requests.

use guira_routing::hash::HashKind;
use guira_sim::Choice;
use guira_sim::fleet::{Found, Pool, Way, simulate};
use guira_sim::{Measure, OnMiss, Rules};
use guira_workload::{Rng, Zipf};

use super::fleet::{Client, Gets, Got, Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, table};
use crate::traces::numbered;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-capacity",
    claims: &[],
    about: "What guira capacity says of a pool, beside what four nodes, a gutter and a router do with the same requests",
    run,
};

const NODES: usize = 4;
const MEMORY: &str = "16MiB";
const KEYS: u64 = 400_000;
const THETA: f64 = 0.9;
/// Requests that are under way at once.
const AT_ONCE: usize = 64;
const ROUTE: &str = r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|G"], "failover_exptime": 600}"#;
/// The model looks at what follows the loss in windows of this share of the requests.
const WINDOWS: usize = 64;

/// A pool at work and after a loss, in percent.
struct Figures {
    hits: f64,
    /// The share of the requests that the busiest node has.
    busiest: f64,
    /// Hits when that node is lost, in the first window and in the last.
    soon: f64,
    later: f64,
    /// The share of the requests that the gutter has then.
    gutter: f64,
}

impl Figures {
    fn row(&self, name: &str) -> Vec<String> {
        let Figures { hits, busiest, soon, later, gutter } = *self;
        [
            vec![name.to_owned()],
            [hits, busiest, soon, later, gutter].map(|figure| format!("{figure:.2}")).to_vec(),
        ]
        .concat()
    }
}

/// Sends requests and fills what is missing; how many were hits, in percent.
fn ask(client: &mut Client, requests: &[u32]) -> Result<f64, Failure> {
    let mut hits = 0;
    for ids in requests.chunks(AT_ONCE) {
        let keys: Vec<u64> = ids.iter().map(|id| u64::from(*id)).collect();
        let got = client.get(&keys)?;
        hits += got.iter().filter(|got| **got == Got::Hit).count();
        let missed = keys.iter().zip(&got).filter(|(_, got)| **got == Got::Miss);
        let mut missed: Vec<u64> = missed.map(|(key, _)| *key).collect();
        missed.sort_unstable();
        missed.dedup();
        client.set(&missed)?;
    }
    Ok(100.0 * hits as f64 / requests.len() as f64)
}

fn asked(nodes: &[Node]) -> Result<Vec<u64>, Failure> {
    nodes.iter().map(|node| node.gets().map(|Gets { asked, .. }| asked)).collect()
}

/// Nodes, a gutter and a router that have been asked for the first half.
struct Region {
    nodes: Vec<Node>,
    gutter: Vec<Node>,
    router: Router,
    client: Client,
}

impl Region {
    fn warm(context: &Context, first: &[u32]) -> Result<Self, Failure> {
        let nodes = Node::start_all(context, NODES, MEMORY)?;
        let gutter = Node::start_all(context, 1, MEMORY)?;
        let router = Router::start(context, &[pool("A", &nodes), pool("G", &gutter)], ROUTE, &[])?;
        let mut client = Client::connect(router.address)?;
        ask(&mut client, first)?;
        Ok(Region { nodes, gutter, router, client })
    }
}

/// What real nodes do, and how many items one has room for.
fn real(context: &Context, requests: &[u32]) -> Result<(Figures, u64), Failure> {
    let (first, second) = requests.split_at(requests.len() / 2);
    let mut usual = Region::warm(context, first)?;
    let before = asked(&usual.nodes)?;
    let hits = ask(&mut usual.client, second)?;
    let loads: Vec<u64> =
        asked(&usual.nodes)?.iter().zip(before).map(|(after, before)| after - before).collect();
    let busiest = (0..NODES).max_by_key(|node| loads[*node]).unwrap_or(0);
    let room = usual.nodes.iter().map(Node::items).sum::<Result<u64, _>>()? / NODES as u64;
    let all: u64 = loads.iter().sum();
    drop(usual);
    let Region { mut nodes, gutter, router: _router, mut client } = Region::warm(context, first)?;
    nodes.remove(busiest).kill();
    let window = requests.len() / WINDOWS;
    let soon = ask(&mut client, &second[..window])?;
    ask(&mut client, &second[window..second.len() - window])?;
    let later = ask(&mut client, &second[second.len() - window..])?;
    let share = |part: u64, all: u64| 100.0 * part as f64 / all as f64;
    let figures = Figures {
        hits,
        busiest: share(loads[busiest], all),
        soon,
        later,
        gutter: share(asked(&gutter)?.iter().sum(), second.len() as u64),
    };
    Ok((figures, room))
}

/// What the model says of nodes with this room.
fn model(requests: &[u32], room: u64) -> Result<Figures, Failure> {
    let stream = numbered(requests);
    let policy = Choice::parse("clock").map_err(failed)?;
    let pool = Pool {
        nodes: NODES,
        copies: 1,
        room,
        policy: &policy,
        hash: HashKind::Ch3,
        gutter: 1,
        keys_at_once: 1,
        value_size: 100,
    };
    let rules = Rules { on_miss: OnMiss::Fill, measure: Measure::Objects };
    let Found { hit_ratio, loads, losses, .. } = simulate(&pool, &stream, rules, &|_| ()).map_err(failed)?;
    let loss =
        losses.iter().find(|loss| loss.way == Way::Gutter).ok_or_else(|| failed("a gutter is modelled"))?;
    Ok(Figures {
        hits: 100.0 * hit_ratio,
        busiest: 100.0 * loads.iter().map(|load| load.keys).fold(0.0, f64::max),
        soon: 100.0 * loss.hit_ratios[0],
        later: 100.0 * loss.hit_ratios[1],
        gutter: 100.0 * loss.gutter.iter().map(|load| load.keys).sum::<f64>(),
    })
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let number = context.scale.pick(4_000_000, 40_000);
    let (zipf, mut rng) = (Zipf::new(KEYS, THETA).map_err(failed)?, Rng::new(context.seed));
    let requests: Vec<u32> = (0..number).map(|_| zipf.draw(&mut rng) as u32).collect();
    let (real, room) = real(context, &requests)?;
    let model = model(&requests, room)?;
    Ok(Outcome {
        how: format!(
            "{NODES} nodes with {MEMORY} each, of which each held {room} items when it was full, a gutter of one and a router; one client that asks for keys of {KEYS} by Zipf's law \
             ({THETA}) and stores what is missing, {number} times. The second half is what is compared; in another region of the same size the busiest node is killed before it. \
             The model has the same requests, and room for as many items; its hash sees other names of keys.",
        ),
        answers: Vec::new(),
        tables: vec![table(
            "In percent:",
            &["", "hits", "load of the busiest node", "hits after its loss", "later", "load of the gutter"],
            vec![real.row("real"), model.row("model")],
        )],
        charts: Vec::new(),
    })
}
