//! How a handle changes the expiration times of a request: the time of a store, a touch or a gat, and the flags T and N of a meta command.

use crate::request::{Dialect, Group, Op, Request};
use crate::step::{Rewrite, Text};

/// A larger number is a UNIX time, and not how long from now: 30 days.
pub(crate) const RELATIVE_MAX: i32 = 60 * 60 * 24 * 30;

/// The expiration time of a store for an item that is to live for `seconds` more. `now_s` is the UNIX time.
pub fn exptime_of(seconds: u64, now_s: u64) -> i32 {
    // Less than a second is not for ever, and a larger number than 30 days would be a UNIX time.
    let exptime = if seconds > RELATIVE_MAX as u64 { now_s.saturating_add(seconds) } else { seconds.max(1) };
    i32::try_from(exptime).unwrap_or(i32::MAX)
}

/// The expiration time that replaces each one in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewTime {
    /// This time; 0 never expires.
    Set(i32),
    /// This time, if it is sooner.
    AtMost { seconds: i32, now_s: u64 },
    /// This time, if it is sooner, for an item that the request creates. An existing item keeps its
    /// own time, unless it is to expire at once: otherwise reads with a new time could keep an old
    /// value forever.
    AtMostFromStore { seconds: i32, now_s: u64 },
}

impl NewTime {
    fn of(self, given: i32) -> i32 {
        match self {
            NewTime::Set(seconds) => seconds,
            // A negative time has expired, which is sooner than any other.
            _ if given < 0 => given,
            NewTime::AtMost { seconds, now_s } | NewTime::AtMostFromStore { seconds, now_s } => {
                if seconds_left(given, now_s) > seconds_left(seconds, now_s) {
                    seconds
                } else {
                    given
                }
            }
        }
    }

    /// Whether an existing item also gets the new time.
    fn renews(self, given: i32) -> bool {
        match self {
            // 0 is no bound.
            NewTime::AtMostFromStore { seconds: 0, .. } => true,
            NewTime::AtMostFromStore { now_s, .. } => has_expired(given, now_s),
            NewTime::Set(_) | NewTime::AtMost { .. } => true,
        }
    }

    /// Whether a request carries a time that may change.
    pub(crate) fn concerns(self, request: &Request<'_>) -> bool {
        has_time(request) && self.of(request.exptime) != request.exptime
            || self.turns_into_read(request)
            || request.dialect == Dialect::Meta && flags(request).any(|flag| time(flag).is_some())
    }

    /// Whether a request that reads an item with a new time becomes one that only reads.
    pub(crate) fn turns_into_read(self, request: &Request<'_>) -> bool {
        matches!(request.op, Op::Gat | Op::Gats | Op::Touch) && !self.renews(request.exptime)
    }

    /// The change of a request that [`NewTime::concerns`]. `flags` takes the flags of a meta command.
    pub(crate) fn rewrite(self, request: &Request<'_>, text: impl FnOnce(&[u8]) -> Text) -> Rewrite {
        let mut rewrite = Rewrite::NONE;
        if self.turns_into_read(request) {
            rewrite.op = Some(if request.op == Op::Gats { Op::Gets } else { Op::Get });
            rewrite.exptime = Some(0);
        } else if has_time(request) {
            rewrite.exptime = Some(self.of(request.exptime));
        }
        match (request.dialect, request.op) {
            (Dialect::Meta, _) => rewrite.meta = Some(text(&self.flags(request))),
            // A classic get would bring the value.
            (Dialect::Classic, Op::Touch) if rewrite.op.is_some() => rewrite.meta = Some(text(b"")),
            (Dialect::Classic, _) => {}
        }
        rewrite
    }

    /// The flags of a meta command with their new times.
    fn flags(self, request: &Request<'_>) -> Vec<u8> {
        // T of a store is the time of a new item; T of other commands is the new time of an
        // existing item.
        let makes = request.op.group() == Group::Update;
        let mut changed = Vec::with_capacity(request.meta.len());
        for flag in flags(request) {
            let time = time(flag);
            if time.is_some_and(|time| flag[0] == b'T' && !makes && !self.renews(time)) {
                continue;
            }
            if !changed.is_empty() {
                changed.push(b' ');
            }
            match time {
                Some(time) => {
                    changed.push(flag[0]);
                    changed.extend_from_slice(self.of(time).to_string().as_bytes());
                }
                None => changed.extend_from_slice(flag),
            }
        }
        changed
    }
}

/// Whether [`Request::exptime`] means something.
fn has_time(request: &Request<'_>) -> bool {
    match request.op {
        // Only the flag T of a meta command names a time.
        Op::Append | Op::Prepend => flags(request).any(|flag| flag[0] == b'T'),
        Op::Gat | Op::Gats | Op::Touch => true,
        op => op.group() == Group::Update,
    }
}

fn flags<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a [u8]> {
    request.meta.split(|byte| *byte == b' ').filter(|flag| !flag.is_empty())
}

/// Whether an item with this time expires at once.
pub(crate) fn has_expired(exptime: i32, now_s: u64) -> bool {
    exptime < 0 || seconds_left(exptime, now_s) <= 0
}

fn seconds_left(exptime: i32, now_s: u64) -> i64 {
    match exptime {
        0 => i64::MAX,
        1..=RELATIVE_MAX => i64::from(exptime),
        _ => i64::from(exptime) - now_s as i64,
    }
}

/// The expiration time in a flag, if it has one: T, or N of an item that is created on a miss. R is
/// no expiration time. A malformed time counts as never expiring, so that a limit applies to it.
fn time(flag: &[u8]) -> Option<i32> {
    let (b'T' | b'N', number) = flag.split_first()? else { return None };
    Some(std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i32 = 1_800_000_000;

    #[test]
    fn the_shorter_of_two_times_stays_however_it_is_written() {
        for (limit, given, becomes) in [
            (60, 0, 60),
            (60, 61, 60),
            (60, 59, 59),
            (60, -1, -1),
            (60, NOW + 59, NOW + 59),
            (60, NOW + 61, 60),
            (60, NOW - 1, NOW - 1),
            (0, 0, 0),
            (0, 5, 5),
        ] {
            let rule = NewTime::AtMost { seconds: limit, now_s: NOW as u64 };
            assert_eq!(rule.of(given), becomes, "{limit} {given}");
        }
    }

    #[test]
    fn an_item_that_is_there_is_given_no_time_but_one_that_is_over() {
        let rule = NewTime::AtMostFromStore { seconds: 60, now_s: NOW as u64 };
        let renewing = [-1, NOW - 1, NOW].map(|time| rule.renews(time));
        let others = [0, 1, 59, 61, NOW + 1].map(|time| rule.renews(time));
        assert_eq!((renewing, others), ([true; 3], [false; 5]));
    }
}
