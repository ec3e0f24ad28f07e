//! A server leaves its slot, and the keys stay.

use crate::Region;
use crate::model::Model;
use crate::region::{HOLD_DOWN_S, POOL, fill, misses, put, routes};
use guira_harness::server::{ServerProcess, Signal};
use guira_tests::Client;
use guira_tests::server::{guira, guira_binary, spawn, wait_for};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Time in which routers of a busy machine hear of a change.
pub(crate) const SETTLE: &str = "--settle=2s";

/// A drain of a slot to `server` that goes on until it is ended.
fn begin(region: &Region, slot: &str, server: &str) -> ServerProcess {
    let mut drain = guira(["fleet", "--etcd", &region.etcd.url(), "drain", POOL, slot, "--with", server]);
    drain.args(["--settle=1s", "--within=5m"]);
    spawn(drain)
}

fn is_warming(region: &Region, server: &str) -> Option<()> {
    region.state(server).contains("warming").then_some(())
}

#[test]
fn a_drain_keeps_all_keys_and_nothing_outdated_is_read_by_any_router() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let routers = [region.router(&[]), region.router(&[])];
    let mut client = routers[0].connect();
    fill(&mut client);
    let before = routes(&mut client);
    let model = Model::start(&[&routers[0].address, &routers[1].address]);
    sleep(Duration::from_secs(1));
    let first = model.seen();
    let said = std::thread::scope(|scope| {
        let drain = scope.spawn(|| region.fleet(&["drain", POOL, "0", SETTLE, "--within=1s"]));
        while !drain.is_finished() {
            assert_eq!(misses(&mut client), [""; 0], "no key is missed meanwhile");
        }
        drain.join().expect("it is drained")
    });
    let during = model.seen().since(first);
    assert!(said.contains("of the keys move (hash Ch3)") && said.contains("is drained"), "{said}");
    assert_eq!(region.slots(), [names[2].clone(), names[1].clone()]);
    let moved = routes(&mut client).iter().zip(&before).filter(|(after, before)| after != before).count();
    assert_eq!(moved, before.iter().filter(|server| **server == names[0]).count());
    for router in &routers {
        assert_eq!(misses(&mut router.connect()), [""; 0], "no key is missed afterwards");
    }
    // Who has left is emptied, and is a spare.
    region.wait_for_state(&names[0], "spare");
    let mut former = Client::connect(region.nodes[0].server.address());
    wait_for("an empty server", || {
        former
            .value(&format!("key{}", before.iter().position(|server| *server == names[0])?))
            .is_none()
            .then_some(())
    });
    assert!(during.deletes > 50 && during.reads > 500, "{during:?}");
    println!(
        "hit share of keys that are changed: {:.3} before, {:.3} meanwhile",
        first.hit_share(),
        during.hit_share()
    );
    model.end();
}

#[test]
fn a_drain_that_was_interrupted_goes_on_from_where_it_was() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let mut drain = begin(&region, "0", &names[1]);
    wait_for("a server that is filled", || is_warming(&region, &names[1]));
    drain.kill();
    assert_eq!(misses(&mut client), [""; 0]);
    // Neither of the two is a spare, and others are told what there is.
    assert_eq!(region.state(&names[0]), "leaves slot 0");
    let refused = |arguments: &[&str], what: &str| {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(said.contains(what), "{arguments:?}: {said}");
    };
    refused(&["drain", POOL, "0", "--with", &names[2]], &format!("already moves to {}", names[1]));
    refused(&["replace", POOL, "0"], "is being drained");
    refused(&["resize", POOL, "2"], "is being drained");
    assert!(region.fleet(&["drain", POOL, "0", "--dry-run"]).contains("would resume"));
    region.fleet(&["drain", POOL, "0", "--settle=1s", "--within=1s"]);
    assert_eq!((region.slots(), misses(&mut client)), (vec![names[1].clone()], vec![]));
    region.wait_for_state(&names[0], "spare");
}

#[test]
fn a_second_drain_goes_on_with_the_one_that_is_under_way_and_both_tell_of_its_end() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    fill(&mut router.connect());
    let mut first = begin(&region, "0", &names[1]);
    wait_for("a server that is filled", || is_warming(&region, &names[1]));
    let second = region.fleet(&["drain", POOL, "0", "--settle=1s", "--within=1s"]);
    let end = format!("slot 0 of pool {POOL} is drained: {} replaces {}", names[1], names[0]);
    assert!(second.contains(&end), "{second}");
    let status = wait_for("the end of the first", || first.ended());
    assert!(status.success() && first.lines().contains(&end), "{:?} {}", first.lines(), first.errors());
    assert_eq!(region.slots(), names[1..]);
}

#[test]
fn a_drain_that_others_have_turned_round_empties_nobody() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let mut drain = begin(&region, "0", &names[1]);
    wait_for("a server that is filled", || is_warming(&region, &names[1]));
    // As if others had ended it, and drained the slot again, to the server that it came from.
    let handover = format!(r#"{{"other": "{}", "stage": "announced", "since_s": 1}}"#, names[0]);
    put(&region, &format!(r#"{{"slots": [{{"server": "{}", "handover": {handover}}}]}}"#, names[1]));
    let status = wait_for("the end of the drain", || drain.ended());
    let said = drain.errors();
    assert!(!status.success() && said.contains("another command drains slot 0"), "{said}");
    assert!(said.contains(&format!("{} keeps its items", names[0])), "{said}");
    assert_eq!(region.slots(), names[1..]);
    assert_eq!(misses(&mut Client::connect(region.nodes[0].server.address())), [""; 0]);
}

#[test]
fn of_two_servers_that_a_slot_moves_between_the_one_that_is_left_has_it() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(4);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let before = routes(&mut client);
    let mut drains = ["0", "1"].map(|slot| {
        let new = &names[if slot == "0" { 2 } else { 3 }];
        let drain = begin(&region, slot, new);
        wait_for("a server that is filled", || is_warming(&region, new));
        drain
    });
    assert_eq!(misses(&mut client), [""; 0]);
    // Of slot 0 the one that is filled is lost, of slot 1 the one that it is filled from.
    let (filled, former) = (region.nodes.remove(2), region.nodes.remove(1));
    drop((filled.server, former.server));
    wait_for("slot 0 back", || (region.slots()[0] == names[0]).then_some(()));
    wait_for("slot 1 without the other", || (region.state(&names[3]) == "serves").then_some(()));
    for drain in &mut drains {
        wait_for("the end of a drain", || drain.ended());
    }
    assert!(drains[0].errors().contains(&format!("now has {}", names[0])), "{}", drains[0].errors());
    for told in ["the drain of its slot was cancelled", "has the slot again"] {
        let gone = [&filled.member, &former.member];
        let is_told = || region.said(told) || gone.iter().any(|member| member.errors().contains(told));
        wait_for(told, || is_told().then_some(()));
    }
    assert_eq!(region.slots(), [names[0].clone(), names[3].clone()]);
    let after: Vec<String> =
        before.iter().map(|at| if *at == names[0] { names[0].clone() } else { names[3].clone() }).collect();
    wait_for("the router's knowledge", || (routes(&mut client) == after).then_some(()));
    assert_eq!(misses(&mut client), [""; 0], "each has all keys of its slot");
    sleep(Duration::from_secs(HOLD_DOWN_S));
    assert_eq!(region.slots(), [names[0].clone(), names[3].clone()]);
}

#[test]
fn a_server_that_leaves_is_not_emptied_when_the_one_that_is_filled_is_gone() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    // It is over before the leader gives the slot back.
    let arguments = ["fleet", "--etcd", &region.etcd.url(), "drain", POOL, "0", "--settle=1s", "--within=1s"];
    let mut drain = Command::new(guira_binary());
    drain.args(arguments);
    let mut drain = spawn(drain);
    wait_for("a server that is filled", || is_warming(&region, &names[1]));
    let filled = region.nodes.remove(1);
    drop(filled.server);
    let status = wait_for("the end of the drain", || drain.ended());
    let said = drain.errors();
    assert!(!status.success() && said.contains("does not reply"), "{said}");
    wait_for("the slot back", || (region.slots()[0] == names[0]).then_some(()));
    wait_for("the router's knowledge", || routes(&mut client).iter().all(|at| *at == names[0]).then_some(()));
    assert_eq!(misses(&mut client), [""; 0]);
}

#[test]
fn a_drain_waits_for_an_etcd_that_does_not_answer() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let new = region.nodes[1].name();
    let url = region.etcd.url();
    let mut drain = spawn(guira(["fleet", "--etcd", &url, "drain", POOL, "0", "--settle=1s", "--within=6s"]));
    wait_for("a server that is filled", || is_warming(&region, &new));
    region.etcd.signal(Signal::STOP);
    // Longer than a call takes, and than it would be filled.
    sleep(Duration::from_secs(4));
    assert!(drain.ended().is_none(), "{}", drain.errors());
    region.etcd.signal(Signal::CONT);
    let status = wait_for("the end of the drain", || drain.ended());
    assert!(status.success(), "{}", drain.errors());
    assert_eq!(region.slots(), [new]);
}

#[test]
fn a_drain_that_would_lose_something_is_refused() {
    let Some(mut region) = Region::start(2) else { return };
    let refused = |region: &Region, arguments: &[&str], what: &str| {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(said.contains(what), "{arguments:?}: {said}");
    };
    refused(&region, &["drain", POOL, "0"], "slot 0 of pool cache has no server");
    region.join(2);
    refused(&region, &["drain", POOL, "7"], "has the slots 0 to 1");
    refused(&region, &["drain", POOL, "0"], "has no spare");
    refused(&region, &["drain", POOL, "0", "--until", "2"], "between 0 and 1");
    region.join(1);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    refused(&region, &["drain", POOL, "0", "--with", &names[1]], "is not a spare");
    refused(&region, &["drain", POOL, "0", "--hash", "Ch4"], "unknown hash Ch4");
    refused(&region, &["rules", POOL, "--minimum", "3"], "the minimum of 3 servers exceeds the 2 slots");
    assert!(region.fleet(&["rules", POOL, "--minimum", "2"]).contains("at least 2 servers"));
    let said = region.fleet(&["drain", POOL, "0", "--dry-run"]);
    assert!(
        said.contains(&format!("{} -> {}", names[0], names[2]))
            && said.contains("% of the keys move (hash Ch3)"),
        "{said}"
    );
    assert_eq!(region.slots(), names[..2], "nothing was done");
    // A server that is gone does not count as one that is left.
    region.nodes[1].server.freeze();
    region.wait_for_state(&names[1], "down");
    refused(
        &region,
        &["drain", POOL, "0"],
        "only 1 servers would remain registered and reply: the minimum is 2",
    );
    assert!(
        region
            .fleet(&["rules", POOL, "--minimum", "0", "--hold-down", "9s", "--at-once", "2"])
            .contains("replaced after 9 s, 2 at once")
    );
}
