//! A server of a pool by the hash of the key. While it is out of service the next on the ring has its keys, as if it were not in the pool: what twemproxy calls
//! `auto_eject_hosts`. Keys of other servers stay where they are.

use super::{Children, Handle};
use crate::build::{Builder, PoolHandles};
use crate::config::{ConfigError, Json};
use crate::hash::Selector;
use crate::outcome::{Answer, Outcome};
use crate::request::{Group, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct EjectHosts {
    children: Children,
    /// The same servers without logs, for deletes, if failed deletes are logged: `children` would
    /// log, and hide that a server is down.
    unlogged: Option<Children>,
    selector: Selector,
}

/// Children from this number on receive the request a second time, so that a failure is logged.
const AGAIN: u32 = 1 << 16;

/// In a state: the server that has the key for the time being has deleted it, and its reply is
/// held.
const HAS_DELETED: u32 = 1;

impl EjectHosts {
    pub(crate) fn new(children: Children, unlogged: Option<Children>, selector: Selector) -> Self {
        EjectHosts { children, unlogged, selector }
    }

    pub(crate) fn selection(&self) -> &Selector {
        &self.selector
    }

    /// Whether a pool is to be like this, with this hash.
    pub(crate) fn is_wanted(pool: &PoolHandles, selector: &Selector) -> Result<bool, ConfigError> {
        let Some(json) = &pool.pool().auto_eject_hosts else { return Ok(false) };
        if selector.has_order() {
            Ok(true)
        } else {
            Err(json.error("'auto_eject_hosts' needs a hash by which other servers have a key next: a ketama, or Rendezvous"))
        }
    }

    /// The index of the server that has a key when `number` others are down.
    fn choice(&self, request: &Request<'_>, number: u32) -> Option<usize> {
        self.selector.choices(request.routing_key()).nth(number as usize)
    }

    fn child(&self, request: &Request<'_>, place: usize) -> NodeId {
        match &self.unlogged {
            Some(unlogged) if request.op.group() == Group::Delete => unlogged[place],
            _ => self.children[place],
        }
    }
}

impl Handle for EjectHosts {
    fn parse(_build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        Err(json.error("EjectHosts is part of a pool with 'auto_eject_hosts'"))
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let place = self.selector.pick(request.routing_key());
        cx.request(self.child(request, place), Rewrite::NONE, 0);
        Step::Await(State::default())
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        for (place, number) in self.selector.choices(request.routing_key()).zip(0..) {
            cx.request(self.child(request, place), Rewrite::NONE, number);
        }
        Step::Await(State::default())
    }

    fn reason(&self, request: &Request<'_>) -> Option<String> {
        let key = String::from_utf8_lossy(request.routing_key()).into_owned();
        Some(format!("hash of {key:?}, without servers that are out"))
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let is_delete = request.op.group() == Group::Delete;
        if child >= AGAIN {
            return if state.a == HAS_DELETED && !answer.outcome.is_error() { Then::Held } else { Then::Pass };
        }
        let is_failure = answer.outcome.is_failover_error();
        let is_of_stand_in = is_delete && child > 0;
        if !is_failure && !is_of_stand_in {
            return Then::Pass;
        }
        let is_out = answer.outcome == Outcome::Tko;
        let present = self.choice(request, child).map(|place| self.children[place]);
        if let Some(next) = self.choice(request, child + 1).filter(|_| is_out) {
            // A stand-in may have the key from another time.
            if let Some(present) = present.filter(|_| is_delete && child > 0) {
                cx.notify(present, Rewrite::NONE);
            }
            cx.request(self.child(request, next), Rewrite::NONE, child + 1);
            return Then::Wait;
        }
        // The server that has the key when it is back acknowledges a delete, or its log does.
        let owner = self.choice(request, 0).map(|place| self.children[place]);
        match owner.filter(|_| is_delete && (child > 0 || self.unlogged.is_some())) {
            Some(owner) => {
                if !is_failure {
                    state.a = HAS_DELETED;
                    cx.hold();
                }
                cx.request(owner, Rewrite::NONE, AGAIN);
                Then::Wait
            }
            None => Then::Pass,
        }
    }
}
