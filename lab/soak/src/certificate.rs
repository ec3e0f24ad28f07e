//! An authority, and certificates for the server that it signs anew again and again.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;

/// An authority and the files of the certificate that it has signed last.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    root: rcgen::Certificate,
    folder: PathBuf,
}

impl Authority {
    /// A new one, whose files lie in `folder`.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        let make = || -> Result<(rcgen::Certificate, Issuer<'static, KeyPair>), rcgen::Error> {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.distinguished_name.push(DnType::CommonName, "soak authority");
            Ok((params.self_signed(&key)?, Issuer::new(params, key)))
        };
        let (root, issuer) = make().map_err(|error| format!("cannot make an authority: {error}"))?;
        let authority = Authority { issuer, root, folder: folder.to_owned() };
        authority.renew()?;
        Ok(authority)
    }

    /// The file of the server's certificate and key.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// Signs a new certificate with a new key and puts it in the place of the last.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn renew(&self) -> Result<(), String> {
        let make = || -> Result<String, rcgen::Error> {
            let key = KeyPair::generate()?;
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let signed = CertificateParams::new(names)?.signed_by(&key, &self.issuer)?;
            Ok(signed.pem() + &key.serialize_pem())
        };
        let text = make().map_err(|error| format!("cannot make a certificate: {error}"))?;
        self.replace(&text)
    }

    /// Puts something in the place of the certificate that is none.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn spoil(&self) -> Result<(), String> {
        self.replace("-----BEGIN CERTIFICATE-----\nnot one\n")
    }

    fn replace(&self, text: &str) -> Result<(), String> {
        let unfinished = self.folder.join("server.pem.new");
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, self.file()))
            .map_err(|error| format!("cannot write a certificate: {error}"))
    }

    /// Whom clients believe.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.root.der().clone())
            .map_err(|error| format!("cannot believe the authority: {error}"))?;
        Ok(roots)
    }
}
