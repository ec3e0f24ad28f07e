use super::*;

fn with(named: &str, route: &str) -> String {
    format!(r#"{{"pools": {{{}}}, "named_handles": {named}, "route": {route}}}"#, pools())
}

fn wrong(named: &str, route: &str) -> String {
    built(&with(named, route)).map(|_| ()).expect_err(named)
}

#[test]
fn a_named_route_may_stand_behind_those_that_name_it() {
    let named = r#"{"both": {"type": "AllSyncRoute", "children": ["one", "others"]}, "others": ["PoolRoute|B", "last"],
        "one": "PoolRoute|A", "last": {"type": "PoolRoute", "name": "last", "pool": "C"}, "unused": "NoSuchRoute"}"#;
    let mut router = Router::of(&with(named, r#""both""#));
    router.get("k");
    assert_eq!(router.sent(), ["a get k", "b get k", "c get k"]);
    ["a", "b", "c"].iter().for_each(|server| router.reply(server, Outcome::NotFound));
    router.end();
}

#[test]
fn a_list_of_named_routes_knows_those_before() {
    let named = r#"[{"type": "PoolRoute", "name": "one", "pool": "A"}, {"type": "AllSyncRoute", "name": "both", "children": ["one", "", "PoolRoute|B"]}]"#;
    let mut router = Router::of(&with(named, r#""both""#));
    router.get("k");
    assert_eq!(router.sent(), ["a get k", "b get k"]);
    ["a", "b"].iter().for_each(|server| router.reply(server, Outcome::NotFound));
    router.end();
    let named = r#"[{"type": "AllSyncRoute", "name": "both", "children": ["one"]}, {"type": "PoolRoute", "name": "one", "pool": "A"}]"#;
    let error = wrong(named, r#""both""#);
    assert!(error.contains("Unknown type or Missing Name Handle : one; use one of PoolRoute, "), "{error}");
}

#[test]
fn a_name_stands_for_its_first_route() {
    let route = r#"{"type": "AllSyncRoute", "children": [{"type": "PoolRoute", "name": "x", "pool": "A"},
        {"type": "PoolRoute", "name": "x", "pool": "B"}, "x"]}"#;
    let mut router = Router::new(route);
    router.get("k");
    assert_eq!(router.sent(), ["a get k", "a get k", "a get k"]);
    ["a"; 3].iter().for_each(|server| router.reply(server, Outcome::NotFound));
    router.end();
    let warned = warnings(route);
    assert_eq!(warned, [r#"test:2: route "x" is already defined at test:1; this definition has no effect"#]);
    let named = r#"{"x": {"type": "PoolRoute", "name": "x", "pool": "C"}}"#;
    let mut router = Router::of(&with(named, r#"{"type": "PoolRoute", "name": "x", "pool": "A"}"#));
    router.get("k");
    assert_eq!(router.sent(), ["c get k"]);
    router.reply("c", Outcome::NotFound);
    router.end();
}

#[test]
fn a_route_is_no_part_of_itself() {
    for named in
        [r#"{"x": "x"}"#, r#"{"x": {"type": "AllSyncRoute", "children": ["y"]}, "y": ["PoolRoute|A", "x"]}"#]
    {
        let error = wrong(named, r#""x""#);
        assert!(error.contains(r#"the route "x" is a part of itself"#), "{error}");
    }
    let error = wrong(r#"{"x": ["PoolRoute|A", "PoolRoute|B"]}"#, r#""x""#);
    assert!(error.contains("2 routes in place of one"), "{error}");
}

#[test]
fn a_list_of_one_and_a_pool_of_one_server_are_routes() {
    for route in [
        r#"["PoolRoute|A"]"#,
        r#"[["PoolRoute|A"]]"#,
        r#""Pool|A""#,
        r#"{"type": "Pool", "name": "A"}"#,
        r#"{"type": "Pool", "name": "N", "servers": ["a:1"]}"#,
        r#"{"type": "ModifyKeyRoute", "target": "Pool|A"}"#,
        r#"{"type": "AllSyncRoute", "children": [{"type": "Pool", "name": "N", "servers": ["a:1"]}]}"#,
        r#"{"type": "AllSyncRoute", "children": {"type": "Pool", "name": "N", "inherit": "A"}}"#,
    ] {
        assert!(warnings(route).is_empty(), "{:?}", warnings(route));
        let mut router = Router::new(route);
        router.get("k");
        router.reply("a", Outcome::Found);
        router.end();
    }
    for several in [r#""Pool|P""#, r#"["PoolRoute|A", "PoolRoute|B"]"#, "[]"] {
        let error = refusal(several);
        assert!(error.contains("routes in place of one"), "{error}");
    }
    let both =
        r#"{"type": "AllSyncRoute", "children": [{"type": "Pool", "name": "N", "servers": ["a:1", "b:1"]}]}"#;
    let mut router = Router::new(both);
    router.get("k");
    assert_eq!(router.sent(), ["a get k", "b get k"]);
    ["a", "b"].iter().for_each(|server| router.reply(server, Outcome::NotFound));
    router.end();
}

#[test]
fn a_name_that_a_shadow_could_not_use_may_be_used_again() {
    let named = r#"{"one": {"type": "PoolRoute", "pool": "A", "shadows": [{"target": "wrong"}, {"target": "one"}]}, "wrong": "Nothing"}"#;
    let mut router = Router::of(&with(named, r#""one""#));
    router.get("k");
    router.reply("a", Outcome::Found);
    router.end();
    let error = wrong(named, r#"{"type": "AllSyncRoute", "children": ["one", "wrong"]}"#);
    assert!(error.contains("Unknown type or Missing Name Handle : Nothing;"), "{error}");
}

/// Routes that each name the one before, the first of which is in all of them.
fn chain(routes: usize) -> String {
    let named = (1..routes).map(|number| {
        let below = number - 1;
        format!(r#"{{"type": "AllSyncRoute", "name": "h{number}", "children": ["h{below}", "NullRoute"]}}"#)
    });
    let first = r#"{"type": "PoolRoute", "name": "h0", "pool": "A"}"#.to_owned();
    let named: Vec<_> = std::iter::once(first).chain(named).collect();
    with(&format!("[{}]", named.join(", ")), &format!(r#""h{}""#, routes - 1))
}

#[test]
fn routes_are_not_within_each_other_without_end_by_name() {
    let mut router = Router::of(&chain(64));
    router.get("k");
    router.reply("a", Outcome::Found);
    router.end();
    let error = built(&chain(65)).map(|_| ()).expect_err("65 routes");
    assert!(error.contains("more than 64 routes within each other"), "{error}");
    let pool = |number: usize, server: &str| format!(r#""q{number}": {{"servers": [{server}]}}"#);
    let pools: Vec<_> = std::iter::once(pool(0, r#""a:1""#))
        .chain((1..40).map(|number| {
            let below = number - 1;
            let route =
                format!(r#"{{"type": "AllSyncRoute", "children": ["PoolRoute|q{below}", "NullRoute"]}}"#);
            pool(number, &route)
        }))
        .collect();
    let routes: Vec<_> = (0..40).map(|number| format!(r#""PoolRoute|q{number}""#)).collect();
    let config = format!(
        r#"{{"pools": {{{}}}, "route": {{"type": "RandomRoute", "children": [{}]}}}}"#,
        pools.join(", "),
        routes.join(", ")
    );
    let error = built(&config).map(|_| ()).expect_err("pools within pools");
    assert!(error.contains("more than 64 routes within each other"), "{error}");
}

#[test]
fn a_route_that_is_wrong_is_read_once() {
    let mut named = String::new();
    for number in 0..20 {
        let shadow = format!(r#"{{"target": "n{}"}}"#, number + 1);
        let comma = if number == 0 { "" } else { ", " };
        named += &format!(
            r#"{comma}"n{number}": {{"type": "PoolRoute", "pool": "A", "shadows": [{shadow}, {shadow}], "axonlog": true}}"#
        );
    }
    let route = r#"{"type": "PoolRoute", "pool": "B", "shadows": [{"target": "n0"}, {"target": "n0"}]}"#;
    let (built, ..) = built(&with(&format!("{{{named}}}"), route)).unwrap();
    let warned = built.warnings.iter().filter(|warning| warning.reason.contains("left out")).count();
    assert_eq!(warned, 2 * 21);
}
