//! A server with a region (`-e`, `--region`) goes on with its items after an orderly stop, and with none after any other end.

use guira_tests::scratch::Scratch;
use guira_tests::server::{refused_guira, wait_for, wait_for_log};
use guira_tests::{Client, Server, Setup};

fn start(scratch: &Scratch, more: &[&str]) -> Server {
    let path = scratch.path().join("region");
    let path = path.to_str().unwrap();
    Setup::new().options(&[&["-e", path], more].concat()).start_guira()
}

fn fill(client: &mut Client) {
    client.exchange("set plain 7 0 5\r\nvalue\r\n", "STORED\r\n");
    client.exchange("set timed 0 1500 1\r\n1\r\n", "STORED\r\n");
    client.exchange("set counter 0 0 2\r\n41\r\n", "STORED\r\n");
    let long = "long".repeat(100_000);
    client.exchange(format!("set long 0 0 {}\r\n{long}\r\n", long.len()), "STORED\r\n");
    client.exchange("set gone 0 0 1\r\nx\r\ndelete gone\r\n", "STORED\r\nDELETED\r\n");
    client.exchange("md timed I\r\n", "HD\r\n");
}

#[test]
fn items_are_back_with_all_that_belongs_to_them() {
    let scratch = Scratch::new();
    let server = start(&scratch, &[]);
    let mut client = server.connect();
    fill(&mut client);
    let unique = client.cas("plain");
    let before = client.stats("");
    client.abandon();
    server.stop("USR1");
    let server = start(&scratch, &[]);
    let mut client = server.connect();
    let after = client.stats("");
    for name in ["curr_items", "bytes", "total_items", "cmd_set", "get_hits", "delete_hits"] {
        assert_eq!(before[name], after[name], "{name}");
    }
    client.exchange("gets plain\r\n", format!("VALUE plain 7 5 {unique}\r\nvalue\r\nEND\r\n"));
    client.exchange(format!("cas plain 0 0 1 {unique}\r\nx\r\n"), "STORED\r\n");
    client.exchange("mg timed v t\r\n", "VA 1 t~1500 X W\r\n1\r\n");
    client.exchange("incr counter 1\r\n", "42\r\n");
    client.expect_value("long", "long".repeat(100_000));
    client.exchange("get gone\r\n", "END\r\n");
    let fresh = client.cas("plain");
    assert!(fresh > unique, "uniques go on");
}

#[test]
fn a_server_that_is_killed_or_stopped_otherwise_begins_empty() {
    for signal in ["KILL", "TERM"] {
        let scratch = Scratch::new();
        let server = start(&scratch, &[]);
        let mut client = server.connect();
        fill(&mut client);
        client.abandon();
        server.stop(signal);
        let server = start(&scratch, &[]);
        let mut client = server.connect();
        client.exchange("get plain counter long\r\n", "END\r\n");
        assert_eq!(client.stats("")["curr_items"], "0", "{signal}");
        fill(&mut client);
    }
}

#[test]
fn an_orderly_stop_counts_for_one_start_only() {
    let scratch = Scratch::new();
    let server = start(&scratch, &[]);
    let mut client = server.connect();
    fill(&mut client);
    client.abandon();
    server.stop("USR1");
    let server = start(&scratch, &[]);
    server.connect().exchange("get plain\r\n", "VALUE plain 7 5\r\nvalue\r\nEND\r\n");
    server.stop("KILL");
    let server = start(&scratch, &[]);
    let mut client = server.connect();
    client.exchange("get plain counter long\r\n", "END\r\n");
    assert_eq!(client.stats("")["curr_items"], "0");
}

#[test]
fn other_sizes_begin_empty() {
    for other in [["-I", "2m"], ["-f", "1.5"], ["-n", "100"]] {
        let scratch = Scratch::new();
        let server = start(&scratch, &[]);
        let mut client = server.connect();
        fill(&mut client);
        client.abandon();
        server.stop("USR1");
        let server = start(&scratch, &other);
        server.connect().exchange("get plain\r\n", "END\r\n");
    }
}

#[test]
fn two_servers_cannot_have_the_same_region() {
    let scratch = Scratch::new();
    let _server = start(&scratch, &[]);
    let path = scratch.path().join("region");
    let output = guira_tests::server::run_guira(&[
        "memcached",
        "-u",
        "root",
        "-p",
        "-1",
        "-l",
        "127.0.0.1",
        "-e",
        path.to_str().unwrap(),
    ]);
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("region"), "{text}");
}

#[test]
fn a_region_that_was_cut_is_emptied_and_a_file_of_something_else_is_not() {
    let scratch = Scratch::new();
    let path = scratch.path().join("region");
    let region = format!("--region={}", path.display());
    let start = || Setup::new().guira_argument(&region).start_guira();
    let server = start();
    fill(&mut server.connect());
    server.stop("TERM");
    let mut whole = vec![0; 8192];
    std::io::Read::read_exact(&mut std::fs::File::open(&path).unwrap(), &mut whole).unwrap();
    for length in [1, 2, 15, 16, 40, 79, 5000] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let server = start();
        server.connect().exchange("get plain\r\n", "END\r\n");
        wait_for_log(|| server.log(), "emptied region");
    }
    std::fs::write(&path, "Gu").unwrap();
    let (code, errors) = refused_guira(&["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB", &region]);
    assert!(code == Some(1) && errors.contains("the file is not a region of Guira"), "{code:?}: {errors}");
    assert_eq!(std::fs::read(&path).unwrap(), b"Gu");
}

#[test]
fn with_less_memory_the_number_of_items_left_is_reported() {
    for engine in ["mica", "memc3"] {
        let scratch = Scratch::new();
        let region = format!("--region={}", scratch.path().join("region").display());
        let start = |memory: &str| {
            let setup = Setup::new().engine(engine).guira_argument(&region);
            setup.guira_argument(&format!("--memory={memory}")).start_guira()
        };
        let server = start("64MiB");
        let mut client = server.connect();
        let value = "x".repeat(900);
        let set = |number| format!("set key{number} 0 0 900 noreply\r\n{value}\r\n");
        client.send_many((0..50_000).map(set));
        client.sync();
        client.abandon();
        server.stop("TERM");
        let server = start("32MiB");
        wait_for("the excess to be logged", || server.log().contains("evicting items").then_some(()));
        let left = wait_for("what is left to be logged", || {
            let log = server.log();
            let (before, _) = log.split_once(" items are left")?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        });
        assert_eq!(server.connect().stats("")["curr_items"], left.to_string(), "{engine}");
        assert!((10_000..30_000).contains(&left), "{engine}: {left} of 50,000");
    }
}

#[test]
fn the_native_server_keeps_items_when_it_is_terminated_and_none_when_it_is_killed() {
    let scratch = Scratch::new();
    let region = format!("--region={}", scratch.path().join("region").display());
    let start = || Setup::new().guira_argument(&region).start_guira();
    let server = start();
    let mut client = server.connect();
    fill(&mut client);
    client.abandon();
    server.stop("TERM");
    let server = start();
    let mut client = server.connect();
    client.exchange("get plain\r\n", "VALUE plain 7 5\r\nvalue\r\nEND\r\n");
    client.exchange("incr counter 1\r\n", "42\r\n");
    client.expect_value("long", "long".repeat(100_000));
    client.exchange("get gone\r\n", "END\r\n");
    client.abandon();
    server.stop("KILL");
    start().connect().exchange("get plain counter long\r\n", "END\r\n");
}
