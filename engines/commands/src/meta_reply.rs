//! Parts of meta replies.

use guira_contract::{Expiry, ItemState};
use guira_protocol::{MetaFlags, MetaKey, ReplyBuffer, encode_key, fits_in_text};
use guira_sync::clock::Seconds;

/// Writes ` k<key>`, in base64 followed by ` b` if the key is binary or cannot be sent as text.
pub(crate) fn key(buffer: &mut ReplyBuffer, asked: &MetaKey<'_>, state: ItemState) {
    buffer.put(b" k");
    let mut decoded = [0; 336];
    let key = asked.bytes(&mut decoded);
    // A key that was sent as text can be returned as text.
    if state.has(ItemState::BINARY_KEY) || (asked.is_binary() && !fits_in_text(key)) {
        buffer.put(encode_key(key, &mut [0; 336]));
        buffer.put(b" b");
    } else {
        buffer.put(key);
    }
}

pub(crate) fn key_state(key: &MetaKey<'_>) -> ItemState {
    if key.is_binary() { ItemState::BINARY_KEY } else { ItemState::NONE }
}

pub(crate) fn opaque(buffer: &mut ReplyBuffer, token: &[u8]) {
    buffer.put(b" ");
    buffer.put(token);
}

pub(crate) fn number(buffer: &mut ReplyBuffer, letter: u8, number: u64) {
    buffer.put(&[b' ', letter]);
    buffer.number(number);
}

/// Writes ` t` and the time to live.
pub(crate) fn time_left(buffer: &mut ReplyBuffer, expiry: Expiry, now: Seconds) {
    match expiry {
        Expiry::Never => buffer.put(b" t-1"),
        Expiry::At(at) => number(buffer, b't', u64::from(at.0.saturating_sub(now.0))),
    }
}

/// Writes a status without an item: the word, then the opaque token and the key if the flags ask for them.
pub(crate) fn status(buffer: &mut ReplyBuffer, word: &str, asked: &MetaKey<'_>, flags: &MetaFlags<'_>) {
    buffer.put(word.as_bytes());
    for (letter, token) in flags.in_order() {
        match letter {
            b'O' => opaque(buffer, token),
            b'k' => key(buffer, asked, key_state(asked)),
            _ => {}
        }
    }
    buffer.put(b"\r\n");
}
