use super::*;

const HOLD: Duration = Duration::from_secs(100);

fn target(host: &str) -> Target {
    Target { host: host.into(), port: 11211 }
}

fn stateful(ordinals: impl IntoIterator<Item = u32>) -> Vec<Target> {
    ordinals.into_iter().map(|number| target(&format!("cache-{number}.cache.svc"))).collect()
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn hosts(membership: &Membership) -> Vec<String> {
    membership.list().map(|target| target.host.to_string()).collect()
}

fn ordinals(membership: &Membership) -> Vec<u32> {
    let number = |host: &str| host.strip_prefix("cache-")?.split('.').next()?.parse().ok();
    hosts(membership).iter().map(|host| number(host).expect("a name of the set")).collect()
}

fn started(answer: &[Target]) -> Membership {
    Membership::new(answer, HOLD, at(0)).expect("there are servers")
}

#[test]
fn ordinals_are_read_where_names_have_them() {
    for (host, expected) in [
        ("cache-0.cache.svc", Some(("cache-", 0, ".cache.svc"))),
        ("a-b-12", Some(("a-b-", 12, ""))),
        ("cache-01.x", None),
        ("cache.x-1", None),
        ("cache-.x", None),
        ("cache-+1", None),
        ("10-0-0-1a.x", None),
        ("", None),
    ] {
        let found = ordinal(host).map(|(pattern, number)| (pattern.before, number, pattern.after));
        assert_eq!(found, expected, "{host}");
    }
}

#[test]
fn a_slot_in_the_middle_keeps_its_server_for_ever() {
    let mut it = started(&stateful([2, 0, 1]));
    assert_eq!(ordinals(&it), [0, 1, 2]);
    it.update(&stateful([0, 2]), at(10)).unwrap();
    assert_eq!((it.drop_due(at(10_000)), ordinals(&it), it.held()), (0, vec![0, 1, 2], 1));
    assert_eq!(it.next(), None);
    it.update(&stateful([0, 1, 2]), at(10_001)).unwrap();
    assert_eq!((ordinals(&it), it.held()), (vec![0, 1, 2], 0));
}

#[test]
fn a_slot_that_nobody_has_seen_has_the_name_that_its_server_would_have() {
    let it = started(&stateful([1, 3]));
    assert_eq!((ordinals(&it), it.held()), (vec![0, 1, 2, 3], 2));
    assert!(it.list().all(|target| target.port == 11211));
    // A number that is none of a StatefulSet makes no thousands of servers.
    let it = started(&stateful([1, 100_000]));
    assert!(!it.has_slots());
    assert_eq!(it.list().count(), 2);
}

#[test]
fn servers_of_which_only_a_late_one_was_there_at_first_have_slots_once_they_have_come() {
    let mut it = started(&stateful([25]));
    it.update(&stateful([3, 25]), at(1)).unwrap();
    assert_eq!((it.has_slots(), ordinals(&it)), (false, vec![25, 3]));
    // It is held, and has no place among these.
    it.update(&stateful(0..10), at(2)).unwrap();
    assert_eq!((it.has_slots(), it.list().count()), (false, 11));
    it.update(&stateful(2..30), at(3)).unwrap();
    assert!(it.has_slots() && ordinals(&it).into_iter().eq(0..30));
    assert_eq!(it.held(), 2);
    let mut it = started(&[target("a.x")]);
    it.update(&stateful(0..3), at(1)).unwrap();
    assert!(!it.has_slots(), "of another kind");
}

#[test]
fn servers_at_the_end_go_after_the_hold_down_and_one_after_the_other() {
    let mut it = started(&stateful(0..5));
    it.update(&stateful(0..2), at(10)).unwrap();
    assert_eq!(it.next(), Some(at(110)));
    assert_eq!((it.drop_due(at(109)), it.list().count()), (0, 5));
    assert_eq!((it.drop_due(at(110)), ordinals(&it)), (1, vec![0, 1, 2, 3]));
    assert_eq!(it.next(), Some(at(210)), "the next one is kept for as long again");
    assert_eq!((it.drop_due(at(209)), it.drop_due(at(210)), it.drop_due(at(310))), (0, 1, 1));
    assert_eq!((it.drop_due(at(100_000)), ordinals(&it)), (0, vec![0, 1]));
}

#[test]
fn who_comes_back_in_time_is_not_dropped() {
    let mut it = started(&stateful(0..3));
    it.update(&stateful(0..2), at(10)).unwrap();
    it.update(&stateful(0..3), at(50)).unwrap();
    it.update(&stateful(0..2), at(60)).unwrap();
    assert_eq!((it.drop_due(at(159)), it.drop_due(at(160))), (0, 1));
}

#[test]
fn of_many_servers_a_tenth_goes_at_once() {
    let mut it = started(&stateful(0..40));
    it.update(&stateful(0..1), at(0)).unwrap();
    assert_eq!((it.drop_due(at(100)), it.drop_due(at(100)), it.drop_due(at(200))), (4, 0, 3));
}

#[test]
fn an_answer_that_does_not_go_with_what_is_known_changes_nothing() {
    let mut it = started(&stateful(0..3));
    assert_eq!(it.update(&[], at(1)), Err(MembershipError::Empty));
    let other = [stateful(0..2), vec![target("10-0-0-1x.cache.svc")]].concat();
    assert_eq!(it.update(&other, at(1)), Err(MembershipError::Mixed));
    assert_eq!((ordinals(&it), it.held()), (vec![0, 1, 2], 0));
}

#[test]
fn another_server_in_a_slot_takes_its_place_at_once() {
    let mut it = started(&stateful(0..2));
    let moved = [target("cache-0.cache.svc"), Target { port: 11300, ..target("cache-1.cache.svc") }];
    it.update(&moved, at(1)).unwrap();
    assert_eq!(it.list().cloned().collect::<Vec<_>>(), moved);
    it.update(&[target("new-0.x"), target("new-1.x")], at(2)).unwrap();
    assert_eq!((hosts(&it), it.held()), (vec!["new-0.x".to_owned(), "new-1.x".to_owned()], 0));
}

#[test]
fn names_without_ordinals_are_sorted_and_go_in_the_order_in_which_they_have_left() {
    let all = ["c.x", "a.x", "b.x"].map(target);
    let mut it = started(&all);
    assert_eq!((hosts(&it).join(" "), it.has_slots()), ("a.x b.x c.x".to_owned(), false));
    it.update(&all[..2], at(10)).unwrap();
    it.update(&all[..1], at(20)).unwrap();
    it.update(&[target("c.x"), target("bb.x")], at(30)).unwrap();
    assert_eq!((hosts(&it).join(" "), it.held()), ("a.x b.x bb.x c.x".to_owned(), 2));
    assert_eq!((it.drop_due(at(110)), hosts(&it).join(" ")), (1, "a.x bb.x c.x".to_owned()));
    assert_eq!(
        (it.drop_due(at(209)), it.drop_due(at(210)), hosts(&it).join(" ")),
        (0, 1, "bb.x c.x".to_owned())
    );
    // Two servers of one host are two servers.
    let it = started(&[target("n.x"), Target { port: 11300, ..target("n.x") }]);
    assert_eq!(it.list().count(), 2);
}

#[test]
fn a_list_that_was_kept_is_held_until_the_record_has_its_servers() {
    let mut it = Membership::kept(&stateful(0..3), HOLD, at(0)).unwrap();
    assert_eq!((it.held(), it.next()), (3, Some(at(100))));
    it.update(&stateful(0..2), at(1)).unwrap();
    assert_eq!((it.held(), it.drop_due(at(99)), it.drop_due(at(100)), ordinals(&it)), (1, 0, 1, vec![0, 1]));
    let mut it = Membership::kept(&stateful(0..1), HOLD, at(0)).unwrap();
    assert_eq!((it.drop_due(at(1000)), it.list().count()), (0, 1), "the last one stays");
}
