//! Handshakes, and clients that do not complete one.

use crate::support::{Authority, Client, Dice, Pair, Server, World, connect, connected, settle};
use guira_transport::{Interest, Progress, Resumption, Stream, TlsAcceptor, TlsFailure, VerifyMode};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};
use std::io::{Read, Write};

/// Whether a client completed its handshake, at both ends.
fn gets_in(client: &mut Client, server: &mut Server) -> bool {
    settle(client, server);
    if server.error.is_some() || client.error.is_some() || server.stream.tls_facts().is_none() {
        return false;
    }
    client.say(b"hello");
    settle(client, server);
    server.received == b"hello"
}

#[test]
fn both_versions_are_supported_and_the_result_is_reported() {
    let world = World::new("versions");
    let acceptor = world.acceptor();
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let mut options = world.client();
        options.versions = Some(version);
        let (mut client, mut server) = connect(&acceptor, &options.config());
        assert_eq!(server.stream.tls_facts(), None);
        assert!(gets_in(&mut client, &mut server));
        let facts = server.stream.tls_facts().unwrap();
        assert_eq!((facts.version, facts.resumed, facts.peer_name), (name, false, None));
        assert!(facts.cipher.contains("AES_256_GCM"), "{}", facts.cipher);
        server.say(b"world");
        settle(&mut client, &mut server);
        assert_eq!(client.received, b"world");
    }
    assert_eq!(
        (acceptor.counters().full() + acceptor.counters().resumed(), acceptor.counters().failed_handshakes()),
        (2, 0)
    );
}

#[test]
fn input_may_come_one_byte_at_a_time() {
    let world = World::new("bytes");
    for version in [&TLS12, &TLS13] {
        let mut options = world.client();
        options.versions = Some(version);
        let (mut client, mut server) = connect(&world.acceptor(), &options.config());
        client.say(b"hello");
        while server.received != b"hello" {
            let bytes = client.outgoing();
            assert!(!bytes.is_empty(), "nothing moves any more");
            for byte in bytes {
                client.socket.write_all(&[byte]).unwrap();
                server.step();
            }
            client.step();
            assert!(server.error.is_none() && client.error.is_none());
        }
    }
}

/// As the library reads them: OpenSSL, and with it memcached, serves them all
/// (docs/develop/decisions/0010-tls.md).
#[test]
fn a_server_name_that_is_no_dns_name_is_refused_by_its_own_cause() {
    let world = World::new("sni");
    let acceptor = world.acceptor();
    let asked = |name: &[u8]| {
        let options = world.client();
        let (mut client, mut server) = connect(&acceptor, &options.config());
        let hello = client.outgoing();
        let at = hello.windows(9).position(|bytes| bytes == b"localhost").expect("a name");
        let hello = [&hello[..at], name, &hello[at + 9..]].concat();
        client.socket.write_all(&hello).unwrap();
        server.step();
        server.fault().map(|fault| fault.failure)
    };
    for name in [b"host:1121", b"1.2.30000", b"-cachebox", b"a..bcdefg", b"*.example", b"m\xc3\xbcnchen1"] {
        assert_eq!(asked(name), Some(TlsFailure::ServerName), "{name:?}");
    }
    for name in [b"127.0.0.1", b"my_server", b"a.server."] {
        assert_eq!(asked(name), None, "{name:?}");
    }
    assert_eq!(acceptor.counters().failures(TlsFailure::ServerName), 6);
}

#[test]
fn a_handshake_goes_on_inside_writes_too() {
    let world = World::new("write");
    let (mut client, mut server) = connect(&world.acceptor(), &world.client().config());
    let mut rounds = 0;
    loop {
        client.step();
        match server.stream.write(b"first").unwrap() {
            Progress::Moved(5) => break,
            Progress::Blocked => {
                // No writing before more was read.
                assert_eq!(server.stream.wants(Interest::Write), Interest::Read);
            }
            other => panic!("{other:?}"),
        }
        rounds += 1;
        assert!(rounds < 10);
    }
    assert!(rounds > 0);
    settle(&mut client, &mut server);
    assert_eq!(client.received, b"first");
}

#[test]
fn input_that_follows_the_handshake_is_not_lost_in_a_write() {
    let world = World::new("early");
    let mut options = world.client();
    options.versions = Some(&TLS13);
    let (mut client, mut server) = connect(&world.acceptor(), &options.config());
    client.step();
    assert_eq!(server.stream.write(b"x").unwrap(), Progress::Blocked);
    client.say(b"hello");
    // The client reads the server's flight, and then sends its own with the request behind it.
    client.step();
    client.step();
    assert_eq!(server.stream.write(b"x").unwrap(), Progress::Moved(1));
    assert!(server.stream.has_input(), "the poller does not know of it");
    assert_eq!(server.stream.wants(Interest::Read), Interest::ReadWrite);
    server.step();
    assert_eq!(server.received, b"hello");
    assert_eq!(server.stream.wants(Interest::Read), Interest::Read);
}

#[test]
fn a_client_that_speaks_plainly_is_shown_the_door_without_a_word() {
    let world = World::new("plain");
    let acceptor = world.acceptor();
    for (times, text) in [&b"g"[..], b"get key\r\n", b"\x80\x0a", b"set k 0 0 1000\r\n"].iter().enumerate() {
        for buffer in [16, 128 << 10] {
            let (mut client, mut server) = connect(&acceptor, &world.client().config());
            server.buffer.resize(buffer, 0);
            client.socket.write_all(text).unwrap();
            server.step();
            assert_eq!(server.fault().unwrap().failure, TlsFailure::PlainText, "{times}");
            drop(server);
            let mut answer = Vec::new();
            client.socket.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"");
        }
    }
    assert_eq!(acceptor.counters().failures(TlsFailure::PlainText), 8);
    assert_eq!(acceptor.counters().failed_handshakes(), 8);
}

#[test]
fn a_client_that_leaves_in_the_middle_is_counted_once_and_one_that_never_came_is_not() {
    let world = World::new("gone");
    let acceptor = world.acceptor();
    let config = world.client().config();
    let (mut client, _server) = connect(&acceptor, &config);
    let hello = client.outgoing();
    for length in (1..hello.len()).step_by(7) {
        let before = acceptor.counters().failures(TlsFailure::Gone);
        let (client, mut server) = connect(&acceptor, &config);
        (&client.socket).write_all(&hello[..length]).unwrap();
        server.step();
        drop(client);
        server.step();
        assert!(server.ended || server.error.is_some());
        drop(server);
        assert_eq!(acceptor.counters().failures(TlsFailure::Gone), before + 1, "{length}");
    }
    let failed = acceptor.counters().failed_handshakes();
    let (client, mut server) = connect(&acceptor, &config);
    drop(client);
    server.step();
    assert!(server.ended);
    assert_eq!(acceptor.counters().failed_handshakes(), failed);
}

#[test]
fn garbage_is_an_error_and_no_panic() {
    let world = World::new("garbage");
    let acceptor = world.acceptor();
    let config = world.client().config();
    let mut dice = Dice::new(1);
    let (mut client, _server) = connect(&acceptor, &config);
    let hello = client.outgoing();
    let mut failed = 0;
    for round in 0..300 {
        let (client, mut server) = connect(&acceptor, &config);
        server.buffer.resize([5, 4_000, 128 << 10][round % 3], 0);
        let mut bytes = if round % 2 == 0 { hello.clone() } else { dice.bytes(300) };
        // It begins like a handshake record, so that the garbage is parsed.
        let length = (bytes.len() - 5) as u16;
        bytes[..3].copy_from_slice(&[22, 3, 1]);
        bytes[3..5].copy_from_slice(&length.to_be_bytes());
        for _ in 0..=dice.below(4) {
            let at = 5 + dice.below(bytes.len() - 5);
            bytes[at] = dice.roll() as u8;
        }
        (&client.socket).write_all(&bytes).unwrap();
        server.step();
        failed += usize::from(server.error.is_some());
        drop(client);
        server.step();
    }
    assert!(failed >= 150, "only {failed} failed");
}

#[test]
fn broken_records_after_the_handshake_end_the_connection_but_not_earlier_input() {
    let world = World::new("tampered");
    let acceptor = world.acceptor();
    for (round, version) in [&TLS12, &TLS13].into_iter().enumerate() {
        let mut options = world.client();
        options.versions = Some(version);
        let (mut client, mut server) = connected(&acceptor, &options.config());
        client.say(b"good");
        let mut bytes = client.outgoing();
        client.say(b"bad");
        let mut tampered = client.outgoing();
        *tampered.last_mut().unwrap() ^= 1;
        bytes.extend(tampered);
        client.socket.write_all(&bytes).unwrap();
        server.step();
        assert_eq!(server.received, b"good");
        assert_eq!(server.fault().unwrap().failure, TlsFailure::Protocol);
        assert!(server.stream.write(b"x").is_err());
        assert_eq!(acceptor.counters().failures(TlsFailure::Protocol), round as u64 + 1);
        client.step();
        assert!(matches!(client.error, Some(rustls::Error::AlertReceived(_))), "{:?}", client.error);
    }
    assert_eq!(acceptor.counters().failed_handshakes(), 0);
}

#[test]
fn verify_modes_let_in_whom_memcached_lets_in() {
    let world = World::new("verify");
    let acceptor = world.acceptor();
    let good = Some(world.authority.issue("client-7"));
    let strange = Some(Authority::new().issue("client-7"));
    let expired = Some(world.authority.issue_until("client-7", 2020));
    let expected = [
        (VerifyMode::None, [true, true, true, true]),
        (VerifyMode::Peer, [true, true, false, false]),
        (VerifyMode::Force, [false, true, false, false]),
        (VerifyMode::Once, [false, true, false, false]),
    ];
    let mut failed = 0;
    for version in [&TLS12, &TLS13] {
        for (mode, expected) in expected {
            let listener = acceptor.with_verify(mode);
            let certificates = [None, good.clone(), strange.clone(), expired.clone()];
            for (certificate, expected) in certificates.into_iter().zip(expected) {
                let mut options = world.client();
                options.versions = Some(version);
                options.certificate = certificate.clone();
                let (mut client, mut server) = connect(&listener, &options.config());
                let case = format!("{mode:?}, {:?}, {expected}", certificate.is_some());
                assert_eq!(gets_in(&mut client, &mut server), expected, "{case}");
                if expected {
                    let asked = mode != VerifyMode::None && certificate.is_some();
                    let name = server.stream.tls_facts().unwrap().peer_name;
                    assert_eq!(name.as_deref(), asked.then_some("client-7"), "{case}");
                } else {
                    failed += 1;
                    assert_eq!(server.fault().unwrap().failure, TlsFailure::Certificate, "{case}");
                    assert!(client.error.is_some(), "the client gets an alert");
                }
            }
        }
    }
    assert_eq!(acceptor.counters().failures(TlsFailure::Certificate), failed);
    assert_eq!(acceptor.counters().failed_handshakes(), failed);
}

#[test]
fn without_authorities_no_certificate_of_a_client_holds() {
    let mut world = World::new("no-authorities");
    world.options.authorities = None;
    let acceptor = world.acceptor();
    for version in [&TLS12, &TLS13] {
        for (mode, shows, expected) in [
            (VerifyMode::Peer, false, true),
            (VerifyMode::Peer, true, false),
            (VerifyMode::Force, false, false),
            (VerifyMode::Force, true, false),
            (VerifyMode::None, true, true),
        ] {
            let mut options = world.client();
            options.versions = Some(version);
            options.certificate = shows.then(|| world.authority.issue("client-7"));
            let (mut client, mut server) = connect(&acceptor.with_verify(mode), &options.config());
            assert_eq!(gets_in(&mut client, &mut server), expected, "{mode:?}, {shows}");
        }
    }
}

#[test]
fn a_self_signed_client_certificate_is_accepted_if_it_is_listed_and_no_ca() {
    let mut world = World::new("itself");
    world.options.verify = VerifyMode::Force;
    for (is_ca, expected) in [(IsCa::ExplicitNoCa, true), (IsCa::Ca(BasicConstraints::Unconstrained), false)]
    {
        let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        params.is_ca = is_ca;
        let key = KeyPair::generate().unwrap();
        let pair = Pair { chain: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() };
        world.folder.write("authority.crt", &pair.chain);
        let mut options = world.client();
        options.certificate = Some(pair);
        let (mut client, mut server) = connect(&world.acceptor(), &options.config());
        assert_eq!(gets_in(&mut client, &mut server), expected, "{:?}", server.error);
    }
}

#[test]
fn a_client_without_a_version_or_a_suite_in_common_is_refused() {
    let mut world = World::new("nothing");
    world.options.min_version = "tlsv1.3".parse().unwrap();
    world.options.ciphers = "TLS_AES_128_GCM_SHA256".parse().unwrap();
    let acceptor = world.acceptor();
    let mut old = world.client();
    old.versions = Some(&TLS12);
    let mut other = world.client();
    other.versions = Some(&TLS13);
    other.suites = Some(vec![rustls::crypto::ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256]);
    for options in [old, other] {
        let (mut client, mut server) = connect(&acceptor, &options.config());
        assert!(!gets_in(&mut client, &mut server));
        assert_eq!(server.fault().unwrap().failure, TlsFailure::NothingInCommon);
    }
    assert_eq!(acceptor.counters().failures(TlsFailure::NothingInCommon), 2);
    let (mut client, mut server) = connect(&acceptor, &world.client().config());
    assert!(gets_in(&mut client, &mut server));
    assert_eq!(server.stream.tls_facts().unwrap().cipher, "TLS_AES_128_GCM_SHA256");
}

#[test]
fn the_old_version_is_spoken_unless_the_oldest_is_the_new_one() {
    let mut world = World::new("oldest");
    let mut old = world.client();
    old.versions = Some(&TLS12);
    for (min_version, expected) in [("tlsv1.2", true), ("tlsv1.3", false)] {
        world.options.min_version = min_version.parse().unwrap();
        let (mut client, mut server) = connect(&world.acceptor(), &old.config());
        assert_eq!(gets_in(&mut client, &mut server), expected, "{min_version}");
    }
}

#[test]
fn a_handshake_without_an_end_is_given_up() {
    let world = World::new("endless");
    let acceptor = world.acceptor();
    for claimed in [65_535_u32, 65_536, 0xff_ffff] {
        let (mut client, mut server) = connect(&acceptor, &world.client().config());
        // A hello with a large length, in records of one byte after the first.
        let [_, high, middle, low] = claimed.to_be_bytes();
        client.socket.write_all(&[22, 3, 1, 0, 4, 1, high, middle, low]).unwrap();
        let mut sent = 0;
        while server.error.is_none() {
            client.socket.write_all(&[22, 3, 1, 0, 1, 0].repeat(1_000)).unwrap();
            server.step();
            sent += 1_000;
            assert!(sent <= 100_000);
        }
        assert_eq!(server.fault().unwrap().failure, TlsFailure::Handshake);
    }
    assert_eq!(acceptor.counters().failed_handshakes(), 3);
}

#[test]
fn only_suites_of_the_list_are_used_with_the_old_version() {
    let mut world = World::new("ciphers");
    world.options.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256".parse().unwrap();
    let mut options = world.client();
    options.versions = Some(&TLS12);
    let (_client, server) = connected(&world.acceptor(), &options.config());
    assert_eq!(server.stream.tls_facts().unwrap().cipher, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    world.options.ciphers = "TLS_AES_128_GCM_SHA256".parse().unwrap();
    let (mut client, mut server) = connect(&world.acceptor(), &options.config());
    assert!(!gets_in(&mut client, &mut server), "no suite of the old version is in the list");
}

/// The kind of a client's second handshake.
fn second_handshake(acceptor: &TlsAcceptor, options: &crate::support::ClientOptions) -> HandshakeKind {
    let config = options.config();
    let (client, server) = connected(acceptor, &config);
    assert_eq!(client.session.handshake_kind(), Some(HandshakeKind::Full));
    drop(server);
    let (client, server) = connected(acceptor, &config);
    let kind = client.session.handshake_kind().unwrap();
    assert_eq!(server.stream.tls_facts().unwrap().resumed, kind == HandshakeKind::Resumed);
    if acceptor.options().resumption == Resumption::Off {
        assert_eq!(client.session.tls13_tickets_received(), 0);
    }
    kind
}

#[test]
fn sessions_are_resumed_if_and_only_if_that_is_wanted() {
    let mut world = World::new("resumption");
    for (resumption, kind) in
        [(Resumption::Off, HandshakeKind::Full), (Resumption::Tickets, HandshakeKind::Resumed)]
    {
        world.options.resumption = resumption;
        for version in [&TLS12, &TLS13] {
            let mut options = world.client();
            options.versions = Some(version);
            let acceptor = world.acceptor();
            assert_eq!(second_handshake(&acceptor, &options), kind, "{resumption:?}");
            assert_eq!(acceptor.counters().full() + acceptor.counters().resumed(), 2);
            assert_eq!(acceptor.counters().resumed(), u64::from(kind == HandshakeKind::Resumed));
        }
    }
}

#[test]
fn a_resumed_session_still_knows_whose_it_is() {
    let mut world = World::new("resumed-name");
    world.options.resumption = Resumption::Tickets;
    world.options.verify = VerifyMode::Force;
    let mut options = world.client();
    options.certificate = Some(world.authority.issue("client-7"));
    let (acceptor, config) = (world.acceptor(), options.config());
    for resumed in [false, true] {
        let (_client, server) = connected(&acceptor, &config);
        let facts = server.stream.tls_facts().unwrap();
        assert_eq!((facts.resumed, facts.peer_name.as_deref()), (resumed, Some("client-7")));
    }
}

#[test]
fn a_session_without_a_certificate_is_not_resumed_where_one_is_needed() {
    let mut world = World::new("crossing");
    world.options.resumption = Resumption::Tickets;
    for version in [&TLS12, &TLS13] {
        let mut options = world.client();
        options.versions = Some(version);
        let (open, config) = (world.acceptor(), options.config());
        let (client, server) = connected(&open, &config);
        drop((client, server));
        let closed = open.with_verify(VerifyMode::Force);
        let (mut client, mut server) = connect(&closed, &config);
        assert!(!gets_in(&mut client, &mut server));
        assert_eq!(server.fault().unwrap().failure, TlsFailure::Certificate);
    }
}

#[test]
fn a_client_that_does_not_trust_the_server_is_a_failed_handshake() {
    let world = World::new("distrust");
    let acceptor = world.acceptor();
    let mut options = world.client();
    options.trusted = Authority::new().pem;
    let (mut client, mut server) = connect(&acceptor, &options.config());
    assert!(!gets_in(&mut client, &mut server));
    assert_eq!(server.fault().unwrap().failure, TlsFailure::Handshake);
    assert!(server.fault().unwrap().to_string().contains("the handshake failed: "));
}

#[test]
fn a_stream_stays_small() {
    assert!(size_of::<Stream>() <= 16);
}
