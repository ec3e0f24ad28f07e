//! SCRAM-SHA-256 (RFC 5802, RFC 7677): a password is proved without being sent, and the server proves that it knows it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};
use std::num::NonZeroU32;

/// How the password is to be proved.
pub(super) const MECHANISM: &str = "SCRAM-SHA-256";

/// The most rounds that a server may require; its default is 4096.
const ROUNDS_MAX: u32 = 10_000_000;
const KEY: usize = digest::SHA256_OUTPUT_LEN;
/// The header that declares no channel binding, in plain text and in base64.
const NO_BINDING: &str = "n,,";
const NO_BINDING_64: &str = "biws";

#[derive(Debug)]
pub(super) struct Scram {
    nonce: String,
    /// The first message without its head.
    first: String,
}

/// The proof that the server has to send at the end.
#[derive(Debug)]
pub(super) struct Expected {
    key: hmac::Key,
    said: String,
}

impl Scram {
    /// `nonce` is new for each conversation. The server takes the user's name from elsewhere.
    pub(super) fn new(user: &str, nonce: &[u8]) -> Self {
        let nonce = STANDARD.encode(nonce);
        Scram { first: format!("n={user},r={nonce}"), nonce }
    }

    pub(super) fn first(&self) -> String {
        format!("{NO_BINDING}{}", self.first)
    }

    /// The second message, which answers the server's first. `None` if that makes no sense.
    pub(super) fn second(&self, challenge: &str, password: &[u8]) -> Option<(String, Expected)> {
        let mut parts = challenge.split(',');
        let nonce = parts.next()?.strip_prefix("r=").filter(|it| it.starts_with(&self.nonce))?;
        let salt = STANDARD.decode(parts.next()?.strip_prefix("s=")?).ok()?;
        let rounds: NonZeroU32 = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        if nonce.len() == self.nonce.len() || rounds.get() > ROUNDS_MAX {
            return None;
        }
        let mut salted = [0; KEY];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password, &mut salted);
        let salted = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client = hmac::sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client.as_ref());
        let without_proof = format!("c={NO_BINDING_64},r={nonce}");
        let said = format!("{},{challenge},{without_proof}", self.first);
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, stored.as_ref()), said.as_bytes());
        let proof: Vec<u8> =
            client.as_ref().iter().zip(signature.as_ref()).map(|(one, other)| one ^ other).collect();
        let server = hmac::sign(&salted, b"Server Key");
        let key = hmac::Key::new(hmac::HMAC_SHA256, server.as_ref());
        Some((format!("{without_proof},p={}", STANDARD.encode(proof)), Expected { key, said }))
    }
}

impl Expected {
    /// Whether the server's last message shows that it knows the password.
    pub(super) fn is_shown_by(&self, message: &str) -> bool {
        let signature = message.split(',').next().and_then(|first| first.strip_prefix("v="));
        let Some(signature) = signature.and_then(|text| STANDARD.decode(text).ok()) else {
            return false;
        };
        hmac::verify(&self.key, self.said.as_bytes(), &signature).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    const CHALLENGE: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn begun() -> Scram {
        Scram::new("user", &STANDARD.decode("rOprNGfwEbeRWgbNEkqO").unwrap())
    }

    #[test]
    fn the_example_of_the_standard_is_followed() {
        let scram = begun();
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (second, expected) = scram.second(CHALLENGE, b"pencil").unwrap();
        assert_eq!(
            second,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(expected.is_shown_by("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        for wrong in ["v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", "v=", "e=other-error", ""] {
            assert!(!expected.is_shown_by(wrong), "{wrong}");
        }
    }

    #[test]
    fn challenges_that_make_no_sense_are_refused() {
        for (from, to) in [
            ("r=rOpr", "r=other"),
            ("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
            ("i=4096", "i=0"),
            ("i=4096", "i=10000001"),
            (",i=4096", ""),
            ("s=W22", "s=?"),
        ] {
            assert!(begun().second(&CHALLENGE.replace(from, to), b"pencil").is_none(), "{to}");
        }
    }
}
