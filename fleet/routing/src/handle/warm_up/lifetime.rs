//! How long items live that are copied.

use crate::exptime::exptime_of;
use crate::outcome::{Answer, Outcome};
use crate::request::Op;
use crate::step::{Content, Cx, Rewrite};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// A number of seconds; 0 is forever.
    Fixed(i32),
    /// The remaining lifetime of the item.
    Left,
}

impl Lifetime {
    /// The request to the warm cluster.
    pub(super) fn request(self, cx: &mut Cx<'_>) -> Rewrite {
        let (op, number) = (Some(Op::Get), Some(0));
        match self {
            Lifetime::Fixed(_) => {
                let content = Content::Fixed { flags: 0, value: b"" };
                Rewrite { op, number, content, ..Rewrite::NONE }
            }
            Lifetime::Left => Rewrite { op, number, meta: Some(cx.text(&[b"f t v"])), ..Rewrite::NONE },
        }
    }

    /// Whether the warm cluster does not support the request.
    pub(super) fn is_not_known(self, answer: &Answer<'_>) -> bool {
        let is_unknown = answer.outcome == Outcome::ClientError || answer.line == b"ERROR";
        self == Lifetime::Left && is_unknown
    }

    /// The expiration time of a copy, if the warm cluster's item can be copied.
    pub(super) fn of_copy(self, answer: &Answer<'_>, now_s: u64) -> Option<i32> {
        if answer.outcome != Outcome::Found || answer.item.is_none() {
            return None;
        }
        if let Lifetime::Fixed(exptime) = self {
            return Some(exptime);
        }
        // VA, a length, and flags. An item that a client is to renew or fill cannot be copied.
        let flags = || answer.line.split(|byte| *byte == b' ').skip(2);
        if flags().any(|flag| matches!(flag, b"W" | b"X" | b"Z")) {
            return None;
        }
        let left = flags().find_map(|flag| flag.strip_prefix(b"t"))?;
        exptime(std::str::from_utf8(left).ok()?, now_s)
    }
}

/// The expiration time in a store for this remaining time.
fn exptime(left: &str, now_s: u64) -> Option<i32> {
    if left == "-1" {
        return Some(0);
    }
    Some(exptime_of(left.parse().ok()?, now_s))
}

/// Stores the item of the present answer.
pub(super) fn fill(op: Op, token: u64, exptime: i32) -> Rewrite {
    let (op, exptime, number) = (Some(op), Some(exptime), Some(token));
    Rewrite { op, exptime, number, content: Content::OfAnswer, ..Rewrite::NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Item;

    const NOW_S: u64 = 1_800_000_000;

    fn copied(line: &str) -> Option<i32> {
        let item = Some(Item { flags: 7, value: b"v" });
        let answer = Answer { item, line: line.as_bytes(), ..Answer::of(Outcome::Found) };
        Lifetime::Left.of_copy(&answer, NOW_S)
    }

    #[test]
    fn a_copy_lives_as_long_as_the_item() {
        for (line, exptime) in [
            ("VA 1 f7 t-1", Some(0)),
            ("VA 1 f7 t60", Some(60)),
            // Less than a second is not for ever.
            ("VA 1 f7 t0", Some(1)),
            ("VA 1 f7 t2592000", Some(2_592_000)),
            // More than thirty days would be taken for a date in 1970.
            ("VA 1 f7 t2592001", Some(1_802_592_001)),
            ("VA 1 f7 t4000000000", Some(i32::MAX)),
            ("VA 1 f7", None),
            ("VA 1 f7 t", None),
            ("VA 1 f7 t60 W", None),
            ("VA 1 f7 t60 X Z", None),
            ("", None),
        ] {
            assert_eq!(copied(line), exptime, "{line}");
        }
        let miss = Answer { line: b"EN", ..Answer::of(Outcome::NotFound) };
        assert_eq!((Lifetime::Left.of_copy(&miss, NOW_S), Lifetime::Fixed(5).of_copy(&miss, 0)), (None, None));
    }
}
