//! The members of a route.

use super::{Builder, PoolHandles, selectors};
use crate::KEY_MAX;
use crate::config::{ConfigError, Json, Object, Pool, Stage, Value};
use crate::counts::Tally;
use crate::handle::{AnyHandle, Children, Handover, Latest};
use crate::hash::Selector;
use crate::leases::LeaseTokens;
use crate::step::{LogName, NodeId};
use crate::warm_ups::WarmUps;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Reads the members of a route; or the part behind the bar of its short form, which is then the
/// main member. Unread members become warnings.
pub(crate) struct Members<'b, 'c, 'j> {
    build: &'b mut Builder<'c>,
    json: &'j Json,
    object: Option<Object<'j>>,
}

impl<'c> Builder<'c> {
    pub(crate) fn members<'b, 'j>(&'b mut self, json: &'j Json) -> Result<Members<'b, 'c, 'j>, ConfigError> {
        let mut object = match &json.value {
            Value::Object(_) => {
                let name = json.get("type").map_or(Ok("route"), |kind| kind.text("type"))?;
                Some(json.object(name)?)
            }
            _ => None,
        };
        for known in ["type", "name"] {
            object.as_mut().map(|object| object.optional(known));
        }
        Ok(Members { build: self, json, object })
    }
}

impl<'c, 'j> Members<'_, 'c, 'j> {
    pub(crate) fn of<'a>(&mut self, json: &'a Json) -> Result<Members<'_, 'c, 'a>, ConfigError> {
        self.build.members(json)
    }

    /// A member as JSON, if present.
    pub(crate) fn json(&mut self, name: &str) -> Option<&'j Json> {
        self.object.as_mut()?.optional(name)
    }

    /// The member that a short form gives.
    pub(crate) fn main(&mut self, name: &str) -> Option<&'j Json> {
        match (&mut self.object, &self.json.value) {
            (Some(object), _) => object.optional(name),
            (None, Value::Null) => None,
            (None, _) => Some(self.json),
        }
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> ConfigError {
        self.json.error(reason)
    }

    fn missing(&self, name: &str) -> ConfigError {
        self.json.error(format!("'{name}' is missing"))
    }

    /// Read by an accessor of [`Json`].
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'j Json, &str) -> Result<T, ConfigError>,
    ) -> Result<Option<T>, ConfigError> {
        self.json(name).map(|json| read(json, name)).transpose()
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<Arc<str>>, ConfigError> {
        self.read(name, |json, name| json.shared_text(name).cloned())
    }

    pub(crate) fn key_part(&mut self, name: &str) -> Result<Option<Arc<str>>, ConfigError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let is_good = text.len() <= KEY_MAX && text.bytes().all(|byte| byte > b' ' && byte != 0x7f);
        if is_good {
            Ok(Some(text))
        } else {
            Err(self.json.error(format!("'{name}' cannot be part of a key")))
        }
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<Option<bool>, ConfigError> {
        self.read(name, Json::boolean)
    }

    pub(crate) fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ConfigError> {
        self.read(name, |json, name| json.integer(name, range))
    }

    /// A handle that the route is made of.
    pub(crate) fn add(&mut self, handle: AnyHandle) -> NodeId {
        self.build.add(handle)
    }

    pub(crate) fn build(&self) -> &Builder<'_> {
        self.build
    }

    /// How many requests each shadow may have under way in a thread.
    pub(crate) fn shadow_limit(&self) -> Option<u64> {
        self.build.settings.shadow_limit.map(|most| most.get().into())
    }

    pub(crate) fn lease_tokens(&self) -> Arc<LeaseTokens> {
        self.build.settings.leases.clone()
    }

    pub(crate) fn warm_ups(&self) -> &WarmUps {
        self.build.warm_ups()
    }

    /// The counters that all handles of the tree share.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        self.build.tally()
    }

    /// Keys of a pool that move between two places.
    pub(crate) fn handover(&mut self, places: [NodeId; 2], stage: Stage, pool: &Pool) -> NodeId {
        let timeout = self.build.settings.timeout(pool);
        let name = format!("keys of pool {} that move", pool.name);
        let handle = Handover::between(self.build, places, stage, &name, timeout);
        self.add(AnyHandle::Handover(handle))
    }

    pub(crate) fn log(&mut self, name: &Arc<str>) -> LogName {
        self.build.destinations.log(name)
    }

    /// The deletes in this log are replayed through this handle, unless another one has the log's
    /// name.
    pub(crate) fn is_behind(&mut self, log: LogName, node: NodeId) {
        self.build.logs.entry(log).or_insert(node);
    }

    /// The failure domain of a server.
    pub(crate) fn domain(&self, node: NodeId) -> Option<u32> {
        self.build.domain(node)
    }

    /// Warns that a member has no effect, if it is present and not `false`.
    pub(crate) fn without_effect(&mut self, name: &str, reason: &str) {
        if let Some(json) = self.json(name)
            && !matches!(json.value, Value::Bool(false))
        {
            self.build.warnings.push(json.error(format!("'{name}' has no effect: {reason}")));
        }
    }

    pub(crate) fn warn(&mut self, warning: ConfigError) {
        self.build.warnings.push(warning);
    }

    /// Warns of a fault in a part of the route, which is ignored.
    pub(crate) fn left_out(&mut self, effect: &str, error: ConfigError) {
        self.warn(error.place.error(format!("{}; {effect}", error.reason)));
    }

    /// Like [`Self::without_effect`], for a member of a member.
    pub(crate) fn warn_of(&mut self, json: Option<&Json>, name: &str, reason: &str) {
        self.build.warnings.extend(json.map(|json| json.error(format!("'{name}' has no effect: {reason}"))));
    }

    /// Warns of the members that were not read.
    pub(crate) fn finish(&mut self, object: Object<'_>) {
        object.finish(&mut self.build.warnings);
    }

    /// The route in a member of a member.
    pub(crate) fn node(&mut self, json: &Json) -> Result<NodeId, ConfigError> {
        self.build.node(json)
    }

    /// Refuses a member, if it is present and not `false`.
    pub(crate) fn refuse(&mut self, name: &str, reason: &str) -> Result<(), ConfigError> {
        match self.json(name) {
            None | Some(Json { value: Value::Bool(false), .. }) => Ok(()),
            Some(json) => Err(json.error(format!("'{name}' is not supported: {reason}"))),
        }
    }

    pub(crate) fn optional_child(&mut self, name: &str) -> Result<Option<NodeId>, ConfigError> {
        self.json(name).map(|json| self.build.node(json)).transpose()
    }

    pub(crate) fn child(&mut self, name: &str) -> Result<NodeId, ConfigError> {
        self.optional_child(name)?.ok_or_else(|| self.missing(name))
    }

    /// A child, or a route without items in its place.
    pub(crate) fn child_or_null(&mut self, name: &str) -> Result<NodeId, ConfigError> {
        match self.optional_child(name)? {
            Some(child) => Ok(child),
            None => Ok(self.build.null()),
        }
    }

    /// Like [`Self::child_or_null`], also for the child of a short form.
    pub(crate) fn main_child_or_null(&mut self, name: &str) -> Result<NodeId, ConfigError> {
        match self.main(name) {
            Some(child) => self.build.node(child),
            None => Ok(self.build.null()),
        }
    }

    /// Children, if there are some.
    pub(crate) fn list(&mut self, name: &str) -> Result<Vec<NodeId>, ConfigError> {
        self.json(name).map_or(Ok(Vec::new()), |list| self.build.nodes(list))
    }

    /// Children: at least one, since an empty list is a route without items.
    pub(crate) fn children(&mut self, name: &str) -> Result<Children, ConfigError> {
        let nodes = match self.main(name) {
            Some(list) => self.build.nodes(list)?,
            None => Vec::new(),
        };
        if nodes.is_empty() { Ok([self.build.null()].into()) } else { Ok(nodes.into()) }
    }

    /// Children: at least one, since an empty list is a route that fails.
    pub(crate) fn children_or_error(&mut self, name: &str) -> Result<Children, ConfigError> {
        let nodes = match self.main(name) {
            Some(list) => self.build.nodes(list)?,
            None => Vec::new(),
        };
        if nodes.is_empty() {
            Ok([self.build.add(AnyHandle::no_children())].into())
        } else {
            Ok(nodes.into())
        }
    }

    pub(crate) fn pool(&mut self, name: &str) -> Result<PoolHandles, ConfigError> {
        match self.main(name) {
            Some(json) => self.build.pool(json),
            None => Err(self.missing(name)),
        }
    }

    /// How one of this number of children is chosen by the hash of a key.
    pub(crate) fn hash(&mut self, children: usize) -> Result<Selector, ConfigError> {
        let names: Vec<String> = (0..children).map(|number| number.to_string()).collect();
        let (kind, salt) = (self.text("hash_func")?, self.text("salt")?);
        let (tags, weights) = (self.json("tags"), self.json("weights"));
        let identities = selectors::identities(&names, tags, weights);
        let selector = identities.and_then(|identities| {
            selectors::selector(self.json, kind.as_deref(), salt.as_deref(), &identities)
        });
        self.unless_single(children, selector)
    }

    /// With a single child the hash has no effect, so a fault in it is only a warning, as in
    /// mcrouter.
    fn unless_single(
        &mut self,
        children: usize,
        selector: Result<Selector, ConfigError>,
    ) -> Result<Selector, ConfigError> {
        match selector {
            Err(error) if children == 1 => {
                self.left_out("this has no effect on a single child", error);
                self.plain_hash(1)
            }
            selector => selector,
        }
    }

    /// The hash over the first servers of a pool, by the pool's and the route's settings.
    pub(crate) fn hash_of_first(
        &mut self,
        pool: &PoolHandles,
        servers: usize,
    ) -> Result<Selector, ConfigError> {
        let hash = self.json("hash");
        let selector = pool.selector(self.json, hash, servers);
        self.unless_single(servers, selector)
    }

    /// The hash over all servers of a pool, also where the route has Latest instead of a hash.
    pub(crate) fn hash_of_pool(&mut self, pool: &PoolHandles) -> Result<Selector, ConfigError> {
        let hash = self.json("hash").filter(|hash| !Latest::is_meant(hash));
        let servers = pool.children().len();
        match pool.selector(self.json, hash, servers) {
            // The route has warned of it.
            Err(_) if servers == 1 => self.plain_hash(1),
            selector => selector,
        }
    }

    /// All servers of a pool with what becomes of their keys; deletes that fail are logged under this name.
    pub(crate) fn logged(&mut self, pool: &PoolHandles, log: Option<LogName>) -> Children {
        let mut logged = |node| log.map_or(node, |log| self.build.logged(node, log));
        let servers: Vec<_> =
            pool.servers.iter().map(|(server, other)| (logged(*server), other.map(&mut logged))).collect();
        self.build.handed_over(pool.pool(), &servers)
    }

    pub(crate) fn plain_hash(&self, children: usize) -> Result<Selector, ConfigError> {
        self.selector("Ch3", children, None)
    }

    /// By rendezvous hashing among children with these tags, and weights if there are any.
    pub(crate) fn rendezvous(
        &self,
        children: usize,
        tags: Option<&Json>,
        weights: Option<&Json>,
    ) -> Result<Selector, ConfigError> {
        let names: Vec<String> = (0..children).map(|number| number.to_string()).collect();
        let kind = if weights.is_some() { "WeightedRendezvous" } else { "Rendezvous" };
        selectors::selector(self.json, Some(kind), None, &selectors::identities(&names, tags, weights)?)
    }

    /// By a hash that is named, among children with these weights.
    pub(crate) fn selector(
        &self,
        kind: &str,
        children: usize,
        weights: Option<&Json>,
    ) -> Result<Selector, ConfigError> {
        let names: Vec<String> = (0..children).map(|number| number.to_string()).collect();
        selectors::selector(self.json, Some(kind), None, &selectors::identities(&names, None, weights)?)
    }

    pub(crate) fn end(self) {
        if let Some(object) = self.object {
            object.finish(&mut self.build.warnings);
        }
    }
}
