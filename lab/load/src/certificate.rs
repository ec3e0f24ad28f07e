//! A certificate for servers on this machine, made anew for each.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::error::LoadError;

/// PEM files in a scratch folder that only this user can read: an authority, and a certificate for 127.0.0.1 with its
/// key. They are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Certificate {
    folder: PathBuf,
}

/// The text of three PEM files.
struct Pems {
    authority: String,
    certificate: String,
    key: String,
}

fn pems() -> Result<Pems, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let signed = CertificateParams::new(names)?.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok(Pems { authority: root.pem(), certificate: signed.pem(), key: key.serialize_pem() })
}

impl Certificate {
    /// Makes one.
    pub(crate) fn make() -> Result<Self, LoadError> {
        let pems = pems().map_err(|error| LoadError::Tls(format!("cannot make a certificate: {error}")))?;
        let made = Self { folder: scratch()? };
        let files = [
            (made.authority(), pems.authority),
            (made.certificate(), pems.certificate),
            (made.key(), pems.key),
        ];
        for (path, text) in files {
            fs::write(&path, text).map_err(|source| LoadError::File { path, source })?;
        }
        Ok(made)
    }

    /// Whom a client must believe.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// What the server shows.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// The key of what the server shows.
    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's scratch folder, and is of no use to anybody.
        let _stays = fs::remove_dir_all(&self.folder);
    }
}

/// A new folder that nobody else can look into.
fn scratch() -> Result<PathBuf, LoadError> {
    let parent = std::env::temp_dir();
    for number in 1_u32.. {
        let path = parent.join(format!("guira-tls-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(LoadError::File { path, source }),
        }
    }
    Err(LoadError::Options("no free name for a scratch folder".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::Certificate;
    use crate::tls::{TlsClient, Trust, server_config};

    #[test]
    fn its_files_are_of_use_to_both_sides_and_go_with_it() {
        let (one, two) = (Certificate::make().unwrap(), Certificate::make().unwrap());
        assert_ne!(one.folder, two.folder);
        server_config(&one.certificate(), &one.key()).unwrap();
        TlsClient::new(Trust::Authority(&one.authority())).unwrap();
        let folder = one.folder.clone();
        drop(one);
        assert!(!folder.exists() && two.folder.exists());
    }
}
