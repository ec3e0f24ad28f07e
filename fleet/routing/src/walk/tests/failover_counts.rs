//! The counters of failovers. The expected numbers are from mcrouter's tests, or from a model of mcrouter's algorithm that agrees with them.

use super::*;
use crate::{CountedPools, RouteCount, RouteCounts};

/// A router, and the counters of its routes.
fn counting(config: &str) -> (Router, Arc<RouteCounts>) {
    let settings = settings();
    (Router::with(config, &settings), settings.counts)
}

/// The counters of result errors, TKO errors, collisions, collisions with failed domains, and requests whose last child failed.
fn policy_counts(counts: &RouteCounts) -> [u64; 5] {
    use RouteCount::{AllFailed, Collision, FailedDomainCollision, ResultError, TkoError};
    [ResultError, TkoError, Collision, FailedDomainCollision, AllFailed].map(|what| counts.count(what))
}

/// The same counters after a get of each key. All 23 servers of a pool time out once, and are marked as failed from then on.
fn after_each_key(route: &str, domains: &[usize], keys: usize) -> Vec<[u64; 5]> {
    let hash = r#"{"hash_func": "WeightedCh3", "weights": [0.7, 0.65, 1.0, 0.8, 0.5, 0.7, 0.65,
        1.0, 0.8, 0.7, 0.65, 1.0, 0.8, 0.5, 0.75, 0.5, 0.75, 0.7, 0.65, 1.0, 0.5, 0.75, 0.55, 0.81]}"#;
    let servers: Vec<_> = (0..23).map(|number| format!("p{number}:1")).collect();
    let domains =
        if domains.is_empty() { String::new() } else { format!(r#", "failure_domains": {domains:?}"#) };
    let route = route.replace("HASH", hash);
    let (mut router, counts) =
        counting(&format!(r#"{{"pools": {{"P": {{"servers": {servers:?}{domains}}}}}, "route": {route}}}"#));
    let mut after = Vec::new();
    for i in 0..keys {
        router.get(&format!("key_{}_hYgGEs_{i}_kBVq9Z_{}", 13 * i, 71 * i));
        while let Some(server) = router.script.open.first().map(|(server, _)| server.clone()) {
            router.refuse(&server, Outcome::Tko);
            router.reply(&server, Outcome::Timeout);
        }
        after.push(policy_counts(&counts));
    }
    router.end();
    after
}

fn salted(more: &str) -> String {
    format!(
        r#"{{"type": "SaltedFailoverRoute", "pool": "P", "hash": HASH, "failover_policy":
            {{"type": "DeterministicOrderPolicy", "max_tries": 12, "max_error_tries": 3{more}}}}}"#
    )
}

#[test]
fn failovers_by_hashes_of_the_key_are_counted_as_in_mcrouter() {
    let rows =
        [[3, 0, 1], [6, 0, 3], [9, 2, 4], [12, 3, 5], [15, 5, 6], [18, 9, 7], [20, 18, 9], [20, 29, 18]];
    let failed = [0, 0, 0, 0, 0, 0, 1, 2];
    let with = |rows: &[[u64; 3]], failed: &[u64]| {
        let all = rows.iter().zip(failed);
        all.map(|([error, tko, attempts], failed)| [*error, *tko, *attempts, 0, *failed]).collect::<Vec<_>>()
    };
    assert_eq!(after_each_key(&salted(""), &[], 8), with(&rows, &failed));
    // The policy ignores failure domains unless it enables them.
    let domains: Vec<_> = (0..23).map(|number| number % 12 + 1).collect();
    assert_eq!(after_each_key(&salted(""), &domains, 8), with(&rows, &failed));
    let by_policy = r#"{"type": "FailoverRoute", "children": ["PoolRoute|P", "Pool|P"], "failover_policy":
        {"type": "DeterministicOrderPolicy", "max_tries": 12, "max_error_tries": 3, "hash": HASH}}"#;
    let rows = [
        [3, 0, 1],
        [6, 0, 3],
        [9, 2, 4],
        [12, 3, 5],
        [15, 5, 6],
        [17, 14, 10],
        [19, 23, 12],
        [21, 32, 21],
        [21, 43, 26],
        [23, 52, 30],
    ];
    assert_eq!(after_each_key(by_policy, &[], 10), with(&rows, &[0, 0, 0, 0, 0, 1, 2, 3, 4, 5]));
}

#[test]
fn children_in_failed_domains_are_counted_as_in_mcrouter() {
    let route = salted(r#", "enable_failure_domains": true"#);
    let domains: Vec<_> = (0..23).map(|number| number % 12 + 1).collect();
    let rows = [
        [3, 0, 1, 0, 0],
        [6, 0, 3, 0, 0],
        [9, 2, 3, 1, 0],
        [12, 3, 4, 1, 0],
        [15, 5, 4, 2, 0],
        [18, 13, 5, 14, 0],
        [20, 22, 5, 21, 1],
        [21, 32, 5, 81, 2],
    ];
    assert_eq!(after_each_key(&route, &domains, 8), rows);
    let domains = [1, 2, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 1, 1, 1, 1, 1, 1, 2, 2, 1];
    let rows = [
        [3, 0, 1, 0, 0],
        [6, 0, 3, 0, 0],
        [9, 1, 3, 5, 0],
        [12, 2, 4, 5, 0],
        [15, 7, 6, 176, 0],
        [17, 16, 8, 733, 1],
        [18, 26, 13, 1278, 2],
        [20, 35, 20, 1826, 3],
    ];
    assert_eq!(after_each_key(&route, &domains, 8), rows);
}

/// The numbers of gets, of 60, that the second and the third server of a pool receive while the first one fails. The first two servers are
/// in the same failure domain.
fn with_the_first_out(route: &str, why: Outcome) -> (usize, usize) {
    let policy = r#"{"type": "DeterministicOrderPolicy", "max_tries": 2, "max_error_tries": 2,
        "enable_failure_domains": true}"#;
    let config = format!(
        r#"{{"pools": {{"P": {{"servers": ["p0:1", "p1:1", "p2:1"], "failure_domains": [1, 1, 2]}}}}, "route": {}}}"#,
        route.replace("POLICY", policy)
    );
    // The statistics of a pool change no way of a request.
    let counted_pools = CountedPools::new(std::iter::once("P".to_owned()));
    let counted = with_one_out(Router::with(&config, &Settings { counted_pools, ..settings() }), why);
    assert_eq!(counted, with_one_out(Router::of(&config), why), "{why:?}");
    counted
}

fn with_one_out(mut router: Router, why: Outcome) -> (usize, usize) {
    router.refuse("p0", why);
    let (mut second, mut third) = (0, 0);
    for number in 0..60 {
        router.get(&format!("k{number}"));
        second += usize::from(router.script.open.iter().any(|(server, _)| server == "p1"));
        third += usize::from(router.script.open.iter().any(|(server, _)| server == "p2"));
        while let Some((server, _)) = router.script.open.first().cloned() {
            router.reply(&server, Outcome::Found);
        }
    }
    router.end();
    (second, third)
}

#[test]
fn no_server_stands_in_for_one_of_its_own_domain_that_is_out_of_use() {
    let salted = r#"{"type": "SaltedFailoverRoute", "pool": "P", "failover_policy": POLICY}"#;
    for why in [Outcome::Tko, Outcome::ConnectError, Outcome::ConnectTimeout, Outcome::Shutdown] {
        assert_eq!(with_the_first_out(salted, why), (21, 39), "{why:?}");
    }
    assert_eq!(with_the_first_out(salted, Outcome::Timeout), (28, 32), "its domain has not failed");
    // The failed domain is that of the replying server, also if the first child does not hash the key itself.
    let other = r#"{"type": "FailoverRoute", "failover_policy": POLICY, "children": [
        {"type": "AllSyncRoute", "children": [{"type": "RandomRoute", "children": ["PoolRoute|P"]}]}, "Pool|P"]}"#;
    assert_eq!(with_the_first_out(other, Outcome::Tko), (21, 39));
}

/// Sends gets through a FailoverRoute with three children, which reply to each get with these outcomes. Returns the name of the server that
/// replied to the last get, and the counters.
fn by_whom(more: &str, gets: &[[Outcome; 3]]) -> (&'static str, Arc<RouteCounts>) {
    let route = format!(
        r#"{{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]{more}}}"#
    );
    let (mut router, counts) = counting(&config(&route));
    let mut last = "";
    for outcomes in gets {
        router.get("k");
        while let Some((server, _)) = router.script.open.first().cloned() {
            let number = ["a", "b", "c"].iter().position(|known| *known == server).unwrap();
            last = ["a", "b", "c"][number];
            router.reply(last, outcomes[number]);
        }
    }
    router.end();
    (last, counts)
}

/// The counters of failovers, requests whose last child failed, failures beyond the limit, result errors and TKO errors.
fn counts_of(counts: &RouteCounts) -> [u64; 5] {
    use RouteCount::{AllFailed, Failover, RateLimited, ResultError, TkoError};
    [Failover, AllFailed, RateLimited, ResultError, TkoError].map(|what| counts.count(what))
}

#[test]
fn the_last_child_has_no_failure_of_the_policy() {
    use Outcome::{ClientError, ConnectError, Found, RemoteError, Timeout, Tko};
    for (more, outcomes, last, expected) in [
        ("", [Found, Found, Found], "a", [0, 0, 0, 0, 0]),
        ("", [ClientError, Found, Found], "a", [0, 0, 0, 0, 0]),
        ("", [Timeout, Found, Found], "b", [1, 0, 0, 1, 0]),
        ("", [Tko, Found, Found], "b", [1, 0, 0, 0, 1]),
        ("", [Tko, ConnectError, Found], "c", [1, 0, 0, 0, 2]),
        ("", [Timeout, RemoteError, Timeout], "c", [1, 1, 0, 2, 0]),
        ("", [Timeout, Tko, Tko], "c", [1, 1, 0, 1, 1]),
        // The reply is an error, although not one of failover_errors.
        ("", [Timeout, Tko, ClientError], "c", [1, 1, 0, 1, 1]),
        ("", [Timeout, ClientError, Found], "b", [1, 0, 0, 1, 0]),
        (r#", "failover_errors": ["tko"]"#, [Timeout, Found, Found], "a", [0, 0, 0, 0, 0]),
        // max_tries ends the failover before the last child.
        (r#", "failover_policy": {"max_tries": 1}"#, [Timeout, Found, Found], "a", [1, 0, 0, 1, 0]),
        (r#", "failover_policy": {"max_tries": 1}"#, [Tko, Timeout, Found], "b", [1, 0, 0, 1, 1]),
        (r#", "failover_policy": {"max_tries": 2}"#, [Timeout, Tko, Timeout], "c", [1, 1, 0, 1, 1]),
        (
            r#", "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 1}"#,
            [Timeout, Found, Found],
            "a",
            [0, 1, 0, 1, 0],
        ),
        (
            r#", "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 2}"#,
            [Timeout, Timeout, Found],
            "b",
            [1, 1, 0, 1, 0],
        ),
        (
            r#", "failover_policy": {"type": "RendezvousPolicy"}"#,
            [Timeout, Timeout, Timeout],
            "c",
            [1, 1, 0, 2, 0],
        ),
    ] {
        let (by, counts) = by_whom(more, &[outcomes]);
        let all = counts_of(&counts);
        if more.contains("Rendezvous") {
            assert_eq!(all, expected, "{more} {outcomes:?}");
        } else {
            assert_eq!((by, all), (last, expected), "{more} {outcomes:?}");
        }
    }
}

#[test]
fn the_last_child_needs_no_permission_to_fail() {
    use Outcome::{Found, Timeout, Tko};
    let none = r#", "failover_limit": {"rate": 0}"#;
    let (by, counts) = by_whom(none, &[[Timeout, Found, Found], [Tko, Timeout, Found]]);
    assert_eq!((by, counts_of(&counts)), ("b", [1, 0, 2, 2, 1]));
    // The limit has two tokens at first: one for each child except the last.
    let two = r#", "failover_limit": {"rate": 0.000002, "burst": 2}"#;
    let (_, counts) = by_whom(two, &[[Timeout; 3]]);
    assert_eq!(counts_of(&counts), [1, 1, 0, 2, 0]);
    let (by, counts) = by_whom(two, &[[Tko, Tko, Timeout], [Timeout, Timeout, Found]]);
    assert_eq!((by, counts_of(&counts)), ("c", [2, 1, 0, 2, 2]));
}

#[test]
fn an_excluded_failure_is_no_try_and_nothing_else() {
    use Outcome::{Busy, Found, Timeout};
    let excluding = r#", "failover_policy": {"max_tries": 1, "exclude_errors": ["busy"]}"#;
    let (by, counts) = by_whom(excluding, &[[Busy, Timeout, Found]]);
    assert_eq!((by, counts_of(&counts)), ("b", [1, 0, 0, 2, 0]));
    // The limit applies to the excluded error.
    let limited = format!(r#"{excluding}, "failover_limit": {{"rate": 0}}"#);
    let (by, counts) = by_whom(&limited, &[[Busy, Found, Found]]);
    assert_eq!((by, counts_of(&counts)), ("a", [0, 0, 1, 1, 0]));
    // The excluded error does not mark the failure domain of its server as failed.
    let salted = r#"{"type": "SaltedFailoverRoute", "pool": "P", "failover_policy": POLICY}"#;
    let salted = salted.replace(
        "POLICY",
        r#"{"type": "DeterministicOrderPolicy", "max_tries": 2, "max_error_tries": 2,
            "enable_failure_domains": true, "exclude_errors": ["busy", "tko"]}"#,
    );
    assert_eq!(with_the_first_out(&salted, Busy), (28, 32));
    assert_eq!(
        with_the_first_out(&salted, Outcome::Tko),
        (21, 39),
        "a server that is out of use is no other failure"
    );
}

#[test]
fn answers_of_the_same_failure_domain_are_counted() {
    use Outcome::{Found, Timeout};
    for (domains, first, answers) in [
        ("1, 1, 2", Timeout, 1),
        ("1, 2, 1", Timeout, 1),
        ("1, 2, 3", Timeout, 0),
        // As in mcrouter, servers without a domain are in the same one.
        ("null, null, 2", Timeout, 1),
        ("1, 1, 1", Found, 0),
    ] {
        let (mut router, counts) = counting(&format!(
            r#"{{"pools": {{"P": {{"servers": ["p0:1", "p1:1", "p2:1"], "failure_domains": [{domains}]}}}},
                "route": {{"type": "FailoverRoute", "children": "Pool|P"}}}}"#
        ));
        router.refuse("p1", Outcome::Tko);
        router.get("k");
        router.reply("p0", first);
        if first == Timeout {
            router.reply("p2", Found);
        }
        router.end();
        assert_eq!(counts.count(RouteCount::SameDomain), answers, "{domains} {first:?}");
    }
}

#[test]
fn requests_that_are_thrown_away_are_counted_and_explained_ones_are_not() {
    let route =
        r#"{"type": "PrefixSelectorRoute", "policies": {"dev:": "DevNullRoute"}, "wildcard": "NullRoute"}"#;
    let (mut router, counts) = counting(&config(route));
    for key in ["dev:a", "b", "dev:c"] {
        let ticket = router.get(key);
        assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    }
    let lines = router.walks.tree().explain(Op::Get, b"dev:a", Facts::default());
    assert_eq!(lines.last().unwrap().handle, "DevNullRoute");
    let ticket = router.request(Op::Set, "dev:a");
    assert_eq!(router.outcome(ticket), Some(Outcome::NotStored));
    assert_eq!(counts.count(RouteCount::DevNull), 3);
    router.end();
}
