//! The same with PostgreSQL.

use crate::{Checker, address, examples, wait_until};
use guira_tests::postgres::Postgres;
use guira_tests::scratch::Scratch;
use guira_tests::{Server, Setup, skip};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;

/// Users, and names that are keys as they are.
fn fill(database: &Postgres) {
    database.execute("postgres", "CREATE DATABASE shop");
    database.execute(
        "shop",
        "CREATE USER guira PASSWORD 'secret';
         CREATE TABLE users (id bigint PRIMARY KEY, name text, raw bytea);
         CREATE TABLE names (name text PRIMARY KEY, note text);
         GRANT SELECT ON users, names TO guira;
         INSERT INTO users VALUES (1, 'Ada', '\\x00ff'), (2, 'Grace', '\\x41');
         INSERT INTO names VALUES ('it''s', 'quoted')",
    );
}

fn configuration(database: &Postgres, node: &Server, scratch: &Scratch) -> PathBuf {
    let password = scratch.write("password", "secret\n");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let text = format!(
        r#"
listen = "{}"
admin = "127.0.0.1:0"
sample = 1
delays-ms = [500, 4000]
[database.postgres]
address = "{}"
database = "shop"
user = "guira"
password-file = {password:?}
[[check]]
key = "user:{{id}}"
query = "SELECT name FROM users WHERE id = {{id}}"
[[check]]
key = "raw:{{id}}"
query = "SELECT raw FROM users WHERE id = {{id}}"
[[check]]
key = "name:{{name}}"
query = "SELECT note FROM names WHERE name = {{name}}"
[[cluster]]
name = "east"
address = "{}"
"#,
        free.expect("a port is free"),
        database.address(),
        address(node)
    );
    scratch.write("checker.toml", &text)
}

#[test]
fn rows_of_a_postgresql_are_compared_whatever_keys_hold() {
    let Some(database) = Postgres::start("") else {
        return skip::say("PostgreSQL is not installed (Debian: postgresql)");
    };
    fill(&database);
    let (node, scratch) = (Setup::new().start_guira(), Scratch::new());
    let checker = Checker::start(&configuration(&database, &node, &scratch));
    let mut client = node.connect();
    for (key, value) in [
        ("user:1", "Ada"),
        ("user:2", "Eve"),
        ("user:3", "nobody"),
        ("raw:2", "A"),
        ("name:it's", "quoted"),
        ("name:'--", "injected"),
    ] {
        client.set(key, value);
    }
    let mut hints = TcpStream::connect(&checker.hints).expect("it listens");
    let keys = ["user:1", "user:2", "user:3", "raw:2", "name:it's", "name:'--", "user:x"];
    let lines: String = keys.iter().map(|key| format!("md {key}\r\n")).collect();
    hints.write_all(format!("{lines}mn\r\n").as_bytes()).expect("it reads");
    let mut answers = [0; 4 * 7 + 4];
    hints.read_exact(&mut answers).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&answers), "NF\r\n".repeat(7) + "MN\r\n");
    wait_until("the end of all samples", || checker.metric("guira_checker_under_way") == 0);
    let report = checker.end();
    let mut found: Vec<_> = examples(&report)
        .iter()
        .map(|line| {
            let (key, _) = line.trim().split_once(' ').expect("a key");
            let (_, what) = line.split_once("the cache had ").expect("a value");
            format!("{key}: {what}")
        })
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "name:\\'--: 'injected' (8 bytes) instead of nothing",
            "user:2: 'Eve' (3 bytes) instead of 'Grace' (5 bytes)",
            "user:3: 'nobody' (6 bytes) instead of nothing",
        ],
        "{report:?}"
    );
    // A number that is none is the query's failure, and the next one is asked all the same.
    assert!(report.iter().any(|line| line.contains("user:x")), "{report:?}");
}
