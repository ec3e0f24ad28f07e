//! The servers of pools, as handles.

use super::{Builder, PoolHandles};
use crate::config::{ConfigError, Json, Pool, Qos, Resize, Stage, Target};
use crate::destinations::DestinationSpec;
use crate::handle::{AnyHandle, Children, Counted, Destination, Handover, KeepPrefix};
use crate::settings::DefaultQos;
use crate::step::{DestinationId, NodeId};

impl Builder<'_> {
    /// The pool that a route names, or describes.
    pub(super) fn pool(&mut self, json: &Json) -> Result<PoolHandles, ConfigError> {
        let pool = self.pools.pool(json)?;
        if let Some(built) = self.built_pools.get(&pool.name).cloned() {
            self.nesting.reach_again(json, &built.children, self.nesting.depth() + 1)?;
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
                    self.domains.put(made, domain);
                    if let Some(number) = self.server_of(made) {
                        self.domains.name(made, number);
                    }
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

    /// The server that a handle of a pool leads to.
    fn server_of(&self, node: NodeId) -> Option<DestinationId> {
        match &self.handles[node.0 as usize] {
            AnyHandle::KeepPrefix(KeepPrefix(server)) => self.server_of(*server),
            handle => handle.destination(),
        }
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
        let timeout = self.settings.timeout(pool);
        let number = self.destinations.number(DestinationSpec {
            address,
            security,
            timeout,
            connect_timeout: pool.connect_timeout.unwrap_or(timeout),
            service: self.settings.qos.map_or(0, |default| service(pool.qos, default)),
            leases: pool.leases,
        });
        destinations.push(number);
        let server = Destination::new(number);
        let node = self.add(match self.settings.counted_pools.of(&pool.name) {
            Some(name) => AnyHandle::Counted(Counted::new(server, name)),
            None => AnyHandle::Destination(server),
        });
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
                Handover::between(self, [old, new], handover.stage, &name, self.settings.timeout(pool));
            *child = self.add(AnyHandle::Handover(handle));
            if let Some(domain) = &server.failure_domain {
                self.domains.put(*child, domain);
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
