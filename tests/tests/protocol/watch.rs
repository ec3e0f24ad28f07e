//! `watch`: what happens is told line by line, to those who asked, and nobody waits for them.

use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup, newer_than_peer, upstream_flaw};

/// A client that watches.
fn watcher(server: &Server, kinds: &str) -> Client {
    let mut client = server.connect();
    client.exchange(format!("watch {kinds}\r\n"), "OK\r\n");
    // memcached's workers learn of a watcher a moment later.
    let mut other = server.connect();
    other.sync();
    client
}

/// The next line, after its time and number.
fn event(client: &mut Client) -> String {
    let line = client.loose_line();
    let mut words = line.splitn(3, ' ');
    let (time, number) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    assert!(time.starts_with("ts=") && number.starts_with("gid="), "{line}");
    words.next().unwrap_or_default().to_owned()
}

fn starts_with(line: &str, start: &str) {
    assert!(line.starts_with(start), "\"{line}\" does not start with \"{start}\"");
}

#[test]
fn gets_and_sets_are_told_with_their_outcomes() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "fetchers mutations");
    let mut client = server.connect();
    client.exchange("get a%b\r\n", "END\r\n");
    starts_with(&event(&mut log), "type=item_get key=a%25b status=not_found clsid=0 cfd=");
    client.exchange("set k 0 100 5\r\nvalue\r\n", "STORED\r\n");
    starts_with(&event(&mut log), "type=item_get key=k status=not_found ");
    starts_with(&event(&mut log), "type=item_store key=k status=stored cmd=set ttl=100 clsid=");
    client.exchange("get k\r\n", "VALUE k 0 5\r\nvalue\r\nEND\r\n");
    let line = event(&mut log);
    starts_with(&line, "type=item_get key=k status=found clsid=");
    assert!(line.ends_with(" size=5"), "{line}");
    client.exchange("add k 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
    starts_with(&event(&mut log), "type=item_get key=k status=found ");
    starts_with(&event(&mut log), "type=item_store key=k status=not_stored cmd=add ");
    client.exchange("mg k v\r\n", "VA 5\r\nvalue\r\n");
    starts_with(&event(&mut log), "type=item_get key=k status=found ");
    log.abandon();
}

#[test]
fn deletes_are_told_only_of_what_was_there() {
    let server = Server::start();
    newer_than_peer!(server, "has no watcher of deletions");
    let mut log = watcher(&server, "deletions");
    let mut client = server.connect();
    client.exchange("delete k\r\n", "NOT_FOUND\r\n");
    client.exchange("set k 0 0 4\r\nvbar\r\n", "STORED\r\n");
    client.exchange("md k I\r\n", "HD\r\n");
    client.exchange("delete k\r\n", "DELETED\r\n");
    let line = event(&mut log);
    starts_with(&line, "type=deleted key=k cmd=delete clsid=");
    assert!(line.ends_with(" size=4"), "{line}");
    client.exchange("set k 0 0 4\r\nvbar\r\n", "STORED\r\n");
    client.exchange("md k\r\n", "HD\r\n");
    starts_with(&event(&mut log), "type=deleted key=k cmd=md clsid=");
    log.abandon();
}

#[test]
fn connections_are_told_as_they_come_and_go() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "connevents");
    // The one that was used to wait for the watcher.
    let mut quits = server.connect();
    quits.send_until_closed("quit\r\n");
    let mut told = Vec::new();
    while told.iter().filter(|line: &&String| line.contains("reason=normal")).count() < 2 {
        told.push(event(&mut log));
    }
    assert!(told.iter().any(|line| line.starts_with("type=conn_new rip=127.0.0.1 rport=")), "{told:?}");
    let mut bad = server.connect();
    bad.send_until_closed("GET / HTTP/1.1\r\n\r\n");
    while !told.iter().any(|line| line.starts_with("type=conn_close ") && line.contains("reason=error")) {
        told.push(event(&mut log));
    }
    log.abandon();
}

#[test]
fn evictions_are_told() {
    let server = Setup::new().options(&["-m", "16"]).start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "evictions");
    let mut client = server.connect();
    let value = "x".repeat(10_000);
    for key in 0..3_000 {
        client.send(format!("set key{key} 0 0 10000 noreply\r\n{value}\r\n"));
    }
    client.sync();
    let line = event(&mut log);
    starts_with(&line, "type=eviction key=key");
    assert!(line.contains(" fetch=no ttl=-1 la=") && line.ends_with(" size=10000"), "{line}");
    log.abandon();
}

#[test]
fn a_watcher_who_does_not_read_is_told_how_much_was_skipped() {
    let server = Setup::new().options(&["-o", "watcher_logbuf_size=16"]).start();
    upstream_flaw!(server, "the line comes late, or not at all");
    let mut log = watcher(&server, "fetchers");
    let mut client = server.connect();
    let key = "k".repeat(240);
    let many = format!("get {key}\r\n").repeat(200);
    let skipped = |client: &mut Client| client.stats("")["log_watcher_skipped"] != "0";
    wait_for("a skipped line", || {
        client.exchange(&many, "END\r\n".repeat(200));
        skipped(&mut client).then_some(())
    });
    wait_for("the line that tells it", || {
        // It comes once there is room again.
        client.exchange("get x\r\n", "END\r\n");
        (0..20).any(|_| log.loose_line().starts_with("skipped=")).then_some(())
    });
    log.abandon();
}

#[test]
fn watchers_are_counted_and_limited() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut watchers: Vec<Client> = (0..20).map(|_| watcher(&server, "fetchers")).collect();
    let mut client = server.connect();
    wait_for("all watchers", || (client.stats("")["log_watchers"] == "20").then_some(()));
    client.exchange("watch fetchers\r\n", "WATCHER_TOO_MANY log watcher limit reached\r\n");
    client.exchange("watch everything\r\n", "ERROR\r\n");
    while let Some(watcher) = watchers.pop() {
        watcher.abandon();
    }
    wait_for("the end of all watchers", || (client.stats("")["log_watchers"] == "0").then_some(()));
    // Somebody may watch again.
    let mut log = watcher(&server, "fetchers");
    client.exchange("get k\r\n", "END\r\n");
    starts_with(&event(&mut log), "type=item_get key=k ");
    log.abandon();
}

#[test]
fn watch_comes_first() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange(
        "mg k v\r\nwatch fetchers\r\n",
        "EN\r\nERROR cannot pipeline other commands before watch\r\n",
    );
}

#[test]
fn mn_ends_what_came_before_watch() {
    let server = Server::start();
    let mut watcher = server.connect();
    watcher.exchange("mn\r\nwatch fetchers\r\n", "MN\r\nOK\r\n");
    watcher.abandon();
}

#[test]
fn that_watch_comes_first_is_told_before_what_is_wrong_with_it() {
    let server = Server::start();
    let mut client = server.connect();
    let refused = "EN kk\r\nERROR cannot pipeline other commands before watch\r\n";
    client.exchange("mg k k\r\nwatch foo\r\n", refused);
    client.exchange("watch foo\r\n", "ERROR\r\n");
}

#[test]
fn watching_can_be_forbidden() {
    let server = Setup::new().options(&["-W"]).start();
    server.connect().exchange("watch mutations\r\n", "CLIENT_ERROR watch commands not allowed\r\n");
}

#[test]
fn a_watcher_is_told_of_nothing_that_was_before_it() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut client = server.connect();
    // Others watch all the while, so that there are lines.
    let first = watcher(&server, "fetchers");
    for number in 0..30 {
        let mut late = server.connect();
        client.exchange(format!("get before{number}\r\n").repeat(50), "END\r\n".repeat(50));
        late.exchange("watch fetchers\r\n", "OK\r\n");
        client.exchange("get after\r\n", "END\r\n");
        starts_with(&event(&mut late), "type=item_get key=after ");
        late.abandon();
    }
    first.abandon();
}
