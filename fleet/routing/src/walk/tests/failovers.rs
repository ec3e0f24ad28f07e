use super::*;

fn route(kind: &str, more: &str) -> String {
    format!(r#"{{"type": "{kind}", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]{more}}}"#)
}

/// Sends a request through `route` to servers that reply or refuse with these outcomes. Returns the
/// requests and the result.
fn run(
    route: &str,
    op: Op,
    key: &str,
    outcomes: &[Outcome],
    refusing: usize,
) -> (Vec<String>, (Outcome, String)) {
    let mut router = Router::new(route);
    let servers = ["a", "b", "c", "d"];
    for (number, outcome) in outcomes.iter().enumerate().filter(|(number, _)| refusing & 1 << number != 0) {
        router.refuse(servers[number], *outcome);
    }
    let ticket = router.request(op, key);
    while let Some((name, _)) = router.script.open.first().cloned() {
        assert_eq!(router.outcome(ticket), None);
        let number = servers.iter().position(|server| *server == name).unwrap();
        router.signed(&name, outcomes[number]);
    }
    let (sent, received) = (router.sent(), router.by(ticket).unwrap());
    router.end();
    (sent, received)
}

#[test]
fn failover_asks_the_next_child_after_an_error_only() {
    use Outcome::*;
    for row in rows(&[Found, NotFound, Timeout, RemoteError, ClientError, Tko], 3) {
        for refusing in 0..8 {
            let (sent, (outcome, who)) = run(&route("FailoverRoute", ""), Op::Get, "k", &row, refusing);
            let last = row.iter().position(|outcome| !outcome.is_failover_error()).unwrap_or(2);
            assert_eq!(sent.len(), last + 1, "{row:?}");
            assert_eq!(outcome, row[last]);
            let name = ["a", "b", "c"][last];
            assert_eq!(who, if refusing & 1 << last != 0 { "" } else { name }, "{row:?} {refusing}");
        }
    }
}

#[test]
fn failover_errors_say_what_counts_for_each_kind_of_operation() {
    let tko_only = r#", "failover_errors": ["tko"]"#;
    let by_kind =
        r#", "failover_errors": {"gets": ["timeout"], "updates": [], "deletes": ["tko", "timeout"]}"#;
    for (more, op, failure, tried) in [
        (tko_only, Op::Get, Outcome::Timeout, 1),
        (tko_only, Op::Get, Outcome::Tko, 3),
        (tko_only, Op::Set, Outcome::Timeout, 1),
        (tko_only, Op::Incr, Outcome::Timeout, 3),
        (by_kind, Op::Gets, Outcome::Timeout, 3),
        (by_kind, Op::Get, Outcome::Tko, 1),
        (by_kind, Op::Set, Outcome::Tko, 1),
        (by_kind, Op::Delete, Outcome::Tko, 3),
        (by_kind, Op::Delete, Outcome::Busy, 1),
        (by_kind, Op::Touch, Outcome::Busy, 3),
        (r#", "failover_errors": ["client_error"]"#, Op::Get, Outcome::ClientError, 3),
        (r#", "failover_errors": ["bad_key", "ooo", "aborted"]"#, Op::Get, Outcome::ClientError, 1),
        (r#", "failover_errors": ["bad_value", "tko"]"#, Op::Get, Outcome::RemoteError, 1),
    ] {
        let (sent, _) = run(&route("FailoverRoute", more), op, "k", &[failure; 3], 0);
        assert_eq!(sent.len(), tried, "{more} {op:?} {failure:?}");
    }
    let error = refusal(&route("FailoverRoute", r#", "failover_errors": ["slow"]"#));
    assert!(error.contains("unknown error slow"), "{error}");
}

#[test]
fn miss_failover_asks_the_next_child_after_a_miss_or_an_error() {
    use Outcome::*;
    for row in rows(&[Found, NotFound, Timeout, RemoteError], 3) {
        for best in [false, true] {
            let more = if best { r#", "return_best_on_error": true"# } else { "" };
            let (sent, (outcome, who)) = run(&route("MissFailoverRoute", more), Op::Get, "k", &row, 0);
            let hit = row.iter().position(|outcome| *outcome == Found);
            let last = hit.unwrap_or(2);
            assert_eq!(sent.len(), last + 1);
            let best_of = |row: &[Outcome]| {
                // Of equal ones the last.
                let least = row.iter().map(|outcome| outcome.severity()).min().unwrap();
                row.iter().rposition(|outcome| outcome.severity() == least).unwrap()
            };
            let expected = if best && hit.is_none() { best_of(&row) } else { last };
            assert_eq!((outcome, &*who), (row[expected], ["a", "b", "c"][expected]), "{row:?} {best}");
        }
    }
    for op in [Op::Set, Op::Incr, Op::Touch] {
        assert_eq!(run(&route("MissFailoverRoute", ""), op, "k", &[NotFound; 3], 0).0.len(), 1);
    }
    assert_eq!(
        run(&route("MissFailoverRoute", ""), Op::Delete, "k", &[NotFound, Deleted, Deleted], 0).0.len(),
        2
    );
    // A child that has failed to delete the key has it still.
    for more in ["", r#", "return_best_on_error": true"#] {
        for (row, tried, received, by) in [
            ([Timeout, Deleted, Deleted], 2, Timeout, "a"),
            ([Timeout, NotFound, NotFound], 3, Timeout, "a"),
            ([NotFound, Tko, NotFound], 3, Tko, "b"),
            ([NotFound, NotFound, Tko], 3, Tko, "c"),
            ([NotFound, Tko, Deleted], 3, Tko, "b"),
        ] {
            for refusing in [0, 7] {
                let (sent, (outcome, who)) =
                    run(&route("MissFailoverRoute", more), Op::Delete, "k", &row, refusing);
                assert_eq!((sent.len(), outcome), (tried, received), "{row:?} {more}");
                assert!(refusing != 0 || who == by, "{row:?} {more}");
            }
        }
    }
}

#[test]
fn the_gutter_keeps_items_for_a_short_time() {
    let gutter = |more: &str| {
        format!(
            r#"{{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|B", "PoolRoute|C"]{more}}}"#
        )
    };
    for (more, exptime, then) in [
        ("", 0, " t60"),
        ("", 59, " t59"),
        ("", 61, " t60"),
        ("", -1, " t-1"),
        (r#", "failover_exptime": 5"#, 100, " t5"),
        (r#", "failover_exptime": 0"#, 100, " t100"),
    ] {
        for dialect in [Dialect::Classic, Dialect::Meta] {
            let mut router = Router::new(&gutter(more));
            router.refuse("a", Outcome::Tko);
            let ticket = router.start(&Request { exptime, dialect, ..Request::classic(Op::Set, b"k") });
            router.reply("b", Outcome::Timeout);
            router.reply("c", Outcome::Stored);
            let meta = if dialect == Dialect::Meta { "meta " } else { "" };
            let own = if exptime == 0 { String::new() } else { format!(" t{exptime}") };
            let expected = [
                format!("a {meta}set k{own}"),
                format!("b {meta}set k{then}"),
                format!("c {meta}set k{then}"),
            ];
            assert_eq!(router.sent(), expected, "{more}");
            assert_eq!(router.outcome(ticket), Some(Outcome::Stored));
            router.end();
        }
    }
    let (sent, _) = run(&gutter(""), Op::Delete, "k", &[Outcome::Tko; 3], 0);
    assert_eq!(sent, ["a delete k", "b delete k", "c delete k"]);
    // Without a bound a touch is one.
    let touch = Request { exptime: 100, ..Request::classic(Op::Touch, b"k") };
    let route = gutter(r#", "failover_exptime": 0"#);
    assert_eq!(in_gutter(&touch, &route).0, "b touch k t100");
}

const GUTTER: &str =
    r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B"}"#;

/// What the gutter is sent while the first server is out, and how a client is answered if the gutter has the item.
#[track_caller]
fn in_gutter(request: &Request<'_>, route: &str) -> (String, Option<Outcome>) {
    let mut router = Router::new(route);
    router.refuse("a", Outcome::Tko);
    let ticket = router.start(request);
    let sent = router.sent().pop().expect("the gutter is asked");
    router.reply("b", Outcome::Found);
    let received = router.outcome(ticket);
    router.end();
    (sent, received)
}

#[test]
fn no_command_gives_an_item_in_the_gutter_more_time_than_it_had_when_it_was_stored() {
    let past = 1_700_000_000;
    let meta = |op, meta: &'static str| (op, Dialect::Meta, meta, 0);
    let classic = |op, exptime| (op, Dialect::Classic, "", exptime);
    for ((op, dialect, flags, exptime), sent, received) in [
        // An item that is made.
        (meta(Op::Incr, "N0 J1 v"), "meta incr k [N60 J1 v]", Outcome::Found),
        (meta(Op::Decr, "N100"), "meta decr k [N60]", Outcome::Found),
        (meta(Op::Incr, "MI D3 c v J7 N0"), "meta incr k [MI D3 c v J7 N60]", Outcome::Found),
        (meta(Op::LeaseGet, "N0 T0 v"), "meta lease-get k [N60 v]", Outcome::Found),
        (meta(Op::LeaseGet, "v N30 R5"), "meta lease-get k [v N30 R5]", Outcome::Found),
        (meta(Op::Append, "MA N0 T100"), "meta append k [MA N60 T60] t60", Outcome::Found),
        (meta(Op::Set, "T0 F7 Oabc"), "meta set k [T60 F7 Oabc] t60", Outcome::Found),
        // An item that is there.
        (meta(Op::Incr, "T100 v"), "meta incr k [v]", Outcome::Found),
        (meta(Op::Delete, "I T30 OT5"), "meta delete k [I OT5]", Outcome::Found),
        (meta(Op::Gat, "T30 v"), "meta get k [v]", Outcome::Found),
        (meta(Op::Touch, "f c"), "meta get k [f c]", Outcome::Found),
        (classic(Op::Gat, 30), "get k", Outcome::Found),
        (classic(Op::Gats, 0), "gets k", Outcome::Found),
        (classic(Op::Touch, 30), "meta get k", Outcome::Touched),
        // One that is to expire at once.
        (classic(Op::Touch, -1), "touch k t-1", Outcome::Found),
        (classic(Op::Gat, past), "gat k t1700000000", Outcome::Found),
        ((Op::Gat, Dialect::Meta, "T-1 v", -1), "meta gat k [T-1 v] t-1", Outcome::Found),
        (meta(Op::Delete, "I T-1"), "meta delete k [I T-1]", Outcome::Found),
    ] {
        let it = Request::classic(op, b"k");
        let request = Request { dialect, exptime, meta: flags.as_bytes(), ..it };
        // The answer to a delete is the first server's.
        let received = if op == Op::Delete { Outcome::Tko } else { received };
        assert_eq!(
            in_gutter(&request, GUTTER),
            (format!("b {sent}"), Some(received)),
            "{op:?} {flags} {exptime}"
        );
    }
}

#[test]
fn a_route_that_sets_times_sets_all_that_a_request_carries() {
    for (action, sent) in [("set", "N9 T9 v"), ("min", "N9 T5 v")] {
        let route = format!(
            r#"{{"type": "ModifyExptimeRoute", "target": "PoolRoute|B", "exptime": 9, "action": "{action}"}}"#
        );
        let mut router = Router::new(&route);
        let it = Request::classic(Op::LeaseGet, b"k");
        router.start(&Request { dialect: Dialect::Meta, meta: b"N0 T5 v", ..it });
        router.reply("b", Outcome::Found);
        assert_eq!(router.sent(), [format!("b meta lease-get k [{sent}]")], "{action}");
        router.end();
    }
}

#[test]
fn a_delete_is_answered_as_the_first_child_has_answered_whatever_stands_in_for_it() {
    use Outcome::{Deleted, NotFound, Timeout, Tko};
    for (first, second, third, received) in [
        (Tko, Deleted, Deleted, Tko),
        (Timeout, NotFound, Deleted, Timeout),
        (Timeout, Tko, Deleted, Timeout),
        (Tko, Timeout, Timeout, Tko),
        (Deleted, Tko, Tko, Deleted),
        (NotFound, Deleted, Deleted, NotFound),
    ] {
        for kind in
            [route("FailoverRoute", ""), route("FailoverRoute", r#", "failover_errors": ["tko", "timeout"]"#)]
        {
            let row = [first, second, third];
            let (sent, (outcome, who)) = run(&kind, Op::Delete, "k", &row, 0);
            let tried = 1 + row.iter().take(2).take_while(|outcome| outcome.is_error()).count();
            assert_eq!((sent.len(), outcome, &*who), (tried, received, "a"), "{row:?}");
        }
    }
}

#[test]
fn failover_tags_keys_with_a_hash_stop() {
    let tagging = route("FailoverRoute", r#", "failover_tag": true"#);
    let (sent, _) = run(&tagging, Op::Get, "k|#|x", &[Outcome::Tko; 3], 0);
    assert_eq!(sent, ["a get k|#|x", "b get k|#|x:failover=1", "c get k|#|x:failover=1"]);
    let (sent, _) = run(&tagging, Op::Get, "k", &[Outcome::Tko; 3], 0);
    assert_eq!(sent, ["a get k", "b get k", "c get k"]);
    let long = format!("k|#|{}", "x".repeat(240));
    let (sent, _) = run(&tagging, Op::Get, &long, &[Outcome::Tko; 3], 0);
    assert_eq!(sent[1], format!("b get {long}"));
}

#[test]
fn failover_is_limited_to_a_share_of_the_requests() {
    let mut router =
        Router::new(&route("FailoverRoute", r#", "failover_limit": {"rate": 0.25, "burst": 2}"#));
    router.refuse("b", Outcome::Busy);
    let (mut tried_b, mut tried_c) = (0, 0);
    for _ in 0..100 {
        router.get("k");
        router.reply("a", Outcome::Timeout);
        let sent = router.sent();
        tried_b += sent.iter().filter(|sent| sent.starts_with("b ")).count();
        tried_c += sent.iter().filter(|sent| sent.starts_with("c ")).count();
        while !router.script.open.is_empty() {
            router.reply("c", Outcome::Found);
        }
    }
    // The bucket is full at first, with one token for each of two children; then every fourth request has one.
    assert_eq!((tried_b, tried_c), (25, 1));
    // Servers that are down do not count.
    router.get("k");
    router.reply("a", Outcome::Tko);
    assert!(router.sent().contains(&"b get k".to_owned()));
    while !router.script.open.is_empty() {
        router.reply("c", Outcome::Found);
    }
    router.end();
}

#[test]
fn the_next_child_may_be_the_one_that_failed_least() {
    let policy = r#", "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 2}"#;
    let mut router = Router::new(&route("FailoverRoute", policy));
    for server in ["a", "b", "c"] {
        router.refuse(server, Outcome::Timeout);
    }
    for next in ["b", "c", "b", "c"] {
        let ticket = router.get("k");
        assert_eq!(router.sent(), ["a get k".to_owned(), format!("{next} get k")]);
        assert_eq!(router.outcome(ticket), Some(Outcome::Timeout));
    }
    router.end();
}

/// The children of a failover among the servers of `P`, in the order in which they are tried for a
/// key.
fn order(policy: &str, key: &str) -> Vec<String> {
    let mut router = Router::new(&format!(
        r#"{{"type": "SaltedFailoverRoute", "pool": "P", "failover_policy": {policy}}}"#
    ));
    for number in 0..8 {
        router.refuse(&format!("p{number}"), Outcome::Timeout);
    }
    router.get(key);
    let order = router.sent().iter().map(|sent| sent[..2].to_owned()).collect();
    router.end();
    order
}

#[test]
fn salted_failover_asks_others_of_the_pool_and_none_twice() {
    let policy = r#"{"type": "DeterministicOrderPolicy", "max_tries": 6, "max_error_tries": 4}"#;
    let mut seconds = HashMap::new();
    for number in 0..200 {
        let order = order(policy, &format!("key{number}"));
        assert_eq!(order.len(), 4);
        let mut distinct = order.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{order:?}");
        *seconds.entry(order[1].clone()).or_insert(0) += 1;
    }
    assert_eq!(seconds.len(), 8, "{seconds:?}");
    // No key is longer than servers allow, but nothing depends on it.
    assert_eq!(order(policy, &"x".repeat(300)).len(), 4);
    let rendezvous = order(r#"{"type": "RendezvousPolicy"}"#, "k");
    assert_eq!(rendezvous.len(), 8);
    for wrong in
        [r#"{"type": "DeterministicOrderPolicy", "max_tries": 6}"#, r#"{"type": "LeastFailuresPolicy"}"#]
    {
        refusal(&format!(r#"{{"type": "SaltedFailoverRoute", "pool": "P", "failover_policy": {wrong}}}"#));
    }
}

/// How many servers have timed out, and how many were down already, after each of some keys: all servers of a pool of 23 time out, and
/// are down from then on. Of 12 tries the last is not counted, as in mcrouter.
fn failures(route: &str, keys: usize) -> Vec<(usize, usize)> {
    let hash = r#"{"hash_func": "WeightedCh3", "weights": [0.7, 0.65, 1.0, 0.8, 0.5, 0.7, 0.65,
        1.0, 0.8, 0.7, 0.65, 1.0, 0.8, 0.5, 0.75, 0.5, 0.75, 0.7, 0.65, 1.0, 0.5, 0.75, 0.55, 0.81]}"#;
    let servers: Vec<_> = (0..23).map(|number| format!("\"p{number}:1\"")).collect();
    let (servers, route) = (servers.join(", "), route.replace("HASH", hash));
    let mut router =
        Router::of(&format!(r#"{{"pools": {{"P": {{"servers": [{servers}]}}}}, "route": {route}}}"#));
    let (mut down, mut timeouts, mut repeated) = (Vec::new(), 0, 0);
    let mut counts = Vec::new();
    for i in 0..keys {
        router.get(&format!("key_{}_hYgGEs_{i}_kBVq9Z_{}", 13 * i, 71 * i));
        while let Some(server) = router.script.open.first().map(|(server, _)| server.clone()) {
            router.refuse(&server, Outcome::Tko);
            router.reply(&server, Outcome::Timeout);
        }
        for (number, sent) in router.sent().iter().enumerate() {
            let server = sent.split(' ').next().unwrap().to_owned();
            let is_new = !down.contains(&server);
            down.push(server);
            timeouts += usize::from(is_new && number < 11);
            repeated += usize::from(!is_new && number < 11);
        }
        counts.push((timeouts, repeated));
    }
    router.end();
    counts
}

/// The numbers are those of mcrouter's tests.
#[test]
fn the_deterministic_order_is_that_of_mcrouter() {
    let policy =
        r#""failover_policy": {"type": "DeterministicOrderPolicy", "max_tries": 12, "max_error_tries": 3"#;
    let salted = format!(r#"{{"type": "SaltedFailoverRoute", "pool": "P", "hash": HASH, {policy}}}}}"#);
    assert_eq!(failures(&salted, 8), [(3, 0), (6, 0), (9, 2), (12, 3), (15, 5), (18, 9), (20, 18), (20, 29)]);
    let split = salted.replacen(r#""hash""#, r#""shard_splits": {"no-such-shard": 2}, "hash""#, 1);
    assert_eq!(failures(&split, 8), failures(&salted, 8));
    let children = r#""type": "FailoverRoute", "children": ["PoolRoute|P", "Pool|P"]"#;
    let by_policy = failures(&format!(r#"{{{children}, {policy}, "hash": HASH}}}}"#), 10);
    let rows = [(3, 0), (6, 0), (9, 2), (12, 3), (15, 5), (17, 14), (19, 23), (21, 32), (21, 43), (23, 52)];
    assert_eq!(by_policy, rows);
    // A hash of the route replaces the policy's.
    let by_route =
        failures(&format!(r#"{{{children}, "hash": HASH, {policy}, "hash": {{"hash_func": "Ch3"}}}}}}"#), 10);
    assert_eq!(by_route, rows);
    let text = failures(&format!(r#"{{{children}, "hash": "Ch3", {policy}, "hash": HASH}}}}"#), 10);
    assert_eq!(text, failures(&format!(r#"{{{children}, {policy}}}}}"#), 10));
    let other = format!(r#"{{"type": "SaltedFailoverRoute", "pool": "P", "hash": "Crc32", {policy}}}}}"#);
    assert_eq!(warnings(&other).len(), 1, "mcrouter refuses it");
}

#[test]
fn policies_ask_more_than_eight_children() {
    let routes: Vec<_> =
        ('a'..='f').map(|name| format!("\"PoolRoute|{}\"", name.to_ascii_uppercase())).collect();
    for policy in ["LeastFailuresPolicy", "DeterministicOrderPolicy", "RendezvousPolicy", "InOrderPolicy"] {
        let route = format!(
            r#"{{"type": "FailoverRoute", "children": [{}, "Pool|P"], "failover_policy":
                {{"type": "{policy}", "max_tries": 100, "max_error_tries": 100, "ignore_normal_reply_index": true}}}}"#,
            routes.join(", ")
        );
        let mut router = Router::new(&route);
        let servers: Vec<_> =
            ('a'..='f').map(String::from).chain((0..8).map(|number| format!("p{number}"))).collect();
        servers.iter().for_each(|server| router.refuse(server, Outcome::Timeout));
        let ticket = router.get("k");
        let mut tried: Vec<_> = router.sent().iter().map(|sent| sent.replace(" get k", "")).collect();
        assert_eq!((router.outcome(ticket), &*tried[0]), (Some(Outcome::Timeout), "a"));
        tried.sort();
        assert_eq!(tried, servers, "{policy}");
        router.end();
    }
}

#[test]
fn an_unknown_policy_is_the_order_of_the_children() {
    let policy = |more: &str| format!(r#", "failover_policy": {{"type": "InOrderPolicy"{more}}}"#);
    let (sent, _) = run(&route("FailoverRoute", &policy("")), Op::Get, "k", &[Outcome::Timeout; 3], 0);
    assert_eq!(sent, ["a get k", "b get k", "c get k"]);
    let twice = route("FailoverRoute", &policy(r#", "max_tries": 2"#));
    assert_eq!(run(&twice, Op::Get, "k", &[Outcome::Timeout; 3], 0).0, ["a get k", "b get k"]);
    assert_eq!(warnings(&twice).len(), 1);
}

#[test]
fn tags_of_a_route_are_those_of_its_policy() {
    let route = |of_route: &str, of_policy: &str| {
        let config = format!(
            r#"{{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C", "PoolRoute|D"]{of_route},
                "failover_policy": {{"type": "RendezvousPolicy"{of_policy}}}}}"#
        );
        let mut router = Router::new(&config);
        ["a", "b", "c", "d"].iter().for_each(|server| router.refuse(server, Outcome::Timeout));
        let tried = (0..20).flat_map(|number| {
            router.get(&format!("key{number}"));
            router.sent()
        });
        tried.collect::<Vec<_>>()
    };
    let (one, other) = (r#", "tags": ["x", "y", "z"]"#, r#", "tags": ["z", "x", "y"]"#);
    assert_ne!(route("", one), route("", other));
    assert_eq!(route(one, other), route("", one));
    let weights = r#", "weights": [1, 0.1, 0.1]"#;
    let weighted = route(r#", "hash": "WeightedRendezvous""#, &format!("{one}{weights}"));
    assert_ne!(weighted, route("", &format!("{one}{weights}")));
}

#[test]
fn a_gutter_without_other_routes_tells_failures() {
    for more in ["", r#", "failover": []"#] {
        let route = format!(r#"{{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A"{more}}}"#);
        for op in [Op::Get, Op::Set, Op::Delete] {
            let (sent, (outcome, _)) = run(&route, op, "k", &[Outcome::Timeout], 0);
            assert_eq!((sent.len(), outcome), (1, Outcome::Timeout));
        }
    }
}

#[test]
fn a_failure_domain_with_a_server_that_is_down_is_passed_over() {
    let policy = r#"{"type": "DeterministicOrderPolicy", "max_tries": 3, "max_error_tries": 3,
        "enable_failure_domains": true, "ignore_normal_reply_index": true}"#;
    let config = format!(
        r#"{{"pools": {{"A": {{"servers": ["a:1"]}},
            "P": {{"servers": ["p0:1", "p1:1", "p2:1", "p3:1"], "failure_domains": [1, 1, 1, 2]}}}},
            "route": {{"type": "FailoverRoute", "children": ["PoolRoute|A", "Pool|P"], "failover_policy": {policy}}}}}"#
    );
    for number in 0..50 {
        let mut router = Router::of(&config);
        for server in ["a", "p0", "p1", "p2", "p3"] {
            router.refuse(server, Outcome::Tko);
        }
        router.get(&format!("key{number}"));
        let sent = router.sent();
        let in_first = sent[1..].iter().filter(|sent| !sent.starts_with("p3")).count();
        assert_eq!((sent.len(), in_first), (3, 1), "{sent:?}");
        router.end();
    }
}

#[test]
fn an_order_of_this_host() {
    let latest = r#"{"type": "LatestRoute", "children": "Pool|P", "failover_count": 3}"#;
    let mut firsts = HashMap::new();
    for host in 0..100 {
        let mut router = Router::new(latest);
        router.facts.host = host;
        (0..8).for_each(|number| router.refuse(&format!("p{number}"), Outcome::Timeout));
        router.get("k");
        let order: Vec<_> = router.sent().iter().map(|sent| sent[..2].to_owned()).collect();
        router.get("another");
        let again: Vec<_> = router.sent().iter().map(|sent| sent[..2].to_owned()).collect();
        assert_eq!(order, again);
        let mut distinct = order.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 3, "{order:?}");
        *firsts.entry(order[0].clone()).or_insert(0) += 1;
        router.end();
    }
    assert_eq!(firsts.len(), 8, "{firsts:?}");
}

#[test]
fn failover_of_all_sync_of_miss_failover() {
    let nested = r#"{"type": "FailoverRoute", "children": [
        {"type": "AllSyncRoute", "children": [
            {"type": "MissFailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]},
            {"type": "MissFailoverRoute", "children": ["PoolRoute|C", "PoolRoute|D"]}]},
        "PoolRoute|E"]}"#;
    for order in orders(&["a", "c"]) {
        let mut router = Router::new(nested);
        let ticket = router.get("k");
        assert_eq!(router.sent(), ["a get k", "c get k"]);
        for server in order {
            router.reply(server, Outcome::NotFound);
        }
        router.hit("b", "from b");
        assert_eq!(router.outcome(ticket), None);
        router.reply("d", Outcome::Timeout);
        assert_eq!(router.script.open.len(), 1);
        router.hit("e", "from e");
        assert_eq!(router.value(ticket).as_deref(), Some("from e"));
        router.end();
    }
}

#[test]
fn a_failover_whose_share_is_nothing_asks_no_other_child_unless_the_first_is_down() {
    let mut router = Router::new(&route("FailoverRoute", r#", "failover_limit": {"rate": 0}"#));
    let ticket = router.get("k");
    router.reply("a", Outcome::Timeout);
    assert_eq!((router.sent(), router.outcome(ticket)), (vec!["a get k".to_owned()], Some(Outcome::Timeout)));
    router.get("k");
    router.reply("a", Outcome::Tko);
    assert_eq!(router.sent(), ["a get k", "b get k"]);
    router.reply("b", Outcome::NotFound);
    router.end();
}

#[test]
fn members_of_failovers_that_nobody_reads_are_warned_of() {
    let more = r#", "failover_policy": {"type": "LeastFailuresPolicy", "max_tries": 2, "colour": 1},
        "failover_limit": {"rate": 1, "color": 2}, "enable_logging": false"#;
    let warned = warnings(&route("FailoverRoute", more));
    assert_eq!(warned.len(), 3, "{warned:?}");
    let alone = r#"{"type": "FailoverRoute", "children": ["PoolRoute|A"], "failover_policy": {"type": "RendezvousPolicy"}}"#;
    assert_eq!(run(alone, Op::Get, "k", &[Outcome::Tko], 0).0, ["a get k"]);
}
