//! Sends a request to one child after the other until one does not fail.

mod failures;
mod limit;
mod pairing;
mod policy;
mod salted;
mod tried;

pub(crate) use failures::Failures;

use super::{Children, Handle};
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json};
use crate::counts::{RouteCount, Tally};
use crate::hash::Selector;
use crate::outcome::Answer;
use crate::request::{Op, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use limit::Limit;
use pairing::Pairing;
use policy::{Next, Policy};
use std::sync::Arc;
use tried::{Failed, Place, Tried};

#[derive(Debug)]
pub(crate) struct Failover {
    children: Children,
    failures: Failures,
    policy: Policy,
    limit: Option<Limit>,
    tag: Tag,
    /// Lease tokens of those that stand in for the first child.
    pairing: Option<Pairing>,
    tally: Arc<Tally>,
}

/// Whether requests to a stand-in server are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    No,
    /// At the end of keys with a hash stop.
    Appended,
}

const TAG: &[u8] = b":failover=1";
/// The children that were tried are counted in 16 bits.
const CHILDREN_MAX: usize = u16::MAX as usize;

impl Failover {
    /// Reads all members but the children. `normal` selects, among the children after the first,
    /// the one that the first child would send a key to.
    pub(crate) fn read(
        members: &mut Members<'_, '_, '_>,
        children: Children,
        normal: Option<Selector>,
    ) -> Result<Self, ConfigError> {
        let failures = Failures::parse(members.json("failover_errors"))?;
        let limit = match members.json("failover_limit") {
            Some(json) => Some(Limit::parse(members, json)?),
            None => None,
        };
        if children.len() > CHILDREN_MAX {
            return Err(members.error(format!("more than {CHILDREN_MAX} children")));
        }
        let tag = if members.flag("failover_tag")? == Some(true) { Tag::Appended } else { Tag::No };
        let pairing = Pairing::parse(members)?;
        let policy = match members.json("failover_policy") {
            Some(json) if children.len() > 1 => Policy::parse(members, json, &children, normal)?,
            _ => Policy::in_order(),
        };
        // Policies read them.
        let _ = (members.json("hash"), members.json("tags"));
        Ok(Failover { children, failures, policy, limit, tag, pairing, tally: members.tally() })
    }

    fn request(&self, cx: &mut Cx<'_>, child: usize, request: &Request<'_>) {
        let is_tagged = self.tag == Tag::Appended
            && child > 0
            && request.key.windows(3).any(|part| part == b"|#|")
            && !request.key.ends_with(TAG)
            && request.key.len() + TAG.len() <= crate::KEY_MAX;
        let rewrite = if is_tagged { Rewrite::key(cx.text(&[request.key, TAG])) } else { Rewrite::NONE };
        cx.request(self.children[child], rewrite, child as u32);
    }

    fn count(&self, what: RouteCount) {
        self.tally.add(what, 1);
    }

    fn count_collisions(&self, tried: Tried, key: &[u8]) {
        if let Some(collisions) = self.policy.collisions(tried, key) {
            self.tally.add(RouteCount::Collision, collisions.requested);
            self.tally.add(RouteCount::FailedDomainCollision, collisions.in_failed_domain);
        }
    }

    /// Counts the reply of a replacement child. Returns whether the child is the last one. As in mcrouter, the client receives the reply of
    /// the last child, and its failure neither takes a token of the limit nor counts as an error of the policy.
    fn has_stood_in(&self, cx: &Cx<'_>, state: &State, request: &Request<'_>, answer: &Answer<'_>) -> bool {
        let (tried, key) = (Tried::of(state), request.routing_key());
        if Place::of(answer.server, cx.domains).is_that_of(tried.first()) {
            self.count(RouteCount::SameDomain);
        }
        let is_last = self.policy.ends(&self.children, tried.count() + 1, key);
        if is_last {
            if answer.outcome.is_error() {
                self.count(RouteCount::AllFailed);
            }
            self.count_collisions(tried, key);
        }
        is_last
    }

    /// Counts the failure of a child that is not the last. Returns the child to try next, if there is one.
    fn has_failed(
        &self,
        cx: &Cx<'_>,
        state: &mut State,
        child: usize,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Option<usize> {
        let failed = self.policy.failed(answer.outcome);
        let is_down = failed == Failed::IsDown;
        self.count(if is_down { RouteCount::TkoError } else { RouteCount::ResultError });
        if !is_down && self.limit.as_ref().is_some_and(|limit| !limit.allows()) {
            self.count(RouteCount::RateLimited);
            return None;
        }
        let (mut tried, key) = (Tried::of(state), request.routing_key());
        if child == 0 {
            tried.begin(Place::of(answer.server, cx.domains));
        }
        self.policy.add(&mut tried, child, failed);
        tried.keep(state);
        let next = self.policy.next(&self.children, tried, key);
        if child == 0 && next != Next::Exhausted {
            self.count(RouteCount::Failover);
        }
        match next {
            Next::Child(next) => return Some(next),
            Next::Enough => self.count_collisions(tried, key),
            Next::Exhausted => self.count(RouteCount::AllFailed),
        }
        None
    }
}

impl Handle for Failover {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let children = members.children("children")?;
        let normal = members.build().selection(children[0]).cloned();
        let failover = Self::read(&mut members, children, normal)?;
        members.end();
        Ok(failover)
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        match *self.children {
            [only] => Step::Tail(only),
            _ => match &self.pairing {
                Some(pairing) if pairing.concerns(request, Op::LeaseSet) => {
                    pairing.store(cx, &self.children, request)
                }
                _ => {
                    self.request(cx, 0, request);
                    Step::Await(State::default())
                }
            },
        }
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let outcome = answer.outcome;
        if self.pairing.as_ref().is_some_and(|pairing| pairing.concerns(request, Op::LeaseSet)) {
            return Then::Pass;
        }
        self.policy.record(child as usize, outcome);
        if let Some(limit) = self.limit.as_ref().filter(|_| child == 0) {
            limit.count();
        }
        // A delete is acknowledged by the first child or not at all: that has the item for good, and a stand-in only for a while.
        let answered = if request.op == Op::Delete && child != 0 { Then::Held } else { Then::Pass };
        let is_last = child > 0 && self.has_stood_in(cx, state, request, answer);
        if is_last || !self.failures.has(request.op.group(), outcome) {
            return match &self.pairing {
                Some(pairing) if pairing.concerns(request, Op::LeaseGet) => pairing.give(cx, child, answer),
                _ => answered,
            };
        }
        match self.has_failed(cx, state, child as usize, request, answer) {
            Some(next) => {
                if request.op == Op::Delete && child == 0 {
                    cx.hold();
                }
                self.request(cx, next, request);
                Then::Wait
            }
            None => answered,
        }
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let mut tried = Tried::default();
        let mut next = Next::Child(0);
        while let Next::Child(child) = next {
            self.request(cx, child, request);
            self.policy.add(&mut tried, child, Failed::Once);
            next = self.policy.next(&self.children, tried, request.routing_key());
        }
        Step::Await(State::default())
    }
}

/// The children of a failover whose later ones are changed.
pub(crate) fn chain(first: NodeId, others: impl Iterator<Item = NodeId>) -> Children {
    std::iter::once(first).chain(others).collect()
}
