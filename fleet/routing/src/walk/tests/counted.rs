//! Requests that come to pools that are counted.

use super::*;
use crate::{ArrivalWanted, CountedPool, CountedPools};

/// Routes of pools, of which these are counted.
fn counting(route: &str, pools: &[&str]) -> Router {
    let counted_pools = CountedPools::new(pools.iter().map(|name| (*name).to_owned()));
    Router::with(&config(route), &Settings { counted_pools, ..settings() })
}

impl Router {
    /// The arrivals since the last call: a server, the index of its pool's name, and `told` if its
    /// reply is dropped.
    fn arrivals(&mut self) -> Vec<String> {
        let text = |(_, server, Arrival { pool: CountedPool(pool), wanted, .. }): (u32, String, Arrival)| {
            format!("{server} {pool}{}", if wanted == ArrivalWanted::Yes { "" } else { " told" })
        };
        std::mem::take(&mut self.script.arrivals).into_iter().map(text).collect()
    }
}

const FAILOVER: &str =
    r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|C"]}"#;

#[test]
fn a_request_arrives_at_each_server_of_a_pool_that_is_counted_and_at_no_other() {
    let mut router = counting(FAILOVER, &["C", "A"]);
    router.facts.now_ms = 17;
    let ticket = router.get("k");
    router.reply("a", Outcome::Timeout);
    router.script.now_ms = 40;
    router.reply("b", Outcome::Tko);
    let last = &router.script.arrivals[1];
    assert_eq!((last.0, last.2.sent_ms), (ticket, 17), "when the client has asked");
    assert_eq!(router.arrivals(), ["a 1", "c 0"]);
    assert_eq!(router.script.counted, []);
    router.reply("c", Outcome::Found);
    assert_eq!(router.script.counted, [ticket]);
    // A server that refuses is reported as well.
    router.refuse("a", Outcome::Tko);
    router.get("k");
    assert_eq!((router.arrivals(), router.sent().len()), (vec!["a 1".to_owned()], 5));
    router.reply("b", Outcome::Found);
    assert_eq!(router.script.counted, [1, 2]);
    router.end();
}

#[test]
fn a_pool_belongs_to_the_name_that_its_own_begins_with() {
    let mut router = counting("\"PoolRoute|P\"", &["P"]);
    let ticket = router.get("k");
    assert_eq!(router.arrivals().len(), 1);
    let (server, _) = router.script.open[0].clone();
    router.hit(&server, "v");
    assert_eq!((router.script.counted.clone(), router.value(ticket).as_deref()), (vec![ticket], Some("v")));
    router.end();
}

#[test]
fn without_such_pools_nothing_is_told_of() {
    for pools in [&[][..], &["X"], &["a"]] {
        let mut router = counting(FAILOVER, pools);
        router.get("k");
        router.reply("a", Outcome::Found);
        assert_eq!((router.arrivals().len(), router.script.counted.len()), (0, 0));
        router.end();
    }
}

#[test]
fn what_nobody_waits_for_is_told_of_before_its_client_is_answered() {
    let mut router =
        counting(r#"{"type": "AllAsyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#, &["A"]);
    let ticket = router.request(Op::Set, "k");
    assert_eq!(
        (router.arrivals(), router.script.counted.clone()),
        (vec!["a 0 told".to_owned()], vec![ticket])
    );
    router.reply("a", Outcome::Stored);
    router.reply("b", Outcome::Stored);
    router.end();
    let shadowed = r#"{"type": "PoolRoute", "pool": "A", "shadows": [{"target": "PoolRoute|B", "keys_to_shadow": ["k"]}]}"#;
    let mut router = counting(shadowed, &["A", "B"]);
    router.get("k");
    assert_eq!(router.arrivals(), ["b 1 told", "a 0"]);
    router.reply("b", Outcome::Found);
    router.reply("a", Outcome::Found);
    router.end();
}

#[test]
fn a_request_whose_client_was_answered_arrives_nowhere() {
    let failover = r#"{"type": "FailoverRoute", "children": ["PoolRoute|B", "PoolRoute|C"]}"#;
    for kind in ["AllFastestRoute", "AllInitialRoute", "AllAsyncRoute"] {
        let route = format!(r#"{{"type": "{kind}", "children": ["PoolRoute|A", {failover}]}}"#);
        let mut router = counting(&route, &["C"]);
        let ticket = router.get("k");
        router.reply("a", Outcome::Found);
        assert!(router.outcome(ticket).is_some());
        router.reply("b", Outcome::Timeout);
        assert_eq!(router.sent().last().map(String::as_str), Some("c get k"), "{kind}");
        assert_eq!((router.arrivals().len(), router.script.counted.len()), (0, 1), "{kind}");
        router.reply("c", Outcome::Found);
        router.end();
    }
}

#[test]
fn deletes_that_are_logged_and_flushes_are_told_of_too() {
    let mut router = counting("\"PoolRoute|A\"", &["A"]);
    router.request(Op::Delete, "k");
    assert_eq!(
        (router.arrivals(), router.script.logs.clone()),
        (vec!["a 0".to_owned()], vec![Some("A".into())])
    );
    router.reply("a", Outcome::Deleted);
    router.requests += 1;
    let facts = router.facts;
    router.walks.broadcast(&Request::classic(Op::FlushAll, b""), &facts, router.requests, &mut router.script);
    assert_eq!(router.arrivals(), ["a 0"]);
    router.reply("a", Outcome::Ok);
    router.end();
    let path =
        |counted: &[&str]| counting(FAILOVER, counted).walks.tree().explain(Op::Get, b"k", Facts::default());
    assert_eq!(path(&["A"]), path(&[]), "a path is the same");
}
