//! Clients that route by themselves, and follow a pool of etcd.

use crate::Region;
use crate::drains::SETTLE;
use crate::model::Model;
use crate::region::{HOLD_DOWN_S, POOL, keys};
use guira_client::pools::{Client, Store};
use guira_control::EtcdOptions;
use guira_discovery::{Following, Source};
use guira_sync::clock::Stopwatch;
use guira_tests::server::wait_for;
use std::path::Path;
use std::time::Duration;

fn follow(region: &Region, kept: &Path) -> Client {
    let source = Source::Text(format!(r#"{{"route": "PoolRoute|etcd:{POOL}"}}"#));
    let etcd = EtcdOptions::new(vec![region.etcd.url()]);
    let following = Following::of(source).etcd(etcd).keep(kept);
    following
        .client(|builder| builder.timeout(Duration::from_secs(2)))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn fill(client: &Client) {
    keys().for_each(|key| assert_eq!(client.set(&Store::new(key.as_bytes(), key.as_bytes())), Ok(true)));
}

/// The keys that a client does not find. It is told of all.
#[track_caller]
fn misses(client: &Client) -> Vec<String> {
    let all: Vec<String> = keys().collect();
    let found = client.get_many(&all).into_iter().map(|found| found.expect("an answer"));
    all.iter().zip(found).filter(|(_, found)| found.is_none()).map(|(key, _)| key.clone()).collect()
}

/// The servers that a client goes to.
fn servers(client: &Client) -> Vec<String> {
    let mut all: Vec<String> = client.versions().into_iter().map(|(name, _)| name).collect();
    all.sort();
    all
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut all = names.to_vec();
    all.sort();
    all
}

#[test]
fn a_client_follows_a_slot_to_its_new_server_and_no_other_key_moves() {
    let Some(mut region) = Region::start(3) else { return };
    region.join(4);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let kept = region.scratch.path().join("client.config");
    let client = follow(&region, &kept);
    assert_eq!(servers(&client), sorted(&names[..3]));
    fill(&client);
    // etcd is killed: nothing fails, and a client that is started meanwhile goes by what was kept.
    region.etcd.kill();
    let since = Stopwatch::start();
    while since.elapsed() < Duration::from_secs(HOLD_DOWN_S) {
        assert_eq!(misses(&client), [""; 0]);
    }
    let late = follow(&region, &kept);
    assert_eq!((servers(&late), misses(&late)), (sorted(&names[..3]), vec![]));
    region.etcd.run_again();
    names.iter().take(3).for_each(|name| region.wait_for_state(name, "serves"));
    assert_eq!((client.counters().failed_keys, client.counters().failed_changes), (0, 0));
    // A server is lost.
    let lost = region.nodes.remove(0);
    drop(lost.server);
    let after = [&names[1..4]].concat();
    for client in [&client, &late] {
        wait_for("the client's knowledge", || (servers(client) == sorted(&after)).then_some(()));
    }
    let (mine, others) = (misses(&client), misses(&late));
    assert!((20..120).contains(&mine.len()), "{} of 200 keys were in one of three slots", mine.len());
    assert_eq!(mine, others);
    assert!(client.counters().configurations >= 1);
    let again: Vec<_> = keys().filter(|key| mine.contains(key)).collect();
    again.iter().for_each(|key| assert_eq!(client.set(&Store::new(key.as_bytes(), b"")), Ok(true)));
    assert_eq!(misses(&late), [""; 0], "both go to the same server");
}

#[test]
fn nothing_outdated_is_read_by_a_client_beside_a_router_while_keys_move() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let client = follow(&region, &region.scratch.path().join("client.config"));
    fill(&client);
    let model = Model::start_beside(&[&router.address], &[&client]);
    for arguments in [["drain", POOL, "0"].as_slice(), &["add", POOL], &["resize", POOL, "2"]] {
        let before = model.seen();
        std::thread::scope(|scope| {
            let moving = scope.spawn(|| region.fleet(&[arguments, &[SETTLE, "--within=1s"]].concat()));
            while !moving.is_finished() {
                assert_eq!(misses(&client), [""; 0], "{arguments:?}: no key is missed meanwhile");
            }
            moving.join().expect("keys have moved");
        });
        let during = model.seen().since(before);
        assert!(during.deletes > 50 && during.reads > 500, "{arguments:?}: {during:?}");
        let slots = region.slots();
        wait_for("the client's knowledge", || (servers(&client) == sorted(&slots)).then_some(()));
        assert_eq!(misses(&client), [""; 0], "{arguments:?}: no key is missed afterwards");
        names
            .iter()
            .filter(|name| !slots.contains(name))
            .for_each(|name| region.wait_for_state(name, "spare"));
    }
    model.end();
    let counters = client.counters();
    assert_eq!((counters.failed_keys, counters.failed_changes), (0, 0));
}
