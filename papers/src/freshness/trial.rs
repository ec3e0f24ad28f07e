//! One setting: a fleet is set up with it, read and written for some seconds, and its reads are held against what was committed.

use crate::experiment::Context;
use guira_client::lookaside::{LookAside, Value};
use guira_client::text::{Connection, TextError};
use guira_harness::random::Random;
use guira_harness::scratch::Scratch;
use guira_regions::database::{MariaDb, Session};
use guira_regions::{Cluster, Member, Region, Settings};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Stopwatch;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Rows that are read and written, if a setting says nothing else.
pub(super) const ROWS: usize = 40;
/// How long a setting is measured, and how long if it is only tried.
pub(super) const LENGTH: Duration = Duration::from_secs(6);
pub(super) const QUICK: Duration = Duration::from_secs(2);
const READERS: usize = 4;
/// How long clients wait for the cache.
const TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const HEAD: [&str; 7] = [
    "setting",
    "reads",
    "older than the last commit",
    "share",
    "oldest, s",
    "queries of the database",
    "packets of deletes",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writers {
    Leave,
    /// The writer, and then the invalidator.
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// By leases, with the look-aside client.
    Leases,
    /// By get and this command, up to so many milliseconds after they have read the database.
    Plain(&'static str, u64),
}

/// What is measured.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) node: Vec<&'static str>,
    pub(super) nodes: usize,
    pub(super) router: Vec<&'static str>,
    /// Its route; the pools `n0`, `n1` … have a node each.
    pub(super) route: &'static str,
    /// Lines of the invalidator, and of its targets.
    pub(super) process: &'static str,
    pub(super) targets: &'static str,
    /// Whether there is another cluster, which nobody reads.
    pub(super) has_neighbour: bool,
    pub(super) writers: Writers,
    pub(super) readers: Readers,
    pub(super) client: fn(LookAside) -> LookAside,
    /// Rows that are read and written.
    pub(super) rows: usize,
    /// The least pause between two writes, in milliseconds; it is up to twice as long.
    pub(super) between_ms: u64,
    /// How long a query of the database takes, in milliseconds.
    pub(super) query_ms: u64,
    pub(super) event: fn(&Region, Duration),
}

impl Setting {
    pub(super) fn named(name: &str) -> Self {
        Setting {
            name: name.to_owned(),
            node: Vec::new(),
            nodes: 1,
            router: Vec::new(),
            route: r#""PoolRoute|n0""#,
            process: "",
            targets: "",
            has_neighbour: false,
            writers: Writers::Leave,
            readers: Readers::Leases,
            client: |client| client,
            rows: ROWS,
            between_ms: 10,
            query_ms: 0,
            event: |_, _| {},
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Found {
    reads: AtomicU64,
    older: AtomicU64,
    oldest_ms: AtomicU64,
    queries: AtomicU64,
    packets: u64,
}

impl Found {
    pub(super) fn row(&self, name: &str) -> Vec<String> {
        let [reads, older, oldest, queries] =
            [&self.reads, &self.older, &self.oldest_ms, &self.queries].map(|sum| sum.load(Ordering::Relaxed));
        vec![
            name.to_owned(),
            reads.to_string(),
            older.to_string(),
            format!("{:.2} %", 100.0 * older as f64 / reads.max(1) as f64),
            format!("{:.2}", oldest as f64 / 1000.0),
            queries.to_string(),
            self.packets.to_string(),
        ]
    }
}

/// When each version of each row was committed, since the beginning.
struct History {
    clock: Stopwatch,
    rows: Vec<Mutex<Vec<Duration>>>,
}

impl History {
    fn start() -> Self {
        let rows = (0..ROWS).map(|_| Mutex::new(vec![Duration::ZERO])).collect();
        History { clock: Stopwatch::start(), rows }
    }

    fn committed(&self, row: usize) {
        self.rows[row].lock().unwrap_or_else(PoisonError::into_inner).push(self.clock.elapsed());
    }

    /// How old a version was at a moment: how long the one after it had been committed.
    fn age(&self, row: usize, version: u64, at: Duration) -> Option<Duration> {
        let commits = self.rows[row].lock().unwrap_or_else(PoisonError::into_inner);
        commits.get(version as usize + 1).and_then(|next| at.checked_sub(*next))
    }
}

fn key(row: usize) -> String {
    format!("row:{row}")
}

/// A node for each pool, and a router before them.
fn cluster(context: &Context, setting: &Setting, scratch: &Scratch, name: &str) -> Cluster {
    let node =
        |number| Member::node(&context.guira, scratch.file(&format!("{name}-{number}")), &setting.node);
    let nodes: Vec<Member> = (0..setting.nodes).map(node).collect();
    let pool =
        |(number, node): (usize, &Member)| format!(r#""n{number}": {{"servers": ["{}"]}}"#, node.address());
    let pools: Vec<String> = nodes.iter().enumerate().map(pool).collect();
    let text = format!(r#"{{"pools": {{{}}}, "route": {}}}"#, pools.join(", "), setting.route);
    let logged = scratch.file(&format!("{name}-logged"));
    Cluster::with_configuration(&context.guira, scratch.file(name), nodes, &text, &logged, &setting.router)
}

pub(super) fn run(context: &Context, database: &Arc<MariaDb>, setting: &Setting) -> Found {
    let length = context.scale.pick(LENGTH, QUICK);
    database.execute("UPDATE shop.rows SET version = 0");
    let scratch = Scratch::new();
    let mut clusters = vec![cluster(context, setting, &scratch, "cluster")];
    if setting.has_neighbour {
        clusters.push(cluster(context, setting, &scratch, "neighbour"));
    }
    let settings = Settings {
        process: setting.process.replace("SPOOL", &scratch.file("spool").display().to_string()),
        targets: setting.targets.to_owned(),
        tables: "[[template]]\ndatabase = \"shop\"\ntable = \"rows\"\nkeys = [\"row:{id}\"]".to_owned(),
        ..Settings::default()
    };
    let region = Region::start(&context.guira, Arc::clone(database), clusters, None, &settings);
    let (history, mut found) = (History::start(), Found::default());
    let cache = (setting.client)(LookAside::new(region.clusters[0].target(TIMEOUT)));
    std::thread::scope(|scope| {
        let (region, history, found) = (&region, &history, &found);
        let worker = |number: u64| Worker {
            setting,
            region,
            history,
            found,
            cache: cache.clone(),
            session: database.session(),
            random: Random::new(context.seed * 100 + number),
        };
        let mut writer = worker(0);
        scope.spawn(move || writer.write(length));
        for number in 0..READERS as u64 {
            let mut reader = worker(number + 1);
            scope.spawn(move || reader.read(length));
        }
        (setting.event)(region, length);
    });
    found.packets = region.metric("guira_invalidator_target_packets_total").unwrap_or(0);
    found
}

struct Worker<'a> {
    setting: &'a Setting,
    region: &'a Region,
    history: &'a History,
    found: &'a Found,
    cache: LookAside,
    session: Session,
    random: Random,
}

impl Worker<'_> {
    fn pause(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_micros(self.random.below(1000 * most_ms + 1)));
    }

    fn row(&mut self) -> usize {
        self.random.below(self.setting.rows as u64) as usize
    }

    fn write(&mut self, length: Duration) {
        while self.history.clock.elapsed() < length {
            let row = self.row();
            let text = format!("UPDATE shop.rows SET version = version + 1 WHERE id = {row}; SELECT 1");
            let (session, history) = (&mut self.session, self.history);
            let mut commit = || {
                session.row(&text);
                history.committed(row);
            };
            match self.setting.writers {
                Writers::Leave => commit(),
                Writers::Delete => {
                    let written = self.cache.write_through_delete(&[&key(row)], |_| {
                        commit();
                        Ok::<_, Infallible>(())
                    });
                    written.expect("no write fails");
                }
            }
            std::thread::sleep(Duration::from_millis(self.setting.between_ms));
            self.pause(self.setting.between_ms);
        }
    }

    fn read(&mut self, length: Duration) {
        while self.history.clock.elapsed() < length {
            let (row, began) = (self.row(), self.history.clock.elapsed());
            let version = match self.setting.readers {
                Readers::Leases => self.leased(row),
                // A cache that does not answer is a miss.
                Readers::Plain(command, late_ms) => {
                    self.plain(row, command, late_ms).unwrap_or_else(|_| self.query(row))
                }
            };
            self.found.reads.fetch_add(1, Ordering::Relaxed);
            if let Some(age) = self.history.age(row, version, began) {
                self.found.older.fetch_add(1, Ordering::Relaxed);
                self.found.oldest_ms.fetch_max(age.as_millis() as u64, Ordering::Relaxed);
            }
            self.pause(4);
        }
    }

    fn query(&mut self, row: usize) -> u64 {
        self.found.queries.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(self.setting.query_ms));
        self.session
            .row(&format!("SELECT version FROM shop.rows WHERE id = {row}"))
            .parse()
            .expect("a version")
    }

    fn leased(&mut self, row: usize) -> u64 {
        let cache = self.cache.clone();
        let found = cache.get_or_fill(&key(row), |_| {
            Ok::<_, Infallible>(Some(Value::new("").with_version(self.query(row))))
        });
        found.expect("no fill fails").and_then(|value| value.version()).expect("each has a version")
    }

    fn plain(&mut self, row: usize, command: &str, late_ms: u64) -> Result<u64, TextError> {
        let entrance = self.region.clusters[0].entrance();
        let cached = entrance.value(&key(row))?;
        if let Some(version) = cached.and_then(|value| String::from_utf8(value).ok()?.parse().ok()) {
            return Ok(version);
        }
        let version = self.query(row);
        self.pause(late_ms);
        let text = version.to_string();
        let mut connection = Connection::open(&entrance.target(TIMEOUT))?;
        connection.send(format!("{command} {} 0 0 {}\r\n{text}\r\n", key(row), text.len()).as_bytes())?;
        connection.line()?;
        Ok(version)
    }
}
