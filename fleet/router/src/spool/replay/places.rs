//! Where logged deletes are sent: to the server that they were logged for, while it is configured.

use super::super::entry::{Delete, Entry};
use crate::config::SharedPlan;
use guira_client::text::{Endpoint, Target};
use guira_routing::config::{Address, ConfigError};
use guira_routing::{DestinationId, Facts, Settings, Tree};
use guira_sync::clock::wall_clock;
use guira_upstream::{Secure, host_id};
use std::collections::HashMap;
use std::time::Duration;

/// A server, and the key that is to be deleted there.
pub(crate) type Stop = (Address, Delete);

#[derive(Debug)]
pub(crate) enum Places {
    /// To the server of the line, whatever that is now.
    AsLogged {
        timeout: Duration,
    },
    Configured(Box<Configured>),
}

#[derive(Debug)]
pub(crate) struct Configured {
    plan: SharedPlan,
    tree: Tree,
    /// Servers that requests may come to by it, each with the ways to it.
    servers: HashMap<Address, Vec<DestinationId>>,
}

impl Configured {
    pub(crate) fn new(plan: SharedPlan, settings: &Settings) -> Result<Self, ConfigError> {
        let tree = plan.tree(settings)?;
        let mut servers: HashMap<Address, Vec<DestinationId>> = HashMap::new();
        for number in tree.destinations() {
            let address = plan.named().specs()[number.0 as usize].address.clone();
            servers.entry(address).or_default().push(number);
        }
        Ok(Configured { plan, tree, servers })
    }

    fn find(&self, entry: &Entry) -> Vec<Stop> {
        if self.servers.contains_key(&entry.server) {
            return vec![(entry.server.clone(), entry.delete.clone())];
        }
        let log = entry.pool.as_deref().and_then(|pool| self.plan.named().log_named(pool));
        let facts = Facts { host: host_id().into(), now_s: wall_clock(), ..Facts::default() };
        let stops = log.map(|log| self.tree.relocate(log, &entry.delete.key, facts)).unwrap_or_default();
        let address = |number: DestinationId| self.plan.named().specs()[number.0 as usize].address.clone();
        let delete = |key| Delete { key, ..entry.delete };
        stops.into_iter().map(|(number, key)| (address(number), delete(key))).collect()
    }

    fn ways(&self, server: &Address) -> impl Iterator<Item = &crate::upstream::Server> {
        let numbers = self.servers.get(server).into_iter().flatten();
        numbers.map(|number| &self.plan.servers.list()[number.0 as usize])
    }
}

impl Places {
    /// The servers that a delete is sent to. Empty if neither its server nor a pool of that name
    /// exists any more.
    pub(crate) fn find(&self, entry: &Entry) -> Vec<Stop> {
        match self {
            Places::AsLogged { .. } => vec![(entry.server.clone(), entry.delete.clone())],
            Places::Configured(configured) => configured.find(entry),
        }
    }

    /// Whether the server is sent requests. One that is not known is.
    pub(crate) fn is_up(&self, server: &Address) -> bool {
        match self {
            Places::AsLogged { .. } => true,
            Places::Configured(configured) => configured.ways(server).all(|way| way.health.is_up()),
        }
    }

    /// How it is reached: over TLS if no request is sent to it without.
    pub(crate) fn target(&self, server: &Address) -> Target {
        let endpoint = match server {
            Address::Tcp { host, port } => Endpoint::Tcp { host: host.to_string(), port: *port },
            Address::Unix(path) => Endpoint::Unix(path.to_string().into()),
        };
        let configured = match self {
            Places::AsLogged { timeout } => return Target::new(endpoint, *timeout),
            Places::Configured(configured) => configured,
        };
        let longest = configured.ways(server).map(|way| way.timeout_ms).max();
        let target = Target::new(endpoint, Duration::from_millis(u64::from(longest.unwrap_or(1000).max(1))));
        let secure: Option<Vec<&Secure>> = configured.ways(server).map(|way| way.secure.as_ref()).collect();
        match secure.as_deref() {
            Some([secure, ..]) => target.with_connector(secure.connector.clone(), secure.name.clone()),
            Some([]) | None => target,
        }
    }
}
