//! The programs of a region as processes of the machine.

use crate::database::{self, Database};
use guira_invalidator::{Command, Config};
use guira_router::plain_options::plain_options;
use guira_router::{LogOptions, LogSync, LogVersion, RouterOptions};
use guira_server::{GivenOptions, Options as NodeOptions, Secrets};
use guira_world::disk;
use guira_world::net::set_host;
use guira_world::scheduler::{Process, draw, start};
use guira_world::thread::{park, sleep};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The port of every server.
pub(crate) const PORT: u16 = 11211;

/// How long clients work, in the world's time.
pub(crate) const TIME: Duration = Duration::from_secs(20);
const ENGINES: [&str; 5] = ["memc3", "classic", "fleec", "mica", "mica:erew"];

pub(crate) fn an_engine() -> &'static str {
    ENGINES[draw(ENGINES.len() as u64) as usize]
}

pub(crate) fn host(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

/// The address of the server of a host.
pub(crate) fn server(number: u8) -> SocketAddr {
    SocketAddr::new(host(number), PORT)
}

/// A program that can be started again.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    Node(&'static str),
    Router(RouterPlan),
    Database(Arc<Mutex<Database>>),
    /// From the database to the router; after a gap `flushed` are emptied.
    Invalidator {
        database: u8,
        router: u8,
        flushed: Vec<u8>,
    },
}

/// What a router has behind, by hosts.
#[derive(Clone, Debug)]
pub(crate) struct RouterPlan {
    pub(crate) nodes: Vec<u8>,
    pub(crate) gutter: Option<u8>,
    pub(crate) deletes: Deletes,
}

/// What a router does with deletes that a server does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletes {
    Refused,
    Logged,
    /// Logged, and acknowledged when they are on the disk.
    Synced,
}

impl Program {
    pub(crate) fn start(&self, number: u8) -> Process {
        let program = self.clone();
        let name = match self {
            Program::Node(_) => "node",
            Program::Router(_) => "router",
            Program::Database(_) => "database",
            Program::Invalidator { .. } => "invalidator",
        };
        let process = start(&format!("{name} {number}"), move || program.run(number));
        set_host(process, host(number));
        process
    }

    fn run(&self, number: u8) {
        match self {
            Program::Node(engine) => {
                let options = node_options(engine, server(number));
                let secrets = Secrets::load(&options).expect("there are none");
                let started = guira_node::start_after(&options, secrets, Vec::new(), None);
                let _running = started.expect("a node starts");
                wait();
            }
            Program::Router(plan) => {
                let options = router_options(plan, server(number));
                let _running = guira_router::start(&options, Vec::new()).expect("a router starts");
                wait();
            }
            Program::Database(database) => database::serve(database, server(number)),
            Program::Invalidator { database, router, flushed } => loop {
                // A disk that fails may keep an invalidator from starting: the supervisor starts it again.
                let ended = invalidate(&invalidator_options(*database, *router, flushed));
                if let Err(error) = ended {
                    assert!(!error.contains("corrupt"), "{error}");
                }
                sleep(Duration::from_millis(500));
            },
        }
    }
}

/// Runs an invalidator until it ends.
fn invalidate(options: &str) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| error.to_string();
    // A folder that an administrator has made.
    disk::create_dir_all("/guira").map_err(|error| failed(&error))?;
    disk::File::open("/").and_then(|root| root.sync_all()).map_err(|error| failed(&error))?;
    disk::write("/guira/invalidator.toml", options).map_err(|error| failed(&error))?;
    let config = Config::load(Path::new("/guira/invalidator.toml")).map_err(|error| failed(&error))?;
    let running = guira_invalidator::start(config).map_err(|error| failed(&error))?;
    running.run(|| Command::Continue).map_err(|error| failed(&error))
}

/// Until the process is killed.
fn wait() {
    loop {
        park();
    }
}

fn node_options(engine: &str, listen: SocketAddr) -> NodeOptions {
    let (name, access) = engine.split_once(':').map_or((engine, None), |(name, access)| (name, Some(access)));
    let mut given = GivenOptions::new();
    given.insert("listen", vec![listen.to_string()]);
    given.insert("memory", vec!["8MiB".to_owned()]);
    given.insert("workers", vec!["2".to_owned()]);
    given.insert("engine", vec![name.to_owned()]);
    given.extend(access.map(|access| ("access", vec![access.to_owned()])));
    NodeOptions::read(&given).expect("a node can have these options")
}

fn router_options(plan: &RouterPlan, listen: SocketAddr) -> RouterOptions {
    let list = |hosts: &[u8]| {
        let servers: Vec<String> = hosts.iter().map(|number| format!("\"{}\"", server(*number))).collect();
        format!("{{\"servers\": [{}]}}", servers.join(", "))
    };
    let nodes = list(&plan.nodes);
    let config = match plan.gutter {
        None => format!(r#"{{"pools": {{"nodes": {nodes}}}, "route": "PoolRoute|nodes"}}"#),
        Some(gutter) => format!(
            r#"{{"pools": {{"nodes": {nodes}, "gutter": {}}},
                "route": {{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|nodes",
                           "failover": "PoolRoute|gutter", "failover_exptime": 2}}}}"#,
            list(&[gutter])
        ),
    };
    let mut options = plain_options(config, Duration::from_secs(1));
    options.listen = vec![listen.to_string().parse().expect("an address")];
    options.workers = 2;
    // A node that is up again is in use again within the run.
    options.health.probe_initial = Duration::from_millis(100);
    options.health.probe_max = Duration::from_secs(1);
    options.limits.connections = 1024;
    options.limits.client_requests = 1024;
    if plan.deletes != Deletes::Refused {
        let folder = PathBuf::from("/deletes");
        // The folder is on the disk since long ago, or the router does not start.
        while disk::create_dir_all(&folder).and_then(|()| disk::File::open("/")?.sync_all()).is_err() {
            sleep(Duration::from_millis(100));
        }
        let sync = if plan.deletes == Deletes::Synced { LogSync::Always } else { LogSync::Never };
        let replay_rate = NonZeroU32::new(10_000);
        options.deletes = Some(LogOptions { folder, version: LogVersion::Two, sync, replay_rate });
    }
    options
}

/// Half of the invalidators send each delete once.
fn invalidator_options(database: u8, router: u8, flushed: &[u8]) -> String {
    let flush: Vec<String> = flushed.iter().map(|node| format!("\"{}\"", server(*node))).collect();
    let again = if draw(2) == 0 { 0 } else { 500 };
    format!(
        r#"
        position = "/guira/position"
        spool = "/guira/spool"
        spool-after-ms = 500
        queue-batches = 1
        batch-keys = 4
        on-gap = "flush"

        [source.modelled]
        address = "{}"

        [[template]]
        database = "shop"
        table = "items"
        keys = ["item:{{id}}"]

        [[target]]
        name = "router"
        address = "{}"
        timeout-ms = 2000
        again-after-ms = {again}
        flush = [{}]
        "#,
        server(database),
        server(router),
        flush.join(", ")
    )
}
