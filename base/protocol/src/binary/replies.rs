//! Replies without an item.

use super::{HEADER_BYTES, Packet, Response, Status};
use crate::Replies;

/// Writes a reply without an item: nothing but the header if it went well, else a text as well.
pub fn reply_status<R: Replies>(packet: Packet, status: Status, cas: u64, replies: &mut R) {
    reply_body(packet, status, cas, status.text().as_bytes(), replies);
}

/// Writes a reply with a body that is neither key nor extras.
pub fn reply_body<R: Replies>(packet: Packet, status: Status, cas: u64, body: &[u8], replies: &mut R) {
    let value_len = body.len() as u32;
    let response = Response { cas, value_len, ..Response::plain(packet, status) };
    replies.buffer().writer(HEADER_BYTES + body.len());
    replies.buffer().put(&response.header());
    replies.buffer().put(body);
}

/// Writes one pair of a stat's reply; two empty ones are its end.
pub fn reply_stat<R: Replies>(packet: Packet, name: &[u8], value: &[u8], replies: &mut R) {
    let (key_len, value_len) = (name.len() as u8, value.len() as u32);
    let response = Response { key_len, value_len, ..Response::plain(packet, Status::Success) };
    replies.buffer().put(&response.header());
    replies.buffer().put(name);
    replies.buffer().put(value);
}

/// The longest name of a statistic in a packet, whose length is a byte.
const STAT_NAME_MAX: usize = u8::MAX as usize;

/// Writes the reply to a stat command of the text protocol, each line as a packet.
pub fn reply_stat_lines<R: Replies>(packet: Packet, lines: &[u8], replies: &mut R) {
    for line in lines.split(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r").unwrap_or(line) {
            b"" => {}
            b"END" | b"RESET" | b"OK" => reply_stat(packet, b"", b"", replies),
            line => match line.strip_prefix(b"STAT ") {
                Some(pair) => {
                    let blank = pair.iter().position(|byte| *byte == b' ').unwrap_or(pair.len());
                    let value = pair.get(blank + 1..).unwrap_or_default();
                    reply_stat(packet, &pair[..blank.min(STAT_NAME_MAX)], value, replies);
                }
                None => reply_status(packet, Status::KeyNotFound, 0, replies),
            },
        }
    }
}

/// Writes a body after the header of a success.
pub fn reply_text<R: Replies>(packet: Packet, text: &str, replies: &mut R) {
    reply_body(packet, Status::Success, 0, text.as_bytes(), replies);
}
