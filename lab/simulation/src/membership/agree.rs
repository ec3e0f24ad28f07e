//! Whether routers, clients and nodes agree with etcd, and what the keeper has done.

use super::{NODES, ROUTERS, SLOTS, pool_key, serving};
use crate::client::Cache;
use crate::etcd::Etcd;
use crate::faults::Swarm;
use crate::found::{Fault, Found};
use crate::pools::Pools;
use crate::programs::{ETCD_POOL, HOLD_DOWN, LEASE, server};
use crate::tasks::{call, lock};
use crate::text_cache::TextCache;
use guira_world::thread::sleep;
use guira_world::time;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

/// The last fault ends, a client's probe is due, leases and hold-downs of two lost servers pass one after the other, and
/// routers learn.
const SETTLED: Duration =
    Duration::from_secs(4 + 15 + 10).saturating_add(LEASE.saturating_add(HOLD_DOWN).saturating_mul(3));
const PROBES: usize = 16;
/// How often in a row all must agree.
const AGREEMENTS: u32 = 4;

/// The servers of the slots of a pool, without those that have none.
pub(super) fn servers_of(pool: &[u8]) -> Vec<String> {
    slots_of(pool).into_iter().filter_map(|slot| slot.server).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Slot {
    server: Option<String>,
    /// Whether the slot moves to another server.
    is_drained: bool,
}

fn slots_of(pool: &[u8]) -> Vec<Slot> {
    let pool: Value = serde_json::from_slice(pool).expect("a pool is JSON");
    let slots = pool["slots"].as_array().expect("a pool has slots");
    let slot = |slot: &Value| Slot {
        server: slot.get("server").and_then(Value::as_str).map(str::to_owned),
        is_drained: slot.get("handover").is_some_and(|handover| !handover.is_null()),
    };
    slots.iter().map(slot).collect()
}

/// Waits until all agree.
pub(super) fn settle(etcd: &Mutex<Etcd>, client: &Pools, found: &Mutex<Found>) {
    let limit = time::now() + SETTLED;
    let (mut round, mut agreements) = (0, 0);
    while agreements < AGREEMENTS {
        sleep(Duration::from_millis(500));
        round += 1;
        let wrong = differences(etcd, client, round);
        agreements = if wrong.is_ok() { agreements + 1 } else { 0 };
        if let Err(wrong) = wrong
            && time::now() > limit
        {
            lock(found).wrong.push(wrong);
            return;
        }
    }
}

/// Stores items by each way. Fails unless each is found by all ways, and in one node: the server of a slot.
fn differences(etcd: &Mutex<Etcd>, client: &Pools, round: u32) -> Result<(), String> {
    let owners = serving(etcd);
    let members = lock(etcd).names(&format!("/guira/members/{ETCD_POOL}/"));
    if owners.len() != SLOTS || members.len() != NODES.len() {
        return Err(format!("{SLOTS} slots have {owners:?}; registered are {members:?}"));
    }
    let mut ways: Vec<Box<dyn Cache>> =
        ROUTERS.iter().map(|router| Box::new(TextCache::new(server(*router))) as Box<dyn Cache>).collect();
    ways.push(Box::new(client.clone()));
    let key = |way: usize, number: usize| format!("probe-{round}-{way}-{number}");
    let mut keys = Vec::new();
    for (number, way) in ways.iter_mut().enumerate() {
        for probe in 0..PROBES {
            let key = key(number, probe);
            way.set(&key, b"x", 0).map_err(|trouble| format!("way {number} does not store: {trouble:?}"))?;
            keys.push(key);
        }
    }
    for (number, way) in ways.iter_mut().enumerate() {
        for key in &keys {
            match way.get(key) {
                Ok(Some(_)) => {}
                other => return Err(format!("way {number} does not find {key}: {other:?}")),
            }
        }
    }
    let used = keys_in_nodes(&keys)?;
    if used.iter().collect::<BTreeSet<_>>() != owners.iter().collect() {
        return Err(format!("items are in {used:?}; slots have {owners:?}"));
    }
    // Nothing may have changed meanwhile.
    if serving(etcd) == owners { Ok(()) } else { Err("slots have changed servers".to_owned()) }
}

/// The nodes that have these keys. Fails unless each key is in one node.
fn keys_in_nodes(keys: &[String]) -> Result<BTreeSet<String>, String> {
    let mut used = BTreeSet::new();
    let mut places: Vec<usize> = vec![0; keys.len()];
    let requests: String = keys.iter().map(|key| format!("get {key}\r\n")).collect();
    for node in NODES {
        let text = call(server(node), &format!("{requests}quit\r\n"))
            .map_err(|error| format!("node {node} does not answer: {error}"))?;
        for (number, key) in keys.iter().enumerate() {
            if text.contains(&format!("VALUE {key} ")) {
                places[number] += 1;
                used.insert(server(node).to_string());
            }
        }
    }
    match places.iter().position(|count| *count != 1) {
        None => Ok(used),
        Some(at) => Err(format!("{} is in {} nodes", keys[at], places[at])),
    }
}

/// Whether faults strike servers, and not only etcd and the network to it.
pub(super) fn strikes_servers(swarm: &Swarm) -> bool {
    let of_servers = [Fault::Kill, Fault::Loss, Fault::Power, Fault::Freeze, Fault::Cut, Fault::Isolation];
    of_servers.iter().any(|fault| swarm.has(*fault))
}

/// Checks what the keeper has done: a lost server is replaced once, and no two within a hold-down.
pub(super) fn check_replacements(etcd: &Mutex<Etcd>, swarm: &Swarm, found: &Mutex<Found>) {
    let pools = lock(etcd).pools.clone();
    let mut last: Option<Duration> = None;
    let mut wrong = Vec::new();
    for pair in pools.windows(2) {
        let (before, (when, after)) = (slots_of(&pair[0].1), (pair[1].0, slots_of(&pair[1].1)));
        // An operator has drained the others.
        let is_replaced = |(old, new): &(&Slot, &Slot)| {
            old.server.is_some() && old.server != new.server && !old.is_drained && !new.is_drained
        };
        let replaced = before.iter().zip(&after).filter(is_replaced).count();
        if replaced == 0 {
            continue;
        }
        lock(found).replaced(replaced as u64);
        if replaced > 1 || last.is_some_and(|last| when < last + HOLD_DOWN) {
            wrong.push(format!("{replaced} servers of {before:?} are replaced at {when:?}, after {last:?}"));
        }
        last = Some(when);
    }
    // What only etcd and the network to it suffer is no reason.
    if last.is_some() && !strikes_servers(swarm) {
        wrong.push(format!("{} was changed although no server was lost", pool_key()));
    }
    lock(found).wrong.extend(wrong);
}
