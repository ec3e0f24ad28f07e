//! `cache_memlimit`: the ceiling is moved while the server runs.

use guira_tests::server::{engines, wait_for};
use guira_tests::{Client, Server, Setup, newer_than_peer};

#[test]
fn bad_limits_are_refused() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("cache_memlimit 7\r\n", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n");
    client.exchange("cache_memlimit\r\n", "ERROR\r\n");
    client.exchange("cache_memlimit x\r\n", "ERROR\r\n");
    newer_than_peer!(server, "has other words");
    client.exchange(
        "cache_memlimit 1000000001\r\n",
        "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes\r\n",
    );
}

#[test]
fn memory_grows_and_is_given_back() {
    let server = Setup::new().options(&["-m", "32"]).start_guira();
    let mut client = server.connect();
    client.exchange("cache_memlimit 96\r\n", "OK\r\n");
    assert_eq!(client.stats("")["limit_maxbytes"], (96 << 20).to_string());
    let value = "x".repeat(4000);
    for key in 0..20_000 {
        client.send(format!("set key{key} 0 0 4000 noreply\r\n{value}\r\n"));
    }
    client.sync();
    let grown = server.memory();
    assert!(grown > 70 << 20, "{grown}");
    client.exchange("cache_memlimit 24\r\n", "OK\r\n");
    wait_for("memory to be given back", || {
        // Idle workers do the work; a request keeps them from sleeping for long.
        client.sync();
        (server.memory() < 20 << 20).then_some(())
    });
    let stats = client.stats("");
    assert_ne!(stats["evictions"], "0");
    client.exchange("set still 0 0 5\r\nworks\r\n", "STORED\r\n");
    client.expect_value("still", "works");
}

#[test]
fn a_cache_that_was_started_small_can_become_large() {
    let server = Setup::new().options(&["-m", "3"]).start();
    let mut client = server.connect();
    let limit = |client: &mut Client| client.stats("")["limit_maxbytes"].parse::<usize>().unwrap();
    client.exchange("cache_memlimit 8\r\n", "OK\r\n");
    assert!(limit(&mut client) >= 8 << 20);
    client.exchange("cache_memlimit 1024\r\n", "OK\r\n");
    assert_eq!(limit(&mut client), 1 << 30);
    client.exchange("cache_memlimit 64\r\n", "OK\r\n");
}

/// The number of MiB at the end of the first line of the log with `text`.
fn figure(server: &Server, text: &str) -> usize {
    let line =
        wait_for("the reason", || server.log().lines().find(|line| line.contains(text)).map(str::to_owned));
    let figure = line.rsplit(' ').next().and_then(|word| word.strip_suffix("MiB"));
    figure.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no figure in \"{line}\""))
}

#[test]
fn a_limit_that_is_refused_is_reported_with_the_one_that_is_not() {
    const REFUSED: &str = "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n";
    for engine in engines() {
        let start = || Setup::new().engine(engine).guira_argument("--reserve=128MiB").start_guira();
        let server = start();
        let mut client = server.connect();
        client.exchange("cache_memlimit 500\r\n", REFUSED);
        assert_eq!(figure(&server, "is more than was reserved"), 128, "{engine}");
        client.exchange("cache_memlimit 128\r\n", "OK\r\n");
        let server = start();
        let mut client = server.connect();
        if client.ask("cache_memlimit 8\r\n") == "OK" {
            assert!(!engine.starts_with("mica"), "{engine} has partitions");
            continue;
        }
        let least = figure(&server, "is too little for what cannot be given back");
        client.exchange(format!("cache_memlimit {}\r\n", least - 1), REFUSED);
        client.exchange(format!("cache_memlimit {least}\r\n"), "OK\r\n");
    }
}
