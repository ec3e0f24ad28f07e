//! `stats`: the names that monitoring reads are there, and the counters count.

use std::collections::BTreeMap;

use guira_tests::server::{engines, wait_for};
use guira_tests::{Client, Server, Setup, newer_than_peer};

/// What does not depend on how a server works inside; exporters and dashboards read these.
const NAMES: &[&str] = &[
    "pid",
    "uptime",
    "time",
    "version",
    "pointer_size",
    "rusage_user",
    "rusage_system",
    "max_connections",
    "curr_connections",
    "total_connections",
    "rejected_connections",
    "cmd_get",
    "cmd_set",
    "cmd_flush",
    "cmd_touch",
    "cmd_meta",
    "get_hits",
    "get_misses",
    "get_expired",
    "get_flushed",
    "delete_misses",
    "delete_hits",
    "incr_misses",
    "incr_hits",
    "decr_misses",
    "decr_hits",
    "cas_misses",
    "cas_hits",
    "cas_badval",
    "touch_hits",
    "touch_misses",
    "auth_cmds",
    "auth_errors",
    "bytes_read",
    "bytes_written",
    "limit_maxbytes",
    "accepting_conns",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "threads",
    "conn_yields",
    "bytes",
    "curr_items",
    "total_items",
    "expired_unfetched",
    "evicted_unfetched",
    "evictions",
    "reclaimed",
    // Counters of memcached's inside, which are 0 or close to it.
    "direct_reclaims",
    "lrutail_reflocked",
    "lru_bumps_dropped",
    "lru_maintainer_juggles",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_running",
    "evicted_active",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "read_buf_oom",
    "response_obj_count",
    "response_obj_bytes",
    "response_obj_oom",
    "connection_structures",
    "reserved_fds",
    "malloc_fails",
];

#[test]
fn the_known_names_are_there() {
    let server = Server::start();
    let stats = server.connect().stats("");
    let missing = NAMES.iter().filter(|name| !stats.contains_key(**name)).collect::<Vec<_>>();
    assert!(missing.is_empty(), "stats lacks {missing:?}");
}

#[test]
fn newer_names_are_there() {
    let server = Server::start();
    newer_than_peer!(server, "these counters are hidden until they are used");
    let stats = server.connect().stats("");
    for name in ["store_too_large", "store_no_memory", "slab_reassign_last_busy_status"] {
        assert!(stats.contains_key(name), "stats lacks {name}");
    }
}

#[test]
fn the_process_describes_itself() {
    let server = Server::start();
    let stats = server.connect().stats("");
    assert_eq!(stats["pid"], server.process_id().to_string());
    assert_eq!(stats["pointer_size"], "64");
    assert_eq!(stats["accepting_conns"], "1");
    assert_eq!(stats["limit_maxbytes"], (64_u64 << 20).to_string());
    assert_eq!(stats["curr_items"], "0");
    assert!(stats["curr_connections"].parse::<u64>().is_ok_and(|count| count >= 1));
}

/// By how much each counter grew while `work` was done.
fn growth(server: &Server, work: impl FnOnce(&mut Client)) -> BTreeMap<String, u64> {
    let mut client = server.connect();
    let numbers = |stats: BTreeMap<String, String>| {
        let numbers = stats.into_iter().filter_map(|(name, value)| Some((name, value.parse::<u64>().ok()?)));
        numbers.collect::<BTreeMap<_, _>>()
    };
    let before = numbers(client.stats(""));
    work(&mut client);
    client.sync();
    let after = numbers(client.stats(""));
    after.into_iter().map(|(name, count)| (name.clone(), count.saturating_sub(before[&name]))).collect()
}

#[track_caller]
fn expect_growth(growth: &BTreeMap<String, u64>, expected: &[(&str, u64)]) {
    for (name, count) in expected {
        assert_eq!(growth.get(*name), Some(count), "growth of {name}");
    }
}

#[test]
fn gets_are_counted_by_key() {
    let server = Server::start();
    let growth = growth(&server, |client| {
        client.set("key", "x");
        client.exchange("get key missing key\r\n", "VALUE key 0 1\r\nx\r\nVALUE key 0 1\r\nx\r\nEND\r\n");
        client.exchange("mg key\r\n", "HD\r\n");
        client.exchange("mg missing\r\n", "EN\r\n");
    });
    expect_growth(
        &growth,
        &[("cmd_get", 5), ("get_hits", 3), ("get_misses", 2), ("cmd_set", 1), ("cmd_touch", 0)],
    );
}

#[test]
fn stores_and_items_are_counted() {
    let server = Server::start();
    let growth = growth(&server, |client| {
        client.set("a", "x");
        client.set("a", "y");
        client.set("b", "z");
        client.exchange("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n");
        client.exchange("ms c 1\r\nx\r\n", "HD\r\n");
        client.exchange("delete b\r\n", "DELETED\r\n");
    });
    expect_growth(&growth, &[("cmd_set", 5), ("curr_items", 2), ("total_items", 4), ("delete_hits", 1)]);
    assert!(growth["bytes"] > 0);
}

#[test]
fn arithmetic_is_counted() {
    let server = Server::start();
    let growth = growth(&server, |client| {
        client.set("key", "5");
        client.exchange("incr key 1\r\n", "6\r\n");
        client.exchange("ma key\r\n", "HD\r\n");
        client.exchange("incr missing 1\r\n", "NOT_FOUND\r\n");
        client.exchange("decr key 1\r\n", "6\r\n");
        client.exchange("decr missing 1\r\n", "NOT_FOUND\r\n");
        client.exchange("ma missing MD\r\n", "NF\r\n");
    });
    expect_growth(&growth, &[("incr_hits", 2), ("incr_misses", 1), ("decr_hits", 1), ("decr_misses", 2)]);
}

#[test]
fn deletes_touches_and_flushes_are_counted() {
    let server = Server::start();
    let growth = growth(&server, |client| {
        client.set("key", "5");
        client.exchange("touch key 0\r\n", "TOUCHED\r\n");
        client.exchange("touch missing 0\r\n", "NOT_FOUND\r\n");
        client.exchange("gat 0 key missing\r\n", "VALUE key 0 1\r\n5\r\nEND\r\n");
        client.exchange("mg key T0\r\n", "HD\r\n");
        client.exchange("delete missing\r\n", "NOT_FOUND\r\n");
        client.exchange("md missing\r\n", "NF\r\n");
        client.exchange("md key\r\n", "HD\r\n");
        client.exchange("flush_all\r\n", "OK\r\n");
    });
    expect_growth(
        &growth,
        &[
            ("cmd_touch", 5),
            ("touch_hits", 3),
            ("touch_misses", 2),
            ("delete_hits", 1),
            ("delete_misses", 2),
            ("cmd_flush", 1),
        ],
    );
}

#[test]
fn only_what_clients_store_is_counted_as_stored() {
    for engine in engines() {
        let server = Setup::new().engine(engine).start();
        let growth = growth(&server, |client| {
            for key in ["a", "b", "c", "d", "e"] {
                client.set(key, "1");
            }
            // What an item lacks it gets, and that is no store: a cas unique, an expiry.
            client.cas("a");
            client.cas("a");
            client.exchange("mg b T500\r\n", "HD\r\n");
            client.exchange("gat 500 c\r\n", "VALUE c 0 1\r\n1\r\nEND\r\n");
            client.exchange("touch d 500\r\n", "TOUCHED\r\n");
            client.ask("mg e c\r\n");
            client.exchange("incr e 1\r\n", "2\r\n");
            client.exchange("append a 0 0 1\r\n2\r\n", "STORED\r\n");
            client.set("a", "3");
            client.exchange("add a 0 0 1\r\n4\r\n", "NOT_STORED\r\n");
        });
        expect_growth(&growth, &[("total_items", 7), ("curr_items", 5)]);
    }
}

#[test]
fn cas_is_counted() {
    let server = Server::start();
    let growth = growth(&server, |client| {
        client.set("key", "x");
        let unique = client.cas("key");
        client.exchange(format!("cas key 0 0 1 {unique}\r\ny\r\n"), "STORED\r\n");
        client.exchange(format!("cas key 0 0 1 {unique}\r\ny\r\n"), "EXISTS\r\n");
        client.exchange("cas missing 0 0 1 1\r\ny\r\n", "NOT_FOUND\r\n");
    });
    expect_growth(&growth, &[("cas_hits", 1), ("cas_badval", 1), ("cas_misses", 1)]);
}

#[test]
fn bytes_on_the_wire_are_counted() {
    let server = Server::start();
    let growth = growth(&server, |client| {
        client.set("key", "x".repeat(10_000));
        client.expect_value("key", "x".repeat(10_000));
    });
    assert!(growth["bytes_read"] >= 10_000, "bytes_read grew by {}", growth["bytes_read"]);
    assert!(growth["bytes_written"] >= 10_000, "bytes_written grew by {}", growth["bytes_written"]);
}

#[test]
fn reset_sets_the_counters_back() {
    let server = Server::start();
    let mut client = server.connect();
    client.set("key", "x");
    client.exchange("get missing\r\n", "END\r\n");
    client.exchange("stats reset\r\n", "RESET\r\n");
    let stats = client.stats("");
    assert_eq!(
        (stats["cmd_get"].as_str(), stats["cmd_set"].as_str(), stats["get_misses"].as_str()),
        ("0", "0", "0")
    );
    assert_eq!(stats["curr_items"], "1");
}

#[test]
fn settings_are_shown() {
    let server = Server::start();
    let settings = server.connect().stats("settings");
    for name in
        ["maxbytes", "maxconns", "evictions", "num_threads", "item_size_max", "cas_enabled", "flush_enabled"]
    {
        assert!(settings.contains_key(name), "stats settings lacks {name}");
    }
    assert_eq!(settings["maxbytes"], (64_u64 << 20).to_string());
    assert_eq!(settings["item_size_max"], (1_u64 << 20).to_string());
    assert_eq!(settings["num_threads"], "2");
}

/// Settings that exporters read, and the value of each where there are no lists in order of use.
const LISTS_OFF: &[(&str, &str)] = &[
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("hot_lru_pct", "0"),
    ("warm_lru_pct", "0"),
    ("hot_max_factor", "0.00"),
    ("warm_max_factor", "0.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "0"),
];

#[test]
fn the_known_settings_are_shown() {
    let server = Server::start();
    let mut client = server.connect();
    let settings = client.stats("settings");
    let mut names: Vec<&str> = LISTS_OFF.iter().map(|(name, _)| *name).collect();
    names.extend(["hashpower_init", "tail_repair_time", "track_sizes", "inline_ascii_response"]);
    names.extend(["tcp_backlog", "slab_automove", "lru_crawler", "hash_algorithm", "verbosity"]);
    names.retain(|name| !settings.contains_key(*name));
    assert!(names.is_empty(), "stats settings lacks {names:?}");
    assert_eq!((settings["hashpower_init"].as_str(), settings["tail_repair_time"].as_str()), ("0", "0"));
}

#[test]
fn lists_that_are_not_here_are_shown_as_off() {
    let server = Setup::new().options(&["-o", "hot_lru_pct=30,warm_lru_pct=20,track_sizes"]).start_guira();
    let mut client = server.connect();
    client.exchange("lru tune 10 25 0.1 2.0\r\n", "OK\r\n");
    let settings = client.stats("settings");
    for (name, value) in LISTS_OFF {
        assert_eq!(settings[*name], *value, "{name}");
    }
    let stats = client.stats("");
    assert_eq!(stats["read_buf_count"], settings["num_threads"]);
    assert_eq!(stats["read_buf_bytes"], stats["read_buf_bytes_free"]);
}

#[test]
fn an_unknown_argument_is_an_error() {
    let server = Server::start();
    server.connect().talk(&[("stats unknown\r\n", "ERROR\r\n"), ("stats noreply\r\n", "ERROR\r\n")]);
}

/// What memcached tells of each class.
const ITEMS: &[&str] = &[
    "number",
    "number_hot",
    "number_warm",
    "number_cold",
    "age_hot",
    "age_warm",
    "age",
    "mem_requested",
    "evicted",
    "evicted_nonzero",
    "evicted_time",
    "outofmemory",
    "tailrepairs",
    "reclaimed",
    "expired_unfetched",
    "evicted_unfetched",
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_cold",
    "hits_to_temp",
];
const SLABS: &[&str] = &[
    "chunk_size",
    "chunks_per_page",
    "total_pages",
    "total_chunks",
    "used_chunks",
    "free_chunks",
    "free_chunks_end",
    "get_hits",
    "cmd_set",
    "delete_hits",
    "incr_hits",
    "decr_hits",
    "cas_hits",
    "cas_badval",
    "touch_hits",
];

#[test]
fn classes_tell_the_known_names() {
    let server = Server::start();
    let mut client = server.connect();
    client.exchange("set k 0 0 5\r\nvalue\r\n", "STORED\r\n");
    let (items, slabs) = (client.stats("items"), client.stats("slabs"));
    let class = items.keys().next().and_then(|name| name.split(':').nth(1)).unwrap().to_owned();
    for name in ITEMS {
        assert!(items.contains_key(&format!("items:{class}:{name}")), "{name} is missing in {items:?}");
    }
    for name in SLABS {
        assert!(slabs.contains_key(&format!("{class}:{name}")), "{name} is missing in {slabs:?}");
    }
    assert!(slabs.contains_key("active_slabs") && slabs.contains_key("total_malloced"));
}

/// The sum of a statistic over all classes that `stats items` tells of.
fn sum_of_items(client: &mut Client, name: &str) -> u64 {
    let items = client.stats("items");
    let all = items.iter().filter(|(key, _)| key.ends_with(&format!(":{name}")));
    all.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

#[test]
fn items_of_each_class_are_counted_at_once() {
    // mica shows all items under one class.
    let server = Setup::new().not_with("mica").start();
    let mut client = server.connect();
    for key in 0..10 {
        client.set(&format!("short{key}"), "value");
    }
    client.set("short0", "other");
    client.set("long", "x".repeat(900_000));
    assert_eq!(sum_of_items(&mut client, "number"), 11);
    assert!((900_000..950_000).contains(&sum_of_items(&mut client, "mem_requested")));
    let of_a_class = |client: &mut Client| {
        let items = client.stats("items");
        items.iter().filter(|(key, _)| key.ends_with(":number")).map(|(_, number)| number.clone()).collect()
    };
    let mut numbers: Vec<String> = of_a_class(&mut client);
    numbers.retain(|number| number != "0");
    numbers.sort();
    assert_eq!(numbers, ["1", "10"]);
    client.exchange("delete short1\r\n", "DELETED\r\n");
    client.exchange("flush_all\r\n", "OK\r\n");
    client.exchange("get long\r\n", "END\r\n");
    assert!(sum_of_items(&mut client, "number") <= 9);
}

#[test]
fn gets_and_sets_of_a_class_are_counted_about() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..640 {
        client.exchange("set k 0 0 5\r\nvalue\r\n", "STORED\r\n");
        client.exchange("get k\r\n", "VALUE k 0 5\r\nvalue\r\nEND\r\n");
    }
    let slabs = client.stats("slabs");
    let sum = |name: &str| -> u64 {
        let all = slabs.iter().filter(|(key, _)| key.ends_with(&format!(":{name}")));
        all.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    };
    assert!((576..=704).contains(&sum("get_hits")), "{}", sum("get_hits"));
    assert!((576..=704).contains(&sum("cmd_set")), "{}", sum("cmd_set"));
}

#[test]
fn a_reset_forgets_how_often_connections_had_to_wait() {
    let server = Setup::new().options(&["-c", "2", "-o", "no_maxconns_fast"]).start_guira();
    let (mut client, other) = (server.connect(), server.connect());
    let waits = server.connect();
    wait_for("a connection that waits", || (client.stats("")["listen_disabled_num"] == "1").then_some(()));
    client.exchange("stats reset\r\n", "RESET\r\n");
    assert_eq!(client.stats("")["listen_disabled_num"], "0");
    other.abandon();
    drop(waits);
}

#[test]
fn a_limit_of_memory_for_connections_does_not_raise_the_ceiling() {
    // It comes on top of -m in memcached: a terabyte is as good as none there.
    let server = Setup::new().options(&["-o", "read_buf_mem_limit=4000000000"]).start_guira();
    let stats = server.connect().stats("");
    assert_eq!(stats["limit_maxbytes"], (64 << 20).to_string());
    assert_eq!(stats["conn_memory_limit"], (16 << 20).to_string());
}
