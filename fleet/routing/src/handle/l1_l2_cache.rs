//! Two levels of caches: a miss of the first is requested from the second, and stored in the first.

use super::{AnyHandle, Handle};
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Content, Cx, NodeId, Rewrite, State, Step, Then};
use std::cell::Cell;

#[derive(Debug)]
pub(crate) struct L1L2Cache {
    caches: Caches,
    role: Role,
}

#[derive(Clone, Copy, Debug)]
struct Caches {
    l1: NodeId,
    l2: NodeId,
    /// Seconds that items from the second cache stay in the first; 0 is for ever.
    exptime: i32,
    miss_exptime: i32,
}

#[derive(Debug)]
enum Role {
    Plain,
    KeepsMisses(Misses),
    /// Looks again at a miss that is kept, for a request that is answered already.
    Refreshes,
}

/// Misses of the second cache, which the first one keeps.
#[derive(Debug)]
struct Misses {
    refresh: NodeId,
    /// After this many of them the second cache is tried again.
    period: u64,
    left: Cell<u64>,
}

/// The flag of an item that stands for a miss, and its value.
const NEGATIVE: u64 = 0x1_0000;
const NEGATIVE_VALUE: &[u8] = b"ncache";

const L1: u32 = 0;
const L2: u32 = 1;

impl Caches {
    fn fill(&self, op: Op) -> Rewrite {
        let (exptime, number) = (Some(self.exptime), Some(0));
        Rewrite { op: Some(op), exptime, number, content: Content::OfAnswer, ..Rewrite::NONE }
    }

    fn miss(&self, op: Op) -> Rewrite {
        let content = Content::Fixed { flags: NEGATIVE, value: NEGATIVE_VALUE };
        Rewrite { op: Some(op), exptime: Some(self.miss_exptime), number: Some(0), content, ..Rewrite::NONE }
    }
}

impl Misses {
    fn is_due(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(if left == 0 { self.period } else { left });
        left == 0
    }
}

impl L1L2Cache {
    fn after_l1(&self, cx: &mut Cx<'_>, answer: &Answer<'_>) -> Then {
        if !answer.outcome.is_hit() {
            cx.request(self.caches.l2, Rewrite::NONE, L2);
            return Then::Wait;
        }
        if answer.item.is_none_or(|item| item.flags & NEGATIVE == 0) {
            return Then::Pass;
        }
        if let Role::KeepsMisses(misses) = &self.role
            && misses.is_due()
        {
            cx.notify(misses.refresh, Rewrite::NONE);
        }
        Then::Answer(Outcome::NotFound)
    }

    fn after_l2(&self, cx: &mut Cx<'_>, answer: &Answer<'_>) {
        let rewrite = match &self.role {
            Role::Refreshes if answer.outcome.is_hit() => self.caches.fill(Op::Set),
            Role::Refreshes => self.caches.miss(Op::Set),
            _ if answer.outcome.is_hit() => self.caches.fill(Op::Add),
            Role::KeepsMisses(_) if answer.outcome.is_miss() => self.caches.miss(Op::Add),
            Role::Plain | Role::KeepsMisses(_) => return,
        };
        cx.notify(self.caches.l1, rewrite);
    }
}

impl Handle for L1L2Cache {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (l1, l2) = (members.child("l1")?, members.child("l2")?);
        let seconds = 0..=i64::from(i32::MAX);
        let exptime = members.integer("upgradingL1Exptime", seconds.clone())?.unwrap_or(0) as i32;
        let miss_exptime = members.integer("ncacheExptime", seconds)?.unwrap_or(0) as i32;
        let period = members.integer("ncacheUpdatePeriod", 0..=i64::MAX)?.unwrap_or(0).unsigned_abs();
        members.end();
        let caches = Caches { l1, l2, exptime, miss_exptime };
        if period == 0 {
            return Ok(L1L2Cache { caches, role: Role::Plain });
        }
        let refresh = build.add(AnyHandle::L1L2Cache(L1L2Cache { caches, role: Role::Refreshes }));
        let misses = Misses { refresh, period, left: Cell::new(period) };
        Ok(L1L2Cache { caches, role: Role::KeepsMisses(misses) })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        // The value in a meta command's reply depends on the flags, and may be missing.
        if request.op.group() != Group::Get || request.dialect == Dialect::Meta {
            return Step::Tail(self.caches.l1);
        }
        match self.role {
            Role::Refreshes => cx.request(self.caches.l2, Rewrite::NONE, L2),
            Role::Plain | Role::KeepsMisses(_) => cx.request(self.caches.l1, Rewrite::NONE, L1),
        }
        Step::Await(State::default())
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let step = self.enter(cx, request);
        if matches!(step, Step::Await(_)) {
            cx.request(self.caches.l2, Rewrite::NONE, L2);
        }
        step
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        _state: &mut State,
        child: u32,
        _request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        if child == L1 {
            return self.after_l1(cx, answer);
        }
        self.after_l2(cx, answer);
        Then::Pass
    }
}
