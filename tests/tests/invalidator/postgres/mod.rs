//! The same with PostgreSQL.

mod connections;
mod deletes;
mod faults;
mod replay;
mod restarts;

use super::{Caches, Invalidator};
use guira_tests::deadline::Deadline;
use guira_tests::postgres::Postgres;
use guira_tests::scratch::Scratch;
use guira_tests::skip::say;
use std::path::PathBuf;

const PASSWORD: &str = "it's secret 😀";

/// A database, a cache of each kind, and what an invalidator between them needs.
struct Fleet {
    database: Postgres,
    caches: Caches,
    scratch: Scratch,
}

/// What a configuration says beside the usual.
#[derive(Clone, Copy, Default)]
struct Settings<'a> {
    /// Lines before the first table.
    top: &'a str,
    /// Lines of `[source.postgres]` with the address; over TCP without TLS if there are none.
    connection: &'a str,
}

impl Fleet {
    /// With these settings of the database. `None` when it is not installed.
    fn start(settings: &str) -> Option<Self> {
        let Some(database) = Postgres::start(settings) else {
            say("PostgreSQL is not installed (Debian: postgresql)");
            return None;
        };
        let quoted = PASSWORD.replace('\'', "''");
        database.execute("postgres", "CREATE DATABASE shop");
        database.execute(
            "shop",
            &format!(
                "CREATE USER guira REPLICATION PASSWORD '{quoted}';
                 CREATE TABLE users (id bigint PRIMARY KEY, name text, level int, tags text);
                 CREATE TABLE others (id int PRIMARY KEY);
                 CREATE TABLE outbox (id serial PRIMARY KEY, cached text);
                 ALTER TABLE users REPLICA IDENTITY FULL;
                 CREATE SCHEMA \"Größe\";
                 CREATE TABLE \"Größe\".\"T\" (\"Id\" int, id int, \"it's\" uuid, PRIMARY KEY (\"Id\"));
                 CREATE PUBLICATION \"my \"\"pub\" FOR ALL TABLES;"
            ),
        );
        Some(Fleet { database, caches: Caches::start(), scratch: Scratch::new() })
    }

    fn configuration(&self, settings: Settings<'_>) -> PathBuf {
        let password = self.scratch.write("password", &format!("{PASSWORD}\n"));
        let position = self.scratch.file("position");
        let Settings { top, connection } = settings;
        let tcp = format!("address = \"{}\"", self.database.address());
        let connection = if connection.is_empty() { &tcp } else { connection };
        let targets = self.caches.targets("again-after-ms = 0");
        let text = format!(
            r#"
position = {position:?}
admin = "127.0.0.1:0"
batch-keys = 100
{top}
[source.postgres]
{connection}
database = "shop"
user = "guira"
password-file = {password:?}
slot = "guira"
publication = "my \"pub"

[[template]]
table = "users"
keys = ["user:{{id}}", "name:{{name}}", "level:{{level}}:{{id}}"]

[[template]]
schema = "Größe"
table = "T"
keys = ["t:{{Id}}:{{it's}}", "small:{{id}}"]

[[outbox]]
table = "outbox"
column = "cached"
{targets}"#
        );
        self.scratch.write("invalidator.toml", &text)
    }

    fn invalidator(&self, settings: Settings<'_>) -> Invalidator {
        Invalidator::start_by(&self.configuration(settings))
    }

    fn execute(&self, statements: &str) -> String {
        self.database.execute("shop", statements)
    }

    /// Waits until everything was deleted that has been committed: a key of its own is named last.
    #[track_caller]
    fn catch_up(&self, last: &str) {
        self.caches.store([last]);
        self.execute(&format!("SELECT pg_logical_emit_message(true, 'mc', '{last}')"));
        self.caches.wait_for_delete(last);
    }

    /// What the database says of the slot; nothing if it is not there.
    fn slot(&self, column: &str) -> String {
        let text =
            self.execute(&format!("SELECT {column} FROM pg_replication_slots WHERE slot_name = 'guira'"));
        text.trim_end().to_owned()
    }

    /// Waits until the database knows that all of its log was acknowledged.
    #[track_caller]
    fn wait_until_confirmed(&self) {
        let end = self.execute("SELECT pg_current_wal_lsn()");
        let is_there = || self.slot(&format!("confirmed_flush_lsn >= '{}'", end.trim_end())) == "t";
        let confirmed = Deadline::after(super::ARRIVAL_MAX).poll(|| is_there().then_some(()));
        assert!(confirmed.is_some(), "{end} is not confirmed, but {}", self.slot("confirmed_flush_lsn"));
    }
}
