//! Deletes that hold their keys off: for some seconds nothing is added under them, so that a value that was read before does not come back.

use crate::config::{ConfigError, Json};
use crate::exptime::has_expired;
use crate::outcome::{Answer, Outcome};
use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Content, Cx, Rewrite};
use std::time::Duration;

/// The syntax and the time of a hold-off on the cold cluster's servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldOff {
    pub(super) how: How,
    seconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `md` with H, which nodes of Guira know.
    Native,
    /// A sentinel: an item in place of the deleted one, which makes any server refuse an add.
    Sentinel,
}

/// The flags that mark an item as a sentinel.
const SENTINEL: u64 = 0x7e1c_0f1f;
/// The longest hold-off.
pub(super) const SECONDS_MAX: u32 = 3600;
const SECONDS: u32 = 2;

/// The sign of a hold-off in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// There is no hold-off, as far as the reply shows.
    None,
    HeldOff,
    /// The item has to be read.
    Unclear,
}

fn has(request: &Request<'_>, letter: u8) -> bool {
    request.meta.split(|byte| *byte == b' ').any(|flag| flag.first() == Some(&letter))
}

/// The number behind the letter of a flag.
fn number(flag: &[u8]) -> Option<u32> {
    std::str::from_utf8(flag.get(1..)?).ok()?.parse().ok()
}

/// The flag of a key in base64.
pub(super) fn form_of_key(request: &Request<'_>) -> &'static [u8] {
    if has(request, b'b') { b"b " } else { b"" }
}

impl HoldOff {
    /// Long enough for a fill that has read the key before: a get of the cold server, one of the
    /// warm server, and an add, none of which takes longer than `timeout`.
    pub(super) fn while_filled(timeout: Duration) -> Self {
        let seconds = u32::try_from(timeout.saturating_mul(3).as_millis().div_ceil(1000)).unwrap_or(SECONDS_MAX);
        HoldOff { how: How::Native, seconds: seconds.clamp(SECONDS, SECONDS_MAX) }
    }

    pub(super) fn read(how: Option<&Json>, seconds: Option<i64>) -> Result<Option<Self>, ConfigError> {
        let Some(json) = how else { return Ok(None) };
        let how = match json.text("hold_off")? {
            "native" => How::Native,
            "sentinel" => How::Sentinel,
            other => {
                return Err(json.error(format!("'hold_off' is {other:?}, \"native\" or \"sentinel\" expected")));
            }
        };
        let seconds = seconds.map_or(SECONDS, |seconds| seconds.unsigned_abs() as u32);
        Ok(Some(HoldOff { how, seconds }))
    }

    /// The latest time in the life of a get at which an add may be sent; the rest of the hold-off
    /// is for the add.
    pub(super) fn fill_within_ms(self) -> u64 {
        u64::from(self.seconds) * 2000 / 3
    }

    /// The number for servers, which count whole seconds, the first of which may be over at once.
    fn whole_seconds(self) -> u32 {
        self.seconds + 1
    }

    /// The delete with a hold-off; `None` if the delete cannot have one.
    pub(super) fn delete(self, cx: &mut Cx<'_>, request: &Request<'_>) -> Option<Rewrite> {
        let wished = u32::try_from(request.number).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
        let seconds = self.whole_seconds().max(wished);
        let is_meta = request.dialect == Dialect::Meta;
        match self.how {
            How::Native => {
                // A mark that the item is stale, and an item without its value, would be in the way of a fill no more than none.
                let is_kept = |flag: &&[u8]| !matches!(flag.first(), Some(b'H' | b'I' | b'T' | b'x') | None);
                let flags = request.meta.split(|byte| *byte == b' ');
                let own = flags.clone().filter(|flag| flag.first() == Some(&b'H')).filter_map(number).max();
                let mut meta: Vec<u8> = flags.filter(is_kept).flat_map(|flag| [flag, b" "]).flatten().copied().collect();
                meta.extend_from_slice(format!("H{}", seconds.max(own.unwrap_or(0)).min(SECONDS_MAX)).as_bytes());
                Some(Rewrite { meta: Some(cx.text(&[&meta])), number: Some(0), ..Rewrite::NONE })
            }
            How::Sentinel if is_meta && [b'H', b'I', b'x'].iter().any(|letter| has(request, *letter)) => None,
            How::Sentinel if has(request, b'C') => None,
            How::Sentinel => Some(sentinel(cx, request, seconds)),
        }
    }

    /// Restores the expiration time of a sentinel, which a get with a new time has changed; stores
    /// it again if that time is over.
    pub(super) fn time(self, cx: &mut Cx<'_>, request: &Request<'_>) -> Rewrite {
        if expires_at_once(request, cx.facts.now_s) {
            return sentinel(cx, request, self.whole_seconds());
        }
        let (exptime, number) = (Some(self.whole_seconds() as i32), Some(0));
        if request.dialect == Dialect::Classic {
            let content = Content::Fixed { flags: 0, value: b"" };
            return Rewrite { op: Some(Op::Touch), exptime, number, content, ..Rewrite::NONE };
        }
        let meta = Some(cx.text(&[form_of_key(request).trim_ascii_end()]));
        Rewrite { op: Some(Op::Gat), exptime, number, meta, ..Rewrite::NONE }
    }

    /// The sign of a hold-off in a reply of the cold cluster.
    pub(super) fn sign(self, request: &Request<'_>, answer: &Answer<'_>) -> Sign {
        let is_number = request.op.group() == Group::Arithmetic;
        match (self.how, answer.outcome) {
            (How::Native, _) => Sign::None,
            // An item without a value is no number.
            (_, Outcome::ClientError) if is_number => Sign::Unclear,
            (_, Outcome::Found) if !is_number => match flags(answer) {
                Some(SENTINEL) => Sign::HeldOff,
                None if request.dialect == Dialect::Meta && answer.block.is_empty() => Sign::Unclear,
                _ => Sign::None,
            },
            _ => Sign::None,
        }
    }
}

fn sentinel(cx: &mut Cx<'_>, request: &Request<'_>, seconds: u32) -> Rewrite {
    let is_meta = request.dialect == Dialect::Meta;
    let meta = is_meta.then(|| cx.text(&[form_of_key(request), format!("F{SENTINEL}").as_bytes()]));
    let content = Content::Fixed { flags: SENTINEL, value: b"" };
    let (op, exptime, number) = (Some(Op::Set), Some(seconds as i32), Some(0));
    Rewrite { op, exptime, number, meta, content, ..Rewrite::NONE }
}

/// Whether a request sets an expiration time in the past.
pub(super) fn expires_at_once(request: &Request<'_>, now_s: u64) -> bool {
    let has_time = match request.dialect {
        Dialect::Classic => matches!(request.op, Op::Touch | Op::Gat | Op::Gats),
        Dialect::Meta => request.op == Op::Gat,
    };
    has_time && has_expired(request.exptime, now_s)
}

/// Whether [`look`] has found another item than the one without a value whose value was requested.
pub(super) fn is_another(request: &Request<'_>, answer: &Answer<'_>) -> bool {
    let is_get = request.dialect == Dialect::Meta && request.op.group() == Group::Get;
    let mut flags = answer.line.split(|byte| *byte == b' ').skip(1);
    is_get && has(request, b'v') && flags.any(|word| word.first() == Some(&b's') && word != b"s0")
}

/// A request for an item's flags.
pub(super) fn look(cx: &mut Cx<'_>, request: &Request<'_>) -> Rewrite {
    let meta = cx.text(&[form_of_key(request), b"f s"]);
    if request.dialect == Dialect::Meta {
        return Rewrite { op: Some(Op::Get), number: Some(0), meta: Some(meta), ..Rewrite::NONE };
    }
    let content = Content::Fixed { flags: 0, value: b"" };
    Rewrite { op: Some(Op::Get), number: Some(0), content, ..Rewrite::NONE }
}

/// Whether [`look`] has found a sentinel, which stands for no item.
pub(super) fn is_sentinel(answer: &Answer<'_>) -> bool {
    answer.outcome == Outcome::Found && flags(answer) == Some(SENTINEL)
}

/// The flags of an item, if its reply has them.
fn flags(answer: &Answer<'_>) -> Option<u64> {
    if let Some(item) = answer.item {
        return Some(item.flags);
    }
    let words = answer.line.split(|byte| *byte == b' ').skip(1);
    let flags = words.into_iter().find_map(|word| word.strip_prefix(b"f"))?;
    std::str::from_utf8(flags).ok()?.parse().ok()
}
