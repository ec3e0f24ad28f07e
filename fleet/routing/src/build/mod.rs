//! From a configuration to a tree.

mod built;
mod domains;
mod members;
mod named;
mod naming;
mod nesting;
mod pool_handles;
mod pools;
mod roots;
mod selectors;

use crate::config::{ConfigError, Json, Pools, Value};
use crate::counts::Tally;
use crate::destinations::Destinations;
use crate::handle::{AllSync, AnyHandle, Children, KeepPrefix, NAMES, Shadow};
use crate::hash::Selector;
use crate::settings::Settings;
use crate::step::{Hop, LogName, NodeId};
use crate::warm_ups::WarmUps;
use domains::Domains;
use named::{Named, only};
use nesting::Nesting;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub use built::{Built, build};
pub(crate) use members::Members;
pub use pool_handles::BuiltPool;
pub(crate) use pool_handles::PoolHandles;

pub(crate) struct Builder<'c> {
    handles: Vec<AnyHandle>,
    pools: Pools<'c>,
    built_pools: HashMap<Arc<str>, PoolHandles>,
    named: Named<'c>,
    domains: Domains,
    logs: HashMap<LogName, NodeId>,
    settings: &'c Settings,
    destinations: &'c mut Destinations,
    /// The counters that all handles of the tree share.
    tally: Arc<Tally>,
    warnings: Vec<ConfigError>,
    nesting: Nesting,
}

/// Routes of mcrouter's that this router does not have, and why.
const REFUSED: [(&str, &str); 7] = [
    ("SRRoute", "it uses a service of Meta to find servers"),
    ("DistributionRoute", "it writes to a log of Meta"),
    ("SetDistributionTargetRoute", "it writes to a log of Meta"),
    ("AxonLogRoute", "it writes to a log of Meta"),
    ("LoadBalancerRoute", "memcached's protocols do not report a server's load"),
    (
        "CarbonLookasideRoute",
        "it caches replies of Carbon services; use L1L2CacheRoute for a cache in front of a memcached route",
    ),
    ("McBucketRoute", "buckets of keys do not exist"),
];

impl<'c> Builder<'c> {
    pub(crate) fn add(&mut self, handle: AnyHandle) -> NodeId {
        self.handles.push(handle);
        NodeId(self.handles.len() as u32 - 1)
    }

    /// The hop to a child that needs no rewritten request: straight to a server, if the child is
    /// one.
    pub(crate) fn hop(&self, child: NodeId) -> Hop {
        match &self.handles[child.0 as usize] {
            AnyHandle::Destination(server) => server.send(),
            _ => Hop::To(child),
        }
    }

    /// How a route selects a child by the hash of the key that it is given, if it does.
    pub(crate) fn selection(&self, node: NodeId) -> Option<&Selector> {
        match &self.handles[node.0 as usize] {
            AnyHandle::PoolRoute(route) => self.selection(route.node()),
            AnyHandle::RateLimit(limit) => self.selection(limit.target()),
            AnyHandle::HashRoute(route) => route.selection(),
            AnyHandle::EjectHosts(route) => Some(route.selection()),
            AnyHandle::ShardSplit(split) => self.selection(split.target()),
            AnyHandle::Resize(resize) => Some(resize.selection()),
            _ => None,
        }
    }

    /// Builds a handle that sends to all servers, to each over one of its destinations.
    fn everywhere(&mut self) -> NodeId {
        let mut known = HashSet::new();
        let nodes = (0..).map(NodeId).zip(&self.handles);
        let servers: Children = nodes
            .filter(|(_, handle)| handle.destination().is_some_and(|server| known.insert(server)))
            .map(|(node, _)| node)
            .collect();
        if servers.is_empty() { self.null() } else { self.add(AnyHandle::AllSync(AllSync::new(servers))) }
    }

    pub(crate) fn warm_ups(&self) -> &WarmUps {
        &self.settings.warm_ups
    }

    /// The counters that all handles of the tree share.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// The failure domain of a server.
    pub(crate) fn domain(&self, node: NodeId) -> Option<u32> {
        self.domains.of(node)
    }

    /// The same server with a log for failed deletes. A handle that is no server stays unchanged.
    fn logged(&mut self, node: NodeId, log: LogName) -> NodeId {
        let handle = match &self.handles[node.0 as usize] {
            AnyHandle::Destination(server) => AnyHandle::Destination(server.logged(log)),
            AnyHandle::Counted(server) => AnyHandle::Counted(server.logged(log)),
            AnyHandle::KeepPrefix(KeepPrefix(server)) => {
                let server = *server;
                AnyHandle::KeepPrefix(KeepPrefix(self.logged(server, log)))
            }
            _ => return node,
        };
        let logged = self.add(handle);
        self.domains.share(logged, node);
        logged
    }

    pub(crate) fn null(&mut self) -> NodeId {
        self.add(AnyHandle::null())
    }

    /// The handle that `json` describes: an object with a type, a name, or a short form.
    pub(crate) fn node(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let outside = self.nesting.begin();
        let node = self.nesting.reach(json, self.nesting.depth()).and_then(|()| self.any(json));
        self.nesting.end(outside, node.as_ref().ok().copied());
        node
    }

    /// A route in any of its forms. As in mcrouter, a list of one route and a pool of one server are routes.
    fn any(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        if let Some(pool) = pool_in_list(json)? {
            let pool = self.pool(&pool)?;
            return only(json, &pool.children);
        }
        match &json.value {
            Value::Text(text) => self.short_form(json, text),
            Value::Object(_) => self.object(json),
            Value::Array(_) => self.nodes(json).and_then(|nodes| only(json, &nodes)),
            _ => {
                let reason = format!("a route is an object with a type, or a name; this is {}", json.kind());
                Err(json.error(reason))
            }
        }
    }

    fn object(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let Some(at) = json.get("type") else {
            return Err(json.error("a route without a type"));
        };
        let kind = at.text("type")?;
        if !is_known(kind) {
            return Err(at.error(format!(
                "Unknown RouteHandle: {kind} line: {}; {}",
                at.place.line,
                known()
            )));
        }
        match json.get("name") {
            Some(name) => {
                let name = name.shared_text("name")?;
                self.defined(json, name, |build| build.kind(kind, json))
            }
            None => self.kind(kind, json),
        }
    }

    fn short_form(&mut self, json: &Json, text: &Arc<str>) -> Result<NodeId, ConfigError> {
        if let Some(nodes) = self.named(json, text, self.nesting.depth())? {
            return only(json, &nodes);
        }
        let place = json.place.clone();
        match text.split_once('|') {
            Some((kind, rest)) => self.kind(kind, &Json { place, value: Value::Text(rest.into()) }),
            None => self.kind(text, &Json { place, value: Value::Null }),
        }
    }

    fn kind(&mut self, kind: &str, json: &Json) -> Result<NodeId, ConfigError> {
        if let Some((_, reason)) = REFUSED.iter().find(|(name, _)| *name == kind) {
            return Err(json.error(format!("{kind} is not supported: {reason}")));
        }
        match AnyHandle::parse(kind, self, json) {
            Some(handle) => handle.map(|handle| self.add(handle)),
            None => Err(json.error(format!("Unknown type or Missing Name Handle : {kind}; {}", known()))),
        }
    }

    /// The handles of a list. In it, or in its place, `Pool|name` stands for all servers of a pool.
    pub(crate) fn nodes(&mut self, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        if let Value::Array(list) = &json.value {
            let mut nodes = Vec::new();
            for item in list {
                nodes.extend(self.nodes(item)?);
            }
            return Ok(nodes);
        }
        if json
            .get("type")
            .is_some_and(|kind| matches!(&kind.value, Value::Text(kind) if **kind == *"ShadowRoute"))
        {
            return Shadow::list(self, json);
        }
        if let Value::Text(text) = &json.value {
            if text.is_empty() {
                return Ok(Vec::new());
            }
            if let Some(nodes) = self.named(json, text, self.nesting.depth() + 1)? {
                return Ok(nodes.into());
            }
        }
        match pool_in_list(json)? {
            Some(pool) => self.pool(&pool).map(|pool| pool.children().to_vec()),
            None => self.node(json).map(|node| vec![node]),
        }
    }

    /// The children of a handle that reads nothing else.
    pub(crate) fn only_children(&mut self, json: &Json) -> Result<Children, ConfigError> {
        let mut members = self.members(json)?;
        let children = members.children("children")?;
        members.end();
        Ok(children)
    }
}

/// Whether there is a route with this name, or a reason why there is none.
fn is_known(kind: &str) -> bool {
    NAMES.contains(&kind) || REFUSED.iter().any(|(name, _)| *name == kind)
}

/// The names that a configuration can use. Other handles are made of pools only.
fn known() -> String {
    let known: Vec<&str> = NAMES.iter().filter(|name| name.ends_with("Route")).copied().collect();
    format!("use one of {}", known.join(", "))
}

/// A pool in a list of handles, as [`Builder::pool`] reads it: `Pool|name`, or an object of type Pool, which may define the pool.
fn pool_in_list(json: &Json) -> Result<Option<Json>, ConfigError> {
    match &json.value {
        Value::Text(text) => Ok(text
            .strip_prefix("Pool|")
            .map(|name| Json { place: json.place.clone(), value: Value::Text(name.into()) })),
        _ => match json.get("type") {
            Some(Json { value: Value::Text(kind), .. }) if **kind == *"Pool" => {
                json.object("Pool")?.required("name").map(|_| Some(json.clone()))
            }
            _ => Ok(None),
        },
    }
}
