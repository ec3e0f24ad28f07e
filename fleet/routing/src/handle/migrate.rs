//! From one child to another, at a time.

use super::Handle;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::spooky;
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct Migrate {
    from: NodeId,
    to: NodeId,
    /// UNIX time, in seconds.
    start: u64,
    /// In seconds.
    interval: u64,
}

const INTERVAL: i64 = 3600;
/// For this many seconds after a key has moved, a lease-set may have its token from the old child.
const LEASE: u64 = 10;

impl Migrate {
    /// When the key moves to the new child: keys move one after the other, within two intervals.
    fn change(&self, key: &[u8]) -> u64 {
        self.start.saturating_add(u64::from(spooky::hash32(key, 0)) % self.interval.saturating_mul(2).max(1))
    }
}

impl Handle for Migrate {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (from, to) = (members.child("from")?, members.child("to")?);
        let start = members.integer("start_time", 0..=i64::MAX)?;
        let start = start.ok_or_else(|| json.error("'start_time' is missing"))?.unsigned_abs();
        let interval = members.integer("interval", 1..=i64::MAX)?.unwrap_or(INTERVAL).unsigned_abs();
        members.end();
        Ok(Migrate { from, to, start, interval })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let now = cx.facts.now_s;
        let end = self.start.saturating_add(self.interval.saturating_mul(2));
        if now < self.start {
            return Step::Tail(self.from);
        }
        if now >= end {
            return Step::Tail(self.to);
        }
        if request.op.group() != Group::Delete {
            let change = self.change(request.routing_key());
            let may_be_of_old = request.op == Op::LeaseSet
                && request.dialect == Dialect::Classic
                && (change..change.saturating_add(LEASE)).contains(&now);
            if may_be_of_old {
                cx.request(self.to, Rewrite::NONE, 0);
                return Step::Await(State::default());
            }
            return Step::Tail(if now >= change { self.to } else { self.from });
        }
        // Either may have the key.
        cx.request(self.from, Rewrite::NONE, 0);
        cx.request(self.to, Rewrite::NONE, 1);
        Step::Await(State::default())
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        _child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        if request.op == Op::LeaseSet {
            // Until the token is void there, no other client gets a lease from the old place.
            if !matches!(answer.outcome, Outcome::Stored | Outcome::StaleStored) {
                cx.notify(self.from, Rewrite::NONE);
            }
            return Then::Pass;
        }
        super::worst(cx, state, 2, answer)
    }
}
