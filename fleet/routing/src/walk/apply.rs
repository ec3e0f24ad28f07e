//! Requests as handles change them.

use crate::KEY_MAX;
use crate::outcome::Answer;
use crate::request::{Dialect, Request};
use crate::step::{Content, Rewrite, Text, WRITTEN_MAX};
use arrayvec::ArrayVec;

/// The rewritten parts of a request: its key, its routing prefix, a value that a handle has
/// written, and the flags of a meta command.
pub(crate) type RewriteBuffer = ArrayVec<u8, { KEY_MAX + KEY_MAX + WRITTEN_MAX }>;

/// The request with its changes. `None` if its key cannot be sent, or if it stores a value that the
/// answer lacks.
pub(crate) fn apply<'a>(
    scratch: &[u8],
    rewrite: &Rewrite,
    request: &Request<'a>,
    answer: &Answer<'a>,
    buffer: &'a mut RewriteBuffer,
) -> Option<Request<'a>> {
    let mut changed = *request;
    let text = |text: Text| &scratch[text.from as usize..text.to as usize];
    if let Some(key) = rewrite.key.map(text) {
        if key.is_empty() || key.len() > KEY_MAX {
            return None;
        }
        buffer.try_extend_from_slice(key).ok()?;
    }
    let key_end = buffer.len();
    if let Some(prefix) = rewrite.prefix {
        buffer.try_extend_from_slice(text(prefix)).ok()?;
    }
    let prefix_end = buffer.len();
    if let Content::Written { value, .. } = rewrite.content {
        buffer.try_extend_from_slice(text(value)).ok()?;
    }
    let written_end = buffer.len();
    if let Some(meta) = rewrite.meta {
        buffer.try_extend_from_slice(text(meta)).ok()?;
    }
    let buffer: &'a [u8] = buffer;
    if rewrite.key.is_some() {
        changed.key = &buffer[..key_end];
    }
    if rewrite.prefix.is_some() {
        changed.prefix = &buffer[key_end..prefix_end];
    }
    changed.op = rewrite.op.unwrap_or(changed.op);
    changed.exptime = rewrite.exptime.unwrap_or(changed.exptime);
    changed.number = rewrite.number.unwrap_or(changed.number);
    changed.hashed = rewrite.hashed.map_or(changed.hashed, |hashed| hashed as usize);
    let written = &buffer[prefix_end..written_end];
    let content = match rewrite.content {
        Content::OfRequest => None,
        Content::OfAnswer => Some(answer.item.map(|item| (item.value, item.flags))?),
        Content::Fixed { flags, value } => Some((value, flags)),
        Content::Written { flags, .. } => Some((written, flags)),
        Content::Part { from, to } => Some((request.value.get(from as usize..to as usize)?, 0)),
    };
    if let Some((value, flags)) = content {
        (changed.value, changed.flags) = (value, flags);
        (changed.dialect, changed.meta) = (Dialect::Classic, b"");
    }
    if rewrite.meta.is_some() {
        (changed.dialect, changed.meta) = (Dialect::Meta, &buffer[written_end..]);
    }
    Some(changed)
}
