//! `cache_memlimit`: the ceiling is moved while the server runs.

use guira_tests::server::{engines, refused_guira, wait_for};
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
    client.send_many((0..20_000).map(|key| format!("set key{key} 0 0 4000 noreply\r\n{value}\r\n")));
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

fn limit(client: &mut Client) -> usize {
    client.stats("")["limit_maxbytes"].parse().unwrap()
}

#[test]
fn a_cache_that_was_started_small_can_become_large() {
    let server = Setup::new().options(&["-m", "3"]).start();
    let mut client = server.connect();
    assert_eq!(limit(&mut client), 3 << 20);
    for mebibytes in [8, 1024, 64] {
        client.exchange(format!("cache_memlimit {mebibytes}\r\n"), "OK\r\n");
        assert_eq!(limit(&mut client), mebibytes << 20);
        client.exchange("set still 0 0 5\r\nworks\r\n", "STORED\r\n");
        client.expect_value("still", "works");
    }
}

/// Stores `count` items with values of `length` bytes in an empty cache.
fn fill(client: &mut Client, count: usize, length: usize) {
    client.exchange("flush_all\r\n", "OK\r\n");
    let value = "x".repeat(length);
    client.send_many((0..count).map(|key| format!("set key{key} 0 0 {length} noreply\r\n{value}\r\n")));
    client.sync();
}

/// Does so, and returns how many of them are there.
fn stored(client: &mut Client, count: usize, length: usize) -> usize {
    fill(client, count, length);
    client.send_many((0..count).map(|key| format!("mg key{key}\r\n")));
    (0..count).filter(|_| client.line() == "HD").count()
}

#[test]
fn three_megabytes_hold_what_memcached_holds_in_them() {
    // Of memcached 1.6.18, which gives each class one page of a megabyte.
    for (length, count, least) in [(100, 12_000, 5_461), (1_000, 2_500, 885), (10_000, 400, 94)] {
        let server = Setup::new().options(&["-m", "3", "-t", "2"]).start();
        let mut client = server.connect();
        let held = stored(&mut client, count, length);
        assert!(held >= least, "{held} values of {length} bytes");
        let large = format!("set large 0 0 1000000\r\n{}\r\n", "x".repeat(1_000_000));
        client.exchange(large, "STORED\r\n");
    }
}

#[test]
fn a_running_cache_shrinks_to_eight_megabytes_and_grows_again() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    assert!(stored(&mut client, 9_000, 4_000) > 8_000);
    assert!(server.memory() > 32 << 20);
    client.exchange("cache_memlimit 8\r\n", "OK\r\n");
    assert_eq!(limit(&mut client), 8 << 20);
    wait_for("memory to be given back", || {
        client.sync();
        (server.memory() < 14 << 20).then_some(())
    });
    let held = stored(&mut client, 9_000, 4_000);
    assert!((1_000..2_100).contains(&held), "{held}");
    assert!(server.memory() < 14 << 20);
    client.exchange("cache_memlimit 64\r\n", "OK\r\n");
    assert!(stored(&mut client, 9_000, 4_000) > 8_000);
    assert!(server.memory() < 64 << 20);
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
        let server = Setup::new().engine(engine).guira_argument("--reserve=128MiB").start_guira();
        let mut client = server.connect();
        client.exchange("cache_memlimit 500\r\n", REFUSED);
        assert_eq!(figure(&server, "is more than was reserved"), 128, "{engine}");
        client.exchange("cache_memlimit 128\r\n", "OK\r\n");
    }
}

#[test]
fn a_limit_below_what_cannot_be_given_back_is_raised_and_reported() {
    // Each partition's index has a huge page.
    let server = Setup::new().engine("mica").guira_argument("--memory=1GiB").start_guira();
    let mut client = server.connect();
    client.exchange("cache_memlimit 8\r\n", "OK\r\n");
    let limit = limit(&mut client);
    assert!((9 << 20..128 << 20).contains(&limit), "{limit}");
    assert_eq!(figure(&server, "cannot shrink memory to") << 20, limit);
    client.exchange("set still 0 0 5\r\nworks\r\n", "STORED\r\n");
    client.expect_value("still", "works");
}

#[test]
fn no_item_may_take_more_than_half_of_a_small_cache() {
    let (code, said) = refused_guira(&["memcached", "-m", "1", "-p", "0"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("Cannot set item size limit higher than 1/2 of memory max."), "{said}");
}
