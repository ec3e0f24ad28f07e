//! Pools: the servers that keys are spread over, and how to talk to them.

mod changes;
mod read;
mod server;
mod service;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::json::{ConfigError, Json, Place, Value};
use super::limits::{Budget, POOL_ANCESTORS, SERVER_STEPS};
use super::parse::parse;
use super::sources::Sources;

pub use changes::{Handover, Resize, Stage};
pub use server::{Address, Security};
pub use service::SRV;

/// A configured pool. The router's options replace each `None`.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: Arc<str>,
    pub place: Place,
    /// In the order of the text, on which hashes depend unless there are slots.
    pub servers: Vec<Server>,
    pub server_timeout: Option<Duration>,
    /// The default is the server timeout.
    pub connect_timeout: Option<Duration>,
    pub region: Option<Arc<str>>,
    pub cluster: Option<Arc<str>>,
    /// Keys are sent with their routing prefix.
    pub keep_routing_prefix: bool,
    pub qos: Qos,
    pub tko_thresholds: Option<TkoThresholds>,
    /// A request for a pool without servers fails, instead of getting the reply of a miss.
    pub error_on_empty: bool,
    /// Requests are sent even after their deadline.
    pub disable_request_deadline_check: Option<bool>,
    /// The most requests in flight.
    pub max_outstanding: Option<u64>,
    /// An extension, as in twemproxy: while a server is down, other servers take its keys. The
    /// place of the member, if it is set.
    pub auto_eject_hosts: Option<Place>,
    /// An extension: the syntax in which leases are requested.
    pub leases: Leases,
    /// For hashes that need them: one tag for each server.
    pub tags: Option<Vec<Arc<str>>>,
    /// An extension: the pool is being resized.
    pub resize: Option<Resize>,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub place: Place,
    pub target: Target,
    /// 0 to 1. All servers of a pool have one, or none has.
    pub weight: Option<f64>,
    pub failure_domain: Option<FailureDomain>,
    pub hostname: Option<Arc<str>>,
    /// Ours: what hashes by name take for this server, wherever it is in the list.
    pub name: Option<Arc<str>>,
    /// Ours: what hashes by position take for this server's position.
    pub slot: Option<u32>,
    /// Ours: another one has or gets the same keys.
    pub handover: Option<Handover>,
}

#[derive(Clone, Debug)]
pub enum Target {
    Server {
        address: Address,
        security: Security,
    },
    /// A route in a server's place, for the tree to read.
    Route(Json),
}

/// Servers that fail together have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FailureDomain {
    Number(i64),
    Name(Arc<str>),
}

/// Marks of packets: class 0 to 4, path 0 to 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Qos {
    pub class: Option<u8>,
    pub path: Option<u8>,
}

/// The commands that replace lease-get and lease-set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Leases {
    /// lease-get and lease-set themselves.
    #[default]
    Native,
    /// Meta commands, which memcached knows since 1.6.
    Meta,
}

/// With more than `upper` failed servers, the pool uses all of them again until fewer than `lower`
/// are failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TkoThresholds {
    pub upper: u32,
    pub lower: u32,
}

#[derive(Debug)]
pub struct PoolsRead {
    /// Further imports to watch.
    pub imports: Vec<Arc<str>>,
    pub warnings: Vec<ConfigError>,
}

/// The pools of a configuration, each of which is read on its first use.
pub struct Pools<'s> {
    sources: &'s dyn Sources,
    definitions: HashMap<Arc<str>, Rc<Json>>,
    /// The names of the defined pools, in the order of the text.
    names: Vec<Arc<str>>,
    /// The pools that were used, and those that they inherit from.
    used: HashSet<Arc<str>>,
    read: HashMap<Arc<str>, Arc<Pool>>,
    imports: Vec<Arc<str>>,
    warnings: Vec<ConfigError>,
    budget: Budget,
}

impl<'s> Pools<'s> {
    /// The pools in `pools` of an expanded configuration.
    pub fn new(config: &Json, sources: &'s dyn Sources) -> Result<Self, ConfigError> {
        let mut definitions = HashMap::new();
        let mut names = Vec::new();
        if let Some(pools) = config.get("pools") {
            for (name, json) in pools.object("pools")?.members() {
                json.object(name)?;
                definitions.insert(Arc::clone(name), Rc::new(json.clone()));
                names.push(Arc::clone(name));
            }
        }
        let (used, read, imports, warnings) = Default::default();
        Ok(Self { sources, definitions, names, used, read, imports, warnings, budget: Budget::new() })
    }

    /// The pool that a route names: a string is the name of one in `pools` or of a file, an object is a definition with a `name`, or
    /// the name alone.
    pub fn pool(&mut self, json: &Json) -> Result<Arc<Pool>, ConfigError> {
        let Value::Text(name) = &json.value else {
            let name = json.object("pool")?.required_as("name", Json::shared_text)?;
            self.define(name, json);
            return self.named(name, &json.place);
        };
        self.named(name, &json.place)
    }

    /// Reads the unused pools too; their faults are warnings.
    pub fn finish(mut self) -> PoolsRead {
        for name in std::mem::take(&mut self.names) {
            if self.used.contains(&name) {
                continue;
            }
            let place = self.definitions[&name].place.clone();
            if let Err(error) = self.named(&name, &place) {
                self.warnings.push(error);
            }
        }
        // The definition that several pools inherit is read for each of them.
        let mut seen = HashSet::new();
        self.warnings.retain(|warning| seen.insert(warning.to_string()));
        PoolsRead { imports: self.imports, warnings: self.warnings }
    }

    /// The first definition of a name counts.
    fn define(&mut self, name: &Arc<str>, json: &Json) {
        let is_definition = json.get("servers").is_some() || json.get("inherit").is_some();
        match self.definitions.get(name) {
            None if is_definition => {
                self.definitions.insert(Arc::clone(name), Rc::new(json.clone()));
            }
            Some(earlier) if is_definition && earlier.place != json.place => {
                let reason = format!(
                    "pool {name:?} is defined at {} already; this definition has no effect",
                    earlier.place
                );
                self.warnings.push(json.error(reason));
            }
            _ => {}
        }
    }

    fn named(&mut self, name: &Arc<str>, place: &Place) -> Result<Arc<Pool>, ConfigError> {
        if let Some(pool) = self.read.get(name) {
            return Ok(Arc::clone(pool));
        }
        let definitions = self.with_ancestors(name, place)?;
        let in_pool = |error: ConfigError| error.place.error(format!("pool {name:?}: {}", error.reason));
        let servers = definitions.iter().find_map(|json| json.get("servers"));
        let record = servers.map(service::record).transpose().map_err(in_pool)?.flatten();
        let of_record = record.map(|(record, json)| self.servers_of_record(record, json)).transpose();
        let of_record = of_record.map_err(in_pool)?;
        let number = match of_record.as_ref().or(servers).map(|servers| &servers.value) {
            Some(Value::Array(servers)) => servers.len() as u64,
            _ => 0,
        };
        self.budget.spend(1 + number * SERVER_STEPS, place)?;
        let pool = read::read(name, &definitions, of_record.as_ref(), &mut self.warnings).map_err(in_pool)?;
        let pool = Arc::new(pool);
        self.read.insert(Arc::clone(name), Arc::clone(&pool));
        Ok(pool)
    }

    /// The servers that an SRV record names.
    fn servers_of_record(&self, record: &str, json: &Json) -> Result<Json, ConfigError> {
        let text = self.sources.read(record).map_err(|reason| json.error(reason))?;
        parse(&record.into(), &text, &self.budget)
    }

    /// The definition of a pool and of those that it inherits from. An earlier one counts more.
    fn with_ancestors(&mut self, name: &Arc<str>, place: &Place) -> Result<Vec<Rc<Json>>, ConfigError> {
        let mut definitions: Vec<Rc<Json>> = Vec::new();
        let mut seen: Vec<Arc<str>> = Vec::new();
        let (mut name, mut place) = (Arc::clone(name), place.clone());
        loop {
            if seen.contains(&name) {
                return Err(place.error(format!("pool {name:?} inherits from itself")));
            }
            if seen.len() >= POOL_ANCESTORS {
                return Err(place.error(format!("more than {POOL_ANCESTORS} pools inherit from each other")));
            }
            let json = self.definition(&name, &place)?;
            self.used.insert(Arc::clone(&name));
            seen.push(name);
            let parent = json
                .get("inherit")
                .map(|parent| (parent.shared_text("inherit").cloned(), parent.place.clone()));
            definitions.push(json);
            let Some((parent, line)) = parent else { return Ok(definitions) };
            (name, place) = (parent?, line);
        }
    }

    fn definition(&mut self, name: &Arc<str>, place: &Place) -> Result<Rc<Json>, ConfigError> {
        if let Some(json) = self.definitions.get(name) {
            return Ok(Rc::clone(json));
        }
        let text = self.sources.read(name);
        if !self.imports.contains(name) {
            self.imports.push(Arc::clone(name));
        }
        let text = text
            .map_err(|reason| place.error(format!("no pool {name:?} and no file of this name: {reason}")))?;
        let json = parse(name, &text, &self.budget)?;
        json.object(name)?;
        let json = Rc::new(json);
        self.definitions.insert(Arc::clone(name), Rc::clone(&json));
        Ok(json)
    }
}

impl std::fmt::Debug for Pools<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pools").field("names", &self.names).finish_non_exhaustive()
    }
}
