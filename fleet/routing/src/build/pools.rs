//! The servers of pools, as handles.

use super::{Builder, BuiltPool, DefaultQos, Members, Settings, Timeouts};
use crate::config::{Address, ConfigError, Json, Pool, Qos, Resize, Stage, Target, Value};
use crate::destinations::DestinationSpec;
use crate::handle::{AnyHandle, Children, Destination, Handover, KeepPrefix};
use crate::hash::{HashKind, Selector, ServerIdentity};
use crate::prefix;
use crate::step::{DestinationId, LogName, NodeId};
use std::sync::Arc;

/// A pool, whose servers are handles.
#[derive(Clone, Debug)]
pub(crate) struct PoolHandles {
    pool: Arc<Pool>,
    /// One a slot, and beside it the one that has or gets the same keys, if there is one.
    servers: Arc<[(NodeId, Option<NodeId>)]>,
    /// The same as routes see them that choose none by the hash of a key.
    children: Arc<[NodeId]>,
    destinations: Arc<[DestinationId]>,
}

impl Builder<'_> {
    /// The pool that a route names, or describes.
    pub(super) fn pool(&mut self, json: &Json) -> Result<PoolHandles, ConfigError> {
        let pool = self.pools.pool(json)?;
        if let Some(built) = self.built_pools.get(&pool.name).cloned() {
            self.reach_again(json, &built.children, self.depth + 1)?;
            return Ok(built);
        }
        let mut servers = Vec::new();
        let mut destinations = Vec::new();
        for server in &pool.servers {
            let targets = [Some(&server.target), server.handover.as_ref().map(|handover| &handover.other)];
            let mut nodes = [None; 2];
            for (target, node) in targets.into_iter().zip(&mut nodes) {
                let Some(target) = target else { continue };
                let made = self.server(&pool, target, &mut destinations)?;
                if let Some(domain) = &server.failure_domain {
                    self.in_domain(made, domain);
                }
                *node = Some(made);
            }
            servers.extend(nodes[0].map(|node| (node, nodes[1])));
        }
        destinations.sort();
        destinations.dedup();
        let children = self.handed_over(&pool, &servers);
        let present = pool.resize.map_or(children.len(), Resize::present);
        let (servers, destinations) = (servers.into(), destinations.into());
        let built =
            PoolHandles { pool: pool.clone(), servers, children: children[..present].into(), destinations };
        self.built_pools.insert(pool.name.clone(), built.clone());
        Ok(built)
    }

    fn server(
        &mut self,
        pool: &Pool,
        target: &Target,
        destinations: &mut Vec<DestinationId>,
    ) -> Result<NodeId, ConfigError> {
        let (address, security) = match target {
            Target::Route(route) => return self.node(route),
            Target::Server { address, security } => (address.clone(), *security),
        };
        let timeout = timeout(pool, self.settings);
        let number = self.destinations.number(DestinationSpec {
            address,
            security,
            timeout,
            connect_timeout: pool.connect_timeout.unwrap_or(timeout),
            service: self.settings.qos.map_or(0, |default| service(pool.qos, default)),
            leases: pool.leases,
        });
        destinations.push(number);
        let node = self.add(AnyHandle::Destination(Destination::new(number)));
        Ok(if pool.keep_routing_prefix { self.add(AnyHandle::KeepPrefix(KeepPrefix(node))) } else { node })
    }

    /// Servers of a pool, with what becomes of keys of those that are about to be others.
    pub(super) fn handed_over(&mut self, pool: &Pool, servers: &[(NodeId, Option<NodeId>)]) -> Children {
        let mut children: Children = servers.iter().map(|(present, _)| *present).collect();
        for ((child, (_, other)), server) in children.iter_mut().zip(servers).zip(&pool.servers) {
            let (Some(other), Some(handover)) = (other, &server.handover) else { continue };
            let [old, new] = match handover.stage {
                Stage::Announced => [*child, *other],
                Stage::Warming | Stage::Ending => [*other, *child],
            };
            let name = format!("{} of pool {}", server.name.as_deref().unwrap_or("a server"), pool.name);
            let handle =
                Handover::between(self, [old, new], handover.stage, &name, timeout(pool, self.settings));
            *child = self.add(AnyHandle::Handover(handle));
            if let Some(domain) = &server.failure_domain {
                self.in_domain(*child, domain);
            }
        }
        children
    }
}

/// The field of a pool's packets, as mcrouter has it: three bits of a class, and two of a path.
fn service(qos: Qos, default: DefaultQos) -> u8 {
    let (class, path) = (qos.class.unwrap_or(default.class), qos.path.unwrap_or(default.path));
    class.min(4) << 5 | path.min(3) << 2
}

/// How long servers of a pool may take.
pub(super) fn timeout(pool: &Pool, settings: &Settings) -> std::time::Duration {
    let Timeouts { server, within_cluster, cross_cluster, cross_region } = settings.timeouts;
    let by_pool = pool.server_timeout.unwrap_or(server);
    let home = prefix::parts(&settings.default_route);
    let (Some(region), Some(cluster), Some(home)) = (&pool.region, &pool.cluster, home) else {
        return by_pool;
    };
    let by_distance = match (**region == *home.0, **cluster == *home.1) {
        (true, true) => within_cluster,
        (true, false) => cross_cluster,
        (false, _) => cross_region,
    };
    by_distance.unwrap_or(by_pool)
}

impl PoolHandles {
    pub(crate) fn children(&self) -> Children {
        self.children[..].into()
    }

    /// All servers with what becomes of their keys; deletes that fail are logged under this name.
    pub(crate) fn logged(&self, members: &mut Members<'_, '_, '_>, log: Option<LogName>) -> Children {
        members.servers_of(&self.pool, &self.servers, log)
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn built(self) -> BuiltPool {
        BuiltPool { name: self.pool.name.clone(), destinations: self.destinations.to_vec() }
    }

    /// How one of the first `servers` is chosen: `hash` is the name of a hash, or an object with what is needed.
    pub(super) fn selector(
        &self,
        at: &Json,
        hash: Option<&Json>,
        servers: usize,
    ) -> Result<Selector, ConfigError> {
        let addresses: Vec<String> = self.pool.servers.iter().map(text_of).collect();
        let mut identities: Vec<ServerIdentity<'_>> = Vec::new();
        for (number, server) in self.pool.servers.iter().enumerate().take(servers) {
            let tag = self.pool.tags.as_ref().and_then(|tags| tags.get(number));
            let mut identity = match server.name.as_deref().or(tag.map(|tag| &**tag)) {
                Some(name) => ServerIdentity::named(name),
                None => ServerIdentity::at(&addresses[number]),
            };
            if let Some(slot) = server.slot {
                identity = identity.in_slot(slot);
            }
            if let Some(weight) = server.weight {
                identity = identity.weighing(weight);
            }
            identities.push(identity);
        }
        let (kind, salt) = match hash {
            None => (None, None),
            Some(Json { value: Value::Text(kind), .. }) => (Some(&**kind), None),
            Some(json) => {
                let mut object = json.object("hash")?;
                let kind = object.optional_as("hash_func", Json::text)?;
                let salt = object.optional_as("salt", Json::text)?;
                if let Some(weights) = object.optional_as("weights", Json::list)? {
                    weigh(&mut identities, weights)?;
                }
                (kind, salt)
            }
        };
        selector(hash.unwrap_or(at), kind, salt, &identities)
    }
}

fn weigh(identities: &mut [ServerIdentity<'_>], weights: &[Json]) -> Result<(), ConfigError> {
    for (identity, weight) in identities.iter_mut().zip(weights) {
        *identity = identity.weighing(weight.number("weights", 0.0..=f64::from(u32::MAX))?);
    }
    Ok(())
}

/// The text by which a server without a name is known.
fn text_of(server: &crate::config::Server) -> String {
    match &server.target {
        Target::Server { address: Address::Unix(path), .. } => path.to_string(),
        Target::Server { address, .. } => address.to_string(),
        Target::Route(route) => format!("{}:{}", route.place.source, route.place.line),
    }
}

/// What hashes know of children: their tags and weights, if there are any.
pub(super) fn identities<'a>(
    names: &'a [String],
    tags: Option<&'a Json>,
    weights: Option<&Json>,
) -> Result<Vec<ServerIdentity<'a>>, ConfigError> {
    let tags = match tags {
        Some(tags) => {
            let list = tags.list("tags")?;
            if list.len() != names.len() {
                return Err(tags.error(format!("{} tags for {} children", list.len(), names.len())));
            }
            list.iter().map(|tag| tag.text("tags")).collect::<Result<Vec<_>, _>>()?
        }
        None => names.iter().map(|name| &**name).collect(),
    };
    let mut identities: Vec<_> = tags.into_iter().map(ServerIdentity::named).collect();
    if let Some(weights) = weights {
        weigh(&mut identities, weights.list("weights")?)?;
    }
    Ok(identities)
}

/// A hash without a name is Ch3, as in mcrouter.
pub(super) fn selector(
    at: &Json,
    kind: Option<&str>,
    salt: Option<&str>,
    servers: &[ServerIdentity<'_>],
) -> Result<Selector, ConfigError> {
    let kind = HashKind::from_name(kind.unwrap_or("Ch3")).map_err(|error| at.error(error.to_string()))?;
    Selector::new(kind, servers, salt.unwrap_or_default()).map_err(|error| at.error(error.to_string()))
}
