//! Two regions with real databases, the one a replica of the other that lags, each with a cache and an invalidator.

use guira_client::lookaside::Counters;
use guira_regions::users::{Found, Life, Marking, live, rows};
use guira_regions::{Cluster, Member, Region, Settings, pair};
use guira_tests::scratch::Scratch;
use guira_tests::server::{guira_binary, is_root};
use guira_tests::skip;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
const ROWS: usize = 200;

/// What a region has for its cache and its markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caches {
    Nodes,
    /// If it is installed.
    Memcached,
}

impl Caches {
    fn start(self, scratch: &Scratch, number: usize) -> [Member; 2] {
        let [cache, markers] = ["cache", "markers"].map(|name| scratch.file(&format!("{name}-{number}")));
        if self == Self::Memcached {
            let is_there = Command::new("memcached").arg("-V").stdout(Stdio::null()).status();
            if is_there.is_ok_and(|status| status.success()) {
                return [
                    Member::start(cache, |socket| memcached(socket.into(), &[])),
                    Member::start(markers, |socket| memcached(socket.into(), &["-M"])),
                ];
            }
            skip::say("memcached is not installed: nodes are in its place");
        }
        let guira = guira_binary();
        [Member::node(&guira, cache, &[]), Member::node(&guira, markers, &["--disable-evictions"])]
    }
}

fn memcached(socket: PathBuf, arguments: &[&str]) -> Command {
    let mut command = Command::new("memcached");
    command.arg("-s").arg(socket).args(arguments);
    if is_root() {
        command.args(["-u", "root"]);
    }
    command
}

/// What happens while they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The invalidator of the replica's region is killed at half of the time.
    Kill,
}

/// Both ways, one after the other.
fn compare(lag_s: u64, caches: Caches, fault: Fault, length: Duration) {
    let seed = std::env::var("GUIRA_CLIENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let Some(databases) = pair(lag_s, &rows(ROWS)) else {
        return skip::say("MariaDB is not installed (Debian: mariadb-server)");
    };
    let scratch = Scratch::new();
    let mut kinds = [Caches::Nodes, caches].into_iter().enumerate();
    let regions = databases.map(|database| {
        let (number, caches) = kinds.next().expect("there are two");
        let [cache, markers] = caches.start(&scratch, number);
        let clusters = vec![Cluster::of_node(cache)];
        Region::start(&guira_binary(), database, clusters, Some(markers), &Settings::default())
    });
    let kill = || {
        if fault == Fault::Kill {
            std::thread::sleep(length / 2);
            regions[1].invalidator.kill();
            regions[1].invalidator.start_again();
        }
    };
    let [without, with] = [Marking::Without, Marking::With].map(|marking| {
        live(
            &regions,
            Life { rows: ROWS, write_once_in: 20, marking, tune: |markers| markers, length, seed },
            kill,
        )
    });
    println!("a lag of {lag_s} s, {length:?}, seed {seed}\nwithout markers: {without}\nwith markers: {with}");
    assert!(without.older > 0 && without.master == 0, "seed {seed}: {without}");
    assert!(with.older == 0 && with.master > 0, "seed {seed}: {with}");
    for found in [&without, &with] as [&Found; 2] {
        let Counters { failures, failed_deletes, unmarked_writes, marker_failures, .. } = found.counters;
        assert_eq!((failures, failed_deletes, unmarked_writes, marker_failures), (0, 0, 0, 0), "seed {seed}");
        assert!(found.counters.hits > 0 && found.writes > 0, "seed {seed}: {found}");
    }
}

#[test]
fn nobody_reads_what_was_before_its_own_write_though_the_replica_lags() {
    compare(2, Caches::Memcached, Fault::Kill, Duration::from_secs(8));
}

#[test]
#[ignore = "takes two minutes: a lag of 5 s"]
fn nobody_reads_what_was_before_its_own_write_though_the_replica_lags_by_much() {
    compare(5, Caches::Nodes, Fault::None, Duration::from_secs(60));
}
