use super::*;

fn explained(route: &str, op: Op, key: &str) -> Vec<String> {
    let router = Router::new(route);
    let lines = router.walks.tree().explain(op, key.as_bytes(), router.facts);
    let name = |line: &crate::Line| {
        let server = line.destination.map(|it| format!(" {}", router.script.servers[it.0 as usize]));
        let key = server.map(|server| format!("{server} {}", String::from_utf8_lossy(&line.key)));
        let waits = if line.is_awaited { "" } else { " not awaited" };
        format!("{}{}{}{waits}", " ".repeat(line.depth), line.handle, key.unwrap_or_default())
    };
    lines.iter().map(name).collect()
}

#[test]
fn a_path_has_all_that_may_be_asked_in_order() {
    let route = r#"{"type": "OperationSelectorRoute", "default_policy": "NullRoute", "operation_policies": {"get":
        {"type": "FailoverRoute", "children": ["PoolRoute|A",
            {"type": "ModifyKeyRoute", "ensure_key_prefix": "x", "target":
                {"type": "AllInitialRoute", "children": ["PoolRoute|B", "PoolRoute|C"]}}]}}}"#;
    assert_eq!(
        explained(route, Op::Get, "/here/own/k"),
        [
            "OperationSelectorRoute",
            " FailoverRoute",
            "  PoolRoute",
            "   HashRoute",
            "    Destination a k",
            "  ModifyKeyRoute",
            "   AllInitialRoute",
            "    PoolRoute",
            "     HashRoute",
            "      Destination b xk",
            "    PoolRoute not awaited",
            "     HashRoute not awaited",
            "      Destination c xk not awaited",
        ]
    );
    assert_eq!(explained(route, Op::Set, "k"), ["OperationSelectorRoute", " NullRoute"]);
    assert!(explained(route, Op::Get, "/nowhere/x/k").is_empty());
    let warm_up = r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B"}"#;
    let servers = |op| explained(warm_up, op, "k").iter().filter(|line| line.contains("Destination")).count();
    assert_eq!((servers(Op::Get), servers(Op::MetaGet), servers(Op::Set)), (2, 2, 1));
}

#[test]
fn a_path_names_the_server_that_the_request_is_sent_to_and_counts_nothing() {
    let route = r#"{"type": "PoolRoute", "pool": "P", "max_outstanding": 1, "rates": {"gets_rate": 1}}"#;
    let mut router = Router::new(route);
    router.facts.now_ms = 1;
    for number in 0..100 {
        let key = format!("key{number}");
        let lines = router.walks.tree().explain(Op::Get, key.as_bytes(), router.facts);
        let server = lines.iter().find_map(|line| line.destination).unwrap();
        assert!(lines.iter().any(|line| line.reason.as_ref().is_some_and(|reason| reason.contains(&key))));
        let name = router.script.servers[server.0 as usize].clone();
        // The first fills the bucket, which begins empty.
        router.get(&key);
        router.facts.now_ms += 1000;
        router.get(&key);
        assert_eq!(router.sent().last(), Some(&format!("{name} get {key}")));
        router.reply(&name, Outcome::Found);
    }
    router.end();
}

#[test]
fn a_path_that_is_too_long_is_cut_off() {
    let mut named = r#""h0": "PoolRoute|A""#.to_owned();
    for number in 1..30 {
        let below = number - 1;
        write!(named, r#", "h{number}": {{"type": "AllSyncRoute", "children": ["h{below}", "h{below}"]}}"#)
            .unwrap();
    }
    let config = format!(r#"{{"pools": {{{}}}, "named_handles": {{{named}}}, "route": "h29"}}"#, pools());
    let router = Router::of(&config);
    assert_eq!(router.walks.tree().explain(Op::Get, b"k", router.facts).len(), 10_000);
    router.end();
}
