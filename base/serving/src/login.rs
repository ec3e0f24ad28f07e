//! Clients that have to log in: by a fake `set` in the text protocol, by SASL PLAIN in the binary one.

use crate::{Access, Host, TrafficCount, TrafficCounters};
use guira_protocol::Replies;
use guira_protocol::binary::{HEADER_BYTES, Packet, REQUEST_MAGIC, Status, reply_status, reply_text};

/// The longest line of a client that has not logged in.
const LINE_MAX: usize = 2048;
/// A shorter line is no request.
const LINE_MIN: usize = 6;
/// The most bytes of user and password together.
const SECRET_MAX: usize = 16 << 10;

/// The opcodes of SASL, and of the only other command that needs no login.
const SASL_LIST: u8 = 0x20;
const SASL_AUTH: u8 = 0x21;
const SASL_STEP: u8 = 0x22;
const VERSION: u8 = 0x0b;

const MECHANISM: &str = "PLAIN";
/// A mechanism's name is no longer.
const MECHANISM_MAX: usize = 32;

/// Whether a packet is about logging in.
pub fn is_sasl(packet: Packet) -> bool {
    (SASL_LIST..=SASL_STEP).contains(&packet.opcode)
}

/// The progress of a client's login.
#[derive(Clone, Copy, Debug)]
pub struct Login {
    access: Access,
    /// Whether a login over several packets has begun, so that the client's answer to the challenge follows.
    has_challenge: bool,
}

/// What comes after the input of a client that logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterLogin {
    /// A request, or what is missing of it.
    Request,
    /// This many bytes that are to be skipped, then a request.
    Skip(u64),
    /// Nothing: the connection is closed.
    Over,
}

/// What a worker checks logins with.
#[derive(Clone, Copy, Debug)]
pub struct Door<'w> {
    pub host: &'w Host,
    pub traffic: &'w TrafficCounters,
}

impl Door<'_> {
    fn lets_in(self, name: &[u8], password: &[u8]) -> bool {
        let is_known = self.host.users.as_ref().is_none_or(|users| users.knows(name, password));
        self.count(is_known);
        is_known
    }

    fn count(self, is_known: bool) {
        self.traffic.add(TrafficCount::AuthCommands, 1);
        if !is_known {
            self.traffic.add(TrafficCount::AuthErrors, 1);
        }
    }
}

impl Login {
    pub fn new(access: Access) -> Self {
        Login { access, has_challenge: false }
    }

    /// Whether a login over several packets has begun; a server that takes over the connection continues it.
    pub fn has_challenge(self) -> bool {
        self.has_challenge
    }

    /// Continues a login over several packets that has begun at another server.
    pub fn resume_login(&mut self) {
        self.has_challenge = true;
    }

    #[inline(always)]
    pub fn access(self) -> Access {
        self.access
    }

    /// Takes a request in the text protocol of a client that has not logged in: it must be `set <anything> <number> <number> <length>`
    /// with the data block `user password`. Returns how many bytes were taken.
    pub fn text<R: Replies>(&mut self, door: Door<'_>, input: &[u8], replies: &mut R) -> (usize, AfterLogin) {
        let Some(end) = memchr::memchr(b'\n', input) else {
            return (0, if input.len() > LINE_MAX { AfterLogin::Over } else { AfterLogin::Request });
        };
        if end < LINE_MIN {
            return (0, AfterLogin::Over);
        }
        let line = end + 1;
        let (taken, reply) = match secret_len(&input[..end]) {
            None => (line, "CLIENT_ERROR unauthenticated"),
            Some(length) if length > SECRET_MAX => (line, "CLIENT_ERROR auth token too long"),
            Some(length) => match input.get(line..line + length + 2) {
                None => return (0, AfterLogin::Request),
                Some(block) => (line + block.len(), self.text_answer(door, block)),
            },
        };
        replies.buffer().line(reply);
        (taken, AfterLogin::Request)
    }

    fn text_answer(&mut self, door: Door<'_>, block: &[u8]) -> &'static str {
        let Some(secret) = block.strip_suffix(b"\r\n") else {
            return "CLIENT_ERROR bad command line termination";
        };
        let Some(blank) = memchr::memchr(b' ', secret) else {
            return "CLIENT_ERROR bad authentication token format";
        };
        if !door.lets_in(&secret[..blank], &secret[blank + 1..]) {
            return "CLIENT_ERROR authentication failure";
        }
        self.access = Access::Free;
        "STORED"
    }

    /// Takes a packet of a client that has not logged in, or one that is about logging in. Returns how many bytes were taken. `version`
    /// is the server's, which every client may ask for.
    pub fn packet<R: Replies>(
        &mut self,
        door: Door<'_>,
        version: &str,
        input: &[u8],
        replies: &mut R,
    ) -> (usize, AfterLogin) {
        if input.first().is_some_and(|magic| *magic != REQUEST_MAGIC) {
            return (0, AfterLogin::Over);
        }
        let Some(packet) = Packet::read(input) else {
            return (0, AfterLogin::Request);
        };
        if !is_sasl(packet) && packet.opcode != VERSION {
            reply_status(packet, Status::AuthError, 0, replies);
            return (HEADER_BYTES, AfterLogin::Over);
        }
        let body_len = packet.body_len() as usize;
        let key_len = packet.head_len().min(body_len);
        if key_len > MECHANISM_MAX || body_len > SECRET_MAX {
            reply_status(packet, Status::InvalidArguments, 0, replies);
            return (HEADER_BYTES, AfterLogin::Skip(u64::from(packet.body_len())));
        }
        let Some(body) = input.get(HEADER_BYTES..HEADER_BYTES + body_len) else {
            return (0, AfterLogin::Request);
        };
        let (mechanism, data) = body.split_at(key_len);
        match packet.opcode {
            VERSION => reply_text(packet, version, replies),
            SASL_LIST => reply_text(packet, MECHANISM, replies),
            _ => self.sasl(door, packet, mechanism, data, replies),
        }
        (HEADER_BYTES + body_len, AfterLogin::Request)
    }

    fn sasl<R: Replies>(
        &mut self,
        door: Door<'_>,
        packet: Packet,
        mechanism: &[u8],
        data: &[u8],
        replies: &mut R,
    ) {
        // As in memcached: a client that begins to log in again has no access until that has succeeded.
        self.access = Access::Login;
        let is_first = packet.opcode == SASL_AUTH;
        let is_plain = mechanism.eq_ignore_ascii_case(MECHANISM.as_bytes());
        if is_first && is_plain && data.is_empty() {
            // The client waits for an empty challenge (RFC 4422, section 3.3), and sends its answer in the next step.
            self.has_challenge = true;
            return reply_status(packet, Status::AuthContinue, 0, replies);
        }
        let is_expected = is_plain && (is_first || self.has_challenge);
        self.has_challenge = false;
        let is_welcome = match plain(data) {
            Some((name, password)) if is_expected => door.lets_in(name, password),
            _ => {
                door.count(false);
                false
            }
        };
        if is_welcome {
            self.access = Access::Free;
            reply_text(packet, "Authenticated", replies);
        } else {
            reply_status(packet, Status::AuthError, 0, replies);
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

/// User and password in a message of the mechanism PLAIN (RFC 4616): `[authorize as] NUL user NUL password`. A user may
/// not be authorized as another.
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
