//! Deletes that a server has not received or not executed.

use crate::spool::Delete;
use guira_protocol::{Command, Cut, Meta, cut, parse};
use guira_routing::{LogName, Request};
use guira_upstream::wire;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    pub(crate) log: LogName,
    pub(crate) delete: Delete,
    /// The reply of a server to a meta delete of a missing key; empty for a classic delete.
    pub(crate) reply: Box<[u8]>,
}

impl Undelivered {
    /// Reads the delete at the front of the bytes for a server.
    pub(crate) fn read(request: &[u8], log: LogName) -> Option<Self> {
        let Cut::Line(line) = cut(request) else { return None };
        let command = parse(line).ok()?;
        let delete = Delete::of_command(&command)?;
        let reply = match &command {
            Command::Meta(Meta::Delete(delete)) => {
                let text = line.text.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
                let mut reply = b"NF".to_vec();
                for (letter, flag) in delete.flags.in_order() {
                    match letter {
                        b'O' | b'b' => reply.extend_from_slice(&[b" ", flag].concat()),
                        b'k' => reply.extend_from_slice(&[b" k", text].concat()),
                        _ => {}
                    }
                }
                reply
            }
            _ => Vec::new(),
        };
        Some(Undelivered { log, delete, reply: reply.into() })
    }

    /// The delete of a request that was not sent.
    pub(crate) fn of(request: &Request<'_>, log: LogName) -> Option<Self> {
        let mut text = Vec::new();
        wire::write(request, &mut text);
        Self::read(&text, log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::HoldOff;
    use crate::spool::named::log_of_a_pool;
    use guira_routing::{Dialect, Op};

    fn log() -> LogName {
        log_of_a_pool().1
    }

    #[test]
    fn a_delete_is_read_at_the_front_of_the_bytes_for_a_server() {
        for (request, key, hold_off, reply) in [
            (&b"delete key\r\nget other\r\n"[..], &b"key"[..], HoldOff::None, ""),
            (b"delete key 30\r\n", b"key", HoldOff::Classic(30), ""),
            (b"md key\r\nmd other k\r\n", b"key", HoldOff::None, "NF"),
            (b"md key H5 Oabc\r\n", b"key", HoldOff::Meta(5), "NF Oabc"),
            (b"md key Oabc C7 k x\r\n", b"key", HoldOff::None, "NF Oabc kkey"),
            (b"md YSBi k b O1\r\n", b"a b", HoldOff::None, "NF kYSBi b O1"),
        ] {
            let found = Undelivered::read(request, log()).expect("a delete");
            assert_eq!(found.delete, Delete { key: key.into(), hold_off });
            assert_eq!(std::str::from_utf8(&found.reply), Ok(reply));
        }
        for request in [&b"get key\r\n"[..], b"delete key", b"version\r\n", b""] {
            assert_eq!(Undelivered::read(request, log()), None, "{}", request.escape_ascii());
        }
    }

    #[test]
    fn a_delete_that_was_not_sent_is_the_same_as_one_that_was() {
        let log = log();
        let classic = Request::classic(Op::Delete, b"key");
        assert_eq!(
            Undelivered::of(&Request { number: 9, ..classic }, log),
            Undelivered::read(b"delete key 9\r\n", log)
        );
        let meta = Request { dialect: Dialect::Meta, meta: b"b k", ..Request::classic(Op::Delete, b"a b") };
        assert_eq!(Undelivered::of(&meta, log), Undelivered::read(b"md YSBi b k\r\n", log));
        assert_eq!(Undelivered::of(&Request::classic(Op::Get, b"key"), log), None);
    }
}
