//! Two caches for values of different lengths: of a long one, the first cache has an item that says that the second has it.

use super::Handle;
use crate::KEY_MAX;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::spooky;
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Op, Request};
use crate::step::{Content, Cx, NodeId, Rewrite, State, Step, Then};

#[derive(Debug)]
pub(crate) struct L1L2SizeSplit {
    l1: NodeId,
    l2: NodeId,
    /// Shorter values are in the first cache only; all if it is 0.
    threshold: u64,
    /// Items that expire within this many seconds stay in the first cache too.
    ttl_threshold: i32,
    /// Seconds that a long value stays in the first cache if the second fails.
    failure_ttl: i32,
    long: Long,
    retries: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Long {
    InL2,
    InBoth,
}

/// The flag of an item of the first cache whose value is in the second: mcrouter's MC_MSG_FLAG_SIZE_SPLIT.
const SPLIT: u64 = 0x20;
/// The separator of a key and a number in the keys of the second cache.
const ALIAS: &[u8] = b"|==|";
/// The length of the separator and a 64-bit number.
const ALIAS_MAX: usize = 4 + 20;
const FAILURE_TTL: i64 = 60;

const L1: u32 = 0;
const L2: u32 = 1;
/// The item in the first cache, read again; and its expiry.
const CHECK: u32 = 2;
const EXPIRE: u32 = 3;
const STORE_L1: u32 = 4;
const STORE_L2: u32 = 5;
const STORE_LAST: u32 = 6;

/// The progress of a get.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// The cas unique in the first cache.
    unique: u64,
    /// A hash of the item's value; 0 for an empty one.
    hash: u32,
    tries: u8,
}

impl Found {
    fn of(state: &State) -> Self {
        Found { unique: state.b as u64, hash: (state.b >> 64) as u32, tries: (state.b >> 96) as u8 }
    }

    fn keep(self, state: &mut State) {
        state.b =
            u128::from(self.tries) << 96 | u128::from(self.hash) << 64 | u128::from(self.unique);
    }
}

fn hash(value: &[u8]) -> u32 {
    if value.is_empty() { 0 } else { spooky::hash32(value, 0).max(1) }
}

impl L1L2SizeSplit {
    fn belongs_to_l1(&self, request: &Request<'_>) -> bool {
        self.threshold == 0
            || (request.value.len() as u64) < self.threshold
            || (self.ttl_threshold != 0 && request.exptime < self.ttl_threshold)
            || request.key.len() + ALIAS_MAX > KEY_MAX
    }

    /// The first cache has answered a get.
    fn after_l1(&self, cx: &mut Cx<'_>, state: &mut State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        let Some(item) = answer.item.filter(|item| item.flags & SPLIT != 0) else {
            return Then::Pass;
        };
        match answer.outcome {
            Outcome::Found => {}
            Outcome::FoundStale => return Then::Answer(Outcome::NotFoundHot),
            outcome => return Then::Numbered(outcome, answer.number),
        }
        let found = Found { unique: answer.number, hash: hash(item.value), tries: Found::of(state).tries };
        found.keep(state);
        let key = (!item.value.is_empty()).then(|| cx.text(&[request.key, ALIAS, item.value]));
        cx.request(self.l2, Rewrite { op: Some(Op::Get), key, ..Rewrite::NONE }, L2);
        Then::Wait
    }

    fn after_l2(&self, cx: &mut Cx<'_>, state: &mut State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        let found = Found::of(state);
        let has_unique = matches!(request.op, Op::Gets | Op::Gats);
        match answer.outcome {
            Outcome::Found if has_unique => return Then::Renumbered(found.unique),
            Outcome::Found => return Then::Pass,
            // The reply of the first cache shows only that the item exists.
            _ if request.op != Op::LeaseGet && !has_unique && found.hash == 0 => return Then::Pass,
            outcome if outcome.is_error() && !outcome.is_failover_error() => return Then::Pass,
            outcome if outcome.is_error() => state.a = outcome.number(),
            _ if (request.op == Op::LeaseGet || has_unique) && found.tries < self.retries => state.a = 0,
            _ => state.a = Outcome::LocalError.number(),
        }
        cx.request(self.l1, Rewrite { op: Some(Op::Gets), ..Rewrite::NONE }, CHECK);
        Then::Wait
    }

    /// Handles the second read of the first cache: if it still refers to the second cache, that
    /// reference is stale.
    fn after_check(&self, cx: &mut Cx<'_>, state: &mut State, answer: &Answer<'_>) -> Then {
        let is_same = answer.outcome == Outcome::Found
            && answer.item.is_some_and(|it| it.flags & SPLIT != 0 && hash(it.value) == Found::of(state).hash);
        if !is_same {
            return self.end_check(cx, state);
        }
        cx.request(self.l1, Rewrite::expire(answer.number), EXPIRE);
        Then::Wait
    }

    fn end_check(&self, cx: &mut Cx<'_>, state: &mut State) -> Then {
        if let Some(outcome) = Outcome::numbered(state.a) {
            return Then::Answer(outcome);
        }
        let found = Found::of(state);
        Found { tries: found.tries + 1, ..found }.keep(state);
        cx.request(self.l1, Rewrite::NONE, L1);
        Then::Wait
    }

    /// Stores a value that belongs to the second cache.
    fn store(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let mut state = State::default();
        if self.long == Long::InBoth {
            cx.request(self.l1, Rewrite::NONE, STORE_L1);
            return Step::Await(state);
        }
        let mut rewrite = Self::plain();
        if request.op == Op::LeaseSet {
            // An older value that a get still looks for stays where it is.
            state.a = cx.random(1 << 32) as u32;
            rewrite.key = Some(cx.text(&[request.key, ALIAS, state.a.to_string().as_bytes()]));
        }
        cx.request(self.l2, rewrite, STORE_L2);
        Step::Await(state)
    }

    /// The second cache gives no leases.
    fn plain() -> Rewrite {
        Rewrite { op: Some(Op::Set), number: Some(0), ..Rewrite::NONE }
    }

    /// The second cache has a value, or has not.
    fn after_store(&self, cx: &mut Cx<'_>, state: &State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        let is_stored = answer.outcome == Outcome::Stored;
        let flags = request.flags | SPLIT;
        let rewrite = match (request.op, is_stored) {
            (Op::LeaseSet, true) => {
                let value = cx.text(&[state.a.to_string().as_bytes()]);
                Rewrite { content: Content::Written { flags, value }, ..Rewrite::NONE }
            }
            (Op::LeaseSet, false) => {
                let is_longer = request.exptime > self.failure_ttl || request.exptime == 0;
                Rewrite::exptime(if is_longer { self.failure_ttl } else { request.exptime })
            }
            (_, true) => Rewrite { content: Content::Fixed { flags, value: b"" }, ..Rewrite::NONE },
            (_, false) => return Then::Pass,
        };
        cx.request(self.l1, rewrite, STORE_LAST);
        Then::Wait
    }
}

impl Handle for L1L2SizeSplit {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (l1, l2) = (members.child("l1")?, members.child("l2")?);
        let threshold = members.integer("threshold", 0..=i64::MAX)?;
        let threshold = threshold.ok_or_else(|| json.error("'threshold' is missing"))?.unsigned_abs();
        let seconds = i64::from(i32::MAX);
        let ttl_threshold = members.integer("ttl_threshold", 0..=seconds)?.unwrap_or(0) as i32;
        let failure_ttl = members.integer("failure_ttl", 1..=seconds)?.unwrap_or(FAILURE_TTL) as i32;
        let is_in_both = members.flag("both_full_set")? == Some(true);
        let retries = members.integer("retries", 1..=10)?.unwrap_or(1) as u8;
        members.end();
        let long = if is_in_both { Long::InBoth } else { Long::InL2 };
        Ok(L1L2SizeSplit { l1, l2, threshold, ttl_threshold, failure_ttl, long, retries })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        match request.op {
            _ if request.dialect == Dialect::Meta => Step::Tail(self.l1),
            Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet => {
                cx.request(self.l1, Rewrite::NONE, L1);
                Step::Await(State::default())
            }
            Op::Set | Op::LeaseSet if !self.belongs_to_l1(request) => self.store(cx, request),
            _ => Step::Tail(self.l1),
        }
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let is_get = matches!(request.op, Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet);
        if !is_get && !matches!(request.op, Op::Set | Op::LeaseSet) {
            return Step::Tail(self.l1);
        }
        super::request_all(cx, &[self.l1, self.l2]);
        Step::Await(State::default())
    }

    fn resume(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        child: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        match child {
            L1 => self.after_l1(cx, state, request, answer),
            L2 => self.after_l2(cx, state, request, answer),
            CHECK => self.after_check(cx, state, answer),
            EXPIRE => self.end_check(cx, state),
            STORE_L1 => {
                if answer.outcome == Outcome::Stored {
                    cx.notify(self.l2, Self::plain());
                }
                Then::Pass
            }
            STORE_L2 => self.after_store(cx, state, request, answer),
            _ => Then::Pass,
        }
    }
}
