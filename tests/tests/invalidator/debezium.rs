//! Change events that somebody sends.

use super::{ARRIVAL_MAX, Caches, Invalidator, metric};
use guira_harness::server::Signal;
use guira_tests::deadline::{Deadline, PATIENCE};
use guira_tests::http::HttpClient;
use guira_tests::scratch::Scratch;
use guira_tests::system_calls::expect_restricted;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const HEAD: &str = r#"
admin = "127.0.0.1:0"

[[template]]
schema = "public"
table = "users"
keys = ["user:{id}", "name:{name}"]

[[outbox]]
schema = "public"
table = "outbox"
column = "cached"
"#;

fn configuration(scratch: &Scratch, caches: &Caches) -> PathBuf {
    let place = scratch.file("events");
    let source = format!("[source.debezium]\nlisten = \"unix:{}\"\n", place.display());
    scratch.write("invalidator.toml", &[HEAD, &source, &caches.targets("again-after-ms = 50")].concat())
}

/// Somebody who sends events, and keeps what is not acknowledged.
struct Sender(BufReader<UnixStream>);

impl Sender {
    fn connect(place: &Path) -> Self {
        let connected = Deadline::after(ARRIVAL_MAX).poll(|| UnixStream::connect(place).ok());
        let stream = connected.expect("it listens");
        stream.set_read_timeout(Some(ARRIVAL_MAX)).expect("a timeout");
        Sender(BufReader::new(stream))
    }

    fn send(&mut self, table: &str, op: &str, before: &str, after: &str) {
        let line = format!(
            r#"{{"op":"{op}","source":{{"db":"shop","schema":"public","table":"{table}"}},"before":{before},"after":{after}}}"#
        );
        writeln!(self.0.get_mut(), "{line}").expect("it takes lines");
    }

    /// Waits until so many lines are acknowledged.
    #[track_caller]
    fn wait_for(&mut self, lines: u64) {
        let mut last = 0;
        while last < lines {
            let mut line = String::new();
            assert!(
                self.0.read_line(&mut line).expect("it is told") > 0,
                "the connection ended after {last} lines"
            );
            let told = line.trim_end().parse().expect("a number");
            assert!(told > last, "{told} after {last}");
            last = told;
        }
        assert_eq!(last, lines);
    }
}

#[test]
fn change_events_are_acknowledged_once_their_keys_are_deleted() {
    let (scratch, caches) = (Scratch::new(), Caches::start());
    let file = configuration(&scratch, &caches);
    let mut invalidator = Invalidator::start_by(&file);
    let gone = ["user:1", "user:2", "name:old", "name:new", "list:a", "list:b"];
    caches.store(gone.iter().chain(&["user:3", "list:c"]));
    let mut sender = Sender::connect(&scratch.file("events"));
    sender.send("users", "c", "null", r#"{"id":1,"name":null}"#);
    sender.send("users", "u", r#"{"id":2,"name":"old"}"#, r#"{"id":2,"name":"new"}"#);
    sender.send("others", "c", "null", r#"{"id":3}"#);
    sender.send("outbox", "c", "null", r#"{"cached":"list:a list:b"}"#);
    sender.send("outbox", "d", r#"{"cached":"list:c"}"#, "null");
    // Whoever has nothing more to say can wait for what was said.
    sender.0.get_ref().shutdown(Shutdown::Write).expect("a half of it ends");
    sender.wait_for(5);
    caches.expect_gone(&gone, &["user:3", "list:c"]);
    let mut admin = invalidator.wait_until_someone_sends(&scratch.file("events"));
    what_is_not_acknowledged_is_sent_again(&scratch, &caches, &file, &mut invalidator);
    let mut invalidator = Invalidator::start_by(&file);
    admin = {
        drop(admin);
        invalidator.wait_until_someone_sends(&scratch.file("events"))
    };
    a_line_that_is_no_event_is_skipped(&scratch, &caches, &mut admin);
    invalidator.end();
}

#[test]
fn an_invalidator_with_listed_system_calls_delivers_and_reloads() {
    let (scratch, caches) = (Scratch::new(), Caches::start());
    let file = configuration(&scratch, &caches);
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(&file, format!("system-calls = \"listed\"\n{text}")).expect("it can be written");
    let mut invalidator = Invalidator::start_by(&file);
    let deliver = |keys: [&str; 1], number: u32| {
        caches.store(keys);
        let mut sender = Sender::connect(&scratch.file("events"));
        sender.send("users", "c", "null", &format!(r#"{{"id":{number},"name":null}}"#));
        sender.wait_for(1);
        caches.expect_gone(&keys, &[]);
    };
    deliver(["user:1"], 1);
    let mut admin = invalidator.wait_until_someone_sends(&scratch.file("events"));
    invalidator.process.signal(Signal::HUP);
    let reloads = || (metric(&mut admin, "guira_invalidator_reloads_total") == 1).then_some(());
    Deadline::after(ARRIVAL_MAX).poll(reloads).expect("it reloads");
    deliver(["user:2"], 2);
    assert_eq!(metric(&mut admin, "guira_invalidator_system_calls_refused_total"), 0);
    expect_restricted(invalidator.process.id());
    invalidator.end();
}

impl Invalidator {
    /// Waits until it is ready, which it is while somebody is connected.
    #[track_caller]
    fn wait_until_someone_sends(&mut self, place: &Path) -> HttpClient {
        let _sender = Sender::connect(place);
        self.wait_until_ready()
    }
}

/// One target is away, so that nothing is acknowledged, and the process is killed.
fn what_is_not_acknowledged_is_sent_again(
    scratch: &Scratch,
    caches: &Caches,
    file: &Path,
    invalidator: &mut Invalidator,
) {
    caches.store(["user:10"]);
    let west = &caches.0[1];
    west.signal("STOP");
    let mut sender = Sender::connect(&scratch.file("events"));
    sender.send("users", "d", r#"{"id":10}"#, "null");
    let mut east = caches.0[0].connect();
    let is_gone = || east.value("user:10").is_none().then_some(());
    Deadline::after(ARRIVAL_MAX).poll(is_gone).expect("the east deletes it");
    invalidator.process.signal(Signal::KILL);
    invalidator.process.wait(PATIENCE).unwrap();
    assert_eq!(sender.0.read(&mut [0]).unwrap_or(0), 0, "nothing was acknowledged");
    west.signal("CONT");
    // The next one replaces the socket of the one that is gone.
    let mut invalidator = Invalidator::start_by(file);
    invalidator.wait_until_someone_sends(&scratch.file("events"));
    caches.store(["user:10"]);
    let mut sender = Sender::connect(&scratch.file("events"));
    sender.send("users", "d", r#"{"id":10}"#, "null");
    sender.wait_for(1);
    caches.expect_gone(&["user:10"], &[]);
    invalidator.end();
}

fn a_line_that_is_no_event_is_skipped(scratch: &Scratch, caches: &Caches, admin: &mut HttpClient) {
    caches.store(["user:20"]);
    let mut sender = Sender::connect(&scratch.file("events"));
    writeln!(sender.0.get_mut(), "{{\"id\":1}}\n{{\"op\":\"u\",\"source\":").expect("it takes lines");
    sender.send("others", "u", r#"{"id":60,"note":"\ud800"}"#, r#"{"id":60}"#);
    sender.send("users", "u", r#"{"id":20,"note":"\ud800"}"#, r#"{"id":20}"#);
    sender.wait_for(4);
    caches.expect_gone(&["user:20"], &[]);
    assert_eq!(metric(admin, "guira_invalidator_skipped_lines_total"), 2);
    a_sender_without_a_word_is_left(scratch, caches, sender);
}

/// The one before has ended, this one says nothing, and the next one has something to say.
fn a_sender_without_a_word_is_left(scratch: &Scratch, caches: &Caches, before: Sender) {
    drop(before);
    caches.store(["user:21"]);
    let mut silent = Sender::connect(&scratch.file("events"));
    let mut sender = Sender::connect(&scratch.file("events"));
    sender.send("users", "d", r#"{"id":21}"#, "null");
    sender.wait_for(1);
    caches.expect_gone(&["user:21"], &[]);
    assert_eq!(silent.0.read(&mut [0]).unwrap_or(0), 0, "it is left");
}
