//! A server of a pool by the hash of the key.

use super::{
    AnyHandle, EjectHosts, Handle, HashRoute, Latest, OutstandingLimit, RateLimit, Resize, Shadow, ShardSplit,
    SlowWarmUp,
};
use crate::build::{Builder, Members, PoolHandles};
use crate::config::{ConfigError, Json, Pool};
use crate::request::Request;
use crate::step::{Cx, Hop, NodeId, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct PoolRoute {
    node: NodeId,
    pool: Arc<str>,
}

const NO_BUCKETS: &str = "buckets of keys do not exist";
const OF_META: &str = "it needs infrastructure of Meta";

impl PoolRoute {
    /// Reads all members but the pool. What a request passes, from the outside: splits, rates, hash, shadows, warm-up, limit, server.
    pub(crate) fn read(members: &mut Members<'_, '_, '_>, pool: &PoolHandles) -> Result<Self, ConfigError> {
        let log = Self::read_log(members, pool)?.map(|name| members.log(&name));
        let mut children = members.logged(pool, log);
        let most = members.integer("max_outstanding", 0..=i64::MAX)?.map(i64::unsigned_abs);
        if let Some(most) = most.filter(|most| *most > 0).or(pool.pool().max_outstanding) {
            for child in &mut children {
                *child = members.add(AnyHandle::OutstandingLimit(OutstandingLimit::new(*child, most)));
            }
        }
        if let Some(json) = members.json("slow_warmup") {
            let (failover, settings) = SlowWarmUp::read(members, json)?;
            for child in &mut children {
                *child = members.add(AnyHandle::SlowWarmUp(SlowWarmUp::new(*child, failover, settings)));
            }
        }
        if let Some(shadows) = members.json("shadows") {
            Shadow::wrap(members, shadows, &mut children);
        }
        let mut node = if children.is_empty() {
            members.json("hash");
            Self::empty(members, pool.pool())
        } else {
            let unlogged = log.map(|_| members.logged(pool, None));
            Self::by_hash(members, pool, &children, unlogged.as_deref())?
        };
        if let Some(rates) = members.json("rates") {
            let limit = RateLimit::read(members, node, rates)?;
            node = members.add(AnyHandle::RateLimit(limit));
        }
        if let Some(splits) = members.json("shard_splits") {
            let split = ShardSplit::read(members, node, splits)?;
            node = members.add(AnyHandle::ShardSplit(split));
        }
        members.without_effect("split_shard_fanout", "a get is sent to one split");
        members.json("pool_id");
        if let Some(log) = log {
            members.is_behind(log, node);
        }
        for name in ["bucketize", "useBucketHashSelector"] {
            members.refuse(name, NO_BUCKETS)?;
        }
        for name in ["total_buckets", "total_buckets_by_prefix", "bucketization_keyspace"] {
            members.without_effect(name, NO_BUCKETS);
        }
        for name in ["distribution_enabled", "axonlog"] {
            members.refuse(name, OF_META)?;
        }
        Ok(PoolRoute { node, pool: pool.pool().name.clone() })
    }

    /// The handle of a pool without servers: as in mcrouter, an error unless the pool says
    /// otherwise.
    fn empty(members: &mut Members<'_, '_, '_>, pool: &Pool) -> NodeId {
        if !pool.error_on_empty {
            return members.add(AnyHandle::null());
        }
        members.warn(pool.place.error(format!(
            "pool {:?} has no servers: all its requests fail; with \"error_on_empty\": false they get the reply of a miss",
            pool.name
        )));
        members.add(AnyHandle::no_children())
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// A child by the hash of the key; while the pool changes, with what becomes of the keys that move.
    fn by_hash(
        members: &mut Members<'_, '_, '_>,
        pool: &PoolHandles,
        children: &[NodeId],
        unlogged: Option<&[NodeId]>,
    ) -> Result<NodeId, ConfigError> {
        let Some(resize) = pool.pool().resize else {
            return Self::by_hash_of_first(members, pool, children, unlogged);
        };
        let first = |servers: usize| (&children[..servers], unlogged.map(|unlogged| &unlogged[..servers]));
        let ((before, unlogged_before), (after, unlogged_after)) = (first(resize.from), first(resize.to));
        let old = Self::by_hash_of_first(members, pool, before, unlogged_before)?;
        let new = Self::by_hash_of_first(members, pool, after, unlogged_after)?;
        let moved = members.handover([old, new], resize.stage, pool.pool());
        let hashes = [resize.from, resize.to].map(|servers| members.hash_of_first(pool, servers));
        let [before, after] = hashes;
        Ok(members.add(AnyHandle::Resize(Resize::new(before?, after?, new, moved))))
    }

    fn by_hash_of_first(
        members: &mut Members<'_, '_, '_>,
        pool: &PoolHandles,
        children: &[NodeId],
        unlogged: Option<&[NodeId]>,
    ) -> Result<NodeId, ConfigError> {
        if let Some(hash) = members.json("hash").filter(|hash| Latest::is_meant(hash)) {
            let latest = Latest::of_hash(members, hash, children.into())?;
            return Ok(members.add(AnyHandle::Latest(latest)));
        }
        let hash = members.hash_of_first(pool, children.len())?;
        let handle = if EjectHosts::is_wanted(pool, &hash)? {
            AnyHandle::EjectHosts(EjectHosts::new(children.into(), unlogged.map(Into::into), hash))
        } else {
            AnyHandle::HashRoute(HashRoute::new(members.build(), children.into(), hash))
        };
        Ok(members.add(handle))
    }

    /// The name under which deletes that fail are logged, unless they are not to be.
    fn read_log(
        members: &mut Members<'_, '_, '_>,
        pool: &PoolHandles,
    ) -> Result<Option<Arc<str>>, ConfigError> {
        let is_logged = members.flag("asynclog")?.unwrap_or(true);
        let name = match members.text("asynclog_name")? {
            Some(name) => Some(name),
            None => members.text("name")?,
        };
        Ok(is_logged.then(|| name.unwrap_or_else(|| pool.pool().name.clone())))
    }
}

impl Handle for PoolRoute {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let pool = members.pool("pool")?;
        let route = Self::read(&mut members, &pool)?;
        members.end();
        Ok(route)
    }

    fn reason(&self, _request: &Request<'_>) -> Option<String> {
        Some(format!("pool {}", self.pool))
    }

    #[inline]
    fn hop(&self, _request: &Request<'_>) -> Option<Hop> {
        Some(Hop::To(self.node))
    }

    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Tail(self.node)
    }
}
