//! The gutter (Scaling Memcache at Facebook, section 3.3): other servers replace a failed one, and
//! keep items for a short time only.

use super::failover::{Failover, chain};
use super::{AnyHandle, Handle, ModifyExptime};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::Request;
use crate::step::{Cx, State, Step, Then};

#[derive(Debug)]
pub(crate) struct FailoverWithExptime(Failover);

/// Seconds.
const EXPTIME: i64 = 60;

impl Handle for FailoverWithExptime {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let normal = members.child("normal")?;
        let others = members.list("failover")?;
        let exptime = members.integer("failover_exptime", 0..=i64::from(i32::MAX))?.unwrap_or(EXPTIME);
        let others: Vec<_> = others
            .iter()
            .map(|child| {
                let shorter = ModifyExptime::of_gutter(*child, exptime as i32);
                members.add(AnyHandle::ModifyExptime(shorter))
            })
            .collect();
        let selection = members.build().selection(normal).cloned();
        let failover = Failover::read(&mut members, chain(normal, others.into_iter()), selection)?;
        members.end();
        Ok(FailoverWithExptime(failover))
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
