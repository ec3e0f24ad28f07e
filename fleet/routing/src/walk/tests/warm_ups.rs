use super::*;
use crate::{WarmUpCount, WarmUps};
use std::cell::RefCell;

const FOR_EVER: &str = "";
const HOLDS_OFF: &str = r#", "enable_metaget": true, "hold_off": "native""#;
const SENTINELS: &str = r#", "enable_metaget": true, "hold_off": "sentinel""#;

/// The flags of an item that stands for none.
const SENTINEL: u64 = 0x7e1c_0f1f;

fn route(more: &str) -> String {
    format!(r#"{{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B"{more}}}"#)
}

/// A cold server `a` and a warm one `b`, with what they have counted.
fn warming(more: &str) -> (Router, Arc<WarmUps>) {
    let settings = settings();
    (Router::with(&config(&route(more)), &settings), settings.warm_ups)
}

fn counts(all: &WarmUps) -> [u64; 5] {
    use WarmUpCount::{Failed, Filled, Hit, Refused, WarmMiss};
    [Hit, Filled, Refused, Failed, WarmMiss].map(|what| all.count(what))
}

fn deletes(all: &WarmUps) -> (u64, u64) {
    (all.count(WarmUpCount::HeldOff), all.count(WarmUpCount::NotHeldOff))
}

/// A server answers a meta command that has found a value.
fn value(router: &mut Router, server: &str, line: &str, flags: u64, value: &str) {
    let item = Some(Item { flags, value: value.as_bytes() });
    let (line, block) = (line.as_bytes(), value.as_bytes());
    router.answer(server, &Answer { item, line, block, ..Answer::of(Outcome::Found) });
}

fn line(router: &mut Router, server: &str, outcome: Outcome, line: &str) {
    router.answer(server, &Answer { line: line.as_bytes(), ..Answer::of(outcome) });
}

fn sentinel(router: &mut Router, server: &str) {
    let item = Some(Item { flags: SENTINEL, value: b"" });
    router.answer(server, &Answer { item, ..Answer::of(Outcome::Found) });
}

fn meta<'a>(op: Op, meta: &'a str) -> Request<'a> {
    Request { dialect: Dialect::Meta, meta: meta.as_bytes(), ..Request::classic(op, b"k") }
}

#[test]
fn a_get_is_answered_once_the_cold_cluster_has_stored_its_item() {
    let (mut router, all) = warming(r#", "exptime": 30"#);
    let ticket = router.get("k");
    router.reply("a", Outcome::NotFound);
    router.hit("b", "v");
    assert_eq!(router.outcome(ticket), None);
    assert_eq!(router.sent(), ["a get k", "b get k", "a add k t30 f7 =v"]);
    router.reply("a", Outcome::Stored);
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    let hit = router.get("k");
    router.hit("a", "cold");
    assert_eq!(router.value(hit).as_deref(), Some("cold"));
    // Neither a miss of the warm cluster nor its failure is more than a miss.
    for outcome in [Outcome::NotFound, Outcome::Timeout, Outcome::Tko] {
        let miss = router.get("k");
        router.reply("a", Outcome::NotFound);
        router.reply("b", outcome);
        assert_eq!(router.outcome(miss), Some(Outcome::NotFound));
    }
    assert_eq!(counts(&all), [1, 1, 0, 0, 1]);
    router.end();
}

#[test]
fn a_copy_lives_as_long_as_its_item() {
    let (mut router, _) = warming(r#", "enable_metaget": true"#);
    router.script.shows_flags = true;
    for (received, exptime) in [("t-1", ""), ("t17", " t17"), ("t0", " t1"), ("t9000000", " t1809000000")] {
        let ticket = router.get("k");
        router.reply("a", Outcome::NotFound);
        value(&mut router, "b", &format!("VA 1 f7 {received}"), 7, "v");
        let add = format!("a add k{exptime} f7 =v");
        assert_eq!(router.sent(), ["a get k", "b meta get k [f t v]", &*add]);
        router.reply("a", Outcome::Stored);
        let received = &router.script.answers[&ticket];
        assert_eq!(
            (received.outcome, received.value.as_deref(), &*received.line),
            (Outcome::Found, Some("7 v"), "")
        );
    }
    router.end();
    // A time that is given goes before it, as in mcrouter.
    let (mut router, _) = warming(r#", "enable_metaget": true, "exptime": 5"#);
    router.get("k");
    router.reply("a", Outcome::NotFound);
    router.hit("b", "v");
    assert_eq!(router.sent(), ["a get k", "b get k", "a add k t5 f7 =v"]);
    router.reply("a", Outcome::Stored);
    router.end();
}

#[test]
fn an_item_of_the_warm_cluster_that_somebody_is_to_fill_is_none() {
    for line in ["VA 0 f0 t8 Z", "VA 0 f0 t8 W", "VA 0 f0 t8 X W", "VA 0 f0"] {
        let (mut router, _) = warming(HOLDS_OFF);
        let ticket = router.get("k");
        router.reply("a", Outcome::NotFound);
        value(&mut router, "b", line, 0, "");
        assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::NotFound), 2), "{line}");
        router.end();
    }
}

#[test]
fn a_refused_add_is_never_answered_with_the_warm_value() {
    for more in [FOR_EVER, HOLDS_OFF, SENTINELS] {
        for (again, expected) in [(Some("newer"), Some("newer")), (None, None)] {
            for op in [Op::Get, Op::Gets, Op::Gat, Op::Gats, Op::LeaseGet] {
                let (mut router, all) = warming(more);
                let ticket = router.request(op, "k");
                router.answer("a", &Answer { number: 123, ..Answer::of(Outcome::NotFound) });
                value(&mut router, "b", "VA 1 f7 t60", 7, "v");
                router.reply("a", Outcome::NotStored);
                assert_eq!(router.outcome(ticket), None);
                match again {
                    Some(value) => router.hit("a", value),
                    None => router.answer("a", &Answer { number: 124, ..Answer::of(Outcome::NotFound) }),
                }
                assert_eq!(router.value(ticket).as_deref(), expected, "{op:?}");
                let sent = router.sent();
                assert_eq!((sent.len(), &sent[3], counts(&all)), (4, &sent[0], [0, 0, 1, 0, 0]));
                router.end();
            }
        }
    }
}

/// All rows of replies to one get: the client receives the warm cluster's value only if the cold
/// one has stored it.
#[test]
fn with_hold_off_the_warm_value_is_told_only_if_it_was_stored() {
    use Outcome::{Found, NotFound, NotFoundHot, NotStored, RemoteError, Stored, Timeout};
    let outcomes = [Found, NotFound, NotFoundHot, NotStored, Stored, Timeout, RemoteError];
    let mut received_warm = 0;
    for more in [HOLDS_OFF, SENTINELS] {
        for op in [Op::Get, Op::Gets, Op::Gat, Op::LeaseGet] {
            for row in rows(&outcomes, 4) {
                let (mut router, _) = warming(more);
                let ticket = router.request(op, "k");
                let mut is_stored = false;
                for outcome in row {
                    let Some((server, _)) = router.script.open.first().cloned() else { break };
                    let is_store = router.script.log.last().is_some_and(|sent| sent.contains(" =warm"));
                    is_stored |= is_store && outcome == Stored;
                    let text = if server == "a" { "cold" } else { "warm" };
                    match outcome {
                        Found => value(&mut router, &server, "VA 4 f7 t60", 7, text),
                        outcome => router.answer(&server, &Answer { number: 5, ..Answer::of(outcome) }),
                    }
                }
                let is_warm = router.value(ticket).as_deref() == Some("warm");
                assert!(!is_warm || is_stored, "{op:?} {:?}", router.script.log);
                received_warm += usize::from(is_warm);
            }
        }
    }
    assert!(received_warm > 0);
}

#[test]
fn an_item_that_comes_when_a_delete_may_hold_off_no_longer_is_not_stored() {
    for (after_ms, is_stored) in [(0, true), (3_333, true), (3_400, false), (60_000, false)] {
        let (mut router, all) = warming(&format!(r#"{HOLDS_OFF}, "hold_off_s": 5"#));
        router.script.now_ms = 1_000;
        router.facts.now_ms = 1_000;
        let ticket = router.get("k");
        router.reply("a", Outcome::NotFound);
        router.script.now_ms += after_ms;
        value(&mut router, "b", "VA 1 f7 t-1", 7, "v");
        let last = router.sent().pop().unwrap();
        assert_eq!(last, if is_stored { "a add k f7 =v" } else { "a get k" }, "{after_ms}");
        router.reply("a", if is_stored { Outcome::Stored } else { Outcome::NotFound });
        assert_eq!(router.outcome(ticket), Some(if is_stored { Outcome::Found } else { Outcome::NotFound }));
        assert_eq!(all.count(WarmUpCount::Refused), u64::from(!is_stored));
        router.end();
    }
}

#[test]
fn an_item_that_comes_late_is_stored_with_a_token_which_a_delete_voids() {
    let (mut router, _) = warming(&format!(r#"{HOLDS_OFF}, "hold_off_s": 5"#));
    let ticket = router.request(Op::LeaseGet, "k");
    router.answer("a", &Answer { number: 77, ..Answer::of(Outcome::NotFound) });
    router.script.now_ms = 60_000;
    value(&mut router, "b", "VA 1 f7 t-1", 7, "v");
    assert_eq!(router.sent().pop().unwrap(), "a lease-set k f7 #77 =v");
    router.reply("a", Outcome::Stored);
    assert_eq!(router.outcome(ticket), Some(Outcome::Found));
    router.end();
}

#[test]
fn what_the_cold_cluster_has_failed_to_store_is_a_miss_under_hold_off() {
    for outcome in [Outcome::Timeout, Outcome::Tko, Outcome::RemoteError, Outcome::Busy] {
        for (op, number) in [(Op::Get, 0), (Op::LeaseGet, 123), (Op::Gets, 123)] {
            let (mut router, all) = warming(HOLDS_OFF);
            let ticket = router.request(op, "k");
            router.answer("a", &Answer { number: 123, ..Answer::of(Outcome::NotFound) });
            value(&mut router, "b", "VA 1 f7 t60", 7, "v");
            router.reply("a", outcome);
            let received = &router.script.answers[&ticket];
            assert_eq!(
                (received.outcome, received.value.as_deref(), received.number),
                (Outcome::NotFound, None, number)
            );
            assert_eq!(counts(&all), [0, 0, 0, 1, 0]);
            router.end();
        }
        // A server that fails to tell what it has is not filled.
        let (mut router, _) = warming(HOLDS_OFF);
        let ticket = router.get("k");
        router.reply("a", outcome);
        assert_eq!((router.outcome(ticket), router.sent().len()), (Some(outcome), 1));
        router.end();
        // Without hold-off, it is as in mcrouter.
        let (mut router, all) = warming(FOR_EVER);
        let ticket = router.get("k");
        router.reply("a", outcome);
        router.hit("b", "v");
        router.reply("a", outcome);
        assert_eq!((router.value(ticket).as_deref(), counts(&all)), (Some("v"), [0, 0, 0, 1, 0]));
        router.end();
    }
}

#[test]
fn a_gets_is_asked_again_once_the_cold_cluster_is_filled() {
    for op in [Op::Gets, Op::Gat, Op::Gats] {
        let (mut router, all) = warming(r#", "exptime": 30"#);
        let ticket = router.request(op, "k");
        router.reply("a", Outcome::NotFound);
        router.hit("b", "v");
        assert_eq!(router.outcome(ticket), None);
        router.reply("a", Outcome::Stored);
        assert_eq!(router.outcome(ticket), None);
        router.hit("a", "v");
        assert_eq!((router.value(ticket).as_deref(), counts(&all)), (Some("v"), [0, 1, 0, 0, 0]));
        let name = op.name();
        assert_eq!(
            router.sent(),
            [format!("a {name} k"), "b get k".into(), "a add k t30 f7 =v".into(), format!("a {name} k")]
        );
        let miss = router.request(op, "k");
        router.reply("a", Outcome::Busy);
        router.reply("b", Outcome::NotFound);
        assert_eq!(router.outcome(miss), Some(Outcome::Busy), "the cold cluster's answer");
        router.end();
    }
}

#[test]
fn a_meta_get_is_asked_again_and_answered_in_its_own_flags() {
    let (mut router, all) = warming(HOLDS_OFF);
    let ticket = router.start(&meta(Op::Get, "v c O1"));
    line(&mut router, "a", Outcome::NotFound, "EN");
    value(&mut router, "b", "VA 1 f7 t60", 7, "v");
    router.reply("a", Outcome::Stored);
    value(&mut router, "a", "VA 1 c9 O1", 0, "v");
    assert_eq!(
        router.sent(),
        ["a meta get k [v c O1]", "b meta get k [f t v]", "a add k t60 f7 =v", "a meta get k [v c O1]"]
    );
    assert_eq!((&*router.script.answers[&ticket].line, counts(&all)), ("VA 1 c9 O1", [0, 1, 0, 0, 0]));
    // A miss of both is what the cold cluster has said.
    let ticket = router.start(&meta(Op::Get, "v O1"));
    line(&mut router, "a", Outcome::NotFound, "EN O1");
    line(&mut router, "b", Outcome::NotFound, "EN");
    assert_eq!(router.script.answers[&ticket].line, "EN O1");
    router.sent();
    // A key that is no text, one that a client is to fill, and one that may be held off.
    for request in [meta(Op::Get, "v b"), meta(Op::LeaseGet, "v N30"), meta(Op::MetaGet, "")] {
        let ticket = router.start(&request);
        line(&mut router, "a", Outcome::NotFound, "EN");
        assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::NotFound), 1));
    }
    router.end();
}

#[test]
fn what_the_cold_cluster_does_not_know_of_an_item_the_warm_one_answers_without_a_copy() {
    for (key, flags) in [("k", ""), ("a2V5", "b")] {
        let (mut router, all) = warming(FOR_EVER);
        let request = Request { key: key.as_bytes(), ..meta(Op::MetaGet, flags) };
        let sent = |server: &str| {
            let flags = if flags.is_empty() { String::new() } else { format!(" [{flags}]") };
            format!("{server} meta metaget {key}{flags}")
        };
        // Whatever the warm cluster says is the answer, and a failure of the cold one is no hit either, as in mcrouter.
        for (cold, warm, received) in [
            (Outcome::NotFound, Outcome::Found, "ME k exp=100"),
            (Outcome::Timeout, Outcome::Found, "ME k exp=100"),
            (Outcome::NotFound, Outcome::NotFound, "EN"),
            (Outcome::NotFound, Outcome::RemoteError, "SERVER_ERROR"),
        ] {
            let ticket = router.start(&request);
            router.reply("a", cold);
            assert_eq!(router.outcome(ticket), None);
            line(&mut router, "b", warm, received);
            let answer = &router.script.answers[&ticket];
            assert_eq!((answer.outcome, &*answer.line), (warm, received));
            assert_eq!(router.sent(), [sent("a"), sent("b")]);
        }
        let ticket = router.start(&request);
        line(&mut router, "a", Outcome::Found, "ME k exp=7");
        assert_eq!(router.script.answers[&ticket].line, "ME k exp=7");
        assert_eq!(router.sent(), [sent("a")]);
        assert_eq!(counts(&all), [0; 5], "no copy, and no key that either cluster has had");
        router.end();
    }
    for more in [r#", "fill": false"#, HOLDS_OFF, SENTINELS] {
        let (mut router, _) = warming(more);
        let ticket = router.start(&meta(Op::MetaGet, ""));
        line(&mut router, "a", Outcome::NotFound, "EN");
        assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::NotFound), 1), "{more}");
        router.end();
    }
}

#[test]
fn a_lease_is_used_to_fill_the_cold_cluster() {
    let (mut router, all) = warming(r#", "exptime": 30"#);
    let ticket = router.request(Op::LeaseGet, "k");
    router.answer("a", &Answer { number: 123, ..Answer::of(Outcome::NotFound) });
    router.hit("b", "v");
    assert_eq!(router.outcome(ticket), None);
    assert_eq!(router.sent(), ["a lease-get k", "b get k", "a lease-set k t30 f7 #123 =v"]);
    router.reply("a", Outcome::Stored);
    let received = &router.script.answers[&ticket];
    assert_eq!(
        (received.outcome, received.value.as_deref(), received.number),
        (Outcome::Found, Some("v"), 0)
    );
    for hot in [Outcome::NotFoundHot, Outcome::FoundStale] {
        let ticket = router.request(Op::LeaseGet, "k");
        router.reply("a", hot);
        assert_eq!(router.outcome(ticket), Some(hot));
        assert_eq!(router.sent(), ["a lease-get k"]);
    }
    // A miss of both is answered with the cold cluster's token.
    let ticket = router.request(Op::LeaseGet, "k");
    router.answer("a", &Answer { number: 5, ..Answer::of(Outcome::NotFound) });
    router.reply("b", Outcome::NotFound);
    assert_eq!(router.script.answers[&ticket].number, 5);
    // An error has no token to store anything with.
    router.sent();
    router.request(Op::LeaseGet, "k");
    router.reply("a", Outcome::Timeout);
    router.hit("b", "v");
    assert_eq!(router.sent(), ["a lease-get k", "b get k"]);
    // A value that was stored during a delete is stale.
    let ticket = router.request(Op::LeaseGet, "k");
    router.answer("a", &Answer { number: 6, ..Answer::of(Outcome::NotFound) });
    router.hit("b", "v");
    router.reply("a", Outcome::StaleStored);
    router.answer("a", &Answer { number: 7, ..Answer::of(Outcome::NotFound) });
    assert_eq!((router.value(ticket), router.script.answers[&ticket].number), (None, 7));
    assert_eq!(counts(&all), [2, 1, 1, 0, 1]);
    router.end();
}

#[test]
fn everything_else_goes_to_the_cold_cluster_only() {
    for more in [FOR_EVER, HOLDS_OFF] {
        let (mut router, _) = warming(more);
        for op in [Op::Set, Op::Add, Op::Incr, Op::Touch, Op::Cas, Op::LeaseSet, Op::Append] {
            router.request(op, "k");
            router.reply("a", Outcome::NotFound);
            assert!(router.sent()[0].starts_with(&format!("a {} k", op.name())));
        }
        router.end();
    }
    let (mut router, all) = warming(FOR_EVER);
    router.request(Op::Delete, "k");
    router.reply("a", Outcome::Deleted);
    assert_eq!((router.sent(), deletes(&all)), (vec!["a delete k".into()], (0, 0)));
    router.end();
}

#[test]
fn a_delete_holds_its_key_off_and_tells_whether_there_was_an_item() {
    let (mut router, all) = warming(HOLDS_OFF);
    for (outcome, answer, expected) in
        [(Outcome::Found, "HD", Outcome::Deleted), (Outcome::NotFound, "NF", Outcome::NotFound)]
    {
        let ticket = router.request(Op::Delete, "k");
        line(&mut router, "a", outcome, answer);
        assert_eq!((router.outcome(ticket), &*router.script.answers[&ticket].line), (Some(expected), ""));
        assert_eq!(
            router.sent(),
            ["a meta delete k [H3]"],
            "two seconds, the first of which may be over at once"
        );
    }
    // Who wants a longer time has it, and no endless one.
    for (number, sent) in [(1, "H3"), (60, "H60"), (u64::MAX, "H3600")] {
        router.start(&Request { number, ..Request::classic(Op::Delete, b"k") });
        line(&mut router, "a", Outcome::NotFound, "NF");
        assert_eq!(router.sent(), [format!("a meta delete k [{sent}]")]);
    }
    assert_eq!(deletes(&all), (5, 0));
    // One that leaves the item there would leave it there to be filled.
    for (flags, sent) in
        [("O1 C7", "O1 C7 H3"), ("", "H3"), ("H1", "H3"), ("H60 O1", "O1 H60"), ("I T30", "H3"), ("x", "H3")]
    {
        let ticket = router.start(&meta(Op::Delete, flags));
        line(&mut router, "a", Outcome::Found, "HD O1");
        assert_eq!(router.script.answers[&ticket].line, "HD O1");
        assert_eq!(router.sent(), [format!("a meta delete k [{sent}]")]);
    }
    assert_eq!(deletes(&all), (11, 0));
    router.end();
}

#[test]
fn a_delete_that_cannot_hold_off_is_a_delete() {
    let (mut router, all) = warming(HOLDS_OFF);
    let ticket = router.request(Op::Delete, "k");
    router.reply("a", Outcome::ClientError);
    assert_eq!(router.outcome(ticket), None);
    router.reply("a", Outcome::Deleted);
    assert_eq!((router.outcome(ticket), deletes(&all)), (Some(Outcome::Deleted), (0, 1)));
    assert_eq!(router.sent(), ["a meta delete k [H3]", "a delete k"]);
    router.end();
    // One that was not carried out is logged, or fails.
    let (mut router, _) = warming(HOLDS_OFF);
    let ticket = router.request(Op::Delete, "k");
    router.reply("a", Outcome::Tko);
    assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::Tko), 1));
    // A client's flags may leave no room for more.
    let long = format!("O{}", "x".repeat(900));
    let ticket = router.start(&meta(Op::Delete, &long));
    line(&mut router, "a", Outcome::Found, "HD");
    assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::Found), 1));
    router.end();
}

#[test]
fn an_item_that_stands_for_none_is_stored_in_place_of_a_delete() {
    let (mut router, all) = warming(SENTINELS);
    let ticket = router.request(Op::Delete, "k");
    router.reply("a", Outcome::Stored);
    assert_eq!(router.outcome(ticket), Some(Outcome::Deleted));
    assert_eq!(router.sent(), ["a set k t3 f2115768095"]);
    let ticket = router.start(&meta(Op::Delete, "b O1"));
    line(&mut router, "a", Outcome::Found, "HD");
    let received = &router.script.answers[&ticket];
    assert_eq!((received.outcome, &*received.line), (Outcome::Deleted, ""), "the router repeats the flags");
    assert_eq!(router.sent(), ["a meta set k [b F2115768095] t3 f2115768095"]);
    assert_eq!(deletes(&all), (2, 0));
    // Conditions are the server's.
    router.start(&meta(Op::Delete, "C7"));
    line(&mut router, "a", Outcome::Exists, "EX");
    assert_eq!(router.sent(), ["a meta delete k [C7]"]);
    // Only a delete is logged when it fails, and one that was not stored has deleted nothing.
    let ticket = router.request(Op::Delete, "k");
    router.reply("a", Outcome::NotStored);
    router.reply("a", Outcome::NotFound);
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    assert_eq!(router.sent(), ["a set k t3 f2115768095", "a delete k"]);
    assert_eq!(deletes(&all), (2, 1));
    router.end();
}

#[test]
fn a_delete_whose_item_may_be_stored_late_holds_off_after_all_or_fails() {
    let (mut router, all) = warming(SENTINELS);
    let set = "a set k t3 f2115768095";
    let mut delete = |first, plain, again: Option<Outcome>| {
        let ticket = router.request(Op::Delete, "k");
        [Some(first), Some(plain), again]
            .into_iter()
            .flatten()
            .for_each(|outcome| router.reply("a", outcome));
        (router.outcome(ticket), router.sent().into_iter().filter(|sent| sent == set).count())
    };
    for (plain, again, received) in [
        (Outcome::Deleted, Outcome::Stored, Outcome::Deleted),
        (Outcome::NotFound, Outcome::Stored, Outcome::Deleted),
        (Outcome::Deleted, Outcome::Timeout, Outcome::Timeout),
        (Outcome::Deleted, Outcome::RemoteError, Outcome::RemoteError),
        // It was perhaps logged.
        (Outcome::NotFound, Outcome::Timeout, Outcome::NotFound),
        (Outcome::Deleted, Outcome::NotStored, Outcome::NotFound),
    ] {
        assert_eq!(delete(Outcome::Timeout, plain, Some(again)), (Some(received), 2), "{plain:?} {again:?}");
    }
    // The connection has ended, perhaps after an earlier delete has held the key off: the plain delete ends that.
    let broken = delete(Outcome::RemoteError, Outcome::Deleted, Some(Outcome::Stored));
    assert_eq!(broken, (Some(Outcome::Deleted), 2));
    // It is logged.
    assert_eq!(delete(Outcome::Tko, Outcome::Tko, None), (Some(Outcome::Tko), 1));
    assert_eq!(deletes(&all), (3, 8));
    router.end();
}

#[test]
fn a_delete_whose_hold_off_the_server_rejects_is_sent_without_one_only() {
    let (mut router, _all) = warming(HOLDS_OFF);
    let ticket = router.request(Op::Delete, "k");
    router.answer("a", &Answer { line: b"ERROR", ..Answer::of(Outcome::RemoteError) });
    router.reply("a", Outcome::Deleted);
    assert_eq!(router.outcome(ticket), Some(Outcome::Deleted));
    assert_eq!(router.sent(), ["a meta delete k [H3]", "a delete k"]);
    router.end();
}

#[test]
fn a_delete_over_a_connection_that_has_ended_holds_off_after_all() {
    let (mut router, all) = warming(HOLDS_OFF);
    for (plain, again, told) in [
        (Outcome::NotFound, Outcome::NotFound, Outcome::NotFound),
        (Outcome::Deleted, Outcome::NotFound, Outcome::Deleted),
        (Outcome::NotFound, Outcome::Found, Outcome::Deleted),
        (Outcome::Deleted, Outcome::Timeout, Outcome::Timeout),
    ] {
        let ticket = router.request(Op::Delete, "k");
        [Outcome::RemoteError, plain, again].into_iter().for_each(|outcome| router.reply("a", outcome));
        assert_eq!(router.outcome(ticket), Some(told), "{plain:?} {again:?}");
        let held_off = "a meta delete k [H3]";
        assert_eq!(router.sent(), [held_off, "a delete k", held_off]);
    }
    assert_eq!(deletes(&all), (3, 4));
    router.end();
}

#[test]
fn a_time_that_is_over_does_not_end_a_hold_off() {
    let (mut router, _) = warming(SENTINELS);
    let now_s = i32::try_from(router.facts.now_s).unwrap_or(i32::MAX);
    for (op, exptime) in [(Op::Touch, -1), (Op::Gat, i32::MIN), (Op::Gats, now_s)] {
        let ticket = router.start(&Request { exptime, ..Request::classic(op, b"k") });
        sentinel(&mut router, "a");
        assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
        assert_eq!(router.sent()[1..], ["a set k t3 f2115768095"]);
        router.reply("a", Outcome::Stored);
    }
    // Where the reply need not tell what it was, this is looked at first.
    let request = Request { exptime: -1, ..meta(Op::Gat, "") };
    let ticket = router.start(&request);
    line(&mut router, "a", Outcome::Found, "HD f2115768095 s0");
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    assert_eq!(router.sent(), ["a meta get k [f s] t-1"]);
    let ticket = router.start(&request);
    line(&mut router, "a", Outcome::Found, "HD f7 s0");
    line(&mut router, "a", Outcome::Found, "HD");
    assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::Found), 2));
    router.end();
}

#[test]
fn an_item_that_stands_for_none_is_a_miss() {
    let (mut router, all) = warming(SENTINELS);
    for op in [Op::Get, Op::Gets] {
        let ticket = router.request(op, "k");
        sentinel(&mut router, "a");
        assert_eq!(router.by(ticket), Some((Outcome::NotFound, String::new())));
        assert_eq!(router.sent(), [format!("a {} k", op.name())], "the warm cluster is not asked");
    }
    let ticket = router.request(Op::LeaseGet, "k");
    sentinel(&mut router, "a");
    let received = &router.script.answers[&ticket];
    assert_eq!(
        (received.outcome, received.number),
        (Outcome::NotFound, 100),
        "a token that nothing can be stored with"
    );
    router.sent();
    // What changes its time gives it back.
    for op in [Op::Gat, Op::Touch] {
        let ticket = router.start(&Request { exptime: 3600, ..Request::classic(op, b"k") });
        sentinel(&mut router, "a");
        assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
        router.reply("a", Outcome::Touched);
        assert_eq!(router.sent(), ["a gat k t3600", "a touch k t3"]);
    }
    let ticket = router.start(&Request { exptime: 3600, ..Request::classic(Op::Touch, b"k") });
    router.hit("a", "v");
    assert_eq!(router.by(ticket), Some((Outcome::Touched, String::new())));
    // It was refused.
    let ticket = router.get("k");
    router.reply("a", Outcome::NotFound);
    value(&mut router, "b", "VA 1 f7 t60", 7, "v");
    router.reply("a", Outcome::NotStored);
    sentinel(&mut router, "a");
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFound));
    assert_eq!(counts(&all), [0, 0, 6, 0, 0]);
    router.end();
}

#[test]
fn what_a_reply_does_not_tell_is_looked_at() {
    let (mut router, all) = warming(SENTINELS);
    for (flags, found) in [("v", "VA 0"), ("", "HD"), ("k O1", "HD kf9 O1")] {
        let request = |router: &mut Router| {
            let ticket = router.start(&meta(Op::Get, flags));
            let (line, block) = (found.as_bytes(), b"".as_slice());
            router.answer("a", &Answer { line, block, ..Answer::of(Outcome::Found) });
            assert_eq!(
                router.sent(),
                [
                    format!(
                        "a meta get k{}",
                        if flags.is_empty() { String::new() } else { format!(" [{flags}]") }
                    ),
                    "a meta get k [f s]".into()
                ]
            );
            ticket
        };
        let ticket = request(&mut router);
        line(&mut router, "a", Outcome::Found, "HD f2115768095");
        assert_eq!(
            (router.outcome(ticket), &*router.script.answers[&ticket].line),
            (Some(Outcome::NotFound), "")
        );
        let ticket = request(&mut router);
        line(&mut router, "a", Outcome::Found, "HD f7");
        assert_eq!(
            (router.outcome(ticket), &*router.script.answers[&ticket].line),
            (Some(Outcome::Found), found)
        );
    }
    assert_eq!(counts(&all), [3, 0, 3, 0, 0]);
    // A value, or flags, tell it themselves.
    for (flags, line) in [("v", "VA 1"), ("f", "HD f7")] {
        let ticket = router.start(&meta(Op::Get, flags));
        let block = if flags == "v" { b"x".as_slice() } else { b"" };
        router.answer("a", &Answer { line: line.as_bytes(), block, ..Answer::of(Outcome::Found) });
        assert_eq!((router.outcome(ticket), router.sent().len()), (Some(Outcome::Found), 1));
    }
    // It is no number either.
    for (flags, expected) in [(SENTINEL, Outcome::NotFound), (7, Outcome::ClientError)] {
        let ticket = router.request(Op::Incr, "k");
        router.reply("a", Outcome::ClientError);
        let item = Some(Item { flags, value: b"" });
        router.answer("a", &Answer { item, ..Answer::of(Outcome::Found) });
        assert_eq!(
            (router.outcome(ticket), router.sent()),
            (Some(expected), vec!["a incr k".into(), "a get k".into()])
        );
    }
    router.end();
}

#[test]
fn without_fills_deletes_hold_off_and_what_stands_for_none_is_hidden() {
    let (mut router, all) = warming(&format!(r#"{SENTINELS}, "fill": false"#));
    let miss = router.get("k");
    router.reply("a", Outcome::NotFound);
    let hidden = router.get("k");
    sentinel(&mut router, "a");
    assert_eq!([miss, hidden].map(|ticket| router.outcome(ticket)), [Some(Outcome::NotFound); 2]);
    router.request(Op::Delete, "k");
    router.reply("a", Outcome::Stored);
    assert_eq!(router.sent(), ["a get k", "a get k", "a set k t3 f2115768095"]);
    assert_eq!(counts(&all), [0, 0, 1, 0, 0]);
    router.end();
}

#[test]
fn a_cold_cluster_that_is_warm_is_not_filled_any_more() {
    let end = r#", "end": {"share": 0.9, "for_s": 30, "min_requests": 20}"#;
    let (mut router, all) = warming(&format!("{HOLDS_OFF}{end}"));
    let request = |router: &mut Router, hits: usize, fills: usize| {
        for number in 0..hits + fills {
            router.get("k");
            if number < hits {
                router.hit("a", "v");
                continue;
            }
            router.reply("a", Outcome::NotFound);
            if router.script.open.is_empty() {
                continue;
            }
            value(router, "b", "VA 1 f7 t60", 7, "v");
            router.reply("a", Outcome::Stored);
        }
    };
    request(&mut router, 1, 0);
    request(&mut router, 17, 3);
    router.facts.now_s += 30;
    request(&mut router, 1, 0);
    assert_eq!(all.running_and_ended(), (1, 0), "17 of 20");
    request(&mut router, 18, 2);
    router.facts.now_s += 29;
    request(&mut router, 1, 0);
    assert_eq!(all.running_and_ended(), (1, 0), "not for long enough");
    router.facts.now_s += 1;
    request(&mut router, 1, 0);
    assert_eq!(all.running_and_ended(), (0, 1));
    router.sent();
    let miss = router.get("k");
    router.reply("a", Outcome::NotFound);
    assert_eq!((router.outcome(miss), router.sent()), (Some(Outcome::NotFound), vec!["a get k".into()]));
    // Other routers may still fill it.
    router.request(Op::Delete, "k");
    line(&mut router, "a", Outcome::NotFound, "NF");
    assert_eq!(router.sent(), ["a meta delete k [H3]"]);
    router.end();
}

thread_local! {
    static MESSAGES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn what_an_operator_has_to_know_is_told_once() {
    let record = |what: &str| MESSAGES.with_borrow_mut(|messages| messages.push(what.to_owned()));
    let settings = Settings { warm_ups: Arc::new(WarmUps::new(record)), ..settings() };
    let end = r#""name": "new", "end": {"for_s": 1, "min_requests": 1}"#;
    let route = route(&format!(r#"{HOLDS_OFF}, {end}"#));
    // As two workers.
    let mut routers = [(); 2].map(|()| Router::with(&config(&route), &settings));
    for router in &mut routers {
        for _ in 0..2 {
            router.get("k");
            router.reply("a", Outcome::NotFound);
            line(router, "b", Outcome::RemoteError, "ERROR");
            router.request(Op::Delete, "k");
            router.reply("a", Outcome::ClientError);
            router.reply("a", Outcome::Deleted);
        }
    }
    for router in &mut routers {
        for _ in 0..3 {
            router.facts.now_s += 1;
            router.get("k");
            router.hit("a", "v");
        }
    }
    let messages = MESSAGES.take();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(
        messages[0].starts_with("WarmUpRoute new: the warm cluster does not support meta commands"),
        "{messages:?}"
    );
    assert!(
        messages[1].starts_with("WarmUpRoute new: the cold cluster rejects deletes with hold-off"),
        "{messages:?}"
    );
    assert!(
        messages[2].starts_with("WarmUpRoute new: the cold cluster is warm; it had 100.0 % of the 1 keys"),
        "{messages:?}"
    );
}

#[test]
fn what_is_wrong_with_a_warm_up_is_told() {
    for (more, received) in [
        (r#", "hold_off": "yes""#, r#"'hold_off' is "yes", "native" or "sentinel" expected"#),
        (r#", "hold_off": "native", "hold_off_s": 0"#, "'hold_off_s' is 0, 1 to 3600 expected"),
        (r#", "end": {"share": 1.5}"#, "'share' is 1.5"),
        (r#", "end": true"#, "'end' is a boolean, an object expected"),
    ] {
        let refused = refusal(&route(more));
        assert!(refused.contains(received), "{refused}");
    }
    assert!(
        warnings(&route(r#", "hold_off_s": 5"#))[0]
            .contains("'hold_off_s' has no effect: there is no 'hold_off'")
    );
    assert!(warnings(&route(r#", "end": {"shares": 1}"#))[0].contains("\"shares\" is not known in 'end'"));
    let all = r#", "enable_metaget": true, "hold_off": "sentinel", "hold_off_s": 5, "fill": true, "end": {}"#;
    assert!(warnings(&route(all)).is_empty());
}
