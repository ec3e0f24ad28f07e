//! `guira fleet`, and options of etcd.

use crate::Region;
use guira_tests::Client;
use guira_tests::server::run_guira;

#[test]
fn wrong_arguments_are_told_in_words() {
    let said = |arguments: &[&str]| {
        let output = run_guira(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = said(&["fleet", "--etcd", "etcd:2379", "status"]);
    assert!(code == Some(2) && text.contains("'etcd:2379' is not a URL of etcd"), "{text}");
    let (code, text) = said(&["fleet", "--etcd", "http://127.0.0.1:1", "status"]);
    assert!(code == Some(1) && text.contains("no endpoint of etcd answers"), "{text}");
    let (code, text) = said(&["router", "-p", "0", "--config-str", r#"{"route": "PoolRoute|etcd:a"}"#]);
    assert!(code != Some(0) && text.contains("give --etcd"), "{text}");
    let etcd = ["--etcd", "http://127.0.0.1:1"];
    let join = [&["fleet"], &etcd[..], &["join", "--pool", "a/b", "--server", "127.0.0.1:1"]].concat();
    let (code, text) = said(&join);
    assert!(code == Some(1) && text.contains("is not a pool name"), "{text}");
    let missing = ["fleet", "--etcd", "https://127.0.0.1:1", "--etcd-ca-cert", "missing.pem", "status"];
    let (code, text) = said(&missing);
    assert!(code == Some(1) && text.contains("missing.pem"), "{text}");
}

#[test]
fn a_pool_is_made_once_and_a_slot_is_given_only_to_a_spare() {
    let Some(mut region) = Region::start(2) else { return };
    let refused = |region: &Region, arguments: &[&str], what: &str| {
        let said = region.try_fleet(arguments).expect_err("it is refused");
        assert!(said.contains(what), "{arguments:?}: {said}");
    };
    refused(&region, &["create", "cache", "--slots", "2"], "pool cache already exists");
    refused(&region, &["create", "a/b", "--slots", "2"], "is not a pool name");
    refused(&region, &["status", "other"], "etcd has no pool other");
    region.etcd.control(&["put", "/guira/pools/broken", "nonsense"]);
    let output = run_guira(&["fleet", "--etcd", &region.etcd.url(), "status"]);
    let [told, failed] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(told.contains("pool cache: 2 slots") && failed.contains("broken"), "{told}{failed}");
    region.etcd.control(&["del", "/guira/pools/broken"]);
    refused(&region, &["replace", "cache", "0"], "has no spare");
    refused(&region, &["replace", "cache", "2"], "has the slots 0 to 1");
    region.join(3);
    let names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    refused(&region, &["replace", "cache", "0", "--with", &names[1]], "is not a spare");
    let said = region.fleet(&["replace", "cache", "0", "--from", &names[0], "--dry-run"]);
    assert!(said.contains(&format!("{} -> {}", names[0], names[2])), "{said}");
    let other = format!("slot 0 is served by {}, not by {}", names[0], names[1]);
    refused(&region, &["replace", "cache", "0", "--from", &names[1]], &other);
    assert_eq!(region.slots(), names[..2], "nothing was done");
    let mut client = Client::connect(region.nodes[0].server.address());
    client.set("old", "value");
    region.fleet(&["replace", "cache", "0"]);
    assert_eq!(region.slots(), [names[2].clone(), names[1].clone()]);
    // Who served is emptied, and is a spare then.
    region.wait_for_state(&names[0], "spare");
    assert!(client.value("old").is_none());
    // As a router does that has not heard yet that this one has lost its slot.
    client.set("late", "old");
    region.fleet(&["replace", "cache", "0", "--with", &names[0]]);
    assert!(client.value("late").is_none(), "it is emptied before it has the slot");
    assert_eq!(region.slots(), names[..2]);
}

#[test]
fn a_spare_that_has_died_is_passed_over() {
    let Some(mut region) = Region::start(1) else { return };
    region.join(3);
    let mut names: Vec<String> = region.nodes.iter().map(|node| node.name()).collect();
    let taken = region.fleet(&["replace", "cache", "0", "--dry-run"]);
    // It is registered until its member has found out.
    let dead = (1..3).find(|number| taken.contains(&names[*number])).expect("a spare is taken");
    let node = region.nodes.remove(dead);
    drop(node.server);
    let dead = names.remove(dead);
    let said = region.try_fleet(&["replace", "cache", "0", "--with", &dead]).expect_err("it is dead");
    assert!(said.contains("cannot connect") || said.contains("is not a spare"), "{said}");
    for command in ["drain", "replace"] {
        let said = region.fleet(&[command, "cache", "0", "--dry-run"]);
        assert!(said.contains(&format!("{} -> {}", names[0], names[1])), "{command}: {said}");
    }
    region.fleet(&["replace", "cache", "0"]);
    assert_eq!(region.slots(), names[1..]);
}
