//! `config get cluster`: the list of servers in ElastiCache's format, by which its clients discover nodes.

use crate::local_addresses::local_addresses;
use guira_sync::clock::wall_clock;
use guira_sync::lock::{Mutex, MutexGuard};
use guira_transport::Address;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// The request of ElastiCache's clients for the list of servers. memcached does not know it.
const REQUEST: &[u8] = b"config get cluster";

/// A server, by its address or by a name that stands for all of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    host: Arc<str>,
    port: u16,
}

/// A text is not a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a node: use HOST:PORT, IP:PORT or [v6]:PORT")]
pub struct ClusterNodeError(String);

/// Characters that separate the parts of a node. No host name contains them.
const SEPARATORS: [char; 4] = ['|', ' ', '[', ']'];

impl FromStr for ClusterNode {
    type Err = ClusterNodeError;

    fn from_str(text: &str) -> Result<Self, ClusterNodeError> {
        let wrong = || ClusterNodeError(text.to_owned());
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(ClusterNode { host: address.ip().to_string().into(), port: address.port() });
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let is_name = !host.is_empty() && !host.contains([':', '\r', '\n']) && !host.contains(SEPARATORS);
        is_name.then(|| ClusterNode { host: host.into(), port }).ok_or_else(wrong)
    }
}

impl fmt::Display for ClusterNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClusterNode { host, port } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

impl ClusterNode {
    /// The names among the hosts of `nodes`, which have to be looked up.
    pub fn names(nodes: &[ClusterNode]) -> HashSet<Arc<str>> {
        nodes.iter().filter_map(ClusterNode::name).cloned().collect()
    }

    /// The name that has to be looked up.
    fn name(&self) -> Option<&Arc<str>> {
        self.host.parse::<IpAddr>().is_err().then_some(&self.host)
    }

    /// Its entries: one for each address.
    fn entries(&self, found: &HashMap<Arc<str>, Vec<IpAddr>>) -> Vec<String> {
        let (host, port) = (&self.host, self.port);
        match (self.name(), found.get(host).map(Vec::as_slice)) {
            (None, _) => vec![format!("{host}|{host}|{port}")],
            (Some(_), Some([ip])) => vec![format!("{host}|{ip}|{port}")],
            // With the host's name, a client would connect to any of its addresses.
            (Some(_), Some(ips)) => ips.iter().map(|ip| format!("{ip}|{ip}|{port}")).collect(),
            (Some(_), None) => vec![format!("{host}||{port}")],
        }
    }
}

/// The nodes, and their current addresses.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<ClusterNode>,
    /// LOCK: cluster. Leaf.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    found: HashMap<Arc<str>, Vec<IpAddr>>,
    list: String,
    /// Increases whenever the list changes. It starts with the present time, so that it also
    /// increases from one process to the next.
    version: u64,
}

impl Cluster {
    /// A cluster of `nodes` or, if there are none, of the server's own listeners.
    pub fn new(nodes: &[ClusterNode], own: &[Address]) -> Self {
        let nodes = if nodes.is_empty() { of_own(own, &local_addresses()) } else { nodes.to_vec() };
        let cluster = Cluster { nodes, state: Mutex::default() };
        cluster.state().renew(&cluster.nodes, wall_clock());
        cluster
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Records the current addresses of a host.
    pub fn learn(&self, host: &Arc<str>, found: &[IpAddr]) {
        if self.nodes.iter().any(|node| node.host == *host) {
            let mut state = self.state();
            state.found.insert(host.clone(), found.to_vec());
            state.renew(&self.nodes, wall_clock());
        }
    }

    /// The names that [`Cluster::learn`] needs the addresses of.
    pub fn names(&self) -> HashSet<Arc<str>> {
        ClusterNode::names(&self.nodes)
    }

    /// The reply to a line, without its last line end, if the line asks for the cluster.
    pub fn reply(&self, line: &[u8]) -> Option<String> {
        (line == REQUEST).then(|| self.list())
    }

    fn list(&self) -> String {
        let content = self.content();
        format!("CONFIG cluster 0 {}\r\n{content}\r\nEND", content.len())
    }

    /// The version, and the nodes on a line of their own.
    fn content(&self) -> String {
        let state = self.state();
        format!("{}\n{}\n", state.version, state.list)
    }
}

impl State {
    fn renew(&mut self, nodes: &[ClusterNode], now_s: u64) {
        let entries: Vec<String> = nodes.iter().flat_map(|node| node.entries(&self.found)).collect();
        let list = entries.join(" ");
        if self.version == 0 || list != self.list {
            (self.list, self.version) = (list, now_s.max(self.version + 1));
        }
    }
}

/// The TCP addresses of a server. A wildcard address is reported as the host's first IPv4 address
/// other than a loopback.
fn of_own(own: &[Address], local: &[IpAddr]) -> Vec<ClusterNode> {
    let outward = local.iter().find(|ip| ip.is_ipv4() && !ip.is_loopback()).copied();
    let outward = outward.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut nodes: Vec<ClusterNode> = Vec::new();
    for address in own {
        let Address::Tcp(address) = address else { continue };
        let ip = if address.ip().is_unspecified() { outward } else { address.ip() };
        let node = ClusterNode { host: ip.to_string().into(), port: address.port() };
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(text: &str) -> ClusterNode {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn nodes_are_read() {
        assert_eq!(node("10.0.0.1:5000").entries(&HashMap::new()), ["10.0.0.1|10.0.0.1|5000"]);
        assert_eq!(node("[::1]:5000").entries(&HashMap::new()), ["::1|::1|5000"]);
        assert_eq!(node("router.x:5000").entries(&HashMap::new()), ["router.x||5000"]);
        for text in ["10.0.0.1:5000", "[::1]:5000", "router.x:5000"] {
            assert_eq!(node(text).to_string(), text);
        }
        for wrong in ["", "5000", "a:", "a:0", ":5000", "a:x", "a|b:5000", "a b:1", "::1:5000", "a\n:1"] {
            let error = wrong.parse::<ClusterNode>().expect_err(wrong);
            assert_eq!(
                error.to_string(),
                format!("'{wrong}' is not a node: use HOST:PORT, IP:PORT or [v6]:PORT")
            );
        }
    }

    #[test]
    fn own_addresses_are_told_as_others_reach_them() {
        let own =
            ["0.0.0.0:5000", "[::]:5000", "127.0.0.1:5001", "unix:/run/router"].map(|it| it.parse().unwrap());
        let local = ["127.0.0.1", "fe80::1", "10.0.0.7", "10.0.0.8"].map(ip);
        assert_eq!(of_own(&own, &local), ["10.0.0.7:5000", "127.0.0.1:5001"].map(node));
        assert_eq!(of_own(&own[..1], &local[..1]), [node("127.0.0.1:5000")]);
    }

    #[test]
    fn the_version_rises_when_a_name_has_other_addresses() {
        let cluster = Cluster::new(&[node("routers.x:5000"), node("10.0.0.1:5000")], &[]);
        let parts = || {
            let content = cluster.content();
            let (version, list) = content.split_once('\n').unwrap();
            (version.parse::<u64>().unwrap(), list.to_owned())
        };
        let (first, list) = parts();
        assert_eq!(list, "routers.x||5000 10.0.0.1|10.0.0.1|5000\n");
        let host: Arc<str> = "routers.x".into();
        cluster.learn(&host, &[ip("10.0.0.2")]);
        let (second, list) = parts();
        assert_eq!(list, "routers.x|10.0.0.2|5000 10.0.0.1|10.0.0.1|5000\n");
        cluster.learn(&host, &[ip("10.0.0.2"), ip("10.0.0.3")]);
        let (third, list) = parts();
        assert_eq!(list, "10.0.0.2|10.0.0.2|5000 10.0.0.3|10.0.0.3|5000 10.0.0.1|10.0.0.1|5000\n");
        cluster.learn(&host, &[ip("10.0.0.2"), ip("10.0.0.3")]);
        cluster.learn(&"other.x".into(), &[ip("10.0.0.4")]);
        assert!(first < second && second < third && parts().0 == third);
        assert_eq!(cluster.reply(b"config get other"), None);
        let reply = cluster.reply(b"config get cluster").unwrap();
        assert_eq!(reply.lines().next().unwrap(), format!("CONFIG cluster 0 {}", cluster.content().len()));
        assert!(reply.ends_with("5000\n\r\nEND"));
    }
}
