//! Nodes and routers as processes of the machine.

use guira_router::RouterOptions;
use guira_router::plain_options::plain_options;
use guira_server::{GivenOptions, Options as NodeOptions, Secrets};
use guira_world::net::set_host;
use guira_world::scheduler::{Process, start};
use guira_world::thread::park;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The port of every server.
pub(crate) const PORT: u16 = 11211;

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
    /// Before the nodes of these hosts.
    Router(Vec<u8>),
}

impl Program {
    pub(crate) fn start(&self, number: u8) -> Process {
        let program = self.clone();
        let name = match self {
            Program::Node(_) => format!("node {number}"),
            Program::Router(_) => format!("router {number}"),
        };
        let process = start(&name, move || program.run(number));
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
            Program::Router(nodes) => {
                let options = router_options(nodes, server(number));
                let _running = guira_router::start(&options, Vec::new()).expect("a router starts");
                wait();
            }
        }
    }
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

fn router_options(nodes: &[u8], listen: SocketAddr) -> RouterOptions {
    let servers: Vec<String> = nodes.iter().map(|number| format!("\"{}\"", server(*number))).collect();
    let config = format!(
        r#"{{"pools": {{"nodes": {{"servers": [{}]}}}}, "route": "PoolRoute|nodes"}}"#,
        servers.join(", ")
    );
    let mut options = plain_options(config, Duration::from_secs(1));
    options.listen = vec![listen.to_string().parse().expect("an address")];
    options.workers = 2;
    // A node that is up again is in use again within the run.
    options.health.probe_initial = Duration::from_millis(100);
    options.health.probe_max = Duration::from_secs(1);
    options.limits.connections = 1024;
    options.limits.client_requests = 1024;
    options
}
