//! `profile`: what ElastiCache refuses is refused, so that the tests of an application find it.

use guira_tests::server::refused_guira;
use guira_tests::tls::{Certificate, TlsClient};
use guira_tests::{Server, Setup};

/// What every profile serves as memcached does.
const SERVED: &[(&str, &str)] = &[
    ("set k 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("add k 0 0 1\r\n1\r\n", "NOT_STORED\r\n"),
    ("replace k 0 0 1\r\n2\r\n", "STORED\r\n"),
    ("append k 0 0 1\r\n0\r\n", "STORED\r\n"),
    ("prepend k 0 0 1\r\n1\r\n", "STORED\r\n"),
    ("incr k 5\r\n", "125\r\n"),
    ("decr k 1\r\n", "124\r\n"),
    ("touch k 0\r\n", "TOUCHED\r\n"),
    ("get k\r\n", "VALUE k 0 3\r\n124\r\nEND\r\n"),
    ("gat 0 k\r\n", "VALUE k 0 3\r\n124\r\nEND\r\n"),
    ("mg k v\r\n", "VA 3\r\n124\r\n"),
    ("ms k 1\r\n7\r\n", "HD\r\n"),
    ("ma k v\r\n", "VA 1\r\n8\r\n"),
    ("mn\r\n", "MN\r\n"),
    ("md k\r\n", "HD\r\n"),
    ("delete k\r\n", "NOT_FOUND\r\n"),
    ("stats reset\r\n", "RESET\r\n"),
    ("flush_all\r\n", "OK\r\n"),
    ("flush_all 0\r\n", "OK\r\n"),
];

/// What only Guira has: no profile serves it.
const OWN: &[(&str, &str)] = &[
    ("lease-get k\r\n", "ERROR\r\n"),
    ("lease-set k 1 0 0 1\r\nx\r\nmn\r\n", "ERROR\r\nMN\r\n"),
    ("flush_prefix user:\r\n", "ERROR\r\n"),
    ("flush_prefix user: noreply\r\nmn\r\n", "MN\r\n"),
    ("md user: G\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("policy\r\n", "ERROR\r\n"),
    ("stats mrc\r\n", "ERROR\r\n"),
    ("stats latency\r\n", "ERROR\r\n"),
    ("stats topkeys\r\n", "ERROR\r\n"),
];

#[test]
fn nodes_of_elasticache_refuse_what_the_engine_refuses_from_1_6_17_on() {
    let server = Setup::new().guira_argument("--profile=elasticache").start_guira();
    let mut client = server.connect();
    client.talk(SERVED);
    client.talk(OWN);
    client.talk(&[
        ("lru mode flat\r\n", "ERROR\r\n"),
        ("lru_crawler enable\r\n", "ERROR\r\n"),
        ("lru_crawler metadump all\r\n", "ERROR\r\n"),
        ("slabs automove 0\r\n", "ERROR\r\n"),
        ("slabs automove 0 noreply\r\nmn\r\n", "MN\r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("flush_all 10\r\n", "OK\r\n"),
        ("me missing\r\n", "EN\r\n"),
    ]);
    assert!(!client.stats("slabs").is_empty());
    assert_eq!(client.stats("settings")["profile"], "elasticache");
}

/// A serverless cache.
fn serverless() -> (Server, TlsClient) {
    let certificate = Certificate::issue();
    let setup = certificate.given_to(Setup::new()).guira_argument("--profile=elasticache-serverless");
    let server = setup.start_guira();
    let client = TlsClient::connect(&server, &certificate);
    (server, client)
}

#[track_caller]
fn talk(client: &mut TlsClient, exchanges: &[(&str, &str)]) {
    for (request, reply) in exchanges {
        client.send(&[request.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&client.hear(reply.len())), *reply, "{request}");
    }
}

#[test]
fn a_serverless_cache_refuses_commands_that_configure_it_or_show_its_state() {
    let (_server, mut client) = serverless();
    talk(&mut client, SERVED);
    talk(&mut client, OWN);
    talk(
        &mut client,
        &[
            ("flush_all 10\r\n", "CLIENT_ERROR delayed flush_all not allowed\r\n"),
            ("flush_all 10 noreply\r\nmn\r\n", "MN\r\n"),
            ("stats settings\r\n", "ERROR\r\n"),
            ("stats items\r\n", "ERROR\r\n"),
            ("stats slabs\r\n", "ERROR\r\n"),
            ("stats sizes\r\n", "ERROR\r\n"),
            ("stats cachedump 1 1\r\n", "ERROR\r\n"),
            ("lru mode flat\r\n", "ERROR\r\n"),
            ("lru_crawler enable\r\n", "ERROR\r\n"),
            ("watch\r\n", "ERROR\r\n"),
            ("verbosity 1\r\n", "ERROR\r\n"),
            ("verbosity 1 noreply\r\nmn\r\n", "MN\r\n"),
            ("me k\r\n", "ERROR\r\n"),
            ("slabs automove 0\r\n", "ERROR\r\n"),
            ("cache_memlimit 100\r\n", "ERROR\r\n"),
            ("refresh_certs\r\n", "ERROR\r\n"),
            ("shutdown\r\n", "ERROR\r\n"),
            ("config get cluster\r\n", "ERROR\r\n"),
        ],
    );
    client.send(&[b"stats\r\n"]);
    assert!(client.hear(5).starts_with(b"STAT "));
}

#[test]
fn a_serverless_get_has_a_limit_of_16_kib() {
    let (_server, mut client) = serverless();
    // 200 bytes of each of these: the key and a blank.
    let keys = |count: usize| format!(" {}", "k".repeat(199)).repeat(count);
    for verb in ["get", "gets"] {
        let allowed = format!("{verb}{}\r\n", keys(81));
        let refused = format!("{verb}{}\r\n", keys(82));
        assert!(allowed.len() < 16 << 10 && refused.len() > 16 << 10);
        talk(
            &mut client,
            &[(&allowed, "END\r\n"), (&refused, "CLIENT_ERROR get of more than 16 KiB not allowed\r\n")],
        );
    }
}

#[test]
fn a_serverless_cache_has_no_binary_protocol() {
    let (_server, mut client) = serverless();
    // A version packet, which is read as the beginning of a line.
    let mut packet = [0; 24];
    (packet[0], packet[1]) = (0x80, 0x0b);
    client.send(&[&packet, b"\r\nmn\r\n"]);
    assert_eq!(client.hear(11), b"ERROR\r\nMN\r\n");
}

#[test]
fn options_that_a_serverless_cache_cannot_have_are_refused() {
    let certificate = Certificate::issue();
    let tls = format!("--tls-cert={}", certificate.chain().display());
    let refused = |arguments: &[&str], because: &str| {
        let arguments = [&["serve", "--profile=elasticache-serverless"], arguments].concat();
        let (code, message) = refused_guira(&arguments);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains(because), "{message}");
    };
    refused(&[], "profile: elasticache-serverless needs a certificate: tls-cert");
    refused(&[&tls, "--protocol=binary"], "protocol: must be ascii with profile = elasticache-serverless");
    refused(&[&tls, "--protocol=auto"], "protocol: must be ascii with profile = elasticache-serverless");
    refused(&[&tls, "--udp=127.0.0.1:0"], "udp: cannot be combined with profile = elasticache-serverless");
    for listen in ["notls:127.0.0.1:0", "proto[binary]:127.0.0.1:0", "proto[negotiating]:127.0.0.1:0"] {
        let listen = format!("--listen={listen}");
        refused(&[&tls, &listen], "has neither listeners without TLS nor the binary protocol");
    }
}

#[test]
fn an_unknown_profile_is_refused() {
    let (code, message) = refused_guira(&["serve", "--profile=redis"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(message.contains("must be none, elasticache or elasticache-serverless, not redis"), "{message}");
}
