//! `guira router explain`: the path of a request, as text.

use crate::{Router, output};
use guira_tests::scratch::Scratch;

#[track_caller]
fn explained(words: &[&str]) -> String {
    let output = output(&[&["explain"], words].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

/// Macros, a prefix, a failover and a shadow: nothing of it can be reached.
const CONFIG: &str = r#"{
    "macros": {"cache": {"type": "macroDef", "params": ["n"], "result": "cache-a%n%.example:11211"}},
    "pools": {
        "A": {"servers": ["@cache(1)", "@cache(2)"], "server_timeout": 50},
        "G": {"servers": ["gutter.example:11211"]},
        "S": {"servers": ["unix:/run/shadow.sock"]}
    },
    "routes": [
        {"aliases": ["/here/own/"], "route": {
            "type": "OperationSelectorRoute",
            "default_policy": {"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|G"]},
            "operation_policies": {
                "delete": {"type": "AllInitialRoute", "children": ["PoolRoute|A", "PoolRoute|S"]},
                "set": {"type": "ModifyKeyRoute", "ensure_key_prefix": "%service-name%:", "target": "PoolRoute|A"}
            }}},
        {"aliases": ["/there/%default-cluster%/"], "route": "PoolRoute|G"}
    ]
}"#;

#[test]
fn a_path_is_told_handle_by_handle_and_server_by_server() {
    let scratch = Scratch::new();
    let path = scratch.write("config.json", CONFIG);
    let path = path.to_str().unwrap();
    let own = ["-R", "/here/own/", "--service-name", "shop"];
    let of = |op: &str, key: &str| explained(&[&own[..], &[path, op, key]].concat());
    assert_eq!(of("get", "k"), GET);
    assert_eq!(of("delete", "k"), DELETE);
    assert_eq!(of("set", "k"), SET);
    assert_eq!(of("get", "/there/own/k"), OTHER_PREFIX);
}

const GET: &str = "\
get k
  OperationSelectorRoute
    FailoverWithExptimeRoute
      PoolRoute (pool A)
        HashRoute (hash of \"k\": 0 of 2)
          cache-a1.example:11211, key k, 50 ms
      ModifyExptimeRoute (exptime: at most 60)
        PoolRoute (pool G)
          HashRoute (hash of \"k\": 0 of 1)
            gutter.example:11211, key k, 1000 ms
";

const DELETE: &str = "\
delete k
  OperationSelectorRoute
    AllInitialRoute
      PoolRoute (pool A)
        HashRoute (hash of \"k\": 0 of 2)
          cache-a1.example:11211, key k, 50 ms
      PoolRoute (pool S), not awaited
        HashRoute (hash of \"k\": 0 of 1), not awaited
          unix:/run/shadow.sock, key k, 1000 ms, not awaited
";

const SET: &str = "\
set k
  OperationSelectorRoute
    ModifyKeyRoute
      PoolRoute (pool A)
        HashRoute (hash of \"shop:k\": 1 of 2)
          cache-a2.example:11211, key shop:k, 50 ms
";

const OTHER_PREFIX: &str = "\
get /there/own/k
  PoolRoute (pool G)
    HashRoute (hash of \"k\": 0 of 1)
      gutter.example:11211, key k, 1000 ms
";

#[test]
fn the_configuration_may_be_text_and_options_may_come_last() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}}, "route": "PoolRoute|A"}"#;
    let expected =
        "get k\n  PoolRoute (pool A)\n    HashRoute (hash of \"k\": 0 of 1)\n      a:1, key k, 70 ms\n";
    assert_eq!(explained(&[text, "get", "k", "-t", "70"]), expected);
    assert_eq!(explained(&["{\"route\": \"NullRoute\"}", "get", "k"]), "get k\n  NullRoute\n");
}

#[test]
fn a_running_router_tells_the_same() {
    let text = r#"{
        "pools": {"A": {"servers": ["127.0.0.1:1", "127.0.0.1:2"], "server_timeout": 70}},
        "route": {"type": "ModifyKeyRoute", "ensure_key_prefix": "x:",
                  "target": {"type": "AllInitialRoute", "children": "Pool|A"}}
    }"#;
    let told = explained(&[text, "set", "k"]);
    assert!(told.contains("127.0.0.1:2, key x:k, 70 ms, not awaited\n"), "{told}");
    let router = Router::start(&["--config-str", text]);
    let handles = router.connect().value("__mcrouter__.explain(set,k)").expect("the router knows").data;
    let indented: String =
        String::from_utf8_lossy(&handles).lines().map(|line| format!("  {line}\n")).collect();
    assert_eq!(format!("set k\n{indented}"), told);
}

#[test]
fn what_cannot_be_told_is_refused() {
    let text = r#"{"route": "NullRoute"}"#;
    let long = "k".repeat(251);
    for (words, code, expected) in [
        (&[text, "fetch", "k"][..], 2, "unknown operation \"fetch\"; use one of get, gets"),
        (&[text, "get", "a b"], 2, "a key has 1 to 250 bytes"),
        (&[text, "get", &long], 2, "a key has 1 to 250 bytes"),
        (&[text, "get"], 2, "KEY"),
        (
            &[text, "get", "/no/where/k"],
            1,
            "no route has the routing prefix of /no/where/k; requests for the key fail",
        ),
        (
            &[r#"{"route": "NoSuchRoute"}"#, "get", "k"],
            1,
            "config-str:1: Unknown type or Missing Name Handle : NoSuchRoute; use one of PoolRoute, ",
        ),
        (&["file:/nowhere/at/all.json", "get", "k"], 1, "/nowhere/at/all.json: "),
    ] {
        let output = output(&[&["explain"], words].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains(expected), "{words:?}: {errors}");
    }
}

#[test]
fn warnings_and_help_are_printed() {
    let doubtful = r#"{"route": "NullRoute", "surprise": 1}"#;
    let output = output(&["explain", doubtful, "get", "k"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "get k\n  NullRoute\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("warning: config-str:1"), "{output:?}");
    let help = explained(&["--help"]);
    for part in
        ["Usage: guira router explain [OPTIONS] <CONFIG> <OP> <KEY>", "--route-prefix", "--service-name"]
    {
        assert!(help.contains(part), "{help}");
    }
    assert!(!help.contains("--port"), "{help}");
}
