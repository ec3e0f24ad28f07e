//! How long a node that is upgraded has fewer hits than before: started with nothing, with the region that it had, and by takeover.

use std::time::Duration;

use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;
use guira_sync::clock::Stopwatch;
use guira_workload::{Rng, Zipf};

use super::fleet::{Client, Got, Node};
use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, build, percent, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-upgrades",
    claims: &["S19"],
    about: "Requests until an upgraded node hits as before: begun with nothing, with its region, and by takeover",
    run,
};

const MEMORY: &str = "64MiB";
const KEYS: u64 = 1_000_000;
const THETA: f64 = 0.9;
/// Requests that are counted together, and those that are sent at once.
const WINDOW: u64 = 5000;
const AT_ONCE: usize = 100;
/// What part of the hit rate before is as good as that: the paper's.
const AS_GOOD: f64 = 0.9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Anew,
    Region,
    Takeover,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Anew, "begun with nothing"),
    (Way::Region, "ended and started with its region"),
    (Way::Takeover, "by takeover"),
];

#[derive(Debug, Clone, Copy)]
struct Found {
    /// Hits before, and in the first window after.
    before: f64,
    first: f64,
    /// Requests until a window was as good, if one was.
    requests: Option<u64>,
    /// Misses until then.
    misses: u64,
    /// From its beginning to the next answer of the new process: whoever asked meanwhile was served by the former one, or waited.
    pause: Duration,
}

/// The requests of a client that fills what it misses.
struct User {
    zipf: Zipf,
    rng: Rng,
}

impl User {
    /// The hits of so many requests.
    fn ask(&mut self, client: &mut Client, requests: u64) -> Result<u64, Failure> {
        let mut hits = 0;
        for _ in 0..requests / AT_ONCE as u64 {
            let keys: Vec<u64> = (0..AT_ONCE).map(|_| self.zipf.draw(&mut self.rng)).collect();
            let got = client.get(&keys)?;
            let missed: Vec<u64> =
                keys.iter().zip(&got).filter(|(_, got)| **got != Got::Hit).map(|(key, _)| *key).collect();
            hits += (AT_ONCE - missed.len()) as u64;
            client.set(&missed)?;
        }
        Ok(hits)
    }
}

fn measure(context: &Context, way: Way) -> Result<Found, Failure> {
    let scratch = Scratch::new();
    let [region, socket] =
        ["region", "takeover"].map(|name| scratch.file(name).to_string_lossy().into_owned());
    let options = match way {
        Way::Anew => vec![],
        Way::Region => vec!["--region", &region],
        Way::Takeover => vec!["--region", &region, "--takeover", &socket],
    };
    let node = Node::with(context, MEMORY, &options)?;
    let mut user = User { zipf: Zipf::new(KEYS, THETA).map_err(failed)?, rng: Rng::new(context.seed) };
    let mut client = Client::connect(node.address())?;
    user.ask(&mut client, context.scale.pick(3_000_000, 20_000))?;
    let counted = context.scale.pick(200_000, 10_000);
    let before = user.ask(&mut client, counted)? as f64 / counted as f64;
    let paused = Stopwatch::start();
    let next = match way {
        Way::Takeover => {
            let next = Node::with(context, MEMORY, &options)?;
            // Its sockets are the former one's, and so are the connections.
            node.wait()?;
            next
        }
        _ => {
            node.end()?;
            Node::with(context, MEMORY, &options)?
        }
    };
    if way != Way::Takeover {
        client = Deadline::after(Duration::from_secs(10))
            .poll(|| Client::connect(next.address()).ok())
            .ok_or_else(|| failed("the node does not come back"))?;
    }
    let first = user.ask(&mut client, AT_ONCE as u64)?;
    let pause = paused.elapsed();
    let mut found = Found { before, first: 0.0, requests: None, misses: AT_ONCE as u64 - first, pause };
    let most = context.scale.pick(5_000_000, 50_000);
    let mut asked = AT_ONCE as u64;
    while found.requests.is_none() && asked < most {
        let hits = user.ask(&mut client, WINDOW)?;
        let rate = hits as f64 / WINDOW as f64;
        if asked == AT_ONCE as u64 {
            found.first = rate;
        }
        asked += WINDOW;
        if rate >= AS_GOOD * before {
            found.requests = Some(asked - WINDOW);
        } else {
            found.misses += WINDOW - hits;
        }
    }
    Ok(found)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let found: Vec<Found> = WAYS.iter().map(|(way, _)| measure(context, *way)).collect::<Result<_, _>>()?;
    let requests = |found: &Found| found.requests.map_or("more".to_owned(), |requests| requests.to_string());
    let rows = WAYS.iter().zip(&found).map(|((_, name), found)| {
        vec![
            (*name).to_owned(),
            percent(found.before),
            percent(found.first),
            requests(found),
            found.misses.to_string(),
            format!("{:.0}", found.pause.as_secs_f64() * 1e3),
        ]
    });
    let [anew, region, takeover] = [&found[0], &found[1], &found[2]];
    let at_once = |found: &Found| found.first >= AS_GOOD * found.before;
    Ok(Outcome {
        how: format!(
            "A node of {MEMORY}, asked for {KEYS} keys (Zipf {THETA}) by one client that stores what it misses, until it is full and hits as often as it can; then it is upgraded, to the same \
             program. Requests are counted in windows of {WINDOW}.{}",
            build()
        ),
        answers: vec![answer(
            "S19",
            format!(
                "90 % of the hit rate before ({} %) after {} requests when begun with nothing; the first {WINDOW} requests hit {} % with the region, {} % by takeover; the new process answers after {:.0} and {:.0} ms",
                percent(anew.before),
                requests(anew),
                percent(region.first),
                percent(takeover.first),
                region.pause.as_secs_f64() * 1e3,
                takeover.pause.as_secs_f64() * 1e3
            ),
            verdict(&[
                ("a node that begins with nothing has to warm up", !at_once(anew)),
                ("none does with its region", at_once(region)),
                ("nor by takeover", at_once(takeover)),
            ]) + "The paper's hours are those of its caches' size.",
        )],
        tables: vec![table(
            "An upgrade:",
            &[
                "",
                "hits before, %",
                "at first, %",
                "requests until 90 %",
                "misses until then",
                "new process answers after, ms",
            ],
            rows.collect(),
        )],
        charts: Vec::new(),
    })
}
