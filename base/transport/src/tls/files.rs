//! Certificate and key files: reading them, their faults, and whether they have changed.

use super::certificate::{self, CertificateFacts};
use guira_disk::read_file;
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why TLS cannot be used with the given options.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A file contains no certificate.
    #[error("{path} has no certificate", path = path.display())]
    NoCertificate { path: PathBuf },
    /// A certificate in a file is invalid.
    #[error("certificate {number} in {path} cannot be used: {why}", path = path.display())]
    BadCertificate {
        path: PathBuf,
        /// Its number in the file, from 1 on.
        number: usize,
        why: String,
    },
    /// A file contains no private key.
    #[error("{path} has no private key", path = path.display())]
    NoKey { path: PathBuf },
    #[error("the private key in {path} is encrypted: use a key without a passphrase", path = path.display())]
    EncryptedKey { path: PathBuf },
    #[error("the private key in {path} cannot be used: {why}", path = path.display())]
    BadKey { path: PathBuf, why: String },
    /// The private key does not match the certificate.
    #[error("the private key in {key} does not match the certificate in {chain}", key = key.display(), chain = chain.display())]
    KeyDoesNotFit { key: PathBuf, chain: PathBuf },
    /// The name of a server is neither a DNS name nor an address.
    #[error("'{name}' is neither a DNS name nor an IP address")]
    BadName { name: String },
    #[error("cannot set up TLS: {0}")]
    Library(rustls::Error),
}

/// A certificate chain with its key.
pub(super) struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    pub(super) facts: CertificateFacts,
}

impl Identity {
    /// `path` is the file of the key, and may be that of the chain.
    pub(super) fn read(chain_path: &Path, path: &Path, provider: &CryptoProvider) -> Result<Self, TlsError> {
        let chain = certificates(chain_path)?;
        let facts = certificate::facts(&chain[0]);
        let facts = facts.ok_or_else(|| bad_certificate(chain_path, 1, "it is not X.509"))?;
        let key = private_key(path)?;
        let key = load(key, provider).map_err(|error| TlsError::BadKey {
            path: path.to_owned(),
            why: match error {
                rustls::Error::General(why) => why,
                other => other.to_string(),
            },
        })?;
        let key = CertifiedKey::new(chain, key);
        match key.keys_match() {
            // The key's type cannot be checked here; the first handshake does.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => {
                let (key, chain) = (path.to_owned(), chain_path.to_owned());
                return Err(TlsError::KeyDoesNotFit { key, chain });
            }
            Err(error) => return Err(bad_certificate(chain_path, 1, &error.to_string())),
        }
        Ok(Identity { key: Arc::new(key), facts })
    }
}

fn bad_certificate(path: &Path, number: usize, why: &str) -> TlsError {
    TlsError::BadCertificate { path: path.to_owned(), number, why: why.to_owned() }
}

/// Longer than any chain of certificates or list of authorities.
const FILE_MAX: usize = 16 << 20;

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    read_file(path, FILE_MAX).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

/// All certificates in a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&read(path)?) {
        let number = found.len() + 1;
        let certificate = certificate.map_err(|error| bad_certificate(path, number, &error.to_string()))?;
        if certificate::facts(&certificate).is_none() {
            return Err(bad_certificate(path, number, "it is not X.509"));
        }
        found.push(certificate);
    }
    if found.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

/// The first private key in a file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    match PrivateKeyDer::from_pem_slice(&text) {
        Ok(key) => Ok(key),
        // Both ways of encrypting a key in PEM have a line of their own.
        Err(_) if text.windows(9).any(|word| word == b"ENCRYPTED") => {
            Err(TlsError::EncryptedKey { path: path.to_owned() })
        }
        Err(rustls_pki_types::pem::Error::NoItemsFound) => Err(TlsError::NoKey { path: path.to_owned() }),
        Err(error) => Err(TlsError::BadKey { path: path.to_owned(), why: error.to_string() }),
    }
}

/// Decodes a private key. Some files name one format and contain another, and OpenSSL accepts them: so a key that
/// does not match its label is tried in the other formats.
fn load(
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, rustls::Error> {
    let formats: [fn(Vec<u8>) -> PrivateKeyDer<'static>; 3] = [
        |key| PrivateKeyDer::Pkcs8(key.into()),
        |key| PrivateKeyDer::Pkcs1(key.into()),
        |key| PrivateKeyDer::Sec1(key.into()),
    ];
    let bytes = key.secret_der().to_vec();
    provider.key_provider.load_private_key(key).or_else(|error| {
        let others = formats.into_iter().map(|format| format(bytes.clone()));
        let mut loaded = others.filter_map(|key| provider.key_provider.load_private_key(key).ok());
        loaded.next().ok_or(error)
    })
}

/// The authorities for certificates of the other end.
pub(super) fn authorities(path: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for (index, certificate) in certificates(path)?.into_iter().enumerate() {
        let added = store.add(certificate);
        added.map_err(|error| bad_certificate(path, index + 1, &error.to_string()))?;
    }
    Ok(Arc::new(store))
}

/// Metadata of a file; another value means other contents. `None` if the file is missing.
type Stamp = Option<[i64; 7]>;

/// The files of the chain, of the key and of the authorities.
pub(super) type Files<'a> = [Option<&'a Path>; 3];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamps([Stamp; 3]);

impl Stamps {
    /// Stamps the files, without opening them.
    pub(super) fn take(files: Files<'_>) -> Self {
        Stamps(files.map(|file| std::fs::metadata(file?).ok().as_ref().map(stamp)))
    }

    pub(super) fn have_changed(&self, files: Files<'_>) -> bool {
        files.into_iter().zip(&self.0).any(|(file, seen)| differs(file, seen))
    }
}

/// Whether a file has changed. One that cannot be checked any more, because privileges were dropped, counts as
/// unchanged.
fn differs(file: Option<&Path>, seen: &Stamp) -> bool {
    match file.map(std::fs::metadata) {
        Some(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => false,
        Some(Ok(file)) => Some(stamp(&file)) != *seen,
        Some(Err(_)) | None => seen.is_some(),
    }
}

/// A link that points elsewhere has another inode, a file that was written another time or size.
fn stamp(file: &std::fs::Metadata) -> [i64; 7] {
    let inode = [file.dev() as i64, file.ino() as i64];
    let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    [inode[0], inode[1], times[0], times[1], times[2], times[3], file.size() as i64]
}
