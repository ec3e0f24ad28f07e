//! `stats mrc`: what more memory, or another policy, would be worth. memcached has no such command.

use guira_tests::server::engines;
use guira_tests::{Client, Setup};
use std::collections::BTreeSet;

/// A number of `stats mrc`.
fn number(client: &mut Client, name: &str) -> f64 {
    let stats = client.stats("mrc");
    stats[name].parse().unwrap_or_else(|_| panic!("{name}: {:?}", stats[name]))
}

#[test]
fn hit_ratios_are_reported_for_each_policy_size_and_prefix() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    for round in 0..2 {
        for key in 0..3000 {
            for family in ["user", "page"] {
                let name = format!("{family}:{key}");
                // Half of the pages are never stored.
                if round == 0 && (family == "user" || key % 2 == 0) {
                    client.set(&name, "value");
                }
                client.ask(format!("mg {name}\r\n"));
            }
        }
    }
    let stats = client.stats("mrc");
    assert_eq!(stats["reads"], "12000");
    assert_eq!(stats["hit_ratio"], "0.7500");
    let policies: BTreeSet<&str> =
        stats.keys().filter_map(|name| name.split_once(":hit_ratio:")).map(|(policy, _)| policy).collect();
    assert!(policies.len() > 5 && policies.contains("clock"), "{policies:?}");
    for policy in policies.into_iter().filter(|name| !name.starts_with("prefix:")) {
        for scale in ["0.5", "1", "2", "4"] {
            // Of some hundred keys that are sampled, a quarter misses: four times the error of that.
            let ratio: f64 = stats[&format!("{policy}:hit_ratio:{scale}")].parse().unwrap();
            assert!((ratio - 0.75).abs() < 0.15, "{policy} {scale}: {ratio}");
        }
    }
    let keys = number(&mut client, "working_set_keys");
    assert!((3500.0..8500.0).contains(&keys), "{keys}");
    assert!(number(&mut client, "prefix:user:hit_ratio:1") > 0.99);
    let page = number(&mut client, "prefix:page:hit_ratio:1");
    assert!((0.35..0.65).contains(&page), "{page}");
    let day = number(&mut client, "prefix:user:day_keys");
    assert!((1500.0..4500.0).contains(&day), "{day}");
    assert_eq!(day, number(&mut client, "prefix:user:week_keys"), "the week is as long as the day");
    assert!(
        number(&mut client, "prefix:user:day_bytes_min") <= number(&mut client, "prefix:user:day_bytes_max")
    );
    let stats = client.stats("mrc");
    assert_eq!(
        (&*stats["day_churn"], &*stats["week_churn"], &*stats["week_beyond_day"]),
        ("NULL", "NULL", "NULL")
    );
    assert!(stats["prefix:user:pool"].starts_with("not known: "), "{stats:?}");
    assert!(number(&mut client, "sample_bytes") < f64::from(64 << 20) / 64.0);
}

#[test]
fn a_reset_makes_counting_begin_anew() {
    let server = Setup::new().start_guira();
    let mut client = server.connect();
    client.ask("get a\r\n");
    assert!(number(&mut client, "reads") > 0.0);
    client.exchange("stats reset\r\n", "RESET\r\n");
    assert!(number(&mut client, "reads") == 0.0);
}

#[test]
fn a_client_that_may_not_list_keys_gets_no_prefixes() {
    let server = Setup::new().guira_argument("--disable-dumping").start_guira();
    let mut client = server.connect();
    for key in 0..500 {
        client.ask(format!("get user:{key}\r\n"));
    }
    let stats = client.stats("mrc");
    assert!(stats["reads"] == "500" && !stats.keys().any(|name| name.starts_with("prefix:")));
}

#[test]
fn policies_are_compared_where_one_can_be_chosen() {
    for engine in engines() {
        let server = Setup::new().engine(engine).start_guira();
        let stats = server.connect().stats("mrc");
        assert_eq!(stats.contains_key("policies_rate"), ["memc3", "classic"].contains(&engine), "{engine}");
        assert!(stats.contains_key("clock:hit_ratio:1"), "{engine}");
    }
}

#[test]
fn without_advice_there_is_none() {
    let server = Setup::new().guira_argument("--disable-advice").start_guira();
    let mut client = server.connect();
    client.exchange("stats mrc\r\n", "CLIENT_ERROR stats mrc not allowed\r\n");
    assert_eq!(client.stats("settings")["advice_enabled"], "no");
}
