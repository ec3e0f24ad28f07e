//! The beginning of a connection: whether it is encrypted, and who we are.

use super::message::Messages;
use super::query::refusal;
use super::scram::{Expected, MECHANISM, Scram};
use crate::bytes::Bytes;
use crate::wire::Wire;
use crate::{Login, Server, SourceError};
use guira_sync::stop::Stop;
use md5::{Digest, Md5};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, Read};
use std::time::Duration;

/// The number that requests TLS in place of a version, and the version of the protocol.
const TLS_REQUEST: u32 = 80_877_103;
const PROTOCOL: u32 = 3 << 16;

/// The timeout of each reply before the login.
const TIMEOUT: Duration = Duration::from_secs(5);
const NONCE: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Replication,
    Statements,
}

/// How values become text, whatever the database and the user have been given as defaults.
const SETTINGS: [(&str, &str); 7] = [
    ("application_name", "guira"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
];

pub fn connect(
    server: &Server,
    database: &str,
    purpose: Purpose,
    stop: &Stop,
) -> Result<Messages, SourceError> {
    let login = server.credentials.read()?;
    let mut wire = Wire::connect(&server.endpoint, TIMEOUT)?;
    if let Some((connector, name)) = server.security.tls() {
        let request = [&8_u32.to_be_bytes()[..], &TLS_REQUEST.to_be_bytes()].concat();
        wire.write(&request)?;
        let mut answer = [0];
        wire.read_exact(&mut answer)?;
        if answer != *b"S" {
            return Err(SourceError::Unsuitable(
                "the database does not support TLS: set ssl = on".to_owned(),
            ));
        }
        wire.start_tls(connector, name)?;
    }
    wire.write(&startup(&login.user, database, purpose))?;
    let mut messages = Messages::new(wire, stop)?;
    log_in(&mut messages, &login)?;
    Ok(messages)
}

fn startup(user: &str, database: &str, purpose: Purpose) -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    let mut add = |name: &str, value: &str| {
        for text in [name, value] {
            body.extend(text.bytes().chain([0]));
        }
    };
    add("user", user);
    add("database", database);
    if purpose == Purpose::Replication {
        add("replication", "database");
    }
    for (name, value) in SETTINGS {
        add(name, value);
    }
    body.push(0);
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}

/// How far a conversation by SCRAM has come.
enum Sasl {
    None,
    Begun(Scram),
    Answered(Expected),
    Shown,
}

/// Logs in with whichever method the database selects, until it is ready for a query.
fn log_in(messages: &mut Messages, login: &Login) -> Result<(), SourceError> {
    let Login { user, password } = login;
    let is_private = messages.wire().is_private();
    let wrong = || SourceError::Malformed("a message of the login");
    let mut sasl = Sasl::None;
    loop {
        let message = messages.read()?;
        match message.kind {
            b'R' => {}
            b'E' => return Err(refusal(message.body)),
            b'Z' => return Ok(()),
            // Settings, the key for cancelling, notices, and options that it does not know.
            b'S' | b'K' | b'N' | b'v' => continue,
            _ => return Err(wrong()),
        }
        let mut bytes = Bytes(message.body);
        let answer = match bytes.big(4).ok_or_else(wrong)? {
            // Logged in. With SASL, the server must have proved by now that it knows the password.
            0 if matches!(sasl, Sasl::None | Sasl::Shown) => continue,
            3 if is_private => [password, &[0][..]].concat(),
            3 => {
                let text = "the password would be sent unencrypted: set tls, or scram-sha-256 in pg_hba.conf of the database";
                return Err(SourceError::Unsuitable(text.to_owned()));
            }
            5 => md5_proof(user, password, bytes.take(4).ok_or_else(wrong)?),
            10 => {
                if !bytes.0.split(|byte| *byte == 0).any(|name| name == MECHANISM.as_bytes()) {
                    let names = bytes.0.escape_ascii();
                    return Err(SourceError::Unsuitable(format!(
                        "the database requires the unsupported login mechanism {names}: use {MECHANISM}"
                    )));
                }
                let scram = Scram::new("", &nonce()?);
                let first = scram.first();
                sasl = Sasl::Begun(scram);
                let length = (first.len() as u32).to_be_bytes();
                [MECHANISM.as_bytes(), &[0], &length, first.as_bytes()].concat()
            }
            11 => {
                let Sasl::Begun(scram) = &sasl else { return Err(wrong()) };
                let challenge = str::from_utf8(bytes.0).map_err(|_| wrong())?;
                let (second, expected) = scram.second(challenge, password).ok_or_else(wrong)?;
                sasl = Sasl::Answered(expected);
                second.into_bytes()
            }
            12 => {
                let shown = String::from_utf8_lossy(bytes.0);
                if !matches!(&sasl, Sasl::Answered(expected) if expected.is_shown_by(&shown)) {
                    let text =
                        "the server did not prove that it knows the password: it may not be the database";
                    return Err(SourceError::Unsuitable(text.to_owned()));
                }
                sasl = Sasl::Shown;
                continue;
            }
            other => {
                return Err(SourceError::Unsuitable(format!(
                    "the database requires the unsupported login method {other}: use scram-sha-256, md5, password or trust"
                )));
            }
        };
        messages.write(b'p', &answer)?;
    }
}

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    let filled = SystemRandom::new().fill(&mut nonce);
    filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(nonce)
}

fn md5_proof(user: &str, password: &[u8], salt: &[u8]) -> Vec<u8> {
    let hex = |hash: Md5| hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let stored = hex(Md5::new().chain_update(password).chain_update(user));
    let proof = hex(Md5::new().chain_update(stored).chain_update(salt));
    format!("md5{proof}\0").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::message::testing::{says, sent};
    use super::*;

    const READY: [(u8, &[u8]); 4] =
        [(b'R', b"\0\0\0\0"), (b'S', b"TimeZone\0UTC\0"), (b'K', b"12345678"), (b'Z', b"I")];

    fn answered(request: &[u8]) -> Result<Vec<u8>, SourceError> {
        let all: Vec<(u8, &[u8])> = [(b'R', request)].into_iter().chain(READY).collect();
        let (mut messages, server) = says(&all);
        let login = Login { user: "guira".to_owned(), password: b"pw".to_vec() };
        log_in(&mut messages, &login).map(|()| sent(messages, server))
    }

    #[test]
    fn the_startup_says_who_and_what_for() {
        let bytes = startup("me", "shop", Purpose::Replication);
        assert_eq!(u32::from_be_bytes(*bytes.first_chunk().unwrap()) as usize, bytes.len());
        let head = b"\0\x03\0\0user\0me\0database\0shop\0replication\0database\0application_name\0";
        assert!(bytes[4..].starts_with(head) && bytes.ends_with(b"\x001\0\0"), "{}", bytes.escape_ascii());
        let plain = startup("me", "shop", Purpose::Statements);
        assert!(!plain.windows(11).any(|part| part == b"replication"));
    }

    #[test]
    fn passwords_are_proved_as_the_server_wants_it() {
        assert_eq!(answered(b"\0\0\0\x03").unwrap(), b"p\0\0\0\x07pw\0", "nobody listens to a UNIX socket");
        // As PostgreSQL computes it: 'md5' || md5(md5('pwguira') || salt).
        assert_eq!(answered(b"\0\0\0\x05\x01\x02\x03\x04").unwrap(), MD5.as_bytes());
        let other = answered(b"\0\0\0\x0aSCRAM-SHA-1\0\0").unwrap_err().to_string();
        assert!(other.contains("login mechanism SCRAM-SHA-1"), "{other}");
        assert!(answered(b"\0\0\0\x07").unwrap_err().to_string().contains("login method 7"));
    }

    /// The proof of the password pw of guira for the salt 01020304.
    const MD5: &str = "p\0\0\0\x28md56065cd84b9572079a02b26fdc571a89e\0";

    #[test]
    fn a_server_that_does_not_prove_itself_is_refused() {
        let skipped = answered(b"\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0").unwrap_err().to_string();
        assert!(skipped.contains("login method 0"), "{skipped}");
        assert!(answered(b"\0\0\0\x0cv=x").unwrap_err().to_string().contains("may not be the database"));
        assert!(answered(b"\0\0\0\x0br=x").is_err(), "nothing was begun");
    }
}
