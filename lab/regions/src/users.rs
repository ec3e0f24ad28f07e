//! Users of two regions who read rows and now and then write one: is what they read older than what they have written?

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use guira_client::lookaside::{Counters, Database, LookAside, Markers, Value, Wanted};
use guira_harness::random::Random;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;

use crate::database::Session;
use crate::member::Member;
use crate::region::Region;

/// How long a user waits for a cache.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Whether clients of the replica's region set markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    With,
    /// They do not.
    Without,
}

#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// Rows, of which each user picks one after the other at random.
    pub rows: usize,
    /// A user writes once in so many times.
    pub write_once_in: u64,
    pub marking: Marking,
    pub tune: fn(Markers) -> Markers,
    pub length: Duration,
    pub seed: u64,
}

/// Users in the replica's region, and all.
const AWAY: u64 = 4;
const ALL: u64 = 6;

/// The statements that make the rows of users.
pub fn rows(number: usize) -> String {
    let rows: Vec<_> = (0..number).map(|row| format!("({row}, 0)")).collect();
    format!(
        "CREATE DATABASE shop; CREATE TABLE shop.rows (id INT PRIMARY KEY, version BIGINT UNSIGNED); INSERT INTO shop.rows VALUES {}",
        rows.join(",")
    )
}

pub fn name(row: usize) -> String {
    format!("row:{row}")
}

/// What the users of the replica's region came to.
#[derive(Debug)]
pub struct Found {
    pub reads: u64,
    pub writes: u64,
    /// Reads that were older than what the same user had written.
    pub older: u64,
    /// Milliseconds from a write to the last read that was older than it.
    pub latest_ms: u64,
    /// Writes of a row whose last write, by somebody else of the region, had not come back.
    pub concurrent: u64,
    pub nearest: u64,
    pub master: u64,
    /// Items that the pool of markers has evicted, if it answers in the end.
    pub evictions: u64,
    pub counters: Counters,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Found { reads, writes, older, latest_ms, concurrent, nearest, master, evictions, counters } =
            self;
        write!(
            formatter,
            "{reads} reads, {writes} writes ({concurrent} of rows whose last one had not come back), {older} reads older than the own last write, the last of them after {latest_ms} ms; {nearest} queries of the replica, {master} of the master; {evictions} markers evicted; {counters:?}"
        )
    }
}

#[derive(Default)]
struct Sums {
    reads: AtomicU64,
    writes: AtomicU64,
    older: AtomicU64,
    latest_ms: AtomicU64,
    concurrent: AtomicU64,
    nearest: AtomicU64,
    master: AtomicU64,
}

/// Somebody who reads rows, and now and then writes one.
struct User<'a> {
    life: Life,
    cache: &'a LookAside,
    /// Of its region, if it has one.
    markers: Option<&'a Member>,
    sums: &'a Sums,
    nearest: Session,
    master: Session,
    random: Random,
    /// What it has written last, and when.
    written: Vec<Option<(u64, Stopwatch)>>,
}

impl User<'_> {
    fn write(&mut self, row: usize) {
        if self.markers.is_some_and(|markers| is_marked(markers, &name(row))) {
            self.sums.concurrent.fetch_add(1, Ordering::Relaxed);
        }
        let version = self.cache.write_through_delete(&[&name(row)], |changed| {
            let version = self.master.row(&format!(
                "UPDATE {} shop.rows SET version = LAST_INSERT_ID(version + 1) WHERE id = {row}; SELECT LAST_INSERT_ID()",
                changed.comment()
            ));
            Ok::<u64, Infallible>(version.parse().expect("a version"))
        });
        self.written[row] = Some((version.expect("no write fails"), Stopwatch::start()));
        self.sums.writes.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&mut self, row: usize) {
        let query = format!("SELECT version FROM shop.rows WHERE id = {row}");
        let fill = |wanted: &[Wanted<'_>]| {
            let (session, sum) = match wanted[0].database {
                Database::Nearest => (&mut self.nearest, &self.sums.nearest),
                Database::Master => (&mut self.master, &self.sums.master),
            };
            sum.fetch_add(1, Ordering::Relaxed);
            let version = session.row(&query).parse().expect("a version");
            Ok::<_, Infallible>(vec![Some(Value::new("").with_version(version))])
        };
        let found = self.cache.get_many(&[&name(row)], fill).expect("no fill fails");
        let version = found[0].as_ref().and_then(Value::version).expect("each has a version");
        self.sums.reads.fetch_add(1, Ordering::Relaxed);
        if let Some((_, when)) = self.written[row].filter(|(written, _)| version < *written) {
            self.sums.older.fetch_add(1, Ordering::Relaxed);
            self.sums.latest_ms.fetch_max(when.elapsed().as_millis() as u64, Ordering::Relaxed);
        }
    }

    fn live(&mut self, time: Stopwatch) {
        while time.elapsed() < self.life.length {
            let row = self.random.below(self.life.rows as u64) as usize;
            if self.random.once_in(self.life.write_once_in) {
                self.write(row)
            } else {
                self.read(row)
            }
            std::thread::sleep(Duration::from_millis(self.random.below(10)));
        }
    }
}

/// Whether a write of a key is on its way, as the pool of markers says. One that does not answer says nothing.
fn is_marked(markers: &Member, key: &str) -> bool {
    let value = |key: String| markers.value(&key).ok().flatten();
    let list = value(format!("r::{key}")).unwrap_or_default();
    let list = String::from_utf8_lossy(&list).into_owned();
    let mut ids = list.split(',').filter(|id| !id.is_empty());
    ids.any(|id| value(format!("r:{id}")).is_some())
}

/// Four users in the replica's region and two in the master's, at the same rows, while something else is done. Their caches are emptied first.
///
/// # Panics
/// If a program does not do what it should.
pub fn live(regions: &[Region; 2], life: Life, meanwhile: impl FnOnce()) -> Found {
    let [home, away] = regions;
    let mut caches = [home, away].map(|region| {
        let cluster = &region.clusters[0];
        cluster.nodes().iter().for_each(|node| _ = node.ask("flush_all").expect("it answers"));
        LookAside::new(cluster.target(TIMEOUT)).expiry(Duration::from_secs(3600))
    });
    let markers = away.markers.as_ref().filter(|_| life.marking == Marking::With);
    if let Some(markers) = markers {
        let [_, cache] = &mut caches;
        *cache = cache.clone().in_replica_region((life.tune)(Markers::at(markers.target(TIMEOUT))));
    }
    let (sums, of_master) = (Sums::default(), Sums::default());
    let user = |number| {
        let (place, sums) = if number < AWAY { (1, &sums) } else { (0, &of_master) };
        User {
            life,
            cache: &caches[place],
            markers: markers.filter(|_| place == 1),
            sums,
            nearest: regions[place].database.session(),
            master: home.database.session(),
            random: Random::new(life.seed * 100 + number),
            written: vec![None; life.rows],
        }
    };
    let users: Vec<User<'_>> = (0..ALL).map(user).collect();
    let time = Stopwatch::start();
    std::thread::scope(|scope| {
        for mut user in users {
            scope.spawn(move || user.live(time));
        }
        meanwhile();
    });
    assert_eq!(of_master.older.into_inner(), 0, "seed {}: in the region of the master", life.seed);
    Found {
        reads: sums.reads.into_inner(),
        writes: sums.writes.into_inner(),
        older: sums.older.into_inner(),
        latest_ms: sums.latest_ms.into_inner(),
        concurrent: sums.concurrent.into_inner(),
        nearest: sums.nearest.into_inner(),
        master: sums.master.into_inner(),
        evictions: markers.map_or(0, |markers| markers.stat("evictions").unwrap_or(0)),
        counters: caches[1].counters(),
    }
}
