//! Changes the expiration times of stores.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::exptime::NewTime;
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Op, Request};
use crate::step::{Cx, NodeId, State, Step, Then};
use guira_sync::simulated::is_planted;

#[derive(Debug)]
pub(crate) struct ModifyExptime {
    target: NodeId,
    /// In seconds; 0 is for ever.
    exptime: i32,
    action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Set,
    Min,
    /// For a gutter: no read prolongs the life of an item.
    MinFromStore,
}

impl ModifyExptime {
    /// For a gutter: no item lives longer than this after its store.
    pub(crate) fn of_gutter(target: NodeId, exptime: i32) -> Self {
        let exptime = if is_planted("gutter-keeps-values") { i32::MAX } else { exptime };
        ModifyExptime { target, exptime, action: Action::MinFromStore }
    }

    fn rule(&self, now_s: u64) -> NewTime {
        let seconds = self.exptime;
        match self.action {
            Action::Set => NewTime::Set(seconds),
            Action::Min => NewTime::AtMost { seconds, now_s },
            Action::MinFromStore => NewTime::AtMostFromStore { seconds, now_s },
        }
    }
}

impl Handle for ModifyExptime {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let range = i64::from(i32::MIN)..=i64::from(i32::MAX);
        let exptime = members.integer("exptime", range)?;
        let exptime = exptime.ok_or_else(|| json.error("exptime is missing"))? as i32;
        let action = match members.text("action")?.as_deref() {
            None | Some("set") => Action::Set,
            Some("min") => Action::Min,
            Some(other) => return Err(json.error(format!("action is set or min, not {other}"))),
        };
        members.end();
        Ok(ModifyExptime { target, exptime, action })
    }

    fn reason(&self, _request: &Request<'_>) -> Option<String> {
        let word = if self.action == Action::Set { "" } else { "at most " };
        Some(format!("exptime: {word}{}", self.exptime))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let rule = self.rule(cx.facts.now_s);
        if !rule.concerns(request) {
            return Step::Tail(self.target);
        }
        let rewrite = rule.rewrite(request, |flags| cx.text(&[flags]));
        if (request.op, request.dialect) == (Op::Touch, Dialect::Classic) && rule.turns_into_read(request) {
            cx.request(self.target, rewrite, 0);
            return Step::Await(State::default());
        }
        Step::Rewritten(self.target, rewrite)
    }

    /// A read was sent in the place of a touch.
    fn resume(
        &self,
        _cx: &mut Cx<'_>,
        _state: &mut State,
        _child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        match answer.outcome {
            Outcome::Found => Then::Answer(Outcome::Touched),
            Outcome::NotFound => Then::Answer(Outcome::NotFound),
            _ => Then::Pass,
        }
    }
}
