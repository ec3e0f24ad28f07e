//! A certificate authority for servers on this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::scratch::Scratch;

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate: {0}")]
    Sign(#[from] rcgen::Error),
    #[error("cannot write a certificate: {0}")]
    Write(#[from] io::Error),
}

/// An authority, and PEM files of the server certificate that it has signed last. The files are in a folder that only this user can read, and
/// are removed on drop.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    names: Vec<String>,
    scratch: Scratch,
}

impl Authority {
    /// Makes an authority and a certificate for `localhost` and 127.0.0.1.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn new() -> Result<Self, CertificateError> {
        Self::for_names(&["localhost", "127.0.0.1"])
    }

    /// Makes an authority and a certificate for these names and addresses.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn for_names(names: &[&str]) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        let root = params.self_signed(&key)?;
        let authority = Self {
            issuer: Issuer::new(params, key),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            scratch: Scratch::within(&std::env::temp_dir())?,
        };
        fs::write(authority.root(), root.pem())?;
        authority.renew()?;
        Ok(authority)
    }

    /// The authority's own certificate, which clients trust.
    pub fn root(&self) -> PathBuf {
        self.scratch.file("authority.pem")
    }

    pub fn certificate(&self) -> PathBuf {
        self.scratch.file("certificate.pem")
    }

    /// The key of the server's certificate.
    pub fn key(&self) -> PathBuf {
        self.scratch.file("key.pem")
    }

    /// The server's certificate and its key in one file.
    pub fn both(&self) -> PathBuf {
        self.scratch.file("both.pem")
    }

    /// Signs a certificate for a new key and replaces the server's files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn renew(&self) -> Result<(), CertificateError> {
        let key = KeyPair::generate()?;
        let signed = CertificateParams::new(self.names.clone())?.signed_by(&key, &self.issuer)?;
        let (certificate, key) = (signed.pem(), key.serialize_pem());
        replace(&self.certificate(), &certificate)?;
        replace(&self.key(), &key)?;
        Ok(replace(&self.both(), &(certificate + &key))?)
    }

    /// Puts a text that is no certificate into [`Authority::both`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn spoil(&self) -> Result<(), CertificateError> {
        Ok(replace(&self.both(), "-----BEGIN CERTIFICATE-----\nnot one\n")?)
    }
}

/// Replaces a file in one step: a server that reads it meanwhile finds the old text or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, text)?;
    fs::rename(&unfinished, path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Authority;

    #[test]
    fn certificates_are_renewed_and_spoilt_in_place() {
        let authority = Authority::new().unwrap();
        let read = || fs::read_to_string(authority.both()).unwrap();
        let first = read();
        let parts = [authority.certificate(), authority.key()].map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(first, parts.concat());
        authority.renew().unwrap();
        assert_ne!(read(), first);
        authority.spoil().unwrap();
        assert!(!read().contains("END CERTIFICATE"));
        assert!(fs::read_to_string(authority.root()).unwrap().contains("END CERTIFICATE"));
    }
}
