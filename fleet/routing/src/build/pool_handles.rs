//! A pool whose servers are handles, and how a key chooses one of them.

use super::selectors;
use crate::config::{Address, ConfigError, Json, Pool, Target, Value};
use crate::handle::Children;
use crate::hash::{Selector, ServerIdentity};
use crate::step::{DestinationId, NodeId};
use std::sync::Arc;

/// A pool whose servers a tree sends requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltPool {
    pub name: Arc<str>,
    /// Its servers, each once.
    pub destinations: Vec<DestinationId>,
}

/// A pool, whose servers are handles.
#[derive(Clone, Debug)]
pub(crate) struct PoolHandles {
    pub(super) pool: Arc<Pool>,
    /// The server of each slot, and the server that keys of the slot move from or to, if any.
    pub(super) servers: Arc<[(NodeId, Option<NodeId>)]>,
    /// The children of routes that do not choose by the hash of a key.
    pub(super) children: Arc<[NodeId]>,
    pub(super) destinations: Arc<[DestinationId]>,
}

impl PoolHandles {
    pub(crate) fn children(&self) -> Children {
        self.children[..].into()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn built(self) -> BuiltPool {
        BuiltPool { name: self.pool.name.clone(), destinations: self.destinations.to_vec() }
    }

    /// How one of the first `servers` is chosen: `hash` is the name of a hash, or an object with
    /// its options.
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
        // As in mcrouter, weights of the pool choose the hash unless the route names one.
        let of_pool = self.pool.servers.iter().any(|server| server.weight.is_some()).then_some("WeightedCh3");
        let (kind, salt) = match hash {
            None => (of_pool, None),
            Some(Json { value: Value::Text(kind), .. }) => (Some(&**kind), None),
            Some(json) => {
                let mut object = json.object("hash")?;
                let kind = object.optional_as("hash_func", Json::text)?.or(of_pool);
                let salt = object.optional_as("salt", Json::text)?;
                if let Some(weights) = object.optional_as("weights", Json::list)? {
                    selectors::weigh(&mut identities, weights)?;
                }
                (kind, salt)
            }
        };
        selectors::selector(hash.unwrap_or(at), kind, salt, &identities)
    }
}

/// The text by which a server without a name is known.
fn text_of(server: &crate::config::Server) -> String {
    match &server.target {
        Target::Server { address: Address::Unix(path), .. } => path.to_string(),
        Target::Server { address, .. } => address.to_string(),
        Target::Route(route) => format!("{}:{}", route.place.source, route.place.line),
    }
}
