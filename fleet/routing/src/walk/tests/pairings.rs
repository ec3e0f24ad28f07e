use super::*;

const PAIRED: &str = r#"{"type": "FailoverRoute", "name": "r", "enable_lease_pairing": true,
    "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]}"#;

fn lease(router: &mut Router, server: &str, token: u64) {
    router.answer(server, &Answer { number: token, ..Answer::of(Outcome::NotFound) });
}

fn token(router: &Router, ticket: u32) -> u64 {
    router.script.answers[&ticket].number
}

fn store(router: &mut Router, token: u64) -> u32 {
    let it = Request::classic(Op::LeaseSet, b"k");
    router.start(&Request { number: token, value: b"v", ..it })
}

#[test]
fn what_is_stored_with_a_lease_goes_where_the_lease_is_from() {
    let mut router = Router::new(PAIRED);
    let first = router.request(Op::LeaseGet, "k");
    lease(&mut router, "a", 77);
    assert_eq!(token(&router, first), 77, "that of the first child is its own");
    store(&mut router, 77);
    router.reply("a", Outcome::Stored);
    router.sent();
    router.refuse("a", Outcome::Tko);
    let second = router.request(Op::LeaseGet, "k");
    lease(&mut router, "b", 78);
    let given = token(&router, second);
    assert_eq!(given >> 32, 0x7ace_b00c);
    router.script.refusals.clear();
    store(&mut router, given);
    assert_eq!(router.sent(), ["a lease-get k", "b lease-get k", "b lease-set k #78 =v"]);
    router.reply("b", Outcome::Stored);
    // A token works only once, and unknown tokens go to the first child.
    store(&mut router, given);
    assert_eq!(router.sent(), [format!("a lease-set k #{given} =v")]);
    router.reply("a", Outcome::NotStored);
    router.end();
}

#[test]
fn a_store_with_a_lease_goes_to_no_other_child() {
    let mut router = Router::new(PAIRED);
    router.refuse("a", Outcome::Tko);
    let ticket = router.request(Op::LeaseGet, "k");
    lease(&mut router, "b", 5);
    let given = token(&router, ticket);
    router.refuse("b", Outcome::Timeout);
    let stored = store(&mut router, given);
    assert_eq!(router.outcome(stored), Some(Outcome::Timeout));
    let unknown = store(&mut router, 6);
    assert_eq!(router.outcome(unknown), Some(Outcome::Tko));
    router.end();
}

#[test]
fn tokens_are_forgotten_and_hot_misses_have_none() {
    let mut router = Router::new(PAIRED);
    router.refuse("a", Outcome::Tko);
    let ticket = router.request(Op::LeaseGet, "k");
    router.answer("b", &Answer { number: 1, ..Answer::of(Outcome::NotFoundHot) });
    assert_eq!(router.outcome(ticket), Some(Outcome::NotFoundHot));
    let ticket = router.request(Op::LeaseGet, "k");
    lease(&mut router, "b", 5);
    let given = token(&router, ticket);
    router.facts.now_s += 10;
    router.script.refusals.clear();
    router.sent();
    store(&mut router, given);
    assert_eq!(router.sent(), [format!("a lease-set k #{given} =v")]);
    router.reply("a", Outcome::NotStored);
    router.end();
}

#[test]
fn routes_within_each_other_pair_each_on_its_own() {
    let mut router = Router::new(
        r#"{"type": "FailoverRoute", "name": "outer", "enable_lease_pairing": true, "children": [
            {"type": "FailoverRoute", "name": "inner", "enable_lease_pairing": true, "children": ["PoolRoute|A", "PoolRoute|B"]},
            "PoolRoute|C"]}"#,
    );
    router.refuse("a", Outcome::Tko);
    let ticket = router.request(Op::LeaseGet, "k");
    lease(&mut router, "b", 9);
    let given = token(&router, ticket);
    router.sent();
    store(&mut router, given);
    assert_eq!(router.sent(), ["b lease-set k #9 =v"]);
    router.reply("b", Outcome::Stored);
    router.end();
}

#[test]
fn the_order_of_a_latest_route_is_kept() {
    let mut router = Router::new(
        r#"{"type": "LatestRoute", "name": "r", "enable_lease_pairing": true, "failover_count": 3,
            "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]}"#,
    );
    router.request(Op::LeaseGet, "k");
    let first = router.sent()[0][..1].to_owned();
    router.reply(&first, Outcome::Found);
    router.refuse(&first, Outcome::Tko);
    let ticket = router.request(Op::LeaseGet, "k");
    let second = router.sent()[1][..1].to_owned();
    lease(&mut router, &second, 9);
    let given = token(&router, ticket);
    store(&mut router, given);
    assert_eq!(router.sent(), [format!("{second} lease-set k #9 =v")]);
    router.reply(&second, Outcome::Stored);
    router.end();
}

#[test]
fn pairing_needs_a_name() {
    let route = "{\"type\": \"FailoverRoute\",\n\"children\": [\"NullRoute\", \"NullRoute\"],\n\"enable_lease_pairing\": true}";
    assert_eq!(refusal(route), "test:3: 'enable_lease_pairing' needs a 'name' of the route");
    let off =
        r#"{"type": "FailoverRoute", "children": ["NullRoute", "NullRoute"], "enable_lease_pairing": false}"#;
    assert!(warnings(off).is_empty());
}
