//! Splits values that are too large for a server: their pieces are items of their own, and the item itself says how many there are. The
//! format is mcrouter's.

mod meta_flags;

use super::Handle;
use crate::KEY_MAX;
use crate::build::Builder;
use crate::config::{ConfigError, Json};
use crate::hash::spooky;
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::settings::{BigFlag, BigValues};
use crate::step::{Content, Cx, Flags, NodeId, Rewrite, Shown, State, Step, Then};
use std::num::NonZeroU32;

#[derive(Debug)]
pub(crate) struct BigValue {
    target: NodeId,
    values: BigValues,
}

/// The flag of an item whose value says where the pieces are: mcrouter's MC_MSG_FLAG_BIG_VALUE.
const BIG: u64 = 0x8000;
const VERSION: &str = "1";
/// The most pieces of a value.
const PIECES_MAX: usize = u16::MAX as usize;
/// The longest suffix of a piece's key.
const SUFFIX_MAX: usize = ":65534:18446744073709551615".len();
/// The default number of pieces that are requested at once.
const BATCH: i64 = 10;

/// The children's requests: the item itself,
const ITEM: u32 = 0;
/// the item again, to check whether it still names the missing pieces,
const CHECK: u32 = 1;
/// and its expiry, to make room for a lease;
const EXPIRE: u32 = 2;
/// the item, after its pieces were stored;
const STORE: u32 = 3;
const PIECE: u32 = 16;

/// The progress of the pieces, kept in the bits of a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pieces {
    /// A hash of the value, with which the keys of pieces end.
    suffix: u64,
    count: u16,
    /// The number of pieces that were requested, and that of replies.
    requested: u16,
    answered: u16,
    tries: u16,
}

impl Pieces {
    fn of(state: &State) -> Self {
        let part = |number: u32| (state.b >> (64 + 16 * number)) as u16;
        Pieces { suffix: state.b as u64, count: part(0), requested: part(1), answered: part(2), tries: part(3) }
    }

    fn keep(self, state: &mut State) {
        let parts = [self.count, self.requested, self.answered, self.tries];
        let high = parts.iter().rev().fold(0, |bits, part| bits << 16 | u64::from(*part));
        state.b = u128::from(high) << 64 | u128::from(self.suffix);
    }

    /// Parses the item that describes the pieces: `1-COUNT-SUFFIX`.
    fn read(value: &[u8]) -> Option<(u64, u64)> {
        let mut parts = std::str::from_utf8(value).ok()?.split('-');
        let (version, count, suffix) = (parts.next()?, parts.next()?, parts.next()?);
        let is_right = version == VERSION && parts.next().is_none();
        let number = |text: &str| text.parse().ok().filter(|_| text.as_bytes()[0] != b'+');
        let (count, suffix) = (number(count)?, number(suffix)?);
        (is_right && count > 0).then_some((count, suffix))
    }

    fn written(self) -> String {
        format!("{VERSION}-{}-{}", self.count, self.suffix)
    }
}

impl BigValue {
    pub(crate) fn new(target: NodeId, values: BigValues) -> Self {
        BigValue { target, values }
    }

    /// Requests the next pieces, or stores them.
    fn request(&self, cx: &mut Cx<'_>, pieces: &mut Pieces, request: &Request<'_>, op: Op) {
        let batch = self.values.batch.map_or(u32::MAX, NonZeroU32::get);
        let end = u32::from(pieces.requested).saturating_add(batch).min(pieces.count.into());
        let length = self.values.threshold.get();
        for number in u32::from(pieces.requested)..end {
            let suffix = format!(":{number}:{}", pieces.suffix);
            let key = Some(cx.text(&[request.key, suffix.as_bytes()]));
            let content = match op {
                Op::Set => {
                    let from = number * length;
                    Content::Part { from, to: from.saturating_add(length).min(request.value.len() as u32) }
                }
                // A piece is read by a classic request, whatever the client's command is.
                _ => Content::Fixed { flags: 0, value: b"" },
            };
            let rewrite = Rewrite { op: Some(op), key, number: Some(0), content, ..Rewrite::NONE };
            cx.request(self.target, rewrite, PIECE + number);
        }
        pieces.requested = end as u16;
    }

    /// The item itself was found, or not.
    fn after_item(&self, cx: &mut Cx<'_>, state: &mut State, request: &Request<'_>, answer: &Answer<'_>) -> Then {
        let Some(item) = answer.item.filter(|item| item.flags & BIG != 0) else {
            let shown = meta_flags::shown(request);
            if shown == Shown::AsReceived || answer.item.is_none() {
                return Then::Pass;
            }
            cx.hold_whole();
            return Then::Joined(Flags { without: 0, shown });
        };
        // The stale value that comes with a lease is not the client's value.
        match answer.outcome {
            Outcome::Found => {}
            Outcome::FoundStale => return Then::Answer(Outcome::NotFoundHot),
            outcome => return Then::Numbered(outcome, answer.number),
        }
        let (count, suffix) = match Pieces::read(item.value) {
            Some((count, suffix)) if count <= PIECES_MAX as u64 => (count as u16, suffix),
            Some(_) => return Then::Answer(Outcome::LocalError),
            // A client with a lease may store what it finds elsewhere: mcrouter's token says so.
            None if is_lease(request) => return Then::Numbered(Outcome::NotFound, u64::MAX),
            None => return Then::Answer(Outcome::NotFound),
        };
        let mut pieces = Pieces { suffix, count, tries: Pieces::of(state).tries, ..Pieces::default() };
        cx.hold();
        self.request(cx, &mut pieces, request, Op::Get);
        pieces.keep(state);
        Then::Wait
    }

    /// A piece has come, or was stored.
    fn after_piece(
        &self,
        cx: &mut Cx<'_>,
        state: &mut State,
        number: u32,
        request: &Request<'_>,
        answer: &Answer<'_>,
    ) -> Then {
        let mut pieces = Pieces::of(state);
        let is_store = request.op.group() == Group::Update;
        let is_right = match answer.outcome {
            Outcome::Stored => is_store,
            Outcome::Found => !is_store && answer.item.is_some(),
            _ => false,
        };
        if !is_right {
            let outcome = if answer.outcome == Outcome::Found { Outcome::NotFound } else { answer.outcome };
            state.a = worse(state.a, outcome);
        } else if !is_store {
            cx.gather(number);
        }
        pieces.answered += 1;
        if pieces.answered < pieces.requested {
            pieces.keep(state);
            return Then::Wait;
        }
        if let Some(outcome) = Outcome::numbered(state.a) {
            pieces.keep(state);
            return self.after_failure(cx, request, outcome);
        }
        if pieces.requested < pieces.count {
            self.request(cx, &mut pieces, request, if is_store { Op::Set } else { Op::Get });
            pieces.keep(state);
            return Then::Wait;
        }
        if !is_store {
            let without = if self.values.flag == BigFlag::Hidden { BIG } else { 0 };
            return Then::Joined(Flags { without, shown: meta_flags::shown(request) });
        }
        let value = cx.text(&[pieces.written().as_bytes()]);
        let content = Content::Written { flags: request.flags | BIG, value };
        let meta = meta_flags::of_store(cx, request);
        cx.request(self.target, Rewrite { content, meta, ..Rewrite::NONE }, STORE);
        Then::Wait
    }

    /// A piece is missing, or could not be stored.
    fn after_failure(&self, cx: &mut Cx<'_>, request: &Request<'_>, outcome: Outcome) -> Then {
        if !is_lease(request) || outcome.is_error() {
            return Then::Answer(outcome);
        }
        // While the item exists, the cache gives no lease to store it again.
        cx.request(self.target, Rewrite { op: Some(Op::Gets), ..Rewrite::NONE }, CHECK);
        Then::Wait
    }

    /// Handles the second read of an item whose piece is missing.
    fn after_check(&self, cx: &mut Cx<'_>, state: &mut State, answer: &Answer<'_>) -> Then {
        let pieces = Pieces::of(state);
        if answer.outcome.is_error() && pieces.tries > 0 {
            return Then::Answer(answer.outcome);
        }
        let known = Some((u64::from(pieces.count), pieces.suffix));
        let is_same = answer.outcome == Outcome::Found
            && answer.item.is_some_and(|item| item.flags & BIG != 0 && Pieces::read(item.value) == known);
        if !is_same {
            return self.request_again(cx, state);
        }
        cx.request(self.target, Rewrite::expire(answer.number), EXPIRE);
        Then::Wait
    }

    /// Requests the lease again.
    fn request_again(&self, cx: &mut Cx<'_>, state: &mut State) -> Then {
        let tries = Pieces::of(state).tries + 1;
        if tries > 1 {
            return Then::Answer(Outcome::RemoteError);
        }
        state.a = 0;
        Pieces { tries, ..Pieces::default() }.keep(state);
        cx.request(self.target, Rewrite::NONE, ITEM);
        Then::Wait
    }
}

/// Whether a client is to be given a token. That of a meta command has the item's cas unique.
fn is_lease(request: &Request<'_>) -> bool {
    request.op == Op::LeaseGet && request.dialect == Dialect::Classic
}

/// The number of the worse of two outcomes, the first by its number.
fn worse(known: u32, outcome: Outcome) -> u32 {
    match Outcome::numbered(known) {
        Some(known) if known.severity() >= outcome.severity() => known.number(),
        _ => outcome.number(),
    }
}

impl Handle for BigValue {
    fn parse(build: &mut Builder<'_>, json: &Json) -> Result<Self, ConfigError> {
        let mut members = build.members(json)?;
        let target = members.child("target")?;
        let threshold = members.integer("split_threshold", 1..=i64::from(u32::MAX))?;
        let threshold = threshold.and_then(|bytes| NonZeroU32::new(bytes as u32));
        let threshold = threshold.ok_or_else(|| json.error("'split_threshold' is missing"))?;
        let batch = members.integer("batch_size", 0..=i64::MAX)?.unwrap_or(BATCH);
        let batch = NonZeroU32::new(u32::try_from(batch).unwrap_or(u32::MAX));
        let is_hidden = members.flag("hide_reply_flag")? == Some(true);
        members.end();
        let flag = if is_hidden { BigFlag::Hidden } else { BigFlag::Shown };
        Ok(BigValue { target, values: BigValues { threshold, batch, flag } })
    }

    fn enter(&self, cx: &mut Cx<'_>, request: &Request<'_>) -> Step {
        let mut state = State::default();
        match request.op {
            Op::Get | Op::Gets | Op::Gat | Op::Gats | Op::LeaseGet => {
                if meta_flags::passes(request, b'v', b'b') {
                    return Step::Tail(self.target);
                }
                let meta = meta_flags::with_flags(cx, request);
                cx.request(self.target, Rewrite { meta, ..Rewrite::NONE }, ITEM);
            }
            Op::Set | Op::Add | Op::Replace | Op::Cas | Op::LeaseSet => {
                let length = self.values.threshold.get() as usize;
                // A key that has no room for more is left to the server.
                let has_room = request.key.len() + SUFFIX_MAX <= KEY_MAX;
                if request.value.len() <= length || !has_room || meta_flags::passes(request, 0, b'b') {
                    return Step::Tail(self.target);
                }
                let count = request.value.len().div_ceil(length);
                if count > PIECES_MAX {
                    return Step::Answer(Outcome::LocalError);
                }
                let suffix = u64::from(spooky::hash32(request.value, 0));
                let mut pieces = Pieces { suffix, count: count as u16, ..Pieces::default() };
                self.request(cx, &mut pieces, request, Op::Set);
                pieces.keep(&mut state);
            }
            _ => return Step::Tail(self.target),
        }
        Step::Await(state)
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
            ITEM => self.after_item(cx, state, request, answer),
            CHECK => self.after_check(cx, state, answer),
            EXPIRE if answer.outcome.is_error() => Then::Answer(answer.outcome),
            EXPIRE => self.request_again(cx, state),
            STORE => Then::Pass,
            piece => self.after_piece(cx, state, piece - PIECE, request, answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_item_says_is_mcrouters() {
        let pieces = Pieces { suffix: 123_456, count: 10, ..Pieces::default() };
        assert_eq!(pieces.written(), "1-10-123456");
        assert_eq!(Pieces::read(b"1-10-123456"), Some((10, 123_456)));
        assert_eq!(Pieces::read(b"1-10-18446744073709551615"), Some((10, u64::MAX)));
        for wrong in ["", "1-10", "2-10-5", "1-10-5-", "1-10-5-1", "1-0-5", "1-x-5", "1-+1-5", "1--5", "1-10-5 "] {
            assert_eq!(Pieces::read(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_state_has_room_for_all_of_it() {
        let pieces = Pieces { suffix: u64::MAX - 1, count: 65_535, requested: 65_534, answered: 3, tries: 1 };
        let mut state = State::default();
        pieces.keep(&mut state);
        assert_eq!(Pieces::of(&state), pieces);
    }
}
