//! The programs of a region as processes of the machine.

use crate::database::{self, Database};
use crate::etcd::{self, Etcd};
use guira_client::text::{Endpoint, Target};
use guira_control::{EtcdOptions, Member, MemberOptions};
use guira_disk::{Durability, Mode};
use guira_invalidator::{Command, Config};
use guira_router::plain_options::plain_options;
use guira_router::{LogOptions, LogSync, LogVersion, Reloading, RouterOptions, Source, Watches};
use guira_server::{GivenOptions, Options as NodeOptions, Secrets};
use guira_world::disk;
use guira_world::net::set_host;
use guira_world::scheduler::{Process, draw, start};
use guira_world::thread::{park, sleep};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The port of every server.
const PORT: u16 = 11211;
/// The hosts of clients and of the router.
pub(crate) const HOME: u8 = 100;
pub(crate) const ROUTER: u8 = 50;

/// How long clients work, in the world's time.
pub(crate) const TIME: Duration = Duration::from_secs(20);
/// The pool in etcd, how long a registration outlives its member, and how long a server must be gone to be replaced.
pub(crate) const ETCD_POOL: &str = "cache";
pub(crate) const LEASE: Duration = Duration::from_secs(2);
pub(crate) const HOLD_DOWN: Duration = Duration::from_secs(2);
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
    /// A node that evicts nothing.
    Markers(&'static str),
    Router(RouterPlan),
    Database(Arc<Mutex<Database>>),
    Invalidator(InvalidatorPlan),
    /// A member of a cluster.
    Etcd(Arc<Mutex<Etcd>>),
    /// The member beside the server of its host.
    Member(FollowingPlan),
    /// A router that follows the pool in etcd.
    Following(FollowingPlan),
}

/// An invalidator, and where it sends deletes.
#[derive(Clone, Debug)]
pub(crate) struct InvalidatorPlan {
    pub(crate) database: u8,
    pub(crate) targets: Vec<TargetPlan>,
    pub(crate) repeats: Repeats,
}

#[derive(Clone, Debug)]
pub(crate) struct TargetPlan {
    pub(crate) host: u8,
    /// Emptied after a gap.
    pub(crate) flushed: Vec<u8>,
    /// Put before each key.
    pub(crate) prefix: &'static str,
}

/// Whether deletes are sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// By half of the processes.
    Sometimes,
    /// Readers see a change some time after the log has it.
    Always,
}

/// The hosts of the cluster of etcd that a program uses.
#[derive(Clone, Debug)]
pub(crate) struct FollowingPlan {
    pub(crate) etcds: Vec<u8>,
}

/// The hosts behind a router, and its log.
#[derive(Clone, Debug)]
pub(crate) struct RouterPlan {
    pub(crate) nodes: Vec<u8>,
    pub(crate) gutter: Option<u8>,
    pub(crate) deletes: Deletes,
    pub(crate) warm: Option<WarmPlan>,
}

/// The warm cluster that fills the nodes of a router.
#[derive(Clone, Debug)]
pub(crate) struct WarmPlan {
    pub(crate) nodes: Vec<u8>,
    pub(crate) hold_off: &'static str,
    pub(crate) hold_off_s: u32,
    pub(crate) is_routed_to: bool,
}

/// The routing prefixes of a router's own cluster, and of a warm cluster that it routes to.
const OWN: &str = "/region/cold/";
const OTHER: &str = "/region/warm/";
/// The prefix of deletes in all clusters.
pub(crate) const EVERYWHERE: &str = "/*/*/";

impl WarmPlan {
    /// The pool, and the route that fills the nodes behind `cold`.
    fn config(&self, cold: &str) -> (String, String) {
        let WarmPlan { nodes, hold_off, hold_off_s, .. } = self;
        let route = format!(
            r#"{{"type": "WarmUpRoute", "name": "new cluster", "cold": {cold}, "warm": "PoolRoute|warm",
                "enable_metaget": true, "hold_off": "{hold_off}", "hold_off_s": {hold_off_s}}}"#
        );
        (format!(r#", "warm": {}"#, servers(nodes)), route)
    }
}

/// A pool's object with these servers.
fn servers(hosts: &[u8]) -> String {
    let servers: Vec<String> = hosts.iter().map(|number| format!("\"{}\"", server(*number))).collect();
    format!("{{\"servers\": [{}]}}", servers.join(", "))
}

/// How a router treats deletes that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletes {
    Refused,
    Logged,
    /// Logged, and acknowledged after a sync.
    Synced,
}

impl Program {
    pub(crate) fn start(&self, number: u8) -> Process {
        let program = self.clone();
        let name = match self {
            Program::Node(_) => "node",
            Program::Markers(_) => "markers",
            Program::Router(_) => "router",
            Program::Database(_) => "database",
            Program::Invalidator(_) => "invalidator",
            Program::Etcd(_) => "etcd",
            Program::Member(_) => "member",
            Program::Following(_) => "router",
        };
        let process = start(&format!("{name} {number}"), move || program.run(number));
        set_host(process, host(number));
        process
    }

    pub(crate) fn router_plan(&self) -> Option<&RouterPlan> {
        if let Program::Router(plan) = self { Some(plan) } else { None }
    }

    pub(crate) fn is_node(&self) -> bool {
        matches!(self, Program::Node(_))
    }

    /// Whether it keeps files.
    pub(crate) fn has_disk(&self) -> bool {
        matches!(self, Program::Router(_) | Program::Invalidator(_))
    }

    fn run(&self, number: u8) {
        match self {
            Program::Node(engine) => serve(&node_options(engine, server(number), Evictions::On)),
            Program::Markers(engine) => serve(&node_options(engine, server(number), Evictions::Off)),
            Program::Router(plan) => {
                if disk::metadata(CONFIG).is_err() {
                    install(CONFIG, &plan.config());
                }
                route(&router_options(plan, server(number)));
            }
            Program::Database(database) => database::serve(database, server(number)),
            Program::Invalidator(plan) => loop {
                // A disk that fails may keep an invalidator from starting: the supervisor starts it again.
                let ended = invalidate(&invalidator_options(plan));
                if let Err(error) = ended {
                    assert!(!error.contains("corrupt"), "{error}");
                }
                sleep(Duration::from_millis(500));
            },
            Program::Etcd(etcd) => etcd::serve(etcd, server(number)),
            Program::Member(plan) => register(plan, server(number)),
            Program::Following(plan) => route(&following_options(plan, server(number))),
        }
    }
}

/// Runs a node.
fn serve(options: &NodeOptions) {
    let secrets = Secrets::load(options).expect("there are none");
    let started = guira_node::start_after(options, secrets, Vec::new(), None);
    let _running = started.expect("a node starts");
    wait();
}

/// Runs a router. A supervisor starts one again that a bad disk, or etcd, keeps from starting.
fn route(options: &RouterOptions) {
    let _running = loop {
        match guira_router::start(options, Vec::new()) {
            Ok(running) => break running,
            Err(error) => tracing::info!("the router does not start: {error}"),
        }
        sleep(Duration::from_millis(500));
    };
    wait();
}

/// Runs the member of a server.
fn register(plan: &FollowingPlan, server: SocketAddr) {
    let server: Endpoint = server.to_string().parse().expect("an address");
    let options = MemberOptions {
        etcd: etcd_options(&plan.etcds),
        pool: ETCD_POOL.to_owned(),
        target: Target::new(server.clone(), Duration::from_secs(1)),
        server,
        zone: None,
        lease: LEASE,
        upgrade_command: None,
    };
    Member::new(options).expect("the pool has a name").run(|| false);
}

const CONFIG: &str = "/guira/router.json";

/// Repeats `attempt` until the disk lets it succeed.
fn insist(attempt: impl Fn() -> io::Result<()>) {
    while attempt().is_err() {
        sleep(Duration::from_millis(100));
    }
}

/// Makes a folder in the root that a loss of power does not remove.
fn make_folder(path: &str) -> io::Result<()> {
    disk::create_dir_all(path)?;
    disk::File::open("/")?.sync_all()
}

/// Replaces a file of /guira, as an administrator does.
fn install(path: &str, text: &str) {
    insist(|| {
        make_folder("/guira")?;
        guira_disk::replace(Path::new(path), text.as_bytes(), Mode::Exact(0o644), Durability::Synced)
    });
}

/// Gives a running router another configuration, in a quarter of the cases after one that the router must refuse.
pub(crate) fn reconfigure(number: u8, plan: &RouterPlan) {
    let text = plan.config();
    let operator = start("operator", move || {
        if draw(4) == 0 {
            install(CONFIG, "{\"pools\": {");
            sleep(Duration::from_millis(draw(2_000)));
        }
        install(CONFIG, &text);
        tracing::info!("the router's configuration is now {text}");
    });
    set_host(operator, host(number));
}

/// Runs an invalidator until it ends.
fn invalidate(options: &str) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| error.to_string();
    install("/guira/invalidator.toml", options);
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

/// Whether a node that is full removes items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evictions {
    On,
    Off,
}

fn node_options(engine: &str, listen: SocketAddr, evictions: Evictions) -> NodeOptions {
    tracing::info!("the engine is {engine}");
    let (name, access) = engine.split_once(':').map_or((engine, None), |(name, access)| (name, Some(access)));
    let mut given = GivenOptions::new();
    given.insert("listen", vec![listen.to_string()]);
    given.insert("memory", vec!["8MiB".to_owned()]);
    given.insert("workers", vec!["2".to_owned()]);
    given.insert("engine", vec![name.to_owned()]);
    given.extend(access.map(|access| ("access", vec![access.to_owned()])));
    if evictions == Evictions::Off {
        given.insert("disable-evictions", vec!["true".to_owned()]);
    }
    NodeOptions::read(&given).expect("a node can have these options")
}

impl RouterPlan {
    /// One of the configurations with these servers. All of them have each key in the same node.
    fn config(&self) -> String {
        let mut pools = format!("\"nodes\": {}", servers(&self.nodes));
        let mut route = "\"PoolRoute|nodes\"".to_owned();
        if draw(3) == 0 {
            route = r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|nodes"}"#.to_owned();
        }
        if let Some(gutter) = self.gutter {
            pools += &format!(", \"gutter\": {}", servers(&[gutter]));
            let kind = if draw(4) == 0 {
                ""
            } else {
                "\"failover_errors\": [\"tko\", \"connect_error\", \"timeout\"], "
            };
            route = format!(
                r#"{{"type": "FailoverWithExptimeRoute", "normal": {route}, {kind}
                    "failover": "PoolRoute|gutter", "failover_exptime": 2}}"#
            );
        }
        if let Some(warm) = &self.warm {
            let (pool, filled) = warm.config(&route);
            pools += &pool;
            route = filled;
        }
        if self.warm.as_ref().is_some_and(|warm| warm.is_routed_to) {
            return format!(
                r#"{{"pools": {{{pools}}}, "routes": [{{"aliases": ["{OWN}"], "route": {route}}},
                    {{"aliases": ["{OTHER}"], "route": "PoolRoute|warm"}}]}}"#
            );
        }
        format!("{{\"pools\": {{{pools}}}, \"route\": {route}}}")
    }
}

/// The cluster with members on these hosts.
pub(crate) fn etcd_options(hosts: &[u8]) -> EtcdOptions {
    EtcdOptions::new(hosts.iter().map(|number| format!("http://{}", server(*number))).collect())
}

fn following_options(plan: &FollowingPlan, listen: SocketAddr) -> RouterOptions {
    let config = format!(r#"{{"route": "PoolRoute|etcd:{ETCD_POOL}"}}"#);
    RouterOptions { etcd: Some(etcd_options(&plan.etcds)), ..usual_options(Source::Text(config), listen) }
}

fn usual_options(source: Source, listen: SocketAddr) -> RouterOptions {
    let mut options = plain_options(String::new(), Duration::from_secs(1));
    options.source = source;
    options.reloading = Reloading {
        poll: Duration::from_millis(500),
        delay: Duration::from_millis(100),
        watches: Watches::Files,
    };
    options.listen = vec![listen.to_string().parse().expect("an address")];
    options.workers = 2;
    // A node that is up again is in use again within the run.
    options.health.probe_initial = Duration::from_millis(100);
    options.health.probe_max = Duration::from_secs(1);
    options.limits.connections = 1024;
    options.limits.client_requests = 1024;
    options
}

fn router_options(plan: &RouterPlan, listen: SocketAddr) -> RouterOptions {
    let mut options = usual_options(Source::File(PathBuf::from(CONFIG)), listen);
    if plan.warm.as_ref().is_some_and(|warm| warm.is_routed_to) {
        options.settings.default_route = OWN.into();
    }
    if plan.deletes != Deletes::Refused {
        insist(|| make_folder("/deletes"));
        let folder = PathBuf::from("/deletes");
        let sync = if plan.deletes == Deletes::Synced { LogSync::Always } else { LogSync::Never };
        let replay_rate = NonZeroU32::new(10_000);
        options.deletes = Some(LogOptions { folder, version: LogVersion::Two, sync, replay_rate });
    }
    options
}

/// Some invalidators send each delete once, and some have a queue that is soon full.
fn invalidator_options(plan: &InvalidatorPlan) -> String {
    let again = if plan.repeats == Repeats::Sometimes && draw(2) == 0 { 0 } else { 500 };
    let (queue, keys) = if draw(2) == 0 { (1, 4) } else { (16, 1000) };
    let mut options = format!(
        r#"
        position = "/guira/position"
        spool = "/guira/spool"
        spool-after-ms = 500
        queue-batches = {queue}
        batch-keys = {keys}
        on-gap = "flush"

        [source.modelled]
        address = "{}"

        [[template]]
        database = "shop"
        table = "items"
        keys = ["item:{{id}}"]
        "#,
        server(plan.database),
    );
    plan.targets.iter().for_each(|plan| options += &target(plan, again));
    options
}

fn target(plan: &TargetPlan, again: u32) -> String {
    let flush: Vec<String> = plan.flushed.iter().map(|node| format!("\"{}\"", server(*node))).collect();
    format!(
        r#"
        [[target]]
        name = "of-{}"
        address = "{}"
        timeout-ms = 2000
        prefix = "{}"
        again-after-ms = {again}
        flush = [{}]
        "#,
        plan.host,
        server(plan.host),
        plan.prefix,
        flush.join(", ")
    )
}
