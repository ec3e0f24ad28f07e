//! A server of a pool by the hash of the key.

use super::{AnyHandle, Handle, HashRoute};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, NodeId, Step};

#[derive(Debug)]
pub(crate) struct PoolRoute(NodeId);

impl Handle for PoolRoute {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let pool = members.pool("pool")?;
        let hash = members.hash_of_pool(&pool)?;
        members.end();
        Ok(PoolRoute(build.add(AnyHandle::HashRoute(HashRoute::new(pool.children(), hash)))))
    }

    #[inline]
    fn enter(&self, _cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        Step::Tail(self.0)
    }
}
