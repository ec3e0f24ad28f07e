use super::*;

const SPLIT: &str =
    r#"{"type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 4, "batch_size": 2}"#;
const BIG: u64 = 0x8000;

fn found(router: &mut Router, flags: u64, value: &str) {
    let item = Some(Item { flags, value: value.as_bytes() });
    router.answer("a", &Answer { item, number: 7, ..Answer::of(Outcome::Found) });
}

fn set<'a>(op: Op, value: &'a [u8]) -> Request<'a> {
    Request { flags: 3, exptime: 60, number: 5, value, ..Request::classic(op, b"k") }
}

/// The hash that keys of pieces end with.
fn hash(value: &str) -> u32 {
    crate::hash::spooky::hash32(value.as_bytes(), 0)
}

#[test]
fn a_long_value_is_stored_in_pieces_and_then_the_item() {
    let value = "abcdefghi";
    let hash = hash(value);
    for op in [Op::Set, Op::Add, Op::Replace, Op::Cas, Op::LeaseSet] {
        let mut router = Router::new(SPLIT);
        let ticket = router.start(&set(op, value.as_bytes()));
        assert_eq!(
            router.sent(),
            [format!("a set k:0:{hash} t60 =abcd"), format!("a set k:1:{hash} t60 =efgh")]
        );
        router.reply("a", Outcome::Stored);
        assert!(router.sent().is_empty());
        router.reply("a", Outcome::Stored);
        assert_eq!(router.sent(), [format!("a set k:2:{hash} t60 =i")]);
        router.reply("a", Outcome::Stored);
        let flags = BIG | 3;
        assert_eq!(router.sent(), [format!("a {} k t60 f{flags} #5 =1-3-{hash}", op.name())]);
        assert_eq!(router.outcome(ticket), None);
        router.reply("a", Outcome::Exists);
        assert_eq!(router.outcome(ticket), Some(Outcome::Exists));
        router.end();
    }
}

#[test]
fn a_piece_that_is_not_stored_fails_the_whole() {
    for outcomes in [[Outcome::Stored, Outcome::Timeout], [Outcome::RemoteError, Outcome::Timeout]] {
        let mut router = Router::new(SPLIT);
        let ticket = router.start(&set(Op::Set, b"abcdefghi"));
        router.reply("a", outcomes[0]);
        assert_eq!(router.outcome(ticket), None, "others are waited for");
        router.reply("a", outcomes[1]);
        let worst = if outcomes[0] == Outcome::Stored { Outcome::Timeout } else { Outcome::RemoteError };
        assert_eq!(router.outcome(ticket), Some(worst));
        assert_eq!(router.sent().len(), 2, "no other pieces, and not the item");
        router.end();
    }
    let mut router = Router::new(SPLIT);
    router.refuse("a", Outcome::Tko);
    let ticket = router.start(&set(Op::Set, b"abcdefghi"));
    assert_eq!(router.outcome(ticket), Some(Outcome::Tko));
    router.end();
}

#[test]
fn pieces_are_joined_whatever_their_order() {
    for op in [Op::Get, Op::Gets, Op::Gat, Op::LeaseGet] {
        let mut router = Router::new(SPLIT);
        let ticket = router.request(op, "k");
        router.sent();
        found(&mut router, BIG | 3, "1-3-99");
        assert_eq!(router.sent(), ["a get k:0:99", "a get k:1:99"]);
        // The second is answered first.
        let second = router.script.open.remove(1);
        let item = Some(Item { flags: 0, value: b"two," });
        router.walks.answer(second.1, &Answer { item, ..Answer::of(Outcome::Found) }, &mut router.script);
        found(&mut router, 0, "one,");
        assert_eq!(router.sent(), ["a get k:2:99"]);
        found(&mut router, 0, "three");
        let received = &router.script.answers[&ticket];
        assert_eq!((received.value.as_deref(), received.number), (Some("one,two,three"), 7));
        router.end();
    }
}

#[test]
fn short_values_and_other_requests_pass() {
    let mut router = Router::new(SPLIT);
    let ticket = router.get("k");
    found(&mut router, 3, "1-3-99");
    assert_eq!(router.value(ticket).as_deref(), Some("1-3-99"));
    router.start(&set(Op::Set, b"abcd"));
    router.reply("a", Outcome::Stored);
    router.start(&set(Op::Append, b"abcdefghi"));
    router.reply("a", Outcome::Stored);
    router.start(&Request { dialect: Dialect::Meta, meta: b"b", ..set(Op::Set, b"abcdefghi") });
    router.reply("a", Outcome::Found);
    let long = "k".repeat(230);
    router.start(&Request { key: long.as_bytes(), ..set(Op::Set, b"abcdefghi") });
    router.reply("a", Outcome::Stored);
    assert_eq!(router.sent().len(), 5);
    for op in [Op::Delete, Op::Touch, Op::Incr] {
        router.request(op, "k");
        router.reply("a", Outcome::NotFound);
    }
    assert_eq!(router.sent(), ["a delete k", "a touch k", "a incr k"]);
    router.end();
}

#[test]
fn meta_commands_split_and_join() {
    let mut router = Router::new(SPLIT);
    let value = "abcdefghi";
    let hash = hash(value);
    let it = Request { flags: 0, number: 0, ..set(Op::Add, value.as_bytes()) };
    let ticket = router.start(&Request { dialect: Dialect::Meta, meta: b"c F3 ME T60", ..it });
    (0..3).for_each(|_| router.reply("a", Outcome::Stored));
    assert_eq!(
        router.sent()[2..],
        [
            format!("a set k:2:{hash} t60 =i"),
            format!("a meta add k [c ME T60 F32771] t60 f32768 =1-3-{hash}")
        ]
    );
    router.answer("a", &Answer { line: b"HD c7", ..Answer::of(Outcome::Found) });
    assert_eq!(router.outcome(ticket), Some(Outcome::Found));
    for (flags, sent, line, received) in [
        ("v f", "v f", "VA 6 f32773", "VA 9 f32773"),
        ("v s c", "v s c f", "VA 6 s6 c7 f32773", "VA 9 s9 c7"),
    ] {
        let it = Request::classic(Op::Get, b"k");
        let ticket = router.start(&Request { dialect: Dialect::Meta, meta: flags.as_bytes(), ..it });
        assert_eq!(router.sent(), [format!("a meta get k [{sent}]")]);
        let item = Some(Item { flags: 0x8005, value: b"1-2-99" });
        router.answer(
            "a",
            &Answer { item, line: line.as_bytes(), block: b"1-2-99", ..Answer::of(Outcome::Found) },
        );
        assert_eq!(router.sent(), ["a get k:0:99", "a get k:1:99"]);
        found(&mut router, 0, "one,");
        found(&mut router, 0, "three");
        assert_eq!(router.script.answers[&ticket].line, received);
        assert_eq!(router.value(ticket).as_deref(), Some("one,three"));
    }
    // The flags that were asked for to see whether it is split are not told.
    let it = Request::classic(Op::Get, b"k");
    let ticket = router.start(&Request { dialect: Dialect::Meta, meta: b"v", ..it });
    let item = Some(Item { flags: 5, value: b"short" });
    router.answer("a", &Answer { item, line: b"VA 5 f5", block: b"short", ..Answer::of(Outcome::Found) });
    assert_eq!(router.script.answers[&ticket].line, "VA 5");
    assert_eq!(router.value(ticket).as_deref(), Some("short"));
    let ticket = router.start(&Request { dialect: Dialect::Meta, meta: b"v", ..it });
    router.answer("a", &Answer { line: b"EN", ..Answer::of(Outcome::NotFound) });
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    router.end();
}

#[test]
fn what_is_wrong_or_missing_is_a_miss() {
    for wrong in ["1-3", "2-3-99", "", "1-3-99x"] {
        let mut router = Router::new(SPLIT);
        let ticket = router.get("k");
        found(&mut router, BIG, wrong);
        assert_eq!((router.outcome(ticket), router.value(ticket)), (Some(Outcome::NotFound), None));
        let ticket = router.request(Op::LeaseGet, "k");
        found(&mut router, BIG, wrong);
        assert_eq!(router.script.answers[&ticket].number, u64::MAX);
        router.end();
    }
    for (outcome, received) in [(Outcome::NotFound, Outcome::NotFound), (Outcome::Timeout, Outcome::Timeout)]
    {
        let mut router = Router::new(SPLIT);
        let ticket = router.get("k");
        found(&mut router, BIG, "1-4-99");
        found(&mut router, 0, "one,");
        router.reply("a", outcome);
        assert_eq!(router.outcome(ticket), Some(received));
        router.end();
    }
    // A value of this many pieces is invalid.
    let mut router = Router::new(SPLIT);
    let ticket = router.get("k");
    found(&mut router, BIG, "1-4000000000-1");
    assert_eq!(router.outcome(ticket), Some(Outcome::LocalError));
    router.end();
}

#[test]
fn a_lease_is_given_when_a_piece_is_gone() {
    let mut router = Router::new(SPLIT);
    let ticket = router.request(Op::LeaseGet, "k");
    found(&mut router, BIG, "1-1-99");
    router.reply("a", Outcome::NotFound);
    router.sent();
    found(&mut router, BIG, "1-1-99");
    assert_eq!(router.sent(), ["a cas k t-1 #7"]);
    router.reply("a", Outcome::Stored);
    assert_eq!(router.sent(), ["a lease-get k"]);
    router.answer("a", &Answer { number: 40, ..Answer::of(Outcome::NotFound) });
    assert_eq!(
        (router.outcome(ticket), router.script.answers[&ticket].number),
        (Some(Outcome::NotFound), 40)
    );
    router.end();
    // Another client has stored it in between.
    let mut router = Router::new(SPLIT);
    let ticket = router.request(Op::LeaseGet, "k");
    found(&mut router, BIG, "1-2-99");
    found(&mut router, 0, "old,");
    router.reply("a", Outcome::NotFound);
    found(&mut router, BIG, "1-1-5");
    found(&mut router, BIG, "1-1-5");
    found(&mut router, 0, "new");
    assert_eq!(router.value(ticket).as_deref(), Some("new"), "nothing of the old one is left");
    router.end();
    // It is not asked for ever.
    let mut router = Router::new(SPLIT);
    let ticket = router.request(Op::LeaseGet, "k");
    for _ in 0..2 {
        found(&mut router, BIG, "1-1-99");
        router.reply("a", Outcome::NotFound);
        router.reply("a", Outcome::NotFound);
    }
    assert_eq!(router.outcome(ticket), Some(Outcome::RemoteError));
    router.end();
}

#[test]
fn a_stale_item_is_not_the_clients_value() {
    for (outcome, received, token) in
        [(Outcome::NotFound, Outcome::NotFound, 7), (Outcome::FoundStale, Outcome::NotFoundHot, 0)]
    {
        let mut router = Router::new(SPLIT);
        let ticket = router.request(Op::LeaseGet, "k");
        let item = Some(Item { flags: BIG, value: b"1-3-99" });
        router.answer("a", &Answer { item, number: 7, ..Answer::of(outcome) });
        assert_eq!((router.outcome(ticket), router.value(ticket)), (Some(received), None));
        assert_eq!(router.script.answers[&ticket].number, token);
        router.end();
    }
}

#[test]
fn the_flag_can_be_hidden_and_all_pieces_asked_for_at_once() {
    let mut router = Router::new(
        r#"{"type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 4, "batch_size": 0, "hide_reply_flag": true}"#,
    );
    router.script.shows_flags = true;
    let ticket = router.get("k");
    router.sent();
    found(&mut router, BIG | 3, "1-40-99");
    assert_eq!(router.sent().len(), 40);
    (0..40).for_each(|_| found(&mut router, 9, "x"));
    assert_eq!(router.value(ticket), Some(format!("3 {}", "x".repeat(40))));
    router.end();
}

#[test]
fn settings_are_checked() {
    for (wrong, error) in [
        (r#""batch_size": 1"#, "'split_threshold' is missing"),
        (r#""split_threshold": 0"#, "'split_threshold' is 0, 1 to 4294967295 expected"),
        (r#""split_threshold": 5, "batch_size": -1"#, "'batch_size' is -1"),
    ] {
        let message = refusal(&format!(r#"{{"type": "BigValueRoute", "target": "NullRoute", {wrong}}}"#));
        assert!(message.contains(error), "{message}");
    }
}

#[test]
fn routes_are_wrapped_if_the_router_is_told_to() {
    let text = config("\"PoolRoute|A\"");
    let loaded = load("test", &text, &NoFiles, &Globals::new()).unwrap();
    let threshold = std::num::NonZeroU32::new(4).unwrap();
    let values = crate::BigValues { threshold, batch: None, flag: crate::BigFlag::Shown };
    let settings = Settings { big_values: Some(values), ..settings() };
    let built = build(&loaded.json, &NoFiles, &settings, &mut Destinations::default()).unwrap();
    let lines = built.tree.explain(Op::Get, b"k", Facts::default());
    assert_eq!(lines[0].handle, "BigValueRoute");
    assert_eq!(lines[1].handle, "PoolRoute");
}

#[test]
fn there_is_a_limit_to_what_is_kept() {
    let mut router = Router::new(
        r#"{"type": "BigValueRoute", "target": "PoolRoute|A", "split_threshold": 1048576, "batch_size": 1}"#,
    );
    let value = vec![b'x'; 32 << 20];
    let tickets: Vec<u32> = (0..9).map(|_| router.start(&set(Op::Set, &value))).collect();
    assert_eq!(router.outcome(tickets[7]), None);
    assert_eq!(router.outcome(tickets[8]), Some(Outcome::Busy));
    for _ in 0..8 {
        router.reply("a", Outcome::Timeout);
    }
    let ticket = router.start(&set(Op::Set, &value));
    router.reply("a", Outcome::Timeout);
    assert_eq!(router.outcome(ticket), Some(Outcome::Timeout), "there is room again");
    router.end();
}
