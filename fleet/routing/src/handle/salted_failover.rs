//! A server of a pool by the hash of the key; if it fails, others of the same pool.

use super::{AnyHandle, Failover, Handle, PoolRoute};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, State, Step, Then};

#[derive(Debug)]
pub(crate) struct SaltedFailover(Failover);

impl Handle for SaltedFailover {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let pool = members.pool("pool")?;
        let first = PoolRoute::read(&mut members, &pool)?;
        let first = members.add(AnyHandle::PoolRoute(first));
        let normal = match members.build().selection(first).cloned() {
            None if !pool.children().is_empty() => Some(members.hash_of_pool(&pool)?),
            normal => normal,
        };
        let children = super::failover::chain(first, pool.children().iter().copied());
        let failover = Failover::read(&mut members, children, normal)?;
        members.end();
        Ok(SaltedFailover(failover))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        self.0.enter(cx, request)
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        self.0.explore(cx, request)
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        self.0.resume(cx, state, child, request, answer)
    }
}
