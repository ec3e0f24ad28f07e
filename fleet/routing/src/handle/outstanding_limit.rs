//! Refuses requests while too many are under way.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::{Answer, Outcome};
use crate::request::Request;
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use std::cell::Cell;

#[derive(Debug)]
pub(crate) struct OutstandingLimit {
    target: NodeId,
    most: u64,
    under_way: Cell<u64>,
}

impl OutstandingLimit {
    pub(crate) fn new(target: NodeId, most: u64) -> Self {
        OutstandingLimit { target, most, under_way: Cell::new(0) }
    }
}

impl Handle for OutstandingLimit {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let most = members.integer("max_outstanding", 1..=i64::MAX)?;
        let most = most.ok_or_else(|| json.error("'max_outstanding' is missing"))?.unsigned_abs();
        members.end();
        Ok(Self::new(target, most))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if self.under_way.get() >= self.most {
            return Step::Answer(Outcome::Busy);
        }
        self.under_way.set(self.under_way.get() + 1);
        self.explore(cx, request)
    }

    fn explore(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        cx.request(self.target, Rewrite::NONE, 0);
        Step::Await(State::default())
    }

    fn resume(
        &self,
        _cx: &mut Cx<'_>,
        _state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        _answer: &Answer<'_>,
    ) -> Then {
        self.under_way.set(self.under_way.get() - 1);
        Then::Pass
    }
}
