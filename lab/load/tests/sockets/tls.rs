//! Loads over TLS, and servers that a client must not believe.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use guira_load::LoadError;
use guira_load::engine::Quiet;
use guira_load::target::{Carrier, Target};
use guira_load::tls::{TlsClient, Trust, server_config};
use guira_workload::{Popularity, SizeModel};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use crate::fixture::serve_tls;
use crate::load::{EVERYTHING, load};

/// A certificate for `name` in a folder of this test, which is removed when this is dropped.
struct Files {
    folder: PathBuf,
}

impl Files {
    fn make(test: &str, name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("guira-tls-test-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).expect("a scratch folder");
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        fs::write(folder.join("certificate.pem"), cert.pem()).expect("a file");
        fs::write(folder.join("key.pem"), signing_key.serialize_pem()).expect("a file");
        Self { folder }
    }

    fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).expect("the folder is ours");
    }
}

#[test]
fn a_right_cache_is_found_right_over_tls() {
    let files = Files::make("right", "127.0.0.1");
    let addr = serve_tls(server_config(&files.certificate(), &files.key()).unwrap());
    let tls = TlsClient::new(Trust::Authority(&files.certificate())).unwrap();
    assert_eq!(tls.agreed(addr).unwrap(), "TLSv1_3, TLS13_AES_128_GCM_SHA256");
    let mut load = load(addr, EVERYTHING);
    load.target = Target { carrier: Carrier::Tls(tls), ..Target::text(addr) };
    load.preload(&mut Quiet).unwrap().require_right().unwrap();
    let outcome = load.run(None, &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    let counts = &outcome.tally.counts;
    assert!(counts.hits > 100 && counts.sets > 0 && counts.hits < counts.gets, "{counts:?}");
}

#[test]
fn over_tls_more_is_asked_than_the_socket_takes_at_once() {
    let files = Files::make("large", "127.0.0.1");
    let addr = serve_tls(server_config(&files.certificate(), &files.key()).unwrap());
    let tls = TlsClient::new(Trust::Authority(&files.certificate())).unwrap();
    let mut load = load(addr, EVERYTHING);
    load.target = Target { carrier: Carrier::Tls(tls), ..Target::text(addr) };
    load.pipeline = 64;
    load.model.sizes = SizeModel::Constant(500_000);
    load.model.popularity = Popularity::Uniform { count: 64 };
    let preloaded = load.preload(&mut Quiet).unwrap();
    assert_eq!((preloaded.tally.counts.sets, preloaded.tally.counts.wrong), (64, 0));
}

#[test]
fn a_stranger_is_refused_unless_anyone_is_believed() {
    let (one, other) = (Files::make("one", "127.0.0.1"), Files::make("other", "127.0.0.1"));
    let elsewhere = Files::make("elsewhere", "example.org");
    let refused = |files: &Files, trust: &Files| {
        let addr = serve_tls(server_config(&files.certificate(), &files.key()).unwrap());
        let tls = TlsClient::new(Trust::Authority(&trust.certificate())).unwrap();
        let error = tls.agreed(addr).unwrap_err();
        assert!(matches!(error, LoadError::Tls(_)), "{error}");
        TlsClient::new(Trust::Anyone).unwrap().agreed(addr).unwrap();
        error.to_string()
    };
    assert!(refused(&one, &other).contains("handshake"));
    assert!(refused(&elsewhere, &elsewhere).contains("not valid for name"));
}

#[test]
fn an_older_version_of_tls_is_refused() {
    let files = Files::make("older", "127.0.0.1");
    let chain = vec![CertificateDer::from_pem_file(files.certificate()).unwrap()];
    let key = PrivateKeyDer::from_pem_file(files.key()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let error = TlsClient::new(Trust::Anyone).unwrap().agreed(serve_tls(Arc::new(config))).unwrap_err();
    assert!(matches!(error, LoadError::Tls(_)), "{error}");
}

#[test]
fn files_that_are_no_certificates_are_told_by_name() {
    let files = Files::make("wrong", "127.0.0.1");
    let error = TlsClient::new(Trust::Authority(&files.key())).unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
    let error = server_config(&files.certificate(), &files.certificate()).unwrap_err().to_string();
    assert!(error.contains("certificate.pem"), "{error}");
}
