//! Clients that have to say who they are: by a fake `set` in the text protocol, by SASL PLAIN in the binary one.

use crate::interpreter::{Interpreter, Phase, ProtocolState};
use guira_contract::Session;
use guira_protocol::Replies;
use guira_protocol::binary::{HEADER_BYTES, Packet, REQUEST_MAGIC, Status, reply_status, reply_text};
use guira_serving::{Access, Outbox, TrafficCount};

/// A line of a stranger may be so long.
const LINE_MAX: usize = 2048;
/// A shorter line is no request.
const LINE_MIN: usize = 6;
/// User and password together may be so long.
const SECRET_MAX: usize = 16 << 10;

/// The opcodes of SASL, and of the only other command that strangers may use.
const SASL_LIST: u8 = 0x20;
const SASL_AUTH: u8 = 0x21;
const SASL_STEP: u8 = 0x22;
const VERSION: u8 = 0x0b;

/// The only mechanism there is.
const MECHANISM: &str = "PLAIN";
/// A mechanism's name is no longer.
const MECHANISM_MAX: usize = 32;

/// Whether a packet is about logging in.
pub(crate) fn is_sasl(packet: Packet) -> bool {
    (SASL_LIST..=SASL_STEP).contains(&packet.opcode)
}

impl<S: Session> Interpreter<S> {
    /// Takes a request of a stranger in the text protocol: it must be `set <anything> <number> <number> <length>` with the
    /// data block `user password`. Returns how many bytes were taken.
    pub(crate) fn text_login(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        let Some(end) = memchr::memchr(b'\n', input) else {
            if input.len() > LINE_MAX {
                state.phase = Phase::Over;
            }
            return 0;
        };
        if end < LINE_MIN {
            state.phase = Phase::Over;
            return 0;
        }
        let line = end + 1;
        let Some(length) = secret_len(&input[..end]) else {
            outbox.buffer().line("CLIENT_ERROR unauthenticated");
            return line;
        };
        if length > SECRET_MAX {
            outbox.buffer().line("CLIENT_ERROR auth token too long");
            return line;
        }
        let Some(block) = input.get(line..line + length + 2) else {
            return 0;
        };
        outbox.buffer().line(self.text_answer(state, block));
        line + block.len()
    }

    fn text_answer(&mut self, state: &mut ProtocolState<S>, block: &[u8]) -> &'static str {
        let Some(secret) = block.strip_suffix(b"\r\n") else {
            return "CLIENT_ERROR bad command line termination";
        };
        let Some(blank) = memchr::memchr(b' ', secret) else {
            return "CLIENT_ERROR bad authentication token format";
        };
        if self.lets_in(state, &secret[..blank], &secret[blank + 1..]) {
            "STORED"
        } else {
            "CLIENT_ERROR authentication failure"
        }
    }

    fn lets_in(&mut self, state: &mut ProtocolState<S>, name: &[u8], password: &[u8]) -> bool {
        self.traffic.add(TrafficCount::AuthCommands, 1);
        let known = self.shared.users.as_ref().is_none_or(|users| users.knows(name, password));
        if known {
            state.access = Access::Free;
        } else {
            self.traffic.add(TrafficCount::AuthErrors, 1);
        }
        known
    }

    /// Takes a packet of a stranger, or one that is about logging in. Returns how many bytes were taken.
    pub(crate) fn packet_login(
        &mut self,
        state: &mut ProtocolState<S>,
        input: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        if input.first().is_some_and(|magic| *magic != REQUEST_MAGIC) {
            state.phase = Phase::Over;
            return 0;
        }
        let Some(packet) = Packet::read(input) else {
            return 0;
        };
        if !is_sasl(packet) && packet.opcode != VERSION {
            reply_status(packet, Status::AuthError, 0, outbox);
            state.phase = Phase::Over;
            return HEADER_BYTES;
        }
        let body_len = packet.body_len() as usize;
        let key_len = packet.head_len().min(body_len);
        if key_len > MECHANISM_MAX || body_len > SECRET_MAX {
            reply_status(packet, Status::InvalidArguments, 0, outbox);
            state.phase = Phase::Swallow(u64::from(packet.body_len()));
            return HEADER_BYTES;
        }
        let Some(body) = input.get(HEADER_BYTES..HEADER_BYTES + body_len) else {
            return 0;
        };
        let (mechanism, data) = body.split_at(key_len);
        match packet.opcode {
            VERSION => reply_text(packet, crate::VERSION, outbox),
            SASL_LIST => reply_text(packet, MECHANISM, outbox),
            opcode => self.sasl(state, (packet, opcode), mechanism, data, outbox),
        }
        HEADER_BYTES + body_len
    }

    fn sasl(
        &mut self,
        state: &mut ProtocolState<S>,
        (packet, opcode): (Packet, u8),
        mechanism: &[u8],
        data: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) {
        // As in memcached: whoever begins to log in again is nobody until that has come to a good end.
        state.access = Access::Login;
        let known = mechanism.eq_ignore_ascii_case(MECHANISM.as_bytes());
        if opcode == SASL_AUTH && known && data.is_empty() {
            // The client waits to be asked (RFC 4422, section 3.3): its answer comes in a step.
            state.asked = true;
            return reply_status(packet, Status::AuthContinue, 0, outbox);
        }
        let expected = known && (opcode == SASL_AUTH || state.asked);
        state.asked = false;
        let welcome = match plain(data) {
            Some((name, password)) if expected => self.lets_in(state, name, password),
            _ => {
                self.traffic.add(TrafficCount::AuthCommands, 1);
                self.traffic.add(TrafficCount::AuthErrors, 1);
                false
            }
        };
        if welcome {
            reply_text(packet, "Authenticated", outbox);
        } else {
            reply_status(packet, Status::AuthError, 0, outbox);
        }
    }
}

/// The length in a fake set.
fn secret_len(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    if words.next()? != b"set" {
        return None;
    }
    let length = std::str::from_utf8(words.nth(3)?).ok()?;
    length.parse::<u32>().ok().map(|length| length as usize)
}

/// User and password in a message of the mechanism PLAIN (RFC 4616): `[authorize as] NUL user NUL password`. Nobody may be
/// authorized as somebody else.
fn plain(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = message.splitn(3, |byte| *byte == 0);
    let (other, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    (other.is_empty() || other == name).then_some((name, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_message_has_a_user_and_a_password() {
        assert_eq!(plain(b"\0foo\0bar"), Some((&b"foo"[..], &b"bar"[..])));
        assert_eq!(plain(b"foo\0foo\0b\0r"), Some((&b"foo"[..], &b"b\0r"[..])));
        assert_eq!(plain(b"root\0foo\0bar"), None);
        assert_eq!(plain(b"foo\0bar"), None);
        assert_eq!(plain(b""), None);
    }

    #[test]
    fn a_login_line_is_a_set() {
        assert_eq!(secret_len(b"set x 0 0 7\r"), Some(7));
        assert_eq!(secret_len(b"set x 0 0 7"), Some(7));
        assert_eq!(secret_len(b"set x y z 7 noreply"), Some(7));
        for line in ["get x 0 0 7", "set x 0 0", "set x 0 0 -1", "set x 0 0 x", "", "settle x 0 0 7"] {
            assert_eq!(secret_len(line.as_bytes()), None, "{line}");
        }
    }
}
