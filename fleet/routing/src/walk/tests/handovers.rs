//! Pools whose servers change.

use super::*;

/// A pool of one slot, which `a` has had and `b` gets.
pub(super) fn slot(stage: &str) -> String {
    let [present, other] = if stage == "announced" { ["a", "b"] } else { ["b", "a"] };
    format!(
        r#"{{"pools": {{"P": {{"servers": ["{present}:1"], "names": ["P-0"],
            "handovers": [{{"other": "{other}:1", "stage": "{stage}"}}]}}}}, "route": "PoolRoute|P"}}"#
    )
}

/// A pool of servers `s0`, `s1` … that becomes another size.
fn resized(from: usize, to: usize, stage: &str) -> String {
    let servers: Vec<_> = (0..from.max(to)).map(|number| format!("\"s{number}:1\"")).collect();
    let resize = format!(r#"{{"from": {from}, "to": {to}, "stage": "{stage}"}}"#);
    format!(
        r#"{{"pools": {{"P": {{"servers": [{}], "resize": {resize}}}}}, "route": "PoolRoute|P"}}"#,
        servers.join(", ")
    )
}

fn of_size(servers: usize) -> String {
    let servers: Vec<_> = (0..servers).map(|number| format!("\"s{number}:1\"")).collect();
    format!(r#"{{"pools": {{"P": {{"servers": [{}]}}}}, "route": "PoolRoute|P"}}"#, servers.join(", "))
}

#[test]
fn a_slot_is_read_where_its_keys_are_and_deletes_go_to_both_servers() {
    for (stage, gets, deletes) in [
        ("announced", ["a get k"].as_slice(), ["a delete k", "b meta delete k [H4]"]),
        ("warming", &["b get k", "a meta get k [f t v]"], ["b meta delete k [H4]", "a delete k"]),
        ("ending", &["b get k"], ["b meta delete k [H4]", "a delete k"]),
    ] {
        let mut router = Router::of(&slot(stage));
        let ticket = router.get("k");
        router.reply(&gets[0][..1], Outcome::NotFound);
        if stage == "warming" {
            router.reply("a", Outcome::NotFound);
        }
        assert_eq!(
            (router.outcome(ticket), router.sent()),
            (Some(Outcome::NotFound), gets.iter().map(|get| (*get).to_owned()).collect())
        );
        let ticket = router.request(Op::Delete, "k");
        assert_eq!(router.sent(), deletes, "{stage}");
        router.reply("a", Outcome::Deleted);
        assert_eq!(router.outcome(ticket), None, "both are waited for");
        router.reply("b", Outcome::NotFound);
        assert_eq!(router.outcome(ticket), Some(Outcome::Deleted), "{stage}");
        router.end();
    }
}

#[test]
fn a_delete_fails_with_either_server_and_a_store_only_with_the_one_that_has_the_keys() {
    use Outcome::{Deleted, NotFound, Stored, Timeout, Tko};
    for order in orders(&["a", "b"]) {
        for (in_a, in_b, expected) in [
            (Deleted, NotFound, Deleted),
            (NotFound, NotFound, NotFound),
            (Timeout, NotFound, Timeout),
            (Deleted, Tko, Tko),
        ] {
            let mut router = Router::of(&slot("warming"));
            let ticket = router.request(Op::Delete, "k");
            order.iter().for_each(|server| router.reply(server, if *server == "a" { in_a } else { in_b }));
            assert_eq!(router.outcome(ticket), Some(expected), "{in_a:?} {in_b:?} {order:?}");
            router.end();
        }
        for (in_a, in_b) in [(NotFound, Stored), (Timeout, Stored), (Deleted, Tko)] {
            let mut router = Router::of(&slot("warming"));
            let ticket = router.request(Op::Set, "k");
            assert_eq!(router.sent(), ["b set k =v", "a delete k"]);
            order.iter().for_each(|server| router.reply(server, if *server == "a" { in_a } else { in_b }));
            assert_eq!(router.outcome(ticket), Some(in_b), "{in_a:?} {order:?}");
            router.end();
        }
    }
}

#[test]
fn what_takes_an_item_away_in_its_own_way_takes_it_away_from_the_other_server_for_good() {
    let mut router = Router::of(&slot("warming"));
    for (op, flags, expected) in [
        (Op::Delete, "C7 I T30", ["b meta delete k [C7 H4]", "a delete k"]),
        (Op::Set, "F7 b", ["b meta set k [F7 b]", "a meta delete k [b]"]),
        (Op::Incr, "q", ["b meta incr k [q]", "a delete k"]),
    ] {
        router.start(&Request {
            dialect: Dialect::Meta,
            meta: flags.as_bytes(),
            ..Request::classic(op, b"k")
        });
        assert_eq!(router.sent(), expected);
        router.reply("a", Outcome::NotFound);
        router.reply("b", Outcome::NotFound);
    }
    router.end();
}

#[test]
fn what_changes_how_long_an_item_lives_does_so_in_both_places() {
    for (stage, present, other) in [("announced", "a", "b"), ("warming", "b", "a"), ("ending", "b", "a")] {
        let mut router = Router::of(&slot(stage));
        let all = [[false, false], [true, false], [false, true], [true, true]];
        for (had_it, order) in all.into_iter().flat_map(|had_it| [(had_it, [0, 1]), (had_it, [1, 0])]) {
            let touched = |had_it| if had_it { Outcome::Touched } else { Outcome::NotFound };
            let ticket = router.start(&Request { exptime: 30, ..Request::classic(Op::Touch, b"k") });
            assert_eq!(
                router.sent(),
                [format!("{present} touch k t30"), format!("{other} touch k t30")],
                "{stage}"
            );
            for place in order {
                router.reply([other, present][place], touched(had_it[place]));
            }
            assert_eq!(router.outcome(ticket), Some(touched(had_it[0] || had_it[1])), "{stage} {had_it:?}");
        }
        let ticket = router.start(&Request { exptime: 30, ..Request::classic(Op::Gat, b"k") });
        assert_eq!(
            router.sent(),
            [format!("{other} touch k t30"), format!("{present} gat k t30")],
            "{stage}"
        );
        router.reply(present, Outcome::Found);
        assert_eq!(router.outcome(ticket), Some(Outcome::Found));
        router.reply(other, Outcome::NotFound);
        router.end();
    }
}

#[test]
fn keys_that_stay_are_asked_for_as_ever_while_a_pool_is_resized_and_others_move() {
    for (from, to) in [(4, 5), (5, 4)] {
        for stage in ["announced", "warming", "ending"] {
            let (mut before, mut after) = (Router::of(&of_size(from)), Router::of(&of_size(to)));
            let mut router = Router::of(&resized(from, to, stage));
            let mut moved = 0;
            for number in 0..500 {
                let key = format!("key{number}");
                let server = |router: &mut Router| {
                    router.get(&key);
                    router.sent()[0][..2].to_owned()
                };
                let (old, new) = (server(&mut before), server(&mut after));
                let present = if stage == "announced" { &old } else { &new };
                assert_eq!(server(&mut router), *present, "{key} {from} -> {to} {stage}");
                router.reply(present, Outcome::NotFound);
                let is_filled = old != new && stage == "warming";
                assert_eq!(router.sent().len(), usize::from(is_filled));
                if is_filled {
                    router.reply(&old, Outcome::NotFound);
                }
                router.request(Op::Delete, &key);
                let deletes = router.sent();
                assert_eq!(deletes.len(), if old == new { 1 } else { 2 }, "{deletes:?}");
                assert_eq!(deletes.iter().filter(|sent| sent.contains("H4")).count(), deletes.len() - 1);
                router.reply(&old, Outcome::NotFound);
                if old != new {
                    router.reply(&new, Outcome::NotFound);
                    moved += 1;
                }
            }
            assert!((60..140).contains(&moved), "{moved} of 500 keys move");
            router.end();
        }
    }
}

#[test]
fn who_takes_no_server_by_the_key_sees_the_servers_that_have_keys() {
    for (stage, expected) in [("announced", 2), ("warming", 3), ("ending", 3)] {
        let config = resized(2, 3, stage)
            .replace(r#""PoolRoute|P""#, r#"{"type": "AllSyncRoute", "children": "Pool|P"}"#);
        let mut router = Router::of(&config);
        router.get("k");
        assert_eq!(router.sent().len(), expected, "{stage}");
    }
}

#[test]
fn what_is_wrong_with_a_change_is_told() {
    let pool = |more: &str| {
        let config =
            format!(r#"{{"pools": {{"P": {{"servers": ["a:1", "b:1"], {more}}}}}, "route": "PoolRoute|P"}}"#);
        built(&config).map(|_| ()).expect_err(more)
    };
    for (more, expected) in [
        (r#""resize": {"from": 1, "to": 3, "stage": "warming"}"#, "3"),
        (r#""resize": {"from": 1, "to": 1, "stage": "warming"}"#, "is about 1 servers, there are 2"),
        (r#""resize": {"from": 1, "to": 2, "stage": "soon"}"#, "\"soon\""),
        (r#""handovers": [null]"#, "'handovers' has 1 items"),
        (r#""handovers": [null, {"stage": "ending"}]"#, "other"),
    ] {
        let said = pool(more);
        assert!(said.contains(expected), "{more}: {said}");
    }
}

#[test]
fn deletes_that_fail_are_logged_for_both_servers() {
    let mut router = Router::of(&slot("ending"));
    router.request(Op::Delete, "k");
    assert_eq!(router.script.logs, [Some("P".to_owned()), Some("P".to_owned())]);
}
