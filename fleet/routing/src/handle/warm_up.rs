//! Fills a cold cluster from a warm one: a miss of the cold cluster is requested from the warm one,
//! and stored in the cold one.

mod hold_off;
mod lifetime;

use super::Handle;
use crate::build::{Builder, Members};
use crate::config::{ConfigError, Json};
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Cx, NodeId, Rewrite, State, Step, Then};
use crate::warm_ups::{End, Fills, Meter, WarmUpCount};
use guira_sync::simulated::is_planted;
use hold_off::{HoldOff, How, SECONDS_MAX, Sign};
use lifetime::Lifetime;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct WarmUp {
    cold: NodeId,
    warm: NodeId,
    lifetime: Lifetime,
    /// The hold-off of deletes. With one, a client only receives a warm value that the cold cluster
    /// has stored.
    hold_off: Option<HoldOff>,
    meter: Meter,
}

const COLD: u32 = 0;
const WARM: u32 = 1;
const FILL: u32 = 2;
const COLD_AGAIN: u32 = 3;
/// Checks whether a found item stands for a hold-off, while the cold cluster's reply is held.
const LOOK: u32 = 4;
/// A delete with a hold-off, and one without.
const DELETE: u32 = 5;
const PLAIN_DELETE: u32 = 6;
/// The first of them again, after the second.
const DELETE_AGAIN: u32 = 7;
/// Checks whether an item that is to expire at once stands for a hold-off.
const LOOK_FIRST: u32 = 8;
/// The last request, whose reply goes to the client unchanged.
const LAST: u32 = 9;

/// In a state: after a miss of the cold cluster the request goes to the warm one, and the value is
/// stored.
const IS_FILLED: u32 = 1;
/// The same without the store.
const IS_PASSED_ON: u32 = 2;

/// In the state of a delete: its key is tried to be held off once more, after a plain delete, and that one has found an item.
const IS_LATE: u32 = 1;
const HAS_DELETED: u32 = 2;

/// A token that nothing can be stored with, by the router's leases of meta commands, and by the nodes' own.
const NO_TOKEN: u64 = 100;

/// Told once where servers do not know what deletes of theirs come with.
const NO_HOLD_OFF: &str = "the cold cluster rejects deletes with hold-off; sending plain deletes. Its servers do not support \
     \"hold_off\": \"native\": try \"sentinel\"";

const NO_META: &str = "the warm cluster does not support meta commands, so no items are copied: use \"exptime\" instead of \
     \"enable_metaget\"";

impl WarmUp {
    /// For keys that move between servers. Reports and counts appear under `name`, as for a route
    /// with this `text`. Copies live as long as their originals, and deletes have a hold-off.
    pub(crate) fn of_moved_keys(
        build: &Builder<'_>,
        [cold, warm]: [NodeId; 2],
        [name, text]: [&str; 2],
        fills: Fills,
        timeout: Duration,
    ) -> Self {
        let meter = build.warm_ups().part(name, text, fills);
        let hold_off = (!is_planted("moved-keys-not-held-off")).then(|| HoldOff::while_filled(timeout));
        WarmUp { cold, warm, lifetime: Lifetime::Left, hold_off, meter }
    }

    fn end(members: &mut Members<'_, '_, '_>) -> Result<Option<End>, ConfigError> {
        let Some(json) = members.json("end") else { return Ok(None) };
        let mut object = json.object("end")?;
        let share = object.optional_as("share", |json, name| json.number(name, f64::MIN_POSITIVE..=1.0))?;
        let whole =
            |json: &Json, name: &str| json.integer(name, 1..=i64::from(i32::MAX)).map(i64::unsigned_abs);
        let for_s = object.optional_as("for_s", whole)?;
        let least = object.optional_as("min_requests", whole)?;
        members.finish(object);
        let (share, for_s, least) = (share.unwrap_or(0.95), for_s.unwrap_or(60), least.unwrap_or(1000));
        Ok(Some(End { share, for_s, least }))
    }

    /// Whether the request may go to the warm cluster, and the item be copied. Not for a meta
    /// command with a key in base64: copies are stored by classic commands.
    fn is_filled(&self, request: &Request<'_>) -> bool {
        let is_get = match request.dialect {
            Dialect::Classic => {
                matches!(request.op, Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet)
            }
            Dialect::Meta => {
                matches!(request.op, Op::Get | Op::Gat) && hold_off::form_of_key(request).is_empty()
            }
        };
        is_get && self.meter.fills()
    }

    /// Whether the warm cluster replies after a miss of the cold one, and nothing is filled: the reply to `me` has no
    /// value. Not where deletes hold keys off: a miss of `me` does not show whether its key is held off, and the warm
    /// cluster's reply may be old.
    fn is_passed_on(&self, request: &Request<'_>) -> bool {
        request.op == Op::MetaGet && self.hold_off.is_none() && self.meter.fills()
    }

    /// Whether the reply to a request may show a sentinel.
    fn is_shown_sentinels(&self, op: Op) -> bool {
        let is_shown = match op.group() {
            Group::Get => op != Op::MetaGet,
            Group::Touch | Group::Arithmetic => true,
            Group::Update | Group::Delete | Group::Flush => false,
        };
        is_shown && self.hold_off.is_some_and(|hold_off| hold_off.how == How::Sentinel)
    }

    fn count(&self, cx: &Cx<'_>, what: WarmUpCount) {
        self.meter.count(what, cx.facts.now_s);
    }

    fn after_cold(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        if let Some(then) = self.after_sign(cx, request, answer) {
            return then;
        }
        let is_lease = request.op == Op::LeaseGet;
        if answer.outcome.is_hit() || (is_lease && answer.outcome.is_hot_miss()) {
            return self.found(cx, state, request);
        }
        if state.a == IS_PASSED_ON {
            cx.request(self.warm, Rewrite::NONE, LAST);
            return Then::Wait;
        }
        // A key whose server fails may be held off.
        if state.a != IS_FILLED || (self.hold_off.is_some() && !answer.outcome.is_miss()) {
            return Then::Pass;
        }
        if !is_plain_get(request) {
            cx.hold();
            state.b = u128::from(answer.number);
        }
        let child_request = self.lifetime.request(cx);
        cx.request(self.warm, child_request, WARM);
        Then::Wait
    }

    fn found(&self, cx: &Cx<'_>, state: &State, request: &Request<'_>) -> Then {
        if state.a == IS_FILLED {
            self.count(cx, WarmUpCount::Hit);
        }
        // A touch is sent as a get-and-touch, whose value shows whether the item is a sentinel.
        if request.op == Op::Touch { Then::Answer(Outcome::Touched) } else { Then::Pass }
    }

    /// Handles a reply that may be a sign of a hold-off.
    fn after_sign(&self, cx: &mut Cx<'_>, request: &Request<'_>, answer: &Answer<'_>) -> Option<Then> {
        match self.hold_off?.sign(request, answer) {
            Sign::None => None,
            Sign::HeldOff => Some(self.held_off(cx, request)),
            Sign::Unclear => {
                cx.hold();
                let look = hold_off::look(cx, request);
                cx.request(self.cold, look, LOOK);
                Some(Then::Wait)
            }
        }
    }

    /// Handles a key with a hold-off: it counts as missing.
    fn held_off(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Then {
        let is_touched = matches!(request.op, Op::Gat | Op::Gats | Op::Touch);
        if let Some(hold_off) = self.hold_off.filter(|_| is_touched) {
            let time = hold_off.time(cx, request);
            cx.notify(self.cold, time);
        }
        if request.op.group() == Group::Get {
            self.count(cx, WarmUpCount::Refused);
        }
        let is_lease = request.op == Op::LeaseGet && request.dialect == Dialect::Classic;
        if is_lease { Then::Numbered(Outcome::NotFound, NO_TOKEN) } else { Then::Answer(Outcome::NotFound) }
    }

    /// Handles the reply to a look at the cold cluster's item.
    fn after_look(&self, cx: &mut Cx<'_>, state: &State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        if hold_off::is_sentinel(answer) {
            return self.held_off(cx, request);
        }
        // The item that was found before may have been a sentinel.
        if answer.outcome.is_miss() {
            return Then::Answer(Outcome::NotFound);
        }
        if answer.outcome.is_error() {
            return Then::Pass;
        }
        if hold_off::is_another(request, answer) {
            cx.request(self.cold, Rewrite::NONE, COLD_AGAIN);
            return Then::Wait;
        }
        if request.op.group() == Group::Get && state.a == IS_FILLED {
            self.count(cx, WarmUpCount::Hit);
        }
        Then::Held
    }

    fn after_warm(&self, cx: &mut Cx<'_>, state: &State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        // Where other deletes have a hold-off, the warm cluster has sentinels too.
        let is_none = hold_off::is_sentinel(answer);
        let copy = self.lifetime.of_copy(answer, cx.facts.now_s);
        let Some(exptime) = copy.filter(|_| !is_none) else {
            if is_none || answer.outcome.is_miss() {
                self.count(cx, WarmUpCount::WarmMiss);
            } else if self.lifetime.is_not_known(answer) {
                self.meter.complain(NO_META);
            }
            return if is_plain_get(request) { Then::Answer(Outcome::NotFound) } else { Then::Held };
        };
        let is_lease = request.op == Op::LeaseGet;
        if is_lease || is_plain_get(request) {
            cx.hold_item();
        }
        let is_late = || self.hold_off.is_some_and(|hold_off| cx.waited_ms() > hold_off.fill_within_ms());
        if !is_lease && is_late() {
            // The hold-off of a delete since then may be over when the copy arrives. A lease token,
            // however, stays void.
            self.count(cx, WarmUpCount::Refused);
            cx.request(self.cold, Rewrite::NONE, COLD_AGAIN);
            return Then::Wait;
        }
        match state.b as u64 {
            // An error has no token.
            0 if is_lease => return Then::Held,
            token if is_lease => cx.request(self.cold, lifetime::fill(Op::LeaseSet, token, exptime), FILL),
            _ => cx.request(self.cold, lifetime::fill(Op::Add, 0, exptime), FILL),
        }
        Then::Wait
    }

    /// The cold cluster has stored the item, or has not.
    fn after_fill(&self, cx: &mut Cx<'_>, state: &State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        let has_item = request.op == Op::LeaseGet || is_plain_get(request);
        match answer.outcome {
            Outcome::Stored => {
                self.count(cx, WarmUpCount::Filled);
                if has_item {
                    return Then::Held;
                }
            }
            outcome if outcome.is_error() => {
                self.count(cx, WarmUpCount::Failed);
                match (self.hold_off, request.op) {
                    // Without a hold-off there is no promise to keep.
                    (None, _) if has_item => return Then::Held,
                    (None, _) => {}
                    // Whether the key has a hold-off is unknown.
                    (_, Op::LeaseGet) => return Then::Numbered(Outcome::NotFound, state.b as u64),
                    _ if has_item => return Then::Answer(Outcome::NotFound),
                    _ => return Then::Held,
                }
            }
            _ => self.count(cx, WarmUpCount::Refused),
        }
        cx.request(self.cold, Rewrite::NONE, COLD_AGAIN);
        Then::Wait
    }

    fn delete(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let Some(rewrite) = self.hold_off.and_then(|hold_off| hold_off.delete(cx, request)) else {
            return Step::Tail(self.cold);
        };
        cx.request(self.cold, rewrite, DELETE);
        Step::Await(State::default())
    }

    fn is_native(&self) -> bool {
        self.hold_off.is_some_and(|hold_off| hold_off.how == How::Native)
    }

    /// A delete that was to hold its key off was answered.
    fn after_delete(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let is_native = self.is_native();
        let is_meta = request.dialect == Dialect::Meta;
        let outcome = answer.outcome;
        match outcome {
            // The item is not the one that was to be deleted.
            Outcome::Exists if is_native => return Then::Pass,
            Outcome::Found | Outcome::NotFound if is_native => {
                self.count(cx, WarmUpCount::HeldOff);
                let is_found = outcome == Outcome::Found;
                let classic = if is_found { Outcome::Deleted } else { Outcome::NotFound };
                return if is_meta { Then::Pass } else { Then::Answer(classic) };
            }
            // The sentinel was stored.
            Outcome::Found | Outcome::Stored => {
                self.count(cx, WarmUpCount::HeldOff);
                return Then::Answer(Outcome::Deleted);
            }
            _ => self.count(cx, WarmUpCount::NotHeldOff),
        }
        // A delete without a reply, or for an unreachable server, is logged if configured; the
        // store of a sentinel is not.
        let is_refused = matches!(outcome, Outcome::ClientError | Outcome::RemoteError | Outcome::LocalError);
        if is_native && !is_refused {
            return Then::Pass;
        }
        if is_native && outcome == Outcome::ClientError {
            self.meter.complain(NO_HOLD_OFF);
        }
        // A store that was given up may still arrive, and the plain delete would then remove it, as well as what an
        // earlier delete has stored. After a connection has ended, it is unknown what the server has executed.
        // A server that replies with an error has stored nothing.
        let has_ended = outcome == Outcome::RemoteError && answer.line.is_empty();
        let may_be_stored = has_ended && !is_planted("hold-off-lost-with-connection");
        if may_be_stored || outcome.is_error() && !is_refused {
            state.a = IS_LATE;
        }
        cx.request(self.cold, Rewrite::NONE, PLAIN_DELETE);
        Then::Wait
    }

    /// Handles the reply to a delete without a hold-off.
    fn after_plain_delete(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        // `Exists`: the item is not the one that was to be deleted.
        let is_end = answer.outcome.is_error() || answer.outcome == Outcome::Exists;
        if state.a != IS_LATE || is_end {
            return Then::Pass;
        }
        let Some(rewrite) = self.hold_off.and_then(|hold_off| hold_off.delete(cx, request)) else {
            return Then::Pass;
        };
        if !answer.outcome.is_miss() {
            state.a = HAS_DELETED;
        }
        cx.request(self.cold, rewrite, DELETE_AGAIN);
        Then::Wait
    }

    fn after_delete_again(&self, cx: &Cx<'_>, state: &State, answer: &Answer<'_>) -> Then {
        match answer.outcome {
            Outcome::NotFound if self.is_native() => {
                self.count(cx, WarmUpCount::HeldOff);
                let had_it = state.a == HAS_DELETED;
                Then::Answer(if had_it { Outcome::Deleted } else { Outcome::NotFound })
            }
            Outcome::Found | Outcome::Stored => {
                self.count(cx, WarmUpCount::HeldOff);
                Then::Answer(Outcome::Deleted)
            }
            // Another item has been stored since, and was not the one that was to be deleted.
            Outcome::Exists if state.a == HAS_DELETED => Then::Answer(Outcome::Deleted),
            Outcome::Exists => Then::Pass,
            // The deleted item may have been the sentinel.
            outcome if outcome.is_error() && state.a == HAS_DELETED => Then::Pass,
            // A logged delete has this reply.
            _ => Then::Answer(Outcome::NotFound),
        }
    }
}

/// Whether a hit is answered with the item alone.
fn is_plain_get(request: &Request<'_>) -> bool {
    request.op == Op::Get && request.dialect == Dialect::Classic
}

impl Handle for WarmUp {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let (cold, warm) = (members.child("cold")?, members.child("warm")?);
        let exptime = members.integer("exptime", 0..=i64::from(i32::MAX))?;
        // As in mcrouter, a configured time overrides the item's own.
        let is_left = members.flag("enable_metaget")? == Some(true) && exptime.is_none();
        let lifetime = if is_left { Lifetime::Left } else { Lifetime::Fixed(exptime.unwrap_or(0) as i32) };
        let seconds = members.integer("hold_off_s", 1..=i64::from(SECONDS_MAX))?;
        let hold_off = HoldOff::read(members.json("hold_off"), seconds)?;
        if hold_off.is_none() {
            members.without_effect("hold_off_s", "there is no 'hold_off'");
        }
        let end = Self::end(&mut members)?;
        let fills = match (members.flag("fill")?, end) {
            (Some(false), _) => Fills::No,
            (_, Some(end)) => Fills::Until(end),
            _ => Fills::Yes,
        };
        let name = json.get("name").map(|name| name.text("name")).transpose()?.unwrap_or_default();
        let meter = members.warm_ups().part(name, &json.to_string(), fills);
        members.end();
        Ok(WarmUp { cold, warm, lifetime, hold_off, meter })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        if request.op == Op::Delete {
            return self.delete(cx, request);
        }
        let on_miss = match (self.is_filled(request), self.is_passed_on(request)) {
            (true, _) => IS_FILLED,
            (_, true) => IS_PASSED_ON,
            _ => 0,
        };
        let is_shown_sentinels = self.is_shown_sentinels(request.op);
        if on_miss == 0 && !is_shown_sentinels {
            return Step::Tail(self.cold);
        }
        // Afterwards nothing would show an expired sentinel. A classic reply has its flags.
        let is_meta = request.dialect == Dialect::Meta;
        if is_meta && is_shown_sentinels && hold_off::expires_at_once(request, cx.facts.now_s) {
            let look = hold_off::look(cx, request);
            cx.request(self.cold, look, LOOK_FIRST);
        } else {
            // A touch is sent as a get-and-touch, whose value shows whether the item is a sentinel.
            let op = (request.op == Op::Touch).then_some(Op::Gat);
            cx.request(self.cold, Rewrite { op, ..Rewrite::NONE }, COLD);
        }
        Step::Await(State { a: on_miss, ..State::default() })
    }

    fn explore(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let step = self.enter(cx, request);
        if let Step::Await(State { a: IS_FILLED | IS_PASSED_ON, .. }) = step {
            cx.request(self.warm, Rewrite::NONE, WARM);
        }
        step
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
            COLD => self.after_cold(cx, state, request, answer),
            WARM => self.after_warm(cx, state, request, answer),
            FILL => self.after_fill(cx, state, request, answer),
            COLD_AGAIN => self.after_sign(cx, request, answer).unwrap_or(Then::Pass),
            LOOK => self.after_look(cx, state, request, answer),
            LOOK_FIRST if hold_off::is_sentinel(answer) => {
                self.count(cx, WarmUpCount::Refused);
                Then::Answer(Outcome::NotFound)
            }
            LOOK_FIRST => {
                cx.request(self.cold, Rewrite::NONE, LAST);
                Then::Wait
            }
            DELETE => self.after_delete(cx, state, request, answer),
            PLAIN_DELETE => self.after_plain_delete(cx, state, request, answer),
            DELETE_AGAIN => self.after_delete_again(cx, state, answer),
            _ => Then::Pass,
        }
    }
}
