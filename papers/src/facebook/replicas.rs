//! More servers for requests of many keys: the keys are split between them, or each has all keys.

use std::net::SocketAddr;

use guira_load::bench::machine::Machine;
use guira_workload::rng::{Rng, mix64};

use super::fleet::{Client, Node};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-replicas",
    claims: &["S7"],
    about: "Requests that each of two servers gets when their keys are split between them, and when each has all keys",
    run,
};

const SERVERS: usize = 2;
const MEMORY: &str = "64MiB";
const KEYS: u64 = 10_000;
const ASKED: usize = 100;
/// Clients, each with an address of its own.
const CLIENTS: u64 = 256;

/// How keys are spread over servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One server for everything, to compare with.
    One,
    Split,
    /// Every server has all keys; a client asks one of them, which its address chooses.
    Replicas,
}

const WAYS: [(Way, &str); 3] = [(Way::One, "one server"), (Way::Split, "split"), (Way::Replicas, "replicas")];

impl Way {
    /// The part of `keys` that a client asks each server for.
    fn parts(self, client: u64, keys: &[u64]) -> [Vec<u64>; SERVERS] {
        std::array::from_fn(|server| {
            let server = server as u64;
            match self {
                Way::One if server == 0 => keys.to_vec(),
                Way::One => Vec::new(),
                Way::Split => {
                    keys.iter().copied().filter(|key| mix64(*key) % SERVERS as u64 == server).collect()
                }
                Way::Replicas if mix64(client) % SERVERS as u64 == server => keys.to_vec(),
                Way::Replicas => Vec::new(),
            }
        })
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// Requests, and keys, that each server was sent for each request of a client.
    requests: [f64; SERVERS],
    keys: [f64; SERVERS],
    /// Processor time of all servers for each request of a client, in microseconds.
    cpu_us: f64,
}

fn measure(
    way: Way,
    nodes: &[Node],
    clients: &mut [Vec<Client>],
    rounds: u64,
    seed: u64,
) -> Result<Found, Failure> {
    let mut rng = Rng::new(seed);
    let (mut requests, cpu) = ([0u64; SERVERS], cpu_s(nodes)?);
    let before = asked(nodes)?;
    for _ in 0..rounds {
        let mut asked = Vec::new();
        for (number, connections) in clients.iter_mut().enumerate() {
            let keys = draw(&mut rng);
            let parts = way.parts(number as u64, &keys);
            for (server, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                connections[server].ask_together(part)?;
                requests[server] += 1;
            }
            asked.push(parts);
        }
        for (connections, parts) in clients.iter_mut().zip(&asked) {
            for (connection, part) in connections.iter_mut().zip(parts).filter(|(_, part)| !part.is_empty()) {
                connection.hear_together(part)?;
            }
        }
    }
    let (after, all) = (asked(nodes)?, (rounds * clients.len() as u64) as f64);
    Ok(Found {
        requests: requests.map(|count| count as f64 / all),
        keys: std::array::from_fn(|server| (after[server] - before[server]) as f64 / all),
        cpu_us: 1e6 * (cpu_s(nodes)? - cpu) / all,
    })
}

/// Keys of one request, no two alike.
fn draw(rng: &mut Rng) -> Vec<u64> {
    let first = rng.below(KEYS);
    (0..ASKED as u64).map(|number| (first + number * (KEYS / ASKED as u64)) % KEYS).collect()
}

fn cpu_s(nodes: &[Node]) -> Result<f64, Failure> {
    nodes.iter().map(Node::cpu_s).sum()
}

fn asked(nodes: &[Node]) -> Result<Vec<u64>, Failure> {
    nodes.iter().map(|node| node.gets().map(|gets| gets.asked)).collect()
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let before = Machine::this();
    let nodes = Node::start_all(context, SERVERS, MEMORY)?;
    let addresses: Vec<SocketAddr> = nodes.iter().map(Node::address).collect();
    let all: Vec<u64> = (0..KEYS).collect();
    for address in &addresses {
        if Client::connect(*address)?.set(&all)? > 0 {
            return Err(failed("a key was not stored"));
        }
    }
    let connections = |_| addresses.iter().map(|address| Client::connect(*address)).collect();
    let mut clients = (0..CLIENTS).map(connections).collect::<Result<Vec<Vec<Client>>, Failure>>()?;
    let rounds = context.scale.pick(200, 2);
    let mut found = [(); 3].map(|()| Vec::new());
    for number in 0..context.runs {
        for (place, (way, _)) in WAYS.iter().enumerate() {
            let seed = context.seed + u64::from(number);
            found[place].push(measure(*way, &nodes, &mut clients, rounds, seed)?);
        }
    }
    Ok(outcome(&found, rounds, &before.busy))
}

/// The figure of all runs of one way.
fn figure(found: &[Found], of: impl Fn(&Found) -> f64) -> Figure {
    Figure::of(&found.iter().map(of).collect::<Vec<_>>())
}

fn outcome(found: &[Vec<Found>; 3], rounds: u64, busy: &str) -> Outcome {
    let most =
        |of: fn(&Found) -> [f64; SERVERS]| move |found: &Found| of(found).into_iter().fold(0.0, f64::max);
    let requests = |place: usize| figure(&found[place], most(|found| found.requests));
    let cpu = |place: usize| figure(&found[place], |found| found.cpu_us);
    let rows = WAYS.iter().enumerate().map(|(place, (_, name))| {
        vec![
            (*name).to_owned(),
            format!("{:.3}", requests(place)),
            format!("{:.1}", figure(&found[place], most(|found| found.keys))),
            format!("{}", cpu(place)),
        ]
    });
    let [_, split, replicas] = [0, 1, 2].map(|place| requests(place).mean);
    Outcome {
        how: format!(
            "{CLIENTS} clients, each with an address of its own; in a run each sends {rounds} requests of {ASKED} keys; two servers with one worker each. \
             Requests are counted as they are sent, keys by the servers. Processor time is that of both servers together; load average before: {busy}."
        ),
        answers: vec![answer(
            "S7",
            format!(
                "of a client's requests each server sees {split:.2} when keys are split, {replicas:.2} with replicas; processor time of all servers for a \
                 request: by one server {} µs, split {}, with replicas {}",
                cpu(0),
                cpu(1),
                cpu(2)
            ),
            verdict(&[
                ("split, each server sees every request", split > 0.99),
                ("of two replicas each sees half", (0.45..0.56).contains(&replicas)),
            ]) + "What half the requests are worth depends on what a request costs beside its keys.",
        )],
        tables: vec![table(
            "For each request of a client:",
            &["keys are", "requests to the busier server", "keys asked of it", "both servers, µs"],
            rows.collect(),
        )],
        charts: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::{ASKED, Rng, Way, draw};

    #[test]
    fn keys_are_split_once_or_asked_of_one_server_whole() {
        let keys = draw(&mut Rng::new(1));
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), ASKED);
        let [one, two] = Way::Split.parts(7, &keys);
        assert!(!one.is_empty() && !two.is_empty());
        let mut both = [one, two].concat();
        both.sort_unstable();
        assert_eq!(both, sorted);
        let servers: Vec<usize> = (0..100)
            .map(|client| {
                let parts = Way::Replicas.parts(client, &keys);
                let used = parts.iter().position(|part| part == &keys).unwrap();
                assert!(parts[1 - used].is_empty());
                used
            })
            .collect();
        assert!(servers.contains(&0) && servers.contains(&1));
        assert_eq!(Way::One.parts(3, &keys), [keys, Vec::new()]);
    }
}
