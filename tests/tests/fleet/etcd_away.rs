//! An etcd that is killed, hangs, or comes back.

use crate::Region;
use crate::region::{HOLD_DOWN_S, LEASE_S, fill, misses};
use guira_harness::server::Signal;
use guira_sync::clock::Stopwatch;
use guira_tests::client::Client;
use guira_tests::server::wait_for;
use std::thread::sleep;
use std::time::Duration;

/// Longer than a lease and a hold-down.
const LONG: Duration = Duration::from_secs(HOLD_DOWN_S + LEASE_S + 2);

/// Gets all keys again and again; all are found.
#[track_caller]
fn serve_for(client: &mut Client, time: Duration) {
    let since = Stopwatch::start();
    while since.elapsed() < time {
        assert_eq!(misses(client), [""; 0]);
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_etcd_that_has_lost_everything_flushes_nobody() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(2);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let pool = region.etcd.control(&["get", "--print-value-only", "/guira/pools/cache"]);
    region.etcd.lose_everything();
    region.etcd.run_again();
    wait_for("a member that waits", || region.said("etcd has no pool cache").then_some(()));
    serve_for(&mut client, LONG);
    region.etcd.control(&["put", "/guira/pools/cache", pool.trim()]);
    names.iter().for_each(|name| region.wait_for_state(name, "serves"));
    assert_eq!(misses(&mut client), [""; 0]);
}

#[test]
fn an_etcd_that_is_killed_or_hangs_costs_no_request_and_no_server() {
    let Some(mut region) = Region::start(3) else { return };
    region.join(4);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    region.etcd.kill();
    serve_for(&mut client, LONG);
    region.etcd.run_again();
    names.iter().take(3).for_each(|name| region.wait_for_state(name, "serves"));
    assert_eq!(region.slots(), names[..3]);
    region.etcd.signal(Signal::STOP);
    serve_for(&mut client, LONG);
    region.etcd.signal(Signal::CONT);
    names.iter().take(3).for_each(|name| region.wait_for_state(name, "serves"));
    serve_for(&mut client, Duration::from_secs(HOLD_DOWN_S));
    assert_eq!(region.slots(), names[..3]);
    assert!(client.stats("")["etcd_failures"].parse::<u64>().expect("a number") > 0);
    // Afterwards all is as before: a server that is lost is replaced, and the router hears of it.
    let lost = region.nodes.remove(0);
    drop(lost.server);
    wait_for("the spare in the slot", || (region.slots()[0] == names[3]).then_some(()));
    wait_for("the router's knowledge", || {
        client.stats("servers").keys().any(|key| key.starts_with(&names[3])).then_some(())
    });
}
