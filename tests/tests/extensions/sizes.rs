//! How memory is divided among sizes of items. memcached has no such thing, nor have engines without classes of sizes.

use guira_tests::random::Random;
use guira_tests::{Client, Server, Setup};

/// Weights of the ages of the classes that have items, the smallest class first.
fn weights(client: &mut Client) -> Vec<u64> {
    let stats = client.stats("slabs");
    let number = |name: &str| stats.get(name).and_then(|value| value.parse::<u64>().ok());
    let of = |class: u32| {
        let used = number(&format!("{class}:used_chunks")).filter(|used| *used > 0);
        used.and_then(|_| number(&format!("{class}:age_weight_ppm")))
    };
    (1..256).filter_map(of).collect()
}

/// Reads keys by Zipf's law, half of them of short items and half of long ones, and stores those that are missing.
fn read_both_sizes(client: &mut Client, random: &mut Random) {
    const KEYS: f64 = 200_000.0;
    const AT_ONCE: usize = 100;
    let values = ["v".repeat(100), "v".repeat(3000)];
    for _ in 0..100 {
        let mut draw = || KEYS.powf(random.below(1 << 30) as f64 / f64::from(1 << 30)) as usize;
        let keys: Vec<usize> = (0..AT_ONCE).map(|_| draw()).collect();
        client.send(keys.iter().map(|key| format!("mg size{key}\r\n")).collect::<String>());
        let missing: Vec<usize> = keys.into_iter().filter(|_| client.line() == "EN").collect();
        let set = |key: usize| {
            let value = &values[key % 2];
            format!("ms size{key} {} q\r\n{value}\r\n", value.len())
        };
        client.exchange(missing.into_iter().map(set).collect::<String>() + "mn\r\n", "MN\r\n");
    }
}

fn start(arguments: &[&str]) -> Server {
    let setup = Setup::new().not_with("fleec").not_with("mica").guira_argument("--memory=12MiB");
    arguments.iter().fold(setup, |setup, argument| setup.guira_argument(argument)).start_guira()
}

#[test]
fn short_items_stay_longer_where_keys_of_both_sizes_are_read_alike() {
    // However slow the machine is, it has concluded so after so many rounds.
    const ROUNDS_MOST: usize = 300;
    let server = start(&["--policy=clock"]);
    let mut client = server.connect();
    let mut random = Random::new(1);
    let learnt = (0..ROUNDS_MOST).any(|_| {
        read_both_sizes(&mut client, &mut random);
        let weights = weights(&mut client);
        weights.len() > 1 && weights[0] * 2 < weights[weights.len() - 1]
    });
    assert!(learnt, "{:?}", client.stats("slabs"));
}

#[test]
fn all_sizes_stay_alike_where_nothing_is_learnt() {
    let server = start(&["--policy=clock", "--disable-advice"]);
    let mut client = server.connect();
    let mut random = Random::new(1);
    for _ in 0..5 {
        read_both_sizes(&mut client, &mut random);
    }
    let weights = weights(&mut client);
    assert!(weights.len() > 1 && weights.iter().all(|weight| *weight == 1_000_000), "{weights:?}");
}
