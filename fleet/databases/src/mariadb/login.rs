//! The beginning of a conversation: the server's greeting, and who we are.

use super::packet::Packets;
use super::query::{printable, refusal};
use crate::bytes::Bytes;
use crate::{Login, SourceError};
use sha1::{Digest, Sha1};
use std::io::{self, Read, Write};

/// The one way to show a password that is known here.
const PLUGIN: &[u8] = b"mysql_native_password";

/// What this client can do, as bits: long passwords, flags of columns, transactions, this protocol, answers to 20 bytes, names of plugins.
const CAPABILITIES: u32 = 1 | 1 << 2 | 1 << 13 | 1 << 9 | 1 << 15 | 1 << 19;
/// That TLS is spoken.
const TLS: u32 = 1 << 11;
/// utf8mb4_general_ci.
const CHARSET: u8 = 45;
const PACKET_MAX: u32 = 1 << 24;
/// How long a challenge is.
const CHALLENGE: usize = 20;

/// What a server says first.
#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    version: String,
    has_tls: bool,
    challenge: [u8; CHALLENGE],
}

fn greeting(packet: &[u8]) -> Option<Greeting> {
    let mut bytes = Bytes(packet);
    if bytes.byte()? != 10 {
        return None;
    }
    let version = printable(bytes.until_zero()?);
    let _connection = bytes.u32()?;
    let mut challenge = [0; CHALLENGE];
    challenge[..8].copy_from_slice(bytes.take(8)?);
    bytes.take(1)?;
    let has_tls = u32::from(bytes.u16()?) & TLS != 0;
    // Charset, status, more capabilities, the length of the challenge, and what is reserved.
    bytes.take(1 + 2 + 2 + 1 + 10)?;
    challenge[8..].copy_from_slice(bytes.take(12)?);
    Some(Greeting { version, has_tls, challenge })
}

/// What shows that a password is known.
fn proof(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(challenge).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(one, other)| one ^ other).collect()
}

/// Shakes hands, by TLS if there is a way to `encrypt` what follows; returns the server's version.
pub(super) fn log_in<S: Read + Write>(
    packets: &mut Packets<S>,
    Login { user, password }: &Login,
    encrypt: Option<impl FnOnce(&mut S) -> io::Result<()>>,
) -> Result<String, SourceError> {
    let packet = packets.read()?.bytes;
    if packet.first() == Some(&0xff) {
        return Err(refusal(packet));
    }
    let Greeting { version, has_tls, challenge } =
        greeting(packet).ok_or(SourceError::Malformed("its greeting"))?;
    let capabilities = if encrypt.is_some() { CAPABILITIES | TLS } else { CAPABILITIES };
    let mut answer = Vec::new();
    answer.extend(capabilities.to_le_bytes());
    answer.extend(PACKET_MAX.to_le_bytes());
    answer.push(CHARSET);
    answer.extend([0; 23]);
    if let Some(encrypt) = encrypt {
        if !has_tls {
            return Err(SourceError::Unsuitable(
                "the database does not speak TLS: it needs ssl_cert and ssl_key".to_owned(),
            ));
        }
        // This much of the answer asks for it; all of it follows once nobody can listen.
        packets.write(&answer)?;
        encrypt(packets.below()?)?;
    }
    answer.extend(user.bytes().chain([0]));
    let proved = proof(password, &challenge);
    answer.push(proved.len() as u8);
    answer.extend(proved);
    answer.extend(PLUGIN.iter().chain(&[0]));
    packets.write(&answer)?;
    loop {
        let packet = packets.read()?.bytes;
        match packet.first() {
            Some(0) => return Ok(version),
            Some(0xff) => return Err(refusal(packet)),
            Some(0xfe) => {
                let mut bytes = Bytes(&packet[1..]);
                let plugin = bytes.until_zero().unwrap_or(bytes.0);
                let challenge = bytes.0.strip_suffix(&[0]).unwrap_or(bytes.0);
                if plugin != PLUGIN {
                    let plugin = plugin.escape_ascii();
                    return Err(SourceError::Unsuitable(format!(
                        "the database wants the password of {user} by {plugin}; only mysql_native_password is known here"
                    )));
                }
                let proved = proof(password, challenge);
                packets.write(&proved)?;
            }
            _ => return Err(SourceError::Malformed("its answer to the login")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::testing::{Script, says};
    use super::*;
    use crate::testing::unhex;

    /// As MariaDB 10.11.19 has sent it.
    const GREETING: &str =
        "0a352e352e352d31302e31312e31392d4d6172696144422d302b646562313275312d6c6f6700 07000000
        426f297a4f5a5726 00 fef7 08 0200 ff81 15 000000000000 1d000000 54542c7a462d4b74265c212e 00
        6d7973716c5f6e61746976655f70617373776f726400";
    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

    #[test]
    fn a_greeting_is_read() {
        let greeting = greeting(&unhex(GREETING)).unwrap();
        assert_eq!(greeting.version, "5.5.5-10.11.19-MariaDB-0+deb12u1-log");
        assert_eq!(greeting.challenge[..], *b"Bo)zOZW&TT,zF-Kt&\\!.");
        assert!(!greeting.has_tls);
        let whole = unhex(GREETING);
        for length in 0..80 {
            assert_eq!(super::greeting(&whole[..length]), None, "{length} bytes");
        }
        let forged = GREETING.replacen("2d6c6f67", "0a1b6f67", 1);
        let version = super::greeting(&unhex(&forged)).unwrap().version;
        assert!(!version.contains(char::is_control), "it may come into the log: {version:?}");
    }

    #[test]
    fn a_password_is_proved_as_the_server_wants_it() {
        // The server has accepted this one.
        let proved = proof(b"pw", b"Bo)zOZW&TT,zF-Kt&\\!.");
        assert_eq!(proved, unhex("df2c81beadc37d0a6f305368a70590078c2fd70e"));
        assert_eq!(proof(b"", b"Bo)zOZW&TT,zF-Kt&\\!."), b"");
    }

    #[test]
    fn a_login_is_accepted_refused_or_asked_for_again() {
        let greeting = unhex(GREETING);
        // What we write takes a number too.
        let log_in = |answers: &[&[u8]]| {
            let mut says_all: Vec<u8> = Vec::new();
            for (index, packet) in [&greeting[..]].iter().chain(answers).enumerate() {
                says_all.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
                says_all.push(2 * index as u8);
                says_all.extend_from_slice(packet);
            }
            let mut packets = says(0, &[]);
            *packets.script_mut() = std::io::Cursor::new(says_all);
            let login = Login { user: "guira".to_owned(), password: b"pw".to_vec() };
            let plain = None::<fn(&mut Script) -> std::io::Result<()>>;
            super::log_in(&mut packets, &login, plain).map(|version| (version, packets.told().to_vec()))
        };
        let (version, told) = log_in(&[OK]).unwrap();
        assert!(version.contains("MariaDB"));
        assert!(told.ends_with(b"mysql_native_password\0"));
        let again = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
        let (_, told) = log_in(&[again, OK]).unwrap();
        assert!(told.ends_with(&proof(b"pw", b"ABCDEFGHIJKLMNOPQRST")));
        let refused = log_in(&[b"\xff\x15\x04#28000Access denied for user"]).unwrap_err();
        assert_eq!(refused.to_string(), "the database refuses the login: Access denied for user (1045)");
        let other = log_in(&[b"\xfeclient_ed25519\0salt"]).unwrap_err();
        assert!(other.to_string().contains("by client_ed25519"), "{other}");
    }

    #[test]
    fn nothing_is_said_before_tls_but_that_it_is_wanted() {
        let login = Login { user: "guira".to_owned(), password: b"pw".to_vec() };
        let encrypted = |greeting: &[u8], more: &[u8]| {
            let mut packets = says(0, &[greeting]);
            packets.script_mut().get_mut().extend_from_slice(more);
            // The connection ends where TLS would begin.
            let end = |_: &mut Script| Err(io::Error::other("a handshake"));
            let error = log_in(&mut packets, &login, Some(end)).unwrap_err();
            (error.to_string(), packets.told().to_vec())
        };
        let with_tls = unhex(&GREETING.replacen("fef7", "feff", 1));
        let (error, told) = encrypted(&with_tls, b"");
        assert_eq!((&*error, told.len()), ("a handshake", 4 + 32));
        assert_eq!(told[..8], *b"\x20\0\0\x01\x05\xaa\x08\0");
        let (error, told) = encrypted(&unhex(GREETING), b"");
        assert!(error.contains("does not speak TLS") && told.is_empty(), "{error}");
        let (error, _) = encrypted(&with_tls, OK);
        assert!(error.contains("before TLS"), "{error}");
    }
}
