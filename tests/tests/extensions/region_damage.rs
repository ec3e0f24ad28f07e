//! A region of which bits have changed while no server used it: no value is wrong, and the server says what it has dropped.

use std::path::Path;

use guira_contract::suite::Image;
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for_log;
use guira_tests::{Client, Server, Setup};

const KEYS: usize = 30_000;
/// What the server keeps for itself at the start of the file.
const HEAD: usize = 64 << 10;

fn start(region: &Path) -> Server {
    // With a reserve as small as memory the file is not many times as long as what it holds.
    let setup = Setup::new().guira_argument(&format!("--region={}", region.display()));
    setup.guira_argument("--reserve=64MiB").start_guira()
}

fn value(number: usize) -> Vec<u8> {
    let mut value = format!("value of {number} ").repeat(20).into_bytes();
    value.truncate(60 + number % 150);
    value
}

/// Starts a server, stores values, and stops it in order. Tells how many items it has then: an index that may lose
/// items, as that of mica, evicts some of them where many have the same bucket.
fn fill_and_stop(region: &Path) -> usize {
    let server = start(region);
    let mut client = server.connect();
    client.send_many((0..KEYS).map(|number| {
        let value = value(number);
        [format!("set key{number} 0 0 {} noreply\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
    }));
    client.set("long", vec![b'l'; 300_000]);
    client.sync();
    let items = number(&mut client, "curr_items");
    assert_eq!(items + number(&mut client, "evictions"), KEYS + 1);
    client.abandon();
    server.stop("TERM");
    items
}

/// How many of the keys are there, each with its value.
fn count(client: &mut Client) -> usize {
    let mut there = 0;
    for first in (0..KEYS).step_by(100) {
        let numbers = first..first + 100;
        client.send_many(numbers.clone().map(|number| format!("get key{number}\r\n")));
        for number in numbers {
            let line = client.line();
            if line == "END" {
                continue;
            }
            let value = value(number);
            assert_eq!(line, format!("VALUE key{number} 0 {}", value.len()));
            assert!(client.take(value.len()) == value, "key{number} has another value");
            client.hear("\r\nEND\r\n");
            there += 1;
        }
    }
    there
}

fn number(client: &mut Client, name: &str) -> usize {
    client.stats("")[name].parse().expect("a number")
}

#[test]
fn bits_that_have_changed_cost_what_they_were_part_of_and_no_value_is_wrong() {
    for seed in 1..=3 {
        let scratch = Scratch::new();
        let region = scratch.path().join("region");
        let stored = fill_and_stop(&region);
        let image = Image::of(&region);
        let bytes = image.bytes();
        let used = (HEAD..bytes.len() - 8).step_by(4096).filter(|at| bytes[*at..*at + 8] != [0; 8]);
        let used: Vec<usize> = used.collect();
        let mut random = Random::new(seed);
        let flips = (0..4 * seed).map(|_| {
            let at = random.pick(&used) + random.below(4096) as usize;
            (at, [bytes[at] ^ 1 << random.below(8)])
        });
        image.write(flips.collect::<Vec<_>>());
        let server = start(&region);
        let mut client = server.connect();
        let there = count(&mut client);
        let long = client.value("long");
        assert!(long.as_ref().is_none_or(|found| found.data == vec![b'l'; 300_000]), "seed {seed}");
        let (there, items) = (there + usize::from(long.is_some()), number(&mut client, "curr_items"));
        assert_eq!((there, number(&mut client, "region_dropped_items")), (items, stored - items));
        let blocks = number(&mut client, "region_damaged_blocks");
        assert!((1..=4 * seed as usize).contains(&blocks), "seed {seed}: {blocks} blocks");
        let message = format!("{blocks} blocks of 256 KiB are corrupt");
        let dropped = format!("restored with {items} items; {} were dropped because", stored - items);
        wait_for_log(|| server.log(), &message);
        let log = server.log();
        assert!(log.contains(&dropped) || (items == 0 && log.contains("emptied region")), "{seed}: {log}");
        client.set("more", "value");
        client.expect_value("more", "value");
        client.abandon();
        server.stop("TERM");
        // What was dropped is not reported again.
        let server = start(&region);
        let mut client = server.connect();
        assert_eq!(number(&mut client, "curr_items"), items + 1);
        assert_eq!(number(&mut client, "region_damaged_blocks"), 0);
        client.expect_value("more", "value");
    }
}

#[test]
fn a_region_of_a_version_that_wrote_no_checksums_is_kept() {
    let scratch = Scratch::new();
    let region = scratch.path().join("region");
    let stored = fill_and_stop(&region);
    Image::of(&region).without_sums().write::<[u8; 0]>([]);
    for _ in 0..2 {
        let server = start(&region);
        let mut client = server.connect();
        let there = count(&mut client);
        let long = client.value("long");
        assert!(long.as_ref().is_none_or(|found| found.data == vec![b'l'; 300_000]));
        assert_eq!(there + usize::from(long.is_some()), stored);
        assert_eq!(number(&mut client, "region_damaged_blocks"), 0);
        client.abandon();
        server.stop("TERM");
    }
}
