//! The nodes in the reply to `config get cluster`, and the thread that resolves their names.

use crate::options::Options;
use crate::profile::Profile;
use guira_serving::Cluster;
use guira_transport::Address;
use guira_transport::net::ToSocketAddrs;
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often names are resolved again.
const RESOLVE_EVERY: Duration = Duration::from_secs(10);

/// The cluster of a server with these options at these addresses, if clients may request it. Its names are resolved
/// until it is dropped.
pub(crate) fn cluster_of(options: &Options, own: &[Address]) -> io::Result<Option<Arc<Cluster>>> {
    if options.cluster_nodes.is_empty() && options.profile != Profile::Elasticache {
        return Ok(None);
    }
    let cluster = Arc::new(Cluster::new(&options.cluster_nodes, own));
    let names = cluster.names();
    if !names.is_empty() {
        let weak = Arc::downgrade(&cluster);
        // Not joined: a lookup takes as long as the resolver waits for DNS, and a server that stops must not.
        let thread = guira_sync::thread::Builder::new().name("names".to_owned());
        thread.spawn(move || resolve(&names, &weak))?;
    }
    Ok(Some(cluster))
}

fn resolve(names: &HashSet<Arc<str>>, cluster: &Weak<Cluster>) {
    let mut unknown: HashSet<&Arc<str>> = HashSet::new();
    loop {
        for name in names {
            let found = addresses(name);
            let Some(cluster) = cluster.upgrade() else { return };
            match found {
                Ok(found) => {
                    unknown.remove(name);
                    cluster.learn(name, &found);
                }
                Err(reason) if unknown.insert(name) => {
                    // Operator: Correct the name in `cluster-nodes`, or the DNS record.
                    tracing::warn!(host = &**name, %reason, "cluster node does not resolve; still advertised to clients");
                }
                Err(_) => {}
            }
        }
        guira_sync::thread::sleep(RESOLVE_EVERY);
    }
}

/// IPv4 before IPv6, as the router has them.
fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found: Vec<IpAddr> = (name, 0).to_socket_addrs()?.map(|address| address.ip()).collect();
    found.sort();
    found.dedup();
    Ok(found)
}
