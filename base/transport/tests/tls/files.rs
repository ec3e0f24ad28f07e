//! Certificate and key files: their faults are reported, and they can be replaced while the server runs.

use crate::support::{Folder, NOW, World, connect, connected, settle};
use guira_transport::{TlsAcceptor, TlsOptions, VerifyMode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

fn error(options: &TlsOptions) -> String {
    let error = TlsAcceptor::new(options.clone(), NOW).unwrap_err();
    let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
    format!("{error}{}", source.unwrap_or_default())
}

#[test]
fn the_fault_of_a_file_is_reported_with_its_name() {
    let world = World::new("errors");
    let folder = &world.folder;
    let other = world.authority.issue("another");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let cases: [(&str, &str, &str, &str); 8] = [
        ("missing.crt", "", "server.key", "cannot read"),
        ("empty.crt", "\n", "server.key", "has no certificate"),
        ("key.crt", &other.key, "server.key", "has no certificate"),
        ("broken.crt", broken, "server.key", "certificate 1 in"),
        ("server.crt", "", "missing.key", "cannot read"),
        ("server.crt", "", "server.crt", "has no private key"),
        ("server.crt", "", "other.key", "does not match the certificate in"),
        ("server.crt", "", "short.key", "the private key in"),
    ];
    folder.write("other.key", &other.key);
    folder.write("short.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    for (chain, text, key, expected) in cases {
        if !text.is_empty() {
            folder.write(chain, text);
        }
        let mut options = TlsOptions::new(folder.path(chain));
        options.key = Some(folder.path(key));
        let error = error(&options);
        assert!(error.contains(expected), "{chain} {key}: {error}");
        assert!(error.contains(chain) || error.contains(key), "{error}");
        if expected == "cannot read" {
            assert!(error.contains("No such file"), "{error}");
        }
    }
    let mut options = world.options.clone();
    options.authorities = Some(folder.path("server.key"));
    assert!(error(&options).contains("server.key"), "the authorities are read too");
}

#[test]
fn the_second_certificate_of_a_chain_is_looked_at_too() {
    let world = World::new("second");
    let chain = std::fs::read_to_string(&world.options.chain).unwrap();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    world.folder.write("server.crt", &format!("{chain}{broken}"));
    assert!(error(&world.options).contains("certificate 2 in"));
}

#[test]
fn keys_are_read_in_all_three_formats_and_beside_the_certificate() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/data");
    for (chain, key) in [("rsa.crt", "rsa.pkcs1.key"), ("ec.crt", "ec.sec1.key")] {
        let mut options = TlsOptions::new(data.join(chain));
        options.key = Some(data.join(key));
        let acceptor = TlsAcceptor::new(options, NOW).unwrap();
        assert_eq!(acceptor.status().common_name.as_deref(), Some("localhost"));
        let folder = Folder::new(key);
        let both = [chain, key].map(|name| std::fs::read_to_string(data.join(name)).unwrap()).concat();
        TlsAcceptor::new(TlsOptions::new(folder.write("both.pem", &both)), NOW).unwrap();
    }
    // The third format, PKCS #8, is what the other tests use.
    for key in ["rsa.encrypted.key", "rsa.encrypted8.key"] {
        let mut options = TlsOptions::new(data.join("rsa.crt"));
        options.key = Some(data.join(key));
        assert!(error(&options).contains("is encrypted"), "{key}: {}", error(&options));
    }
}

#[test]
fn keys_under_the_name_of_another_format_are_read_too() {
    let world = World::new("misnamed");
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/data");
    let pairs = [
        (data.join("rsa.crt"), data.join("rsa.pkcs1.key"), "RSA PRIVATE KEY"),
        (data.join("ec.crt"), data.join("ec.sec1.key"), "EC PRIVATE KEY"),
        (world.options.chain.clone(), world.folder.path("server.key"), "PRIVATE KEY"),
    ];
    for (chain, key, name) in pairs {
        let text = std::fs::read_to_string(key).unwrap();
        for other in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
            let misnamed = text.replace(&format!("-----BEGIN {name}"), &format!("-----BEGIN {other}"));
            let misnamed = misnamed.replace(&format!("-----END {name}"), &format!("-----END {other}"));
            let mut options = TlsOptions::new(chain.clone());
            options.key = Some(world.folder.write("misnamed.key", &misnamed));
            assert!(TlsAcceptor::new(options, NOW).is_ok(), "{name} as {other}");
        }
    }
}

#[test]
fn an_rsa_key_is_good_for_a_handshake() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/data");
    let mut options = TlsOptions::new(data.join("rsa.crt"));
    options.key = Some(data.join("rsa.pkcs1.key"));
    let acceptor = TlsAcceptor::new(options, NOW).unwrap();
    let trusted = std::fs::read_to_string(data.join("rsa.crt")).unwrap();
    let client = crate::support::ClientOptions { trusted, ..Default::default() };
    let (mut client, mut server) = connect(&acceptor, &client.config());
    settle(&mut client, &mut server);
    assert!(server.stream.tls_facts().is_some(), "{:?} {:?}", server.error, client.error);
}

/// The certificate that a client receives.
fn seen(client: &crate::support::Client) -> Vec<u8> {
    client.session.peer_certificates().unwrap()[0].to_vec()
}

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

#[test]
fn new_files_are_for_new_connections_and_old_ones_go_on() {
    let world = World::new("reload");
    let acceptor = world.acceptor();
    let listener = acceptor.with_verify(VerifyMode::Peer);
    let config = world.client().config();
    let before = acceptor.status();
    assert_eq!((before.loaded_at, before.reloads, before.failed_reloads), (NOW, 0, 0));
    assert_eq!(before.common_name.as_deref(), Some("the server"));
    let (mut old, mut old_server) = connected(&acceptor, &config);
    // One is in the middle of its handshake.
    let (mut middle, mut middle_server) = connect(&acceptor, &config);
    middle.step();
    middle_server.step();

    let next = world.authority.issue_until("the next server", 2049);
    assert!(!acceptor.changed());
    world.folder.write("server.crt", &next.chain);
    world.folder.write("server.key", &next.key);
    assert!(acceptor.changed());
    acceptor.reload(NOW + 5).unwrap();
    assert!(!acceptor.changed());

    let after = acceptor.status();
    assert_eq!((after.loaded_at, after.reloads, after.failed_reloads), (NOW + 5, 1, 0));
    // `date -u -d 2049-02-28 +%s`
    assert_eq!(after.not_after, 2_498_083_200);
    assert_eq!(after.common_name.as_deref(), Some("the next server"));
    for acceptor in [&acceptor, &listener] {
        let (client, _server) = connected(acceptor, &config);
        assert_eq!(seen(&client), der(&next.chain));
    }
    settle(&mut middle, &mut middle_server);
    assert_ne!(seen(&middle), der(&next.chain));
    for (client, server) in [(&mut old, &mut old_server), (&mut middle, &mut middle_server)] {
        client.say(b"still");
        settle(client, server);
        server.say(b"here");
        settle(client, server);
        assert_eq!((server.received.as_slice(), client.received.as_slice()), (&b"still"[..], &b"here"[..]));
    }
}

#[test]
fn a_failed_reload_leaves_everything_as_it_was_until_the_files_change_again() {
    let world = World::new("failed-reload");
    let acceptor = world.acceptor();
    let config = world.client().config();
    let first = std::fs::read_to_string(&world.options.chain).unwrap();
    let next = world.authority.issue("the next server");
    // The certificate is written, its key not yet, and then in part.
    world.folder.write("server.crt", &next.chain);
    for (failures, key) in [(1, None), (2, Some(&next.key[..60]))] {
        if let Some(key) = key {
            world.folder.write("server.key", key);
        }
        assert!(acceptor.changed());
        acceptor.reload(NOW + 1).unwrap_err();
        assert!(!acceptor.changed(), "it is not tried over and over");
        let status = acceptor.status();
        assert_eq!((status.loaded_at, status.reloads, status.failed_reloads), (NOW, 0, failures));
        assert_eq!(status.common_name.as_deref(), Some("the server"));
        let (client, _server) = connected(&acceptor, &config);
        assert_eq!(seen(&client), der(&first));
    }
    world.folder.write("server.key", &next.key);
    assert!(acceptor.changed());
    acceptor.reload(NOW + 2).unwrap();
    let (client, _server) = connected(&acceptor, &config);
    assert_eq!(seen(&client), der(&next.chain));
}

#[test]
fn files_that_are_replaced_or_removed_or_linked_elsewhere_have_changed() {
    let world = World::new("replaced");
    let folder = &world.folder;
    let mut options = world.options.clone();
    std::os::unix::fs::symlink("server.crt", folder.path("link.crt")).unwrap();
    options.chain = folder.path("link.crt");
    let acceptor = TlsAcceptor::new(options, NOW).unwrap();
    let text = std::fs::read_to_string(folder.path("server.crt")).unwrap();
    folder.write("new.crt", &text);
    assert!(!acceptor.changed());
    std::fs::remove_file(folder.path("link.crt")).unwrap();
    assert!(acceptor.changed(), "removed");
    std::os::unix::fs::symlink("new.crt", folder.path("link.crt")).unwrap();
    assert!(acceptor.changed(), "linked elsewhere");
    acceptor.reload(NOW).unwrap();
    folder.write("other.crt", &text);
    std::fs::rename(folder.path("other.crt"), folder.path("new.crt")).unwrap();
    assert!(acceptor.changed(), "replaced");
    acceptor.reload(NOW).unwrap();
    folder.write("authority.crt", &world.authority.pem.repeat(2));
    assert!(acceptor.changed(), "the authorities");
}

#[test]
fn a_client_of_an_authority_that_is_gone_is_not_let_in_after_a_reload() {
    let mut world = World::new("revoked");
    world.options.verify = VerifyMode::Force;
    world.options.resumption = guira_transport::Resumption::Tickets;
    let acceptor = world.acceptor();
    let mut client = world.client();
    client.certificate = Some(world.authority.issue("client"));
    let config = client.config();
    drop(connected(&acceptor, &config));
    world.folder.write("authority.crt", &crate::support::Authority::new().pem);
    acceptor.reload(NOW).unwrap();
    // Nor by resuming its earlier session.
    let (mut client, mut server) = connect(&acceptor, &config);
    settle(&mut client, &mut server);
    assert!(server.fault().is_some());
}
