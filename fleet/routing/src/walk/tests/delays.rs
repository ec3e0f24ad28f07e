use super::*;

fn delayed(members: &str) -> Router {
    Router::new(&format!(r#"{{"type": "LatencyInjectionRoute", "child": "PoolRoute|A", {members}}}"#))
}

#[test]
fn a_request_is_sent_after_a_time() {
    let mut router = delayed(r#""before_latency_ms": 10"#);
    let ticket = router.get("k");
    assert!(router.sent().is_empty());
    router.reply("10 ms", Outcome::Ok);
    assert_eq!(router.sent(), ["a get k"]);
    router.hit("a", "v");
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    router.end();
}

#[test]
fn a_reply_is_kept_for_a_time() {
    let mut router = delayed(r#""before_latency_ms": 10, "after_latency_ms": 20"#);
    let ticket = router.get("k");
    router.reply("10 ms", Outcome::Ok);
    router.hit("a", "v");
    assert_eq!(router.outcome(ticket), None);
    router.reply("20 ms", Outcome::Ok);
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    router.end();
}

#[test]
fn no_reply_comes_before_the_whole_time_is_over() {
    for order in orders(&["a", "30 ms"]) {
        let mut router = delayed(r#""total_latency_ms": 30"#);
        let ticket = router.get("k");
        assert_eq!(router.sent(), ["a get k"]);
        for what in order {
            assert_eq!(router.outcome(ticket), None);
            if what == "a" {
                router.hit("a", "v");
            } else {
                router.reply(what, Outcome::Ok);
            }
        }
        assert_eq!(router.value(ticket).as_deref(), Some("v"));
        router.end();
    }
    for order in orders(&["20 ms", "30 ms"]) {
        let mut router = delayed(r#""after_latency_ms": 20, "total_latency_ms": 30"#);
        let ticket = router.get("k");
        router.hit("a", "v");
        for what in order {
            assert_eq!(router.outcome(ticket), None);
            router.reply(what, Outcome::Ok);
        }
        assert_eq!(router.value(ticket).as_deref(), Some("v"));
        router.end();
    }
}

#[test]
fn a_time_that_nobody_keeps_is_an_error_before_and_nothing_after() {
    let mut router = delayed(r#""before_latency_ms": 10, "total_latency_ms": 30"#);
    router.refuse("10 ms", Outcome::Busy);
    let ticket = router.get("k");
    assert_eq!(router.outcome(ticket), Some(Outcome::Busy));
    router.reply("30 ms", Outcome::Ok);
    assert!(router.sent().is_empty());
    router.end();
    let mut router = delayed(r#""after_latency_ms": 20, "total_latency_ms": 30"#);
    router.refuse("20 ms", Outcome::Busy);
    router.refuse("30 ms", Outcome::Busy);
    let ticket = router.get("k");
    router.hit("a", "v");
    assert_eq!(router.value(ticket).as_deref(), Some("v"));
    router.end();
}

#[test]
fn a_delay_has_to_be_named_and_no_longer_than_an_hour() {
    let error = refusal("{\"type\": \"LatencyInjectionRoute\",\n\"child\": \"NullRoute\"}");
    assert!(error.starts_with("test:1: at least one of 'before_latency_ms'"), "{error}");
    let wrong = r#"{"type": "LatencyInjectionRoute", "child": "NullRoute", "after_latency_ms": 3600001}"#;
    assert!(refusal(wrong).contains("'after_latency_ms' is 3600001, 0 to 3600000 expected"));
    let payload =
        r#"{"type": "LatencyInjectionRoute", "child": "NullRoute", "request_payload_latency": true}"#;
    assert!(warnings(payload)[0].contains("'request_payload_latency' has no effect"));
    let mut router = delayed(r#""before_latency_ms": 0"#);
    router.get("k");
    router.reply("a", Outcome::NotFound);
    router.end();
}
