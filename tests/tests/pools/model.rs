//! Random calls before real servers, and before a map that says what they have to answer.

use crate::futures::block_on;
use crate::{builder, servers};
use guira_client::pools::{AsyncClient, Cas, Client, ErrorKind, Store};
use guira_tests::random::Random;
use guira_tests::{Setup, deadline};
use std::collections::HashMap;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
const KEYS: u64 = 40;
const CALLS: usize = 4000;

type Items = HashMap<String, (Vec<u8>, u32)>;

fn seed() -> u64 {
    std::env::var("GUIRA_CLIENT_SEED").map_or(SEED, |text| text.parse().expect("a number"))
}

fn key(random: &mut Random) -> String {
    let number = random.below(KEYS);
    // Some are as long as a key may be.
    if number % 10 == 9 { format!("{number:0250}") } else { format!("key{number}") }
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = [0, 1, 10, 200, 5000][random.below(5) as usize];
    // None is a number, nor what servers take for one: digits with blanks or line ends behind them.
    (0..length).map(|at| if at == 0 { b'v' } else { b"\r\nVA EN HD 0"[random.below(12) as usize] }).collect()
}

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value)
        .ok()?
        .trim_end_matches(' ')
        .parse()
        .ok()
        .filter(|_| value.first() != Some(&b'+'))
}

/// One call, by a client as it is and by the map.
fn call(client: &Client, items: &mut Items, random: &mut Random, what: &str) {
    let name = key(random);
    let (bytes, flags) = (value(random), random.below(3) as u32);
    let store = Store::new(name.as_bytes(), &bytes).flags(flags);
    let known = items.get(&name).cloned();
    match random.below(13) {
        0 => {
            assert_eq!(client.set(&store), Ok(true), "{what}");
            items.insert(name, (bytes, flags));
        }
        1 => {
            assert_eq!(client.add(&store), Ok(known.is_none()), "{what}");
            items.entry(name).or_insert((bytes, flags));
        }
        2 => {
            assert_eq!(client.replace(&store), Ok(known.is_some()), "{what}");
            items.entry(name).and_modify(|item| *item = (bytes, flags));
        }
        3 => {
            assert_eq!(client.append(name.as_bytes(), &bytes), Ok(known.is_some()), "{what}");
            items.entry(name).and_modify(|item| item.0.extend_from_slice(&bytes));
        }
        4 => {
            assert_eq!(client.prepend(name.as_bytes(), &bytes), Ok(known.is_some()), "{what}");
            items.entry(name).and_modify(|item| item.0 = [bytes, std::mem::take(&mut item.0)].concat());
        }
        5 => {
            assert_eq!(client.delete(name.as_bytes()), Ok(known.is_some()), "{what}");
            items.remove(&name);
        }
        6 => compare_and_set(client, items, (name, bytes, flags), random, what),
        7 => {
            let text = random.below(1000).to_string().into_bytes();
            assert_eq!(client.set(&Store::new(name.as_bytes(), &text)), Ok(true), "{what}");
            assert_eq!(client.incr(name.as_bytes(), 5), Ok(number(&text).map(|number| number + 5)), "{what}");
            assert_eq!(client.decr(name.as_bytes(), 5), Ok(number(&text)), "{what}");
            assert_eq!(client.delete(name.as_bytes()), Ok(true), "{what}");
            items.remove(&name);
        }
        8 => match client.incr(name.as_bytes(), 1) {
            Ok(None) => assert_eq!(known, None, "{what}"),
            Err(error) if matches!(error.kind(), ErrorKind::Refused(_)) => {
                assert_eq!(known.map(|item| number(&item.0)), Some(None), "{what}")
            }
            other => {
                let before = known.and_then(|item| number(&item.0));
                assert_eq!(other, Ok(before.map(|before| before + 1)), "{what}");
                items.remove(&name);
                assert_eq!(client.delete(name.as_bytes()), Ok(true), "{what}");
            }
        },
        9 => {
            assert_eq!(client.touch(name.as_bytes(), 1000), Ok(known.is_some()), "{what}");
        }
        10 => {
            let found = client.gat(name.as_bytes(), 1000).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(found.map(|item| (item.value, item.flags)), known, "{what}");
        }
        11 => delete_some(client, items, random, what),
        _ => look(client, items, random, what),
    }
}

/// Stores over what is there, by its unique or by one that it never had.
fn compare_and_set(
    client: &Client,
    items: &mut Items,
    (name, bytes, flags): (String, Vec<u8>, u32),
    random: &mut Random,
    what: &str,
) {
    let known = items.get(&name).cloned();
    let found = client.gets(name.as_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(found.as_ref().map(|item| (item.value.clone(), item.flags)), known, "{what}");
    let unique = found.and_then(|item| item.unique).unwrap_or(7);
    let is_old = random.once_in(3);
    let expected = match (&known, is_old) {
        (None, _) => Cas::Missing,
        (Some(_), true) => Cas::Changed,
        (Some(_), false) => Cas::Stored,
    };
    let unique = if is_old { unique + 1_000_000 } else { unique };
    let store = Store::new(name.as_bytes(), &bytes).flags(flags);
    assert_eq!(client.cas(&store, unique), Ok(expected), "{what}");
    if expected == Cas::Stored {
        items.insert(name, (bytes, flags));
    }
}

/// Several keys at once, some of which are there.
fn delete_some(client: &Client, items: &mut Items, random: &mut Random, what: &str) {
    let names: Vec<String> = (0..random.below(8)).map(|_| key(random)).collect();
    let gone: Vec<bool> = names.iter().map(|name| items.remove(name).is_some()).collect();
    let deleted: Vec<bool> = client.delete_many(&names).into_iter().map(|one| one == Ok(true)).collect();
    assert_eq!(deleted.iter().filter(|one| **one).count(), gone.iter().filter(|one| **one).count(), "{what}");
}

/// All keys at once, some of them twice.
fn look(client: &Client, items: &Items, random: &mut Random, what: &str) {
    let names: Vec<String> = (0..random.below(100)).map(|_| key(random)).collect();
    let found = client.get_many(&names);
    assert_eq!(found.len(), names.len(), "{what}");
    for (name, found) in names.iter().zip(found) {
        let found = found.unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
        assert_eq!(found.map(|item| (item.value, item.flags)), items.get(name).cloned(), "{what}: {name}");
    }
}

#[test]
fn servers_answer_as_a_map_does() {
    let servers = servers(&Setup::new());
    let client = Client::new(&builder(&servers)).unwrap();
    let (mut random, mut items) = (Random::new(seed()), Items::new());
    for number in 0..CALLS {
        call(&client, &mut items, &mut random, &format!("seed {}, call {number}", seed()));
        if number % 1000 == 999 {
            assert_eq!(client.flush_all(), Ok(()));
            items.clear();
            // Items of the same second as the flush are gone too.
            let second = deadline::unix_seconds();
            guira_tests::server::wait_for("the next second", || {
                (deadline::unix_seconds() > second + 1).then_some(())
            });
        }
    }
    let counters = client.counters();
    assert!(
        counters.hits > 0 && counters.failed_keys == 0 && counters.opened == servers.len() as u64,
        "{counters:?}"
    );
    let versions = client.versions();
    assert!(
        versions.len() == servers.len() && versions.iter().all(|(_, version)| version.is_ok()),
        "{versions:?}"
    );
    let stats = client.stats("");
    let has_gets = |stats: &[(String, String)]| stats.iter().any(|(name, _)| name == "cmd_get");
    assert!(stats.iter().all(|(_, stats)| stats.as_ref().is_ok_and(|stats| has_gets(stats))), "{stats:?}");
}

#[test]
fn futures_answer_as_the_blocking_client_does() {
    let servers = servers(&Setup::new());
    let (client, futures) =
        (Client::new(&builder(&servers)).unwrap(), AsyncClient::new(&builder(&servers)).unwrap());
    let (mut random, mut items) = (Random::new(seed()), Items::new());
    for number in 0..CALLS / 4 {
        let what = format!("seed {}, call {number}", seed());
        call(&client, &mut items, &mut random, &what);
        let name = key(&mut random);
        let found = block_on(futures.gets(name.as_bytes())).unwrap();
        assert_eq!(found, client.gets(name.as_bytes()).unwrap(), "{what}");
        assert_eq!(found.map(|item| (item.value, item.flags)), items.get(&name).cloned(), "{what}");
    }
    assert_eq!(futures.counters().opened, servers.len() as u64);
}
