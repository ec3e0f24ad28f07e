//! `noreply` silences the answer of the classic commands.

use guira_tests::{Server, Setup, newer_than_peer};

#[test]
fn every_classic_command_takes_noreply() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect_silence("set key 0 0 1 noreply\r\n1\r\n");
    client.expect_silence("add key 0 0 1 noreply\r\n2\r\n");
    client.expect_silence("replace key 0 0 1 noreply\r\n3\r\n");
    client.expect_silence("append key 0 0 1 noreply\r\n4\r\n");
    client.expect_silence("prepend key 0 0 1 noreply\r\n2\r\n");
    client.expect_value("key", "234");
    client.expect_silence("cas key 0 0 1 1 noreply\r\nx\r\n");
    client.expect_silence("incr key 1 noreply\r\n");
    client.expect_silence("decr key 3 noreply\r\n");
    client.expect_value("key", "232");
    client.expect_silence("touch key 500 noreply\r\n");
    client.exchange("mg key t\r\n", "HD t~500\r\n");
    client.expect_silence("delete key noreply\r\n");
    client.exchange("get key\r\n", "END\r\n");
    client.expect_silence("verbosity 0 noreply\r\n");
    client.expect_silence("flush_all noreply\r\n");
    client.expect_silence("flush_all 0 noreply\r\n");
}

#[test]
fn failures_are_silent_too() {
    let server = Server::start();
    let mut client = server.connect();
    for request in [
        "add key 0 0 1 noreply\r\nx\r\n",
        "add key 0 0 1 noreply\r\ny\r\n",
        "replace missing 0 0 1 noreply\r\nx\r\n",
        "append missing 0 0 1 noreply\r\nx\r\n",
        "cas missing 0 0 1 1 noreply\r\nx\r\n",
        "incr missing 1 noreply\r\n",
        "incr key 1 noreply\r\n",
        "incr key x noreply\r\n",
        "touch missing 1 noreply\r\n",
        "touch key x noreply\r\n",
        "delete missing noreply\r\n",
    ] {
        client.expect_silence(request);
    }
    client.expect_value("key", "x");
}

#[test]
fn noreply_is_the_last_word_in_lower_case() {
    let server = Server::start();
    server.connect().talk(&[
        ("set key 0 0 1 noReply\r\nx\r\n", "STORED\r\n"),
        ("set key 0 0 1 noreply2\r\nx\r\n", "STORED\r\n"),
        ("set key 0 0 1 norepl\r\nx\r\n", "STORED\r\n"),
        ("touch key 0 no\r\n", "TOUCHED\r\n"),
    ]);
}

#[test]
fn retrieval_ignores_noreply() {
    let server = Server::start();
    server.connect().talk(&[
        ("set noreply 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("get missing noreply\r\n", "VALUE noreply 0 1\r\nx\r\nEND\r\n"),
        ("mn noreply\r\n", "MN\r\n"),
    ]);
}

#[test]
fn a_line_with_an_unreadable_length_answers_all_the_same() {
    let server = Server::start();
    newer_than_peer!(server, "a bad length with noreply is silent");
    server.connect().talk(&[
        ("set key 0 0 abc noreply\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("set key 0 0 -1 noreply\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ]);
}

#[test]
fn a_refused_set_is_silent_and_its_data_is_taken() {
    let server = Server::start();
    newer_than_peer!(server, "the data block of a refused set is read as a command");
    let mut client = server.connect();
    client.expect_silence("set key x 0 1 noreply\r\nx\r\n");
    client.expect_silence("set key 0 x 1 noreply\r\nx\r\n");
    client.expect_silence(format!("set {} 0 0 1 noreply\r\nx\r\n", "k".repeat(251)));
    client.expect_silence(format!("set key 0 0 {} noreply\r\n{}\r\n", 2 << 20, "x".repeat(2 << 20)));
}

#[test]
fn an_unknown_command_with_noreply_is_silent() {
    let server = Server::start();
    newer_than_peer!(server, "an unknown command always answers ERROR");
    server.connect().expect_silence("unknown noreply\r\n");
}

#[test]
fn commands_about_the_server_take_noreply() {
    let server = Setup::new().options(&["-m", "64"]).start();
    newer_than_peer!(server, "only some of them do");
    let mut client = server.connect();
    for request in [
        "cache_memlimit 64 noreply\r\n",
        "cache_memlimit 1 noreply\r\n",
        "cache_memlimit noreply\r\n",
        "lru temp_ttl 5 noreply\r\n",
        "lru tune 10 25 0.1 2.0 noreply\r\n",
        "lru noreply\r\n",
        "slabs automove 1 noreply\r\n",
        "slabs reassign 1 2 noreply\r\n",
        "slabs noreply\r\n",
        "lru_crawler sleep 100 noreply\r\n",
        "lru_crawler enable noreply\r\n",
        "lru_crawler metadump noreply\r\n",
        "lru_crawler noreply\r\n",
        "refresh_certs noreply\r\n",
        "shutdown noreply\r\n",
        "debugtime p noreply\r\n",
    ] {
        client.expect_silence(request);
    }
    client.exchange("mg k k\r\nlru_crawler metadump noreply\r\nmn\r\n", "EN kk\r\nMN\r\n");
    // These have no such word.
    client.exchange("watch noreply\r\n", "ERROR\r\n");
    client.exchange("stats noreply\r\n", "ERROR\r\n");
}
