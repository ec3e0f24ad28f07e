use super::*;

#[test]
fn all_servers_are_asked_once_whatever_the_routes_say() {
    let mut router = Router::new(
        r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {
            "delete": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B", "PoolRoute|A"]}}}"#,
    );
    let flush = Request { exptime: 9, ..Request::classic(Op::FlushAll, b"") };
    router.requests = 1;
    router.walks.broadcast(&flush, &router.facts, 1, &mut router.script);
    assert_eq!(router.sent(), ["a flushall  t9", "b flushall  t9"]);
    router.reply("b", Outcome::Tko);
    assert_eq!(router.outcome(1), None);
    router.reply("a", Outcome::Ok);
    assert_eq!(router.outcome(1), Some(Outcome::Tko));
    router.end();
}

#[test]
fn without_servers_there_is_nothing_to_do() {
    let mut router = Router::new("\"NullRoute\"");
    router.requests = 1;
    router.walks.broadcast(&Request::classic(Op::FlushAll, b""), &router.facts, 1, &mut router.script);
    assert_eq!(router.outcome(1), Some(Outcome::Ok));
    router.end();
}
