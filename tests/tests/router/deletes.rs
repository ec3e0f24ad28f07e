//! Deletes that fail: logged before they are acknowledged, and delivered when their server is back.

use crate::{Router, name, output, stop};
use guira_harness::port;
use guira_harness::server::Signal;
use guira_tests::mounted::Mounted;
use guira_tests::scratch::Scratch;
use guira_tests::server::{wait_for, wait_for_log};
use guira_tests::tls::Certificate;
use guira_tests::{Client, Server, Setup};
use std::fs;
use std::path::{Path, PathBuf};

/// A router that logs here, gives servers up soon and asks soon whether they are back.
#[track_caller]
pub(crate) fn start(folder: &Path, config: &str, more: &[&str]) -> Router {
    let folder = folder.to_str().expect("a path of ours");
    let options = [
        "--async-dir",
        folder,
        "--config-str",
        config,
        "--server-timeout-ms=300",
        "--probe-timeout-initial-ms=50",
        "--probe-timeout-max-ms=100",
    ];
    Router::start(&[&options[..], more].concat())
}

pub(crate) fn config(server: &str) -> String {
    format!(r#"{{"pools": {{"P": {{"servers": ["{server}"]}}}}, "route": "PoolRoute|P"}}"#)
}

/// An address that refuses connections.
pub(crate) fn refusing_address() -> String {
    port::refusing_address().to_string()
}

/// Files of logged deletes, the oldest first.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for hour in fs::read_dir(folder).unwrap() {
        let hour = hour.unwrap();
        if hour.file_name().to_str().unwrap().starts_with('.') {
            continue;
        }
        // It may be removed meanwhile.
        files.extend(fs::read_dir(hour.path()).into_iter().flatten().map(|file| file.unwrap().path()));
    }
    files.sort_by_key(|file| file.file_name().unwrap().to_owned());
    files
}

/// The lines of all files. One that is not complete at the end of a file is left out.
pub(crate) fn lines(folder: &Path) -> Vec<serde_json::Value> {
    let mut lines = Vec::new();
    for file in files(folder) {
        let text = fs::read_to_string(file).unwrap();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.extend(whole.map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line)));
    }
    lines
}

fn counter(client: &mut Client, name: &str) -> u64 {
    client.stats("")[name].parse().unwrap()
}

#[track_caller]
fn wait_until_empty(folder: &Path) {
    wait_for("an empty folder", || files(folder).is_empty().then_some(()));
}

#[test]
fn deletes_for_a_server_that_stops_are_acknowledged_and_delivered_when_it_goes_on() {
    let (node, scratch) = (Server::start(), Scratch::new());
    let router = start(scratch.path(), &config(&name(&node)), &[]);
    let mut client = router.connect();
    for number in 0..100 {
        client.exchange(format!("set key{number} 0 0 1\r\nx\r\n"), "STORED\r\n");
    }
    stop(&node);
    // Those that the server is sent and does not answer …
    for number in 0..3 {
        client.exchange(format!("delete key{number}\r\n"), "NOT_FOUND\r\n");
    }
    // … and those that it is not sent.
    let many: String = (3..97).map(|number| format!("delete key{number}\r\n")).collect();
    client.exchange(many, "NOT_FOUND\r\n".repeat(94));
    client.exchange(
        "md key97 Oabc k q\r\nmd a2V5OTg= b k\r\nmn\r\n",
        "NF Oabc kkey97\r\nNF b ka2V5OTg=\r\nMN\r\n",
    );
    client.exchange(
        "delete key99 noreply\r\nget key99\r\n",
        "SERVER_ERROR Server unavailable. Reason: mc_res_timeout\r\n",
    );
    assert_eq!(lines(scratch.path()).len(), 100);
    assert_eq!(counter(&mut client, "asynclog_requests"), 100);
    assert_eq!(counter(&mut client, "asynclog_written"), 100);
    assert_eq!(counter(&mut client, "asynclog_waiting"), 0);
    node.signal("CONT");
    wait_until_empty(scratch.path());
    let mut direct = node.connect();
    for number in 0..100 {
        direct.exchange(format!("get key{number}\r\n"), "END\r\n");
    }
    assert_eq!(counter(&mut client, "asynclog_replay_delivered"), 100);
    client.exchange(
        "set key1 0 0 1\r\ny\r\ndelete key1\r\ndelete key1\r\n",
        "STORED\r\nDELETED\r\nNOT_FOUND\r\n",
    );
    assert_eq!(counter(&mut client, "asynclog_requests"), 100);
}

#[test]
fn a_router_that_was_killed_leaves_deletes_to_the_next() {
    let scratch = Scratch::new();
    let folder = scratch.file("spool");
    fs::create_dir(&folder).unwrap();
    let socket = scratch.file("memcached");
    let config = config(&format!("unix:{}", socket.display()));
    let mut router = start(&folder, &config, &["--service-name=www", "--router-name=web"]);
    let mut client = router.connect();
    client.exchange("delete a\r\ndelete b\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n");
    client.exchange("md Y8O8 b\r\n", "NF b\r\n");
    client.abandon();
    router.process.kill();
    let [file] = &*files(&folder) else { panic!("one file") };
    let path = file.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
    let (hour, file) = path.split_once('/').unwrap();
    assert!(hour.len() == "20101110T19-1289415600".len() && hour.as_bytes()[8] == b'T', "{path}");
    assert!(file.contains("-www-web-t"), "{path}");
    let commands: Vec<String> = lines(&folder)
        .iter()
        .map(|line| {
            assert_eq!((&line[0], &line[2]), (&"AS1.0".into(), &"C".into()), "{line}");
            assert!(line[1].is_f64() && line[3][0].as_str().unwrap().starts_with("unix:"), "{line}");
            line[3][2].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(commands, ["delete a\r\n", "delete b\r\n", "delete cü\r\n"]);
    let node = Setup::new().unix_socket(&socket).start_guira();
    let mut direct = node.connect();
    direct.exchange(
        "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nset cü 0 0 1\r\nx\r\nset d 0 0 1\r\nx\r\n",
        "STORED\r\n".repeat(4),
    );
    let _router = start(&folder, &config, &[]);
    wait_until_empty(&folder);
    direct.exchange("get a b cü d\r\n", "VALUE d 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn the_second_version_tells_the_pool_and_the_router() {
    let scratch = Scratch::new();
    let refusing = refusing_address();
    let config = format!(
        r#"{{"pools": {{"P": {{"servers": ["{refusing}"], "keep_routing_prefix": true}}}},
            "route": {{"type": "PoolRoute", "pool": "P", "asynclog_name": "log"}}}}"#
    );
    let more =
        ["--use-asynclog-version2", "--route-prefix=/here/there/", "--service-name=www", "--router-name=web"];
    let router = start(scratch.path(), &config, &[&more[..], &["--asynclog-sync=always"]].concat());
    router.connect().exchange("delete /here/there/a\r\ndelete b\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n");
    let (host, port) = refusing.split_once(':').unwrap();
    let expected = |key: &str| {
        serde_json::json!({
            "s": "www", "f": "web", "r": "here", "h": format!("[{host}]:{port}"), "p": "log", "k": key, "a": {"al": 1}
        })
    };
    let lines = lines(scratch.path());
    assert!(lines.iter().all(|line| line[0] == "AS2.0"), "{lines:?}");
    assert_eq!([&lines[0][3], &lines[1][3]], [&expected("/here/there/a"), &expected("b")]);
}

#[test]
fn what_is_not_to_be_logged_is_told_as_a_failure() {
    let scratch = Scratch::new();
    let quiet = format!(
        r#"{{"pools": {{"P": {{"servers": ["{}"]}}}}, "route": {{"type": "PoolRoute", "pool": "P", "asynclog": false}}}}"#,
        refusing_address()
    );
    for (config, more) in [(&quiet, &[][..]), (&config(&refusing_address()), &["--asynclog-disable"])] {
        let router = start(scratch.path(), config, more);
        let mut client = router.connect();
        client.exchange("delete a\r\n", "SERVER_ERROR connection error\r\n");
        client.exchange("delete a\r\n", "SERVER_ERROR Server unavailable. Reason: mc_res_connect_error\r\n");
        assert!(files(scratch.path()).is_empty());
    }
}

#[test]
fn other_requests_fail_as_they_did_and_a_delete_that_is_logged_goes_to_no_other_server() {
    let (gutter, scratch) = (Server::start(), Scratch::new());
    let config = format!(
        r#"{{"pools": {{"P": {{"servers": ["{}"]}}, "G": {{"servers": ["{}"]}}}},
            "route": {{"type": "FailoverRoute", "children": ["PoolRoute|P", "PoolRoute|G"]}}}}"#,
        refusing_address(),
        name(&gutter)
    );
    let router = start(scratch.path(), &config, &[]);
    let mut client = router.connect();
    client.exchange("set a 0 0 1\r\nx\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    client.exchange("delete a\r\nget a\r\n", "NOT_FOUND\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(lines(scratch.path()).len(), 1);
}

#[test]
fn a_delete_that_could_not_be_logged_fails_though_a_gutter_could_be_asked() {
    let (gutter, scratch) = (Server::start(), Scratch::new());
    let config = format!(
        r#"{{"pools": {{"P": {{"servers": ["{}"]}}, "G": {{"servers": ["{}"]}}}},
            "route": {{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|P", "failover": "PoolRoute|G", "failover_exptime": 60}}}}"#,
        refusing_address(),
        name(&gutter)
    );
    let router = start(&scratch.file("missing"), &config, &[]);
    let mut client = router.connect();
    client.exchange("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange(
        "delete a\r\nmd a\r\n",
        "SERVER_ERROR Server unavailable: the delete could not be logged\r\n".repeat(2),
    );
    // The gutter has deleted the key.
    client.exchange("get a\r\n", "END\r\n");
}

#[test]
fn a_delete_is_acknowledged_by_the_server_that_owns_the_key_or_by_the_log_or_not_at_all() {
    let (node, gutter) = (Server::start(), Server::start());
    let scratch = Scratch::new();
    let pools = format!(
        r#""pools": {{"P": {{"servers": ["{}"]}}, "G": {{"servers": ["{}"]}}}}"#,
        name(&node),
        name(&gutter)
    );
    node.connect().set("k", "old");
    stop(&node);
    let normal = r#"{"type": "PoolRoute", "pool": "P", "asynclog": false}"#;
    for (normal, more) in [("\"PoolRoute|P\"", &["--asynclog-disable"][..]), (normal, &[])] {
        let config = format!(
            r#"{{{pools}, "route": {{"type": "FailoverWithExptimeRoute", "normal": {normal}, "failover": "PoolRoute|G"}}}}"#
        );
        let router = start(scratch.path(), &config, more);
        let mut client = router.connect();
        for request in ["delete k\r\n", "md k\r\n", "delete k\r\n", "delete k\r\n", "md k q\r\n"] {
            gutter.connect().set("k", "stand-in");
            let line = client.ask(request);
            assert!(
                line == "SERVER_ERROR Reply timeout"
                    || line == "SERVER_ERROR Server unavailable. Reason: mc_res_timeout",
                "{request:?}: {line}"
            );
            gutter.connect().exchange("get k\r\n", "END\r\n");
        }
    }
}

/// A router with a cluster of its own and another one, whose server is `away`.
fn clusters(own: &str, away: &str, folder: &Path, more: &[&str]) -> Router {
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["{own}"]}}, "B": {{"servers": ["{away}"]}}}},
            "routes": {{"/r/a/": "PoolRoute|A", "/r/b/": "PoolRoute|B"}}}}"#
    );
    start(folder, &config, &[&["--route-prefix=/r/a/"][..], more].concat())
}

#[test]
fn a_delete_for_all_clusters_is_acknowledged_when_each_has_had_it_or_has_logged_it() {
    let (own, away) = (Server::start(), Server::start());
    let scratch = Scratch::new();
    let names = (name(&own), name(&away));
    let missing = scratch.file("missing");
    for (folder, more) in [(scratch.path(), &["--asynclog-disable"][..]), (&*missing, &[])] {
        let router = clusters(&names.0, &refusing_address(), folder, more);
        let mut client = router.connect();
        for request in ["delete /*/*/k\r\n", "md /*/*/k\r\n", "delete /r/*/k\r\n", "md /r/*/k q\r\n"] {
            let line = client.ask(request);
            assert!(line.starts_with("SERVER_ERROR"), "{request:?}: {line}");
        }
        client.exchange("delete /*/a/k\r\ndelete k\r\n", "NOT_FOUND\r\n".repeat(2));
    }
    let router = clusters(&names.0, &names.1, scratch.path(), &[]);
    let mut client = router.connect();
    client.exchange("set /r/b/k 0 0 1\r\nx\r\nset k 0 0 1\r\nx\r\n", "STORED\r\n".repeat(2));
    client.exchange("delete /*/*/k\r\nget k\r\nget /r/b/k\r\n", "DELETED\r\nEND\r\nEND\r\n");
    client.exchange("set k 0 0 1\r\nx\r\nset /r/b/k 0 0 1\r\nx\r\n", "STORED\r\n".repeat(2));
    // The answer comes when the other cluster's delete is logged, and not before.
    stop(&away);
    client.exchange("delete /*/*/k\r\n", "NOT_FOUND\r\n");
    assert_eq!(lines(scratch.path()).len(), 1);
    // Other requests are answered by the nearest cluster, as mcrouter does.
    client.exchange("set /*/*/k 0 0 1\r\ny\r\nget /*/*/k\r\n", "STORED\r\nVALUE /*/*/k 0 1\r\ny\r\nEND\r\n");
    away.signal("CONT");
    wait_until_empty(scratch.path());
}

#[test]
fn a_logged_delete_is_delivered_with_its_hold_off() {
    let (logs, sockets) = (Scratch::new(), Scratch::new());
    for (round, version) in [&[][..], &["--use-asynclog-version2"]].into_iter().enumerate() {
        let socket = sockets.file(&format!("node{round}"));
        let router = start(logs.path(), &config(&format!("unix:{}", socket.display())), version);
        let mut client = router.connect();
        client.exchange(
            "delete a 100\r\nmd b H100\r\nmd YyBk b H100\r\ndelete e\r\n",
            "NOT_FOUND\r\nNF\r\nNF b\r\nNOT_FOUND\r\n",
        );
        // It is there for the first time, so that what it knows of the deletes it has from the log.
        let node = Setup::new().unix_socket(&socket).guira_argument("--delete-hold-off").start_guira();
        wait_until_empty(logs.path());
        let mut direct = node.connect();
        for key in ["a", "b"] {
            direct.exchange(format!("add {key} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
        }
        direct.exchange("ms YyBk 1 b ME\r\nx\r\n", "NS\r\n");
        direct.exchange("add e 0 0 1\r\nx\r\nflush_all\r\n", "STORED\r\nOK\r\n");
    }
}

#[test]
fn deletes_that_nobody_waits_for_are_logged_too() {
    let (node, scratch) = (Server::start(), Scratch::new());
    let config = format!(
        r#"{{"pools": {{"P": {{"servers": ["{}"]}}, "R": {{"servers": ["{}"]}}}},
            "route": {{"type": "AllInitialRoute", "children": ["PoolRoute|P", "PoolRoute|R"]}}}}"#,
        name(&node),
        refusing_address()
    );
    let router = start(scratch.path(), &config, &[]);
    let mut client = router.connect();
    client.exchange("delete a\r\ndelete b\r\n", "NOT_FOUND\r\nNOT_FOUND\r\n");
    wait_for("both lines", || (lines(scratch.path()).len() == 2).then_some(()));
}

#[test]
fn a_router_that_stops_waits_for_deletes_that_nobody_waits_for() {
    let (node, scratch) = (Server::start(), Scratch::new());
    let config = format!(
        r#"{{"pools": {{"P": {{"servers": ["{}"]}}}}, "route": {{"type": "AllAsyncRoute", "children": ["PoolRoute|P"]}}}}"#,
        name(&node)
    );
    let mut router = start(scratch.path(), &config, &[]);
    stop(&node);
    let mut client = router.connect();
    client.exchange("delete a\r\n", "NOT_FOUND\r\n");
    client.abandon();
    router.process.end().unwrap();
    let logged: Vec<_> = lines(scratch.path()).iter().map(|line| line[3][2].clone()).collect();
    assert_eq!(logged, ["delete a\r\n"]);
}

#[test]
fn a_folder_that_is_missing_makes_deletes_fail_until_it_is_there() {
    let scratch = Scratch::new();
    let folder = scratch.file("spool");
    let router = start(&folder, &config(&refusing_address()), &[]);
    let mut client = router.connect();
    client.exchange("delete a\r\n", "SERVER_ERROR connection error: the delete could not be logged\r\n");
    client.exchange(
        "delete a\r\nmd a k\r\n",
        "SERVER_ERROR Server unavailable: the delete could not be logged\r\n".repeat(2),
    );
    let warning = "cannot log failed deletes in this folder";
    wait_for_log(|| router.log(), warning);
    assert_eq!(counter(&mut client, "asynclog_not_written"), 3);
    fs::create_dir(&folder).unwrap();
    client.exchange("delete a\r\n", "NOT_FOUND\r\n");
    fs::remove_dir_all(&folder).unwrap();
    client.exchange("delete a\r\n", "SERVER_ERROR Server unavailable: the delete could not be logged\r\n");
    fs::create_dir(&folder).unwrap();
    client.exchange("delete a\r\n", "NOT_FOUND\r\n");
    assert_eq!(lines(&folder).len(), 1);
    assert!(!folder.join(".replay").exists());
}

#[test]
fn a_disk_that_is_full_makes_deletes_fail_until_it_is_not() {
    let Some(mounted) = Mounted::new(4) else { return };
    let folder = mounted.file("spool");
    fs::create_dir(&folder).unwrap();
    let router = start(&folder, &config(&refusing_address()), &[]);
    let mut client = router.connect();
    // The file is there, and has some room left in its last page.
    client.exchange("delete first\r\n", "NOT_FOUND\r\n");
    mounted.take_all();
    let (mut acknowledged, mut refused) = (vec!["first".to_owned()], 0);
    for number in 0..100 {
        let key = format!("{number}-{}", "k".repeat(200));
        match client.ask(format!("delete {key}\r\n")).as_str() {
            "NOT_FOUND" => acknowledged.push(key),
            "SERVER_ERROR Server unavailable: the delete could not be logged" => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused > 50, "{refused}");
    mounted.give();
    client.exchange("delete last\r\n", "NOT_FOUND\r\n");
    acknowledged.push("last".to_owned());
    let logged: Vec<String> = lines(&folder)
        .iter()
        .map(|line| line[3][2].as_str().unwrap().trim_start_matches("delete ").trim_end().to_owned())
        .collect();
    assert_eq!(logged, acknowledged);
    wait_for_log(|| router.log(), "logging failed deletes again");
}

#[test]
fn a_replay_that_is_killed_goes_on_where_it_was() {
    let scratch = Scratch::new();
    let folder = scratch.file("spool");
    fs::create_dir(&folder).unwrap();
    let socket = scratch.file("memcached");
    let config = config(&format!("unix:{}", socket.display()));
    const KEYS: usize = 600;
    let mut router = start(&folder, &config, &[]);
    let many: String = (0..KEYS).map(|number| format!("delete key{number}\r\n")).collect();
    router.connect().exchange(many, "NOT_FOUND\r\n".repeat(KEYS));
    router.process.kill();
    let node = Setup::new().unix_socket(&socket).start_guira();
    let mut direct = node.connect();
    for number in 0..KEYS {
        direct.set(&format!("key{number}"), "x");
    }
    let deleted = |direct: &mut Client| {
        let stats = direct.stats("");
        let count = |name: &str| stats[name].parse::<usize>().unwrap();
        count("delete_hits") + count("delete_misses")
    };
    const RATE: usize = 100;
    let rate = format!("--asynclog-replay-rate={RATE}");
    let mut done = 0;
    for _ in 0..3 {
        let mut router = start(&folder, &config, &[&rate]);
        let more = (done + RATE).min(KEYS);
        done = wait_for("some deletes", || Some(deleted(&mut direct)).filter(|done| *done >= more));
        router.process.kill();
    }
    assert!(!files(&folder).is_empty(), "it is not finished: {done} deletes");
    let _router = start(&folder, &config, &[]);
    wait_until_empty(&folder);
    // What was delivered since the progress was kept, at most a second ago, is delivered again.
    let total = deleted(&mut direct);
    assert!((KEYS..=KEYS + 3 * 2 * RATE).contains(&total), "{total}");
    direct.exchange("get key0 key1 key299 key599\r\n", "END\r\n");
}

#[test]
fn routers_that_share_a_folder_deliver_all_of_it() {
    let scratch = Scratch::new();
    let folder = scratch.file("spool");
    fs::create_dir(&folder).unwrap();
    let socket = scratch.file("memcached");
    let config = config(&format!("unix:{}", socket.display()));
    let routers: Vec<Router> = (0..3).map(|_| start(&folder, &config, &["--num-proxies=2"])).collect();
    for round in 0..20 {
        for (number, router) in routers.iter().enumerate() {
            router.connect().exchange(format!("delete {number}-{round}\r\n"), "NOT_FOUND\r\n");
        }
    }
    let node = Setup::new().unix_socket(&socket).start_guira();
    wait_until_empty(&folder);
    let mut all = 0;
    for router in &routers {
        all += counter(&mut router.connect(), "asynclog_replay_delivered");
    }
    assert_eq!(all, 60);
    assert_eq!(node.connect().stats("")["delete_misses"], "60");
}

#[test]
fn a_new_configuration_decides_where_logged_deletes_go() {
    for (version, is_delivered) in [("--use-asynclog-version2", true), ("--verbosity=0", false)] {
        let (node, scratch) = (Server::start(), Scratch::new());
        let mut direct = node.connect();
        direct.set("a", "x");
        let folder = scratch.file("spool");
        fs::create_dir(&folder).unwrap();
        let path = scratch.write("config.json", &config(&refusing_address()));
        let (path, spool) = (path.to_str().unwrap(), folder.to_str().unwrap());
        let router = Router::start(&["-f", path, "--disable-reload-configs", "--async-dir", spool, version]);
        let mut client = router.connect();
        client.exchange("delete a\r\n", "NOT_FOUND\r\n");
        fs::write(path, config(&name(&node))).unwrap();
        router.signal(Signal::HUP);
        if is_delivered {
            wait_until_empty(&folder);
            direct.exchange("get a\r\n", "END\r\n");
        } else {
            // The line does not tell the pool.
            let homeless = |client: &mut Client| counter(client, "asynclog_replay_homeless");
            wait_for("a delete that is kept", || (homeless(&mut client) == 1).then_some(()));
            wait_for("a warning", || {
                router.log().contains("whose server and pool are not in the configuration").then_some(())
            });
            assert_eq!(lines(&folder).len(), 1);
            direct.expect_value("a", "x");
        }
    }
}

/// Files of mcrouter's, in both versions.
fn files_of_mcrouter(folder: &Path, server: &str) {
    let (host, port) = server.rsplit_once(':').unwrap();
    let hour = folder.join("20101110T19-1289415600");
    fs::create_dir_all(&hour).unwrap();
    let one = format!(
        "[\"AS1.0\",1289416829.836,\"C\",[\"{host}\",{port},\"delete a\\r\\n\"]]\n\
         [\"AS1.0\", 1289416830.000, \"C\", [\"{host}\", {port}, \"delete b\\r\\n\"]]\n"
    );
    let two = format!(
        "[\"AS2.0\",1289417729.747,\"C\",{{\"k\":\"c\",\"p\":\"P\",\"h\":\"[{host}]:{port}\",\"f\":\"5000\"}}]\n[\"AS2.0\",12"
    );
    fs::write(hour.join("20101110T192029-1289416829-unknown-5000-t77-0x7f12a0c0de00"), one).unwrap();
    fs::write(hour.join("20101110T193529-1289417729-unknown-5000-t77-0x7f12a0c0de00"), two).unwrap();
}

fn replay(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output = output(&[&["replay", folder.to_str().unwrap()], more].concat());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn files_of_mcrouter_are_replayed_by_hand() {
    let (node, scratch) = (Server::start(), Scratch::new());
    let mut direct = node.connect();
    let set = "set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\n";
    direct.exchange(set, "STORED\r\n".repeat(3));
    files_of_mcrouter(scratch.path(), &name(&node));
    let (code, text) = replay(scratch.path(), &["--dry-run"]);
    assert_eq!((code, files(scratch.path()).len()), (Some(0), 2), "{text}");
    assert!(text.contains("2 files, 0 removed; deletes: 3 to deliver, 0 left"), "{text}");
    direct.exchange("get a b c\r\n", "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nVALUE c 0 1\r\nx\r\nEND\r\n");
    let (code, text) = replay(scratch.path(), &[]);
    assert_eq!((code, files(scratch.path()).len()), (Some(0), 0), "{text}");
    assert!(text.contains("2 files, 2 removed; deletes: 3 delivered, 0 left"), "{text}");
    assert!(text.contains("skipped the incomplete last line"), "{text}");
    direct.exchange("get a b c\r\n", "END\r\n");
    let (code, text) = replay(scratch.path(), &[]);
    assert_eq!((code, text.as_str()), (Some(0), "0 files, 0 removed; deletes: 0 delivered, 0 left\n"));
}

#[test]
fn deletes_are_replayed_over_tls_where_servers_want_it() {
    let (certificate, scratch) = (Certificate::issue(), Scratch::new());
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let setup = certificate.given_to(Setup::new()).guira_argument("--tls-verify=2");
    let node = setup.guira_argument(&option("tls-ca", &certificate.root())).start_guira();
    let config = config(&format!("{}:ascii:ssl", name(&node)));
    let own = [option("pem-cert-path", &certificate.chain()), option("pem-key-path", &certificate.key())];
    let own = own.each_ref().map(String::as_str);
    let mut router = start(scratch.path(), &config, &own);
    let mut client = router.connect();
    client.exchange("set a 0 0 1\r\nx\r\nset b 0 0 1\r\nx\r\n", "STORED\r\n".repeat(2));
    stop(&node);
    client.exchange("delete a\r\n", "NOT_FOUND\r\n");
    node.signal("CONT");
    wait_until_empty(scratch.path());
    client.exchange("get a b\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n");
    assert_eq!(counter(&mut client, "asynclog_replay_delivered"), 1);
    stop(&node);
    client.exchange("delete b\r\n", "NOT_FOUND\r\n");
    client.abandon();
    router.process.kill();
    node.signal("CONT");
    let by_config = ["--config", &config];
    let (code, text) = replay(scratch.path(), &by_config);
    assert_eq!((code, files(scratch.path()).len()), (Some(1), 1), "it has to show a certificate: {text}");
    let (code, text) = replay(scratch.path(), &[&by_config[..], &["--"], &own].concat());
    assert_eq!((code, files(scratch.path()).len()), (Some(0), 0), "{text}");
    start(scratch.path(), &config, &own).connect().exchange("get b\r\n", "END\r\n");
}

#[test]
fn a_replay_by_hand_says_what_is_left_and_why() {
    let (node, scratch) = (Server::start(), Scratch::new());
    let gone = refusing_address();
    files_of_mcrouter(scratch.path(), &gone);
    let (code, text) = replay(scratch.path(), &[]);
    assert_eq!((code, files(scratch.path()).len()), (Some(1), 2), "{text}");
    assert!(text.contains(&format!("2 left for {gone}: cannot connect")), "{text}");
    assert!(text.contains("deletes: 0 delivered, 3 left"), "{text}");
    // By a configuration in which the server is another.
    let mut direct = node.connect();
    direct.exchange("set c 0 0 1\r\nx\r\n", "STORED\r\n");
    let config = config(&name(&node));
    let (code, text) = replay(scratch.path(), &["--config", &config]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("neither the server nor its pool is configured"), "{text}");
    assert!(text.contains("1 removed; deletes: 1 delivered, 2 left"), "{text}");
    direct.exchange("get c\r\n", "END\r\n");
    for (options, expected) in [
        (&["--rate", "0"][..], "--rate"),
        (&["--config", "{"], "config-str:1"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let (code, text) = replay(scratch.path(), options);
        assert!(text.contains(expected), "{options:?}: {text}");
        assert_eq!(code, Some(if options[0] == "--config" { 1 } else { 2 }), "{text}");
    }
    let (code, text) = replay(&scratch.file("missing"), &[]);
    assert!(code == Some(1) && text.contains("missing: No such file"), "{text}");
}

#[test]
fn what_is_no_file_holds_no_replay_up() {
    let (node, scratch) = (Server::start(), Scratch::new());
    files_of_mcrouter(scratch.path(), &name(&node));
    let hour = scratch.path().join("20101110T18-1289412000");
    fs::create_dir(&hour).unwrap();
    let pipe = hour.join("20101110T180000-1289412000-unknown-5000-t77-0x7f12a0c0de00");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let endless = hour.join("20101110T180001-1289412001-unknown-5000-t77-0x7f12a0c0de00");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    fs::write(scratch.path().join("20101110T17-1289408400"), "no folder").unwrap();
    let (code, text) = replay(scratch.path(), &[]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.matches("not a regular file").count(), 2, "{text}");
    assert!(text.contains("2 removed; deletes: 3 delivered, 0 left"), "{text}");
    // A router goes on as well.
    let router = start(scratch.path(), &config(&refusing_address()), &[]);
    router.connect().exchange("delete a\r\n", "NOT_FOUND\r\n");
    wait_for("both to be told of", || {
        (router.log().matches("not a regular file").count() == 2).then_some(())
    });
}

#[test]
fn a_router_ends_in_order_while_deletes_are_left() {
    let scratch = Scratch::new();
    let mut router = start(scratch.path(), &config(&refusing_address()), &[]);
    router.connect().exchange("delete a\r\n", "NOT_FOUND\r\n");
    router.process.end().unwrap();
    assert_eq!(lines(scratch.path()).len(), 1);
}
