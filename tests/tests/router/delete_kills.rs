//! A router that is killed again and again while its server is down: whatever was acknowledged is in the files, and is delivered in the end.

use crate::deletes::{config, files, lines, start};
use guira_sync::clock::Stopwatch;
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::server::wait_for;
use guira_tests::{Client, Setup};
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Deletes that are sent at once.
const PIPELINE: usize = 16;

/// Sends deletes until the router is killed. Returns how many of them it has acknowledged, which are the first.
fn delete_until_killed(address: std::net::SocketAddr, round: usize) -> usize {
    let Ok(stream) = TcpStream::connect(address) else { return 0 };
    let mut out = stream.try_clone().unwrap();
    let mut replies = BufReader::new(stream).lines();
    let mut acknowledged = 0;
    for first in (0..).step_by(PIPELINE) {
        let requests: String =
            (first..first + PIPELINE).map(|number| format!("delete {round}-{number}\r\n")).collect();
        if out.write_all(requests.as_bytes()).is_err() {
            return acknowledged;
        }
        for _ in 0..PIPELINE {
            match replies.next() {
                Some(Ok(line)) if line == "NOT_FOUND" => acknowledged += 1,
                Some(Ok(line)) if !line.is_empty() && !"NOT_FOUND".starts_with(&line) => panic!("{line}"),
                _ => return acknowledged,
            }
        }
    }
    acknowledged
}

fn kill(rounds: usize, seed: u64) {
    eprintln!("seed {seed}");
    let mut random = Random::new(seed);
    let scratch = Scratch::new();
    let folder = scratch.file("spool");
    fs::create_dir(&folder).unwrap();
    let socket = scratch.file("memcached");
    let config = config(&format!("unix:{}", socket.display()));
    let mut acknowledged = Vec::new();
    for round in 0..rounds {
        let sync = ["--asynclog-sync=never", "--asynclog-sync=always"][random.below(2) as usize];
        let version: &[&str] = if random.below(2) == 0 { &[] } else { &["--use-asynclog-version2"] };
        let mut router = start(&folder, &config, &[&[sync, "--num-proxies=2"], version].concat());
        let address = router.tcp();
        let life = Duration::from_micros(random.below(60_000));
        let clients: Vec<_> = (0..2)
            .map(|client| std::thread::spawn(move || delete_until_killed(address, 2 * round + client)))
            .collect();
        let since = Stopwatch::start();
        while since.elapsed() < life {
            std::thread::yield_now();
        }
        router.process.kill();
        acknowledged.extend(
            clients.into_iter().map(|client| client.join().expect("each reply is an acknowledgement")),
        );
    }
    let logged: Vec<String> = lines(&folder)
        .iter()
        .map(|line| {
            let command = line[3][2].as_str().or(line[3]["k"].as_str()).expect("a key");
            command.trim_start_matches("delete ").trim_end().to_owned()
        })
        .collect();
    let once: HashSet<&String> = logged.iter().collect();
    assert_eq!(once.len(), logged.len(), "seed {seed}: each was logged once");
    for (round, count) in acknowledged.iter().enumerate() {
        let is_lost = |number: &usize| !once.contains(&format!("{round}-{number}"));
        let lost: Vec<usize> = (0..*count).filter(is_lost).collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} of {count} were acknowledged and are not logged");
    }
    assert!(acknowledged.iter().sum::<usize>() > 0, "seed {seed}: it was always killed too soon");
    let node = Setup::new().unix_socket(&socket).start_guira();
    let mut direct = node.connect();
    let all = acknowledged.iter().enumerate();
    let keys = all.flat_map(|(round, count)| (0..*count).map(move |number| format!("{round}-{number}")));
    let keys: Vec<String> = keys.collect();
    keys.iter().for_each(|key| direct.set(key, "x"));
    let router = start(&folder, &config, &[]);
    wait_for("all deletes to be delivered", || files(&folder).is_empty().then_some(()));
    keys.iter().for_each(|key| direct.exchange(format!("get {key}\r\n"), "END\r\n"));
    let mut client: Client = router.connect();
    let delivered: usize = client.stats("")["asynclog_replay_delivered"].parse().unwrap();
    assert_eq!(delivered, logged.len(), "seed {seed}");
}

#[test]
fn no_acknowledged_delete_is_lost_when_the_router_is_killed() {
    kill(8, 1);
}

#[test]
#[ignore = "takes a minute: a hundred kills"]
fn no_acknowledged_delete_is_lost_when_the_router_is_killed_a_hundred_times() {
    (2..12).for_each(|seed| kill(10, seed));
}
