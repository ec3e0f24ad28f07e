//! A region: a database, clusters of caches, a pool for remote markers, and the invalidator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use guira_client::text::Target;
use guira_harness::deadline::Deadline;
use guira_harness::scratch::Scratch;

use crate::database::MariaDb;
use crate::http;
use crate::member::Member;
use crate::progress::{Progress, has_files};

/// How long databases may take until one has what the other says.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes that clients reach by a router, or one that they reach directly.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Member>,
    router: Option<Member>,
    /// Where the router logs deletes that it could not deliver.
    logged: Option<PathBuf>,
}

impl Cluster {
    /// A node that clients talk to themselves.
    pub fn of_node(node: Member) -> Self {
        Cluster { nodes: vec![node], router: None, logged: None }
    }

    /// Nodes behind a router with this socket, which logs deletes in the folder `logged`, and has these arguments too. `route` is its route; the pool of
    /// the nodes is called `all`.
    ///
    /// # Panics
    /// If the router does not start.
    #[track_caller]
    pub fn behind_router(
        guira: &Path,
        socket: PathBuf,
        nodes: Vec<Member>,
        route: &str,
        logged: &Path,
        arguments: &[&str],
    ) -> Self {
        let servers: Vec<String> = nodes.iter().map(|node| format!("\"{}\"", node.address())).collect();
        let text =
            format!(r#"{{"pools": {{"all": {{"servers": [{}]}}}}, "route": {route}}}"#, servers.join(", "));
        Self::with_configuration(guira, socket, nodes, &text, logged, arguments)
    }

    /// The same with a configuration of the caller's.
    ///
    /// # Panics
    /// If the router does not start.
    #[track_caller]
    pub fn with_configuration(
        guira: &Path,
        socket: PathBuf,
        nodes: Vec<Member>,
        configuration: &str,
        logged: &Path,
        arguments: &[&str],
    ) -> Self {
        fs::create_dir_all(logged).expect("the folder of logged deletes can be made");
        let mut all =
            vec![format!("--config-str={configuration}"), format!("--async-dir={}", logged.display())];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let guira = guira.to_owned();
        let router = Member::start(socket, move |socket| {
            let mut command = Command::new(&guira);
            command.args(["router", "--listen"]).arg(format!("unix:{}", socket.display())).args(&all);
            command
        });
        Cluster { nodes, router: Some(router), logged: Some(logged.to_owned()) }
    }

    /// Where clients go, and the invalidator.
    pub fn entrance(&self) -> &Member {
        self.router.as_ref().unwrap_or(&self.nodes[0])
    }

    /// Its entrance, for clients with this patience.
    pub fn target(&self, timeout: Duration) -> Target {
        self.entrance().target(timeout)
    }

    pub fn nodes(&self) -> &[Member] {
        &self.nodes
    }

    /// Whether its router has logged deletes that it has not delivered.
    pub fn owes_deletes(&self) -> bool {
        self.logged.as_deref().is_some_and(has_files)
    }
}

/// What the configuration of an invalidator says beside its source and its targets.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Lines for the process, such as `batch-keys = 100`.
    pub process: String,
    /// Lines for each target, such as `linger-ms = 1`.
    pub targets: String,
    /// Tables such as `[[template]]`.
    pub tables: String,
    /// Whether a gap flushes the nodes in place of their router.
    pub flush: Flush,
    pub hints: Option<String>,
}

/// What is flushed after a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    #[default]
    Targets,
    Nodes,
}

/// A database, its clusters, and what deletes from their caches what the database's log says.
#[derive(Debug)]
pub struct Region {
    pub database: Arc<MariaDb>,
    pub clusters: Vec<Cluster>,
    /// The pool of remote markers of its writers.
    pub markers: Option<Member>,
    pub invalidator: Member,
    scratch: Scratch,
}

impl Region {
    /// A region of these parts, whose invalidator reads the log.
    ///
    /// # Panics
    /// If the invalidator does not begin to read.
    #[track_caller]
    pub fn start(
        guira: &Path,
        database: impl Into<Arc<MariaDb>>,
        clusters: Vec<Cluster>,
        markers: Option<Member>,
        settings: &Settings,
    ) -> Self {
        let (database, scratch) = (database.into(), Scratch::new());
        let mut text = format!(
            "position = {:?}\nadmin = \"unix:{}\"\n{}\n[source.mariadb]\naddress = \"{}\"\nuser = \"guira\"\npassword-file = {:?}\nserver-id = 4242\n{}\n",
            scratch.file("position"),
            scratch.file("admin").display(),
            settings.process,
            database.address(),
            scratch.write("password", "secret\n"),
            settings.tables,
        );
        let mut target = |name: &str, member: &Member, flush: Option<&[Member]>| {
            let list = |nodes: &[Member]| {
                let nodes: Vec<String> = nodes.iter().map(|node| format!("\"{}\"", node.address())).collect();
                format!("flush = [{}]\n", nodes.join(", "))
            };
            let flush = flush.map_or_else(String::new, list);
            text += &format!(
                "[[target]]\nname = \"{name}\"\naddress = \"{}\"\n{flush}{}\n",
                member.address(),
                settings.targets
            );
        };
        for (number, cluster) in clusters.iter().enumerate() {
            let nodes = (settings.flush == Flush::Nodes).then(|| cluster.nodes());
            target(&format!("cluster-{number}"), cluster.entrance(), nodes);
        }
        if let Some(markers) = &markers {
            // Those of writes whose change is still to come are of use after a gap.
            target("markers", markers, Some(&[]));
        }
        if let Some(hints) = &settings.hints {
            text += &format!("[[target]]\nname = \"checker\"\naddress = \"{hints}\"\nagain-after-ms = 0\n");
        }
        let file = scratch.write("invalidator.toml", &text);
        let guira = guira.to_owned();
        let invalidator = Member::start(scratch.file("admin"), move |_| {
            let mut command = Command::new(&guira);
            command.args(["invalidate", "--config"]).arg(&file);
            command
        });
        let region = Region { database, clusters, markers, invalidator, scratch };
        let reads = || region.is_read().then_some(());
        Deadline::after(PATIENCE).poll(reads).unwrap_or_else(|| panic!("{}", region.invalidator.log()));
        region
    }

    /// Whether the invalidator reads the log.
    pub fn is_read(&self) -> bool {
        self.invalidator.page("/ready").is_some()
    }

    /// A metric of the invalidator, summed over targets; `None` while it is away.
    pub fn metric(&self, name: &str) -> Option<u64> {
        http::metric(&self.invalidator.page("/metrics")?, name)
    }

    /// Whether all deletes of the log up to this position, the number behind the last dash of a GTID, have come to all caches of one cluster: its target has
    /// acknowledged them, for the second time too, and its router has none of them left.
    pub fn has_delivered_to(&self, cluster: usize, position: u64) -> bool {
        let progress =
            Progress { position: self.scratch.file("position"), admin: self.invalidator.socket().to_owned() };
        // The spools of an invalidator count what a router has logged as delivered: so these are looked at last.
        progress.has_delivered(&format!("cluster-{cluster}"), position)
            && !self.clusters[cluster].owes_deletes()
    }
}

/// Makes `replica` one of `master`, which lags by so many seconds.
///
/// # Panics
/// If a statement is refused.
#[track_caller]
pub fn replicate(master: &MariaDb, replica: &MariaDb, lag_s: u64) {
    let address = master.address();
    replica.execute(&format!(
        "CHANGE MASTER TO MASTER_HOST = '{}', MASTER_PORT = {}, MASTER_USER = 'guira', MASTER_PASSWORD = 'secret', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1, MASTER_DELAY = {lag_s};
         START SLAVE;",
        address.ip(),
        address.port()
    ));
}

/// A master that has executed these statements, and its replica, which has them too. `None` when the database is not installed.
///
/// # Panics
/// If one of them does not start, or a statement is refused.
#[track_caller]
pub fn pair(lag_s: u64, statements: &str) -> Option<[MariaDb; 2]> {
    let (master, replica) = (MariaDb::start_as(1)?, MariaDb::start_as(2)?);
    prepare(&master, statements);
    replicate(&master, &replica, lag_s);
    let position = master.execute("SELECT @@gtid_binlog_pos");
    let has_all = || (replica.run("SELECT @@gtid_slave_pos") == Ok(position.clone())).then_some(());
    Deadline::after(PATIENCE).poll(has_all).expect("the first rows come to the replica");
    Some([master, replica])
}

/// Makes the user of replicas and invalidators, and executes these statements.
///
/// # Panics
/// If one is refused.
#[track_caller]
pub fn prepare(database: &MariaDb, statements: &str) {
    database.execute(&format!(
        "CREATE USER guira@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO guira@'127.0.0.1';
         {statements}"
    ));
}
