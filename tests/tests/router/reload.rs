//! Configurations that change while a router runs.

use crate::{Router, config_of, name, output};
use guira_harness::server::Signal;
use guira_sync::clock::Stopwatch;
use guira_tests::scratch::Scratch;
use guira_tests::server::{wait_for, wait_for_log};
use guira_tests::{Client, Server, Setup};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Changes come into effect at once.
pub(crate) const AT_ONCE: [&str; 3] = [
    "--reconfiguration-delay-ms=0",
    "--file-observer-sleep-before-update-ms=0",
    "--file-observer-poll-period-ms=20",
];

#[track_caller]
fn start(path: &Path, more: &[&str]) -> Router {
    Router::start(&[&["-f", path.to_str().unwrap()], &AT_ONCE[..], more].concat())
}

/// Two servers with the key `who`, which tells them apart.
fn servers() -> [Server; 2] {
    ["one", "two"].map(|who| {
        let server = Setup::new().start_guira();
        server.connect().set("who", who);
        server
    })
}

fn who(client: &mut Client) -> String {
    String::from_utf8(client.value("who").map(|value| value.data).unwrap_or_default()).unwrap()
}

#[track_caller]
fn wait_until(client: &mut Client, expected: &str) {
    wait_for(expected, || (who(client) == expected).then_some(()));
}

fn counter(client: &mut Client, name: &str) -> u64 {
    client.stats("")[name].parse().unwrap()
}

#[test]
fn a_name_that_dns_does_not_answer_for_holds_a_change_up_only_for_a_moment() {
    /// Of all changes together: each is held up for a second, and where DNS is waited for, for five or more.
    const LONGEST: Duration = Duration::from_secs(20);
    // Questions come there, and are not answered.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dns = format!("--dns-server={}", silent.local_addr().unwrap());
    let (servers, scratch) = (servers(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&servers[0]));
    let router = start(&path, &[&dns]);
    let mut client = router.connect();
    wait_until(&mut client, "one");
    let since = Stopwatch::start();
    for (round, (who, server)) in [("two", 1), ("one", 0), ("two", 1), ("one", 0)].into_iter().enumerate() {
        let known = name(&servers[server]);
        let config = format!(
            r#"{{"pools": {{"A": {{"servers": ["{known}"]}}, "B": {{"servers": ["new{round}.test:1"]}}}},
                "route": {{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#
        );
        fs::write(&path, config).unwrap();
        wait_until(&mut client, who);
    }
    assert!(since.elapsed() < LONGEST, "{:?}", since.elapsed());
}

#[test]
fn a_changed_file_comes_into_effect() {
    let (servers, scratch) = (servers(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&servers[0]));
    let router = start(&path, &["--num-proxies=2"]);
    let mut clients = [router.connect(), router.connect()];
    clients.iter_mut().for_each(|client| wait_until(client, "one"));
    // Written in place.
    fs::write(&path, config_of(&servers[1])).unwrap();
    clients.iter_mut().for_each(|client| wait_until(client, "two"));
    // Replaced as a whole.
    fs::rename(scratch.write("new", &config_of(&servers[0])), &path).unwrap();
    clients.iter_mut().for_each(|client| wait_until(client, "one"));
}

#[test]
fn a_server_that_comes_back_into_a_pool_is_asked_at_once_whatever_was_known_of_it() {
    let (servers, scratch) = (servers(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&servers[0]));
    // Nobody asks by itself whether it is back.
    let out = ["--timeouts-until-tko=1", "--server-timeout-ms=1000", "--probe-timeout-initial-ms=1000000"];
    let router = start(&path, &out);
    let mut client = router.connect();
    wait_until(&mut client, "one");
    let is_told_of = |client: &mut Client, what: &str| {
        client.send("get who\r\n");
        let line = client.loose_line();
        if line.starts_with("VALUE") {
            client.hear(format!("{what}\r\nEND\r\n"));
        }
        line.starts_with("VALUE")
    };
    servers[0].freeze();
    assert!(!is_told_of(&mut client, "one"), "it does not answer");
    servers[0].signal("CONT");
    assert!(!is_told_of(&mut client, "one"), "it is out of service");
    fs::write(&path, config_of(&servers[1])).unwrap();
    wait_for("the other server", || is_told_of(&mut client, "two").then_some(()));
    fs::write(&path, config_of(&servers[0])).unwrap();
    wait_for("the new configuration", || {
        client.send("get __mcrouter__.route(get,who)\r\n");
        client.loose_line();
        let server = client.loose_line();
        client.hear("END\r\n");
        (server.trim_end() == name(&servers[0])).then_some(())
    });
    assert!(is_told_of(&mut client, "one"), "it is asked at once");
}

#[test]
fn servers_that_have_left_are_forgotten_with_their_connections() {
    const CHANGES: usize = 200;
    let scratch = Scratch::new();
    let socket = scratch.file("socket");
    let server = Setup::new().unix_socket(&socket).start_guira();
    server.connect().set("who", "it");
    // One server by ever new addresses.
    let config = |number: usize| {
        let path = scratch.file(&format!("address{number}"));
        symlink(&socket, &path).unwrap();
        let name = format!("unix:{}", path.display());
        let pools = format!(r#"{{"all": {{"servers": ["{name}"]}}}}"#);
        (name, format!(r#"{{"pools": {pools}, "route": "PoolRoute|all"}}"#))
    };
    let path = scratch.write("config.json", &config(0).1);
    let router = start(&path, &["--num-proxies=1"]);
    let mut client = router.connect();
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", router.process.id())).unwrap().count();
    wait_until(&mut client, "it");
    let (before, requests) = (descriptors(), counter(&mut client, "request_sent_count"));
    for number in 1..=CHANGES {
        let (name, config) = config(number);
        fs::rename(scratch.write("next", &config), &path).unwrap();
        wait_for("the new address", || {
            let servers = client.stats("servers");
            assert_eq!(servers.len(), 1, "{servers:?}");
            servers.keys().next().is_some_and(|known| known.starts_with(&name)).then_some(())
        });
        wait_until(&mut client, "it");
        assert!(counter(&mut client, "request_sent_count") >= requests + number as u64, "it never falls");
    }
    // A connection of a change before may be about to be closed.
    wait_for("their connections to be closed", || (descriptors() <= before + 2).then_some(()));
}

#[test]
fn a_link_that_leads_elsewhere_comes_into_effect() {
    let (servers, scratch) = (servers(), Scratch::new());
    for (folder, server) in ["a", "b"].iter().zip(&servers) {
        fs::create_dir(scratch.file(folder)).unwrap();
        scratch.write(&format!("{folder}/config.json"), &config_of(server));
    }
    symlink("a", scratch.file("data")).unwrap();
    symlink("data/config.json", scratch.file("config.json")).unwrap();
    let router = start(&scratch.file("config.json"), &[]);
    let mut client = router.connect();
    wait_until(&mut client, "one");
    symlink("b", scratch.file("next")).unwrap();
    fs::rename(scratch.file("next"), scratch.file("data")).unwrap();
    wait_until(&mut client, "two");
}

#[test]
fn a_changed_import_comes_into_effect() {
    let (servers, scratch) = (servers(), Scratch::new());
    let pool = |server: &Server| format!("{{\"servers\": [\"{}\"]}}", crate::name(server));
    scratch.write("pool.json", &pool(&servers[0]));
    let config = r#"{"pools": {"all": "@import(pool.json)"}, "route": "PoolRoute|all"}"#;
    let router = start(&scratch.write("config.json", config), &[]);
    let mut client = router.connect();
    wait_until(&mut client, "one");
    scratch.write("pool.json", &pool(&servers[1]));
    wait_until(&mut client, "two");
}

#[test]
fn a_wrong_configuration_changes_nothing_and_is_reported() {
    let (servers, scratch) = (servers(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&servers[0]));
    let router = start(&path, &[]);
    let mut client = router.connect();
    fs::write(&path, "{\n\"route\": \"NoSuchRoute|x\"}").unwrap();
    wait_for("a failure", || (counter(&mut client, "config_failures") > 0).then_some(()));
    assert_eq!(who(&mut client), "one");
    wait_for_log(|| router.log(), "config.json:2: ");
    let error = client.value("__mcrouter__.config_error").unwrap().data;
    assert!(String::from_utf8(error).unwrap().contains("config.json:2: "));
    fs::write(&path, config_of(&servers[1])).unwrap();
    wait_until(&mut client, "two");
    assert_eq!(client.value("__mcrouter__.config_error").unwrap().data, b"");
}

#[test]
fn a_signal_reads_the_configuration_again() {
    let (servers, scratch) = (servers(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&servers[0]));
    let router = Router::start(&["-f", path.to_str().unwrap(), "--disable-reload-configs"]);
    let mut client = router.connect();
    fs::write(&path, config_of(&servers[1])).unwrap();
    assert_eq!(who(&mut client), "one");
    router.signal(Signal::HUP);
    wait_until(&mut client, "two");
}

#[test]
fn the_last_good_configuration_serves_when_the_source_is_gone() {
    let (servers, scratch) = (servers(), Scratch::new());
    scratch.write("pool.json", &format!("{{\"servers\": [\"{}\"]}}", crate::name(&servers[0])));
    let path =
        scratch.write("config.json", r#"{"pools": {"all": "@import(pool.json)"}, "route": "PoolRoute|all"}"#);
    let root = format!("--config-dump-root={}", scratch.file("kept").display());
    drop(start(&path, &[&root]));
    fs::remove_file(&path).unwrap();
    fs::remove_file(scratch.file("pool.json")).unwrap();
    let router = start(&path, &[&root]);
    let mut client = router.connect();
    assert_eq!(who(&mut client), "one");
    wait_for_log(|| router.log(), "using the saved configuration");
    // Monitors see that the source is not in effect.
    let error =
        |client: &mut Client| client.value("__mcrouter__.config_error").expect("the router knows").data;
    assert!(String::from_utf8_lossy(&error(&mut client)).contains("config.json: No such file"));
    assert_eq!(client.stats("")["config_failures"], "1");
    // It is used again as soon as it is there.
    fs::write(&path, config_of(&servers[1])).unwrap();
    wait_until(&mut client, "two");
    assert_eq!(error(&mut client), b"");
}

#[test]
fn a_kept_configuration_that_is_damaged_is_told_of_and_the_source_is_what_ends_the_start() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&server));
    let (root, file) = (scratch.file("kept"), format!("--config=file:{}", path.display()));
    let options = [file, format!("--config-dump-root={}", root.display())];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    drop(Router::start(&options));
    fs::write(&path, "{").unwrap();
    fs::write(root.join("unknown.unknown.config"), "guira-router-config 1\n0 99\n").unwrap();
    let output = output(&[&options[..], &["--listen=127.0.0.1:0"]].concat());
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("cannot use the saved configuration: the file is not a saved configuration"),
        "{told}"
    );
    assert!(told.contains("config.json:1: the file ends"), "{told}");
}

#[test]
fn no_request_fails_while_two_hundred_configurations_come() {
    let (servers, scratch) = (servers(), Scratch::new());
    let path = scratch.write("config.json", &config_of(&servers[0]));
    let router = start(&path, &["--num-proxies=2"]);
    let (alive, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
    thread::scope(|scope| {
        let loads: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, ended) = (router.connect(), ended.clone());
                scope.spawn(move || {
                    let mut requests = 0u64;
                    while ended.lock().unwrap().try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                        let who = who(&mut client);
                        assert!(who == "one" || who == "two", "{who}");
                        requests += 1;
                    }
                    requests
                })
            })
            .collect();
        let mut client = router.connect();
        for number in 0..200 {
            // Each whole one names the other server than the one before.
            let which = number / 2 % 2;
            let whole = config_of(&servers[which]);
            let failures = counter(&mut client, "config_failures");
            match number % 4 {
                0 => fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
                1 => fs::write(&path, &whole).unwrap(),
                2 => fs::write(&path, format!("{whole}\n}}")).unwrap(),
                _ => fs::rename(scratch.write("new", &whole), &path).unwrap(),
            }
            if number % 2 == 0 {
                let is_refused = |client: &mut Client| counter(client, "config_failures") > failures;
                wait_for("a failure", || is_refused(&mut client).then_some(()));
            } else {
                wait_until(&mut client, ["one", "two"][which]);
            }
        }
        drop(alive);
        for load in loads {
            assert!(load.join().expect("no request fails") > 0);
        }
        assert_eq!(counter(&mut client, "result_error_count"), 0);
    });
}
