//! A child by the hash of the key.

use super::{AnyHandle, Children, Handle, Latest};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::Selector;
use crate::request::Request;
use crate::step::{Cx, Hop, Step};

#[derive(Debug)]
pub(crate) struct HashRoute {
    children: Children,
    /// The next hop of each child: a server, or the child itself.
    hops: Box<[Hop]>,
    selector: Selector,
}

impl HashRoute {
    pub(crate) fn new(build: &Builder<'_>, children: Children, selector: Selector) -> Self {
        let hops = children.iter().map(|child| build.hop(*child)).collect();
        HashRoute { children, hops, selector }
    }

    /// How it selects, if there is a choice.
    pub(crate) fn selection(&self) -> Option<&Selector> {
        (self.children.len() > 1).then_some(&self.selector)
    }

    #[inline]
    fn pick(&self, request: &Request<'_>) -> usize {
        self.selector.pick(request.routing_key())
    }
}

impl Handle for HashRoute {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = match members.flag("error_on_empty")? {
            Some(false) => members.children("children")?,
            _ => members.children_or_error("children")?,
        };
        let is_latest = members.json("hash_func").is_some_and(Latest::is_meant);
        let children: Children = if is_latest {
            let latest = Latest::read(&mut members, children)?;
            [members.add(AnyHandle::Latest(latest))].into()
        } else {
            children
        };
        let hash = if is_latest { members.plain_hash(1) } else { members.hash(children.len()) }?;
        members.end();
        Ok(HashRoute::new(build, children, hash))
    }

    fn reason(&self, request: &Request<'_>) -> Option<String> {
        let key = request.routing_key();
        let (number, children) = (self.selector.pick(key), self.children.len());
        Some(format!("hash of {:?}: {number} of {children}", String::from_utf8_lossy(key)))
    }

    #[inline]
    fn hop(&self, request: &Request<'_>) -> Option<Hop> {
        Some(self.hops[self.pick(request)])
    }

    fn enter(&self, _cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        Step::Tail(self.children[self.pick(request)])
    }
}
