//! `cache_memlimit`: the ceiling is moved while the server runs.

use guira_tests::server::wait_for;
use guira_tests::{Server, Setup, newer_than_peer};

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

/// Resident memory of a process, in bytes.
fn resident(process: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
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
    let grown = resident(server.process_id());
    assert!(grown > 70 << 20, "{grown}");
    client.exchange("cache_memlimit 24\r\n", "OK\r\n");
    wait_for("memory to be given back", || {
        // Idle workers do the work; a request keeps them from sleeping for long.
        client.sync();
        (resident(server.process_id()) < 26 << 20).then_some(())
    });
    let stats = client.stats("");
    assert_ne!(stats["evictions"], "0");
    client.exchange("set still 0 0 5\r\nworks\r\n", "STORED\r\n");
    client.expect_value("still", "works");
}
