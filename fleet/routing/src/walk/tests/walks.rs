use super::*;

#[test]
fn routing_prefixes_choose_a_route_and_are_taken_off() {
    let config = format!(
        r#"{{"pools": {{{}}}, "routes": [
            {{"aliases": ["/here/own/"], "route": "PoolRoute|A"}},
            {{"aliases": ["/here/b/"], "route": "PoolRoute|B"}},
            {{"aliases": ["/there/c/"], "route": "PoolRoute|C"}}]}}"#,
        pools()
    );
    let mut router = Router::of(&config);
    for (key, sent) in [
        ("k", vec!["a get k"]),
        ("/here/b/k", vec!["b get k"]),
        ("/there/c/k", vec!["c get k"]),
        ("/*/*/k", vec!["b get k", "c get k", "a get k"]),
        ("/here/*/k", vec!["b get k", "a get k"]),
    ] {
        let ticket = router.get(key);
        let all = router.sent();
        assert_eq!(all, sent);
        for one in all {
            router.reply(&one[..1], if one.starts_with('a') { Outcome::Found } else { Outcome::NotFound });
        }
        let own = if key.starts_with("/here/b") || key.starts_with("/there") {
            Outcome::NotFound
        } else {
            Outcome::Found
        };
        assert_eq!(router.outcome(ticket), Some(own), "{key}");
    }
    let ticket = router.get("/nowhere/x/k");
    assert_eq!(router.outcome(ticket), Some(Outcome::LocalError));
    for empty in ["/here/own/", "/*/*/"] {
        let ticket = router.get(empty);
        assert_eq!(router.outcome(ticket), Some(Outcome::ClientError), "{empty}");
    }
    assert!(router.sent().is_empty());
    router.end();
}

/// The servers that a request is sent to, by the letters of their names in order.
fn servers_of(router: &mut Router, op: Op, key: &str) -> String {
    router.request(op, key);
    let mut servers: Vec<_> = router.sent().iter().map(|sent| sent[..1].to_owned()).collect();
    servers.iter().for_each(|server| router.reply(server, Outcome::NotFound));
    servers.sort();
    servers.concat()
}

#[test]
fn an_asterisk_is_a_part_of_a_region_or_a_cluster() {
    let config = format!(
        r#"{{"pools": {{{}}}, "routes": [
            {{"aliases": ["/here/own/", "/there/again/"], "route": "PoolRoute|A"}},
            {{"aliases": ["/here/b/"], "route": "PoolRoute|B"}},
            {{"aliases": ["/there/own/"], "route": "PoolRoute|C"}},
            {{"aliases": ["/there/b/"], "route": "PoolRoute|D"}},
            {{"aliases": ["/her/e/"], "route": "PoolRoute|E"}}]}}"#,
        pools()
    );
    let mut router = Router::of(&config);
    for op in [Op::Get, Op::Set, Op::Delete, Op::Incr] {
        for (key, servers) in [
            ("/he*/*/k", "abe"),
            ("/*ere/*/k", "abcd"),
            ("/*/*w*/k", "ac"),
            ("/*er*/b/k", "bd"),
            ("/t*/a*/k", "a"),
            ("/*/*/k", "abcde"),
            ("/there/*/k", "acd"),
            ("/*/b/k", "bd"),
            ("/x*/*/k", ""),
            ("/nowhere/*/k", ""),
        ] {
            assert_eq!(servers_of(&mut router, op, key), servers, "{op:?} {key}");
        }
    }
    // The nearest answers.
    let ticket = router.get("/*/*/k");
    router.reply("b", Outcome::NotFound);
    assert_eq!(router.outcome(ticket), None);
    router.reply("a", Outcome::Found);
    assert_eq!(router.outcome(ticket), Some(Outcome::Found));
    ["c", "d", "e"].iter().for_each(|server| router.reply(server, Outcome::NotFound));
    router.end();
}

#[test]
fn unknown_clusters_of_a_region_have_a_fallback() {
    let config = format!(
        r#"{{"pools": {{{}}}, "routes": {{"/here/own/": "PoolRoute|A", "/here/fallback/": "PoolRoute|B", "/there/c/": "PoolRoute|C"}}}}"#,
        pools()
    );
    let to_default = Settings { unknown_prefix: crate::Unknown::ToDefault, ..settings() };
    for (settings, unknown) in [(settings(), ""), (to_default, "a")] {
        let mut router = Router::with(&config, &settings);
        for (key, servers) in [
            ("/here/x/k", "b"),
            ("/here/own/k", "a"),
            ("/there/x/k", unknown),
            ("/here/x*/k", unknown),
            ("//x/k", unknown),
            ("/here/*/k", "ab"),
        ] {
            assert_eq!(servers_of(&mut router, Op::Get, key), servers, "{key}");
        }
        router.end();
    }
    let part_of_key = Settings { unknown_prefix: crate::Unknown::PartOfKey, ..settings() };
    let mut router = Router::with(&config, &part_of_key);
    for key in ["/there/c/k", "/here/*/k", "/there/x/k", "k"] {
        assert_eq!(servers_of(&mut router, Op::Get, key), "a", "{key}");
    }
    router.end();
}

#[test]
fn a_delete_to_several_clusters_is_answered_by_the_worst_of_all_and_other_requests_by_the_nearest() {
    let config = format!(
        r#"{{"pools": {{{}}}, "routes": {{"/here/own/": "PoolRoute|A", "/here/b/": "PoolRoute|B", "/there/c/": "PoolRoute|C"}}}}"#,
        pools()
    );
    use Outcome::{Busy, Deleted, NotFound, Stored, Timeout};
    for (replies, received) in [
        ([Deleted, Deleted, Deleted], Deleted),
        ([Deleted, NotFound, Deleted], NotFound),
        ([Deleted, Deleted, Timeout], Timeout),
        ([Timeout, Deleted, Deleted], Timeout),
        ([NotFound, Busy, NotFound], Busy),
    ] {
        for dialect in [Dialect::Classic, Dialect::Meta] {
            for order in orders(&[0, 1, 2]) {
                let mut router = Router::of(&config);
                let ticket = router.start(&Request { dialect, ..Request::classic(Op::Delete, b"/*/*/k") });
                for (place, number) in order.iter().enumerate() {
                    router.reply(["a", "b", "c"][*number], replies[*number]);
                    assert_eq!(
                        router.outcome(ticket),
                        (place == 2).then_some(received),
                        "{replies:?} {order:?}"
                    );
                }
                router.end();
            }
        }
    }
    // A cluster that refuses the delete at once fails it, too.
    let mut router = Router::of(&config);
    router.refuse("c", Busy);
    let ticket = router.request(Op::Delete, "/*/*/k");
    router.reply("a", Deleted);
    router.reply("b", Deleted);
    assert_eq!(router.outcome(ticket), Some(Busy));
    let ticket = router.request(Op::Set, "/*/*/k");
    router.reply("a", Stored);
    assert_eq!(router.outcome(ticket), Some(Stored));
    router.reply("b", Timeout);
    router.end();
}

#[test]
fn requests_under_way_stay_in_their_tree() {
    let failover = |one: &str, other: &str| {
        config(&format!(
            r#"{{"type": "FailoverRoute", "children": ["PoolRoute|{one}", "PoolRoute|{other}"]}}"#
        ))
    };
    let mut router = Router::of(&failover("A", "B"));
    let old = router.get("k");
    let mut destinations = Destinations::default();
    let new = load("test", &failover("B", "A"), &NoFiles, &Globals::new()).unwrap();
    for name in ["a", "b"] {
        // Numbers stay the same.
        let known = config(&format!("\"PoolRoute|{}\"", name.to_ascii_uppercase()));
        let known = load("test", &known, &NoFiles, &Globals::new()).unwrap();
        build(&known.json, &NoFiles, &settings(), &mut destinations).unwrap();
    }
    let built = build(&new.json, &NoFiles, &settings(), &mut destinations).unwrap();
    assert!(router.walks.replace(built.tree).is_none(), "a request is in it");
    assert!(router.walks.has_requests(1));
    let next = build(&new.json, &NoFiles, &settings(), &mut destinations).unwrap();
    assert!(router.walks.replace(next.tree).is_some(), "none is in the second");
    assert!(router.walks.has_requests(2) && !router.walks.has_requests(1));
    let young = router.get("k");
    assert_eq!(router.sent(), ["a get k", "b get k"]);
    router.reply("a", Outcome::Timeout);
    router.reply("b", Outcome::Timeout);
    assert_eq!(router.sent(), ["b get k", "a get k"]);
    router.reply("a", Outcome::NotFound);
    assert_eq!((router.outcome(old), router.outcome(young)), (None, Some(Outcome::NotFound)));
    router.reply("b", Outcome::Found);
    assert_eq!(router.outcome(old), Some(Outcome::Found));
    assert!(!router.walks.has_requests(2));
    router.end();
}

#[test]
fn a_request_is_kept_whole_until_the_next_child_is_asked() {
    let mut router = Router::new(r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#);
    let value = vec![b'x'; 10_000];
    let request = Request {
        flags: 3,
        exptime: 60,
        number: 9,
        value: &value,
        meta: b"T",
        ..Request::classic(Op::Cas, b"k")
    };
    router.start(&request);
    router.reply("a", Outcome::Timeout);
    let sent = router.sent();
    assert_eq!(sent[0][1..], sent[1][1..]);
    assert_eq!(sent[1], format!("b {}", text(&request)));
    router.reply("b", Outcome::Stored);
    router.end();
}

#[test]
fn packets_are_marked_as_pools_say() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"], "qos": {"class": 4, "path": 3}},
        "C": {"servers": ["c:1"], "qos": {"path": 1}}},
        "route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]}}"#;
    let loaded = load("test", text, &NoFiles, &Globals::new()).unwrap();
    let services = |qos| {
        let mut destinations = Destinations::default();
        let settings = Settings { qos, ..settings() };
        build(&loaded.json, &NoFiles, &settings, &mut destinations).unwrap();
        destinations.specs().iter().map(|spec| spec.service).collect::<Vec<_>>()
    };
    assert_eq!(services(None), [0, 0, 0]);
    assert_eq!(services(Some(crate::DefaultQos { class: 1, path: 2 })), [0x28, 0x8c, 0x24]);
}
