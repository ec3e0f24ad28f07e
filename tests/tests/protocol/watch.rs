//! `watch`: events line by line to the clients that asked, for which no request waits.

use guira_tests::server::wait_for;
use guira_tests::{Client, Server, Setup, newer_than_peer, upstream_flaw};

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
fn gets_and_sets_are_logged_with_their_outcomes() {
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

/// What is logged of each of these requests, without numbers of classes and connections.
#[track_caller]
fn expect_logged(log: &mut Client, client: &mut Client, exchanges: &[(&str, &str, &[&str])]) {
    for (request, reply, events) in exchanges {
        client.exchange(request, reply);
        for expected in *events {
            let line = event(log);
            let words =
                line.split(' ').filter(|word| !word.starts_with("clsid=") && !word.starts_with("cfd="));
            let got = words.collect::<Vec<_>>().join(" ");
            assert_eq!(got, format!("type={expected}"), "after {request:?}");
        }
    }
    // Nothing more was logged.
    client.exchange("get end\r\n", "END\r\n");
    starts_with(&event(log), "type=item_get key=end ");
}

#[test]
fn a_change_of_an_item_is_logged_as_a_get_too() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "fetchers");
    let mut client = server.connect();
    let (found, missed) = ("item_get key=n status=found size=1", "item_get key=n status=not_found size=0");
    client.exchange("mg big q\r\n", "");
    starts_with(&event(&mut log), "type=item_get key=big ");
    let rows: [(&str, &str, &[&str]); 14] = [
        ("incr n 1\r\n", "NOT_FOUND\r\n", &[missed]),
        ("touch n 0\r\n", "NOT_FOUND\r\n", &[missed]),
        ("delete n\r\n", "NOT_FOUND\r\n", &[missed]),
        ("md n\r\n", "NF\r\n", &[missed]),
        ("me n\r\n", "EN\r\n", &[missed]),
        ("ma n N10 J5\r\n", "HD\r\n", &[missed, missed]),
        ("decr n 1\r\n", "4\r\n", &[found]),
        ("ma n\r\n", "HD\r\n", &[found]),
        ("touch n 0\r\n", "TOUCHED\r\n", &[found]),
        ("md n I\r\n", "HD\r\n", &[found]),
        ("md n x\r\n", "HD\r\n", &[found, found]),
        ("delete n\r\n", "DELETED\r\n", &["item_get key=n status=found size=0"]),
        ("mg n N30 v\r\n", "VA 0 W\r\n\r\n", &[missed]),
        ("mg n N30 v\r\n", "VA 0 Z\r\n\r\n", &["item_get key=n status=found size=0"]),
    ];
    expect_logged(&mut log, &mut client, &rows);
    log.abandon();
}

#[test]
fn what_is_stored_is_logged_as_it_is_then() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "mutations fetchers");
    let mut client = server.connect();
    let big = format!("set k 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
    let add_big = format!("add k 0 0 2000000\r\n{}\r\n", "x".repeat(2_000_000));
    let refused = "SERVER_ERROR object too large for cache\r\n";
    let missed = "item_get key=k status=not_found size=0";
    let found = |size| format!("item_get key=k status=found size={size}");
    let (one, three) = (found(1), found(3));
    let rows: [(&str, &str, &[&str]); 7] = [
        (
            "append k 0 0 1\r\nx\r\n",
            "NOT_STORED\r\n",
            &[missed, "item_store key=k status=not_stored cmd=append ttl=0 size=1"],
        ),
        ("ma k N0\r\n", "HD\r\n", &[missed, missed, "item_store key=k status=stored cmd=add ttl=0 size=1"]),
        (
            "append k 0 0 2\r\nxy\r\n",
            "STORED\r\n",
            &[&one, "item_store key=k status=stored cmd=append ttl=0 size=3"],
        ),
        ("md k x\r\n", "HD\r\n", &[&three, &three, "item_store key=k status=stored cmd=set ttl=0 size=0"]),
        (&add_big, refused, &["item_store key=k status=too_large cmd=add ttl=0 size=0"]),
        (
            &big,
            refused,
            &["item_store key=k status=too_large cmd=set ttl=0 size=0", "item_get key=k status=found size=0"],
        ),
        ("get k\r\n", "END\r\n", &[missed]),
    ];
    expect_logged(&mut log, &mut client, &rows);
    client.exchange("set k 0 100 1\r\nx\r\nprepend k 0 0 1\r\ny\r\n", "STORED\r\nSTORED\r\n");
    let events: Vec<String> = (0..4).map(|_| event(&mut log)).collect();
    starts_with(&events[3], "type=item_store key=k status=stored cmd=prepend ttl=");
    assert!(!events[3].contains(" ttl=0 ") && events[3].ends_with(" size=2"), "{events:?}");
    log.abandon();
}

#[test]
fn an_ms_that_is_too_large_is_logged() {
    let server = Server::start();
    upstream_flaw!(server, "writes whatever it finds into the line, or none");
    let mut log = watcher(&server, "mutations fetchers");
    let mut client = server.connect();
    let big = format!("ms k 2000000 ME\r\n{}\r\n", "x".repeat(2_000_000));
    let events: &[&str] =
        &["item_store key=k status=too_large cmd=add ttl=0 size=0", "item_get key=k status=not_found size=0"];
    let rows = [(big.as_str(), "SERVER_ERROR object too large for cache\r\n", events)];
    expect_logged(&mut log, &mut client, &rows);
    log.abandon();
}

#[test]
fn a_value_that_is_taken_away_is_logged_as_a_delete() {
    let server = Server::start();
    newer_than_peer!(server, "has no watcher of deletions");
    let mut log = watcher(&server, "deletions");
    let mut client = server.connect();
    client.exchange("set k 0 0 4\r\nvbar\r\n", "STORED\r\n");
    client.exchange("md k x I\r\n", "HD\r\n");
    client.exchange("md k x\r\n", "HD\r\n");
    let line = event(&mut log);
    starts_with(&line, "type=deleted key=k cmd=md clsid=");
    assert!(line.ends_with(" size=0"), "{line}");
    client.exchange("delete k\r\n", "DELETED\r\n");
    starts_with(&event(&mut log), "type=deleted key=k cmd=delete ");
    log.abandon();
}

#[test]
fn deletes_are_logged_only_of_what_was_there() {
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
fn connections_are_logged_as_they_come_and_go() {
    let server = Server::start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "connevents");
    // The one that was used to wait for the watcher.
    let mut quits = server.connect();
    quits.send_until_closed("quit\r\n");
    let mut events = Vec::new();
    while events.iter().filter(|line: &&String| line.contains("reason=normal")).count() < 2 {
        events.push(event(&mut log));
    }
    assert!(events.iter().any(|line| line.starts_with("type=conn_new rip=127.0.0.1 rport=")), "{events:?}");
    let mut bad = server.connect();
    bad.send_until_closed("GET / HTTP/1.1\r\n\r\n");
    while !events.iter().any(|line| line.starts_with("type=conn_close ") && line.contains("reason=error")) {
        events.push(event(&mut log));
    }
    log.abandon();
}

#[test]
fn evictions_are_logged() {
    let server = Setup::new().options(&["-m", "16"]).start();
    newer_than_peer!(server, "tells other words");
    let mut log = watcher(&server, "evictions");
    let mut client = server.connect();
    let value = "x".repeat(10_000);
    client.send_many((0..3_000).map(|key| format!("set key{key} 0 0 10000 noreply\r\n{value}\r\n")));
    client.sync();
    let line = event(&mut log);
    starts_with(&line, "type=eviction key=key");
    assert!(line.contains(" fetch=no ttl=-1 la=") && line.ends_with(" size=10000"), "{line}");
    log.abandon();
}

#[test]
fn a_watcher_who_does_not_read_learns_how_much_was_skipped() {
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
fn that_watch_comes_first_is_checked_before_what_is_wrong_with_it() {
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
fn a_watcher_sees_nothing_that_was_before_it() {
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
