//! Who is flushed, and who is not.

use crate::Region;
use crate::region::{POOL, name};
use guira_tests::server::{wait_for, wait_for_log};
use guira_tests::{Client, Setup};

#[test]
fn what_a_router_puts_into_a_spare_does_not_stay() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    // As a router does that has not heard yet that this one has lost its slot.
    let mut client = Client::connect(region.nodes[1].server.address());
    client.set("late", "old");
    wait_for("an empty spare", || client.value("late").is_none().then_some(()));
    // And who serves keeps what it has, over several flushes of the spare.
    let mut serving = Client::connect(region.nodes[0].server.address());
    serving.set("kept", "here");
    for _ in 0..2 {
        client.set("late", "old");
        wait_for("an empty spare", || client.value("late").is_none().then_some(()));
    }
    serving.expect_value("kept", "here");
}

#[test]
fn a_server_keeps_its_slot_whatever_the_pool_says_about_the_way_to_it() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(1);
    let name = region.nodes[0].name();
    region.nodes[0].member.kill();
    region.wait_for_state(&name, "down");
    let written = format!("{name}:ascii");
    region.etcd.control(&[
        "put",
        "/guira/pools/cache",
        &format!(r#"{{"slots": [{{"server": "{written}"}}]}}"#),
    ]);
    let mut client = Client::connect(region.nodes[0].server.address());
    client.set("kept", "here");
    region.nodes[0].member = region.member(&region.nodes[0].server);
    region.wait_for_state(&written, "serves");
    client.expect_value("kept", "here");
}

#[test]
fn a_server_of_one_pool_is_no_spare_of_another() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(1);
    region.fleet(&["create", "other", "--slots", "1"]);
    let mut client = Client::connect(region.nodes[0].server.address());
    client.set("kept", "here");
    let other = region.member_of("other", &region.nodes[0].server);
    wait_for_log(|| other.errors(), "serves pool cache");
    client.expect_value("kept", "here");
    assert!(region.fleet(&["status", "other"]).contains("empty"));
}

#[test]
fn a_leader_whose_own_pool_is_gone_goes_on_leading() {
    let Some(mut region) = Region::start(1) else { return };
    region.fleet(&["create", "other", "--slots", "1"]);
    let server = Setup::new().start_guira();
    let leader = region.member_of("other", &server);
    let line = format!("leader other/{}", name(&server));
    wait_for("the leader", || region.fleet(&["status", POOL]).contains(&line).then_some(()));
    region.etcd.control(&["del", "/guira/pools/other"]);
    wait_for_log(|| leader.errors(), "etcd has no pool other");
    region.join(1);
    assert_eq!(region.slots(), [region.nodes[0].name()]);
    assert!(region.fleet(&["status", POOL]).contains(&line));
}
