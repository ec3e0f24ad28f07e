//! From a configuration to a tree.

mod members;
mod named;
mod pools;
mod roots;

use crate::config::{ConfigError, FailureDomain, Json, Pools, Sources, Value};
use crate::destinations::Destinations;
use crate::handle::{AllSync, AnyHandle, BigValues, Children, KeepPrefix, NAMES, Shadow};
use crate::leases::LeaseTokens;
use crate::prefix::Unknown;
use crate::step::{DestinationId, Hop, LogName, NodeId};
use crate::tree::Tree;
use crate::warm_ups::WarmUps;
use named::{Named, only};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use members::Members;
pub(crate) use pools::PoolHandles;

/// What a configuration does not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `/region/cluster/`: where keys without a prefix go.
    pub default_route: Arc<str>,
    pub unknown_prefix: Unknown,
    pub timeouts: Timeouts,
    /// Values are split before they are routed, as by a BigValueRoute in front of each route.
    pub big_values: Option<BigValues>,
    /// Without it, packets to servers are not marked, whatever pools say.
    pub qos: Option<DefaultQos>,
    /// Of all trees that are made with these settings.
    pub leases: Arc<LeaseTokens>,
    /// The same of cold clusters.
    pub warm_ups: Arc<WarmUps>,
}

/// Marks of packets to servers whose pool does not name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultQos {
    /// 0 to 4.
    pub class: u8,
    /// 0 to 3.
    pub path: u8,
}

impl Settings {
    /// Nothing but where keys without a prefix go, and how long any server may take.
    pub fn plain(default_route: &str, server: Duration) -> Self {
        let timeouts = Timeouts { server, within_cluster: None, cross_cluster: None, cross_region: None };
        let (leases, warm_ups, default_route) = (Arc::default(), Arc::default(), default_route.into());
        let (unknown_prefix, big_values, qos) = (Unknown::Refused, None, None);
        Settings { default_route, unknown_prefix, timeouts, big_values, qos, leases, warm_ups }
    }
}

/// How long a server may take. Those for distances replace what a pool says that names its region and cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub server: Duration,
    pub within_cluster: Option<Duration>,
    pub cross_cluster: Option<Duration>,
    pub cross_region: Option<Duration>,
}

/// A tree, and what else came of its configuration.
#[derive(Debug)]
pub struct Built {
    pub tree: Tree,
    /// Those that routes name, by name.
    pub pools: Vec<BuiltPool>,
    /// Files that pools are read from.
    pub imports: Vec<Arc<str>>,
    pub warnings: Vec<ConfigError>,
}

/// A pool whose servers a tree sends requests to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltPool {
    pub name: Arc<str>,
    /// Its servers, each once.
    pub destinations: Vec<DestinationId>,
}

/// Makes a tree of a configuration that [`crate::config::load`] has read.
///
/// # Errors
/// What is wrong with it, and where.
pub fn build(
    json: &Json,
    sources: &dyn Sources,
    settings: &Settings,
    destinations: &mut Destinations,
) -> Result<Built, ConfigError> {
    let mut top = json.object("configuration")?;
    for known in ["pools", "macros", "routing_options"] {
        top.optional(known);
    }
    let (named, route, routes) =
        (top.optional("named_handles"), top.optional("route"), top.optional("routes"));
    let mut builder = Builder {
        handles: Vec::new(),
        pools: Pools::new(json, sources)?,
        built_pools: HashMap::new(),
        named: Named::default(),
        heights: HashMap::new(),
        domains: HashMap::new(),
        domain_numbers: HashMap::new(),
        logs: HashMap::new(),
        settings,
        destinations,
        warnings: Vec::new(),
        depth: 0,
        deepest: 0,
    };
    top.finish(&mut builder.warnings);
    if let Some(named) = named {
        builder.named_handles(named)?;
    }
    let prefixes = builder.roots(json, route, routes)?;
    let everywhere = builder.everywhere();
    let Builder { handles, pools, built_pools, logs, mut warnings, .. } = builder;
    let read = pools.finish();
    warnings.extend(read.warnings);
    let mut pools: Vec<BuiltPool> = built_pools.into_values().map(PoolHandles::built).collect();
    pools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Built { tree: Tree::new(handles, prefixes, everywhere, logs), pools, imports: read.imports, warnings })
}

/// What handles read themselves with.
pub(crate) struct Builder<'c> {
    handles: Vec<AnyHandle>,
    pools: Pools<'c>,
    built_pools: HashMap<Arc<str>, PoolHandles>,
    named: Named<'c>,
    /// How many routes are within each other below a route that may be named again.
    heights: HashMap<NodeId, usize>,
    /// Failure domains of servers, by number.
    domains: HashMap<NodeId, u32>,
    domain_numbers: HashMap<FailureDomain, u32>,
    logs: HashMap<LogName, NodeId>,
    settings: &'c Settings,
    destinations: &'c mut Destinations,
    warnings: Vec<ConfigError>,
    /// How many routes the present one is in, itself counted, and at most what it has named.
    depth: usize,
    deepest: usize,
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

/// Routes within routes, by whatever names: a worker's stack has to have room for a request on its way through them.
const DEPTH_MAX: usize = 64;

impl<'c> Builder<'c> {
    pub(crate) fn add(&mut self, handle: AnyHandle) -> NodeId {
        self.handles.push(handle);
        NodeId(self.handles.len() as u32 - 1)
    }

    /// Where a child leads that is told nothing but the request: to a server without a further look, if it is one.
    pub(crate) fn hop(&self, child: NodeId) -> Hop {
        match &self.handles[child.0 as usize] {
            AnyHandle::Destination(server) => server.send(),
            _ => Hop::To(child),
        }
    }

    /// A handle that asks all servers, each in one of the ways to it.
    fn everywhere(&mut self) -> NodeId {
        let mut known = HashSet::new();
        let nodes = (0..).map(NodeId).zip(&self.handles);
        let servers: Children = nodes
            .filter(|(_, handle)| handle.destination().is_some_and(|server| known.insert(server)))
            .map(|(node, _)| node)
            .collect();
        if servers.is_empty() { self.null() } else { self.add(AnyHandle::AllSync(AllSync::new(servers))) }
    }

    /// Cold clusters of all workers.
    pub(crate) fn warm_ups(&self) -> &WarmUps {
        &self.settings.warm_ups
    }

    pub(crate) fn domain(&self, node: NodeId) -> Option<u32> {
        self.domains.get(&node).copied()
    }

    /// The same server, whose deletes are logged when they fail. What is no server stays as it is.
    fn logged(&mut self, node: NodeId, log: LogName) -> NodeId {
        let handle = match &self.handles[node.0 as usize] {
            AnyHandle::Destination(server) => AnyHandle::Destination(server.logged(log)),
            AnyHandle::KeepPrefix(KeepPrefix(server)) => {
                let server = *server;
                AnyHandle::KeepPrefix(KeepPrefix(self.logged(server, log)))
            }
            _ => return node,
        };
        let logged = self.add(handle);
        if let Some(domain) = self.domain(node) {
            self.domains.insert(logged, domain);
        }
        logged
    }

    fn in_domain(&mut self, node: NodeId, domain: &FailureDomain) {
        let next = self.domain_numbers.len() as u32;
        let number = *self.domain_numbers.entry(domain.clone()).or_insert(next);
        self.domains.insert(node, number);
    }

    pub(crate) fn null(&mut self) -> NodeId {
        self.add(AnyHandle::null())
    }

    /// The handle that `json` describes: an object with a type, a name, or a short form.
    pub(crate) fn node(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        self.depth += 1;
        let outside = std::mem::replace(&mut self.deepest, 0);
        self.reach(json, self.depth)?;
        let node =
            match &json.value {
                Value::Text(text) => self.short_form(json, text),
                Value::Object(_) => self.object(json),
                _ => Err(json
                    .error(format!("a route is an object with a type, or a name; this is {}", json.kind()))),
            };
        if let Ok(node) = node {
            self.heights.insert(node, self.deepest - self.depth);
        }
        self.deepest = self.deepest.max(outside);
        self.depth -= 1;
        node
    }

    /// So many routes are within each other here.
    fn reach(&mut self, json: &Json, depth: usize) -> Result<(), ConfigError> {
        self.deepest = self.deepest.max(depth);
        if depth > DEPTH_MAX {
            return Err(json.error(format!("more than {DEPTH_MAX} routes within each other")));
        }
        Ok(())
    }

    /// These routes, with all that is in them, are named in one that is in so many others.
    fn reach_again(&mut self, json: &Json, nodes: &[NodeId], depth: usize) -> Result<(), ConfigError> {
        let height = nodes.iter().filter_map(|node| self.heights.get(node)).max().copied();
        self.reach(json, depth + height.unwrap_or(0))
    }

    fn object(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let Some(kind) = json.get("type") else {
            return Err(json.error("a route without a type"));
        };
        let kind = kind.text("type")?;
        match json.get("name") {
            Some(name) => {
                let name = name.shared_text("name")?;
                self.defined(json, name, |build| build.kind(kind, json))
            }
            None => self.kind(kind, json),
        }
    }

    fn short_form(&mut self, json: &Json, text: &Arc<str>) -> Result<NodeId, ConfigError> {
        if let Some(nodes) = self.named(json, text, self.depth)? {
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
            None => {
                // Others are made of pools only.
                let known: Vec<&str> = NAMES.iter().filter(|name| name.ends_with("Route")).copied().collect();
                Err(json.error(format!("unknown route {kind:?}; use one of {}", known.join(", "))))
            }
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
            if let Some(nodes) = self.named(json, text, self.depth + 1)? {
                return Ok(nodes.into());
            }
        }
        match pool_in_list(json)? {
            Some(name) => self.pool(&name).map(|pool| pool.children().to_vec()),
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

/// The name of a pool in a list of handles: `Pool|name`, or an object of type Pool.
fn pool_in_list(json: &Json) -> Result<Option<Json>, ConfigError> {
    match &json.value {
        Value::Text(text) => Ok(text
            .strip_prefix("Pool|")
            .map(|name| Json { place: json.place.clone(), value: Value::Text(name.into()) })),
        _ => match json.get("type") {
            Some(Json { value: Value::Text(kind), .. }) if **kind == *"Pool" => {
                json.object("Pool")?.required("name").map(|name| Some(name.clone()))
            }
            _ => Ok(None),
        },
    }
}
