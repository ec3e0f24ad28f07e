//! `slabs`, `lru`, `lru_crawler` and their like: what they answer to arguments that are no good.

use guira_tests::{Server, newer_than_peer};

#[test]
fn numbers_are_digits() {
    let server = Server::start();
    newer_than_peer!(server, "reads numbers as C does");
    let bad = "CLIENT_ERROR bad command line format\r\n";
    server.connect().talk(&[
        ("cache_memlimit +64\r\n", "ERROR\r\n"),
        ("cache_memlimit 64x\r\n", "ERROR\r\n"),
        ("slabs automove +1\r\n", bad),
        ("slabs automove 99999999999\r\n", bad),
        ("slabs automove -1\r\n", bad),
        ("slabs automove 4294967295\r\n", "ERROR\r\n"),
        ("slabs automove 3\r\n", "ERROR\r\n"),
        ("slabs automove window +5\r\n", bad),
        ("slabs reassign 1 +2\r\n", bad),
        ("lru tune +1 5 5 5\r\n", "ERROR\r\n"),
        ("lru temp_ttl +5\r\n", "ERROR\r\n"),
        ("lru_crawler sleep +5\r\n", bad),
        ("lru_crawler tocrawl +5\r\n", bad),
        ("stats cachedump +1 0\r\n", bad),
        ("stats cachedump 1 +0\r\n", bad),
    ]);
}

#[test]
fn the_pool_of_pages_has_none_to_spare() {
    let server = Server::start();
    server.connect().talk(&[
        ("slabs automove\r\n", "ERROR\r\n"),
        ("slabs reassign 0 1\r\n", "NOSPARE source class has no spare pages\r\n"),
        ("slabs reassign 1 1\r\n", "SAME src and dst class are identical\r\n"),
        ("slabs reassign 1 -1\r\n", "BADCLASS invalid src or dst class id\r\n"),
    ]);
}

#[test]
fn certificates_are_not_refreshed_where_there_are_none() {
    let server = Server::start();
    let mut client = server.connect();
    // The law's binary may be one that knows nothing of TLS.
    let answer = client.ask("refresh_certs\r\n");
    assert!(["Error TLS not enabled", "ERROR"].contains(&answer.as_str()), "{answer}");
}
