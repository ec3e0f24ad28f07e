//! Changes the expiration times of what is stored.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::{Group, Op, Request};
use crate::step::{Cx, NodeId, Rewrite, Step};

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
}

/// A larger number is a time, and not how long from now: 30 days.
const RELATIVE_MAX: i32 = 60 * 60 * 24 * 30;

impl ModifyExptime {
    pub(crate) fn at_most(target: NodeId, exptime: i32) -> Self {
        ModifyExptime { target, exptime, action: Action::Min }
    }

    /// What the time becomes; `None` if it stays.
    fn change(&self, exptime: i32, now_s: u64) -> Option<i32> {
        if self.action == Action::Set {
            return (exptime != self.exptime).then_some(self.exptime);
        }
        let seconds_left = |exptime: i32| match exptime {
            0 => i64::MAX,
            1..=RELATIVE_MAX => i64::from(exptime),
            _ => i64::from(exptime) - now_s as i64,
        };
        // A negative one has expired, which is sooner than anything.
        (exptime >= 0 && seconds_left(exptime) > seconds_left(self.exptime)).then_some(self.exptime)
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
        let word = if self.action == Action::Min { "at most " } else { "" };
        Some(format!("exptime: {word}{}", self.exptime))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let has_time = match request.op.group() {
            Group::Update => !matches!(request.op, Op::Append | Op::Prepend),
            Group::Touch => true,
            Group::Get => matches!(request.op, Op::Gat | Op::Gats),
            Group::Delete | Group::Arithmetic | Group::Flush => false,
        };
        let change = if has_time { self.change(request.exptime, cx.facts.now_s) } else { None };
        change.map_or(Step::Tail(self.target), |exptime| {
            Step::Rewritten(self.target, Rewrite::exptime(exptime))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_two_times_stays_however_it_is_written() {
        let now = 1_800_000_000;
        let at_most = |exptime, given| {
            let handle = ModifyExptime::at_most(NodeId(0), exptime);
            handle.change(given, now).unwrap_or(given)
        };
        for (limit, given, becomes) in [
            (60, 0, 60),
            (60, 61, 60),
            (60, 59, 59),
            (60, -1, -1),
            (60, now as i32 + 59, now as i32 + 59),
            (60, now as i32 + 61, 60),
            (60, now as i32 - 1, now as i32 - 1),
            (0, 0, 0),
            (0, 5, 5),
        ] {
            assert_eq!(at_most(limit, given), becomes, "{limit} {given}");
        }
    }
}
