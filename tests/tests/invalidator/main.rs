//! The invalidator between a real database and two real caches.
#![forbid(unsafe_code)]

mod access;
mod command_line;
mod debezium;
mod deletes;
mod faults;
mod mysql;
mod postgres;
mod reload;
mod targets;

use guira_harness::server::ServerProcess;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::http::HttpClient;
use guira_tests::mariadb::MariaDb;
use guira_tests::mysql as mysql_server;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, guira, spawn};
use guira_tests::{Server, Setup};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long deletes may take on a machine that is busy.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);

/// A database, a cache of each kind, and what an invalidator between them needs.
struct Fleet {
    /// What its source is called: mariadb or mysql.
    product: &'static str,
    database: MariaDb,
    caches: Caches,
    scratch: Scratch,
}

impl Fleet {
    /// `None` when the database is not installed.
    fn start() -> Option<Self> {
        MariaDb::start().map(|database| Self::of("mariadb", "BINLOG MONITOR", database))
    }

    /// The same with a MySQL that has these settings.
    fn start_mysql(settings: &[&str]) -> Option<Self> {
        mysql_server::start(settings).map(|database| Self::of("mysql", "REPLICATION CLIENT", database))
    }

    fn of(product: &'static str, privilege: &str, database: MariaDb) -> Self {
        database.execute(&format!(
            "CREATE USER guira@'127.0.0.1' IDENTIFIED BY 'it''s secret';
             GRANT REPLICATION SLAVE, {privilege} ON *.* TO guira@'127.0.0.1';
             CREATE DATABASE shop;
             CREATE TABLE shop.users (
                 id BIGINT UNSIGNED PRIMARY KEY, year YEAR, price DECIMAL(10,3), at DATETIME(3), shape ENUM('a','b'),
                 name VARCHAR(300) CHARACTER SET utf8mb4, level TINYINT UNSIGNED);
             CREATE TABLE shop.others (id INT PRIMARY KEY);
             CREATE TABLE shop.outbox (id INT AUTO_INCREMENT PRIMARY KEY, cached TEXT);
             CREATE TABLE shop.ends (id INT AUTO_INCREMENT PRIMARY KEY);"
        ));
        Fleet { product, database, caches: Caches::start(), scratch: Scratch::new() }
    }

    /// The configuration, with these settings beside the others, and these of both targets.
    fn configuration(&self, settings: &str, of_targets: &str) -> PathBuf {
        let password = self.scratch.write("password", "it's secret\n");
        let targets = self.caches.targets(of_targets);
        let (position, address) = (self.scratch.file("position"), self.database.address());
        let product = self.product;
        // MySQL wants the password itself once, if nobody has proved it before.
        let key = if product == "mysql" { "ask-public-key = true" } else { "" };
        let text = format!(
            r#"
position = {position:?}
admin = "127.0.0.1:0"
batch-keys = 100
{settings}
[source.{product}]
address = "{address}"
{key}
user = "guira"
password-file = {password:?}
server-id = 4242

[[template]]
database = "shop"
table = "users"
keys = ["user:{{id}}", "name:{{name}}", "level:{{level}}:{{year}}"]

[[outbox]]
database = "shop"
table = "outbox"
column = "cached"

{targets}"#
        );
        self.scratch.write("invalidator.toml", &text)
    }

    /// Stores these keys in both caches.
    fn store(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) {
        self.caches.store(keys);
    }

    /// Those of these keys that a cache has, for each of them.
    fn kept<'a>(&self, keys: &[&'a str]) -> [BTreeSet<&'a str>; 2] {
        self.caches.kept(keys)
    }

    /// Waits until everything was deleted that has been committed: a key of its own is changed last.
    #[track_caller]
    fn catch_up(&self, last: &str) {
        self.store([last]);
        self.database.execute(&format!("/* mc: {last} */ INSERT INTO shop.ends VALUES ()"));
        self.caches.wait_for_delete(last);
    }
}

struct Caches([Server; 2]);

impl Caches {
    fn start() -> Self {
        let guira = Setup::new().start_guira();
        Caches([guira, Setup::new().start_peer().unwrap_or_else(|| Setup::new().start_guira())])
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        self.0.each_ref().map(|cache| match cache.address() {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("{path:?}"),
        })
    }

    /// The part of a configuration that names them, with these settings of both.
    fn targets(&self, of_targets: &str) -> String {
        let [east, west] = self.addresses();
        format!(
            r#"
[[target]]
name = "east"
address = "{east}"
{of_targets}

[[target]]
name = "west"
address = "{west}"
protocol = "classic"
{of_targets}
"#
        )
    }

    /// Stores these keys in both caches.
    fn store(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) {
        let keys: Vec<_> = keys.into_iter().collect();
        for cache in &self.0 {
            let mut client = cache.connect();
            for key in &keys {
                client.set(key.as_ref(), "value");
            }
        }
    }

    /// Those of these keys that a cache has, for each of them.
    fn kept<'a>(&self, keys: &[&'a str]) -> [BTreeSet<&'a str>; 2] {
        self.0.each_ref().map(|cache| {
            let mut client = cache.connect();
            keys.iter().copied().filter(|key| client.value(key).is_some()).collect()
        })
    }

    /// Waits until neither has this key.
    #[track_caller]
    fn wait_for_delete(&self, key: &str) {
        let is_gone = || self.kept(&[key]).iter().all(BTreeSet::is_empty).then_some(());
        Deadline::after(ARRIVAL_MAX).poll(is_gone).unwrap_or_else(|| panic!("{key} was not deleted"));
    }

    #[track_caller]
    fn expect_gone(&self, gone: &[&str], kept: &[&str]) {
        let all = [gone, kept].concat();
        let kept: BTreeSet<&str> = kept.iter().copied().collect();
        assert_eq!(self.kept(&all), [kept.clone(), kept]);
    }
}

/// A running invalidator, killed on drop.
struct Invalidator {
    process: ServerProcess,
}

impl Invalidator {
    /// One that deletes each key once.
    fn start(fleet: &Fleet, settings: &str) -> Self {
        Self::start_with(fleet, settings, "again-after-ms = 0")
    }

    fn start_with(fleet: &Fleet, settings: &str, of_targets: &str) -> Self {
        Self::start_by(&fleet.configuration(settings, of_targets))
    }

    /// One that connects to the database by its socket in the file system.
    fn start_by_socket(fleet: &Fleet, of_targets: &str) -> Self {
        fleet.database.execute(
            "CREATE USER guira@localhost IDENTIFIED BY 'it''s secret'; GRANT REPLICATION SLAVE ON *.* TO guira@localhost",
        );
        let text = std::fs::read_to_string(fleet.configuration("", of_targets)).expect("it was written");
        let (tcp, socket) = (fleet.database.address().to_string(), fleet.database.socket());
        let text = text.replace(&tcp, &format!("unix:{}", socket.display()));
        Self::start_by(&fleet.scratch.write("socket.toml", &text))
    }

    fn start_by(configuration: &Path) -> Self {
        let mut command = guira(["invalidate", "-v", "--config"]);
        command.arg(configuration);
        Invalidator { process: spawn(command) }
    }

    /// Waits until it reads the log.
    #[track_caller]
    fn wait_until_ready(&mut self) -> HttpClient {
        let admin = self.process.wait_for_address("admin", PATIENCE).unwrap();
        let is_ready = || (HttpClient::connect(admin).get("/ready", "").status == 200).then_some(());
        let ready = Deadline::after(ARRIVAL_MAX).poll(is_ready);
        assert!(ready.is_some(), "{}", self.process.errors());
        HttpClient::connect(admin)
    }
}

impl Invalidator {
    /// Waits until it ends by itself, with an error; returns what it says.
    #[track_caller]
    fn wait_for_fault(&mut self) -> String {
        let status = self.process.wait(ARRIVAL_MAX).unwrap();
        let errors = self.process.errors();
        assert_eq!(status.code(), Some(1), "{errors}");
        errors
    }

    #[track_caller]
    fn end(&mut self) {
        self.process.end().unwrap();
    }
}

#[track_caller]
fn metric(admin: &mut HttpClient, name: &str) -> u64 {
    known_metric(admin, name).unwrap_or_else(|| panic!("no {name}"))
}

/// The value of a metric that may not be there.
fn known_metric(admin: &mut HttpClient, name: &str) -> Option<u64> {
    let body = admin.get("/metrics", "").body;
    let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok())
}

/// Waits until so many bytes of the log are not acknowledged, while `meanwhile` is done again and again.
#[track_caller]
fn wait_for_lag(admin: &mut HttpClient, bytes: impl RangeBounds<u64>, meanwhile: impl Fn()) {
    let mut lag = None;
    let is_there = || {
        meanwhile();
        lag = known_metric(admin, "guira_invalidator_lag_bytes");
        lag.is_some_and(|lag| bytes.contains(&lag)).then_some(())
    };
    assert!(Deadline::after(ARRIVAL_MAX).poll(is_there).is_some(), "{lag:?}");
}
