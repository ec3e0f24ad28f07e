//! Requests as handles change them.

use crate::KEY_MAX;
use crate::outcome::Answer;
use crate::request::{Dialect, Request};
use crate::step::{Content, Rewrite};
use arrayvec::ArrayVec;

/// A key that was rewritten, and the routing prefix if that was as well.
pub(crate) type KeyBuffer = ArrayVec<u8, { KEY_MAX + KEY_MAX }>;

/// The request with its changes. `None` if its key cannot be sent, or if it stores what an answer does not have.
pub(crate) fn apply<'a>(
    scratch: &[u8],
    rewrite: &Rewrite,
    request: &Request<'a>,
    answer: &Answer<'a>,
    key: &'a mut KeyBuffer,
) -> Option<Request<'a>> {
    let mut changed = *request;
    if let Some(text) = rewrite.key {
        let text = &scratch[text.from as usize..text.to as usize];
        if text.is_empty() || text.len() > KEY_MAX {
            return None;
        }
        key.try_extend_from_slice(text).ok()?;
    }
    let key_length = key.len();
    if let Some(text) = rewrite.prefix {
        key.try_extend_from_slice(&scratch[text.from as usize..text.to as usize]).ok()?;
    }
    let (key, prefix) = key.split_at(key_length);
    if rewrite.key.is_some() {
        changed.key = key;
    }
    if rewrite.prefix.is_some() {
        changed.prefix = prefix;
    }
    changed.op = rewrite.op.unwrap_or(changed.op);
    changed.exptime = rewrite.exptime.unwrap_or(changed.exptime);
    changed.number = rewrite.number.unwrap_or(changed.number);
    changed.hashed = rewrite.hashed.map_or(changed.hashed, |hashed| hashed as usize);
    (changed.value, changed.flags) = match rewrite.content {
        Content::OfRequest => return Some(changed),
        Content::OfAnswer => answer.item.map(|item| (item.value, item.flags))?,
        Content::Fixed { flags, value } => (value, flags),
    };
    (changed.dialect, changed.meta) = (Dialect::Classic, b"");
    Some(changed)
}
