//! Asks one child after the other, until one does not fail.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json, Value};
use crate::outcome::{Answer, FAILURES, Outcome};
use crate::request::{Group, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct Failover {
    children: Children,
    failures: Failures,
}

impl Failover {
    pub(crate) fn new(children: Children, failures: Failures) -> Self {
        Failover { children, failures }
    }

    fn ask(&self, cx: &mut Cx<'_>, child: usize) {
        cx.ask(self.children[child], Rewrite::NONE, child as u32);
    }
}

impl Handle for Failover {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let failures = Failures::parse(members.json("failover_errors"))?;
        members.end();
        Ok(Failover { children, failures })
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        match *self.children {
            [only] => Step::Tail(only),
            _ => {
                self.ask(cx, 0);
                Step::Await(State::default())
            }
        }
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        _state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let next = child as usize + 1;
        if next == self.children.len() || !self.failures.has(request.op.group(), answer.outcome) {
            return Then::Pass;
        }
        self.ask(cx, next);
        Then::Wait
    }
}

/// Which outcomes make the next child be asked: a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failures {
    gets: u32,
    updates: u32,
    deletes: u32,
}

impl Failures {
    /// Reads `failover_errors`: a list, or one for each of `gets`, `updates` and `deletes`.
    pub(crate) fn parse(json: Option<&Json>) -> Result<Self, ConfigError> {
        let all = FAILURES.iter().fold(0, |bits, (_, outcome)| bits | bit(*outcome));
        let mut failures = Failures { gets: all, updates: all, deletes: all };
        let Some(json) = json else {
            return Ok(failures);
        };
        match &json.value {
            Value::Array(list) => {
                let bits = Self::list(list)?;
                failures = Failures { gets: bits, updates: bits, deletes: bits };
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let Value::Array(list) = &member.value else {
                        return Err(member.error(format!("failover_errors: {name} is not a list")));
                    };
                    match &**name {
                        "gets" => failures.gets = Self::list(list)?,
                        "updates" => failures.updates = Self::list(list)?,
                        "deletes" => failures.deletes = Self::list(list)?,
                        _ => return Err(member.error("failover_errors has gets, updates and deletes")),
                    }
                }
            }
            _ => return Err(json.error("failover_errors is neither a list nor an object")),
        }
        Ok(failures)
    }

    fn list(list: &[Json]) -> Result<u32, ConfigError> {
        list.iter().try_fold(0, |bits, item| {
            let Value::Text(name) = &item.value else {
                return Err(item.error("failover_errors: not the name of an error"));
            };
            let found = FAILURES.iter().find(|(known, _)| **known == **name);
            let known = || FAILURES.map(|(known, _)| known).join(", ");
            let (_, outcome) =
                found.ok_or_else(|| item.error(format!("no error is called {name}; there are {}", known())))?;
            Ok(bits | bit(*outcome))
        })
    }

    fn has(self, group: Group, outcome: Outcome) -> bool {
        let bits = match group {
            Group::Delete => self.deletes,
            Group::Update => self.updates,
            Group::Get | Group::Arithmetic | Group::Touch | Group::Flush => self.gets,
        };
        bits & bit(outcome) != 0
    }
}

fn bit(outcome: Outcome) -> u32 {
    1 << outcome as u32
}

/// The children of a failover whose later ones are changed.
pub(crate) fn chain(first: NodeId, others: impl Iterator<Item = NodeId>) -> Children {
    std::iter::once(first).chain(others).collect()
}
