//! Which failures cause a failover to another child.

use crate::config::{ConfigError, Json, Value};
use crate::outcome::{FAILURES, Outcome, failure};
use crate::request::Group;

/// The outcomes that cause a failover, one bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failures {
    gets: u32,
    updates: u32,
    deletes: u32,
    /// Counting and touching cannot be named.
    others: u32,
}

impl Failures {
    /// Reads `failover_errors`: a list, or one for each of `gets`, `updates` and `deletes`.
    pub(crate) fn parse(json: Option<&Json>) -> Result<Self, ConfigError> {
        let all = FAILURES.iter().fold(0, |bits, (_, outcome)| bits | bit(*outcome));
        let mut failures = Failures { gets: all, updates: all, deletes: all, others: all };
        let Some(json) = json else {
            return Ok(failures);
        };
        match &json.value {
            Value::Array(list) => {
                let bits = named(list)?;
                failures = Failures { gets: bits, updates: bits, deletes: bits, others: all };
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let Value::Array(list) = &member.value else {
                        return Err(member.error(format!("failover_errors: {name} is not a list")));
                    };
                    match &**name {
                        "gets" => failures.gets = named(list)?,
                        "updates" => failures.updates = named(list)?,
                        "deletes" => failures.deletes = named(list)?,
                        _ => return Err(member.error("failover_errors has gets, updates and deletes")),
                    }
                }
            }
            _ => return Err(json.error("failover_errors is neither a list nor an object")),
        }
        Ok(failures)
    }

    pub(super) fn has(self, group: Group, outcome: Outcome) -> bool {
        let bits = match group {
            Group::Delete => self.deletes,
            Group::Update => self.updates,
            Group::Get => self.gets,
            Group::Arithmetic | Group::Touch | Group::Flush => self.others,
        };
        bits & bit(outcome) != 0
    }
}

/// The outcomes of a list of names.
pub(super) fn named(list: &[Json]) -> Result<u32, ConfigError> {
    list.iter().try_fold(0, |bits, item| {
        let Value::Text(name) = &item.value else {
            return Err(item.error("not the name of an error"));
        };
        let known = || FAILURES.map(|(known, _)| known).join(", ");
        let outcome = failure(name)
            .ok_or_else(|| item.error(format!("unknown error {name}; use one of {}", known())))?;
        // Others of mcrouter's names never come from a server here, and must not stand for all that look alike.
        let is_known = **name == *"client_error" || FAILURES.iter().any(|(known, _)| **known == **name);
        Ok(if is_known { bits | bit(outcome) } else { bits })
    })
}

pub(super) fn bit(outcome: Outcome) -> u32 {
    1 << outcome as u32
}
