use super::*;

const SPLIT: u64 = 0x20;

fn router(members: &str) -> Router {
    Router::new(&format!(
        r#"{{"type": "L1L2SizeSplitRoute", "l1": "PoolRoute|A", "l2": "PoolRoute|B", "threshold": 5{members}}}"#
    ))
}

fn found(router: &mut Router, server: &str, flags: u64, value: &str) {
    let item = Some(Item { flags, value: value.as_bytes() });
    router.answer(server, &Answer { item, number: 7, ..Answer::of(Outcome::Found) });
}

fn request<'a>(op: Op, value: &'a [u8]) -> Request<'a> {
    Request { flags: 3, exptime: 90, value, ..Request::classic(op, b"k") }
}

#[test]
fn long_values_are_stored_in_the_second_cache_and_named_in_the_first() {
    let mut router = router("");
    let ticket = router.start(&request(Op::Set, b"12345"));
    assert_eq!(router.sent(), ["b set k t90 f3 =12345"]);
    router.reply("b", Outcome::Stored);
    assert_eq!(router.sent(), [format!("a set k t90 f{}", SPLIT | 3)]);
    router.reply("a", Outcome::Stored);
    assert_eq!(router.outcome(ticket), Some(Outcome::Stored));
    let failed = router.start(&request(Op::Set, b"12345"));
    router.reply("b", Outcome::Timeout);
    assert_eq!(router.outcome(failed), Some(Outcome::Timeout));
    router.sent();
    router.start(&request(Op::Set, b"1234"));
    router.reply("a", Outcome::Stored);
    for op in [Op::Add, Op::Cas, Op::Append, Op::Delete, Op::Incr] {
        router.start(&request(op, b"12345"));
        router.reply("a", Outcome::NotFound);
    }
    assert!(router.sent().iter().all(|sent| sent.starts_with("a ")));
    router.end();
}

#[test]
fn values_that_expire_soon_or_have_long_keys_stay_in_the_first_cache() {
    let mut split = router(r#", "ttl_threshold": 100"#);
    split.start(&request(Op::Set, b"12345"));
    split.reply("a", Outcome::Stored);
    split.start(&Request { exptime: 100, ..request(Op::Set, b"12345") });
    split.reply("b", Outcome::Stored);
    split.reply("a", Outcome::Stored);
    split.end();
    let mut split = router("");
    let key = "k".repeat(227);
    split.start(&Request { key: key.as_bytes(), ..request(Op::Set, b"12345") });
    split.reply("a", Outcome::Stored);
    split.end();
}

#[test]
fn both_caches_can_have_a_long_value() {
    for op in [Op::Set, Op::LeaseSet] {
        let mut router = router(r#", "both_full_set": true"#);
        let ticket = router.start(&Request { number: 9, ..request(op, b"12345") });
        let expected =
            if op == Op::Set { "a set k t90 f3 #9 =12345" } else { "a lease-set k t90 f3 #9 =12345" };
        assert_eq!(router.sent(), [expected]);
        router.reply("a", Outcome::Stored);
        assert_eq!(router.outcome(ticket), Some(Outcome::Stored));
        assert_eq!(router.sent(), ["b set k t90 f3 =12345"]);
        router.reply("b", Outcome::Timeout);
        router.start(&Request { number: 9, ..request(op, b"12345") });
        router.reply("a", Outcome::NotStored);
        assert_eq!(router.sent().len(), 1);
        router.end();
    }
}

#[test]
fn a_lease_names_a_key_of_its_own() {
    let mut router = router(r#", "failure_ttl": 20"#);
    let it = Request { number: 9, ..request(Op::LeaseSet, b"12345") };
    let ticket = router.start(&it);
    let sent = router.sent();
    let number = sent[0].strip_prefix("b set k|==|").unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(sent, [format!("b set k|==|{number} t90 f3 =12345")]);
    router.reply("b", Outcome::Stored);
    assert_eq!(router.sent(), [format!("a lease-set k t90 f35 #9 ={number}")]);
    router.reply("a", Outcome::StaleStored);
    assert_eq!(router.outcome(ticket), Some(Outcome::StaleStored));
    // If the second cache fails, the first has it for a while.
    for (exptime, kept) in [(90, 20), (0, 20), (7, 7)] {
        router.start(&Request { exptime, ..it });
        router.sent();
        router.reply("b", Outcome::Tko);
        assert_eq!(router.sent(), [format!("a lease-set k t{kept} f3 #9 =12345")]);
        router.reply("a", Outcome::Stored);
    }
    router.end();
}

#[test]
fn gets_find_values_where_they_are() {
    let mut router = router("");
    for op in [Op::Get, Op::Gets, Op::Gat, Op::Gats, Op::LeaseGet] {
        let ticket = router.request(op, "k");
        found(&mut router, "a", 3, "1234");
        assert_eq!(router.value(ticket).as_deref(), Some("1234"));
        for (says, key) in [("", "k"), ("77", "k|==|77")] {
            let ticket = router.request(op, "k");
            router.sent();
            found(&mut router, "a", SPLIT | 3, says);
            assert_eq!(router.sent(), [format!("b get {key}")]);
            let item = Some(Item { flags: 3, value: b"12345" });
            router.answer("b", &Answer { item, ..Answer::of(Outcome::Found) });
            let number = if matches!(op, Op::Gets | Op::Gats) { 7 } else { 0 };
            let received = &router.script.answers[&ticket];
            assert_eq!((received.value.as_deref(), received.number), (Some("12345"), number), "{op:?}");
        }
    }
    let miss = router.get("k");
    router.reply("a", Outcome::NotFound);
    assert_eq!(router.outcome(miss), Some(Outcome::NotFound));
    router.end();
}

#[test]
fn what_the_second_cache_has_lost_is_taken_out_of_the_first() {
    let mut router = router("");
    for (op, second, received) in [
        (Op::Get, Outcome::NotFound, Outcome::LocalError),
        (Op::Get, Outcome::Timeout, Outcome::Timeout),
        (Op::LeaseGet, Outcome::Tko, Outcome::Tko),
    ] {
        let ticket = router.request(op, "k");
        found(&mut router, "a", SPLIT, "77");
        router.reply("b", second);
        router.sent();
        found(&mut router, "a", SPLIT, "77");
        assert_eq!(router.sent(), ["a cas k t-1 #7"]);
        router.reply("a", Outcome::Stored);
        assert_eq!(router.outcome(ticket), Some(received), "{op:?} {second:?}");
    }
    // The reply for a key that a set has named is that of the second cache.
    let ticket = router.get("k");
    found(&mut router, "a", SPLIT, "");
    router.reply("b", Outcome::NotFound);
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    router.end();
}

#[test]
fn a_lease_is_asked_for_again_and_not_for_ever() {
    let mut split = router("");
    let ticket = split.request(Op::LeaseGet, "k");
    found(&mut split, "a", SPLIT, "77");
    split.reply("b", Outcome::NotFound);
    // Another client has stored it in between.
    found(&mut split, "a", SPLIT, "78");
    split.sent();
    found(&mut split, "a", SPLIT, "78");
    assert_eq!(split.sent(), ["b get k|==|78"]);
    split.hit("b", "new");
    assert_eq!(split.value(ticket).as_deref(), Some("new"));
    let ticket = split.request(Op::LeaseGet, "k");
    for _ in 0..2 {
        found(&mut split, "a", SPLIT, "77");
        split.reply("b", Outcome::NotFound);
        found(&mut split, "a", SPLIT, "77");
        split.reply("a", Outcome::Stored);
    }
    assert_eq!(split.outcome(ticket), Some(Outcome::LocalError));
    let ticket = split.request(Op::LeaseGet, "k");
    let item = Some(Item { flags: SPLIT, value: b"77" });
    split.answer("a", &Answer { item, number: 40, ..Answer::of(Outcome::NotFound) });
    assert_eq!((split.value(ticket), split.script.answers[&ticket].number), (None, 40));
    split.end();
}

#[test]
fn settings_are_checked() {
    for (wrong, error) in [
        (r#", "ttl_threshold": -1"#, "'ttl_threshold' is -1"),
        (r#", "failure_ttl": 0"#, "'failure_ttl' is 0, 1 to 2147483647 expected"),
        (r#", "retries": 11"#, "'retries' is 11, 1 to 10 expected"),
        (r#", "both_full_set": 1"#, "'both_full_set' is an integer, true or false expected"),
    ] {
        let message = refusal(&format!(
            r#"{{"type": "L1L2SizeSplitRoute", "l1": "NullRoute", "l2": "NullRoute", "threshold": 5{wrong}}}"#
        ));
        assert!(message.contains(error), "{message}");
    }
    let message = refusal(r#"{"type": "L1L2SizeSplitRoute", "l1": "NullRoute", "l2": "NullRoute"}"#);
    assert!(message.contains("'threshold' is missing"), "{message}");
}
