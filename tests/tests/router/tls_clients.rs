//! Clients that speak TLS.

use crate::{Router, config_of, output};
use guira_harness::socket::Address;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::scratch::Scratch;
use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Client, Server};
use std::path::Path;

const STORE: &[u8] = b"set key 0 0 5\r\nvalue\r\n";
const ASK: &[u8] = b"get key\r\n";
const FOUND: &[u8] = b"VALUE key 0 5\r\nvalue\r\nEND\r\n";

/// An option with the path of a file.
fn path(option: &str, path: &Path) -> String {
    format!("--{option}={}", path.display())
}

fn start(server: &Server, options: &[String]) -> Router {
    let config = config_of(server);
    let options: Vec<&str> =
        ["--config-str", &config].into_iter().chain(options.iter().map(String::as_str)).collect();
    Router::start(&options)
}

#[test]
fn tls_is_spoken_beside_plain_text() {
    let (server, certificate) = (Server::start(), Certificate::issue());
    let mut router = start(
        &server,
        &[
            "--listen=btls:127.0.0.1:0".to_owned(),
            "--ssl-port=0".to_owned(),
            path("server-pem-cert-path", &certificate.chain()),
            path("server-pem-key-path", &certificate.key()),
        ],
    );
    router.connect().exchange(STORE, "STORED\r\n");
    for number in [1, 2] {
        let mut client = TlsClient::connect_to(router.listens(number), &certificate);
        client.send(&[ASK, ASK, b"get none\r", b"\n"]);
        let expected = [FOUND, FOUND, b"END\r\n"].concat();
        assert_eq!(client.hear(expected.len()), expected);
    }
    // Plain text on such a port is not answered.
    let mut plain = Client::connect(&Address::Tcp(router.listens(1)));
    plain.send(ASK);
    plain.expect_closed();
    assert_eq!(router.connect().stats("")["ssl_handshake_errors"], "1");
}

#[test]
fn the_options_of_servers_stand_in_for_those_of_clients() {
    let (server, certificate) = (Server::start(), Certificate::issue());
    let options = [
        "--ssl-ports=0".to_owned(),
        path("pem-cert-path", &certificate.chain()),
        path("pem-key-path", &certificate.key()),
    ];
    let mut router = start(&server, &options);
    let mut client = TlsClient::connect_to(router.listens(1), &certificate);
    client.send(&[b"mn\r\n"]);
    assert_eq!(client.hear(4), b"MN\r\n");
}

#[test]
fn certificates_of_clients_are_required_or_only_checked() {
    let (server, certificate, other) = (Server::start(), Certificate::issue(), Certificate::issue());
    let files = [
        path("server-pem-cert-path", &certificate.chain()),
        path("server-pem-key-path", &certificate.key()),
        path("server-pem-ca-path", &certificate.root()),
    ];
    for (options, without) in [
        (&["--ssl-port=0"][..], "MN\r\n"),
        (&["--ssl-port=0", "--ssl-require-peer-certs"], ""),
        (&["--listen=btls:127.0.0.1:0"], "MN\r\n"),
        (&["--listen=btls:127.0.0.1:0", "--ssl-require-peer-certs"], ""),
        (&["--listen=mtls:127.0.0.1:0"], ""),
    ] {
        let options: Vec<String> = options.iter().copied().map(str::to_owned).chain(files.clone()).collect();
        let mut router = start(&server, &options);
        let address = router.listens(1);
        let ask = |own: Option<&Certificate>| {
            let mut client = TlsClient::try_to_connect(address, &certificate, own)?;
            client.send(&[b"mn\r\n"]);
            Some(client.hear(4))
        };
        assert_eq!(ask(Some(&certificate)), Some(b"MN\r\n".to_vec()));
        let of_another = ask(Some(&other)).unwrap_or_default();
        // Who is not asked for a certificate presents none.
        assert!(of_another.is_empty() || options[0].contains("btls") && !without.is_empty(), "{options:?}");
        assert_eq!(ask(None).unwrap_or_default(), without.as_bytes(), "{options:?}");
    }
}

#[test]
fn new_certificates_are_used_without_a_restart_and_wrong_ones_are_not() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let certificates = [Certificate::issue(), Certificate::issue()];
    let both = |certificate: &Certificate| {
        let read = |path| std::fs::read_to_string(path).unwrap();
        read(certificate.chain()) + &read(certificate.key())
    };
    let file = scratch.write("both.pem", &both(&certificates[0]));
    let mut router = start(&server, &["--ssl-port=0".to_owned(), path("server-pem-cert-path", &file)]);
    let address = router.listens(1);
    TlsClient::connect_to(address, &certificates[0]);
    scratch.write("both.pem", "no certificate");
    let log = || router.log().contains("cannot reload certificates").then_some(());
    Deadline::after(PATIENCE).poll(log).expect("it says so");
    TlsClient::connect_to(address, &certificates[0]);
    scratch.write("both.pem", &both(&certificates[1]));
    let renewed = || TlsClient::try_to_connect(address, &certificates[1], None);
    Deadline::after(PATIENCE).poll(renewed).expect("it takes the new one");
}

#[test]
fn wrong_files_are_named() {
    let (certificate, other, scratch) = (Certificate::issue(), Certificate::issue(), Scratch::new());
    let nothing = scratch.write("nothing.pem", "nothing\n");
    let chain = path("server-pem-cert-path", &certificate.chain());
    for (options, expected) in [
        (vec![path("server-pem-cert-path", Path::new("/nowhere.pem"))], "cannot read /nowhere.pem"),
        (vec![path("server-pem-cert-path", &nothing)], "has no certificate"),
        (vec![chain.clone()], "has no private key"),
        (vec![chain.clone(), path("server-pem-key-path", &other.key())], "does not match the certificate in"),
        (
            vec![
                chain,
                path("server-pem-key-path", &certificate.key()),
                path("server-pem-ca-path", &nothing),
            ],
            "has no certificate",
        ),
    ] {
        let common = [r#"--config-str={"route": "NullRoute"}"#, "--ssl-port=0"];
        let options: Vec<&str> = common.into_iter().chain(options.iter().map(String::as_str)).collect();
        let output = output(&options);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {output:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            told.contains("cannot set up TLS for clients") && told.contains(expected),
            "{options:?}: {told}"
        );
    }
}
