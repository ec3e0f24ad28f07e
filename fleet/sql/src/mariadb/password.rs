//! How a password is shown to be known, without telling it.

use ring::digest::{Context, SHA256, digest};
use sha1::{Digest, Sha1};

/// A way that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    /// `mysql_native_password`: MariaDB's default.
    Native,
    /// `caching_sha2_password`: MySQL's default.
    CachingSha2,
}

impl Plugin {
    const NAMES: [(Plugin, &'static str); 2] =
        [(Plugin::Native, "mysql_native_password"), (Plugin::CachingSha2, "caching_sha2_password")];

    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(plugin, _)| *plugin)
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The proof of a password for this challenge.
    pub(super) fn proof(self, password: &[u8], challenge: &[u8]) -> Vec<u8> {
        match self {
            _ if password.is_empty() => Vec::new(),
            Plugin::Native => {
                let once = Sha1::digest(password);
                let twice = Sha1::digest(once);
                let mask = Sha1::new().chain_update(challenge).chain_update(twice).finalize();
                once.iter().zip(mask).map(|(one, other)| one ^ other).collect()
            }
            Plugin::CachingSha2 => {
                let once = digest(&SHA256, password);
                let twice = digest(&SHA256, once.as_ref());
                let mut mask = Context::new(&SHA256);
                mask.update(twice.as_ref());
                mask.update(challenge);
                once.as_ref().iter().zip(mask.finish().as_ref()).map(|(one, other)| one ^ other).collect()
            }
        }
    }
}

/// A password as sent in clear text, with a zero at its end.
pub(super) fn ended(password: &[u8]) -> Vec<u8> {
    [password, &[0]].concat()
}

/// The password in a form that depends on the challenge, for encryption.
pub(super) fn mixed(password: &[u8], challenge: &[u8]) -> Vec<u8> {
    ended(password).iter().zip(challenge.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unhex;

    #[test]
    fn a_password_is_proved_as_the_server_wants_it() {
        // MariaDB 10.11.19 has accepted this one.
        let proved = Plugin::Native.proof(b"pw", b"Bo)zOZW&TT,zF-Kt&\\!.");
        assert_eq!(proved, unhex("df2c81beadc37d0a6f305368a70590078c2fd70e"));
        // And MySQL 9.7.4 this one.
        let proved =
            Plugin::CachingSha2.proof(b"it's secret", &unhex("23771c70423c7f1a51194562035103196a456057"));
        assert_eq!(proved, unhex("8e4ede2a27cabd840bc82381550efc97d568610b40a35e2c604cbc3eee3a2dfa"));
        for plugin in [Plugin::Native, Plugin::CachingSha2] {
            assert_eq!(plugin.proof(b"", b"Bo)zOZW&TT,zF-Kt&\\!."), b"");
            assert_eq!(Plugin::named(plugin.name().as_bytes()), Some(plugin));
        }
        assert_eq!(Plugin::named(b"sha256_password"), None);
    }

    #[test]
    fn what_is_encrypted_is_another_for_each_challenge() {
        assert_eq!(mixed(b"abc", b"\x01\x02"), [b'a' ^ 1, b'b' ^ 2, b'c' ^ 1, 2]);
    }
}
