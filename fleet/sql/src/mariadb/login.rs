//! The beginning of a conversation: the server's greeting, and who we are.

use super::packet::Packets;
use super::password::{Plugin, ended, mixed};
use super::query::{printable, refusal};
use super::rsa::PublicKey;
use crate::bytes::Bytes;
use crate::{Login, SourceError};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The capabilities of this client, as bits: long passwords, flags of columns, transactions,
/// protocol 4.1, 20-byte proofs, plugin names.
const CAPABILITIES: u32 = 1 | 1 << 2 | 1 << 13 | 1 << 9 | 1 << 15 | 1 << 19;
const TLS: u32 = 1 << 11;
/// utf8mb4_general_ci.
const CHARSET: u8 = 45;
const PACKET_MAX: u32 = 1 << 24;
const CHALLENGE: usize = 20;
/// The longest file with a key, in bytes.
const KEY_FILE_MAX: u64 = 64 << 10;

/// Messages of `caching_sha2_password` beside a challenge: the proof was enough, or the server
/// wants the password itself.
const PROOF_WAS_ENOUGH: u8 = 3;
const PASSWORD_IS_WANTED: u8 = 4;
/// Requests the key that encrypts the password.
const REQUEST_KEY: u8 = 2;

/// The key that encrypts a password if the server wants the password itself and the connection is
/// not private.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PasswordKey {
    /// Without a key the password is not sent.
    #[default]
    Missing,
    /// The key in this file, which is read for each connection.
    File(PathBuf),
    /// The key that the server sends, unverified.
    OfServer,
}

impl PasswordKey {
    /// Checks that the key can be used, as far as possible without the server.
    ///
    /// # Errors
    /// When its file cannot be read, or has no key.
    pub fn check(&self) -> Result<(), SourceError> {
        match self {
            PasswordKey::File(path) => read_key(path).map(drop),
            PasswordKey::Missing | PasswordKey::OfServer => Ok(()),
        }
    }
}

/// Whether others may listen to a connection that is not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Local,
    Network,
}

#[derive(Debug, PartialEq, Eq)]
struct Greeting {
    version: String,
    has_tls: bool,
    challenge: [u8; CHALLENGE],
    /// How passwords are shown to be known if the user has no other way.
    plugin: Vec<u8>,
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
    // Charset, status, more capabilities, the length of the challenge, and reserved bytes.
    bytes.take(1 + 2 + 2 + 1 + 10)?;
    challenge[8..].copy_from_slice(bytes.take(12)?);
    bytes.take(1)?;
    let plugin = bytes.until_zero().unwrap_or(bytes.0).to_vec();
    Some(Greeting { version, has_tls, challenge, plugin })
}

/// Shakes hands, by TLS if there is a way to `encrypt` what follows; returns the server's version.
pub(super) fn log_in<S: Read + Write>(
    packets: &mut Packets<S>,
    login: &Login,
    encrypt: Option<impl FnOnce(&mut S) -> io::Result<()>>,
    reach: Reach,
    key: &PasswordKey,
) -> Result<String, SourceError> {
    let packet = packets.read()?.bytes;
    if packet.first() == Some(&0xff) {
        return Err(refusal(packet));
    }
    let Greeting { version, has_tls, challenge, plugin } =
        greeting(packet).ok_or(SourceError::Malformed("the greeting"))?;
    let capabilities = if encrypt.is_some() { CAPABILITIES | TLS } else { CAPABILITIES };
    let is_private = encrypt.is_some() || reach == Reach::Local;
    let mut answer = Vec::new();
    answer.extend(capabilities.to_le_bytes());
    answer.extend(PACKET_MAX.to_le_bytes());
    answer.push(CHARSET);
    answer.extend([0; 23]);
    if let Some(encrypt) = encrypt {
        if !has_tls {
            return Err(SourceError::Unsuitable(
                "the database does not support TLS: set its ssl_cert and ssl_key".to_owned(),
            ));
        }
        // The first part requests TLS; the whole reply follows encrypted.
        packets.write(&answer)?;
        encrypt(packets.below()?)?;
    }
    let plugin = Plugin::named(&plugin).unwrap_or(Plugin::Native);
    let proof = plugin.proof(&login.password, &challenge);
    answer.extend(login.user.bytes().chain([0]));
    answer.push(proof.len() as u8);
    answer.extend(proof);
    answer.extend(plugin.name().bytes().chain([0]));
    packets.write(&answer)?;
    let mut auth = AuthSwitch { plugin, challenge: challenge.to_vec() };
    loop {
        let packet = packets.read()?.bytes;
        match packet {
            [0, ..] => return Ok(version),
            [0xff, ..] => return Err(refusal(packet)),
            [0xfe, again @ ..] => {
                auth = AuthSwitch::read(again, &login.user)?;
                let proof = auth.plugin.proof(&login.password, &auth.challenge);
                packets.write(&proof)?;
            }
            [1, PROOF_WAS_ENOUGH] => {}
            [1, PASSWORD_IS_WANTED] if auth.plugin == Plugin::CachingSha2 && is_private => {
                packets.write(&ended(&login.password))?;
            }
            [1, PASSWORD_IS_WANTED] if auth.plugin == Plugin::CachingSha2 => {
                let key = public_key(packets, key, &login.user)?;
                packets.write(&encrypted(login, &auth.challenge, &key)?)?;
            }
            _ => return Err(SourceError::Malformed("the reply to the login")),
        }
    }
}

/// How a server wants it to be shown that a password is known.
#[derive(Debug)]
struct AuthSwitch {
    plugin: Plugin,
    challenge: Vec<u8>,
}

impl AuthSwitch {
    /// Reads a packet that wants it otherwise.
    fn read(packet: &[u8], user: &str) -> Result<Self, SourceError> {
        let mut bytes = Bytes(packet);
        let name = bytes.until_zero().unwrap_or(bytes.0);
        let plugin = Plugin::named(name).ok_or_else(|| {
            let name = name.escape_ascii();
            SourceError::Unsuitable(format!(
                "user {user} has the unsupported authentication plugin {name}: use mysql_native_password or caching_sha2_password"
            ))
        })?;
        let challenge = bytes.0.strip_suffix(&[0]).unwrap_or(bytes.0).to_vec();
        Ok(AuthSwitch { plugin, challenge })
    }
}

/// The key that encrypts a password.
fn public_key<S: Read + Write>(
    packets: &mut Packets<S>,
    key: &PasswordKey,
    user: &str,
) -> Result<PublicKey, SourceError> {
    match key {
        PasswordKey::Missing => Err(SourceError::Unsuitable(format!(
            "the password of {user} would be sent unencrypted: use tls or a UNIX socket, or set public-key-file"
        ))),
        PasswordKey::File(path) => read_key(path),
        PasswordKey::OfServer => {
            packets.write(&[REQUEST_KEY])?;
            let packet = packets.read()?.bytes;
            if packet.first() == Some(&0xff) {
                return Err(refusal(packet));
            }
            let text = packet.strip_prefix(&[1]).and_then(|text| str::from_utf8(text).ok());
            text.and_then(PublicKey::from_pem).ok_or(SourceError::Malformed("the public key"))
        }
    }
}

fn read_key(path: &Path) -> Result<PublicKey, SourceError> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()));
    if guira_disk::metadata(path).map_err(named)?.len() > KEY_FILE_MAX {
        return Err(named(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large")).into());
    }
    let text = guira_disk::read_to_string(path).map_err(named)?;
    PublicKey::from_pem(&text)
        .ok_or_else(|| SourceError::Unsuitable(format!("{} has no RSA public key", path.display())))
}

fn encrypted(login: &Login, challenge: &[u8], key: &PublicKey) -> Result<Vec<u8>, SourceError> {
    let mut seed = [0; 20];
    SystemRandom::new().fill(&mut seed).map_err(|_| io::Error::other("the system has no random numbers"))?;
    let too_long =
        || SourceError::Unsuitable("the password is too long for the database's public key".to_owned());
    if challenge.is_empty() {
        return Err(SourceError::Malformed("the challenge"));
    }
    key.encrypt(&mixed(&login.password, challenge), seed).ok_or_else(too_long)
}

#[cfg(test)]
mod tests {
    use super::super::packet::testing::{Script, says};
    use super::super::rsa::tests::KEY;
    use super::*;
    use crate::testing::unhex;
    use guira_harness::scratch::Scratch;

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
            let (reach, key) = (Reach::Network, PasswordKey::Missing);
            let version = super::log_in(&mut packets, &login, plain, reach, &key)?;
            Ok::<_, SourceError>((version, packets.sent().to_vec()))
        };
        let (version, sent) = log_in(&[OK]).unwrap();
        assert!(version.contains("MariaDB"));
        assert!(sent.ends_with(b"mysql_native_password\0"));
        let again = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
        let (_, sent) = log_in(&[again, OK]).unwrap();
        assert!(sent.ends_with(&Plugin::Native.proof(b"pw", b"ABCDEFGHIJKLMNOPQRST")));
        let refused = log_in(&[b"\xff\x15\x04#28000Access denied for user"]).unwrap_err();
        assert_eq!(refused.to_string(), "the database rejected the login: Access denied for user (1045)");
        let other = log_in(&[b"\xfeclient_ed25519\0salt"]).unwrap_err();
        assert!(other.to_string().contains("authentication plugin client_ed25519"), "{other}");
    }

    #[test]
    fn nothing_is_said_before_tls_but_that_it_is_wanted() {
        let login = Login { user: "guira".to_owned(), password: b"pw".to_vec() };
        let encrypted = |greeting: &[u8], more: &[u8]| {
            let mut packets = says(0, &[greeting]);
            packets.script_mut().get_mut().extend_from_slice(more);
            // The connection ends where TLS would begin.
            let end = |_: &mut Script| Err(io::Error::other("a handshake"));
            let error =
                log_in(&mut packets, &login, Some(end), Reach::Network, &PasswordKey::Missing).unwrap_err();
            (error.to_string(), packets.sent().to_vec())
        };
        let with_tls = unhex(&GREETING.replacen("fef7", "feff", 1));
        let (error, sent) = encrypted(&with_tls, b"");
        assert_eq!((&*error, sent.len()), ("a handshake", 4 + 32));
        assert_eq!(sent[..8], *b"\x20\0\0\x01\x05\xaa\x08\0");
        let (error, sent) = encrypted(&unhex(GREETING), b"");
        assert!(error.contains("does not support TLS") && sent.is_empty(), "{error}");
        let (error, _) = encrypted(&with_tls, OK);
        assert!(error.contains("before TLS"), "{error}");
    }

    /// As MySQL 9.7.4 has sent it.
    const MYSQL: &str =
        "0a392e372e342d3200 0d000000 0110595a4430371f 00 ffff ff 0200 ffdf 15 00000000000000000000
        6f77337b1f762f2a6a3f5a1c 00 63616368696e675f736861325f70617373776f726400";
    const CHALLENGE: &str = "0110595a4430371f6f77337b1f762f2a6a3f5a1c";
    const WANTED: &[u8] = &[1, PASSWORD_IS_WANTED];

    /// The packets that are sent to MySQL after its greeting, if its replies are `answers`.
    fn sent_to_mysql(
        answers: &[&[u8]],
        reach: Reach,
        key: &PasswordKey,
    ) -> Result<Vec<Vec<u8>>, SourceError> {
        let (mut says_all, greeting) = (Vec::new(), unhex(MYSQL));
        for (index, packet) in [&greeting[..]].iter().chain(answers).enumerate() {
            // A packet that accepts the proof is followed by another one of the server.
            let number = if answers.first() == Some(&&[1, PROOF_WAS_ENOUGH][..]) && index == 2 {
                3
            } else {
                2 * index
            };
            says_all.extend_from_slice(&(packet.len() as u32).to_le_bytes()[..3]);
            says_all.push(number as u8);
            says_all.extend_from_slice(packet);
        }
        let mut packets = says(0, &[]);
        *packets.script_mut() = std::io::Cursor::new(says_all);
        let login = Login { user: "guira".to_owned(), password: b"pw".to_vec() };
        super::log_in(&mut packets, &login, None::<fn(&mut Script) -> io::Result<()>>, reach, key)?;
        let (mut sent, mut rest) = (Vec::new(), packets.sent());
        while let Some((head, behind)) = rest.split_first_chunk::<4>() {
            let (packet, behind) = behind.split_at(usize::from(head[0]) | usize::from(head[1]) << 8);
            sent.push(packet.to_vec());
            rest = behind;
        }
        Ok(sent)
    }

    #[test]
    fn mysql_is_shown_a_proof_and_told_the_password_only_where_nobody_listens() {
        let proof = Plugin::CachingSha2.proof(b"pw", &unhex(CHALLENGE));
        let enough = [&[1, PROOF_WAS_ENOUGH][..], OK];
        let sent = sent_to_mysql(&enough, Reach::Network, &PasswordKey::Missing).unwrap();
        let end = [&[32][..], &proof, b"caching_sha2_password\0"].concat();
        assert!(sent.len() == 1 && sent[0].ends_with(&end));
        let sent = sent_to_mysql(&[WANTED, OK], Reach::Local, &PasswordKey::Missing).unwrap();
        assert_eq!(sent[1..], [b"pw\0"]);
        let error = sent_to_mysql(&[WANTED, OK], Reach::Network, &PasswordKey::Missing).unwrap_err();
        assert!(error.to_string().contains("the password of guira would be sent unencrypted"), "{error}");
        assert!(!error.is_passing());
        let native = b"\xfemysql_native_password\0ABCDEFGHIJKLMNOPQRST\0";
        let sent = sent_to_mysql(&[native, OK], Reach::Network, &PasswordKey::Missing).unwrap();
        assert_eq!(sent[1..], [Plugin::Native.proof(b"pw", b"ABCDEFGHIJKLMNOPQRST")]);
        let error = sent_to_mysql(&[native, WANTED], Reach::Local, &PasswordKey::Missing).unwrap_err();
        assert!(matches!(error, SourceError::Malformed(_)), "that is no answer of that way: {error}");
    }

    #[test]
    fn a_password_is_encrypted_by_the_key_of_the_server_or_of_a_file() {
        let key = [&[1], KEY.as_bytes()].concat();
        let sent = sent_to_mysql(&[WANTED, &key, OK], Reach::Network, &PasswordKey::OfServer).unwrap();
        assert_eq!((&*sent[1], sent[2].len()), (&[REQUEST_KEY][..], 256));
        let error =
            sent_to_mysql(&[WANTED, b"\x01no key"], Reach::Network, &PasswordKey::OfServer).unwrap_err();
        assert!(error.to_string().contains("the public key"), "{error}");
        let scratch = Scratch::new();
        let file = PasswordKey::File(scratch.write("key.pem", KEY));
        let sent = sent_to_mysql(&[WANTED, OK], Reach::Network, &file).unwrap();
        assert_eq!((sent.len(), sent[1].len()), (2, 256));
        scratch.write("key.pem", "no key");
        let error = sent_to_mysql(&[WANTED, OK], Reach::Network, &file).unwrap_err();
        assert!(error.to_string().contains("key.pem has no RSA public key"), "{error}");
        let none = PasswordKey::File(scratch.file("none"));
        let error = sent_to_mysql(&[WANTED, OK], Reach::Network, &none).unwrap_err();
        assert!(error.to_string().contains("cannot read") && error.is_passing(), "{error}");
    }
}
