use super::*;

#[test]
fn rates_are_tokens_a_second() {
    let mut router = Router::new(
        r#"{"type": "PoolRoute", "pool": "A", "rates": {"gets_rate": 10, "gets_burst": 4, "deletes_rate": 1}}"#,
    );
    router.refuse("a", Outcome::Found);
    let mut pass = |now_ms: u64, op: Op| {
        router.facts.now_ms = now_ms;
        let ticket = router.request(op, "k");
        router.outcome(ticket) == Some(Outcome::Found)
    };
    // It begins empty.
    assert!(!pass(1_000, Op::Get));
    assert!(!pass(1_099, Op::Get));
    assert!(pass(1_100, Op::Get));
    assert!(!pass(1_100, Op::Get));
    let passed = (0..20).filter(|_| pass(9_000, Op::Get)).count();
    assert_eq!(passed, 4);
    // Time that goes back does no harm.
    assert!(!pass(8_000, Op::Get));
    assert!(!pass(9_000, Op::Delete));
    assert!(pass(10_000, Op::Delete));
    assert!(pass(10_000, Op::Set) && pass(10_000, Op::Incr));
    refusal(r#"{"type": "RateLimitRoute", "target": "NullRoute", "rates": {"gets_rate": 0}}"#);
}

#[test]
fn rates_count_from_the_configuration_on() {
    let route =
        r#"{"type": "PoolRoute", "pool": "A", "rates": {"sets_rate": 10, "gets_rate": 10, "gets_burst": 2}}"#;
    let mut router = Router::new(route);
    router.refuse("a", Outcome::Found);
    router.walks.tree().begin(5_000);
    router.facts.now_ms = 8_000;
    for (op, expected) in [(Op::Set, 10), (Op::Get, 2)] {
        let tickets: Vec<_> = (0..12).map(|_| router.request(op, "k")).collect();
        let passed = tickets.iter().filter(|ticket| router.outcome(**ticket) == Some(Outcome::Found)).count();
        assert_eq!(passed, expected, "{op:?}");
    }
    router.end();
}

#[test]
fn no_more_requests_are_under_way_than_allowed() {
    let mut router = Router::new(r#"{"type": "PoolRoute", "pool": "A", "max_outstanding": 2}"#);
    let tickets: Vec<_> = (0..3).map(|_| router.get("k")).collect();
    assert_eq!(router.outcome(tickets[2]), Some(Outcome::Busy));
    router.reply("a", Outcome::Timeout);
    let next = router.get("k");
    assert_eq!(router.outcome(next), None);
    router.reply("a", Outcome::Found);
    router.reply("a", Outcome::Found);
    // A refused request is not in flight.
    router.refuse("a", Outcome::Tko);
    for _ in 0..5 {
        let ticket = router.get("k");
        assert_eq!(router.outcome(ticket), Some(Outcome::Tko));
    }
    router.end();
}

#[test]
fn a_cold_server_gets_a_part_of_the_gets() {
    let mut router = Router::new(
        r#"{"type": "PoolRoute", "pool": "A", "slow_warmup": {"failoverTarget": "PoolRoute|B", "settings":
            {"enable_threshold": 0.5, "disable_threshold": 0.8, "start": 0.2, "step": 0.5, "min_requests": 10}}}"#,
    );
    let mut share = |outcome: Outcome, requests: usize| {
        let mut sent_to_a = 0;
        for _ in 0..requests {
            router.get("k");
            let is_a = router.sent()[0].starts_with('a');
            sent_to_a += usize::from(is_a);
            router.reply(if is_a { "a" } else { "b" }, outcome);
        }
        sent_to_a
    };
    assert_eq!(share(Outcome::NotFound, 10), 10, "too few requests to tell");
    let cold = share(Outcome::NotFound, 1000);
    assert!((150..260).contains(&cold), "{cold}");
    share(Outcome::Found, 20_000);
    assert_eq!(share(Outcome::Found, 100), 100);
    router.request(Op::Set, "k");
    router.reply("a", Outcome::Stored);
    router.end();
}

fn shadowed(shadow: &str, keys: usize) -> (usize, usize) {
    let mut router = Router::new(&format!(
        r#"{{"type": "PoolRoute", "pool": "P", "shadows": [{{"target": "PoolRoute|B", {shadow}}}]}}"#
    ));
    let (mut shadows, mut in_range) = (0, 0);
    for number in 0..keys {
        let ticket = router.get(&format!("key{number}"));
        let sent = router.sent();
        let normal = sent.iter().find(|sent| !sent.starts_with('b')).unwrap()[..2].to_owned();
        shadows += sent.len() - 1;
        in_range += usize::from(normal == "p0" || normal == "p1");
        router.reply(&normal, Outcome::NotFound);
        assert_eq!(router.outcome(ticket), Some(Outcome::NotFound), "shadows are not waited for");
    }
    while !router.script.open.is_empty() {
        router.reply("b", Outcome::Timeout);
    }
    router.end();
    (shadows, in_range)
}

/// How many warnings there are with these shadows, and which shadows a get has.
fn with_shadows(shadows: &str) -> (usize, Vec<String>) {
    let route = format!(r#"{{"type": "PoolRoute", "pool": "A", "shadows": {shadows}}}"#);
    let mut router = Router::new(&route);
    router.get("k");
    let sent: Vec<_> = router.sent().iter().map(|sent| sent[..1].to_owned()).collect();
    sent.iter().for_each(|server| router.reply(server, Outcome::NotFound));
    router.end();
    (warnings(&route).len(), sent.into_iter().filter(|server| server != "a").collect())
}

#[test]
fn shadows_get_a_part_of_the_requests() {
    let (shadows, in_range) = shadowed(r#""index_range": [0, 2], "key_fraction_range": [0, 1]"#, 400);
    assert!(in_range > 40);
    assert_eq!(shadows, in_range);
    let (half, in_range) = shadowed(r#""index_range": [0, 2], "key_fraction_range": [0.25, 0.75]"#, 2000);
    assert!((in_range * 4 / 10..in_range * 6 / 10).contains(&half), "{half} of {in_range}");
    let (share, _) =
        shadowed(r#""index_range": [0, 8], "key_fraction_range": [0, 1], "requests_fraction": 0.25"#, 2000);
    assert!((400..600).contains(&share), "{share}");
    for nothing in
        [r#""index_range": [0, 8]"#, r#""key_fraction_range": [0, 1]"#, r#""requests_fraction": 1"#]
    {
        assert_eq!(shadowed(nothing, 100).0, 0, "{nothing}");
    }
    for wrong in [
        r#""index_range": [1, 0]"#,
        r#""key_fraction_range": [0, 2]"#,
        r#""key_fraction_range": [1]"#,
        r#""keys_to_shadow": ["k"], "index_range": [0, 1]"#,
    ] {
        // It is left out; the others stay.
        let good = r#"{"target": "PoolRoute|B", "index_range": [0, 8], "key_fraction_range": [0, 1]}"#;
        let wrong = format!(r#"{{"target": "PoolRoute|C", {wrong}}}"#);
        let shadows = format!("[{wrong}, {good}]");
        assert_eq!(with_shadows(&shadows), (1, vec!["b".to_owned()]), "{wrong}");
        let route = format!(r#"{{"type": "PoolRoute", "pool": "A", "shadows": {shadows}}}"#);
        let (_, servers, _) = built(&config(&route)).unwrap();
        assert!(!servers.contains(&"c".to_owned()), "{servers:?}");
    }
    let unknown = r#"[{"target": "Nothing", "index_range": [0, 8], "key_fraction_range": [0, 1]}, 1, {}]"#;
    assert_eq!(with_shadows(unknown), (3, vec![]));
    assert_eq!(with_shadows("{}"), (1, vec![]));
    // A shadow that refuses is no trouble.
    let mut router = Router::new(
        r#"{"type": "PoolRoute", "pool": "A", "shadows": [{"target": "PoolRoute|B", "keys_to_shadow": ["k"]}]}"#,
    );
    router.refuse("b", Outcome::Tko);
    for key in ["k", "l"] {
        router.get(key);
        router.reply("a", Outcome::Found);
    }
    assert_eq!(router.sent(), ["b get k", "a get k", "a get l"]);
    router.end();
}
