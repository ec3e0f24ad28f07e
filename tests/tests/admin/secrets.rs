//! The token, TLS, and what the log says about listeners that the world can reach.

use super::{expect_health, with_admin};
use guira_tests::Setup;
use guira_tests::http::HttpClient;
use guira_tests::scratch::Scratch;
use guira_tests::server::{wait_for, wait_for_log};
use guira_tests::tls::{Certificate, TlsClient};

#[test]
fn metrics_need_the_token_and_health_does_not() {
    let scratch = Scratch::new();
    let file = scratch.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let (server, address) = with_admin(&[&format!("--admin-token-file={}", file.display())]);
    let mut client = HttpClient::connect(address);
    for headers in ["", "Authorization: Bearer s3cre\r\n", "Authorization: Basic s3cret\r\n"] {
        for path in ["/metrics", "/status.json", "/history.json", "/nothing"] {
            let reply = client.get(path, headers);
            assert_eq!(reply.status, 401, "{path} {headers}");
            assert!(
                reply.has("WWW-Authenticate: Bearer realm=\"guira\"") && !reply.body.contains("memcached")
            );
        }
    }
    assert_eq!(client.get("/metrics", "Authorization: Bearer s3cret\r\n").status, 200);
    assert_eq!(client.get("/health", "").status, 200);
    assert_eq!(client.get("/ready", "").status, 200);
    // The page asks for the token itself, and shows nothing before.
    assert_eq!(client.get("/", "").status, 200);
    std::fs::write(&file, "other\n").unwrap();
    server.signal("HUP");
    wait_for("the new token", || {
        let reply = HttpClient::connect(address).get("/metrics", "Authorization: Bearer other\r\n");
        (reply.status == 200).then_some(())
    });
    assert_eq!(client.get("/metrics", "Authorization: Bearer s3cret\r\n").status, 401);
    std::fs::write(&file, "two words\n").unwrap();
    server.signal("HUP");
    wait_for_log(|| server.log(), "cannot reload the token file");
    assert_eq!(client.get("/metrics", "Authorization: Bearer other\r\n").status, 200);
}

#[test]
fn without_a_token_only_addresses_and_localhost_are_answered() {
    let (_server, address) = with_admin(&["--admin=0.0.0.0:0"]);
    let port = address.port();
    let status = |path: &str, host: &str| {
        let mut client = HttpClient::connect(([127, 0, 0, 1], port).into());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        client.hear().status
    };
    let paths = ["/", "/metrics", "/status.json", "/history.json", "/topkeys", "/nothing"];
    for host in ["evil.example", &format!("evil.example:{port}"), "127.0.0.1.evil.example", "cache-1", ""] {
        for path in paths {
            assert_eq!(status(path, host), 403, "{path} {host}");
        }
        assert_eq!((status("/health", host), status("/ready", host)), (200, 200), "{host}");
    }
    for host in ["127.0.0.1", &format!("127.0.0.1:{port}"), "10.1.2.3:9150", "[::1]:9150", "localhost"] {
        assert_eq!(status("/metrics", host), 200, "{host}");
    }
    // With a token a name is as good.
    let scratch = Scratch::new();
    let file = scratch.path().join("token");
    std::fs::write(&file, "s3cret\n").unwrap();
    let (_server, address) = with_admin(&[&format!("--admin-token-file={}", file.display())]);
    let mut client = HttpClient::connect(address);
    client.send("GET /metrics HTTP/1.1\r\nHost: cache-1\r\nAuthorization: Bearer s3cret\r\n\r\n");
    assert_eq!(client.hear().status, 200);
}

#[test]
fn the_log_tells_who_can_see_metrics() {
    let (server, address) = with_admin(&["--admin=0.0.0.0:0"]);
    wait_for_log(|| server.log(), &format!("every client that can connect to {address} sees all metrics"));
    let scratch = Scratch::new();
    let file = scratch.path().join("token");
    std::fs::write(&file, "s3cret").unwrap();
    let (server, address) =
        with_admin(&["--admin=0.0.0.0:0", &format!("--admin-token-file={}", file.display())]);
    wait_for_log(|| server.log(), &format!("the token for {address} is sent unencrypted"));
    assert!(!server.log().contains("whoever"), "{}", server.log());
}

#[test]
fn with_a_certificate_it_speaks_tls_unless_it_is_not_to() {
    let certificate = Certificate::issue();
    let mut server = certificate.given_to(Setup::new().guira_argument("--admin=0")).start_guira();
    let address = server.admin_address();
    let mut client = TlsClient::connect_to(address, &certificate);
    client.send(&[b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]);
    let reply = String::from_utf8(client.hear(10_000)).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nok\n"), "{reply}");
    assert!(client.has_ended(), "it has said goodbye");
    // What is no TLS is not answered, and hurts nobody.
    let mut plain = HttpClient::connect(address);
    plain.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    plain.expect_ended();
    let mut client = TlsClient::connect_to(address, &certificate);
    client.send(&[b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]);
    let metrics = String::from_utf8(client.hear(1 << 20)).unwrap();
    assert!(metrics.contains("\nguira_ssl_handshake_errors_total "), "{metrics}");
    let mut server = certificate.given_to(Setup::new().guira_argument("--admin=notls:0")).start_guira();
    expect_health(server.admin_address());
}
