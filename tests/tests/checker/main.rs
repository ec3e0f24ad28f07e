//! The checker beside a small system: a real database, two clusters, an invalidator, and readers and writers. Bugs are planted in it, and each is found.
#![forbid(unsafe_code)]

mod bugs;
mod hints;
mod postgres;

use guira_client::lookaside::{Database, LookAside, Value};
use guira_client::text::Target;
use guira_harness::server::ServerProcess;
use guira_sync::atomic::{AtomicBool, Ordering};
use guira_tests::deadline::{Deadline, PATIENCE, SetAtEnd};
use guira_tests::http::HttpClient;
use guira_tests::mariadb::MariaDb;
use guira_tests::random::Random;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, guira, listening};
use guira_tests::{Server, Setup, skip};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long something may take on a machine that is busy.
const ARRIVAL_MAX: Duration = Duration::from_secs(60);
/// Rows that are read and written all the time, and those that a test has for itself.
const KEYS: u64 = 100;
const OWN: u64 = 1000;

/// A database, two clusters of one node each, and what the programs between them need.
struct System {
    database: MariaDb,
    nodes: [Server; 2],
    scratch: Scratch,
}

impl System {
    /// `None` when the database is not installed.
    fn start() -> Option<Self> {
        let Some(database) = MariaDb::start() else {
            skip::say("MariaDB is not installed (Debian: mariadb-server)");
            return None;
        };
        let rows: Vec<String> = (0..KEYS).chain([OWN]).map(|id| format!("({id}, 'old', 0)")).collect();
        database.execute(&format!(
            "CREATE USER guira@'127.0.0.1' IDENTIFIED BY 'secret';
             GRANT REPLICATION SLAVE, BINLOG MONITOR, SELECT ON *.* TO guira@'127.0.0.1';
             CREATE DATABASE shop;
             CREATE TABLE shop.users (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(100), version BIGINT UNSIGNED);
             INSERT INTO shop.users VALUES {}",
            rows.join(",")
        ));
        let nodes = [(); 2].map(|()| Setup::new().start_guira());
        let scratch = Scratch::new();
        scratch.write("password", "secret\n");
        Some(System { database, nodes, scratch })
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        self.nodes.each_ref().map(address)
    }

    /// A checker of every hint, with the clusters east and west at these addresses.
    fn checker(&self, clusters: [SocketAddr; 2]) -> Checker {
        let [east, west] = clusters;
        let (database, password) = (self.database.address(), self.scratch.file("password"));
        let text = format!(
            r#"
listen = "unix:{}"
admin = "127.0.0.1:0"
sample = 1
delays-ms = [1000, 4000]
[database.mariadb]
address = "{database}"
database = "shop"
user = "guira"
password-file = {password:?}
[[check]]
key = "user:{{id}}"
query = "SELECT name, version FROM users WHERE id = {{id}}"
[[cluster]]
name = "east"
region = "master"
address = "{east}"
[[cluster]]
name = "west"
region = "replica"
address = "{west}"
"#,
            self.scratch.file("hints").display()
        );
        Checker::start(&self.scratch.write("checker.toml", &text))
    }

    /// An invalidator that deletes keys of this template from these targets, each with its name and settings.
    fn invalidator(&self, name: &str, template: &str, targets: &[(&str, &str, &str)]) -> ServerProcess {
        let number = 4242 + name.len();
        let mut text = format!(
            r#"
position = {:?}
admin = "127.0.0.1:0"
[source.mariadb]
address = "{}"
user = "guira"
password-file = {:?}
server-id = {number}
[[template]]
database = "shop"
table = "users"
keys = ["{template}"]
"#,
            self.scratch.file(&format!("{name}.position")),
            self.database.address(),
            self.scratch.file("password"),
        );
        for (name, address, settings) in targets {
            text += &format!("[[target]]\nname = \"{name}\"\naddress = \"{address}\"\n{settings}\n");
        }
        let file = self.scratch.write(&format!("{name}.toml"), &text);
        let mut command = guira(["invalidate", "-v", "--config"]);
        command.arg(file);
        let (invalidator, admin) = listening(command, "admin");
        wait_until("the log", || HttpClient::connect(admin).get("/ready", "").status == 200);
        invalidator
    }

    /// An invalidator as it should be.
    fn good_invalidator(&self, clusters: [SocketAddr; 2], checker: &Checker) -> ServerProcess {
        let [east, west] = &clusters.map(|address| address.to_string());
        let targets: [(&str, &str, &str); 3] =
            [("east", east, ""), ("west", west, ""), ("checker", &checker.hints, "again-after-ms = 0")];
        self.invalidator("good", "user:{id}", &targets)
    }

    /// The row that a test has for itself.
    fn set_own(&self, name: &str) {
        self.database.execute(&format!(
            "UPDATE shop.users SET name = '{name}', version = version + 1 WHERE id = {OWN}"
        ));
    }

    /// Readers of both clusters and a writer, for as long as `meanwhile` takes.
    fn with_load(&self, seed: u64, meanwhile: impl FnOnce()) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (number, node) in self.nodes.iter().enumerate() {
                let is_over = &is_over;
                let mut session = self.database.session();
                let cache = LookAside::new(target(node)).expiry(Duration::from_secs(3600));
                let mut random = Random::new(seed * 10 + number as u64);
                scope.spawn(move || {
                    // Relaxed: it ends a loop.
                    while !is_over.load(Ordering::Relaxed) {
                        let id = random.below(KEYS);
                        let query = format!("SELECT CONCAT(name, ' ', version) FROM shop.users WHERE id = {id}");
                        let fill = |_: Database| {
                            let row = session.row(&query);
                            let (name, version) = row.split_once(' ').expect("two columns");
                            let value = Value::new(name).with_version(version.parse().expect("a number"));
                            Ok::<_, Infallible>(Some(value))
                        };
                        cache.get_or_fill(&key(id), fill).expect("no fill fails");
                        if number == 0 && random.once_in(10) {
                            session.row(&format!(
                                "UPDATE shop.users SET name = 'name{}', version = version + 1 WHERE id = {id}; SELECT 1",
                                random.below(1000)
                            ));
                        }
                        std::thread::sleep(Duration::from_millis(random.below(10)));
                    }
                });
            }
            let _end = SetAtEnd(&is_over);
            meanwhile();
        });
    }
}

fn key(id: u64) -> String {
    format!("user:{id}")
}

fn address(server: &Server) -> SocketAddr {
    match server.address() {
        Address::Tcp(address) => *address,
        Address::Unix(path) => panic!("{path:?}"),
    }
}

fn target(server: &Server) -> Target {
    Target::new(address(server).to_string().parse().expect("an address"), PATIENCE)
}

/// Waits until something is so.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    Deadline::after(ARRIVAL_MAX)
        .poll(|| is_so().then_some(()))
        .unwrap_or_else(|| panic!("{what} did not come"));
}

/// A running checker, killed on drop.
struct Checker {
    process: ServerProcess,
    admin: SocketAddr,
    hints: String,
}

impl Checker {
    #[track_caller]
    fn start(configuration: &Path) -> Self {
        let mut command = guira(["check", "-v", "--config"]);
        command.arg(configuration);
        let (mut process, admin) = listening(command, "admin");
        let place = |lines: &[String]| {
            lines.iter().find_map(|line| line.strip_prefix("listening on hints ").map(str::to_owned))
        };
        let hints = process.wait_for("place of hints", PATIENCE, place).unwrap();
        Checker { process, admin, hints }
    }

    /// The value of a metric, with its labels if it has some.
    #[track_caller]
    fn metric(&self, name: &str) -> u64 {
        let body = HttpClient::connect(self.admin).get("/metrics", "").body;
        let value = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {body}"))
    }

    #[track_caller]
    fn looks(&self, delay: &str, cluster: &str, outcome: &str) -> u64 {
        let labels = format!("{{delay=\"{delay}\",cluster=\"{cluster}\",outcome=\"{outcome}\"}}");
        self.metric(&format!("guira_checker_looks_total{labels}"))
    }

    /// Waits until an inconsistency was found at the last delay in this cluster, ends the checker, and returns its report.
    #[track_caller]
    fn find(self, cluster: &str) -> Vec<String> {
        let is_found = || (self.looks("4", cluster, "inconsistent") > 0).then_some(());
        if Deadline::after(ARRIVAL_MAX).poll(is_found).is_none() {
            panic!("nothing was found: {:?}", self.end());
        }
        self.end()
    }

    /// Ends it, and returns its report.
    #[track_caller]
    fn end(mut self) -> Vec<String> {
        self.process.end().unwrap();
        self.process.lines()
    }
}

/// The lines of a report that tell of inconsistencies.
fn examples(report: &[String]) -> Vec<&String> {
    report
        .iter()
        .filter(|line| line.contains(": hint at ") || line.contains(": change found in the database at "))
        .collect()
}
