//! The flags of meta commands whose value may be split.

use super::BIG;
use crate::request::{Dialect, Request};
use crate::step::{Cx, Shown, Text};

/// Requests with more bytes of flags than this pass unchanged.
const FLAGS_MAX: usize = 240;

fn has(request: &Request<'_>, letter: u8) -> bool {
    request.meta.split(|byte| *byte == b' ').any(|flag| flag.first() == Some(&letter))
}

/// Whether a request passes unchanged: a get that wants no value, or a store whose pieces could not
/// have text keys.
pub(super) fn passes(request: &Request<'_>, needed: u8, excluded: u8) -> bool {
    request.dialect == Dialect::Meta
        && (request.meta.len() > FLAGS_MAX || !(needed == 0 || has(request, needed)) || has(request, excluded))
}

/// The flags of a get with `f` added if the client does not request it, since the handle needs the
/// item's flags.
pub(super) fn with_flags(cx: &mut Cx<'_>, request: &Request<'_>) -> Option<Text> {
    (shown(request) == Shown::No).then(|| cx.text(&[request.meta, b" f"]))
}

/// Whether the reply shows the item's flags to the client.
pub(super) fn shown(request: &Request<'_>) -> Shown {
    if request.dialect == Dialect::Meta && !has(request, b'f') { Shown::No } else { Shown::AsReceived }
}

/// The flags of a store whose item names its pieces.
pub(super) fn of_store(cx: &mut Cx<'_>, request: &Request<'_>) -> Option<Text> {
    if request.dialect == Dialect::Classic {
        return None;
    }
    let mut flags = 0;
    let mut others = Vec::with_capacity(FLAGS_MAX);
    for token in request.meta.split(|byte| *byte == b' ').filter(|token| !token.is_empty()) {
        match token.strip_prefix(b"F") {
            Some(number) => {
                flags = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            None => others.extend([token, b" "].concat()),
        }
    }
    Some(cx.text(&[&others, format!("F{}", flags | BIG).as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    fn meta(flags: &str) -> Request<'_> {
        Request { dialect: Dialect::Meta, meta: flags.as_bytes(), ..Request::classic(Op::Get, b"k") }
    }

    #[test]
    fn what_has_no_value_or_a_binary_key_passes() {
        assert!(passes(&meta("f c"), b'v', b'b') && passes(&meta("v b"), b'v', b'b'));
        assert!(!passes(&meta("v f"), b'v', b'b') && !passes(&meta(""), 0, b'b'));
        assert!(passes(&meta(&format!("v O{}", "x".repeat(FLAGS_MAX))), b'v', b'b'));
        assert!(!passes(&Request::classic(Op::Get, b"k"), b'v', b'b'));
        assert_eq!((shown(&meta("v f")), shown(&meta("v c"))), (Shown::AsReceived, Shown::No));
    }
}
