//! A server dies that has a key which is a fifth of its requests: where these go.

use super::fleet::{Client, Gets, Node, Router, pool};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-rehash",
    claims: &["S9"],
    about: "Load of the servers that are left when one dies which has a very popular key: with its keys rehashed, and with a gutter",
    run,
};

const SERVERS: usize = 8;
const GUTTER: usize = 2;
const MEMORY: &str = "64MiB";
/// The popular key; its server is the one that dies.
const HOT: u64 = 0;
/// Of the requests for its server.
const SHARE: f64 = 0.2;
/// Requests that are under way at once.
const AT_ONCE: usize = 64;

/// Who takes the keys of a server that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Rehash,
    Gutter,
}

const WAYS: [(Way, &str); 2] = [(Way::Rehash, "keys rehashed to the others"), (Way::Gutter, "a gutter")];

impl Way {
    /// The others of the pool are tried in an order that the key decides; or the gutter is.
    const fn route(self) -> &'static str {
        match self {
            Way::Rehash => {
                r#"{"type": "SaltedFailoverRoute", "pool": "A", "failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 4, "max_error_tries": 4}}"#
            }
            Way::Gutter => {
                r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|G"], "failover_exptime": 60}"#
            }
        }
    }
}

/// Each key so often; and the popular one in between, until it is its share of the requests for its server.
fn requests(keys: u64, own: usize, times: usize) -> Vec<u64> {
    let all = (0..times).flat_map(|_| 0..keys).collect::<Vec<u64>>();
    // It is among the others as well.
    let more = (own - 1) as f64 * times as f64 * SHARE / (1.0 - SHARE) - times as f64;
    let gap = all.len() as f64 / more;
    let mut mixed = Vec::with_capacity(all.len() + more as usize);
    let mut due = 0.0;
    for (number, key) in all.into_iter().enumerate() {
        while number as f64 >= due {
            mixed.push(HOT);
            due += gap;
        }
        mixed.push(key);
    }
    mixed
}

/// Loads in percent of what the server that dies had before, in the order of the servers; of that one nothing.
struct Found {
    before: Vec<f64>,
    after: Vec<f64>,
    /// Of the servers of the gutter.
    gutter: Vec<f64>,
    /// The popular key's share of the requests for its server.
    hot: f64,
    failures: u64,
}

impl Found {
    /// Points that each server has more than before.
    fn more(&self) -> Vec<f64> {
        self.after.iter().zip(&self.before).map(|(after, before)| after - before).collect()
    }

    /// The most that one has more than before.
    fn most(&self) -> f64 {
        self.more().into_iter().fold(f64::MIN, f64::max)
    }

    /// The most beside what the server in the middle has.
    fn beyond(&self) -> f64 {
        self.most() - guira_harness::rounds::median(&self.more())
    }
}

fn measure(context: &Context, way: Way) -> Result<Found, Failure> {
    let keys = context.scale.pick(80_000, 4000);
    let mut nodes = Node::start_all(context, SERVERS, MEMORY)?;
    let gutter = Node::start_all(context, GUTTER, MEMORY)?;
    let pools = [pool("A", &nodes), pool("G", &gutter)];
    let router = Router::start(context, &pools, way.route(), &[])?;
    let mut client = Client::connect(router.address)?;
    let all: Vec<u64> = (0..keys).collect();
    let routes = client.routes(&all)?;
    let dead = routes[HOT as usize];
    let own = routes.iter().filter(|server| **server == dead).count();
    let requests = requests(keys, own, 2);
    let hot = requests.iter().filter(|key| **key == HOT).count() as f64
        / requests.iter().filter(|key| routes[**key as usize] == dead).count() as f64;
    if client.set(&all)? > 0 {
        return Err(failed("a key was not stored"));
    }
    let (before, _) = loads(&mut client, &requests, &nodes)?;
    let place = nodes.iter().position(|node| node.address() == dead).ok_or_else(|| failed("no such node"))?;
    let unit = 100.0 / before[place].asked as f64;
    nodes.remove(place).kill();
    let before = before.iter().enumerate().filter(|(number, _)| *number != place);
    let before = before.map(|(_, gets)| gets.asked as f64 * unit).collect();
    let earlier = gutter.iter().map(Node::gets).collect::<Result<Vec<Gets>, _>>()?;
    let (after, failures) = loads(&mut client, &requests, &nodes)?;
    let taken = gutter.iter().zip(earlier).map(|(node, earlier)| Ok(node.gets()?.since(earlier)));
    let taken = taken.collect::<Result<Vec<Gets>, Failure>>()?;
    let percent = |gets: &[Gets]| gets.iter().map(|gets| gets.asked as f64 * unit).collect();
    Ok(Found { before, after: percent(&after), gutter: percent(&taken), hot, failures })
}

/// Sends all requests, and fills what is missing. What each node was asked for, and how many requests failed.
fn loads(client: &mut Client, requests: &[u64], nodes: &[Node]) -> Result<(Vec<Gets>, u64), Failure> {
    let before = nodes.iter().map(Node::gets).collect::<Result<Vec<Gets>, _>>()?;
    let mut failures = 0;
    for keys in requests.chunks(AT_ONCE) {
        let got = client.get(keys)?;
        let missed = keys.iter().zip(&got).filter(|(_, got)| **got == super::fleet::Got::Miss);
        let missed: Vec<u64> = missed.map(|(key, _)| *key).collect();
        failures += client.set(&missed)?;
        failures += got.iter().filter(|got| **got == super::fleet::Got::Failed).count() as u64;
    }
    let after = nodes.iter().zip(before).map(|(node, before)| Ok(node.gets()?.since(before)));
    Ok((after.collect::<Result<_, Failure>>()?, failures))
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let all: Vec<Found> = WAYS.iter().map(|(way, _)| measure(context, *way)).collect::<Result<_, _>>()?;
    let [rehash, gutter] = &all[..] else { return Err(failed("two ways are measured")) };
    let rows = WAYS.iter().zip(&all).map(|((_, name), found)| {
        let mut after = found.after.clone();
        after.sort_by(f64::total_cmp);
        let list =
            |loads: &[f64]| loads.iter().map(|load| format!("{load:.1}")).collect::<Vec<_>>().join(", ");
        vec![
            (*name).to_owned(),
            format!("{:.1}", 100.0 * found.hot),
            list(&after),
            format!("{:+.1}", found.most()),
            format!("{:+.1}", found.beyond()),
            list(&found.gutter),
            found.failures.to_string(),
        ]
    });
    Ok(Outcome {
        how: format!(
            "{SERVERS} servers and a gutter of {GUTTER} behind guira router, all real processes; every key is asked for twice, and the popular one so \
             often that it is {:.0} % of the requests for its server. That server is killed, and the same requests are sent again; a miss is \
             filled. Keys are rehashed by SaltedFailoverRoute, which chooses another server of the pool by the key; the gutter \
             is that of FailoverWithExptimeRoute. Requests are counted by the servers, in percent of what the server that died had been asked for.",
            100.0 * SHARE
        ),
        answers: vec![answer(
            "S9",
            format!(
                "the key is {:.1} % of its server's requests; rehashed, one server gets {:+.1} points, {:+.1} beyond the one in the middle; with a gutter the most is {:+.1} points",
                100.0 * rehash.hot,
                rehash.most(),
                rehash.beyond(),
                gutter.most()
            ),
            verdict(&[
                (
                    "rehashed, the server that gets the key has 20 points beyond the others",
                    rehash.beyond() >= 19.0,
                ),
                ("with a gutter no server gets more than a point", gutter.most() <= 1.0),
                ("no request fails", rehash.failures + gutter.failures == 0),
            ]),
        )],
        tables: vec![table(
            "After the death of the server, in percent of what it had been asked for:",
            &[
                "its keys go to",
                "its hot key had",
                "the others now have",
                "the most that one has more",
                "beyond the one in the middle",
                "servers of the gutter",
                "failures",
            ],
            rows.collect(),
        )],
        charts: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Found, HOT, requests};

    #[test]
    fn the_hot_key_is_a_fifth_of_its_servers_requests() {
        // Ten of 100 keys are at its server: 2 × 9 requests for the others, so 4.5 for it.
        let mixed = requests(100, 10, 2);
        let hot = mixed.iter().filter(|key| **key == HOT).count();
        assert!((4..=5).contains(&hot), "{hot}");
        assert_eq!(mixed.len() - hot, 2 * 99);
        assert_eq!(mixed.iter().filter(|key| **key == 99).count(), 2);
    }

    #[test]
    fn what_one_has_more_is_told_beside_what_the_others_have_more() {
        let found = Found {
            before: vec![100.0, 90.0, 110.0],
            after: vec![110.0, 130.0, 121.0],
            gutter: Vec::new(),
            hot: 0.2,
            failures: 0,
        };
        assert_eq!((found.most(), found.beyond()), (40.0, 29.0));
    }
}
