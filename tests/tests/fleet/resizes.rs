//! A pool becomes larger and smaller, and the keys stay.

use crate::Region;
use crate::drains::SETTLE;
use crate::model::Model;
use crate::region::{POOL, fill, kept, misses, put, routes};
use guira_harness::server::ServerProcess;
use guira_tests::Client;
use guira_tests::server::{guira, spawn, wait_for};

/// Has a pool be resized until that is ended, once its new slots are filled.
#[track_caller]
fn begin(region: &Region, slots: &str, within: &str) -> ServerProcess {
    let resize =
        spawn(guira(["fleet", "--etcd", &region.etcd.url(), "resize", POOL, slots, "--settle=1s", within]));
    wait_for("slots that are filled", || is_warming(region).then_some(()));
    resize
}

fn is_warming(region: &Region) -> bool {
    kept(region).contains("\"stage\":\"warming\"")
}

/// Has a pool be resized; meanwhile no key is missed by this client.
fn resize(region: &Region, client: &mut Client, arguments: &[&str]) -> String {
    std::thread::scope(|scope| {
        let resize = scope.spawn(|| region.fleet(&[arguments, &[SETTLE, "--within=1s"]].concat()));
        while !resize.is_finished() {
            assert_eq!(misses(client), [""; 0], "{arguments:?}");
        }
        resize.join().expect("it is resized")
    })
}

#[test]
fn keys_that_move_are_kept_and_nothing_outdated_is_read_while_a_pool_grows_and_shrinks() {
    let Some(mut region) = Region::start(2) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let routers = [region.router(&[]), region.router(&[])];
    let mut client = routers[0].connect();
    fill(&mut client);
    let two = routes(&mut client);
    let model = Model::start(&[&routers[0].address, &routers[1].address]);
    let said = resize(&region, &mut client, &["add", POOL]);
    assert!(said.contains("2 -> 3 slots") && said.contains(&format!("slot 2: {}", names[2])), "{said}");
    assert_eq!(region.slots(), names);
    // A key that was left where it was, and is not true any more, does not come back when the slot has it again.
    let three = routes(&mut routers[0].connect());
    let moved: Vec<usize> = (0..two.len()).filter(|key| two[*key] != three[*key]).collect();
    assert!((30..110).contains(&moved.len()), "{} of {} keys have moved", moved.len(), two.len());
    let key = format!("key{}", moved[0]);
    let node = region.nodes.iter().find(|node| node.name() == two[moved[0]]).expect("a server");
    let mut former = Client::connect(node.server.address());
    assert!(former.value(&key).is_none(), "what has moved was taken away");
    former.set(&key, "outdated");
    let said = resize(&region, &mut routers[1].connect(), &["resize", POOL, "2"]);
    assert!(
        said.contains("3 -> 2 slots") && said.contains(&format!("slot 2: {} is removed", names[2])),
        "{said}"
    );
    assert_eq!(region.slots(), names[..2]);
    for router in &routers {
        let mut client = router.connect();
        assert_eq!((routes(&mut client), misses(&mut client)), (two.clone(), vec![]));
        client.expect_value(&key, &key);
    }
    region.wait_for_state(&names[2], "spare");
    model.end();
}

#[test]
fn a_second_resize_to_the_same_size_goes_on_with_the_one_that_is_under_way_and_no_other_change_begins() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let mut first = begin(&region, "2", "--within=5m");
    for arguments in [["resize", POOL, "3"].as_slice(), &["resize", POOL, "1"], &["drain", POOL, "0"]] {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(
            said.contains("is being resized from 1 to 2 slots: finish the resize first"),
            "{arguments:?}: {said}"
        );
    }
    assert!(
        region
            .fleet(&["resize", POOL, "2", "--dry-run"])
            .contains("would resume the resize from 1 to 2 slots")
    );
    // One more than there were, which is what goes on.
    let second = region.fleet(&["add", POOL, "--settle=1s", "--within=1s"]);
    let end = format!("pool {POOL} has 2 slots");
    assert!(second.contains(&end), "{second}");
    let status = wait_for("the end of the first", || first.ended());
    assert!(status.success() && first.lines().contains(&end), "{:?} {}", first.lines(), first.errors());
    // Which of the two spares it has is not said.
    let slots = region.slots();
    assert!(
        slots.len() == 2 && slots[0] == names[0] && names[1..].contains(&slots[1]),
        "{slots:?} of {names:?}"
    );
}

#[test]
fn a_resize_that_others_have_turned_round_takes_nothing_away() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let router = region.router(&[]);
    fill(&mut router.connect());
    let mut resize = begin(&region, "2", "--within=5m");
    let slots = format!(r#"[{{"server": "{}"}}, {{"server": "{}"}}]"#, names[0], names[1]);
    let back = r#"{"from": 2, "to": 1, "stage": "announced", "since_s": 1}"#;
    put(&region, &format!(r#"{{"slots": {slots}, "resize": {back}}}"#));
    let status = wait_for("the end of the resize", || resize.ended());
    let said = resize.errors();
    assert!(!status.success() && said.contains("another command resized pool cache"), "{said}");
    assert_eq!(misses(&mut Client::connect(region.nodes[0].server.address())), [""; 0]);
}

#[test]
fn a_resize_waits_for_new_servers_that_are_gone_and_former_places_keep_their_keys() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(2);
    let router = region.router(&[]);
    fill(&mut router.connect());
    let mut resize = begin(&region, "2", "--within=5s");
    region.nodes[1].server.freeze();
    let status = wait_for("the end of the resize", || resize.ended());
    let said = resize.errors();
    let new = region.nodes[1].name();
    assert!(
        !status.success() && said.contains(&format!("pool cache is unchanged because {new} does not reply")),
        "{said}"
    );
    assert!(is_warming(&region), "{}", kept(&region));
    assert_eq!(misses(&mut Client::connect(region.nodes[0].server.address())), [""; 0]);
    // It goes on when the server is back.
    region.nodes[1].server.signal("CONT");
    region.fleet(&["resize", POOL, "2", "--settle=1s", "--within=1s"]);
    assert_eq!(region.slots(), [region.nodes[0].name(), new]);
}

#[test]
fn a_resize_that_cannot_be_is_refused_and_a_dry_run_says_what_would_move() {
    let Some(mut region) = Region::start(2) else { return };
    let refused = |region: &Region, arguments: &[&str], what: &str| {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(said.contains(what), "{arguments:?}: {said}");
    };
    region.join(3);
    refused(&region, &["resize", POOL, "2"], "already has 2 slots");
    refused(&region, &["resize", POOL, "4"], "needs 2 spares and has 1");
    refused(&region, &["add", POOL, "--slots", "0"], "0 is not in 1..=10000");
    region.fleet(&["rules", POOL, "--minimum", "2"]);
    refused(&region, &["resize", POOL, "1"], "only 1 servers would remain");
    region.fleet(&["rules", POOL, "--minimum", "0"]);
    let said = region.fleet(&["resize", POOL, "3", "--dry-run", "--hash", "KetamaLibmemcached"]);
    let share = said.split("slots: ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::parse::<f64>);
    assert!(matches!(share, Some(Ok(share)) if share > 20.0 && share < 45.0), "{said}");
    assert_eq!(region.slots().len(), 2, "nothing was done");
    // Keys are where Ch3 has them: who says another hash would have keys deleted that are true.
    fill(&mut region.router(&[]).connect());
    for slots in ["1", "3"] {
        refused(&region, &["resize", POOL, slots, "--hash", "Crc32", "--dry-run"], "with --hash and --salt");
    }
    let before = region.slots();
    let said = region.fleet(&["weight", POOL, "0", "0.5", "--hash", "WeightedCh3"]);
    assert!(said.contains("% of the keys move (hash WeightedCh3)"), "{said}");
    assert!(region.fleet(&["status", POOL]).contains("0.5"));
    refused(&region, &["weight", POOL, "9", "0.5"], "has the slots 0 to 1");
    refused(&region, &["weight", POOL, "0", "2"], "use a number from 0 to 1");
    refused(&region, &["weight", POOL, "0", "none"], "use `all none`");
    region.fleet(&["weight", POOL, "all", "none"]);
    assert_eq!(region.slots(), before);
}
