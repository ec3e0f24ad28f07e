//! Two regions with real databases, the one a replica of the other that lags, each with a cache and an invalidator.

use crate::{target, wait_until};
use guira_client::lookaside::{Counters, Database, LookAside, Markers, Value, Wanted};
use guira_harness::server::ServerProcess;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_tests::deadline::PATIENCE;
use guira_tests::http::HttpClient;
use guira_tests::mariadb::{MariaDb, Session};
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, guira_binary, spawn};
use guira_tests::{Server, Setup, skip};
use std::convert::Infallible;
use std::fmt;
use std::process::Command;
use std::time::Duration;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
const KEYS: usize = 200;

/// A database, its cache, and what deletes from the cache what the database's log says.
struct Region {
    database: MariaDb,
    cache: Server,
    /// Those of its remote markers.
    markers: Server,
    invalidator: ServerProcess,
    scratch: Scratch,
}

/// What a region has for its cache and its markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caches {
    Nodes,
    /// If it is installed.
    Memcached,
}

impl Caches {
    fn start(self) -> [Server; 2] {
        let nodes = [Setup::new(), Setup::new().guira_argument("--disable-evictions")];
        if self == Self::Memcached {
            match [Setup::new(), Setup::new().options(&["-M"])].map(|setup| setup.start_peer()) {
                [Some(cache), Some(markers)] => return [cache, markers],
                _ => skip::say("memcached is not installed: nodes are in its place"),
            }
        }
        nodes.map(|setup| setup.start_guira())
    }
}

impl Region {
    fn of(database: MariaDb, caches: Caches) -> Self {
        let ([cache, markers], scratch) = (caches.start(), Scratch::new());
        let [at, markers_at] = [&cache, &markers].map(|server| match server.address() {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("{path:?}"),
        });
        let text = format!(
            "position = {:?}\nadmin = \"127.0.0.1:0\"\n[source.mariadb]\naddress = \"{}\"\nuser = \"guira\"\npassword-file = {:?}\nserver-id = 4242\n\
             [[target]]\nname = \"cache\"\naddress = \"{at}\"\n[[target]]\nname = \"markers\"\naddress = \"{markers_at}\"\n",
            scratch.file("position"),
            database.address(),
            scratch.write("password", "secret\n"),
        );
        scratch.write("invalidator.toml", &text);
        let invalidator = invalidate(&scratch);
        Region { database, cache, markers, invalidator, scratch }
    }

    /// Kills the invalidator, and starts another one that goes on where it was.
    fn replace_invalidator(&mut self) {
        self.invalidator.kill();
        self.invalidator = invalidate(&self.scratch);
    }
}

/// Starts an invalidator, and waits until it reads the log.
fn invalidate(scratch: &Scratch) -> ServerProcess {
    let mut command = Command::new(guira_binary());
    command.args(["invalidate", "--config"]).arg(scratch.file("invalidator.toml"));
    let mut invalidator = spawn(command);
    let admin = invalidator.wait_for_address("admin", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    wait_until("the log", || HttpClient::connect(admin).get("/ready", "").status == 200);
    invalidator
}

/// Both regions, the replica with so many seconds of lag; `None` when the database is not installed.
fn regions(lag_s: u64, caches: Caches) -> Option<[Region; 2]> {
    let (master, replica) = (MariaDb::start_as(1)?, MariaDb::start_as(2)?);
    let rows: Vec<_> = (0..KEYS).map(|key| format!("({key}, 0)")).collect();
    master.execute(&format!(
        "CREATE USER guira@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO guira@'127.0.0.1';
         CREATE DATABASE shop; CREATE TABLE shop.rows (id INT PRIMARY KEY, version BIGINT UNSIGNED); INSERT INTO shop.rows VALUES {}",
        rows.join(",")
    ));
    let address = master.address();
    replica.execute(&format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = 'guira', MASTER_PASSWORD = 'secret', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_DELAY = {lag_s};
         START SLAVE;",
        address.ip(),
        address.port()
    ));
    wait_until("the first rows in the replica", || {
        let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'shop'";
        replica.execute(tables).trim() == "1"
            && replica.execute("SELECT COUNT(*) FROM shop.rows").trim() == KEYS.to_string()
    });
    Some([Region::of(master, Caches::Nodes), Region::of(replica, caches)])
}

/// Whether clients of the replica's region set markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marking {
    With,
    Without,
}

/// What happens while they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The invalidator of the replica's region is killed at half of the time.
    Kill,
}

/// What the users of the replica's region came to.
struct Found {
    reads: u64,
    writes: u64,
    /// Older than what the same user had written.
    older: u64,
    /// Milliseconds from a write to the last read that was older than it.
    latest_ms: u64,
    nearest: u64,
    master: u64,
    counters: Counters,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { reads, writes, older, latest_ms, nearest, master, counters } = self;
        write!(
            formatter,
            "{reads} reads, {writes} writes, {older} reads older than the own last write, the last of them after {latest_ms} ms; {nearest} queries of the replica, {master} of the master; {counters:?}"
        )
    }
}

/// What all users share.
#[derive(Default)]
struct Sums {
    reads: AtomicU64,
    writes: AtomicU64,
    older: AtomicU64,
    latest_ms: AtomicU64,
    nearest: AtomicU64,
    master: AtomicU64,
}

/// Somebody who reads rows, and now and then writes one.
struct User<'a> {
    cache: &'a LookAside,
    sums: &'a Sums,
    nearest: Session,
    master: Session,
    random: Random,
    /// What it has written last, and when.
    written: [Option<(u64, Stopwatch)>; KEYS],
}

impl User<'_> {
    fn write(&mut self, key: usize) {
        let version = self.cache.write_through_delete(&[&name(key)], |changed| {
            let row = self.master.row(&format!(
                "UPDATE {} shop.rows SET version = LAST_INSERT_ID(version + 1) WHERE id = {key}; SELECT LAST_INSERT_ID()",
                changed.comment()
            ));
            Ok::<u64, Infallible>(row.parse().expect("a version"))
        });
        self.written[key] = Some((version.expect("no write fails"), Stopwatch::start()));
        self.sums.writes.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&mut self, key: usize) {
        let query = format!("SELECT version FROM shop.rows WHERE id = {key}");
        let fill = |wanted: &[Wanted<'_>]| {
            let (session, sum) = match wanted[0].database {
                Database::Nearest => (&mut self.nearest, &self.sums.nearest),
                Database::Master => (&mut self.master, &self.sums.master),
            };
            sum.fetch_add(1, Ordering::Relaxed);
            let version = session.row(&query).parse().expect("a version");
            Ok::<_, Infallible>(vec![Some(Value::new("").with_version(version))])
        };
        let found = self.cache.get_many(&[&name(key)], fill).expect("no fill fails");
        let version = found[0].as_ref().and_then(Value::version).expect("each has a version");
        self.sums.reads.fetch_add(1, Ordering::Relaxed);
        if let Some((_, when)) = self.written[key].filter(|(written, _)| version < *written) {
            self.sums.older.fetch_add(1, Ordering::Relaxed);
            self.sums.latest_ms.fetch_max(when.elapsed().as_millis() as u64, Ordering::Relaxed);
        }
    }

    fn live(&mut self, time: Stopwatch, length: Duration) {
        while time.elapsed() < length {
            let key = self.random.below(KEYS as u64) as usize;
            if self.random.once_in(20) {
                self.write(key)
            } else {
                self.read(key)
            }
            std::thread::sleep(Duration::from_millis(self.random.below(10)));
        }
    }
}

fn name(key: usize) -> String {
    format!("row:{key}")
}

/// Four users in the replica's region and two in the master's, at the same rows.
fn live(regions: &mut [Region; 2], marking: Marking, fault: Fault, length: Duration, seed: u64) -> Found {
    let [home, away] = &*regions;
    let mut caches = [home, away].map(|region| {
        region.cache.connect().ask("flush_all\r\n");
        LookAside::new(target(&region.cache)).expiry(Duration::from_secs(3600))
    });
    if marking == Marking::With {
        let [_, cache] = &mut caches;
        *cache = cache.clone().in_replica_region(Markers::at(target(&away.markers)));
    }
    let (sums, of_master) = (Sums::default(), Sums::default());
    let user = |number| {
        let (place, sums) = if number < 4 { (1, &sums) } else { (0, &of_master) };
        User {
            cache: &caches[place],
            sums,
            nearest: regions[place].database.session(),
            master: home.database.session(),
            random: Random::new(seed * 100 + number),
            written: [None; KEYS],
        }
    };
    let users: Vec<User<'_>> = (0..6).map(user).collect();
    let time = Stopwatch::start();
    std::thread::scope(|scope| {
        for mut user in users {
            scope.spawn(move || user.live(time, length));
        }
        if fault == Fault::Kill {
            std::thread::sleep(length / 2);
            regions[1].replace_invalidator();
        }
    });
    assert_eq!(of_master.older.into_inner(), 0, "seed {seed}: in the region of the master");
    let number = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    Found {
        reads: number(&sums.reads),
        writes: number(&sums.writes),
        older: number(&sums.older),
        latest_ms: number(&sums.latest_ms),
        nearest: number(&sums.nearest),
        master: number(&sums.master),
        counters: caches[1].counters(),
    }
}

/// Both ways, one after the other.
fn compare(lag_s: u64, caches: Caches, fault: Fault, length: Duration) {
    let seed = std::env::var("GUIRA_CLIENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let Some(mut regions) = regions(lag_s, caches) else {
        return skip::say("MariaDB is not installed (Debian: mariadb-server)");
    };
    let [without, with] =
        [Marking::Without, Marking::With].map(|marking| live(&mut regions, marking, fault, length, seed));
    println!("a lag of {lag_s} s, {length:?}, seed {seed}\nwithout markers: {without}\nwith markers: {with}");
    assert!(without.older > 0 && without.master == 0, "seed {seed}: {without}");
    assert!(with.older == 0 && with.master > 0, "seed {seed}: {with}");
    for found in [&without, &with] {
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
