//! `flush_prefix` and `md` with `G` delete every item whose key begins with a prefix.

use guira_tests::server::wait_for;
use guira_tests::{Server, Setup};

fn guira() -> Setup {
    Setup::new().guira_argument("--test-commands")
}

#[test]
fn what_begins_with_the_prefix_is_gone_and_the_rest_stays() {
    let server = guira().start_guira();
    let mut client = server.connect();
    for number in 0..1000 {
        client.set(&format!("user:{number}"), "x");
        client.set(&format!("page:{number}"), "y");
    }
    client.exchange("flush_prefix user:\r\n", "OK\r\n");
    client.set("user:7", "new");
    for number in 0..1000 {
        client.expect_value(&format!("page:{number}"), "y");
        if number != 7 {
            client.exchange(format!("get user:{number}\r\n"), "END\r\n");
        }
    }
    client.expect_value("user:7", "new");
}

#[test]
fn several_prefixes_go_at_once() {
    let server = guira().start_guira();
    let mut client = server.connect();
    ["a1", "b1", "c1", "d1"].iter().for_each(|key| client.set(key, "x"));
    client.exchange("flush_prefix a b  c \r\n", "OK\r\n");
    client.exchange("get a1 b1 c1 d1\r\n", "VALUE d1 0 1\r\nx\r\nEND\r\n");
    client.exchange("flush_prefix d noreply\r\nget d1\r\n", "END\r\n");
    client.set("noreply", "x");
    client.exchange("flush_prefix noreply noreply\r\nget noreply\r\n", "END\r\n");
    assert_eq!(client.stats("")["cmd_flush_prefix"], "5");
}

#[test]
fn the_meta_form_has_the_flags_of_md() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.set("user:1", "x");
    client.talk(&[
        ("md user: G\r\n", "HD\r\n"),
        ("get user:1\r\n", "END\r\n"),
        ("md user: G O77 k\r\n", "HD O77 kuser:\r\n"),
        ("md user: G q\r\nmn\r\n", "MN\r\n"),
        ("md dXNlcjo= b G k\r\n", "HD kdXNlcjo= b\r\n"),
        ("ms AAEC 1 b\r\nx\r\n", "HD\r\n"),
        ("md AAE= b G\r\n", "HD\r\n"),
        ("mg AAEC b\r\n", "EN\r\n"),
    ]);
}

#[test]
fn forms_that_make_no_sense_are_refused() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.set("user:1", "x");
    let bad = "CLIENT_ERROR bad command line format\r\n";
    let invalid = "CLIENT_ERROR invalid flag\r\n";
    let longest = "k".repeat(250);
    client.talk(&[
        ("flush_prefix\r\n", bad),
        ("flush_prefix  \r\n", bad),
        ("md user:1 G x\r\n", invalid),
        ("md user:1 G I\r\n", invalid),
        ("md user:1 G H2\r\n", invalid),
        ("md user:1 G C5\r\n", invalid),
        ("md user:1 G T5\r\n", invalid),
        ("md user:1 G G\r\n", "CLIENT_ERROR duplicate flag\r\n"),
        ("md !! b G\r\n", "CLIENT_ERROR error decoding key\r\n"),
        ("mg user:1 G\r\n", invalid),
        ("ms user:1 1 G\r\nx\r\n", invalid),
        ("ma user:1 G\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"),
    ]);
    client.exchange(format!("flush_prefix {longest}\r\n"), "OK\r\n");
    client.exchange(format!("flush_prefix {longest}k\r\n"), bad);
    client.exchange(format!("flush_prefix user: {longest}k\r\n"), bad);
    client.exchange(format!("md {longest}k G\r\n"), bad);
    let many: String = (0..33).map(|number| format!(" p{number}")).collect();
    client
        .exchange(format!("flush_prefix{many} user:\r\n"), "CLIENT_ERROR too many prefixes: at most 32\r\n");
    // A fault is silent where no reply is wanted.
    client.exchange("flush_prefix noreply\r\nmn\r\n", "MN\r\n");
    client.expect_value("user:1", "x");
}

#[test]
fn it_is_refused_with_flush_all() {
    let server = guira().guira_argument("--disable-flush-all").start_guira();
    let mut client = server.connect();
    client.set("user:1", "x");
    client.exchange("flush_prefix user:\r\n", "CLIENT_ERROR flush_prefix not allowed\r\n");
    client.exchange("md user: G\r\n", "CLIENT_ERROR flush_prefix not allowed\r\n");
    client.expect_value("user:1", "x");
}

#[test]
fn leases_tombstones_and_stale_values_under_it_end() {
    let server = guira().guira_argument("--stale-values=100").start_guira();
    let mut client = server.connect();
    let line = client.ask("lease-get user:1\r\n");
    client.hear("\r\nEND\r\n");
    let token = line.split(' ').nth(2).expect("a token").to_owned();
    client.talk(&[
        ("md user:2 H100\r\n", "NF\r\n"),
        ("set user:3 0 0 1\r\nx\r\n", "STORED\r\n"),
        ("delete user:3\r\n", "DELETED\r\n"),
        ("flush_prefix user:\r\n", "OK\r\n"),
        ("add user:2 0 0 1\r\nx\r\n", "STORED\r\n"),
    ]);
    client.exchange(format!("lease-set user:1 {token} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
    let fresh = client.ask("lease-get user:3\r\n");
    client.hear("\r\nEND\r\n");
    assert!(fresh.ends_with(" 0 0"), "there is no stale value: {fresh}");
}

#[test]
fn many_in_a_row_are_no_error_for_a_small_cache() {
    let server = guira().start_guira();
    let mut client = server.connect();
    for number in 0..200 {
        let key = format!("round{number}:");
        client.set(&key, "x");
        client.set("kept", "y");
        client.exchange(format!("flush_prefix {key}\r\n"), "OK\r\n");
        client.exchange(format!("get {key} kept\r\n"), "VALUE kept 0 1\r\ny\r\nEND\r\n");
    }
    client.expect_value("kept", "y");
}

/// Answers that a client got while another one, with `count` deletes by prefix in flight, had not
/// got all of its own.
fn answers_beside(server: &Server, count: usize) -> usize {
    let mut deleting = server.connect();
    let mut asking = server.connect();
    asking.set("kept", "x");
    // The generations are in use up before.
    (0..6).for_each(|_| _ = deleting.ask("flush_prefix none\r\n"));
    deleting.send("flush_prefix none\r\n".repeat(count));
    let thread = std::thread::spawn(move || {
        for _ in 0..count {
            let reply = deleting.line();
            assert!(reply == "OK" || reply.starts_with("SERVER_ERROR earlier prefix deletes"), "{reply}");
        }
    });
    let mut answers = 0;
    while !thread.is_finished() {
        asking.expect_value("kept", "x");
        answers += 1;
    }
    thread.join().expect("each is answered");
    answers
}

#[test]
fn others_are_served_while_one_client_deletes_more_prefixes_than_can_be_followed_up() {
    let server = guira().guira_argument("--workers=1").start_guira();
    let mut client = server.connect();
    for first in (0..200_000).step_by(1000) {
        let line = |number| format!("set many:{number} 0 0 1 noreply\r\nx\r\n");
        client.send((first..first + 1000).map(line).collect::<String>());
        client.exchange("mn\r\n", "MN\r\n");
    }
    let answers = answers_beside(&server, 64);
    assert!(answers >= 64, "{answers} answers beside 64 deletes");
}

/// Of memory: what was deleted is removed without anybody asking for it.
#[test]
fn the_items_are_removed_in_the_background() {
    let server = guira().start_guira();
    let mut client = server.connect();
    (0..5000).for_each(|number| client.set(&format!("gone:{number}"), "x"));
    client.set("kept", "x");
    client.exchange("flush_prefix gone:\r\n", "OK\r\n");
    wait_for("the crawler", || (client.stats("")["curr_items"] == "1").then_some(()));
    client.send("lru_crawler metadump all\r\n");
    assert_eq!(client.line(), "OK");
    let line = client.loose_line();
    assert!(line.starts_with("key=kept "), "{line}");
    client.hear("END\r\n");
}

#[test]
fn it_comes_after_requests_before_it_and_before_those_behind() {
    let server = guira().start_guira();
    let mut client = server.connect();
    client.exchange(
        "set a:1 0 0 1\r\nx\r\nflush_prefix a:\r\nget a:1\r\nset a:1 0 0 1\r\ny\r\nmd b G\r\nget a:1\r\n",
        "STORED\r\nOK\r\nEND\r\nSTORED\r\nHD\r\nVALUE a:1 0 1\r\ny\r\nEND\r\n",
    );
}
