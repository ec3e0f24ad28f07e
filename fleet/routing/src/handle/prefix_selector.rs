//! Another child for each prefix of keys; the longest that fits.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json, Value};
use crate::request::Request;
use crate::step::{Cx, NodeId, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct PrefixSelector {
    /// Sorted: of two of which one begins with the other, the longer comes later.
    policies: Box<[(Arc<str>, NodeId)]>,
    wildcard: NodeId,
}

impl Handle for PrefixSelector {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let wildcard = members.child_or_null("wildcard")?;
        let listed = members.json("policies");
        members.end();
        let mut policies = Vec::new();
        if let Some(listed) = listed {
            let Value::Object(list) = &listed.value else {
                return Err(listed.error("policies is not an object"));
            };
            for (prefix, policy) in list {
                policies.push((prefix.clone(), build.node(policy)?));
            }
        }
        policies.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(PrefixSelector { policies: policies.into(), wildcard })
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        // All prefixes of the key are among those that are not greater, and the longest is the last of them.
        let end = self.policies.partition_point(|(prefix, _)| prefix.as_bytes() <= request.key);
        let fits = |(prefix, _): &&(Arc<str>, NodeId)| request.key.starts_with(prefix.as_bytes());
        let found = self.policies[..end].iter().rev().find(fits);
        Step::Tail(found.map_or(self.wildcard, |(_, child)| *child))
    }
}
