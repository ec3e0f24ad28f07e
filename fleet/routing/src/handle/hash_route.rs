//! A child by the hash of the key.

use super::{Children, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::{Selector, before_hash_stop};
use crate::request::Request;
use crate::step::{Cx, Step};

#[derive(Debug)]
pub(crate) struct HashRoute {
    children: Children,
    selector: Selector,
}

impl HashRoute {
    pub(crate) fn new(children: Children, selector: Selector) -> Self {
        HashRoute { children, selector }
    }
}

impl Handle for HashRoute {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let hash = members.hash(children.len())?;
        members.end();
        Ok(HashRoute { children, selector: hash })
    }

    #[inline]
    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Tail(self.children[self.selector.pick(before_hash_stop(request.key))])
    }
}
