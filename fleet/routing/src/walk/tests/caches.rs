use super::*;

#[test]
fn what_the_first_cache_misses_is_copied_from_the_second() {
    let mut router = Router::new(
        r#"{"type": "L1L2CacheRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "upgradingL1Exptime": 9}"#,
    );
    let ticket = router.get("k");
    router.reply("a", Outcome::NotFound);
    router.hit("b", "v");
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    assert_eq!(router.sent(), ["a get k", "b get k", "a add k t9 f7 =v"]);
    router.reply("a", Outcome::Stored);
    let miss = router.get("k");
    router.reply("a", Outcome::NotFound);
    router.reply("b", Outcome::NotFound);
    assert_eq!(router.outcome(miss), Some(Outcome::NotFound));
    router.request(Op::Set, "k");
    router.reply("a", Outcome::Stored);
    assert_eq!(router.sent(), ["a get k", "b get k", "a set k =v"]);
    router.end();
}

#[test]
fn misses_of_the_second_cache_are_kept_in_the_first() {
    let mut router = Router::new(
        r#"{"type": "L1L2CacheRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "upgradingL1Exptime": 9,
            "ncacheExptime": 4, "ncacheUpdatePeriod": 2}"#,
    );
    router.get("k");
    router.reply("a", Outcome::NotFound);
    router.reply("b", Outcome::NotFound);
    assert_eq!(router.sent(), ["a get k", "b get k", "a add k t4 f65536 =ncache"]);
    router.reply("a", Outcome::Stored);
    let negative = |router: &mut Router| {
        let ticket = router.get("k");
        let item = Some(Item { flags: 0x1_0000, value: b"ncache" });
        router.answer("a", &Answer { item, ..Answer::of(Outcome::Found) });
        assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
        assert_eq!(router.value(ticket), None);
    };
    negative(&mut router);
    assert_eq!(router.sent(), ["a get k"]);
    // Every second one has the miss looked at again.
    negative(&mut router);
    router.hit("b", "now");
    assert_eq!(router.sent(), ["a get k", "b get k", "a set k t9 f7 =now"]);
    router.reply("a", Outcome::Stored);
    negative(&mut router);
    negative(&mut router);
    router.sent();
    router.reply("b", Outcome::NotFound);
    assert_eq!(router.sent(), ["a set k t4 f65536 =ncache"]);
    router.reply("a", Outcome::Stored);
    router.end();
}

#[test]
fn staging_fills_a_cluster_that_does_not_serve() {
    let mut router = Router::new(
        r#"{"type": "StagingRoute", "warm": "PoolRoute|A", "staging": "PoolRoute|B", "exptime": 50}"#,
    );
    let ticket = router.get("k");
    router.hit("a", "v");
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    assert_eq!(router.sent(), ["a get k", "b add k t50 f7 =v"]);
    router.reply("b", Outcome::NotStored);
    for (op, outcome, also) in [
        (Op::Get, Outcome::NotFound, None),
        (Op::Set, Outcome::Stored, Some("b set k =v")),
        (Op::Set, Outcome::Timeout, None),
        (Op::Cas, Outcome::Stored, Some("b set k =v")),
        (Op::Cas, Outcome::Exists, None),
        (Op::Touch, Outcome::Touched, Some("b touch k")),
        (Op::Incr, Outcome::Timeout, None),
    ] {
        let ticket = router.request(op, "k");
        router.reply("a", outcome);
        assert_eq!(router.outcome(ticket), Some(outcome));
        assert_eq!(router.sent().get(1).map(String::as_str), also, "{op:?}");
        if also.is_some() {
            router.reply("b", Outcome::Stored);
        }
    }
    for (op, meta, outcome, also) in [
        (Op::Set, "F7 k", Outcome::Found, Some("b meta set k [F7 k] =v")),
        (Op::Set, "F7 k", Outcome::NotStored, None),
        (Op::Cas, "C9 F7", Outcome::Found, Some("b meta set k [F7] =v")),
        (Op::Cas, "F7 C9", Outcome::Exists, None),
        (Op::Get, "v f", Outcome::Found, None),
    ] {
        let value: &[u8] = if op == Op::Get { b"" } else { b"v" };
        let it = Request::classic(op, b"k");
        router.start(&Request { dialect: Dialect::Meta, meta: meta.as_bytes(), value, ..it });
        router.reply("a", outcome);
        assert_eq!(router.sent().get(1).map(String::as_str), also, "{op:?} {meta}");
        if also.is_some() {
            router.reply("b", Outcome::Found);
        }
    }
    for order in orders(&["a", "b"]) {
        let ticket = router.request(Op::Delete, "k");
        for server in order {
            assert_eq!(router.outcome(ticket), None);
            router.reply(server, if server == "a" { Outcome::Deleted } else { Outcome::Timeout });
        }
        assert_eq!(router.outcome(ticket), Some(Outcome::Timeout));
    }
    router.end();
}

#[test]
fn a_cache_of_services_is_refused_with_what_to_take_instead() {
    let message = refusal(
        "{\"type\": \"AllSyncRoute\", \"children\": [\"NullRoute\",\n{\"type\": \"CarbonLookasideRoute\", \"child\": \"PoolRoute|A\", \"ttl\": 5}]}",
    );
    assert!(message.starts_with("test:2: CarbonLookasideRoute is not supported: "), "{message}");
    assert!(message.contains("use L1L2CacheRoute"), "{message}");
}
