//! Clients that have to say who they are, in the text protocol (`-Y`) and in the binary one (`-S`; memcached takes its users from another
//! file, so that these tests are of Guira alone).

use std::fs;

use guira_tests::binary::{Request, get};

use guira_tests::scratch::Scratch;
use guira_tests::server::{Server, Setup, wait_for};

const SASL_LIST: u8 = 0x20;
const SASL_AUTH: u8 = 0x21;
const SASL_STEP: u8 = 0x22;
const VERSION: u8 = 0x0b;

fn users(scratch: &Scratch, text: &str) -> String {
    let path = scratch.path().join("users");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn with_users(scratch: &Scratch) -> Server {
    Setup::new().options(&["-Y", &users(scratch, "foo:bar\nbaaaz:quux\n")]).start()
}

#[test]
fn nothing_is_done_for_a_stranger() {
    let scratch = Scratch::new();
    let server = with_users(&scratch);
    let mut client = server.connect();
    for request in ["get foo\r\n", "version\r\n", "mg foo v\r\n", "flush_all\r\n", "stats settings\r\n"] {
        client.exchange(request, "CLIENT_ERROR unauthenticated\r\n");
    }
    client.exchange("set foo 0 0 7\r\nfoo bab\r\n", "CLIENT_ERROR authentication failure\r\n");
    client.exchange("set foo 0 0 6\r\nfoobar\r\n", "CLIENT_ERROR bad authentication token format\r\n");
    if server.older_than_the_law().is_some() {
        // It has no longest secret, and answers short lines.
        return client.abandon();
    }
    client.exchange("set foo 0 0 2147483646\r\n", "CLIENT_ERROR auth token too long\r\n");
    // A line as short as that of a client that says goodbye here is no request of a stranger.
    client.send("mn\r\n");
    client.expect_closed();
}

#[test]
fn a_user_with_a_password_is_let_in() {
    let scratch = Scratch::new();
    let server = with_users(&scratch);
    let mut client = server.connect();
    client.exchange("set anything 0 0 7\r\nfoo bar\r\n", "STORED\r\n");
    client.exchange("get anything\r\n", "END\r\n");
    client.exchange("set toast 0 0 2\r\nhi\r\n", "STORED\r\n");
    let mut other = server.connect();
    other.exchange("get toast\r\n", "CLIENT_ERROR unauthenticated\r\n");
    other.exchange("set x 0 0 10\r\nbaaaz quux\r\n", "STORED\r\n");
    other.exchange("get toast\r\n", "VALUE toast 0 2\r\nhi\r\nEND\r\n");
    let stats = other.stats("");
    assert_eq!((stats["auth_cmds"].as_str(), stats["auth_errors"].as_str()), ("2", "0"));
}

#[test]
fn a_login_may_come_in_pieces_and_with_what_follows_it() {
    let scratch = Scratch::new();
    let server = with_users(&scratch);
    let mut client = server.connect();
    client.send("set x 0 0 7\r\nfoo");
    client.send(" bar\r");
    client.exchange("\nset y 0 0 1\r\n1\r\nget y\r\n", "STORED\r\nSTORED\r\nVALUE y 0 1\r\n1\r\nEND\r\n");
}

#[test]
fn the_file_is_read_again_on_sighup() {
    let scratch = Scratch::new();
    let server = with_users(&scratch);
    let mut old = server.connect();
    old.exchange("set x 0 0 7\r\nfoo bar\r\n", "STORED\r\n");
    users(&scratch, "foo:new\n");
    server.signal("HUP");
    let mut client = server.connect();
    wait_for("the new password", || {
        (client.ask("set x 0 0 7\r\nfoo new\r\n").starts_with("STORED")).then_some(())
    });
    let mut other = server.connect();
    other.exchange("set x 0 0 7\r\nfoo bar\r\n", "CLIENT_ERROR authentication failure\r\n");
    other.abandon();
    // A client that has logged in stays so.
    old.exchange("get x\r\n", "END\r\n");
}

#[test]
fn a_file_that_cannot_be_read_again_is_counted_and_changes_nothing() {
    let scratch = Scratch::new();
    let server = Setup::new().options(&["-Y", &users(&scratch, "foo:bar\n")]).start_guira();
    let mut client = server.connect();
    client.exchange("set x 0 0 7\r\nfoo bar\r\n", "STORED\r\n");
    assert_eq!(client.stats("")["auth_file_reload_errors"], "0");
    users(&scratch, "no user\n");
    server.signal("HUP");
    wait_for("the error", || (client.stats("")["auth_file_reload_errors"] == "1").then_some(()));
    server.connect().exchange("set x 0 0 7\r\nfoo bar\r\n", "STORED\r\n");
}

fn plain(user: &str, password: &str) -> Vec<u8> {
    format!("\0{user}\0{password}").into_bytes()
}

#[test]
fn sasl_plain_lets_a_user_in() {
    let scratch = Scratch::new();
    let server = Setup::new().options(&["-S", "-Y", &users(&scratch, "foo:bar\n")]).start_guira();
    let mut client = server.connect();
    let list = client.ask_binary(&Request::new(SASL_LIST));
    assert_eq!((list.status, list.value.as_slice()), (0, &b"PLAIN"[..]));
    let wrong = Request::new(SASL_AUTH).key(b"PLAIN").value(plain("foo", "baz"));
    let reply = client.ask_binary(&wrong);
    assert_eq!((reply.status, reply.value.as_slice()), (0x20, &b"Auth failure."[..]));
    let other = Request::new(SASL_AUTH).key(b"CRAM-MD5").value(b"x");
    assert_eq!(client.ask_binary(&other).status, 0x20);
    let right = Request::new(SASL_AUTH).key(b"PLAIN").value(plain("foo", "bar"));
    let reply = client.ask_binary(&right);
    assert_eq!((reply.status, reply.value.as_slice()), (0, &b"Authenticated"[..]));
    assert_eq!(client.ask_binary(&get("nothing")).status, 1);
}

#[test]
fn the_settings_tell_how_clients_log_in() {
    let scratch = Scratch::new();
    let server = with_users(&scratch);
    let mut client = server.connect();
    client.exchange("set x 0 0 7\r\nfoo bar\r\n", "STORED\r\n");
    let settings = client.stats("settings");
    assert_eq!(settings["auth_enabled_sasl"], "no");
    assert!(settings["auth_enabled_ascii"].ends_with("/users"), "{}", settings["auth_enabled_ascii"]);
}

#[test]
fn who_fails_to_log_in_again_is_out() {
    let scratch = Scratch::new();
    let server = Setup::new().options(&["-S", "-Y", &users(&scratch, "foo:bar\n")]).start_guira();
    let login = |password| Request::new(SASL_AUTH).key(b"PLAIN").value(plain("foo", password));
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&login("bar")).status, 0);
    assert_eq!(client.ask_binary(&login("bar")).status, 0);
    assert_eq!(client.ask_binary(&get("nothing")).status, 1, "logging in twice is no harm");
    assert_eq!(client.ask_binary(&login("wrong")).status, 0x20);
    assert_eq!(client.ask_binary(&get("nothing")).status, 0x20);
    client.expect_closed();
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&login("bar")).status, 0);
    assert_eq!(client.ask_binary(&Request::new(SASL_AUTH).key(b"PLAIN")).status, 0x21, "it has only begun");
    assert_eq!(client.ask_binary(&get("nothing")).status, 0x20);
    client.expect_closed();
}

#[test]
fn sasl_plain_may_take_two_steps() {
    let scratch = Scratch::new();
    let server = Setup::new().options(&["-S", "-Y", &users(&scratch, "foo:bar\n")]).start_guira();
    let mut client = server.connect();
    let step = Request::new(SASL_STEP).key(b"PLAIN").value(plain("foo", "bar"));
    assert_eq!(client.ask_binary(&step).status, 0x20, "no step comes first");
    assert_eq!(client.ask_binary(&Request::new(SASL_AUTH).key(b"PLAIN")).status, 0x21);
    assert_eq!(client.ask_binary(&step).status, 0);
}

#[test]
fn a_stranger_who_sends_packets_is_refused_and_closed() {
    let scratch = Scratch::new();
    let server = Setup::new().options(&["-S", "-Y", &users(&scratch, "foo:bar\n")]).start_guira();
    let mut client = server.connect();
    assert_eq!(client.ask_binary(&Request::new(VERSION)).status, 0);
    assert_eq!(client.ask_binary(&get("k")).status, 0x20);
    client.expect_closed();
}
