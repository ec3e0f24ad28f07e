//! A child by this host's number.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::spooky;
use crate::request::Request;
use crate::step::{Cx, Step};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct HostId {
    children: Children,
    salt: Arc<str>,
}

impl Handle for HostId {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let salt = members.text("salt")?.unwrap_or_default();
        members.end();
        Ok(HostId { children, salt })
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        let host = cx.facts.host;
        let number = if self.salt.is_empty() {
            host
        } else {
            u64::from(spooky::hash32(self.salt.as_bytes(), (host ^ host >> 32) as u32))
        };
        Step::Tail(self.children[(number % self.children.len() as u64) as usize])
    }
}
