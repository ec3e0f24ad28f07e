//! Finding the ends of requests, text or binary, and the reply to each.

use guira_serving::{Access, Conversation, Speaks};
use memchr::memchr;

use super::reply::{Runs, Template};
use guira_protocol::binary::{HEADER_BYTES, REQUEST_MAGIC, opcode};
use guira_protocol::word::verb::spaced;

/// Finds the requests in a stream of bytes.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Bytes of a set's body, or of a packet's, that are still to be skipped.
    skip: usize,
}

impl Conversation for Parser {
    fn speaks(&self) -> Speaks {
        Speaks::Any
    }

    fn access(&self) -> Access {
        Access::Free
    }

    fn has_partial_request(&self) -> bool {
        self.skip > 0
    }
}

impl Parser {
    /// Adds a reply to every complete request in `input`; returns how many bytes were used.
    pub(super) fn read(&mut self, input: &[u8], runs: &mut Runs) -> usize {
        let mut at = 0;
        while at < input.len() {
            if self.skip > 0 {
                let step = self.skip.min(input.len() - at);
                self.skip -= step;
                at += step;
                continue;
            }
            if input[at] == REQUEST_MAGIC {
                let Some(header) = input[at..].first_chunk::<HEADER_BYTES>() else { break };
                self.answer_packet(header, runs);
                at += HEADER_BYTES;
                continue;
            }
            let Some(end) = memchr(b'\n', &input[at..]) else { break };
            self.answer(&input[at..at + end], runs);
            at += end + 1;
        }
        at
    }

    fn answer_packet(&mut self, header: &[u8; HEADER_BYTES], runs: &mut Runs) {
        let [_, command, _, _, _, _, _, _, b3, b2, b1, b0, ..] = *header;
        self.skip = u32::from_be_bytes([b3, b2, b1, b0]) as usize;
        let template = match command {
            opcode::GET => Template::HitPacket,
            opcode::GETKQ => Template::KeyedHitPacket,
            opcode::NOOP => Template::NoopPacket,
            opcode::SET => Template::SetPacket,
            opcode::DELETE => Template::DeletePacket,
            _ => Template::ErrorPacket,
        };
        runs.push(template, 1);
    }

    fn answer(&mut self, line: &[u8], runs: &mut Runs) {
        match line.first() {
            Some(b'g') => {
                let keys = line.iter().filter(|&&byte| byte == b' ').count();
                if keys == 1 {
                    runs.push(Template::Hit, 1);
                } else {
                    runs.push(Template::Value, keys);
                    runs.push(Template::End, 1);
                }
            }
            Some(b's') if line.starts_with(spaced::SET) => {
                self.skip = body_len(line) + 2;
                runs.push(Template::Stored, 1);
            }
            Some(b's') => runs.push(Template::End, 1),
            Some(b'd') => runs.push(Template::Deleted, 1),
            _ => runs.push(Template::Error, 1),
        }
    }
}

/// The answer to a datagram, which has one key.
pub(super) fn datagram_template(text: &[u8]) -> Template {
    match text.first() {
        Some(b'g') => Template::Hit,
        Some(b's') if text.starts_with(spaced::SET) => Template::Stored,
        Some(b'd') => Template::Deleted,
        _ => Template::Error,
    }
}

/// The last number of a set line: the length of its body.
pub(super) fn body_len(line: &[u8]) -> usize {
    let mut len = 0_usize;
    let mut unit = 1_usize;
    for &byte in line.iter().rev().skip_while(|&&byte| byte == b'\r').take_while(|byte| byte.is_ascii_digit())
    {
        len = len.saturating_add(usize::from(byte - b'0').saturating_mul(unit));
        unit = unit.saturating_mul(10);
    }
    len
}
