//! Clients: what a connector makes, against an acceptor at the other end.

use crate::support::{Authority, NOW, World};
use guira_transport::net::UnixStream;
use guira_transport::{
    NameCheck, Progress, Resumption, Stream, TlsAcceptor, TlsClientOptions, TlsConnector, TlsFailure,
    TlsFault, TlsName, TlsOptions, VerifyMode,
};
use std::io::{self, Read, Write};

fn options(world: &World) -> TlsClientOptions {
    let trusting = TlsClientOptions::trusting(world.options.authorities.clone());
    TlsClientOptions { resumption: Resumption::Off, ..trusting }
}

fn localhost() -> TlsName {
    "localhost".parse().unwrap()
}

/// The two ends of a socket, of which the first has TLS.
fn half(connector: &TlsConnector, name: &TlsName) -> (Stream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    (connector.connect(Stream::Unix(ours), name).unwrap(), theirs)
}

fn read(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match stream.read(&mut buffer)? {
            Progress::Moved(bytes) => all.extend_from_slice(&buffer[..bytes]),
            Progress::Blocked => return Ok(all),
            Progress::Ended => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A client and a server after their handshake, and a question that was answered; or why the client has none.
fn talk(connector: &TlsConnector, acceptor: &TlsAcceptor, name: &TlsName) -> io::Result<(Stream, Stream)> {
    let (mut client, theirs) = half(connector, name);
    let mut server = acceptor.accept(Stream::Unix(theirs)).unwrap();
    let mut heard = Vec::new();
    for _ in 0..10 {
        heard.extend(read(&mut client)?);
        // What a server complains of, its client learns by an alert.
        let _ = read(&mut server);
        if client.tls_facts().is_some() && server.tls_facts().is_some() {
            break;
        }
    }
    assert_eq!(client.write(b"get key\r\n")?, Progress::Moved(9));
    match read(&mut server) {
        Ok(asked) => assert_eq!(asked, b"get key\r\n"),
        Err(_) => {
            read(&mut client)?;
            return Err(io::ErrorKind::Other.into());
        }
    }
    assert_eq!(server.write(b"END\r\n")?, Progress::Moved(5));
    assert_eq!((read(&mut client)?, heard.len()), (b"END\r\n".to_vec(), 0));
    Ok((client, server))
}

fn failure(error: &io::Error) -> Option<TlsFailure> {
    Some(error.get_ref()?.downcast_ref::<TlsFault>()?.failure)
}

#[test]
fn both_ends_agree_on_what_is_newest() {
    let world = World::new("client-agree");
    let connector = TlsConnector::new(options(&world)).unwrap();
    let (client, server) = talk(&connector, &world.acceptor(), &localhost()).unwrap();
    let (ours, theirs) = (client.tls_facts().unwrap(), server.tls_facts().unwrap());
    assert_eq!((ours.version, ours.cipher), ("TLSv1.3", theirs.cipher));
    assert_eq!((ours.peer_name.as_deref(), theirs.peer_name), (Some("the server"), None));
    assert_eq!((connector.counters().full(), connector.counters().failed_handshakes()), (1, 0));
}

#[test]
fn a_certificate_is_checked_as_far_as_it_is_to_be() {
    let (world, other) = (World::new("client-check"), World::new("client-other"));
    let acceptor = world.acceptor();
    let elsewhere: TlsName = "elsewhere.example".parse().unwrap();
    let outcome = |options: TlsClientOptions, name: &TlsName| {
        let connector = TlsConnector::new(options).unwrap();
        let failed = talk(&connector, &acceptor, name).err().map(|error| failure(&error).unwrap());
        assert_eq!(connector.counters().failed_handshakes(), u64::from(failed.is_some()));
        failed
    };
    let refused = Some(TlsFailure::Certificate);
    assert_eq!(outcome(options(&world), &localhost()), None);
    assert_eq!(outcome(options(&world), &elsewhere), refused);
    assert_eq!(outcome(options(&world), &"127.0.0.1".parse().unwrap()), refused);
    let unnamed = || TlsClientOptions { names: NameCheck::Skipped, ..options(&world) };
    assert_eq!(outcome(unnamed(), &elsewhere), None);
    assert_eq!(outcome(options(&other), &localhost()), refused);
    let foreign = TlsClientOptions { authorities: other.options.authorities.clone(), ..unnamed() };
    assert_eq!(outcome(foreign, &localhost()), refused);
    assert_eq!(outcome(TlsClientOptions { authorities: None, ..options(&world) }, &elsewhere), None);
    let expired = world.authority.issue_until("expired", 2020);
    let mut late = TlsOptions::new(world.folder.write("expired.crt", &expired.chain));
    late.key = Some(world.folder.write("expired.key", &expired.key));
    let late = TlsAcceptor::new(late, NOW).unwrap();
    let connector = TlsConnector::new(options(&world)).unwrap();
    assert_eq!(failure(&talk(&connector, &late, &localhost()).unwrap_err()), refused);
}

#[test]
fn a_server_learns_who_asks_and_may_insist() {
    let world = World::new("client-own");
    let acceptor = world.acceptor().with_verify(VerifyMode::Force);
    let own = world.authority.issue("the client");
    let both = world.folder.write("client.pem", &(own.chain.clone() + &own.key));
    let with = TlsClientOptions { chain: Some(both), ..options(&world) };
    let (_, server) = talk(&TlsConnector::new(with).unwrap(), &acceptor, &localhost()).unwrap();
    assert_eq!(server.tls_facts().unwrap().peer_name.as_deref(), Some("the client"));
    assert!(talk(&TlsConnector::new(options(&world)).unwrap(), &acceptor, &localhost()).is_err());
}

#[test]
fn sessions_are_resumed_if_both_ends_like() {
    let world = World::new("client-resume");
    let mut server_options = world.options.clone();
    server_options.resumption = Resumption::Tickets;
    let acceptor = TlsAcceptor::new(server_options, NOW).unwrap();
    for (resumption, resumed) in [(Resumption::Tickets, 2), (Resumption::Off, 0)] {
        let connector = TlsConnector::new(TlsClientOptions { resumption, ..options(&world) }).unwrap();
        for _ in 0..3 {
            talk(&connector, &acceptor, &localhost()).unwrap();
        }
        assert_eq!((connector.counters().full(), connector.counters().resumed()), (3 - resumed, resumed));
    }
}

#[test]
fn a_server_without_tls_is_told_from_one_that_refuses() {
    let world = World::new("client-plain");
    let connector = TlsConnector::new(options(&world)).unwrap();
    for (said, expected) in [
        (b"ERROR\r\n".as_slice(), TlsFailure::PlainText),
        (&[21, 3, 3, 0, 2, 2, 40], TlsFailure::NothingInCommon),
        (&[22, 3, 3, 0, 4, 99, 0, 0, 0], TlsFailure::Handshake),
    ] {
        let (mut client, mut server) = half(&connector, &localhost());
        assert!(read(&mut client).unwrap().is_empty());
        let mut hello = [0; 2048];
        assert!(server.read(&mut hello).unwrap() > 100 && hello[0] == 22);
        server.write_all(said).unwrap();
        assert_eq!(failure(&read(&mut client).unwrap_err()), Some(expected), "{said:?}");
    }
    let (mut client, mut server) = half(&connector, &localhost());
    assert!(read(&mut client).unwrap().is_empty());
    assert!(server.read(&mut [0; 2048]).unwrap() > 100);
    drop(server);
    assert_eq!(read(&mut client).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn files_are_read_again_when_they_have_changed() {
    let (world, other) = (World::new("client-reload"), Authority::new());
    let path = world.options.authorities.clone().unwrap();
    let connector = TlsConnector::new(options(&world)).unwrap();
    let acceptor = world.acceptor();
    assert!(!connector.reload_changed().unwrap());
    std::fs::write(&path, "no certificate").unwrap();
    assert!(connector.reload_changed().unwrap_err().to_string().contains("has no certificate"));
    assert!(!connector.reload_changed().unwrap(), "it is said once");
    assert!(talk(&connector, &acceptor, &localhost()).is_ok(), "the earlier ones hold");
    std::fs::write(&path, &other.pem).unwrap();
    assert!(connector.reload_changed().unwrap());
    assert!(talk(&connector, &acceptor, &localhost()).is_err());
}

#[test]
fn names_and_files_that_are_none_are_refused() {
    let world = World::new("client-wrong");
    for name in ["", "no name", "a..b"] {
        let error = name.parse::<TlsName>().unwrap_err().to_string();
        assert!(error.contains("neither a DNS name nor an IP address"), "{error}");
    }
    assert_eq!("fe80::1%eth0".parse::<TlsName>().unwrap(), "fe80::1".parse().unwrap());
    let other = world.authority.issue("another");
    let chain = Some(world.options.chain.clone());
    let key = Some(world.folder.write("other.key", &other.key));
    for (options, expected) in [
        (
            TlsClientOptions { authorities: Some("/nowhere".into()), ..options(&world) },
            "cannot read /nowhere",
        ),
        (TlsClientOptions { chain: chain.clone(), ..options(&world) }, "has no private key"),
        (TlsClientOptions { chain, key, ..options(&world) }, "does not match"),
    ] {
        let error = TlsConnector::new(options).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
