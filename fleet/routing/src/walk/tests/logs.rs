//! What deletes are logged under, and where they go when they were.

use super::*;

/// The servers that a delete of this key comes to, each with the log's name.
fn logged(route: &str, key: &str) -> Vec<(String, Option<String>)> {
    let mut router = Router::new(route);
    router.request(Op::Delete, key);
    let servers = router.sent().into_iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned());
    servers.zip(std::mem::take(&mut router.script.logs)).collect()
}

fn under(server: &str, name: &str) -> (String, Option<String>) {
    (server.to_owned(), Some(name.to_owned()))
}

#[test]
fn a_pool_route_logs_under_the_name_that_it_says_or_that_of_its_pool() {
    for (route, name) in [
        (r#""PoolRoute|A""#, "A"),
        (r#"{"type": "PoolRoute", "pool": "A", "name": "n"}"#, "n"),
        (r#"{"type": "PoolRoute", "pool": "A", "name": "n", "asynclog_name": "l"}"#, "l"),
        (r#"{"type": "PoolRoute", "pool": "A", "asynclog": true, "max_outstanding": 9}"#, "A"),
    ] {
        assert_eq!(logged(route, "k"), [under("a", name)], "{route}");
    }
}

#[test]
fn what_no_pool_route_is_above_is_not_logged() {
    let alone = |server: &str| (server.to_owned(), None);
    assert_eq!(logged(r#"{"type": "PoolRoute", "pool": "A", "asynclog": false}"#, "k"), [alone("a")]);
    assert_eq!(logged(r#"{"type": "AllSyncRoute", "children": "Pool|A"}"#, "k"), [alone("a")]);
    let error = refusal(r#"{"type": "PoolRoute", "pool": "A", "asynclog": "no"}"#);
    assert!(error.contains("asynclog"), "{error}");
}

#[test]
fn each_of_several_logs_under_its_own_name_whoever_waits_for_it() {
    for kind in ["AllSyncRoute", "AllInitialRoute", "AllAsyncRoute", "AllFastestRoute"] {
        let route = format!(
            r#"{{"type": "{kind}", "children":
                ["PoolRoute|A", "PoolRoute|B", {{"type": "PoolRoute", "pool": "C", "asynclog": false}}]}}"#
        );
        let mut all = logged(&route, "k");
        all.sort();
        assert_eq!(all, [under("a", "A"), under("b", "B"), ("c".to_owned(), None)], "{kind}");
    }
}

#[test]
fn a_shadow_is_logged_only_by_a_pool_route_of_its_own() {
    let route = |target: &str| {
        format!(
            r#"{{"type": "PoolRoute", "pool": "A", "shadows":
                [{{"target": {target}, "index_range": [0, 1], "key_fraction_range": [0, 1]}}]}}"#
        )
    };
    let hash = r#"{"type": "HashRoute", "children": "Pool|B"}"#;
    assert_eq!(logged(&route(hash), "k"), [("b".to_owned(), None), under("a", "A")]);
    assert_eq!(logged(&route(r#""PoolRoute|B""#), "k"), [under("b", "B"), under("a", "A")]);
}

#[test]
fn a_server_that_is_a_route_is_logged_by_pool_routes_of_its_own() {
    let config = format!(
        r#"{{"pools": {{"R": {{"servers": [{{"type": "FailoverRoute", "children": ["Pool|A", "PoolRoute|B"]}}]}}, {}}},
            "route": "PoolRoute|R"}}"#,
        pools()
    );
    let mut router = Router::of(&config);
    router.request(Op::Delete, "k");
    router.reply("a", Outcome::Timeout);
    router.reply("b", Outcome::Deleted);
    assert_eq!(router.script.logs, [None, Some("B".to_owned())]);
    router.end();
}

/// Where a delete of this key goes by now that was logged under `name`.
fn relocated(config: &str, name: &str, key: &str) -> Vec<String> {
    let loaded = load("test", config, &NoFiles, &Globals::new()).unwrap();
    let mut destinations = Destinations::default();
    let built = build(&loaded.json, &NoFiles, &settings(), &mut destinations).unwrap();
    let Some(log) = destinations.log_named(name) else { return Vec::new() };
    let stops = built.tree.relocate(log, key.as_bytes(), Facts::default());
    let address = |number: DestinationId| destinations.specs()[number.0 as usize].address.to_string();
    stops
        .iter()
        .map(|(number, key)| format!("{} {}", address(*number), String::from_utf8_lossy(key)))
        .collect()
}

#[test]
fn a_logged_delete_goes_where_its_pool_sends_it_now() {
    let route = r#"{"type": "FailoverRoute", "children": ["PoolRoute|P", "PoolRoute|A"]}"#;
    let mut router = Router::new(route);
    for number in 0..50 {
        let key = format!("k{number}");
        router.request(Op::Delete, &key);
        let server = router.sent()[0].split(' ').next().unwrap().to_owned();
        router.reply(&server, Outcome::Deleted);
        assert_eq!(relocated(&config(route), "P", &key), [format!("{server}:1 {key}")]);
    }
    assert_eq!(relocated(&config(route), "A", "k"), ["a:1 k"]);
    assert!(relocated(&config(route), "B", "k").is_empty(), "no route logs under this name");
    assert!(relocated(&config(r#""PoolRoute|A""#), "P", "k").is_empty());
}

#[test]
fn a_logged_key_with_its_prefix_is_hashed_without_it() {
    let servers: Vec<_> = (0..8).map(|number| format!("\"p{number}:1\"")).collect();
    let pool = |keeps: bool| {
        format!(
            r#"{{"pools": {{"P": {{"servers": [{}], "keep_routing_prefix": {keeps}}}}}, "route": "PoolRoute|P"}}"#,
            servers.join(", ")
        )
    };
    for number in 0..20 {
        let [bare] = &*relocated(&pool(true), "P", &format!("k{number}")) else { panic!("one server") };
        let (server, key) = bare.split_once(' ').unwrap();
        let with = relocated(&pool(true), "P", &format!("/here/own/{key}"));
        assert_eq!(with, [format!("{server} /here/own/{key}")]);
        assert_eq!(relocated(&pool(false), "P", &format!("/here/own/{key}")), [bare.as_str()]);
    }
}
