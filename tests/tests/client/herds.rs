//! Many clients and one key: leases, waits and stale values.

use crate::{caches, client, hit, read, read_with, value, wait_until};
use guira_client::lookaside::{Leases, LookAside, StaleValues, Wanted};
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_tests::{Server, Setup, skip};
use std::convert::Infallible;
use std::sync::mpsc;
use std::time::Duration;

#[test]
fn one_of_a_herd_asks_the_database() {
    const HERD: u64 = 16;
    for (name, server) in caches::all() {
        let (cache, fills) = (client(&server), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..HERD {
                scope.spawn(|| {
                    let found = read_with(&cache, "k", || {
                        fills.fetch_add(1, Ordering::SeqCst);
                        wait_until("the herd", || cache.counters().waits == HERD - 1);
                        value("row")
                    });
                    assert_eq!(found, value("row"), "{name}");
                });
            }
        });
        let counters = cache.counters();
        assert_eq!(fills.into_inner(), 1, "{name}");
        assert_eq!((counters.misses, counters.stores, counters.hits), (1, 1, HERD - 1), "{name}");
    }
}

#[test]
fn what_was_read_before_a_delete_is_returned_and_not_stored() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        let found = read_with(&cache, "k", || {
            let written =
                cache.write_through_delete(&["k"], |changed| Ok::<_, Infallible>(changed.comment()));
            assert_eq!(written.expect("no write fails"), "/* mc: k */");
            value("old")
        });
        assert_eq!(found, value("old"), "{name}");
        assert_eq!(cache.counters().refusals, 1, "{name}");
        assert_eq!(read(&cache, "k", value("new")), value("new"), "{name}");
        assert_eq!(hit(&cache, "k"), value("new"), "{name}");
    }
}

/// Has a client hold the lease of `key` while something is done, and store `filled` then.
fn while_held(cache: &LookAside, key: &str, filled: &str, work: impl FnOnce()) {
    let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            read_with(cache, key, || {
                begin.send(()).expect("it is waited for");
                // Either way it is over.
                let _ = ended.recv();
                value(filled)
            })
        });
        begun.recv().expect("the database is asked");
        work();
        drop(end);
    });
}

#[test]
fn a_wait_that_is_over_ends_in_the_database_and_stores_nothing() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        let hasty = cache.clone().wait(Duration::from_millis(10));
        while_held(&cache, "k", "row", || {
            assert_eq!(read(&hasty, "k", value("unleased")), value("unleased"), "{name}");
        });
        assert_eq!(hit(&cache, "k"), value("row"), "{name}");
        let counters = cache.counters();
        assert_eq!((counters.waits, counters.unleased, counters.stores), (1, 1, 1), "{name}");
    }
}

/// Makes the value of `k` stale, and sees who is given it.
fn stale_values_of(server: &Server, make_stale: &str) {
    let cache = client(server);
    assert_eq!(read(&cache, "k", value("old")), value("old"));
    server.connect().ask(make_stale);
    let hasty = cache.clone().wait(Duration::ZERO);
    while_held(&cache, "k", "new", || {
        assert_eq!(hit(&hasty.clone().stale_values(StaleValues::Use), "k"), value("old"));
        assert_eq!(read(&hasty, "k", value("new")), value("new"));
    });
    assert_eq!(hit(&cache, "k"), value("new"));
    assert_eq!((cache.counters().stale_hits, cache.counters().unleased), (1, 1));
}

#[test]
fn whoever_may_uses_the_stale_value_while_another_client_fills_the_key() {
    stale_values_of(&Setup::new().guira_argument("--stale-values=100").start_guira(), "delete k\r\n");
    match Setup::new().start_peer() {
        Some(memcached) => stale_values_of(&memcached, "md k I T100\r\n"),
        None => skip::say("memcached is not installed"),
    }
}

#[test]
fn whoever_cannot_fill_a_key_gives_its_lease_to_the_next() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        assert_eq!(cache.get_or_fill("k", |_| Err("down")), Err("down"), "{name}");
        // The tokens of this router are no cas uniques: others wait.
        let is_given_back = name != "a router that makes leases of meta commands";
        let next = if is_given_back { cache.clone() } else { cache.clone().wait(Duration::ZERO) };
        assert_eq!(read(&next, "k", value("row")), value("row"), "{name}");
        let counters = cache.counters();
        let expected = if is_given_back { (2, 0, 1) } else { (1, 1, 0) };
        assert_eq!((counters.misses, counters.waits, counters.stores), expected, "{name}");
    }
}

#[test]
fn several_keys_are_filled_by_who_has_their_leases() {
    for (name, server) in caches::all() {
        let cache = client(&server);
        assert_eq!(read(&cache, "there", value("a")), value("a"), "{name}");
        let mut asked = Vec::new();
        let mut fill = |wanted: &[Wanted<'_>]| {
            asked.extend(wanted.iter().map(|wanted| wanted.key.to_owned()));
            Ok::<_, Infallible>(wanted.iter().map(|wanted| value(wanted.key)).collect())
        };
        let keys = ["x", "there", "held", "y", "x"];
        let hasty = cache.clone().wait(Duration::from_millis(10));
        while_held(&cache, "held", "row", || {
            let found = hasty.get_many(&keys, &mut fill).expect("no fill fails");
            let expected = [value("x"), value("a"), value("held"), value("y"), value("x")];
            assert_eq!(found, expected, "{name}");
        });
        let found = cache.get_many(&keys, &mut fill).expect("no fill fails");
        assert_eq!(found, [value("x"), value("a"), value("row"), value("y"), value("x")], "{name}");
        assert_eq!(asked, ["x", "y", "held"], "{name}");
    }
}

#[test]
fn each_kind_of_cache_is_asked_by_what_it_knows() {
    let told: Vec<_> = caches::all()
        .iter()
        .map(|(name, server)| (*name, client(server).leases().expect("it knows leases")))
        .collect();
    for (name, leases) in told {
        let is_native = !matches!(name, "memcached" | "a router whose servers know only meta commands");
        assert_eq!(leases == Leases::Native, is_native, "{name}");
    }
}
