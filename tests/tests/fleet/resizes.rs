//! A pool becomes larger and smaller, and the keys stay.

use crate::Region;
use crate::drains::SETTLE;
use crate::model::Model;
use crate::region::{POOL, fill, misses, routes};
use guira_tests::Client;

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
        said.contains("3 -> 2 slots") && said.contains(&format!("slot 2: {} is let go", names[2])),
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
fn a_resize_that_cannot_be_is_refused_and_a_dry_run_says_what_would_move() {
    let Some(mut region) = Region::start(2) else { return };
    let refused = |region: &Region, arguments: &[&str], what: &str| {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(said.contains(what), "{arguments:?}: {said}");
    };
    region.join(3);
    refused(&region, &["resize", POOL, "2"], "has 2 slots already");
    refused(&region, &["resize", POOL, "4"], "has 1 spares of 2 that are needed: 1 are missing");
    refused(&region, &["add", POOL, "--slots", "0"], "0 is not in 1..=10000");
    region.fleet(&["rules", POOL, "--minimum", "2"]);
    refused(&region, &["resize", POOL, "1"], "1 servers would be left");
    region.fleet(&["rules", POOL, "--minimum", "0"]);
    let said = region.fleet(&["resize", POOL, "3", "--dry-run", "--hash", "KetamaLibmemcached"]);
    let share = said.split("slots: ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::parse::<f64>);
    assert!(matches!(share, Some(Ok(share)) if share > 20.0 && share < 45.0), "{said}");
    assert_eq!(region.slots().len(), 2, "nothing was done");
    // Keys are where Ch3 has them: who says another hash would have keys deleted that are true.
    fill(&mut region.router(&[]).connect());
    refused(&region, &["resize", POOL, "1", "--hash", "Crc32", "--dry-run"], "say by --hash and --salt");
    let before = region.slots();
    let said = region.fleet(&["weight", POOL, "0", "0.5", "--hash", "WeightedCh3"]);
    assert!(said.contains("% of the keys by WeightedCh3 move"), "{said}");
    assert!(region.fleet(&["status", POOL]).contains("0.5"));
    refused(&region, &["weight", POOL, "9", "0.5"], "has the slots 0 to 1");
    refused(&region, &["weight", POOL, "0", "2"], "give a number from 0 to 1");
    refused(&region, &["weight", POOL, "0", "none"], "say all none");
    region.fleet(&["weight", POOL, "all", "none"]);
    assert_eq!(region.slots(), before);
}
