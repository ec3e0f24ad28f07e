//! Servers that speak TLS.

use crate::{Router, name, output};
use guira_harness::socket::Address;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::server::wait_for_log;
use guira_tests::tls::Certificate;
use guira_tests::{Server, Setup, skip};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

const GONE: &str = "SERVER_ERROR connection error\r\n";

fn path(option: &str, path: &Path) -> String {
    format!("--{option}={}", path.display())
}

/// A router with one server, that is spoken to as the pool says.
fn router(address: &str, pool: &str, options: &[String]) -> Router {
    let config =
        format!(r#"{{"pools": {{"A": {{"servers": ["{address}"] {pool}}}}}, "route": "PoolRoute|A"}}"#);
    let options: Vec<&str> =
        ["--config-str", &config].into_iter().chain(options.iter().map(String::as_str)).collect();
    Router::start(&options)
}

const TLS: &str = r#", "security_mech": "ssl""#;

fn ask(router: &Router) -> String {
    let mut client = router.connect();
    client.send("get key\r\n");
    client.line() + "\r\n"
}

#[test]
fn a_pool_or_a_server_says_that_tls_is_spoken() {
    let certificate = Certificate::issue();
    let node = certificate.given_to(Setup::new()).start_guira();
    let alone = format!("{}:ascii:ssl", name(&node));
    let pools = [
        (name(&node), TLS),
        (name(&node), r#", "security_mech": "tls""#),
        (name(&node), r#", "use_ssl": true"#),
        (alone, ""),
    ];
    for (address, pool) in pools {
        let router = router(&address, pool, &[]);
        let mut client = router.connect();
        client.exchange("set key 7 0 5\r\nvalue\r\n", "STORED\r\n");
        client.exchange(
            "get key none\r\nmg key v f\r\n",
            "VALUE key 7 5\r\nvalue\r\nEND\r\nVA 5 f7\r\nvalue\r\n",
        );
        let stats = client.stats("");
        assert_eq!(
            (&*stats["num_ssl_connections_opened"], &*stats["num_ssl_handshake_failures"]),
            ("1", "0")
        );
        assert!(client.stats("servers").keys().all(|name| name.contains(":ascii:ssl:")));
        wait_for_log(|| router.log(), "server certificates are not verified");
    }
}

#[test]
fn long_values_and_long_pipelines_go_through() {
    let certificate = Certificate::issue();
    let node = certificate.given_to(Setup::new()).start_guira();
    let router = router(&name(&node), TLS, &[]);
    let mut client = router.connect();
    let value: String = (0..900_000).map(|at: u32| char::from(b'a' + (at * 7 % 26) as u8)).collect();
    client.exchange(format!("set long 0 0 {}\r\n{value}\r\n", value.len()), "STORED\r\n");
    let long = format!("VALUE long 0 {}\r\n{value}\r\nEND\r\n", value.len());
    client.exchange_at_once(b"get long\r\nget long\r\n", long.repeat(2).as_bytes());
    let mut asked = String::new();
    let mut expected = String::new();
    for number in 0..2000 {
        asked += &format!("set key{number} 0 0 4\r\n{number:04}\r\nget key{number} long{number}\r\n");
        expected += &format!("STORED\r\nVALUE key{number} 0 4\r\n{number:04}\r\nEND\r\n");
    }
    client.exchange_at_once(asked.as_bytes(), expected.as_bytes());
}

#[test]
fn certificates_of_servers_are_checked_if_they_are_to_be() {
    let (certificate, other) = (Certificate::issue(), Certificate::issue());
    let node = certificate.given_to(Setup::new()).start_guira();
    let verify = |authority: &Certificate| {
        vec!["--ssl-verify-peers".to_owned(), path("pem-ca-path", &authority.root())]
    };
    let named = |name: &str| {
        let mut options = verify(&certificate);
        options.push("--ssl-service-identity-authorization-enforce".to_owned());
        options.push(format!("--ssl-service-identity={name}"));
        options
    };
    let mut by_host = verify(&certificate);
    by_host.push("--ssl-service-identity-authorization-enforce".to_owned());
    let mut unnamed = verify(&certificate);
    unnamed.push("--ssl-service-identity=elsewhere.example".to_owned());
    for options in [verify(&certificate), named("localhost"), by_host, unnamed] {
        assert_eq!(ask(&router(&name(&node), TLS, &options)), "END\r\n", "{options:?}");
    }
    for options in [verify(&other), named("elsewhere.example")] {
        let router = router(&name(&node), TLS, &options);
        assert_eq!(ask(&router), GONE, "{options:?}");
        // It cannot be connected to, and is out.
        assert_eq!(
            ask(&router),
            "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n",
            "{options:?}"
        );
        wait_for_log(|| router.log(), "TLS handshake with a server failed");
        assert_eq!(router.connect().stats("")["num_ssl_handshake_failures"], "1");
    }
}

#[test]
fn a_server_may_ask_for_a_certificate() {
    let certificate = Certificate::issue();
    let setup = certificate.given_to(Setup::new()).guira_argument("--tls-verify=2");
    let node = setup.guira_argument(&path("tls-ca", &certificate.root())).start_guira();
    let own = [path("pem-cert-path", &certificate.chain()), path("pem-key-path", &certificate.key())];
    assert_eq!(ask(&router(&name(&node), TLS, &own)), "END\r\n");
    let without = router(&name(&node), TLS, &[]);
    assert_eq!(ask(&without), GONE);
    assert_eq!(ask(&without), "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n");
}

#[test]
fn a_server_that_does_not_speak_tls_cannot_be_connected_to() {
    let node = Server::start();
    let router = router(&name(&node), TLS, &[]);
    assert_eq!(ask(&router), GONE);
    assert_eq!(ask(&router), "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n");
}

/// Hands on what is sent to `server`, until either end is gone. Returns what comes first, and has been sent by then.
fn record(listener: TcpListener, server: SocketAddr) -> Arc<Mutex<Vec<u8>>> {
    let sent = Arc::<Mutex<Vec<u8>>>::default();
    let kept = sent.clone();
    std::thread::spawn(move || {
        let (mut router, _) = listener.accept().expect("the router connects");
        let mut server = TcpStream::connect(server).expect("the server is there");
        let (mut back, mut to_router) = (server.try_clone().unwrap(), router.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut to_router));
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = router.read(&mut buffer) {
            kept.lock().unwrap().extend_from_slice(&buffer[..length]);
            server.write_all(&buffer[..length]).expect("the server listens");
        }
    });
    sent
}

/// How long the application data is in each record of TLS 1.3.
fn lengths(mut bytes: &[u8]) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let [kind, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(*high) << 8 | usize::from(*low);
        // Behind the data are its kind and a tag.
        lengths.extend((*kind == 23).then(|| length - 17));
        bytes = &rest[length..];
    }
    lengths
}

#[test]
fn a_long_request_has_records_of_its_own_and_short_ones_share_one() {
    let certificate = Certificate::issue();
    let node = certificate.given_to(Setup::new()).start_guira();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let Address::Tcp(server) = *node.address() else { unreachable!("it was started on a port") };
    let sent = record(listener, server);
    let router = router(&address, TLS, &[]);
    let mut client = router.connect();
    client.exchange("get a\r\n", "END\r\n");
    let before = sent.lock().unwrap().len();
    let set = |key: &str, length: usize| format!("set {key} 0 0 {length}\r\n{}\r\n", "x".repeat(length));
    let requests = [set("a", 100), set("b", 100), set("c", 70_000), set("d", 100), set("e", 16_300)];
    client.exchange(requests.concat(), "STORED\r\n".repeat(5));
    let lengths = lengths(&sent.lock().unwrap()[before..]);
    let mut ends = Vec::new();
    for length in lengths {
        ends.push(ends.last().unwrap_or(&0) + length);
    }
    let short = requests[0].len() + requests[1].len();
    let long = short + requests[2].len();
    for end in [short, long, long + requests[3].len(), requests.concat().len()] {
        assert!(ends.contains(&end), "no record ends at {end}: {ends:?}");
    }
    // The router may have read the first of them alone.
    assert!(ends.len() <= 10, "{ends:?}");
}

#[test]
fn a_handshake_may_take_as_long_as_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let pool = r#", "security_mech": "ssl", "server_timeout": 60000, "connect_timeout": 100"#;
    let router = router(&address, pool, &["--disable-tko-tracking".to_owned()]);
    // By the server's timeout alone the client would not wait for it.
    assert_eq!(ask(&router), "SERVER_ERROR connection timeout\r\n");
    // The router has begun with TLS, and goes away.
    let (mut stream, _) = listener.accept().expect("the router connects");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("it closes");
    assert_eq!(heard.first(), Some(&22));
    wait_for_log(|| router.log(), "timeout of the handshake");
}

#[test]
fn a_server_that_ends_in_the_middle_of_a_handshake_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the router connects");
        let mut request = [0; 1024];
        let length = stream.read(&mut request).expect("the router begins");
        assert!(length > 0);
        // The beginning of a handshake record.
        stream.write_all(&[22, 3, 3, 0, 80, 2]).expect("the router listens");
    });
    let router = router(&address, TLS, &[]);
    assert_eq!(ask(&router), GONE);
    server.join().expect("it was asked");
}

#[test]
fn a_renewed_authority_is_believed_without_a_restart() {
    let (first, second) = (Certificate::issue(), Certificate::issue());
    let node = second.given_to(Setup::new()).start_guira();
    let scratch = guira_tests::scratch::Scratch::new();
    let read = |certificate: &Certificate| std::fs::read_to_string(certificate.root()).expect("a file");
    let file = scratch.write("root.pem", &read(&first));
    let options =
        ["--ssl-verify-peers".to_owned(), path("pem-ca-path", &file), "--disable-tko-tracking".to_owned()];
    let router = router(&name(&node), TLS, &options);
    assert_eq!(ask(&router), GONE);
    scratch.write("root.pem", &read(&second));
    let believed = || (ask(&router) == "END\r\n").then_some(());
    Deadline::after(PATIENCE).poll(believed).expect("it reads the file again");
}

#[test]
fn what_cannot_be_had_is_refused_by_file_and_line() {
    for (mechanism, expected) in [
        ("fizz", "which needs mcrouter's libraries"),
        ("tls13_fizz", "which needs mcrouter's libraries"),
        ("ktls12", "which needs mcrouter's libraries"),
        ("quic", "\\\"plain\\\" or \\\"ssl\\\" expected"),
    ] {
        let config = format!(
            r#"--config-str={{"pools": {{"A": {{"servers": ["a:1"], "security_mech": "{mechanism}"}}}}, "route": "PoolRoute|A"}}"#
        );
        let output = output(&[&config, "--validate-config"]);
        let told = String::from_utf8_lossy(&output.stderr).replace('"', "\\\"");
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(expected) && told.contains("config-str:1"), "{told}");
    }
    let config =
        r#"--config-str={"pools": {"A": {"servers": ["127.0.0.1:1:ascii:ssl"]}}, "route": "PoolRoute|A"}"#;
    let output = output(&[config, "--validate-config", "--pem-cert-path=/nowhere.pem"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("cannot set up TLS to servers: cannot read /nowhere.pem: "), "{told}");
}

/// A memcached that speaks TLS: it knows no leases, and takes the value of a lease-set for commands.
#[test]
fn no_value_of_a_lease_is_sent_over_tls_before_the_server_has_proved_that_it_knows_leases() {
    let certificate = Certificate::issue();
    let files =
        format!("ssl_chain_cert={},ssl_key={}", certificate.chain().display(), certificate.key().display());
    let Some(memcached) = Setup::new().options(&["-Z", "-o", &files]).start_peer() else {
        return skip::say("memcached is not installed");
    };
    for (count, length) in [(3, 10 << 10), (20, 1 << 10)] {
        let router = router(&name(&memcached), TLS, &[]);
        let mut client = router.connect();
        // Each line of a value is a command that stores "victim".
        let command = "set victim 0 0 1\r\nx\r\n";
        let value = &command.repeat(length / command.len());
        let mut pipeline = String::new();
        for number in 0..count {
            pipeline += &format!("lease-set k{number} 7 0 0 {}\r\n{value}\r\n", value.len());
        }
        client.send(pipeline + "mn\r\n");
        for number in 0..count {
            let line = client.line();
            assert!(line.starts_with("SERVER_ERROR the server knows no leases"), "{number}: {line}");
        }
        client.hear("MN\r\n");
        client.exchange("get victim\r\n", "END\r\n");
        assert_eq!(client.stats("")["num_connections_closed"], "0");
    }
}
