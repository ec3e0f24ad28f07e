//! Other configurations for clients that are at work.

use crate::futures::block_on;
use crate::name;
use guira_client::pools::{AsyncClient, Builder, Client, ErrorKind, KeyProblem, Store, Texts};
use guira_discovery::{Following, Source};
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::deadline::{PATIENCE, SetAtEnd};
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Server, Setup};

fn config(servers: &[&Server]) -> Texts {
    let names: Vec<String> = servers.iter().map(|server| format!("\"{}\"", name(server))).collect();
    let names = names.join(", ");
    format!(r#"{{"pools": {{"all": {{"servers": [{names}]}}}}, "route": "PoolRoute|all"}}"#).as_str().into()
}

fn at_work(client: &Client, is_over: &AtomicBool) -> usize {
    let keys: Vec<String> = (0..50).map(|number| format!("key{number}")).collect();
    let mut rounds = 0;
    while !is_over.load(Ordering::Relaxed) {
        for key in &keys {
            assert_eq!(client.set(&Store::new(key.as_bytes(), key.as_bytes())), Ok(true));
        }
        for (key, found) in keys.iter().zip(client.get_many(&keys)) {
            let found = found.expect("an answer");
            assert!(found.is_none_or(|item| item.value == key.as_bytes()), "{key} has another's value");
        }
        rounds += 1;
    }
    rounds
}

#[test]
fn no_call_fails_while_servers_come_and_go_and_those_that_stay_keep_their_connections() {
    let nodes = [(); 3].map(|()| Setup::new().start_guira());
    let [first, stays, second] = &nodes;
    let (one, other) = (config(&[first, stays]), config(&[second, stays]));
    let client = Client::new(&Builder::texts(one.clone()).timeout(PATIENCE)).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| at_work(&client, &is_over)));
        let end = SetAtEnd(&is_over);
        for round in 0..20 {
            client.reconfigure(if round % 2 == 0 { &other } else { &one }).unwrap();
            std::thread::yield_now();
        }
        client.reconfigure(&other).unwrap();
        drop(end);
        let rounds = threads.map(|thread| thread.join().expect("no call fails"));
        assert!(rounds.iter().sum::<usize>() > 0);
    });
    let counters = client.counters();
    assert_eq!((counters.configurations, counters.refused_configurations), (21, 0));
    assert_eq!((counters.failed_keys, counters.failed_changes, counters.nonsense), (0, 0, 0));
    let asked: Vec<String> = client.versions().into_iter().map(|(name, _)| name).collect();
    assert_eq!(asked.len(), 2);
    assert!(!asked.contains(&name(first)), "{asked:?}");
    // The one that is gone is not connected to any more: its connections are the one that asks and none else.
    let connections = |server: &Server| {
        let mut own = guira_tests::Client::connect(server.address());
        own.stats("")["curr_connections"].parse::<usize>().expect("a number")
    };
    wait_for("connections that are closed", || (connections(first) == 1).then_some(()));
    assert!(connections(stays) > 1);
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let node = Setup::new().start_guira();
    let client = Client::new(&Builder::texts(config(&[&node])).timeout(PATIENCE)).unwrap();
    let futures = AsyncClient::new(&Builder::texts(config(&[&node])).timeout(PATIENCE)).unwrap();
    for text in ["{", r#"{"route": "PoolRoute|none"}"#, r#"{"route": "NullRoute"}"#] {
        assert!(client.reconfigure(&text.into()).is_err() && futures.reconfigure(&text.into()).is_err());
    }
    assert_eq!(client.set(&Store::new(b"k", b"v")), Ok(true));
    assert_eq!(block_on(futures.get(b"k")).unwrap().unwrap().value, b"v");
    assert_eq!((client.counters().refused_configurations, futures.counters().configurations), (3, 0));
}

#[test]
fn futures_go_by_another_configuration_once_it_was_given() {
    let nodes = [(); 2].map(|()| Setup::new().start_guira());
    let client = AsyncClient::new(&Builder::texts(config(&[&nodes[0]])).timeout(PATIENCE)).unwrap();
    assert_eq!(block_on(client.set(&Store::new(b"k", b"first"))), Ok(true));
    let under_way = client.get(b"k");
    client.reconfigure(&config(&[&nodes[1]])).unwrap();
    assert_eq!(block_on(client.get(b"k")), Ok(None));
    assert_eq!(block_on(under_way), Ok(None), "a future begins when it is polled");
    client.reconfigure(&config(&[&nodes[0]])).unwrap();
    assert_eq!(block_on(client.get(b"k")).unwrap().unwrap().value, b"first");
}

#[test]
fn a_client_follows_its_file_and_starts_without_it_from_what_was_kept() {
    let scratch = Scratch::new();
    let (path, kept) = (scratch.path().join("pools.json"), scratch.path().join("kept"));
    let nodes = [(); 2].map(|()| Setup::new().start_guira());
    std::fs::write(&path, config(&[&nodes[0]]).main).unwrap();
    let following = Following::of(Source::File(path.clone())).keep(&kept);
    let client = following.clone().client(|builder| builder.timeout(PATIENCE)).unwrap();
    assert_eq!(client.set(&Store::new(b"k", b"v")), Ok(true));
    std::fs::write(&path, "{").unwrap();
    wait_for("a refusal", || (client.counters().refused_configurations > 0).then_some(()));
    assert!(client.get(b"k").unwrap().is_some());
    std::fs::write(&path, config(&[&nodes[1]]).main).unwrap();
    wait_for("the other server", || (client.get(b"k") == Ok(None)).then_some(()));
    let is_kept = || std::fs::read_to_string(&kept).is_ok_and(|text| text.contains(&name(&nodes[1])));
    wait_for("the file that is kept", || is_kept().then_some(()));
    std::fs::remove_file(&path).unwrap();
    let late = following.client(|builder| builder.timeout(PATIENCE)).unwrap();
    assert_eq!(late.set(&Store::new(b"k", b"late")), Ok(true));
    assert_eq!(client.get(b"k").unwrap().unwrap().value, b"late");
    let nothing = Following::of(Source::File(path)).client(|builder| builder);
    assert!(nothing.expect_err("an error").to_string().contains("pools.json"));
    assert_eq!(client.get(b""), Err(ErrorKind::BadKey(KeyProblem::Empty).into()));
}
