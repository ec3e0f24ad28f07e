//! Nodes with members beside them, an etcd, and a router.

use guira_harness::server::ServerProcess;
use guira_tests::client::Client;
use guira_tests::etcd::Etcd;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, guira, run_guira, spawn, wait_for};
use guira_tests::{Router, Server, Setup, skip};
use std::path::Path;

/// Seconds for which a server of the pool is gone before it is replaced.
pub(crate) const HOLD_DOWN_S: u64 = 3;
/// Seconds for which a registration outlives its member.
pub(crate) const LEASE_S: u64 = 2;
pub(crate) const POOL: &str = "cache";

pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) member: ServerProcess,
}

impl Node {
    pub(crate) fn name(&self) -> String {
        name(&self.server)
    }
}

pub(crate) fn name(server: &Server) -> String {
    match server.address() {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => panic!("{path:?}"),
    }
}

pub(crate) struct Region {
    pub(crate) etcd: Etcd,
    pub(crate) nodes: Vec<Node>,
    pub(crate) scratch: Scratch,
}

impl Region {
    /// A pool of so many slots, without servers; `None` when etcd is not installed.
    #[track_caller]
    pub(crate) fn start(slots: usize) -> Option<Self> {
        let Some(etcd) = Etcd::start() else {
            skip::say("etcd is not installed");
            return None;
        };
        let region = Region { etcd, nodes: Vec::new(), scratch: Scratch::new() };
        let hold_down = format!("--hold-down={HOLD_DOWN_S}s");
        region.fleet(&["create", POOL, "--slots", &slots.to_string(), &hold_down]);
        Some(region)
    }

    /// Runs `guira fleet`, and returns what it prints.
    #[track_caller]
    pub(crate) fn fleet(&self, arguments: &[&str]) -> String {
        self.try_fleet(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }

    pub(crate) fn try_fleet(&self, arguments: &[&str]) -> Result<String, String> {
        let url = self.etcd.url();
        let output = run_guira(&[&["fleet", "--etcd", &url], arguments].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Starts nodes, one after the other, each once the one before has its place.
    #[track_caller]
    pub(crate) fn join(&mut self, number: usize) {
        for _ in 0..number {
            // Before the member is there, to which a leader may give a slot at once.
            let expected = if self.slots().contains(&"-".to_owned()) { "serves" } else { "spare" };
            let server = Setup::new().start_guira();
            let member = self.member(&server);
            self.nodes.push(Node { server, member });
            let name = self.nodes.last().expect("one was added").name();
            self.wait_for_state(&name, expected);
        }
    }

    /// Starts a member beside a server.
    #[track_caller]
    pub(crate) fn member(&self, server: &Server) -> ServerProcess {
        self.member_of(POOL, server)
    }

    /// Starts a member of another pool.
    #[track_caller]
    pub(crate) fn member_of(&self, pool: &str, server: &Server) -> ServerProcess {
        let mut member = guira(["fleet", "--etcd", &self.etcd.url(), "join", "--pool", pool, "-v"]);
        member.args(["--server", &name(server), &format!("--lease={LEASE_S}s")]);
        spawn(member)
    }

    #[track_caller]
    pub(crate) fn router(&self, options: &[&str]) -> Router {
        let config = format!(r#"{{"route": "PoolRoute|etcd:{POOL}"}}"#);
        self.router_of(&config, options)
    }

    #[track_caller]
    pub(crate) fn router_of(&self, config: &str, options: &[&str]) -> Router {
        self.router_by("--config-str", config, options)
    }

    /// A router with the configuration in this file.
    #[track_caller]
    pub(crate) fn router_of_file(&self, config: &Path, options: &[&str]) -> Router {
        self.router_by("--config", &config.to_string_lossy(), options)
    }

    #[track_caller]
    fn router_by(&self, by: &str, config: &str, options: &[&str]) -> Router {
        let url = self.etcd.url();
        let own = ["--etcd", &url, by, config, "--server-timeout-ms=2000"];
        let probes = ["--probe-timeout-initial-ms=100", "--probe-timeout-max-ms=100"];
        Router::start(&[&own[..], &probes, options].concat())
    }

    /// What `status` says of a server; empty if nothing.
    pub(crate) fn state(&self, server: &str) -> String {
        let status = self.fleet(&["status", POOL]);
        let line = status.lines().find(|line| line.split_whitespace().nth(1) == Some(server));
        line.map(|line| line.split_whitespace().skip(4).collect::<Vec<_>>().join(" ")).unwrap_or_default()
    }

    pub(crate) fn slots(&self) -> Vec<String> {
        let status = self.fleet(&["status", POOL]);
        let rows = status.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let rows = rows.filter(|row| row.first().is_some_and(|slot| slot.parse::<u32>().is_ok()));
        rows.map(|row| row[1].to_owned()).collect()
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, server: &str, state: &str) {
        wait_for(state, || (self.state(server) == state).then_some(()));
    }

    /// Where the members are that say this in their logs.
    pub(crate) fn said(&self, what: &str) -> bool {
        self.nodes.iter().any(|node| node.member.errors().contains(what))
    }
}

pub(crate) fn keys() -> impl Iterator<Item = String> {
    (0..200).map(|number| format!("key{number}"))
}

/// Stores each key under its own name.
#[track_caller]
pub(crate) fn fill(client: &mut Client) {
    keys().for_each(|key| client.set(&key, &key));
}

/// The keys that the router does not find.
#[track_caller]
pub(crate) fn misses(client: &mut Client) -> Vec<String> {
    keys().filter(|key| client.value(key).is_none()).collect()
}

/// Where the router sends each key.
#[track_caller]
pub(crate) fn routes(client: &mut Client) -> Vec<String> {
    let route = |key: String| {
        let value = client.value(&format!("__mcrouter__.route(get,{key})"));
        String::from_utf8(value.expect("a route").data).expect("an address")
    };
    keys().map(route).collect()
}

/// The pool as it is kept.
pub(crate) fn kept(region: &Region) -> String {
    region.etcd.control(&["get", "--print-value-only", "/guira/pools/cache"]).trim().to_owned()
}

/// Has it be another one, as by hand.
pub(crate) fn put(region: &Region, text: &str) {
    region.etcd.control(&["put", "/guira/pools/cache", text]);
}
