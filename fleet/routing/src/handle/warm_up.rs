//! Fills a cold cluster from a warm one: what the cold one does not have is asked of the warm one, and stored in the cold one.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::Answer;
use crate::request::{Dialect, Op, Request};
use crate::step::{Content, Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct WarmUp {
    cold: NodeId,
    warm: NodeId,
    /// Seconds that items from the warm cluster stay in the cold one; 0 is for ever.
    exptime: i32,
}

/// What was asked.
const COLD: u32 = 0;
const WARM: u32 = 1;
const FILL: u32 = 2;
const COLD_AGAIN: u32 = 3;

impl WarmUp {
    fn fill(&self, op: Op, token: u64) -> Rewrite {
        let (exptime, number) = (Some(self.exptime), Some(token));
        Rewrite { op: Some(op), exptime, number, content: Content::OfAnswer, ..Rewrite::NONE }
    }

    /// The cold cluster has answered.
    fn after_cold(&self, cx: &mut Cx<'_>, state: &mut State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        let is_lease = request.op == Op::LeaseGet;
        if answer.outcome.is_hit() || (is_lease && answer.outcome.is_hot_miss()) {
            return Then::Pass;
        }
        let simple = match request.op {
            Op::Get => Rewrite::NONE,
            _ => {
                cx.hold();
                state.b = u128::from(answer.number);
                Rewrite { op: Some(Op::Get), ..Rewrite::NONE }
            }
        };
        cx.ask(self.warm, simple, WARM);
        Then::Wait
    }

    /// The warm cluster has answered.
    fn after_warm(&self, cx: &mut Cx<'_>, state: &State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        match request.op {
            Op::Get => {
                if answer.outcome.is_hit() {
                    cx.tell(self.cold, self.fill(Op::Add, 0));
                }
                Then::Pass
            }
            _ if !answer.outcome.is_hit() => Then::Held,
            Op::LeaseGet => {
                // An error has no token.
                if state.b != 0 {
                    cx.tell(self.cold, self.fill(Op::LeaseSet, state.b as u64));
                }
                Then::Pass
            }
            _ => {
                cx.ask(self.cold, self.fill(Op::Add, 0), FILL);
                Then::Wait
            }
        }
    }
}

impl Handle for WarmUp {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (cold, warm) = (members.child("cold")?, members.child("warm")?);
        members.without_effect("enable_metaget", "what is copied has 'exptime'");
        let exptime = members.integer("exptime", 0..=i64::from(i32::MAX))?.unwrap_or(0) as i32;
        members.end();
        Ok(WarmUp { cold, warm, exptime })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        // Of a meta command, the reply says only what was asked for.
        let is_filled = matches!(request.op, Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet)
            && request.dialect == Dialect::Classic;
        if !is_filled {
            return Step::Tail(self.cold);
        }
        cx.ask(self.cold, Rewrite::NONE, COLD);
        Step::Await(State::default())
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let step = self.enter(cx, request);
        if matches!(step, Step::Await(_)) {
            cx.ask(self.warm, Rewrite::NONE, WARM);
        }
        step
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        match child {
            COLD => self.after_cold(cx, state, request, answer),
            WARM => self.after_warm(cx, state, request, answer),
            FILL => {
                cx.ask(self.cold, Rewrite::NONE, COLD_AGAIN);
                Then::Wait
            }
            _ => Then::Pass,
        }
    }
}
