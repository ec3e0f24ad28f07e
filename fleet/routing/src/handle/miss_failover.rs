//! Sends gets and deletes to one child after the other until one has the key. Other requests go to
//! the first child only.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::{Group, Request};
use crate::step::{Cx, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct MissFailover {
    children: Children,
    no_hit: NoHit,
}

/// In a state: a child has failed, and its reply is held.
const FAILED: u128 = 1;

/// The reply if no child has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoHit {
    Last,
    /// A miss rather than an error.
    Best,
}

impl Handle for MissFailover {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let is_best = members.flag("return_best_on_error")?.unwrap_or(false);
        members.end();
        Ok(MissFailover { children, no_hit: if is_best { NoHit::Best } else { NoHit::Last } })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if self.children.len() == 1 || !matches!(request.op.group(), Group::Get | Group::Delete) {
            return Step::Tail(self.children[0]);
        }
        cx.request(self.children[0], Rewrite::NONE, 0);
        Step::Await(State { a: u32::MAX, ..State::default() })
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        match request.op.group() {
            Group::Get | Group::Delete => {
                super::request_all(cx, &self.children);
                Step::Await(State::default())
            }
            _ => Step::Tail(self.children[0]),
        }
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let next = child as usize + 1;
        let is_last = next == self.children.len();
        // A child that has failed to delete the key has it still, whatever others say.
        if request.op.group() == Group::Delete && (state.b == FAILED || answer.outcome.is_error()) {
            if state.b != FAILED {
                state.b = FAILED;
                cx.hold();
            }
            if is_last || answer.outcome.is_hit() {
                return Then::Held;
            }
            cx.request(self.children[next], Rewrite::NONE, next as u32);
            return Then::Wait;
        }
        if answer.outcome.is_hit() || (is_last && self.no_hit == NoHit::Last) {
            return Then::Pass;
        }
        let severity = u32::from(answer.outcome.severity());
        if self.no_hit == NoHit::Best && severity <= state.a {
            state.a = severity;
            if is_last {
                return Then::Pass;
            }
            cx.hold();
        }
        if is_last {
            return Then::Held;
        }
        cx.request(self.children[next], Rewrite::NONE, next as u32);
        Then::Wait
    }
}
