//! Compatibility with OpenSSL's client. A test program of its own, since a child process briefly holds copies of all
//! sockets, which would disturb tests that close sockets.

use guira_transport::{
    Address, Interest, ListenOptions, Listener, Poll, Progress, Stream, TlsAcceptor, TlsOptions, Token,
};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const OPTIONS: ListenOptions = ListenOptions { backlog: 64, unix_mode: 0o700 };

/// Accepts one client and echoes its input until it ends.
fn echo(listener: &Listener, acceptor: &TlsAcceptor) {
    let mut poll = Poll::new().unwrap();
    poll.add(listener, Token(0), Interest::Read).unwrap();
    let mut events = Vec::new();
    let mut current: Option<Stream> = None;
    let mut buffer = vec![0; 128 << 10];
    loop {
        poll.wait(Some(Duration::from_secs(30)), &mut events).unwrap();
        assert!(!events.is_empty(), "the client does nothing");
        events.clear();
        let Some(stream) = &mut current else {
            if let Some((accepted, _)) = listener.accept().unwrap() {
                let accepted = acceptor.accept(accepted).unwrap();
                poll.add(&accepted, Token(1), Interest::Read).unwrap();
                current = Some(accepted);
            }
            continue;
        };
        match stream.read(&mut buffer).unwrap() {
            Progress::Moved(bytes) => {
                // The socket always accepts the few bytes of this test.
                assert_eq!(stream.write(&buffer[..bytes]).unwrap(), Progress::Moved(bytes));
            }
            Progress::Blocked => {}
            Progress::Ended => {
                assert_eq!(stream.finish().unwrap(), Progress::Moved(0));
                return;
            }
        }
        poll.change(&*stream, Token(1), stream.wants(Interest::Read)).unwrap();
    }
}

#[test]
fn openssl_understands_both_versions() {
    let installed = Command::new("openssl").arg("version").output().is_ok_and(|it| it.status.success());
    if !installed {
        eprintln!("skipped: openssl is not installed");
        return;
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls/data");
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let mut options = TlsOptions::new(data.join("rsa.crt"));
        options.key = Some(data.join("rsa.pkcs1.key"));
        let acceptor = TlsAcceptor::new(options, 0).unwrap();
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), OPTIONS).unwrap();
        let Address::Tcp(address) = *listener.address() else { panic!("a TCP address") };
        let mut client = Command::new("openssl")
            .args(["s_client", "-brief", "-verify_return_error", "-servername", "localhost", version])
            .args(["-connect", &address.to_string(), "-CAfile"])
            .arg(data.join("rsa.crt"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = client.stdin.take().unwrap();
        guira_sync::thread::scope(|scope| {
            scope.spawn(|| echo(&listener, &acceptor));
            input.write_all(b"hello over there\n").unwrap();
            let mut reply = [0; 17];
            client.stdout.take().unwrap().read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"hello over there\n");
            // It ends with its input.
            drop(input);
        });
        let output = client.wait_with_output().unwrap();
        let output_text = String::from_utf8_lossy(&output.stderr);
        assert!(output_text.contains(name) && output_text.contains("Verification: OK"), "{output_text}");
        assert_eq!(acceptor.counters().full() + acceptor.counters().resumed(), 1);
    }
}
