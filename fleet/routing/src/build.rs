//! From a configuration to a tree.

use crate::config::{ConfigError, Json, Value};
use crate::destinations::{DestinationSpec, Destinations};
use crate::handle::{AllInitial, AnyHandle, Children, Destination, NAMES};
use crate::hash::{HashKind, Selector, ServerIdentity};
use crate::prefix::{self, Prefixes, Unknown};
use crate::step::NodeId;
use crate::tree::Tree;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What a configuration does not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `/region/cluster/`: where keys without a prefix go.
    pub default_route: Arc<str>,
    pub unknown_prefix: Unknown,
    pub server_timeout_ms: u32,
}

/// A tree, and what is odd about its configuration.
#[derive(Debug)]
pub struct Built {
    pub tree: Tree,
    pub warnings: Vec<ConfigError>,
}

/// Makes a tree of a configuration that was preprocessed.
///
/// # Errors
/// What is wrong with it, and where.
pub fn build(json: &Json, settings: &Settings, destinations: &mut Destinations) -> Result<Built, ConfigError> {
    let Value::Object(members) = &json.value else {
        return Err(json.error("a configuration is an object"));
    };
    let mut builder = Builder {
        handles: Vec::new(),
        pools: json.get("pools"),
        built_pools: HashMap::new(),
        named: HashMap::new(),
        settings,
        destinations,
        warnings: Vec::new(),
        depth: 0,
    };
    for (name, member) in members {
        let known = ["pools", "route", "routes", "named_handles", "macros", "routing_options"];
        if !known.contains(&&**name) {
            builder.warnings.push(member.error(format!("{name} means nothing here")));
        }
    }
    if let Some(named) = json.get("named_handles") {
        builder.named_handles(named)?;
    }
    let prefixes = builder.roots(json)?;
    let Builder { handles, warnings, .. } = builder;
    Ok(Built { tree: Tree::new(handles, prefixes), warnings })
}

/// What handles read themselves with.
#[derive(Debug)]
pub(crate) struct Builder<'c> {
    handles: Vec<AnyHandle>,
    pools: Option<&'c Json>,
    built_pools: HashMap<Arc<str>, Pool>,
    named: HashMap<Arc<str>, NodeId>,
    settings: &'c Settings,
    destinations: &'c mut Destinations,
    warnings: Vec<ConfigError>,
    depth: usize,
}

/// A pool, whose servers are handles.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) children: Children,
    identities: Arc<[Arc<str>]>,
}

/// Handles within handles.
const DEPTH_MAX: usize = 100;

impl<'c> Builder<'c> {
    pub(crate) fn add(&mut self, handle: AnyHandle) -> NodeId {
        self.handles.push(handle);
        NodeId(self.handles.len() as u32 - 1)
    }

    pub(crate) fn null(&mut self) -> NodeId {
        self.add(AnyHandle::null())
    }

    /// The handle that `json` describes: an object with a type, a name, or a short form.
    pub(crate) fn node(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(json.error(format!("more than {DEPTH_MAX} routes within each other")));
        }
        let node = match &json.value {
            Value::Text(text) => self.short_form(json, text),
            Value::Object(_) => self.object(json),
            _ => Err(json.error("a route is an object with a type, or a name")),
        };
        self.depth -= 1;
        node
    }

    fn object(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        let kind = match json.get("type") {
            Some(Json { value: Value::Text(kind), .. }) => kind.clone(),
            Some(other) => return Err(other.error("type is not a text")),
            None => return Err(json.error("a route without a type")),
        };
        let node = self.kind(&kind, json)?;
        if let Some(Json { value: Value::Text(name), .. }) = json.get("name") {
            self.named.insert(name.clone(), node);
        }
        Ok(node)
    }

    fn short_form(&mut self, json: &Json, text: &Arc<str>) -> Result<NodeId, ConfigError> {
        if let Some(node) = self.named.get(text) {
            return Ok(*node);
        }
        match text.split_once('|') {
            Some((kind, rest)) => {
                let rest = Json { place: json.place.clone(), value: Value::Text(rest.into()) };
                self.kind(kind, &rest)
            }
            None => self.kind(text, &Json { place: json.place.clone(), value: Value::Null }),
        }
    }

    fn kind(&mut self, kind: &str, json: &Json) -> Result<NodeId, ConfigError> {
        match AnyHandle::parse(kind, self, json) {
            Some(handle) => handle.map(|handle| self.add(handle)),
            None => {
                Err(json.error(format!("no route is called {kind}; there are {}", NAMES.join(", "))))
            }
        }
    }

    /// The handles of a list. In it, or in its place, `Pool|name` stands for all servers of a pool.
    pub(crate) fn nodes(&mut self, json: &Json) -> Result<Vec<NodeId>, ConfigError> {
        match &json.value {
            Value::Array(list) => {
                let mut nodes = Vec::new();
                for item in list {
                    nodes.extend(self.nodes(item)?);
                }
                Ok(nodes)
            }
            Value::Text(text) if text.starts_with("Pool|") => {
                self.pool(json, &text["Pool|".len()..]).map(|pool| pool.children.to_vec())
            }
            Value::Object(_) if is_pool(json) => match json.get("name") {
                Some(Json { value: Value::Text(name), .. }) => {
                    self.pool(json, name).map(|pool| pool.children.to_vec())
                }
                _ => Err(json.error("a Pool without a name")),
            },
            _ => self.node(json).map(|node| vec![node]),
        }
    }

    /// The children of a handle that reads nothing else.
    pub(crate) fn only_children(&mut self, json: &Json) -> Result<Children, ConfigError> {
        let mut members = self.members(json)?;
        let children = members.children("children")?;
        members.end();
        Ok(children)
    }

    /// Reads the members of a handle, or what stands in their place in a short form.
    pub(crate) fn members<'b, 'j>(&'b mut self, json: &'j Json) -> Result<Members<'b, 'c, 'j>, ConfigError> {
        match &json.value {
            Value::Object(_) | Value::Text(_) | Value::Null => {
                Ok(Members { build: self, json, known: vec!["type", "name"] })
            }
            _ => Err(json.error("a route is an object with a type, or a name")),
        }
    }

    fn pool(&mut self, at: &Json, name: &str) -> Result<Pool, ConfigError> {
        if let Some(pool) = self.built_pools.get(name) {
            return Ok(pool.clone());
        }
        let found = self.pools.and_then(|pools| pools.get(name));
        let json = found.ok_or_else(|| at.error(format!("there is no pool {name}")))?;
        let Some(Json { value: Value::Array(servers), .. }) = json.get("servers") else {
            return Err(json.error(format!("pool {name} has no list of servers")));
        };
        let (mut children, mut identities) = (Vec::new(), Vec::new());
        for server in servers {
            let Value::Text(address) = &server.value else {
                return Err(server.error("a server is a text, host:port"));
            };
            let timeout_ms = self.settings.server_timeout_ms;
            let spec =
                DestinationSpec { address: address.clone(), timeout_ms, connect_timeout_ms: timeout_ms };
            let number = self.destinations.number(spec);
            children.push(self.add(AnyHandle::Destination(Destination(number))));
            identities.push(address.clone());
        }
        let pool = Pool { children: children.into(), identities: identities.into() };
        self.built_pools.insert(name.into(), pool.clone());
        Ok(pool)
    }

    fn named_handles(&mut self, json: &Json) -> Result<(), ConfigError> {
        match &json.value {
            Value::Array(list) => list.iter().try_for_each(|item| self.node(item).map(|_| ())),
            Value::Object(members) => members.iter().try_for_each(|(name, member)| {
                let node = self.node(member)?;
                self.named.insert(name.clone(), node);
                Ok(())
            }),
            _ => Err(json.error("named_handles is neither a list nor an object")),
        }
    }

    fn roots(&mut self, json: &Json) -> Result<Prefixes, ConfigError> {
        let default_route = self.settings.default_route.clone();
        let mut roots: Vec<(Arc<str>, NodeId)> = Vec::new();
        match (json.get("route"), json.get("routes")) {
            (Some(route), None) => roots.push((default_route.clone(), self.node(route)?)),
            (None, Some(Json { value: Value::Array(list), .. })) => {
                for item in list {
                    let route = item.get("route").ok_or_else(|| item.error("route is missing"))?;
                    let Some(Json { value: Value::Array(aliases), .. }) = item.get("aliases") else {
                        return Err(item.error("aliases is missing, or no list"));
                    };
                    let node = self.node(route)?;
                    for alias in aliases {
                        let Value::Text(prefix) = &alias.value else {
                            return Err(alias.error("an alias is a text"));
                        };
                        add_root(&mut roots, alias, prefix, node)?;
                    }
                }
            }
            (None, Some(Json { value: Value::Object(members), .. })) => {
                for (prefix, route) in members {
                    let node = self.node(route)?;
                    add_root(&mut roots, route, prefix, node)?;
                }
            }
            (Some(_), Some(routes)) => return Err(routes.error("route and routes exclude each other")),
            (None, Some(routes)) => return Err(routes.error("routes is neither a list nor an object")),
            (None, None) => return Err(json.error("neither route nor routes is there")),
        }
        let default = roots.iter().find(|(prefix, _)| *prefix == default_route).map(|(_, node)| *node);
        let default = default
            .ok_or_else(|| json.error(format!("no route has the default prefix {default_route} as an alias")))?;
        let mut known: HashMap<Box<[u8]>, NodeId> =
            roots.iter().map(|(prefix, node)| (prefix.as_bytes().into(), *node)).collect();
        for (pattern, nodes) in patterns(&roots, &default_route) {
            let node = match *nodes {
                [only] => only,
                _ => self.add(AnyHandle::AllInitial(AllInitial(nodes.into()))),
            };
            known.insert(pattern.into_bytes().into(), node);
        }
        Ok(Prefixes::new(known, default, self.settings.unknown_prefix))
    }
}

fn add_root(
    roots: &mut Vec<(Arc<str>, NodeId)>,
    at: &Json,
    prefix: &Arc<str>,
    node: NodeId,
) -> Result<(), ConfigError> {
    if prefix::parts(prefix).is_none_or(|(region, cluster)| region == "*" || cluster == "*") {
        return Err(at.error(format!("{prefix} is no prefix: it has the form /region/cluster/")));
    }
    if roots.iter().any(|(known, _)| known == prefix) {
        return Err(at.error(format!("{prefix} has a route already")));
    }
    roots.push((prefix.clone(), node));
    Ok(())
}

/// Prefixes with an asterisk, and the roots that each stands for: those nearest to the default come first, since the client is told what
/// the first has answered.
fn patterns(roots: &[(Arc<str>, NodeId)], default: &str) -> Vec<(String, Vec<NodeId>)> {
    let home = prefix::parts(default);
    let mut patterns: Vec<(String, Vec<(u8, NodeId)>)> = Vec::new();
    for (prefix, node) in roots {
        let Some((region, cluster)) = prefix::parts(prefix) else { continue };
        let distance = match home {
            _ if **prefix == *default => 0,
            Some((near, _)) if near == region => 1,
            _ => 2,
        };
        for pattern in [format!("/*/*/"), format!("/{region}/*/"), format!("/*/{cluster}/")] {
            match patterns.iter_mut().find(|(known, _)| *known == pattern) {
                Some((_, nodes)) => nodes.push((distance, *node)),
                None => patterns.push((pattern, vec![(distance, *node)])),
            }
        }
    }
    let sorted = patterns.into_iter().map(|(pattern, mut nodes)| {
        nodes.sort_by_key(|(distance, _)| *distance);
        let mut distinct = Vec::new();
        nodes.iter().for_each(|(_, node)| {
            if !distinct.contains(node) {
                distinct.push(*node);
            }
        });
        (pattern, distinct)
    });
    sorted.collect()
}

fn is_pool(json: &Json) -> bool {
    matches!(json.get("type"), Some(Json { value: Value::Text(kind), .. }) if **kind == *"Pool")
}

/// The members of a handle, as it reads them. Those that it does not know are warned of.
#[derive(Debug)]
pub(crate) struct Members<'b, 'c, 'j> {
    build: &'b mut Builder<'c>,
    json: &'j Json,
    known: Vec<&'static str>,
}

impl<'j> Members<'_, '_, 'j> {
    /// A member as it is, if it is there.
    pub(crate) fn json(&mut self, name: &'static str) -> Option<&'j Json> {
        self.known.push(name);
        self.json.get(name)
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<Arc<str>>, ConfigError> {
        match self.json(name) {
            None => Ok(None),
            Some(Json { value: Value::Text(text), .. }) => Ok(Some(text.clone())),
            Some(other) => Err(other.error(format!("{name} is not a text"))),
        }
    }

    /// A part of a key.
    pub(crate) fn key_part(&mut self, name: &'static str) -> Result<Option<Arc<str>>, ConfigError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let is_good = text.len() <= crate::KEY_MAX && text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
        if is_good { Ok(Some(text)) } else { Err(self.json.error(format!("{name} cannot be part of a key"))) }
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.json(name) {
            None => Ok(None),
            Some(Json { value: Value::Bool(flag), .. }) => Ok(Some(*flag)),
            Some(other) => Err(other.error(format!("{name} is neither true nor false"))),
        }
    }

    pub(crate) fn integer(
        &mut self,
        name: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ConfigError> {
        match self.json(name) {
            None => Ok(None),
            Some(Json { value: Value::Integer(number), .. }) if range.contains(number) => Ok(Some(*number)),
            Some(other) => {
                let (least, most) = range.into_inner();
                Err(other.error(format!("{name} is not an integer from {least} to {most}")))
            }
        }
    }

    pub(crate) fn optional_child(&mut self, name: &'static str) -> Result<Option<NodeId>, ConfigError> {
        self.json(name).map(|json| self.build.node(json)).transpose()
    }

    pub(crate) fn child(&mut self, name: &'static str) -> Result<NodeId, ConfigError> {
        let child = self.optional_child(name)?;
        child.ok_or_else(|| self.json.error(format!("{name} is missing")))
    }

    /// Children: at least one, since an empty list is a route without items.
    pub(crate) fn children(&mut self, name: &'static str) -> Result<Children, ConfigError> {
        let list = match &self.json.value {
            Value::Object(_) => self.json(name),
            _ => Some(self.json),
        };
        let nodes = match list {
            Some(list) => self.build.nodes(list)?,
            None => Vec::new(),
        };
        if nodes.is_empty() { Ok([self.build.null()].into()) } else { Ok(nodes.into()) }
    }

    pub(crate) fn pool(&mut self, name: &'static str) -> Result<Pool, ConfigError> {
        let json = match &self.json.value {
            Value::Object(_) => self.json(name),
            _ => Some(self.json),
        };
        match json {
            Some(json @ Json { value: Value::Text(name), .. }) => self.build.pool(json, name),
            Some(other) => Err(other.error(format!("{name} is not the name of a pool"))),
            None => Err(self.json.error(format!("{name} is missing"))),
        }
    }

    /// How a child is chosen by the hash of a key.
    pub(crate) fn hash(&mut self, children: usize) -> Result<Selector, ConfigError> {
        let names: Vec<Arc<str>> = (0..children).map(|number| number.to_string().into()).collect();
        let kind = self.text("hash_func")?;
        let salt = self.text("salt")?.unwrap_or_default();
        selector(self.json, kind.as_deref(), &salt, &names)
    }

    pub(crate) fn hash_of_pool(&mut self, pool: &Pool) -> Result<Selector, ConfigError> {
        match self.json("hash") {
            None => selector(self.json, None, "", &pool.identities),
            Some(json @ Json { value: Value::Text(kind), .. }) => selector(json, Some(kind), "", &pool.identities),
            Some(json) => {
                let text = |name| match json.get(name) {
                    Some(Json { value: Value::Text(text), .. }) => Some(text.clone()),
                    _ => None,
                };
                let salt = text("salt").unwrap_or_default();
                selector(json, text("hash_func").as_deref(), &salt, &pool.identities)
            }
        }
    }

    /// A child, or a route without items in its place.
    pub(crate) fn child_or_null(&mut self, name: &'static str) -> Result<NodeId, ConfigError> {
        match self.optional_child(name)? {
            Some(child) => Ok(child),
            None => Ok(self.build.null()),
        }
    }

    /// All members were read.
    pub(crate) fn end(self) {
        let Value::Object(members) = &self.json.value else {
            return;
        };
        for (name, member) in members {
            if !self.known.contains(&&**name) {
                self.build.warnings.push(member.error(format!("{name} means nothing here")));
            }
        }
    }
}

fn selector(at: &Json, kind: Option<&str>, salt: &str, names: &[Arc<str>]) -> Result<Selector, ConfigError> {
    let kind = HashKind::from_name(kind.unwrap_or("Ch3")).map_err(|error| at.error(error.to_string()))?;
    let servers: Vec<ServerIdentity<'_>> = names.iter().map(|name| ServerIdentity::at(name)).collect();
    Selector::new(kind, &servers, salt).map_err(|error| at.error(error.to_string()))
}
