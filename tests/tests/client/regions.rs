//! A region whose database is a replica: who has written reads no older row than that, with markers.

use crate::{target, wait_until};
use guira_client::lookaside::{Counters, Database, LookAside, Markers, Value};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_tests::random::Random;
use guira_tests::{Server, Setup};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Barrier;
use std::time::Duration;

/// `GUIRA_CLIENT_SEED` is another one.
const SEED: u64 = 1;
const KEYS: usize = 12;
const USERS: usize = 3;

/// A change on its way to the replica.
struct Change {
    key: usize,
    version: u64,
    /// What the invalidator of this region deletes.
    names: Vec<String>,
}

/// Two databases with a version for each key, the replica region's cache, and those who use it.
struct Region {
    cache: LookAside,
    server: Server,
    master: [u64; KEYS],
    replica: [u64; KEYS],
    log: VecDeque<Change>,
    /// Changes whose deletes have come, but which readers do not see yet.
    seen: VecDeque<Change>,
    written: [[u64; KEYS]; USERS],
    reads: Reads,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reads {
    all: u64,
    of_master: u64,
    of_nearest: u64,
    /// They were older than what the same user had written.
    older: u64,
}

impl Region {
    fn write(&mut self, user: usize, key: usize) {
        let (version, log) = (self.master[key] + 1, &mut self.log);
        let written = self.cache.write_through_delete(&[&name(key)], |changed| {
            let names = changed.message().split(' ').map(str::to_owned).collect();
            log.push_back(Change { key, version, names });
            Ok::<_, Infallible>(())
        });
        written.expect("no write fails");
        self.master[key] = version;
        self.written[user][key] = version;
    }

    /// A write in the master's region.
    fn write_elsewhere(&mut self, key: usize) {
        self.master[key] += 1;
        self.log.push_back(Change { key, version: self.master[key], names: vec![name(key)] });
    }

    fn read(&mut self, user: usize, key: usize) {
        let (master, replica, reads) = (self.master[key], self.replica[key], &mut self.reads);
        let found = self.cache.get_or_fill(&name(key), |database| {
            let version = match database {
                Database::Master => {
                    reads.of_master += 1;
                    master
                }
                Database::Nearest => {
                    reads.of_nearest += 1;
                    replica
                }
            };
            Ok::<_, Infallible>(Some(Value::new("").with_version(version)))
        });
        let version = found.expect("no fill fails").and_then(|value| value.version()).expect("each has one");
        reads.all += 1;
        reads.older += u64::from(version < self.written[user][key]);
    }

    /// Whether users who miss a key read it from the nearest database.
    fn is_read_nearby(&mut self, key: usize) -> bool {
        self.server.connect().ask(format!("delete {}\r\n", name(key)));
        let nearest = self.reads.of_nearest;
        (0..USERS).for_each(|user| self.read(user, key));
        self.reads.of_nearest > nearest
    }

    /// The log of the replica tells of a change.
    fn tell(&mut self) {
        let Some(change) = self.log.pop_front() else { return };
        self.invalidate(&change);
        self.seen.push_back(change);
    }

    /// Readers of the replica see it. The invalidator deletes a second time.
    fn show(&mut self) {
        let Some(change) = self.seen.pop_front() else { return };
        self.replica[change.key] = change.version;
        self.invalidate(&change);
    }

    fn invalidate(&self, change: &Change) {
        let mut direct = self.server.connect();
        change.names.iter().for_each(|name| _ = direct.ask(format!("delete {name}\r\n")));
    }

    fn step(&mut self, random: &mut Random) {
        let (user, key) = (random.below(USERS as u64) as usize, random.below(KEYS as u64) as usize);
        match random.below(100) {
            0..5 => self.write(user, key),
            5..8 => self.write_elsewhere(key),
            8..14 => self.tell(),
            // Long before the markers have settled.
            _ if self.seen.len() > 2 => self.show(),
            14..20 => self.show(),
            _ => self.read(user, key),
        }
    }
}

fn name(key: usize) -> String {
    format!("key:{key}")
}

fn run(markers: fn(&Server) -> Option<Markers>, seed: u64) -> Reads {
    let server = Setup::new().start_guira();
    let mut cache = LookAside::new(target(&server));
    if let Some(markers) = markers(&server) {
        cache = cache.in_replica_region(markers);
    }
    let mut random = Random::new(seed);
    let mut region = Region {
        cache,
        server,
        master: [0; KEYS],
        replica: [0; KEYS],
        log: VecDeque::new(),
        seen: VecDeque::new(),
        written: [[0; KEYS]; USERS],
        reads: Reads::default(),
    };
    // Steps in bursts, and between these all changes come back and settle: then the nearest database is read again.
    for _ in 0..3 {
        (0..1500).for_each(|_| region.step(&mut random));
        while !(region.log.is_empty() && region.seen.is_empty()) {
            region.tell();
            region.show();
        }
        let mut left: Vec<usize> = (0..KEYS).collect();
        wait_until("the nearest database for all keys", || {
            left.retain(|key| !region.is_read_nearby(*key));
            left.is_empty()
        });
    }
    region.reads
}

#[test]
fn a_user_reads_nothing_older_than_it_has_written_with_markers_and_does_without() {
    let seed = std::env::var("GUIRA_CLIENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let without = run(|_| None, seed);
    let with = run(|server| Some(Markers::at(target(server)).settling(Duration::from_secs(2))), seed);
    println!("seed {seed}: without markers {without:?}, with {with:?}");
    assert!(without.older > 0 && without.of_master == 0, "seed {seed}: {without:?}");
    assert!(with.older == 0 && with.of_master > 0 && with.of_nearest > 0, "seed {seed}: {with:?}");
}

/// Readers come in at every moment of a write, of a key that nobody has marked before and whose change never comes back.
#[test]
fn no_reader_stores_the_old_row_for_the_writer_whenever_it_comes() {
    const ROUNDS: usize = 1500;
    let seed = std::env::var("GUIRA_CLIENT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let server = Setup::new().start_guira();
    let cache = LookAside::new(target(&server)).in_replica_region(Markers::at(target(&server)));
    let rows: Vec<AtomicU64> = (0..ROUNDS).map(|_| AtomicU64::new(0)).collect();
    let read = |key: usize| {
        let row = |database| if database == Database::Master { rows[key].load(Ordering::SeqCst) } else { 0 };
        let found = cache.get_or_fill(&name(key), |database| {
            Ok::<_, Infallible>(Some(Value::new("").with_version(row(database))))
        });
        found.expect("no fill fails").and_then(|value| value.version()).expect("each has one")
    };
    let (begins, ends) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (read, begins, ends) = (&read, &begins, &ends);
            scope.spawn(move || {
                let mut random = Random::new(seed * 100 + reader);
                for key in 0..ROUNDS {
                    begins.wait();
                    std::thread::sleep(Duration::from_micros(random.below(300)));
                    read(key);
                    ends.wait();
                }
            });
        }
        let older = (0..ROUNDS).filter(|key| {
            begins.wait();
            let written = cache.write_through_delete(&[&name(*key)], |_| {
                rows[*key].store(1, Ordering::SeqCst);
                Ok::<_, Infallible>(())
            });
            written.expect("no write fails");
            let at_once = read(*key);
            ends.wait();
            at_once == 0 || read(*key) == 0
        });
        assert_eq!(older.count(), 0, "seed {seed}");
    });
    let Counters { refusals, marked_reads, hits, .. } = cache.counters();
    println!("seed {seed}: {refusals} refused, {marked_reads} at the master, {hits} hits");
    assert!(refusals > 0 && marked_reads > 0 && hits > 0, "seed {seed}: {:?}", cache.counters());
}
