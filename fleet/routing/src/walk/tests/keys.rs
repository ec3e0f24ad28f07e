use super::*;

fn sent(route: &str, key: &str) -> String {
    let mut router = Router::new(route);
    router.refuse("a", Outcome::NotFound);
    router.get(key);
    let sent = router.sent();
    router.end();
    sent.first().cloned().unwrap_or_default()
}

#[test]
fn keys_get_prefixes_and_suffixes() {
    let modify = |more: &str| format!(r#"{{"type": "ModifyKeyRoute", "target": "PoolRoute|A", {more}}}"#);
    for (more, key, expected) in [
        (r#""ensure_key_prefix": "foo""#, "bar", "foobar"),
        (r#""ensure_key_prefix": "foo""#, "foobar", "foobar"),
        (r#""ensure_key_prefix": "foo", "replace_key_prefix": "old""#, "oldkey", "fookey"),
        (r#""ensure_key_prefix": "foo", "replace_key_prefix": "old""#, "key", "fookey"),
        (r#""ensure_key_prefix": "foo", "replace_key_prefix": "old""#, "fookey", "fookey"),
        (r#""ensure_key_prefix": "foo", "modify_inplace": true"#, "barkey", "fookey"),
        (r#""ensure_key_prefix": "foo", "modify_inplace": true"#, "k", "fook"),
        (r#""set_key_suffix": "!""#, "k", "k!"),
        (r#""ensure_key_prefix": """#, "k", "k"),
    ] {
        assert_eq!(sent(&modify(more), key), format!("a get {expected}"), "{more}");
    }
    refusal(&modify(r#""replace_key_prefix": "a", "modify_inplace": true"#));
    refusal(&modify(r#""ensure_key_prefix": "a b""#));
    refusal(&modify(r#""set_routing_prefix": "here""#));
}

#[test]
fn a_key_that_cannot_be_sent_is_an_error_of_the_router() {
    let modify = r#"{"type": "ModifyKeyRoute", "target": "PoolRoute|A", "ensure_key_prefix": "foo"}"#;
    let long = "x".repeat(247);
    assert_eq!(sent(modify, &long), format!("a get foo{long}"));
    for route in
        [modify.to_owned(), format!(r#"{{"type": "FailoverRoute", "children": [{modify}, "ErrorRoute"]}}"#)]
    {
        let mut router = Router::new(&route);
        let ticket = router.get(&"x".repeat(248));
        assert_eq!(router.outcome(ticket), Some(Outcome::LocalError));
        router.end();
    }
    // Another child can be asked.
    let mut router =
        Router::new(&format!(r#"{{"type": "FailoverRoute", "children": [{modify}, "PoolRoute|B"]}}"#));
    router.get(&"x".repeat(248));
    router.reply("b", Outcome::Found);
    router.end();
    let empty = r#"{"type": "ModifyKeyRoute", "target": "PoolRoute|A", "replace_key_prefix": "k"}"#;
    let mut router = Router::new(empty);
    let ticket = router.get("k");
    assert_eq!(router.outcome(ticket), Some(Outcome::LocalError));
    router.end();
}

#[test]
fn keys_are_rewritten_one_after_the_other_and_for_each_child() {
    let nested = r#"{"type": "ModifyKeyRoute", "ensure_key_prefix": "1", "target":
        {"type": "AllSyncRoute", "children": [
            {"type": "ModifyKeyRoute", "ensure_key_prefix": "2", "target":
                {"type": "FailoverRoute", "children": ["PoolRoute|A",
                    {"type": "ModifyKeyRoute", "set_key_suffix": "x", "target": "PoolRoute|B"}]}},
            {"type": "ModifyKeyRoute", "ensure_key_prefix": "3", "target": "PoolRoute|C"}]}}"#;
    for is_refused in [false, true] {
        let mut router = Router::new(nested);
        if is_refused {
            router.refuse("a", Outcome::Tko);
        }
        let ticket = router.get("k");
        if !is_refused {
            router.reply("a", Outcome::Timeout);
        }
        router.reply("b", Outcome::NotFound);
        router.reply("c", Outcome::Found);
        let mut sent = router.sent();
        sent.sort();
        assert_eq!(sent, ["a get 21k", "b get 21kx", "c get 31k"]);
        assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
        router.end();
    }
}

#[test]
fn expiration_times_are_set_or_bounded() {
    let modify = |more: &str| {
        format!(r#"{{"type": "ModifyExptimeRoute", "target": "PoolRoute|A", "exptime": {more}}}"#)
    };
    for (more, op, exptime, expected) in [
        ("10", Op::Set, 99, " t10"),
        ("10", Op::Gat, 99, " t10"),
        ("10", Op::Touch, 0, " t10"),
        ("0", Op::Set, 99, ""),
        ("10", Op::Get, 0, ""),
        ("10", Op::Delete, 0, ""),
        ("10", Op::Append, 0, ""),
        (r#"10, "action": "min""#, Op::Set, 0, " t10"),
        (r#"10, "action": "min""#, Op::Set, 9, " t9"),
        (r#"10, "action": "min""#, Op::Set, -1, " t-1"),
        (r#"0, "action": "min""#, Op::Set, 9, " t9"),
    ] {
        let mut router = Router::new(&modify(more));
        router.start(&Request { exptime, ..Request::classic(op, b"k") });
        assert_eq!(router.sent(), [format!("a {} k{expected}", op.name())], "{more}");
        router.reply("a", Outcome::NotFound);
        router.end();
    }
    refusal(&modify(r#"10, "action": "max""#));
    refusal(r#"{"type": "ModifyExptimeRoute", "target": "NullRoute"}"#);
}

#[test]
fn a_pool_may_get_keys_with_their_routing_prefix() {
    let pools = r#""K": {"servers": ["a:1"], "keep_routing_prefix": true}, "N": {"servers": ["b:1"]}"#;
    let both = r#"{"type": "AllSyncRoute", "children": ["PoolRoute|K", "PoolRoute|N",
        {"type": "ModifyKeyRoute", "set_routing_prefix": "/x/y/", "target": "PoolRoute|K"},
        {"type": "ModifyKeyRoute", "set_routing_prefix": "", "target": "PoolRoute|K"}]}"#;
    let mut router = Router::of(&format!(r#"{{"pools": {{{pools}}}, "route": {both}}}"#));
    router.get("/here/own/k");
    assert_eq!(router.sent(), ["a get /here/own/k", "b get k", "a get /x/y/k", "a get k"]);
    for server in ["a", "a", "a", "b"] {
        router.reply(server, Outcome::NotFound);
    }
    router.end();
}

#[test]
fn a_key_is_split_over_replicas_by_host() {
    let split = |more: &str| {
        format!(r#"{{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 3{more}}}"#)
    };
    for (more, op, host, expected) in [
        ("", Op::Get, 0, vec!["a get k"]),
        ("", Op::Get, 5, vec!["a get k::2"]),
        ("", Op::Set, 1, vec!["a set k::1 =v"]),
        (r#", "all_sync": true"#, Op::Set, 1, vec!["a set k =v", "a set k::2 =v", "a set k::1 =v"]),
        ("", Op::Delete, 0, vec!["a delete k", "a delete k::1", "a delete k::2"]),
        ("", Op::Incr, 2, vec!["a incr k::2"]),
    ] {
        let mut router = Router::new(&split(more));
        router.facts.host = host;
        router.refuse("a", Outcome::NotFound);
        router.request(op, "k");
        assert_eq!(router.sent(), expected);
        router.end();
    }
    let mut router = Router::new(&split(""));
    let ticket = router.request(Op::Delete, "k");
    for outcome in [Outcome::Deleted, Outcome::Timeout, Outcome::NotFound] {
        assert_eq!(router.outcome(ticket), None);
        router.reply("a", outcome);
    }
    assert_eq!(router.outcome(ticket), Some(Outcome::Timeout), "a copy is left");
    router.end();
    let mut router = Router::new(&split(r#", "first_hit": true"#));
    let ticket = router.get("k");
    assert_eq!(router.sent(), ["a get k", "a get k::1", "a get k::2"]);
    router.reply("a", Outcome::NotFound);
    router.hit("a", "v");
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    router.reply("a", Outcome::Timeout);
    let ticket = router.get("k");
    for outcome in [Outcome::NotFound, Outcome::Timeout, Outcome::NotFound] {
        assert_eq!(router.outcome(ticket), None);
        router.reply("a", outcome);
    }
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    router.end();
    let long = "x".repeat(246);
    assert_eq!(sent(&split(""), &long), format!("a get {long}"));
    let mut router = Router::new(&split(""));
    router.facts.host = 1;
    router.refuse("a", Outcome::NotFound);
    for (key, expected) in [("k|#|x|#|y", "k::1|#|x|#|y"), ("|#|x", "::1|#|x"), ("k|x", "k|x::1")] {
        router.get(key);
        assert_eq!(router.sent(), [format!("a get {expected}")], "the copies of {key} have the same hash");
    }
    router.end();
    refusal(r#"{"type": "KeySplitRoute", "destination": "PoolRoute|A", "replicas": 1}"#);
}

#[test]
fn a_shard_is_split_by_host() {
    let split = r#"{"type": "PoolRoute", "pool": "A", "shard_splits": {"7": 30, "x": 2, "6": 3, "5": {"new_split_size": 3}, "8":
        {"old_split_size": 1, "new_split_size": 2, "split_start": 1800000000, "migration_period": 100,
         "fanout_deletes": true}}}"#;
    for (key, op, host, now, expected) in [
        ("a:7:b", Op::Get, 0, 0, vec!["a get a:7:b"]),
        ("a:7:b", Op::Get, 1, 0, vec!["a get a:7aa:b"]),
        ("a:7:b", Op::Get, 29, 0, vec!["a get a:7cb:b"]),
        ("a:7:b", Op::Set, 2, 0, vec!["a set a:7ba:b =v"]),
        ("a:6:b", Op::Delete, 1, 0, vec!["a delete a:6:b", "a delete a:6aa:b", "a delete a:6ba:b"]),
        ("a:5:b", Op::Delete, 1, 0, vec!["a delete a:5aa:b"]),
        ("a:9:b", Op::Get, 1, 0, vec!["a get a:9:b"]),
        ("a:7", Op::Get, 1, 0, vec!["a get a:7"]),
        ("a:x:b", Op::Get, 1, 0, vec!["a get a:x:b"]),
        ("a::b", Op::Get, 1, 0, vec!["a get a::b"]),
        ("a|#|:7:b", Op::Get, 1, 0, vec!["a get a|#|:7:b"]),
        ("a:8:b", Op::Get, 1, 1_799_999_999, vec!["a get a:8:b"]),
        ("a:8:b", Op::Get, 1, 1_800_000_050, vec!["a get a:8aa:b"]),
        ("a:8:b", Op::Get, 16_383, 1_800_000_050, vec!["a get a:8:b"]),
        ("a:8:b", Op::Get, 16_383, 1_800_000_100, vec!["a get a:8aa:b"]),
        ("a:8:b", Op::Delete, 0, 1_800_000_100, vec!["a delete a:8:b", "a delete a:8aa:b"]),
    ] {
        let mut router = Router::new(split);
        (router.facts.host, router.facts.now_s) = (host, now);
        router.refuse("a", Outcome::NotFound);
        router.request(op, key);
        assert_eq!(router.sent(), expected, "{key}");
        router.end();
    }
    refusal(r#"{"type": "PoolRoute", "pool": "A", "shard_splits": {"7": 0}}"#);
    let many =
        r#"{"type": "PoolRoute", "pool": "A", "shard_splits": {"7": 10000, "8": {"new_split_size": 678}}}"#;
    assert_eq!(warnings(many).len(), 2);
    for key in ["a:7:b", "a:8:b"] {
        let mut router = Router::new(many);
        router.facts.host = 677 + 676;
        router.refuse("a", Outcome::NotFound);
        router.get(key);
        assert_eq!(router.sent(), [format!("a get {}zz:b", &key[..3])]);
        router.end();
    }
}

#[test]
fn parts_of_keys_are_hashed() {
    let mut router = Router::new(
        r#"{"type": "KeyParseRoute", "target": "PoolRoute|P", "num_routing_parts": 2, "delimiter": ":"}"#,
    );
    for number in 0..50 {
        let mut servers = Vec::new();
        for rest in ["a", "b", "c:d"] {
            router.get(&format!("k:{number}:{rest}"));
            let server = router.sent()[0][..2].to_owned();
            router.reply(&server, Outcome::NotFound);
            servers.push(server);
        }
        servers.dedup();
        assert_eq!(servers.len(), 1);
    }
    router.end();
}

#[test]
fn hash_stops_are_allowed_for_some_prefixes() {
    let route = r#"{"type": "HashStopAllowListRoute", "target": "PoolRoute|A", "prefixes": ["ok"]}"#;
    for (key, is_sent) in [("k", true), ("ok|#|k", true), ("no|#|k", false)] {
        assert_eq!(!sent(route, key).is_empty(), is_sent, "{key}");
    }
}
