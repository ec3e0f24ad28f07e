use super::*;

const OUTCOMES: [Outcome; 5] =
    [Outcome::Found, Outcome::NotFound, Outcome::Timeout, Outcome::RemoteError, Outcome::ClientError];

/// Sends requests through `route`, which has the servers a, b and c, with all rows of outcomes in
/// all orders; some refuse at once. `expected` receives the replies in order.
fn check(route: &str, expected: impl Fn(&[(&str, Outcome)]) -> (Outcome, String)) {
    for row in rows(&OUTCOMES, 3) {
        let servers: Vec<_> = ["a", "b", "c"].into_iter().zip(row).collect();
        for refusing in 0..8_usize {
            let is_refusing = |name: &str| refusing & 1 << (name.as_bytes()[0] - b'a') != 0;
            let (at_once, later): (Vec<_>, Vec<_>) = servers.iter().partition(|(name, _)| is_refusing(name));
            for order in orders(&later) {
                let mut router = Router::new(route);
                at_once.iter().for_each(|(name, outcome)| router.refuse(name, *outcome));
                let ticket = router.get("k");
                assert_eq!(router.sent().len(), 3);
                order.iter().for_each(|(name, outcome)| router.signed(name, *outcome));
                let all: Vec<_> = at_once.iter().chain(&order).copied().collect();
                let (outcome, who) = expected(&all);
                let who = if is_refusing(&who) { String::new() } else { who };
                assert_eq!(router.by(ticket), Some((outcome, who)), "{route} {all:?} refusing {refusing}");
                router.end();
            }
        }
    }
}

const ALL: &str = r#"["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]"#;

#[test]
fn all_sync_answers_the_worst_and_of_equal_ones_the_first() {
    check(&format!(r#"{{"type": "AllSyncRoute", "children": {ALL}}}"#), |all| {
        let worst = all.iter().map(|(_, outcome)| outcome.severity()).max().unwrap();
        let (name, outcome) = all.iter().find(|(_, outcome)| outcome.severity() == worst).unwrap();
        (*outcome, (*name).to_owned())
    });
}

#[test]
fn all_fastest_answers_the_first_that_is_no_error_or_else_the_last() {
    check(&format!(r#"{{"type": "AllFastestRoute", "children": {ALL}}}"#), |all| {
        let found = all.iter().find(|(_, outcome)| !outcome.is_error());
        let (name, outcome) = found.unwrap_or(all.last().unwrap());
        (*outcome, (*name).to_owned())
    });
}

#[test]
fn all_majority_answers_what_most_say_and_of_several_the_worst() {
    check(&format!(r#"{{"type": "AllMajorityRoute", "children": {ALL}}}"#), |all| {
        let (mut best, mut most) = (None, 0);
        for (at, (name, outcome)) in all.iter().enumerate() {
            let count = all[..=at].iter().filter(|(_, other)| other == outcome).count();
            let is_worse = best.is_some_and(|(_, other): (_, Outcome)| outcome.severity() > other.severity());
            if count > most || (count == most && is_worse) {
                (best, most) = (Some((*name, *outcome)), count);
            }
            if most == 2 {
                break;
            }
        }
        let (name, outcome) = best.unwrap();
        (outcome, name.to_owned())
    });
}

#[test]
fn all_initial_answers_the_first_child_whenever_the_others_do() {
    for order in orders(&["a", "b", "c"]) {
        let mut router = Router::new(&format!(r#"{{"type": "AllInitialRoute", "children": {ALL}}}"#));
        let ticket = router.request(Op::Delete, "k");
        for name in order {
            assert_eq!(
                router.outcome(ticket).is_some(),
                router.script.open.iter().all(|(open, _)| open != "a")
            );
            router.signed(name, if name == "a" { Outcome::NotFound } else { Outcome::Deleted });
        }
        assert_eq!(router.by(ticket), Some((Outcome::NotFound, "a".into())));
        router.end();
    }
}

#[test]
fn all_async_answers_at_once_as_a_cache_without_items() {
    for (op, outcome) in [
        (Op::Get, Outcome::NotFound),
        (Op::Set, Outcome::NotStored),
        (Op::Delete, Outcome::NotFound),
        (Op::Incr, Outcome::NotFound),
        (Op::Touch, Outcome::NotFound),
    ] {
        let mut router = Router::new(&format!(r#"{{"type": "AllAsyncRoute", "children": {ALL}}}"#));
        router.refuse("b", Outcome::Tko);
        let ticket = router.request(op, "k");
        assert_eq!(router.outcome(ticket), Some(outcome));
        assert_eq!(router.sent().len(), 3);
        router.reply("a", Outcome::Timeout);
        router.reply("c", Outcome::Deleted);
        router.end();
    }
}

#[test]
fn a_settled_fan_out_drops_what_comes_later() {
    let mut router = Router::new(&format!(r#"{{"type": "AllFastestRoute", "children": {ALL}}}"#));
    let first = router.get("k");
    router.hit("b", "v");
    assert_eq!(router.value(first).as_deref(), Some("v"));
    assert_eq!(router.walks.frames(), 1);
    // Its frame is not taken by the next request.
    let second = router.get("l");
    router.reply("a", Outcome::NotFound);
    router.reply("c", Outcome::Timeout);
    assert_eq!(router.outcome(second), None);
    router.reply("c", Outcome::NotFound);
    assert_eq!(router.outcome(second), Some(Outcome::NotFound));
    router.hit("a", "late");
    router.reply("b", Outcome::Timeout);
    router.end();
}

#[test]
fn one_child_has_no_frame_and_no_children_are_a_cache_without_items() {
    for kind in
        ["AllSyncRoute", "AllFastestRoute", "AllMajorityRoute", "AllInitialRoute", "MissFailoverRoute"]
    {
        let mut router = Router::new(&format!(r#"{{"type": "{kind}", "children": ["PoolRoute|A"]}}"#));
        let ticket = router.get("k");
        assert_eq!(router.walks.frames(), 0, "{kind}");
        router.reply("a", Outcome::Timeout);
        assert_eq!(router.outcome(ticket), Some(Outcome::Timeout));
        router.end();
        let mut router = Router::new(&format!(r#"{{"type": "{kind}", "children": []}}"#));
        let ticket = router.request(Op::Set, "k");
        assert_eq!(router.outcome(ticket), Some(Outcome::NotStored), "{kind}");
        router.end();
    }
}

#[test]
fn more_children_than_can_be_counted_have_no_majority() {
    let children = vec!["\"NullRoute\""; 32].join(", ");
    let error = refusal(&format!(r#"{{"type": "AllMajorityRoute", "children": [{children}]}}"#));
    assert!(error.contains("at most 31 children"), "{error}");
}
