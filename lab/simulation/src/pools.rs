//! The client that routes by itself, in threads that share it, before nodes that fail. After the faults each node must be
//! used again, however rarely the client is called.

use crate::client::{Cache, Client, Peers, Reply, Trouble};
use crate::faults::{Running, Swarm};
use crate::found::{Fault, Found, OF_MOVES, OF_POOLS};
use crate::moves::Move;
use crate::programs::{HOME, Program, TIME, an_engine, host, server};
use crate::scenario::Setup;
use crate::tasks::{call, lock};
use guira_client::pools::{Builder, Client as PoolsClient, Error, ErrorKind, Store, Texts};
use guira_world::hooks;
use guira_world::net::set_host;
use guira_world::scheduler::{current_process, draw};
use guira_world::thread::{JoinHandle, sleep, spawn};
use guira_world::time;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NODES: [u8; 4] = [1, 2, 3, 4];
const THREADS: usize = 4;
/// Keys of a get.
const KEYS_MAX: u64 = 6;
/// Keys that are stored to see whether a node is used: so many that each node has one.
const PROBES: u64 = 32;
const LAST_FAULT: Duration = Duration::from_secs(4);
/// A client sends a probe at least so often: ten seconds and up to half of that.
const PROBE_MAX: Duration = Duration::from_secs(15);

/// A client of the product, of which other threads may have clones.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    client: PoolsClient,
    /// Odd while the client gets another configuration.
    mapping: Arc<Mutex<u64>>,
    /// Whether keys move, and their former servers still have some.
    is_moving: Arc<Mutex<bool>>,
}

impl Pools {
    pub(crate) fn new(client: PoolsClient) -> Self {
        Pools { client, mapping: Arc::default(), is_moving: Arc::default() }
    }
}

fn trouble(what: &str, error: &Error) -> Trouble {
    match error.kind() {
        ErrorKind::Timeout
        | ErrorKind::Unreachable
        | ErrorKind::Down
        | ErrorKind::Broken
        | ErrorKind::Busy
        | ErrorKind::NoRoute(_) => Trouble::Failed,
        _ => Trouble::Wrong(format!("{what}: {error}")),
    }
}

impl Cache for Pools {
    fn set(&mut self, key: &str, value: &[u8], seconds: u32) -> Reply<()> {
        match self.client.set(&Store::new(key.as_bytes(), value).expiry(seconds as i32)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Trouble::Wrong(format!("set {key}: is stored nowhere"))),
            Err(error) => Err(trouble(&format!("set {key}"), &error)),
        }
    }

    fn delete(&mut self, key: &str) -> Reply<bool> {
        self.client.delete(key.as_bytes()).map_err(|error| trouble(&format!("delete {key}"), &error))
    }

    fn get(&mut self, key: &str) -> Reply<Option<Vec<u8>>> {
        let found = self.client.get(key.as_bytes());
        found.map(|item| item.map(|it| it.value)).map_err(|error| trouble(&format!("get {key}"), &error))
    }

    fn keys_max(&self) -> u64 {
        KEYS_MAX
    }

    fn get_many(&mut self, keys: &[String]) -> Vec<Reply<Option<Vec<u8>>>> {
        let found = self.client.get_many(keys).into_iter().zip(keys);
        let value = |(reply, key): (Result<Option<guira_client::pools::Item>, Error>, &String)| {
            reply.map(|item| item.map(|it| it.value)).map_err(|error| trouble(&format!("get {key}"), &error))
        };
        found.map(value).collect()
    }

    fn has_one_place(&self) -> bool {
        !*lock(&self.is_moving)
    }

    fn mapping(&self) -> Option<u64> {
        Some(*lock(&self.mapping)).filter(|number| number % 2 == 0)
    }
}

/// A configuration with these nodes.
fn config(nodes: &[u8]) -> Texts {
    let servers: Vec<String> = nodes.iter().map(|number| format!("\"{}\"", server(*number))).collect();
    let text = format!(
        r#"{{"pools": {{"all": {{"servers": [{}]}}}}, "route": "PoolRoute|all"}}"#,
        servers.join(", ")
    );
    Texts::from(text.as_str())
}

pub(crate) fn play(setup: &Setup, found: &Arc<Mutex<Found>>) {
    set_host(current_process(), host(HOME));
    if draw(4) == 0 {
        return play_moves(setup, found);
    }
    let mut swarm = Swarm::draw(OF_POOLS, &[], setup);
    // Where there is one, a client whose server is out of service has nothing else to send.
    let nodes = &NODES[..[1, 3, 3, 4][draw(4) as usize]];
    let mut running = start(nodes);
    let timeout = Duration::from_millis([100, 250, 1000][draw(3) as usize]);
    let (clients, workers) = begin(&config(nodes), timeout, setup, found);
    while time::now() < TIME {
        swarm.pause();
        if swarm.strike(&mut running, found) == Some(Fault::Reload) {
            reconfigure(&clients[draw(clients.len() as u64) as usize], nodes);
        }
    }
    Swarm::end();
    end(workers);
    clients.iter().for_each(|pools| drop(pools.client.reconfigure(&config(nodes))));
    settle(&clients, nodes, timeout, found);
    check_calm(&swarm, found);
}

/// A pool that changes its size, or one of its servers, while clients use it. All servers reply.
fn play_moves(setup: &Setup, found: &Arc<Mutex<Found>>) {
    let mut swarm = Swarm::draw(OF_MOVES, &[], setup);
    let timeout = Duration::from_millis([100, 250][draw(2) as usize]);
    let change = Move::draw(&NODES[..2 + draw(3) as usize], timeout);
    let mut running = start(&NODES);
    let (clients, workers) = begin(&change.still(&change.before()), timeout, setup, found);
    let mut nodes = change.before();
    while time::now() < TIME {
        swarm.pause();
        if swarm.strike(&mut running, found) == Some(Fault::Move) && nodes == change.before() {
            hooks::sometimes("keys-move");
            clients.iter().for_each(|pools| *lock(&pools.is_moving) = true);
            let apply = |client: usize, config: &Texts| {
                clients[client].client.reconfigure(config).expect("the configuration is good");
            };
            change.run(clients.len(), &apply);
            clients.iter().for_each(|pools| *lock(&pools.is_moving) = false);
            nodes = change.after();
        }
    }
    Swarm::end();
    end(workers);
    settle(&clients, &nodes, timeout, found);
    check_calm(&swarm, found);
}

fn start(nodes: &[u8]) -> Vec<Running> {
    nodes.iter().map(|node| Running::start(*node, Program::Node(an_engine()))).collect()
}

/// Starts threads of one program, or of two programs, that use the pool.
fn begin(
    config: &Texts,
    timeout: Duration,
    setup: &Setup,
    found: &Arc<Mutex<Found>>,
) -> (Vec<Pools>, Vec<JoinHandle<()>>) {
    let client = || {
        let builder = Builder::texts(config.clone()).timeout(timeout).connections(1 + draw(4) as usize);
        Pools::new(PoolsClient::new(&builder).expect("the configuration is good"))
    };
    let clients: Vec<Pools> = if draw(2) == 0 { vec![client()] } else { vec![client(), client()] };
    let peers = Peers::default();
    let workers = (0..setup.clients(THREADS))
        .map(|number| {
            let cache = clients[number % clients.len()].clone();
            let (found, peers) = (found.clone(), peers.clone());
            spawn(move || work(Client::new(number as u32, cache).among(peers), &found))
        })
        .collect();
    (clients, workers)
}

fn end(workers: Vec<JoinHandle<()>>) {
    for worker in workers {
        // A panic is reported by the world.
        let _ = worker.join();
    }
}

fn check_calm(swarm: &Swarm, found: &Mutex<Found>) {
    let mut found = lock(found);
    let counts = found.counts;
    if swarm.is_calm() && (counts.failures > 0 || counts.hits < counts.reads / 4) {
        found.wrong.push(format!("without faults: {counts:?}"));
    }
}

fn work(mut client: Client<Pools>, found: &Mutex<Found>) {
    while time::now() < TIME && lock(found).wrong.is_empty() {
        if let Err(wrong) = client.act() {
            lock(found).wrong.push(wrong);
        }
        sleep(Duration::from_micros(draw(20_000)));
    }
    lock(found).counts.add(client.counts);
}

/// Takes a node out of the configuration, or all but one, or back into it.
fn reconfigure(pools: &Pools, nodes: &[u8]) {
    let left: Vec<u8> = match draw(3) {
        0 => nodes.to_vec(),
        1 => vec![nodes[draw(nodes.len() as u64) as usize]],
        _ if nodes.len() == 1 => nodes.to_vec(),
        _ => {
            let out = nodes[draw(nodes.len() as u64) as usize];
            nodes.iter().copied().filter(|node| *node != out).collect()
        }
    };
    tracing::info!("the servers are now {left:?}");
    *lock(&pools.mapping) += 1;
    pools.client.reconfigure(&config(&left)).expect("the configuration is good");
    *lock(&pools.mapping) += 1;
}

/// Waits until each client uses each node, in calls that may be rare.
fn settle(clients: &[Pools], nodes: &[u8], timeout: Duration, found: &Mutex<Found>) {
    let gap = match draw(4) {
        0 => Duration::from_millis(50),
        1 => timeout / 2,
        _ => timeout * 2,
    };
    // Faults that began last must end; then a probe is due, and is sent, and its reply is read by another call.
    let limit = time::now() + LAST_FAULT + PROBE_MAX + timeout * 8 + gap * 4;
    let mut pools: Vec<Pools> = clients.to_vec();
    let mut round = 0;
    loop {
        sleep(gap);
        round += 1;
        let mut unused: Vec<String> = Vec::new();
        for (number, pools) in pools.iter_mut().enumerate() {
            let stored: Vec<String> = (0..PROBES).map(|it| format!("probe-{number}-{round}-{it}")).collect();
            if let Err(wrong) = store_all(pools, &stored) {
                lock(found).wrong.push(wrong);
                return;
            }
            let out = nodes.iter().filter_map(|node| is_used(*node, &stored).err());
            unused.extend(out.map(|why| format!("client {number} does not use a node: {why}")));
        }
        if unused.is_empty() {
            return;
        }
        hooks::sometimes("node-still-out-after-the-faults");
        if time::now() > limit {
            lock(found).wrong.extend(unused);
            return;
        }
    }
}

/// Stores items with one call: a client that waits for servers that are out sends no other meanwhile.
fn store_all(pools: &Pools, keys: &[String]) -> Result<(), String> {
    let stores: Vec<Store<'_>> = keys.iter().map(|key| Store::new(key.as_bytes(), b"x")).collect();
    for (result, key) in pools.client.set_many(&stores).into_iter().zip(keys) {
        match result.map_err(|error| trouble(&format!("set {key}"), &error)) {
            Ok(true) | Err(Trouble::Failed) => {}
            Ok(false) => return Err(format!("set {key}: is stored nowhere")),
            Err(Trouble::Wrong(wrong)) => return Err(wrong),
        }
    }
    Ok(())
}

/// Fails if a node has none of these keys.
fn is_used(node: u8, keys: &[String]) -> Result<(), String> {
    let requests: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    let text = call(server(node), &format!("{requests}quit\r\n"))
        .map_err(|error| format!("node {node} does not answer: {error}"))?;
    if text.contains("VALUE ") { Ok(()) } else { Err(format!("node {node} has no item")) }
}
