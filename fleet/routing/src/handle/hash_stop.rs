//! Refuses keys with a hash stop, except those that begin with certain prefixes.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::before_hash_stop;
use crate::outcome::Outcome;
use crate::request::Request;
use crate::step::{Cx, NodeId, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct HashStop {
    target: NodeId,
    allowed: Box<[Arc<str>]>,
}

impl Handle for HashStop {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let allowed = match members.read("prefixes", Json::list)? {
            Some(list) => {
                list.iter().map(|prefix| prefix.shared_text("prefixes").cloned()).collect::<Result<_, _>>()?
            }
            None => Box::default(),
        };
        members.end();
        Ok(HashStop { target, allowed })
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let is_allowed = before_hash_stop(request.key).len() == request.key.len()
            || self.allowed.iter().any(|prefix| request.key.starts_with(prefix.as_bytes()));
        if is_allowed { Step::Tail(self.target) } else { Step::Answer(Outcome::LocalError) }
    }
}
