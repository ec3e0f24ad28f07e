//! Who takes which slot, and who loses one.

use crate::Region;
use crate::region::{HOLD_DOWN_S, LEASE_S, POOL, fill, kept, misses, put, routes};
use guira_harness::server::Signal;
use guira_tests::server::wait_for;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn a_spare_takes_the_slot_of_a_lost_server_and_no_other_key_moves() {
    let Some(mut region) = Region::start(3) else { return };
    region.join(4);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    assert_eq!(region.slots(), names[..3], "slots are taken in the order in which members came");
    assert_eq!(region.state(&names[3]), "spare");
    let router = region.router(&[]);
    let mut client = router.connect();
    fill(&mut client);
    let before = routes(&mut client);
    let lost = region.nodes.remove(1);
    drop(lost.server);
    wait_for("the spare in its slot", || (region.slots()[1] == names[3]).then_some(()));
    wait_for("the router's knowledge", || routes(&mut client).iter().all(|at| *at != names[1]).then_some(()));
    let after = routes(&mut client);
    for (before, after) in before.iter().zip(&after) {
        let expected = if *before == names[1] { &names[3] } else { before };
        assert_eq!(after, expected);
    }
    let moved = before.iter().filter(|at| **at == names[1]).count();
    assert_eq!(misses(&mut client).len(), moved, "the keys of one slot are to be filled again");
    fill(&mut client);
    assert_eq!(misses(&mut client), [""; 0]);
}

#[test]
fn a_server_that_answers_keeps_its_slot_without_its_member() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    region.nodes[1].member.kill();
    region.wait_for_state(&names[1], "down");
    wait_for("a leader that asks", || region.said("is not registered but replies").then_some(()));
    assert_eq!(region.slots(), names[..2]);
    // It registers again, and is what it was: nothing was flushed.
    let mut client = guira_tests::Client::connect(region.nodes[1].server.address());
    client.set("kept", "here");
    region.nodes[1].member = region.member(&region.nodes[1].server);
    region.wait_for_state(&names[1], "serves");
    client.expect_value("kept", "here");
}

#[test]
fn what_a_late_router_stores_in_a_spare_is_gone_before_the_spare_takes_a_slot() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    region.fleet(&["replace", POOL, "0"]);
    let former = region.nodes[0].name();
    region.wait_for_state(&former, "spare");
    let mut late = guira_tests::Client::connect(region.nodes[0].server.address());
    late.set("key", "old");
    wait_for("a spare without items", || late.value("key").is_none().then_some(()));
}

#[test]
fn a_server_that_was_written_into_a_pool_and_out_of_it_is_emptied() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let (first, second) = (region.nodes[0].name(), region.nodes[1].name());
    let before = kept(&region);
    put(&region, &before.replace(&first, &second));
    region.wait_for_state(&second, "serves");
    let members = format!("/guira/members/{POOL}/{second}");
    let is_known =
        || region.etcd.control(&["get", "--print-value-only", &members]).contains("false").then_some(());
    wait_for("the knowledge that it has items", is_known);
    put(&region, &before);
    region.wait_for_state(&second, "spare");
    region.wait_for_state(&first, "serves");
}

#[test]
fn nobody_is_replaced_when_several_servers_are_gone_at_once() {
    let Some(mut region) = Region::start(3) else { return };
    region.join(4);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    for node in &region.nodes[..2] {
        node.server.freeze();
    }
    for name in &names[..2] {
        region.wait_for_state(name, "down");
    }
    sleep(Duration::from_secs(HOLD_DOWN_S + LEASE_S + 1));
    assert_eq!(region.slots(), names[..3]);
    wait_for("a word about it", || region.said("are down at the same time; replacing none").then_some(()));
    // One comes back: the other one is alone now.
    region.nodes[0].server.signal("CONT");
    region.wait_for_state(&names[0], "serves");
    wait_for("the spare in the slot", || (region.slots()[1] == names[3]).then_some(()));
    // Who has lost its slot is emptied before it is a spare.
    region.nodes[1].server.signal("CONT");
    region.wait_for_state(&names[1], "spare");
    let mut client = guira_tests::Client::connect(region.nodes[1].server.address());
    assert!(client.stats("")["cmd_flush"].parse::<u64>().expect("a number") >= 1);
}

#[test]
fn leases_that_all_end_at_once_replace_nobody() {
    let Some(mut region) = Region::start(3) else { return };
    region.join(4);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    for _ in 0..2 {
        let leases = region.etcd.control(&["lease", "list"]);
        let leases =
            leases.lines().filter(|line| line.len() == 16 && line.bytes().all(|b| b.is_ascii_hexdigit()));
        leases.for_each(|lease| drop(region.etcd.control(&["lease", "revoke", lease])));
        names.iter().take(3).for_each(|name| region.wait_for_state(name, "serves"));
        region.wait_for_state(&names[3], "spare");
        assert_eq!(region.slots(), names[..3]);
    }
    // All members are out of the world for longer than leases and hold-down together.
    region.nodes.iter().for_each(|node| node.member.signal(Signal::STOP));
    sleep(Duration::from_secs(HOLD_DOWN_S + LEASE_S + 1));
    region.nodes.iter().for_each(|node| node.member.signal(Signal::CONT));
    names.iter().take(3).for_each(|name| region.wait_for_state(name, "serves"));
    assert_eq!(region.slots(), names[..3]);
}

#[test]
fn a_leader_that_ends_is_followed_by_another_member() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let leader = |region: &Region| {
        let status = region.fleet(&["status"]);
        names.iter().position(|name| status.lines().next().is_some_and(|line| line.contains(name.as_str())))
    };
    let first = wait_for("a leader", || leader(&region));
    // Its node too: there is a slot to be given away.
    let node = region.nodes.remove(first);
    node.member.signal(Signal::TERM);
    drop(node.server);
    wait_for("another leader", || leader(&region).filter(|next| *next != first));
    wait_for("the spare in the slot", || {
        let slots = region.slots();
        (!slots.contains(&names[first]) && slots.contains(&names[2])).then_some(())
    });
}
