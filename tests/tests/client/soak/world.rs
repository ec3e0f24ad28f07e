//! Two regions, what was committed in them, and what their clusters have acknowledged.

use super::checker::Checker;
use super::user::Sums;
use guira_regions::database::{MariaDb, Session, Unanswered};
use guira_regions::judge::{History, Sight, lock};
use guira_regions::{Cluster, Flush, Member, Region, Settings, pair};
use guira_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use guira_tests::deadline::Deadline;
use guira_tests::mounted::Mounted;
use guira_tests::scratch::Scratch;
use guira_tests::server::guira_binary;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// All rows, and those that are used most of the time.
pub(super) const ROWS: usize = 2000;
pub(super) const KEYS: usize = 60;
const LAG_S: u64 = 1;
/// What the disk of spools has room for, in MiB.
const DISK: usize = 24;
/// How long it may take, when everything has healed, until the logs were followed to their end.
const SETTLING_MAX: Duration = Duration::from_secs(180);
/// How long a database may be away.
const AWAY_MAX: Duration = Duration::from_secs(60);
const FAILURES_MAX: usize = 20;

/// The key of a row, some with quotes and with characters of several bytes.
pub(super) fn key(row: usize) -> String {
    const ENDS: [&str; 9] = ["", "'", "\"", "\\", "😀", "`", "-ü", "%s", "it's\"😀"];
    format!("row:{row}{}", ENDS[row % ENDS.len()])
}

pub(super) fn row_of(key: &str) -> usize {
    let digits: String = key[4..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// A session that is opened again when it has failed.
pub(super) struct Door<'w> {
    database: &'w MariaDb,
    session: Option<Session>,
}

impl<'w> Door<'w> {
    pub(super) fn of(database: &'w MariaDb) -> Self {
        Door { database, session: None }
    }

    pub(super) fn row(&mut self, statements: &str) -> Result<String, Unanswered> {
        let session = self.session.get_or_insert_with(|| self.database.session());
        let row = session.try_row(statements);
        if row.is_err() {
            self.session = None;
            std::thread::sleep(Duration::from_millis(50));
        }
        row
    }
}

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) regions: [Region; 2],
    pub(super) history: History,
    /// What the readers of each cluster must see.
    pub(super) sights: Vec<Sight>,
    pub(super) sums: Sums,
    pub(super) failures: Mutex<Vec<String>>,
    /// How often there was each fault, and the last ones.
    faults: Mutex<(BTreeMap<&'static str, u64>, Vec<String>)>,
    /// Where spools of invalidators and logged deletes are, if a file system can be mounted.
    pub(super) disk: Option<Mounted>,
    /// Invalidators, which only one fault at a time concerns.
    pub(super) of_invalidators: [Mutex<()>; 2],
    used: AtomicBool,
    ended: AtomicBool,
    followed: Vec<AtomicU64>,
    slowest_ms: AtomicU64,
    /// What looks at changed keys beside the users.
    pub(super) checker: Checker,
    _scratch: Scratch,
}

const NAMES: [&str; 3] = ["home", "west", "east"];

/// The rows, in their first version, and a table for what tells how far the log was followed.
fn tables() -> String {
    let rows: Vec<String> = (0..ROWS)
        .map(|row| {
            format!("({row}, 0, 'nobody', '{}')", key(row)[4..].replace('\\', "\\\\").replace('\'', "''"))
        })
        .collect();
    format!(
        "CREATE DATABASE shop CHARACTER SET utf8mb4;
         CREATE TABLE shop.rows (id INT PRIMARY KEY, version BIGINT UNSIGNED, writer VARCHAR(60), name VARCHAR(60));
         CREATE TABLE shop.marks (id BIGINT AUTO_INCREMENT PRIMARY KEY);
         INSERT INTO shop.rows VALUES {}",
        rows.join(",")
    )
}

/// A cluster with so many nodes.
fn cluster(folder: &Path, disk: &Path, name: &str, nodes: usize) -> Cluster {
    let guira = guira_binary();
    let nodes = (0..nodes).map(|node| Member::node(&guira, folder.join(format!("{name}-{node}")), &[]));
    let nodes = nodes.collect();
    let arguments = [
        "--server-timeout=2000",
        "--timeouts-until-tko=2",
        "--probe-timeout-initial-ms=200",
        "--probe-timeout-max-ms=1000",
        "--use-asynclog-version2",
    ];
    let logged = disk.join(format!("{name}-logged"));
    Cluster::behind_router(&guira, folder.join(name), nodes, "\"PoolRoute|all\"", &logged, &arguments)
}

impl World {
    pub(super) fn start(seed: u64) -> Option<Self> {
        let databases = pair(LAG_S, &tables())?;
        let (scratch, disk) = (Scratch::new(), Mounted::new(DISK));
        let folder = scratch.path().to_owned();
        let spools = disk.as_ref().map_or_else(|| folder.clone(), |disk| disk.file(""));
        let markers = Member::node(&guira_binary(), folder.join("markers"), &["--disable-evictions"]);
        let [home, west, east] =
            [(0, 2), (1, 1), (2, 1)].map(|(place, nodes)| cluster(&folder, &spools, NAMES[place], nodes));
        databases[0].execute("CREATE USER checker@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT SELECT ON shop.* TO checker@'127.0.0.1'");
        let places = [&home, &west, &east].map(|cluster| cluster.entrance().address());
        let places: Vec<(&str, String)> = NAMES.into_iter().zip(places).collect();
        let checker = Checker::start(&folder, &databases[0].address().to_string(), &places);
        let hints = Checker::hints(&folder);
        let mut parts = [(vec![home], None), (vec![west, east], Some(markers))].into_iter().enumerate();
        let regions = databases.map(|database| {
            let (number, (clusters, markers)) = parts.next().expect("there are two");
            Region::start(&guira_binary(), database, clusters, markers, &settings(&spools, number, &hints))
        });
        Some(World {
            seed,
            regions,
            history: History::of(ROWS),
            sights: (0..3).map(|_| Sight::of(ROWS)).collect(),
            sums: Sums::default(),
            failures: Mutex::default(),
            faults: Mutex::default(),
            disk,
            of_invalidators: Default::default(),
            used: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            followed: (0..3).map(|_| AtomicU64::new(0)).collect(),
            slowest_ms: AtomicU64::new(0),
            checker,
            _scratch: scratch,
        })
    }

    pub(super) fn names(&self) -> [&'static str; 3] {
        NAMES
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn clusters(&self) -> usize {
        self.sights.len()
    }

    /// The region of a cluster, and its number there.
    pub(super) fn place(&self, cluster: usize) -> (usize, usize) {
        if cluster == 0 { (0, 0) } else { (1, cluster - 1) }
    }

    pub(super) fn cluster(&self, cluster: usize) -> (&Region, &Cluster) {
        let (region, number) = self.place(cluster);
        (&self.regions[region], &self.regions[region].clusters[number])
    }

    /// Whether users and faults go on.
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn end_users(&self) {
        self.used.store(false, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.end_users();
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Waits so long, or until all end.
    pub(super) fn wait(&self, length: Duration) {
        let time = Stopwatch::start();
        while self.is_used() && time.elapsed() < length {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whoever panics fails the history, and ends all others.
    pub(super) fn guarded(&self, work: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.fail("somebody has panicked".to_owned());
            self.end();
        }
    }

    pub(super) fn fail(&self, what: String) {
        let mut failures = lock(&self.failures);
        if failures.len() < FAILURES_MAX {
            println!("seed {}: {what}", self.seed);
            failures.push(what);
        }
    }

    pub(super) fn fault(&self, name: &'static str, about: &str) {
        let mut faults = lock(&self.faults);
        *faults.0.entry(name).or_default() += 1;
        let line = format!("{:?} {name} {about}", self.history.now());
        faults.1.push(line);
    }

    pub(super) fn fault_ended(&self, name: &str) {
        lock(&self.faults).1.push(format!("{:?} {name} ends", self.history.now()));
    }

    /// Takes note of versions that were committed, as they were selected.
    pub(super) fn committed(
        &self,
        rows: &[usize],
        versions: &str,
        writer: &str,
    ) -> Result<Vec<u64>, Unanswered> {
        let found: Vec<u64> = versions.split(',').filter_map(|version| version.parse().ok()).collect();
        if found.len() != rows.len() {
            return Err(Unanswered::from(versions.to_owned()));
        }
        for (row, version) in rows.iter().zip(&found) {
            self.history.committed(*row, *version, writer);
        }
        Ok(found)
    }

    /// Learns again and again how far the log was followed to a cluster.
    pub(super) fn follow(&self, cluster: usize) {
        let (region, number) = self.place(cluster);
        let mut master = Door::of(&self.regions[0].database);
        while !self.has_ended() {
            let (calms, versions, time) =
                (self.sights[cluster].calms(), self.history.versions(), Stopwatch::start());
            let Ok(position) = master.row("INSERT INTO shop.marks VALUES (NULL); SELECT @@last_gtid") else {
                continue;
            };
            let position: u64 =
                position.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a GTID");
            while !self.regions[region].has_delivered_to(number, position) {
                if let Some(fault) = self.regions[region].invalidator.fault() {
                    self.fail(fault);
                    return self.end();
                }
                if self.has_ended() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            self.sights[cluster].arrived(&versions, calms, self.history.now());
            self.followed[cluster].fetch_add(1, Ordering::Relaxed);
            self.slowest_ms.fetch_max(time.elapsed().as_millis() as u64, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits until the logs were followed to their end.
    pub(super) fn settle(&self) {
        let time = Stopwatch::start();
        let done = || {
            let are_calm = self.sights.iter().all(|sight| sight.calm().is_some());
            (are_calm && self.ended_faults()).then_some(())
        };
        if Deadline::after(SETTLING_MAX).poll(done).is_none() {
            return self.fail(format!(
                "{:?} after its end the history has not healed: {:?}",
                time.elapsed(),
                self.sights_in_trouble()
            ));
        }
        // What was in front of them when they began is done when two more have ended.
        let before: Vec<u64> = self.followed.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let done = || {
            let now = self.followed.iter().map(|count| count.load(Ordering::Relaxed));
            now.zip(&before).all(|(now, before)| now >= before + 2).then_some(())
        };
        if Deadline::after(SETTLING_MAX).poll(done).is_none() {
            self.fail("the logs were not followed to their end".to_owned());
        }
    }

    fn ended_faults(&self) -> bool {
        self.sights.iter().all(|sight| sight.calms().is_some())
    }

    fn sights_in_trouble(&self) -> Vec<usize> {
        (0..self.clusters()).filter(|cluster| self.sights[*cluster].calm().is_none()).collect()
    }

    /// Holds all that the caches have against the database.
    pub(super) fn compare(&self) {
        let said = self.regions[0]
            .database
            .execute("SELECT CONCAT(version, ' ', writer, ' ', id) FROM shop.rows ORDER BY id");
        let rows: Vec<(String, &str)> =
            said.lines().enumerate().map(|(row, line)| (key(row), line)).collect();
        for cluster in 0..self.clusters() {
            let (found, differences) = differences(&rows, self.cluster(cluster).1);
            println!("cluster {cluster} has {found} of {} keys", rows.len());
            differences
                .into_iter()
                .for_each(|difference| self.fail(format!("in cluster {cluster} {difference}")));
        }
    }

    pub(super) fn report(&self, all_faults: bool) {
        let Sums { reads, strict, older, oldest_ms, writes, unanswered, hits } = &self.sums;
        let [reads, strict, older, oldest_ms, writes, unanswered, hits] =
            [reads, strict, older, oldest_ms, writes, unanswered, hits]
                .map(|sum| sum.load(Ordering::Relaxed));
        let faults = lock(&self.faults);
        println!(
            "{reads} reads ({hits} hits), {strict} judged by what a writer was told, {older} older than the last commit, by {oldest_ms} ms at most; {writes} writes; {unanswered} that a database did not answer; the log was followed {:?} times, in {} ms at the longest; {:?}",
            self.followed,
            self.slowest_ms.load(Ordering::Relaxed),
            faults.0
        );
        let failures = lock(&self.failures);
        if !failures.is_empty() {
            faults.1.iter().for_each(|fault| println!("{fault}"));
            panic!("seed {}: {} failures, the first: {}", self.seed, failures.len(), failures[0]);
        }
        assert!(reads > 0 && hits > 0 && strict > 0, "seed {}: nothing was judged", self.seed);
        if all_faults {
            let kinds = super::harm::kinds();
            let missing: Vec<_> = kinds.filter(|kind| !faults.0.contains_key(kind)).collect();
            assert!(missing.is_empty(), "seed {}: there was no {missing:?}", self.seed);
        }
    }
}

/// How many of these keys the caches of a cluster have, and what differs from these values.
fn differences(rows: &[(String, &str)], cluster: &Cluster) -> (usize, Vec<String>) {
    let (mut found, mut differences) = (0, Vec::new());
    for (key, row) in rows {
        match cluster.entrance().value(key) {
            Ok(None) => {}
            // The first eight bytes are the version.
            Ok(Some(value)) if value.get(8..) == Some(row.as_bytes()) => found += 1,
            other => {
                let value = other.map(|value| value.map(|value| value.escape_ascii().to_string()));
                differences.push(format!("{key} is {value:?}, and {row} in the database"));
            }
        }
    }
    (found, differences)
}

fn settings(spools: &Path, region: usize, hints: &str) -> Settings {
    let spool: PathBuf = spools.join(format!("spool-{region}"));
    Settings {
        process: format!(
            "on-gap = \"flush\"\nbatch-keys = 200\nqueue-batches = 2\nspool = {spool:?}\nspool-max-mb = 64\nspool-after-ms = 500"
        ),
        targets: "linger-ms = 5\nagain-after-ms = 300\ntimeout-ms = 3000".to_owned(),
        tables: "[[template]]\ndatabase = \"shop\"\ntable = \"rows\"\nkeys = [\"row:{name}\"]".to_owned(),
        flush: Flush::Nodes,
        hints: Some(hints.to_owned()),
    }
}

/// Waits until a database answers.
pub(super) fn wait_for(database: &MariaDb) {
    let answers = || database.run("SELECT 1").is_ok().then_some(());
    Deadline::after(AWAY_MAX).poll(answers).expect("the database is back");
}
