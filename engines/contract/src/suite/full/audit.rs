//! Whether what an engine counts comes to what was done.

use super::model::Tally;
use super::plan::{Full, World};
use super::worker::Worker;
use crate::stats::EngineStats;
use crate::{Engine, Lossiness, Pace, Session, Tuning};

/// Rounds of upkeep in which everything comes to rest.
const UPKEEP_MAX: usize = 200_000;

/// What some engines keep before each item.
const LINK_BYTES: u64 = 8;

fn tally<E: Engine>(workers: &[Worker<'_, E>]) -> Tally {
    let mut sum = Tally::default();
    workers.iter().for_each(|worker| sum.add(&worker.model.tally));
    sum
}

/// What the engine counts, but not by class: a message is to be read.
fn counters<E: Engine>(engine: &E) -> EngineStats {
    EngineStats { classes: Vec::new(), ..engine.stats() }
}

/// How many items there must be.
fn live<E: Engine>(world: &World, workers: &[Worker<'_, E>]) -> u64 {
    workers.iter().map(|worker| worker.model.keys(world.now()).len() as u64).sum()
}

/// No session is at work: every item that was stored is there, was removed, evicted or reclaimed, or another was stored over it.
pub(super) fn counts<E: Engine>(
    engine: &E,
    plan: &Full,
    world: &World,
    workers: &[Worker<'_, E>],
) -> EngineStats {
    let (stats, tally) = (counters(engine), tally(workers));
    let name = format!("seed {}, {:?}: {tally:?}, {stats:?}", plan.seed, plan.workers);
    world.check(plan, &stats);
    assert_eq!(
        stats.items + stats.evictions + stats.reclaimed,
        tally.left(),
        "items are lost or found: {name}"
    );
    assert!(tally.lost <= stats.evictions, "items are gone that were not evicted: {name}");
    if workers[0].lossiness() == Lossiness::Store {
        assert_eq!(stats.evictions, 0, "{name}");
        assert!(stats.items >= live(world, workers), "fewer items than are alive: {name}");
    }
    stats
}

/// Does background work until nothing is left to do: expired items are looked for, and memory is given back.
fn rest<E: Engine>(engine: &E, plan: &Full, world: &World, worker: &mut Worker<'_, E>) {
    let before = engine.stats().crawls;
    engine.tune(Tuning::CrawlNow);
    worker.begin();
    for round in 0..UPKEEP_MAX {
        let done = worker.session().maintain(world.now(), Pace::Idle, 64);
        worker.session().quiesce();
        if done == 0 || round % 64 == 0 {
            let stats = engine.stats();
            let has_crawled = stats.crawls > before && !stats.crawling;
            // What may not be evicted may lie in every page.
            let has_shrunk =
                stats.memory_used <= stats.memory_limit || worker.lossiness() == Lossiness::Store;
            if has_crawled && done == 0 && has_shrunk {
                return worker.pause();
            }
        }
    }
    panic!("seed {}, {:?}: it never rests: {:?}", plan.seed, plan.workers, counters(engine));
}

/// The end of a run: what has expired is found, and when everything was removed nothing is left.
pub(super) fn end<E: Engine>(engine: &E, plan: &Full, world: &World, mut workers: Vec<Worker<'_, E>>) {
    (0..4).for_each(|_| world.advance());
    rest(engine, plan, world, &mut workers[0]);
    let (mut bytes, mut items) = (0, 0);
    for worker in &mut workers {
        let all = worker.check_all();
        (bytes, items) = (bytes + all.0 as u64, items + all.1);
        worker.settle();
    }
    let name = format!("seed {}, {:?}", plan.seed, plan.workers);
    let stats = counts(engine, plan, world, &workers);
    assert_eq!(stats.items, items, "{name}: {stats:?}");
    // An engine may count what links each item to others.
    let links = stats.bytes.checked_sub(bytes).is_some_and(|links| links == 0 || links == items * LINK_BYTES);
    assert!(links, "{name}: items take {bytes} bytes: {stats:?}");
    let scarce = match workers[0].lossiness() {
        Lossiness::Store => tally(&workers).refused,
        Lossiness::Cache => stats.evictions,
    };
    assert!(scarce > 100, "{name}: memory was not full: {stats:?}");
    workers.iter_mut().for_each(Worker::clear);
    drop(workers);
    let (stats, classes) = (counters(engine), engine.stats().classes);
    let used: u64 = classes.iter().map(|class| class.used_chunks).sum();
    assert_eq!((stats.items, stats.bytes, used), (0, 0, 0), "{name}: {stats:?}");
}
