//! A child by the client's host.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::request::Request;
use crate::step::{Cx, Step};

#[derive(Debug)]
pub(crate) struct ClientHash {
    children: Children,
    offset: u64,
}

impl Handle for ClientHash {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let offset = members.integer("offset", 0..=children.len() as i64 - 1)?.unwrap_or(0).unsigned_abs();
        members.end();
        Ok(ClientHash { children, offset })
    }

    fn enter(&self, cx: &mut Cx<'_>, _request: &Request<'_>) -> Step {
        let number = cx.facts.client.wrapping_add(self.offset) % self.children.len() as u64;
        Step::Tail(self.children[number as usize])
    }
}
