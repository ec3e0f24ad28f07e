//! Servers that hang for a while, and servers that are killed and come back with nothing.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_workload::Rng;

use super::Failures;
use super::client::{Answers, Client};
use super::fleet::{Node, Router, only};
use crate::plan::Plan;

const NODES: usize = 4;
const CLIENTS: u64 = 6;
/// One in this many stops of a server is a kill.
const KILLS: u64 = 8;

#[derive(Default)]
pub(super) struct Progress {
    pub(super) is_over: AtomicBool,
    replies: AtomicU64,
    all: Mutex<Answers>,
    failures: Mutex<Failures>,
}

impl Progress {
    pub(super) fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    fn fail(&self, what: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(what);
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    /// Runs one client until the run ends or a reply is wrong.
    pub(super) fn run_client(&self, router: &Router, name: u64, random: Rng) {
        let mut client = match Client::open(router.address, name, random) {
            Ok(client) => client,
            Err(error) => return self.fail(format!("client {name}: {error}")),
        };
        while self.goes_on() {
            let before = client.answers.replies;
            if let Err(failure) = client.turn() {
                self.fail(failure);
            }
            self.replies.fetch_add(client.answers.replies - before, Ordering::Relaxed);
        }
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.replies += client.answers.replies;
        all.hits += client.answers.hits;
        all.errors += client.answers.errors;
    }

    /// The counts of answers, and the failures.
    pub(super) fn end(self) -> (Answers, Failures) {
        let answers = self.all.into_inner().unwrap_or_else(PoisonError::into_inner);
        (answers, self.failures.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) fn run(plan: &Plan) -> Result<Failures, String> {
    let mut nodes = (0..NODES).map(|_| Node::start(plan)).collect::<Result<Vec<_>, _>>()?;
    let addresses: Vec<_> = nodes.iter().map(|node| node.address).collect();
    let mut router = Router::start(&plan.binary, &only(&addresses), &[])?;
    let progress = Progress::default();
    let mut random = Rng::part(plan.seed, 1 << 32);
    let [mut stops, mut kills] = [0u64; 2];
    std::thread::scope(|scope| {
        for name in 0..CLIENTS {
            let (progress, router) = (&progress, &router);
            scope.spawn(move || progress.run_client(router, name, Rng::part(plan.seed, name)));
        }
        let mut disturb = || {
            while progress.goes_on() && progress.replies() < plan.replies {
                std::thread::sleep(Duration::from_millis(50 + random.below(200)));
                let node = &mut nodes[random.below(NODES as u64) as usize];
                if random.below(KILLS) == 0 {
                    node.replace(plan)?;
                    kills += 1;
                } else {
                    node.stop();
                    std::thread::sleep(Duration::from_millis(10 + random.below(200)));
                    node.go_on();
                    stops += 1;
                }
            }
            Ok::<(), String>(())
        };
        let disturbed = disturb();
        progress.is_over.store(true, Ordering::Relaxed);
        disturbed
    })?;
    let (answers, mut failures) = progress.end();
    println!(
        "  {} replies, {} hits, {} errors; {stops} stops and {kills} kills",
        answers.replies, answers.hits, answers.errors
    );
    if failures.is_empty() && (answers.errors == 0 || answers.hits == 0) {
        failures.push("without errors, or without hits, nothing was tried".to_owned());
    }
    failures.extend(router.failures());
    Ok(failures)
}
