//! `guira copy`, from memcached and nodes to memcached and nodes.

use crate::{builder, name};
use guira_client::pools::Client as Pool;
use guira_sync::clock::wall_clock;
use guira_tests::deadline::Deadline;
use guira_tests::scratch::Scratch;
use guira_tests::server::{guira, run_guira};
use guira_tests::tls::Certificate;
use guira_tests::{Server, Setup, skip};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

/// A node lists its keys at a low priority, and the machine may be busy.
const LIST_MAX: Duration = Duration::from_secs(60);

/// Pairs of a source and a destination: a node and memcached, in each role.
fn pairs(setup: &Setup) -> Vec<(Server, Server)> {
    let node = |engine| setup.clone().engine(engine).start_guira();
    let mut pairs = vec![(node("memc3"), node("fleec"))];
    match (setup.start_peer(), setup.start_peer()) {
        (Some(source), Some(destination)) => {
            pairs.push((source, node("memc3")));
            pairs.push((node("memclock"), destination));
        }
        _ => skip::say("memcached is not installed"),
    }
    pairs
}

fn run(source: &Server, destination: &Server, options: &[&str]) -> Output {
    run_guira(&[&["copy", &name(source), &name(destination)], options].concat())
}

fn start(source: &Server, destination: &str, options: &[&str]) -> Child {
    let mut command = guira([&["copy", &name(source), destination], options].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("guira can be run")
}

fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn assert_copied(output: &Output, words: &[&str]) {
    let (out, errors) = printed(output);
    assert!(output.status.success(), "{out}{errors}");
    assert!(words.iter().all(|word| out.contains(word)), "{out}{errors}");
}

fn fill(server: &Server, keys: u32, value: &str) {
    let mut client = server.connect();
    client.send_many((0..keys).map(|key| format!("set key{key} 0 0 {} noreply\r\n{value}\r\n", value.len())));
    client.exchange("mn\r\n", "MN\r\n");
}

/// Waits until the copy has stored something.
#[track_caller]
fn wait_for_copies(mut copy: Child, destination: &Server) -> Child {
    let stored = Deadline::after(LIST_MAX).poll(|| (items(destination) > 0).then_some(()));
    if stored.is_none() {
        copy.kill().expect("it is a child");
        panic!("nothing was copied: {:?}", printed(&copy.wait_with_output().expect("it ends")));
    }
    copy
}

fn items(server: &Server) -> u64 {
    server.connect().stats("")["curr_items"].parse().expect("a number")
}

#[test]
fn keys_values_flags_and_times_are_kept_and_a_second_run_copies_nothing() {
    for (source, destination) in pairs(&Setup::new().max_item_mib(2)) {
        let long: String = (0..1 << 20).map(|at: u32| char::from(b'a' + (at * 7 % 26) as u8)).collect();
        let mut client = source.connect();
        client.exchange("set plain 0 0 5\r\nvalue\r\n", "STORED\r\n");
        client.exchange("set flags 4294967295 500 0\r\n\r\n", "STORED\r\n");
        // As a UNIX time: a number of more than 30 days is one.
        let month = wall_clock() + 2_600_000;
        client.exchange(format!("set month 1 {month} 1\r\nx\r\n"), "STORED\r\n");
        client.exchange("set /region/cluster/key 0 0 1\r\ny\r\n", "STORED\r\n");
        client.exchange("set \x01control 0 0 1\r\nz\r\n", "STORED\r\n");
        client.exchange("ms YSBi 6 b F9 T700\r\nbinary\r\n", "HD\r\n");
        client.exchange(format!("set long 3 0 {}\r\n{long}\r\n", long.len()), "STORED\r\n");
        client.exchange("set gone 0 -1 1\r\nx\r\n", "STORED\r\n");
        let output = run(&source, &destination, &[]);
        assert_copied(&output, &["copied 7 items of ", " 0 were already there", ", 0 failed"]);
        let mut client = destination.connect();
        client.exchange("mg plain v f t\r\n", "VA 5 f0 t-1\r\nvalue\r\n");
        client.exchange("mg flags v f t\r\n", "VA 0 f4294967295 t~500\r\n\r\n");
        client.exchange("mg month v f\r\n", "VA 1 f1\r\nx\r\n");
        let left = client.ask("mg month t\r\n");
        let left: u64 = left.strip_prefix("HD t").and_then(|left| left.parse().ok()).expect("a time");
        // The clocks of two servers are up to a second apart.
        assert!((2_599_990..=2_600_001).contains(&left), "{left}");
        client.exchange("get /region/cluster/key\r\n", "VALUE /region/cluster/key 0 1\r\ny\r\nEND\r\n");
        client.exchange("get \x01control\r\n", "VALUE \x01control 0 1\r\nz\r\nEND\r\n");
        client.exchange("mg YSBi b v f t\r\n", "VA 6 f9 t~700\r\nbinary\r\n");
        client.exchange("get long\r\n", format!("VALUE long 3 {}\r\n{long}\r\nEND\r\n", long.len()));
        client.exchange("mg gone v\r\n", "EN\r\n");
        let output = run(&source, &destination, &[]);
        assert_copied(&output, &["copied 0 items of ", " 7 were already there", ", 0 failed"]);
        let output = run(&source, &destination, &["--prefix", "fl"]);
        assert_copied(&output, &["copied 0 items of 1 key ", " 1 were already there"]);
    }
}

#[test]
fn a_time_to_live_is_limited_and_a_read_does_not_change_the_source() {
    let (source, destination) = pairs(&Setup::new()).remove(0);
    let mut client = source.connect();
    client.exchange("set never 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange("set long 0 1000 1\r\nx\r\n", "STORED\r\n");
    client.exchange("set short 0 150 1\r\nx\r\n", "STORED\r\n");
    assert_copied(&run(&source, &destination, &["--ttl", "5m"]), &["copied 3 items of 3 keys"]);
    client.exchange("mg never h t\r\n", "HD h0 t-1\r\n");
    let mut client = destination.connect();
    client.exchange("mg never t\r\n", "HD t~300\r\n");
    client.exchange("mg long t\r\n", "HD t~300\r\n");
    client.exchange("mg short t\r\n", "HD t~150\r\n");
}

#[test]
fn many_items_go_to_the_servers_that_a_client_reads_them_from() {
    const KEYS: u32 = 20_000;
    for source in [Some(Setup::new().start_guira()), Setup::new().start_peer()].into_iter().flatten() {
        fill(&source, KEYS, "value");
        let servers = ["memc3", "mica"].map(|engine| Setup::new().engine(engine).start_guira());
        let names = servers.each_ref().map(name).join(",");
        let output = start(&source, &names, &[]).wait_with_output().expect("it ends");
        assert_copied(&output, &["copied 20000 items of 20000 keys", "(100000 bytes)"]);
        assert!(servers.iter().all(|server| items(server) > u64::from(KEYS / 3)));
        let pool = Pool::new(&builder(&servers)).unwrap();
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key{key}")).collect();
        for (key, item) in keys.iter().zip(pool.get_many(&keys)) {
            assert_eq!(item.unwrap().map(|item| item.value), Some(b"value".to_vec()), "{key}");
        }
    }
}

#[test]
fn values_that_clients_store_during_a_copy_stay() {
    const KEYS: u32 = 3000;
    for (source, destination) in pairs(&Setup::new()) {
        fill(&source, KEYS, "old");
        let copy = start(&source, &name(&destination), &["--rate", "3k"]);
        let mut client = destination.connect();
        // The keys of the second half are stored while keys of both halves are copied.
        for part in 0..10 {
            let keys = (0..KEYS / 2).filter(|key| key % 10 == part).map(|key| key + KEYS / 2);
            client.send_many(keys.map(|key| format!("set key{key} 0 0 3 noreply\r\nnew\r\n")));
            client.exchange("mn\r\n", "MN\r\n");
            std::thread::sleep(Duration::from_millis(50));
        }
        let output = copy.wait_with_output().expect("it ends");
        assert_copied(&output, &[", 0 failed"]);
        let (out, _) = printed(&output);
        assert!(!out.contains(" 0 were already there"), "no key was stored before its copy: {out}");
        for key in 0..KEYS {
            let value = if key < KEYS / 2 { "old" } else { "new" };
            client.exchange(format!("get key{key}\r\n"), format!("VALUE key{key} 0 3\r\n{value}\r\nEND\r\n"));
        }
    }
}

#[test]
fn a_source_that_ends_during_a_copy_is_reported() {
    for (source, destination) in pairs(&Setup::new()) {
        fill(&source, 5000, "value");
        let copy = start(&source, &name(&destination), &["--rate", "500"]);
        let copy = wait_for_copies(copy, &destination);
        let address = name(&source);
        source.stop("KILL");
        let output = copy.wait_with_output().expect("it ends");
        let (out, errors) = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{out}{errors}");
        let wanted = [format!("guira: cannot read from {address}: "), "run the command again".to_owned()];
        assert!(wanted.iter().all(|text| errors.contains(text)), "{errors}");
        assert!(
            out.starts_with("copied ") && out.contains(" of 5000 keys") && out.contains(" are left"),
            "{out}"
        );
    }
}

#[test]
fn a_destination_that_is_down_ends_the_copy() {
    let source = Setup::new().start_guira();
    fill(&source, 5, "value");
    let gone = Setup::new().start_guira();
    let address = name(&gone);
    gone.stop("KILL");
    let output = run_guira(&["copy", &name(&source), &address]);
    let (out, errors) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{errors}");
    assert!(errors.contains("cannot write to the destination") && errors.contains(&address), "{errors}");
    assert!(out.starts_with("copied 0 items of 5 keys") && out.contains("5 are left"), "{out}");
}

#[test]
fn a_destination_that_restarts_gets_the_rest() {
    let source = Setup::new().start_guira();
    fill(&source, 2000, "value");
    let scratch = Scratch::new();
    let socket = Setup::new().unix_socket(&scratch.file("node.sock"));
    let first = socket.start_guira();
    let copy = start(&source, &name(&first), &["--rate", "1k"]);
    let copy = wait_for_copies(copy, &first);
    first.stop("KILL");
    let second = socket.start_guira();
    let output = copy.wait_with_output().expect("it ends");
    assert_copied(&output, &[" of 2000 keys", ", 0 failed"]);
    assert!(items(&second) > 0);
}

#[test]
fn a_signal_stops_a_copy() {
    let (source, destination) = (Setup::new().start_guira(), Setup::new().start_guira());
    fill(&source, 5000, "value");
    let copy = start(&source, &name(&destination), &["--rate", "500"]);
    let copy = wait_for_copies(copy, &destination);
    let process = rustix::process::Pid::from_child(&copy);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it runs");
    let output = copy.wait_with_output().expect("it ends");
    let (out, errors) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{errors}");
    assert!(errors.contains("stopped; run the command again") && out.contains(" are left"), "{out}{errors}");
}

#[test]
fn items_that_do_not_fit_or_are_stale_are_named() {
    let source = Setup::new().max_item_mib(4).start_guira();
    let destination = Setup::new().start_guira();
    let mut client = source.connect();
    let long = "x".repeat(2 << 20);
    client.exchange(format!("set long 0 0 {}\r\n{long}\r\n", long.len()), "STORED\r\n");
    client.exchange("set stale 0 0 1\r\nx\r\n", "STORED\r\n");
    client.exchange("md stale I\r\n", "HD\r\n");
    fill(&source, 100, "value");
    let output = run(&source, &destination, &[]);
    let (out, errors) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{out}{errors}");
    assert!(out.contains("copied 100 items of 102 keys"), "{out}");
    assert!(out.contains(", 1 were marked as stale, 1 failed"), "{out}");
    assert!(errors.contains("1 not copied, the first long: the value is too large"), "{errors}");
    assert!(errors.contains("1 of 102 items were not copied"), "{errors}");
}

#[test]
fn a_rate_limits_a_copy() {
    let (source, destination) = (Setup::new().start_guira(), Setup::new().start_guira());
    fill(&source, 100, "value");
    let output = run(&source, &destination, &["--rate", "100"]);
    assert_copied(&output, &["copied 100 items"]);
    let (out, _) = printed(&output);
    let seconds = out.split(" in ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a time");
    // The last batch, of ten keys at most, is due before the second is over.
    assert!((0.8..60.0).contains(&seconds.parse::<f64>().expect("a time")), "{out}");
}

#[test]
fn a_routers_configuration_determines_the_servers() {
    let source = Setup::new().start_guira();
    fill(&source, 200, "value");
    source.connect().exchange("set b:1 0 0 1\r\nx\r\n", "STORED\r\n");
    let servers = [(); 2].map(|()| Setup::new().start_guira());
    let scratch = Scratch::new();
    let file = scratch.write(
        "router.json",
        &format!(
            r#"{{"pools": {{"a": {{"servers": ["{}"]}}, "b": {{"servers": ["{}"]}}}}, "route": {{
            "type": "PrefixSelectorRoute", "policies": {{"b:": "PoolRoute|b"}}, "wildcard": "PoolRoute|a"}}}}"#,
            name(&servers[0]),
            name(&servers[1])
        ),
    );
    let destination = format!("file:{}", file.display());
    let output = start(&source, &destination, &[]).wait_with_output().expect("it ends");
    assert_copied(&output, &["copied 201 items of 201 keys"]);
    assert_eq!(servers.each_ref().map(items), [200, 1]);
}

#[test]
fn connections_may_have_tls_and_a_login() {
    let certificate = Certificate::issue();
    let scratch = Scratch::new();
    let users = scratch.write("users", "copier:secret\n");
    let secured = certificate.given_to(Setup::new());
    let source = secured.clone().guira_argument(&format!("--auth-file={}", users.display())).start_guira();
    let destination = secured.start_guira();
    let authority = certificate.root().display().to_string();
    let of_localhost = |server: &Server| name(server).replace("127.0.0.1", "localhost");
    let copy = |options: &[&str]| {
        let names = [of_localhost(&source), format!("{}:ascii:ssl", of_localhost(&destination))];
        run_guira(&[&["copy", &names[0], &names[1]], options].concat())
    };
    let mut client = guira_tests::tls::TlsClient::connect(&source, &certificate);
    client.send(&[b"set login 0 0 13\r\ncopier secret\r\nset k 0 0 1\r\nv\r\n"]);
    assert_eq!(client.hear(16), b"STORED\r\nSTORED\r\n");
    let users = users.display().to_string();
    let of_source = ["--tls", "--tls-ca", &authority, "--login-file", &users];
    let output = copy(&[&of_source[..], &["--destination-tls-ca", &authority]].concat());
    assert_copied(&output, &["copied 1 item of 1 key "]);
    let output = copy(&of_source);
    assert_eq!(output.status.code(), Some(2), "{:?}", printed(&output));
    assert!(printed(&output).1.contains("--destination-tls-ca"), "{:?}", printed(&output));
    let output = copy(&[&of_source[..3], &["--destination-tls-ca", &authority]].concat());
    assert_eq!(output.status.code(), Some(1), "{:?}", printed(&output));
}

#[test]
fn a_source_that_lists_nothing_is_refused_with_the_remedy() {
    let destination = Setup::new().start_guira();
    let silent = Setup::new().options(&["-X"]);
    for source in [Some(silent.start_guira()), silent.start_peer()].into_iter().flatten() {
        fill(&source, 1, "value");
        let output = run(&source, &destination, &[]);
        let (out, errors) = printed(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{errors}");
        assert!(errors.contains("does not list its keys: ") && errors.contains("-X"), "{errors}");
    }
    let empty = Setup::new().start_guira();
    assert_copied(&run(&empty, &destination, &[]), &["copied 0 items of 0 keys"]);
}

#[test]
fn a_source_that_is_frozen_ends_the_copy_after_a_timeout() {
    let (source, destination) = (Setup::new().start_guira(), Setup::new().start_guira());
    source.freeze();
    let output = run(&source, &destination, &[]);
    source.signal("CONT");
    let (_, errors) = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot list the keys of ") && errors.contains("timeout"), "{errors}");
}

#[test]
fn wrong_arguments_are_refused_with_the_remedy() {
    for (arguments, reason) in [
        (&["a:1"][..], "<DESTINATION>"),
        (&["a", "b:1"], "HOST:PORT"),
        (&["127.0.0.1:1", ""], "no servers"),
        (&["127.0.0.1:1", ","], "no servers"),
        (&["127.0.0.1:1", "127.0.0.1:1", "--rate", "0"], "at least 1"),
        (&["127.0.0.1:1", "127.0.0.1:1", "--ttl", "0"], "at least 1s"),
        (&["127.0.0.1:1", "127.0.0.1:1:ascii:ssl"], "--destination-tls-ca"),
    ] {
        let output = run_guira(&[&["copy"], arguments].concat());
        let (out, errors) = printed(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(2), ""), "{arguments:?}: {errors}");
        assert!(errors.contains(reason), "{arguments:?}: {errors}");
    }
    let output = run_guira(&["copy", "127.0.0.1:1", "file:/nowhere/router.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).1.contains("/nowhere/router.json"), "{:?}", printed(&output));
}
