//! Loads over TLS, and servers that a client must not believe.

use std::sync::Arc;

use guira_harness::certificate::Authority;
use guira_load::LoadError;
use guira_load::engine::Quiet;
use guira_load::target::{Carrier, Target};
use guira_load::tls::{TlsClient, Trust, server_config};
use guira_workload::{Popularity, SizeModel};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::fixture::serve_tls;
use crate::load::{EVERYTHING, load};

fn config(authority: &Authority, version: &'static SupportedProtocolVersion) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_file(authority.certificate()).unwrap()];
    let key = PrivateKeyDer::from_pem_file(authority.key()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

#[test]
fn a_right_cache_is_found_right_over_tls() {
    let authority = Authority::new().unwrap();
    let addr = serve_tls(config(&authority, &rustls::version::TLS13));
    let tls = TlsClient::new(Trust::Authority(&authority.root())).unwrap();
    assert_eq!(tls.agreed(addr).unwrap(), "TLSv1_3, TLS13_AES_128_GCM_SHA256");
    let mut load = load(addr, EVERYTHING);
    load.target = Target { carrier: Carrier::Tls(tls), ..Target::text(addr) };
    load.preload(&mut Quiet).unwrap().require_right().unwrap();
    let outcome = load.run(None, &mut Quiet).unwrap();
    outcome.require_right().unwrap();
    let counts = &outcome.counters.counts;
    assert!(counts.hits > 100 && counts.sets > 0 && counts.hits < counts.gets, "{counts:?}");
}

#[test]
fn over_tls_more_is_asked_than_the_socket_takes_at_once() {
    let authority = Authority::new().unwrap();
    let addr = serve_tls(config(&authority, &rustls::version::TLS13));
    let tls = TlsClient::new(Trust::Authority(&authority.root())).unwrap();
    let mut load = load(addr, EVERYTHING);
    load.target = Target { carrier: Carrier::Tls(tls), ..Target::text(addr) };
    load.pipeline = 64;
    load.model.sizes = SizeModel::Constant(500_000);
    load.model.popularity = Popularity::Uniform { count: 64 };
    let preloaded = load.preload(&mut Quiet).unwrap();
    assert_eq!((preloaded.counters.counts.sets, preloaded.counters.counts.wrong), (64, 0));
}

#[test]
fn a_stranger_is_refused_unless_anyone_is_believed() {
    let (one, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let elsewhere = Authority::for_names(&["example.org"]).unwrap();
    let refused = |server: &Authority, trusted: &Authority| {
        let addr = serve_tls(config(server, &rustls::version::TLS13));
        let tls = TlsClient::new(Trust::Authority(&trusted.root())).unwrap();
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
    let authority = Authority::new().unwrap();
    let error = TlsClient::new(Trust::Anyone)
        .unwrap()
        .agreed(serve_tls(config(&authority, &rustls::version::TLS12)))
        .unwrap_err();
    assert!(matches!(error, LoadError::Tls(_)), "{error}");
}

#[test]
fn files_that_are_no_certificates_are_told_by_name() {
    let authority = Authority::new().unwrap();
    let error = TlsClient::new(Trust::Authority(&authority.key())).unwrap_err().to_string();
    assert!(error.contains("key.pem"), "{error}");
    let error = server_config(&authority.certificate(), &authority.certificate()).unwrap_err().to_string();
    assert!(error.contains("certificate.pem"), "{error}");
}
