use super::*;

#[test]
fn a_pool_is_asked_by_the_hash_of_the_key_up_to_its_hash_stop() {
    let mut router = Router::new("\"PoolRoute|P\"");
    let mut counts = HashMap::new();
    for number in 0..400 {
        let key = format!("key{number}");
        router.get(&key);
        let server = router.sent()[0][..2].to_owned();
        router.reply(&server, Outcome::NotFound);
        router.get(&format!("{key}|#|other"));
        assert!(router.sent()[0].starts_with(&server));
        router.reply(&server, Outcome::NotFound);
        *counts.entry(server).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 8);
    assert!(counts.values().all(|count| (20..90).contains(count)), "{counts:?}");
    router.end();
}

#[test]
fn a_hash_route_hashes_as_a_pool_does() {
    let hash = r#""hash_func": "Crc32", "salt": "x""#;
    let mut by_pool = Router::new(&format!(r#"{{"type": "PoolRoute", "pool": "P", "hash": {{{hash}}}}}"#));
    let mut by_route = Router::new(&format!(r#"{{"type": "HashRoute", "children": "Pool|P", {hash}}}"#));
    let mut plain = Router::new("\"PoolRoute|P\"");
    let mut differences = 0;
    for number in 0..100 {
        let key = format!("key{number}");
        for router in [&mut by_pool, &mut by_route, &mut plain] {
            router.get(&key);
        }
        let one = by_pool.sent();
        assert_eq!(one, by_route.sent());
        differences += usize::from(one != plain.sent());
    }
    assert!(differences > 50, "{differences}");
}

#[test]
fn an_empty_pool_is_an_error_unless_a_miss_is_wanted() {
    for (more, outcome) in [
        ("", Outcome::LocalError),
        (r#", "error_on_empty": true"#, Outcome::LocalError),
        (r#", "error_on_empty": false"#, Outcome::NotFound),
    ] {
        for route in [r#""PoolRoute|N""#, r#"{"type": "SaltedFailoverRoute", "pool": "N"}"#] {
            let config = format!(r#"{{"pools": {{"N": {{"servers": []{more}}}}}, "route": {route}}}"#);
            let (built, ..) = built(&config).unwrap();
            assert_eq!(built.warnings.len(), usize::from(outcome == Outcome::LocalError));
            let mut router = Router::of(&config);
            let ticket = router.get("k");
            assert_eq!(router.outcome(ticket), Some(outcome));
            router.end();
        }
        let mut router = Router::new(&format!(r#"{{"type": "HashRoute", "children": []{more}}}"#));
        let ticket = router.get("k");
        assert_eq!(router.outcome(ticket), Some(outcome));
        router.end();
    }
}

#[test]
fn operations_choose_a_child() {
    let mut router = Router::new(
        r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A",
            "operation_policies": {"get": "PoolRoute|B", "delete": "PoolRoute|C", "lease-get": "PoolRoute|D"}}"#,
    );
    let mut by_group = Router::new(
        r#"{"type": "RoutingGroupRoute", "default_policy": "PoolRoute|A", "routing_group_policies":
            {"get_like": "PoolRoute|B", "update_like": "PoolRoute|C", "delete_like": "PoolRoute|D",
             "arithmetic_like": "PoolRoute|E"}}"#,
    );
    for (op, one, other) in [
        (Op::Get, "b", "b"),
        (Op::Gets, "a", "b"),
        (Op::LeaseGet, "d", "b"),
        (Op::Set, "a", "c"),
        (Op::LeaseSet, "a", "c"),
        (Op::Delete, "c", "d"),
        (Op::Decr, "a", "e"),
        (Op::Touch, "a", "a"),
    ] {
        for (router, server) in [(&mut router, one), (&mut by_group, other)] {
            router.request(op, "k");
            router.reply(server, Outcome::NotFound);
        }
    }
    router.end();
    by_group.end();
    let error =
        refusal(r#"{"type": "OperationSelectorRoute", "operation_policies": {"fetch": "NullRoute"}}"#);
    assert!(error.contains("unknown operation fetch"), "{error}");
    refusal(r#"{"type": "RoutingGroupRoute", "routing_group_policies": {"touch_like": "NullRoute"}}"#);
}

#[test]
fn a_short_form_of_a_selector_is_its_only_route() {
    for kind in ["OperationSelectorRoute", "PrefixPolicyRoute", "RoutingGroupRoute", "LoggingRoute"] {
        let mut router = Router::new(&format!("\"{kind}|PoolRoute|A\""));
        for op in [Op::Get, Op::Set, Op::Delete, Op::Incr, Op::Touch] {
            router.request(op, "k");
            router.reply("a", Outcome::NotFound);
        }
        router.end();
    }
}

#[test]
fn a_hash_may_be_a_latest_route() {
    for (route, latest) in [
        (
            r#"{"type": "PoolRoute", "pool": "P", "hash": "Latest"}"#,
            r#"{"type": "LatestRoute", "children": "Pool|P"}"#,
        ),
        (
            r#"{"type": "PoolRoute", "pool": "P", "hash": {"hash_func": "Latest", "failover_count": 2, "salt": "x"}}"#,
            r#"{"type": "LatestRoute", "children": "Pool|P", "failover_count": 2, "salt": "x"}"#,
        ),
        (
            r#"{"type": "HashRoute", "children": "Pool|P", "hash_func": "Latest", "weights": [1, 1, 0, 0, 0, 0, 0, 0]}"#,
            r#"{"type": "LatestRoute", "children": "Pool|P", "weights": [1, 1, 0, 0, 0, 0, 0, 0]}"#,
        ),
    ] {
        assert!(warnings(route).is_empty(), "{:?}", warnings(route));
        for host in 0..20 {
            let sent = [route, latest].map(|route| {
                let mut router = Router::new(route);
                router.facts.host = host;
                (0..8).for_each(|number| router.refuse(&format!("p{number}"), Outcome::Timeout));
                router.get("k");
                router.get("another");
                router.sent()
            });
            assert_eq!(sent[0], sent[1], "{route}");
            assert_eq!(sent[0][0].split(' ').next(), sent[0][sent[0].len() / 2].split(' ').next());
        }
    }
}

#[test]
fn the_hash_of_a_single_child_does_not_matter() {
    for route in [
        r#"{"type": "PoolRoute", "pool": "A", "hash": "Foo"}"#,
        r#"{"type": "PoolRoute", "pool": "A", "hash": {"hash_func": "Foo", "weights": ["x"]}}"#,
        r#"{"type": "HashRoute", "children": ["PoolRoute|A"], "hash_func": "Rendezvous", "tags": ["a", "b"]}"#,
    ] {
        let mut router = Router::new(route);
        router.get("k");
        router.reply("a", Outcome::NotFound);
        router.end();
        assert_eq!(warnings(route).len(), 1);
        refusal(
            &route
                .replace(r#""A""#, r#""P""#)
                .replace(r#"["PoolRoute|A"]"#, r#"["PoolRoute|A", "PoolRoute|B"]"#)
                .replace(r#"["a", "b"]"#, "1"),
        );
    }
}

#[test]
fn the_longest_prefix_chooses_a_child() {
    let mut router = Router::new(
        r#"{"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|A", "policies":
            {"ab": "PoolRoute|B", "abc": "PoolRoute|C", "abd": "PoolRoute|D", "b": "PoolRoute|E"}}"#,
    );
    for (key, server) in [
        ("a", "a"),
        ("ab", "b"),
        ("abb", "b"),
        ("abcd", "c"),
        ("abd", "d"),
        ("abe", "b"),
        ("ba", "e"),
        ("c", "a"),
    ] {
        router.get(key);
        router.reply(server, Outcome::NotFound);
    }
    router.end();
}

#[test]
fn a_random_child_is_any_child() {
    let mut router = Router::new(r#"{"type": "RandomRoute", "children": "Pool|P"}"#);
    let mut counts = HashMap::new();
    for _ in 0..800 {
        router.get("k");
        let server = router.sent()[0][..2].to_owned();
        router.reply(&server, Outcome::NotFound);
        *counts.entry(server).or_insert(0) += 1;
    }
    assert!(counts.len() == 8 && counts.values().all(|count| (60..140).contains(count)), "{counts:?}");
    router.end();
}

#[test]
fn null_and_error_answer_at_once() {
    for (route, op, outcome) in [
        ("\"NullRoute\"", Op::Get, Outcome::NotFound),
        ("\"DevNullRoute\"", Op::Set, Outcome::NotStored),
        ("\"ErrorRoute\"", Op::Get, Outcome::LocalError),
        ("\"ErrorRoute|some text\"", Op::Get, Outcome::LocalError),
        (r#"{"type": "ErrorRoute", "result": "busy"}"#, Op::Get, Outcome::Busy),
        (r#"{"type": "ErrorRoute", "result": "mc_res_busy"}"#, Op::Get, Outcome::Busy),
        (
            r#"{"type": "ErrorRoute", "result": "mc_res_deadline_exceeded"}"#,
            Op::Get,
            Outcome::DeadlineExceeded,
        ),
        (r#"{"type": "ErrorRoute", "result": "mc_res_bad_key"}"#, Op::Get, Outcome::ClientError),
        (r#"{"type": "ErrorRoute", "result": "mc_res_bad_value"}"#, Op::Get, Outcome::RemoteError),
        ("\"LoggingRoute\"", Op::Get, Outcome::NotFound),
        ("\"LoggingRoute|ErrorRoute\"", Op::Get, Outcome::LocalError),
    ] {
        let mut router = Router::new(route);
        let ticket = router.request(op, "k");
        assert_eq!(router.outcome(ticket), Some(outcome), "{route}");
        router.end();
    }
    refusal(r#"{"type": "ErrorRoute", "result": "fine"}"#);
    refusal(r#"{"type": "ErrorRoute", "result": "mc_res_found"}"#);
}

#[test]
fn hosts_and_clients_choose_a_child() {
    let mut router = Router::new(r#"{"type": "HostIdRoute", "children": "Pool|P"}"#);
    let mut by_client =
        Router::new(r#"{"type": "OriginalClientHashRoute", "children": "Pool|P", "offset": 3}"#);
    for number in 0..16 {
        (router.facts.host, by_client.facts.client) = (number, number);
        router.get("k");
        router.reply(&format!("p{}", number % 8), Outcome::NotFound);
        by_client.get("k");
        by_client.reply(&format!("p{}", (number + 3) % 8), Outcome::NotFound);
    }
    router.end();
    by_client.end();
    refusal(r#"{"type": "OriginalClientHashRoute", "children": "Pool|P", "offset": 8}"#);
}

/// A lease-set that the new place does not store is sent to the old place while its token may be from there.
fn migrating_leases(router: &mut Router, start: u64) {
    let server_at = |router: &mut Router, now: u64| {
        router.facts.now_s = now;
        router.get("k");
        let server = router.sent()[0][..1].to_owned();
        router.reply(&server, Outcome::NotFound);
        server
    };
    let change = (start..start + 200).find(|now| server_at(router, *now) == "b").unwrap();
    for (now, outcome, servers) in [
        (change - 1, Outcome::NotStored, "a"),
        (change, Outcome::NotStored, "ba"),
        (change + 9, Outcome::NotStored, "ba"),
        (change + 9, Outcome::Stored, "b"),
        (change + 10, Outcome::NotStored, "b"),
    ] {
        router.facts.now_s = now;
        let ticket = router.request(Op::LeaseSet, "k");
        router.reply(&servers[..1], outcome);
        assert_eq!(router.outcome(ticket), Some(outcome));
        let sent: String = router.sent().iter().map(|sent| sent[..1].to_owned()).collect();
        assert_eq!(sent, servers, "{} s after the change", now + 1 - change);
        if servers == "ba" {
            router.reply("a", Outcome::NotStored);
        }
    }
}

#[test]
fn keys_migrate_one_after_the_other_and_deletes_go_to_both() {
    let start = 1_800_000_000;
    let migrate = format!(
        r#"{{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": {start}, "interval": 100}}"#
    );
    let mut router = Router::new(&migrate);
    for (now, expected) in
        [(start - 1, 0..1), (start, 0..10), (start + 100, 400..600), (start + 200, 1000..1001)]
    {
        router.facts.now_s = now;
        let mut moved = 0;
        for number in 0..1000 {
            router.get(&format!("key{number}"));
            let server = router.sent()[0][..1].to_owned();
            moved += usize::from(server == "b");
            router.reply(&server, Outcome::NotFound);
        }
        assert!(expected.contains(&moved), "{moved} at {now}");
    }
    migrating_leases(&mut router, start);
    for (now, servers) in [(start - 1, "a"), (start, "ab"), (start + 199, "ab"), (start + 200, "b")] {
        router.facts.now_s = now;
        let ticket = router.request(Op::Delete, "k");
        let sent: String = router.sent().iter().map(|sent| sent[..1].to_owned()).collect();
        assert_eq!(sent, servers);
        for server in servers.chars() {
            router
                .reply(&server.to_string(), if server == 'a' { Outcome::NotFound } else { Outcome::Deleted });
        }
        let worst = if servers.contains('a') { Outcome::NotFound } else { Outcome::Deleted };
        assert_eq!(router.outcome(ticket), Some(worst));
    }
    router.end();
}

#[test]
fn requests_with_certain_fields_go_nowhere() {
    let mut router = Router::new(
        r#"{"type": "BlackholeRoute", "default": "PoolRoute|A", "policies":
            {"flags": [{"op": "equals", "value": 5}, {"op": "equals", "value": 6}],
             "key": [{"op": "not_equals", "value": "kept"}]}}"#,
    );
    for (key, flags, is_sent) in [("k", 5, false), ("k", 6, false), ("k", 7, true), ("kept", 5, true)] {
        let ticket = router.start(&Request { flags, ..Request::classic(Op::Set, key.as_bytes()) });
        assert_eq!(router.outcome(ticket).is_none(), is_sent, "{key} {flags}");
        if is_sent {
            router.reply("a", Outcome::Stored);
        }
    }
    router.end();
    let error = refusal(r#"{"type": "BlackholeRoute", "default": "NullRoute", "policies": {"color": []}}"#);
    assert!(error.contains("no field color"), "{error}");
}

#[test]
fn routes_that_do_not_exist_here_are_refused_with_a_reason() {
    for kind in ["SRRoute", "LoadBalancerRoute", "DistributionRoute", "AxonLogRoute", "CarbonLookasideRoute"]
    {
        let error = refusal(&format!(r#"{{"type": "{kind}"}}"#));
        assert!(error.contains(&format!("{kind} is not supported: ")), "{error}");
        assert!(error.starts_with("test:1"), "{error}");
    }
    for member in ["bucketize", "distribution_enabled"] {
        let error = refusal(&format!(r#"{{"type": "PoolRoute", "pool": "P", "{member}": true}}"#));
        assert!(error.contains(&format!("'{member}' is not supported")), "{error}");
    }
    assert!(warnings(r#"{"type": "PoolRoute", "pool": "P", "asynclog": false, "name": "n"}"#).is_empty());
    let warned = warnings(r#"{"type": "PoolRoute", "pool": "P", "colour": 1, "split_shard_fanout": 2}"#);
    assert_eq!(warned.len(), 2, "{warned:?}");
}

/// The server of `P` that each of some keys is sent to, with these members of the pool and of its route.
fn servers_of_keys(of_pool: &str, of_route: &str) -> Vec<String> {
    let mut router = Router::of(&format!(
        r#"{{"pools": {{"P": {{"servers": ["p0:1", "p1:1", "p2:1"]{of_pool}}}}},
            "route": {{"type": "PoolRoute", "pool": "P"{of_route}}}}}"#
    ));
    (0..300)
        .map(|number| {
            router.get(&format!("key{number}"));
            let server = router.sent()[0][..2].to_owned();
            router.reply(&server, Outcome::NotFound);
            server
        })
        .collect()
}

#[test]
fn weights_of_a_pool_count_without_a_hash() {
    let weights = r#", "weights": [1, 0, 0.5]"#;
    let weighted = servers_of_keys(weights, r#", "hash": "WeightedCh3""#);
    let without = servers_of_keys(weights, "");
    assert!(!without.contains(&"p1".to_owned()), "a server of the weight 0 has keys");
    assert_eq!(without, weighted);
    // An object overrides only what it has.
    let salted = servers_of_keys(weights, r#", "hash": {"salt": "x"}"#);
    assert!(!salted.contains(&"p1".to_owned()));
    assert_ne!(salted, weighted);
    let own = servers_of_keys(weights, r#", "hash": {"weights": [0, 1, 1]}"#);
    assert!(!own.contains(&"p0".to_owned()) && own.contains(&"p1".to_owned()));
    // A hash that is named has no weights if it knows none.
    let plain = servers_of_keys("", "");
    assert_eq!(servers_of_keys(weights, r#", "hash": "Ch3""#), plain);
    assert_eq!(servers_of_keys(weights, r#", "hash": {"hash_func": "Ch3"}"#), plain);
    // Weights of the route do not choose the hash.
    assert_eq!(servers_of_keys("", r#", "hash": {"weights": [1, 0, 1]}"#), plain);
}
