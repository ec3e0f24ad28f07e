//! The log: what happens to the server, and not what clients ask for.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use guira_tests::Client;
use guira_tests::scratch::Scratch;
use guira_tests::server::{Address, Server, Setup, is_root, wait_for, wait_for_log};
use guira_tests::tls::Certificate;

fn count(server: &Server, text: &str) -> usize {
    server.log().matches(text).count()
}

#[test]
fn clients_cannot_fill_it() {
    let server = Setup::new().options(&["-v"]).start_guira();
    let mut client = server.connect();
    let times = 2_000;
    for (request, answer) in [
        ("lru temp_ttl 1\r\n", "OK\r\n"),
        ("cache_memlimit 999999\r\n", "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"),
        ("cache_memlimit 64\r\n", "OK\r\n"),
    ] {
        client.exchange_at_once(request.repeat(times).as_bytes(), answer.repeat(times).as_bytes());
    }
    wait_for_log(|| server.log(), "the lru command has no effect");
    wait_for_log(|| server.log(), "the memory limit");
    // One a second of each kind, and the machine may be slow.
    assert_eq!(count(&server, "the lru command has no effect"), 1);
    assert!(count(&server, "the memory limit") < 40, "{}", server.log());
}

#[test]
fn it_says_why_files_could_not_be_read_again() {
    let scratch = Scratch::new();
    let users = scratch.path().join("users");
    fs::write(&users, "foo:bar\n").unwrap();
    let certificate = Certificate::issue();
    let setup = Setup::new().guira_argument(&format!("--auth-file={}", users.display()));
    let server = certificate.given_to(setup).start_guira();
    fs::remove_file(&users).unwrap();
    fs::remove_file(certificate.key()).unwrap();
    server.signal("HUP");
    wait_for_log(
        || server.log(),
        "cannot reload the auth file; keeping the previous users: cannot read the auth file",
    );
    wait_for_log(|| server.log(), "cannot reload certificates; keeping the previous ones: cannot read");
    wait_for("both reasons", || (count(&server, "No such file or directory") >= 2).then_some(()));
}

#[test]
fn files_that_only_root_may_see_have_not_changed_when_root_is_given_up() {
    if !is_root() {
        eprintln!("skipped: only root can give privileges up");
        return;
    }
    let certificate = Certificate::issue();
    fs::set_permissions(certificate.chain().parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
    let scratch = Scratch::new();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o777)).unwrap();
    let socket = scratch.path().join("socket");
    let listen = format!("--listen=unix:{}", socket.display());
    let arguments = ["--user=nobody", "--workers=1", "--test-commands", &listen];
    let server = arguments.into_iter().fold(certificate.given_to(Setup::new()), Setup::guira_argument);
    let server = server.start_guira();
    let mut client = Client::connect(&Address::Unix(socket));
    // The files are looked at in each new second.
    for _ in 0..3 {
        client.exchange("debugtime 1\r\n", "OK\r\n");
        client.sync();
    }
    assert_eq!(client.stats("")["ssl_cert_reload_errors"], "0", "{}", server.log());
    server.signal("HUP");
    wait_for_log(|| server.log(), "Permission denied");
}
