//! Options of TLS: files, client certificates, versions, cipher suites.

use super::files::Files;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The TLS options of a server. No file is read before a [`crate::TlsAcceptor`] is made from them.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// The server's certificate chain, PEM, its own certificate first.
    pub chain: PathBuf,
    /// The private key, PEM (PKCS #8, PKCS #1 or SEC1), not encrypted; `None` if it is in the file of the chain.
    pub key: Option<PathBuf>,
    /// Certificates of the authorities for client certificates, PEM.
    pub authorities: Option<PathBuf>,
    pub verify: VerifyMode,
    pub min_version: MinVersion,
    pub resumption: Resumption,
    pub ciphers: CipherList,
}

impl TlsOptions {
    /// The defaults of memcached 1.6.45: TLS 1.2 and 1.3, no client certificates, no resumption, all cipher suites.
    pub fn new(chain: impl Into<PathBuf>) -> Self {
        TlsOptions {
            chain: chain.into(),
            key: None,
            authorities: None,
            verify: VerifyMode::None,
            min_version: MinVersion::Tls12,
            resumption: Resumption::Off,
            ciphers: CipherList::default(),
        }
    }

    pub(super) fn key_file(&self) -> &Path {
        self.key.as_deref().unwrap_or(&self.chain)
    }

    pub(super) fn files(&self) -> Files<'_> {
        [Some(self.chain.as_path()), self.key.as_deref(), self.authorities.as_deref()]
    }
}

/// The TLS options of a client. No file is read before a [`crate::TlsConnector`] is made from them.
#[derive(Clone, Debug)]
pub struct TlsClientOptions {
    /// The client's certificate chain, PEM, and its private key, as in [`TlsOptions`]. Without a chain the client has
    /// no certificate.
    pub chain: Option<PathBuf>,
    pub key: Option<PathBuf>,
    /// Certificates of the authorities for servers' certificates, PEM. Without it any certificate is accepted.
    pub authorities: Option<PathBuf>,
    /// Whether a server's certificate must name the server; only with authorities.
    pub names: NameCheck,
    /// Whether sessions are resumed that servers gave tickets for.
    pub resumption: Resumption,
    pub ciphers: CipherList,
}

impl TlsClientOptions {
    /// A client without a certificate, which resumes sessions with servers of the right name and of these authorities;
    /// with any server if there are none.
    pub fn trusting(authorities: Option<PathBuf>) -> Self {
        TlsClientOptions {
            chain: None,
            key: None,
            authorities,
            names: NameCheck::Required,
            resumption: Resumption::Tickets,
            ciphers: CipherList::default(),
        }
    }

    pub(super) fn files(&self) -> Files<'_> {
        [self.chain.as_deref(), self.key.as_deref(), self.authorities.as_deref()]
    }
}

/// Whether a server's certificate must name the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCheck {
    Required,
    Skipped,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsOptionError(String);

/// The mode of client certificates (`ssl_verify_mode` of memcached 1.6.45, which passes OpenSSL's flags on).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyMode {
    /// 0: none is requested.
    None,
    /// 1: one is requested. A client may present none, but not an invalid one.
    Peer,
    /// 2: a valid one is required.
    Force,
    /// 3: as 2. OpenSSL would not request it again in a renegotiation, which neither server allows.
    Once,
}

impl VerifyMode {
    pub fn number(self) -> u8 {
        match self {
            VerifyMode::None => 0,
            VerifyMode::Peer => 1,
            VerifyMode::Force => 2,
            VerifyMode::Once => 3,
        }
    }
}

impl FromStr for VerifyMode {
    type Err = TlsOptionError;

    fn from_str(text: &str) -> Result<Self, TlsOptionError> {
        match text {
            "0" => Ok(VerifyMode::None),
            "1" => Ok(VerifyMode::Peer),
            "2" => Ok(VerifyMode::Force),
            "3" => Ok(VerifyMode::Once),
            _ => Err(TlsOptionError(format!(
                "'{text}' is not a verify mode: use 0 (none), 1 (request), 2 (require) or 3 (require once)"
            ))),
        }
    }
}

/// The oldest accepted version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinVersion {
    Tls12,
    Tls13,
}

impl FromStr for MinVersion {
    type Err = TlsOptionError;

    /// Parses memcached's numbers (2, 3) and names (`tlsv1.2`, `tlsv1.3`).
    fn from_str(text: &str) -> Result<Self, TlsOptionError> {
        match text.to_ascii_lowercase().as_str() {
            "2" | "tlsv1.2" => Ok(MinVersion::Tls12),
            "3" | "tlsv1.3" => Ok(MinVersion::Tls13),
            "0" | "1" | "tlsv1.0" | "tlsv1.1" => Err(TlsOptionError(format!(
                "'{text}': TLS 1.0 and 1.1 are not supported; the oldest version is 2 (tlsv1.2)"
            ))),
            _ => Err(TlsOptionError(format!("'{text}' is not a version: use 2 (tlsv1.2) or 3 (tlsv1.3)"))),
        }
    }
}

impl fmt::Display for MinVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            MinVersion::Tls12 => "tlsv1.2",
            MinVersion::Tls13 => "tlsv1.3",
        })
    }
}

/// Whether sessions can be resumed. The server stores no state: a ticket, encrypted under a key that changes every
/// six hours, holds the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// Every handshake is a full one.
    Off,
    Tickets,
}

/// A cipher suite and its names.
struct Suite {
    name: &'static str,
    openssl: &'static str,
    suite: &'static SupportedCipherSuite,
}

/// All suites, best first.
static SUITES: [Suite; 9] = [
    Suite {
        name: "TLS_AES_256_GCM_SHA384",
        openssl: "TLS_AES_256_GCM_SHA384",
        suite: &cipher_suite::TLS13_AES_256_GCM_SHA384,
    },
    Suite {
        name: "TLS_AES_128_GCM_SHA256",
        openssl: "TLS_AES_128_GCM_SHA256",
        suite: &cipher_suite::TLS13_AES_128_GCM_SHA256,
    },
    Suite {
        name: "TLS_CHACHA20_POLY1305_SHA256",
        openssl: "TLS_CHACHA20_POLY1305_SHA256",
        suite: &cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    },
    Suite {
        name: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite: &cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    },
    Suite {
        name: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite: &cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    },
    Suite {
        name: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite: &cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    },
    Suite {
        name: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        suite: &cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    },
    Suite {
        name: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        suite: &cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    },
    Suite {
        name: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        suite: &cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    },
];

pub(super) fn suite_name(suite: SupportedCipherSuite) -> &'static str {
    SUITES.iter().find(|known| known.suite.suite() == suite.suite()).map_or("unknown", |known| known.name)
}

/// The accepted cipher suites, as indices into the table of all. As with OpenSSL's list, TLS 1.3 keeps all of its
/// suites unless some are named; of TLS 1.2 only named ones are accepted. The client's order decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherList(Vec<usize>);

impl Default for CipherList {
    fn default() -> Self {
        CipherList((0..SUITES.len()).collect())
    }
}

impl CipherList {
    pub(super) fn suites(&self) -> Vec<SupportedCipherSuite> {
        self.0.iter().map(|place| *SUITES[*place].suite).collect()
    }
}

impl FromStr for CipherList {
    type Err = TlsOptionError;

    /// Parses standard or OpenSSL names, separated by colons, commas or blanks.
    fn from_str(text: &str) -> Result<Self, TlsOptionError> {
        let mut places = Vec::new();
        for name in text.split([':', ',', ' ']).filter(|name| !name.is_empty()) {
            let same = |known: &str| known.eq_ignore_ascii_case(name);
            let place = SUITES.iter().position(|suite| same(suite.name) || same(suite.openssl));
            let place = place.ok_or_else(|| {
                TlsOptionError(format!("unknown cipher suite '{name}'; use one of {}", all_names()))
            })?;
            if !places.contains(&place) {
                places.push(place);
            }
        }
        if places.is_empty() {
            return Err(TlsOptionError(format!("no cipher suites; use some of {}", all_names())));
        }
        if !places.iter().any(|place| SUITES[*place].suite.tls13().is_some()) {
            let newest = (0..SUITES.len()).filter(|place| SUITES[*place].suite.tls13().is_some());
            places.splice(0..0, newest);
        }
        Ok(CipherList(places))
    }
}

impl fmt::Display for CipherList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, place) in self.0.iter().enumerate() {
            let between = if index == 0 { "" } else { ":" };
            write!(formatter, "{between}{}", SUITES[*place].openssl)?;
        }
        Ok(())
    }
}

fn all_names() -> String {
    SUITES.iter().map(|suite| suite.openssl).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_modes_are_numbers_from_0_to_3() {
        for number in 0..4u8 {
            assert_eq!(number.to_string().parse::<VerifyMode>().unwrap().number(), number);
        }
        for text in ["", "4", "-1", "none"] {
            assert!(text.parse::<VerifyMode>().unwrap_err().to_string().contains("not a verify mode"));
        }
    }

    #[test]
    fn versions_are_read_as_numbers_and_names_and_old_ones_are_refused_clearly() {
        for text in ["2", "tlsv1.2", "TLSv1.2"] {
            assert_eq!(text.parse(), Ok(MinVersion::Tls12));
        }
        for text in ["3", "tlsv1.3"] {
            assert_eq!(text.parse(), Ok(MinVersion::Tls13));
        }
        for text in ["0", "1", "tlsv1.0", "tlsv1.1"] {
            let error = text.parse::<MinVersion>().unwrap_err().to_string();
            assert!(error.contains("not supported"), "{error}");
        }
        assert!("4".parse::<MinVersion>().unwrap_err().to_string().contains("not a version"));
        assert_eq!(MinVersion::Tls13.to_string().parse(), Ok(MinVersion::Tls13));
    }

    #[test]
    fn every_suite_is_found_under_both_of_its_names() {
        for suite in &SUITES {
            for name in [suite.name, suite.openssl] {
                let list = name.parse::<CipherList>().unwrap().suites();
                assert!(list.iter().any(|known| known.suite() == suite.suite.suite()), "{name}");
            }
            assert_eq!(suite_name(*suite.suite), suite.name);
        }
        assert_eq!(SUITES.len(), rustls::crypto::ring::ALL_CIPHER_SUITES.len());
    }

    #[test]
    fn a_list_for_the_old_version_leaves_the_new_one_alone_and_not_the_other_way_round() {
        let old = "ECDHE-RSA-AES128-GCM-SHA256".parse::<CipherList>().unwrap().suites();
        assert_eq!(old.iter().filter(|suite| suite.tls13().is_some()).count(), 3);
        assert_eq!(old.len(), 4);
        let new = "TLS_AES_128_GCM_SHA256".parse::<CipherList>().unwrap().suites();
        assert_eq!(new.len(), 1);
    }

    #[test]
    fn an_unknown_suite_is_an_error_that_lists_the_known_ones() {
        for text in ["HIGH:!aNULL", "AES128-SHA", "", "TLS_AES_128_GCM_SHA256:x"] {
            let error = text.parse::<CipherList>().unwrap_err().to_string();
            assert!(error.contains("ECDHE-RSA-AES256-GCM-SHA384"), "{error}");
        }
    }

    #[test]
    fn a_list_is_written_as_it_is_read() {
        let text = "TLS_AES_128_GCM_SHA256:ECDHE-RSA-CHACHA20-POLY1305";
        assert_eq!(text.replace(':', ", ").parse::<CipherList>().unwrap().to_string(), text);
    }
}
