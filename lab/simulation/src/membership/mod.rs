//! Membership: a modelled etcd, nodes with a member on each host, routers and a client that follow the pool, a keeper that
//! replaces lost nodes, and an operator who drains a slot. Faults strike while programs write and read through routers and
//! the client. After the faults all of them must agree with etcd.

mod agree;
mod history;
mod operator;

use crate::client::{Cache, Trouble};
use crate::etcd::Etcd;
use crate::faults::{Running, Swarm};
use crate::found::{Fault, Found, OF_MEMBERSHIP};
use crate::pools::Pools;
use crate::programs::{
    ETCD_POOL, FollowingPlan, HOLD_DOWN, HOME, Program, an_engine, etcd_options, host, server,
};
use crate::scenario::Setup;
use crate::tasks::{call, lock};
use crate::text_cache::TextCache;
use guira_control::{Etcd as EtcdClient, Pool, Rules, Store};
use guira_discovery::{Following, Source};
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw};
use guira_world::thread::{JoinHandle, sleep, spawn};
use guira_world::time;
use history::History;
use operator::Operator;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const NODES: [u8; 5] = [1, 2, 3, 4, 5];
const ETCDS: [u8; 3] = [41, 42, 43];
const ROUTERS: [u8; 2] = [50, 51];
const SLOTS: usize = 3;
/// So many that most are not written while their node is lost: the old value stays there, and counts.
const KEYS: usize = 200;
/// How long programs work while faults strike.
const TIME: Duration = Duration::from_secs(30);
/// How long they go on after all agree with etcd.
const AFTER: Duration = Duration::from_secs(3);
/// Each slot has its first server by then.
const START: Duration = Duration::from_secs(10);
/// A router or client that cannot reach etcd, for as long as faults last, may read old values for so long.
const OLD_MAX: Duration = Duration::from_secs(10);

/// How programs reach the nodes.
#[derive(Debug)]
enum Way {
    Router(TextCache),
    Client(Pools),
}

impl Way {
    fn cache(&mut self) -> &mut dyn Cache {
        match self {
            Way::Router(cache) => cache,
            Way::Client(cache) => cache,
        }
    }
}

#[derive(Clone, Debug)]
struct Shared {
    history: Arc<Mutex<History>>,
    found: Arc<Mutex<Found>>,
    phase: Arc<Mutex<Phase>>,
    is_calm: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Faults,
    /// All agree with etcd, and no fault is left: no value may be old.
    Quiet,
    Over,
}

pub(crate) fn play(setup: &Setup, found: &Arc<Mutex<Found>>) {
    set_host(current_process(), host(HOME));
    let etcd = Arc::new(Mutex::new(Etcd::new()));
    let mut swarm = Swarm::draw(OF_MEMBERSHIP, &[], setup);
    let endpoints = &ETCDS[..1 + 2 * draw(2) as usize];
    let mut running: Vec<Running> =
        endpoints.iter().map(|number| Running::start(*number, Program::Etcd(etcd.clone()))).collect();
    create(endpoints);
    running.extend(NODES.iter().map(|node| Running::start(*node, Program::Node(an_engine()))));
    let plan = FollowingPlan { etcds: endpoints.to_vec() };
    running.extend(NODES.iter().map(|node| Running::start(*node, Program::Member(plan.clone()))));
    while serving(&etcd).len() < SLOTS {
        assert!(time::now() < START, "slots without servers: {:?}", serving(&etcd));
        sleep(Duration::from_millis(100));
    }
    running.extend(ROUTERS.iter().map(|router| Running::start(*router, Program::Following(plan.clone()))));
    while ROUTERS.iter().any(|router| call(server(*router), "version\r\nquit\r\n").is_err()) {
        sleep(Duration::from_millis(100));
    }
    let shared = Shared {
        history: Arc::new(Mutex::new(History::new(KEYS))),
        found: found.clone(),
        phase: Arc::default(),
        is_calm: swarm.is_calm(),
    };
    let client = follow(endpoints);
    // If a drain's new server is lost, the former one has what it had when a change last reached it.
    let operator = if agree::strikes_servers(&swarm) { None } else { Some(Operator::draw(endpoints)) };
    let workers: Vec<JoinHandle<()>> = (0..setup.clients(4))
        .map(|number| {
            let (shared, way) = (shared.clone(), way(number, &client));
            spawn(move || work(number, way, &shared))
        })
        .collect();
    while time::now() < TIME && lock(found).wrong.is_empty() {
        swarm.pause();
        strike(&mut swarm, &mut running, &etcd, found);
    }
    Swarm::end();
    lock(&etcd).elect_leader();
    let unfinished = operator.and_then(|operator| operator.finish().err());
    lock(found).wrong.extend(unfinished);
    agree::settle(&etcd, &client, found);
    *lock(&shared.phase) = Phase::Quiet;
    sleep(AFTER);
    *lock(&shared.phase) = Phase::Over;
    for worker in workers {
        // A panic is reported by the world.
        let _ = worker.join();
    }
    agree::check_replacements(&etcd, &swarm, found);
    let counts = lock(found).counts;
    if swarm.is_calm() && (counts.failures > 0 || counts.hits < counts.reads / 4) {
        lock(found).wrong.push(format!("without faults: {counts:?}"));
    }
    let outdated = lock(&shared.history).outdated;
    lock(found).read_outdated(outdated);
}

/// The servers of slots, as etcd has them.
fn serving(etcd: &Mutex<Etcd>) -> Vec<String> {
    lock(etcd).value(&pool_key()).map(agree::servers_of).unwrap_or_default()
}

fn pool_key() -> String {
    format!("/guira/pools/{ETCD_POOL}")
}

/// Makes the pool, as an operator does.
fn create(endpoints: &[u8]) {
    let rules = Rules { hold_down_s: HOLD_DOWN.as_secs() as u32, at_once: 1, minimum: 0 };
    let pool = Pool::of_empty_slots(SLOTS, rules);
    let client = EtcdClient::new(etcd_options(endpoints), Arc::default()).expect("no file is read");
    let mut store = Store::new(client);
    while let Err(error) = store.create(ETCD_POOL, &pool) {
        tracing::info!("the pool is not made: {error}");
        sleep(Duration::from_millis(100));
        if store.view().is_ok_and(|view| view.pool(ETCD_POOL).is_ok()) {
            return;
        }
    }
}

/// A client that follows the pool.
fn follow(endpoints: &[u8]) -> Pools {
    loop {
        let source = Source::Text(format!(r#"{{"route": "PoolRoute|etcd:{ETCD_POOL}"}}"#));
        let following = Following::of(source).etcd(etcd_options(endpoints));
        match following.client(|builder| builder.timeout(Duration::from_millis(500))) {
            Ok(client) => return Pools::new(client),
            Err(error) => tracing::info!("the client does not start: {error}"),
        }
        sleep(Duration::from_millis(500));
    }
}

/// Two programs use the client, and one uses each router.
fn way(number: usize, client: &Pools) -> Way {
    match ROUTERS.get(number) {
        Some(router) => Way::Router(TextCache::new(server(*router))),
        None => Way::Client(client.clone()),
    }
}

/// A fault, and what only etcd does about it.
fn strike(swarm: &mut Swarm, running: &mut [Running], etcd: &Arc<Mutex<Etcd>>, found: &Mutex<Found>) {
    match swarm.strike(running, found) {
        Some(Fault::NoLeader) => {
            lock(etcd).lose_leader();
            let (etcd, time) = (etcd.clone(), Duration::from_millis(draw(4_000)));
            drop(spawn(move || {
                sleep(time);
                lock(&etcd).elect_leader();
            }));
        }
        Some(Fault::Purge) => lock(etcd).compact(),
        _ => {}
    }
}

fn work(number: usize, mut way: Way, shared: &Shared) {
    while *lock(&shared.phase) != Phase::Over && lock(&shared.found).wrong.is_empty() {
        match draw(4) {
            // The keys that this program writes.
            0 => write(number + 4 * draw(KEYS as u64 / 4) as usize, &mut way, shared),
            _ => read(draw(KEYS as u64) as usize, &mut way, shared),
        }
        sleep(Duration::from_micros(draw(40_000)));
    }
}

fn write(key: usize, way: &mut Way, shared: &Shared) {
    let write = lock(&shared.history).write(key);
    let done = match draw(3) {
        0 => way.cache().delete(&write.key).map(drop),
        _ => way.cache().set(&write.key, write.value().as_bytes(), 0),
    };
    let mut found = lock(&shared.found);
    match done {
        Ok(()) => {
            found.counts.writes += 1;
            lock(&shared.history).acknowledge(&write);
        }
        Err(Trouble::Failed) => {
            tracing::debug!("the write of {} has failed", write.key);
            found.counts.failures += 1;
            lock(&shared.history).give_up(&write);
        }
        Err(Trouble::Wrong(wrong)) => found.wrong.push(wrong),
    }
}

fn read(key: usize, way: &mut Way, shared: &Shared) {
    let is_exact = shared.is_calm || *lock(&shared.phase) != Phase::Faults;
    let read = lock(&shared.history).read(key);
    let reply = way.cache().get(&read.key);
    let mut found = lock(&shared.found);
    match reply {
        Ok(None) => found.counts.reads += 1,
        Ok(Some(value)) => {
            found.counts.reads += 1;
            found.counts.hits += 1;
            let bound = if is_exact { Duration::ZERO } else { OLD_MAX };
            let checked = lock(&shared.history).check(&read, &String::from_utf8_lossy(&value), bound);
            found.wrong.extend(checked.err());
        }
        Err(Trouble::Failed) => found.counts.failures += 1,
        Err(Trouble::Wrong(wrong)) => found.wrong.push(wrong),
    }
}
