//! A region that a server left which counts other things: the items stay, and counters go on by their names.

use guira_contract::suite::Image;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for_log;
use guira_tests::{Client, Server, Setup};
use std::path::Path;

const ITEMS: usize = 500;

/// Counters that the other server does not have, and those that it has under names that this one does not know.
const MISSING: [&str; 4] = ["evictions", "read_retries", "get_misses", "bytes_written"];
const OTHERS: [(&str, &str); 3] = [
    ("cmd_set", "cmd_forgotten"),
    ("reclaimed", "forgotten"),
    ("auth_cmds", "a_name_longer_than_sixteen_bytes"),
];

/// Counters of the engine, commands, workers and the acceptor that both have.
const SAME: [&str; 4] = ["total_items", "get_hits", "bytes_read", "total_connections"];

fn start(engine: &'static str, region: &Path) -> Server {
    let region = format!("--region={}", region.display());
    Setup::new().engine(engine).guira_argument(&region).guira_argument("--reserve=64MiB").start_guira()
}

fn number(client: &mut Client, name: &str) -> u64 {
    client.stats("")[name].parse().expect("a number")
}

fn check_upgrade(engine: &'static str) {
    let scratch = Scratch::new();
    let region = scratch.path().join("region");
    let server = start(engine, &region);
    let mut client = server.connect();
    for item in 0..ITEMS {
        client.set(&format!("key{item}"), format!("value{item}"));
    }
    client.expect_value("key0", "value0");
    client.exchange("get nothing\r\n", "END\r\n");
    let before = SAME.map(|name| number(&mut client, name));
    client.abandon();
    server.stop("TERM");
    let change = |name: &str| {
        let other = OTHERS.iter().find(|(known, _)| *known == name);
        let is_there = !MISSING.contains(&name);
        is_there.then(|| other.map_or(name, |(_, other)| other).to_owned())
    };
    Image::of(&region).with_counters(change).write::<[u8; 0]>([]);
    let server = start(engine, &region);
    let mut client = server.connect();
    let restored = format!("restored with {ITEMS} items");
    wait_for_log(|| server.log(), &restored);
    for (name, before) in SAME.into_iter().zip(before) {
        // Requests for the figures themselves are counted as well.
        let (after, more) = (number(&mut client, name), if name == "bytes_read" { 1000 } else { 1 });
        assert!((before..=before + more).contains(&after), "{engine}, {name}: {before}, then {after}");
    }
    for name in ["cmd_set", "get_misses", "evictions"] {
        assert_eq!(number(&mut client, name), 0, "{engine}, {name}");
    }
    for item in 0..ITEMS {
        client.expect_value(&format!("key{item}"), format!("value{item}"));
    }
}

#[test]
fn memc3_goes_on_with_the_region_of_a_server_that_counts_other_things() {
    check_upgrade("memc3");
}

#[test]
fn fleec_goes_on_with_the_region_of_a_server_that_counts_other_things() {
    check_upgrade("fleec");
}

#[test]
fn mica_goes_on_with_the_region_of_a_server_that_counts_other_things() {
    check_upgrade("mica");
}
