//! A configuration can neither hang the router nor take all of its memory, nor all of a stack.

use guira_sync::thread;

use guira_routing::config::Pools;

use crate::{Files, read, read_with};

/// Far less than a thread has.
const STACK: usize = 1 << 20;

/// What the error says, on a small stack.
fn reason(files: Files, text: String) -> String {
    let thread = thread::Builder::new().stack_size(STACK);
    let run =
        move || read_with(&files, &text).map(|loaded| loaded.json.to_string().len()).unwrap_err().reason;
    thread.spawn(run).unwrap().join().unwrap()
}

fn macros(definitions: &str, value: &str) -> String {
    format!("{{\"macros\": {definitions}, \"ret\": {value}}}")
}

#[test]
fn nesting_of_a_file_ends() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| format!("{{\"a\": {}1{}}}", open.repeat(levels), close.repeat(levels));
        assert!(read(&nested(126)).is_ok());
        let reason = reason(Files::default(), nested(128));
        assert_eq!(reason, "more than 128 arrays and objects within each other");
    }
    let unclosed = format!("{{\"a\": {}", "[".repeat(10_000_000));
    assert!(reason(Files::default(), unclosed).contains("more than 128"));
}

#[test]
fn nesting_of_macros_ends() {
    let cycles = [
        (r#"{"a": {"type": "macroDef", "result": "@a"}}"#, r#""@a""#),
        (
            r#"{"a": {"type": "macroDef", "result": {"type": "b"}}, "b": {"type": "macroDef", "result": [{"x": "@a"}]}}"#,
            r#""@a""#,
        ),
        (
            r#"{"a": {"type": "macroDef", "params": ["p"], "result": {"type": "if", "condition": true, "is_true": {"type": "foreach", "from": [1], "use": "@a(%p%)"}, "is_false": 1}}}"#,
            r#""@a(1)""#,
        ),
        (r#"{"a": {"type": "macroDef", "result": {"vars": {"v": "@a"}, "x": "%v%"}}}"#, r#""@a""#),
        (
            r#"{"a": {"type": "macroDef", "result": {"type": "process", "dictionary": {"k": 1}, "initialValue": 1, "transform": {"type": "transform", "dictionary": {"k": 1}, "keyTransform": "@a"}}}}"#,
            r#""@a""#,
        ),
    ];
    for (definitions, value) in cycles {
        let reason = reason(Files::default(), macros(definitions, value));
        assert!(
            reason.contains("more than 250 macros and values within each other: is there a cycle?"),
            "{reason}"
        );
    }
    let nested = format!("\"{}x{}\"", "@str(".repeat(1000), ")".repeat(1000));
    assert!(reason(Files::default(), macros("{}", &nested)).contains("more than 250 macros and values"));
    // As deep as it goes in mcrouter: each level of the macro is five of these.
    let counting = r#"{"down": {"type": "macroDef", "params": ["x"], "result":
        {"type": "if", "condition": "@less(@int(0),%x%)", "is_true": "@down(@sub(%x%,@int(1)))", "is_false": "end"}}}"#;
    assert!(read(&macros(counting, r#""@down(@int(50))""#)).is_ok());
}

#[test]
fn nesting_of_results_ends() {
    // Each round puts the value into one more array, without a deeper expansion.
    let wrapped = |rounds: usize| {
        macros(
            "{}",
            &format!(
                r#"{{"type": "process", "dictionary": "@range(@int(1),@int({rounds}))", "initialValue": 1, "transform": ["%value%"]}}"#
            ),
        )
    };
    assert!(read(&wrapped(400)).is_ok());
    let reason = reason(Files::default(), wrapped(600));
    assert!(reason.contains("the result has more than 500 arrays and objects within each other"), "{reason}");
}

#[test]
fn steps_end() {
    let doubling = |initial: &str, transform: &str| {
        macros(
            "{}",
            &format!(
                r#"{{"type": "process", "dictionary": "@range(@int(1),@int(64))", "initialValue": {initial}, "transform": {transform}}}"#
            ),
        )
    };
    let members: String = (0..300).map(|at| format!("\"k{at}\": 1,")).collect();
    let cases = [
        doubling("[1]", r#"{"type": "merge", "params": ["%value%", "%value%"]}"#),
        doubling("\"x\"", "\"%value%%value%\""),
        doubling("\"x\"", r#"{"type": "merge", "params": ["%value%", "%value%"]}"#),
        doubling("1", r#"{"a": "%value%", "b": "%value%"}"#),
        macros("{}", r#""@range(@int(-9223372036854775808),@int(9223372036854775807))""#),
        macros("{}", r#""@size(@range(@int(1),@int(3000000)))""#),
        // Nothing is copied, but much is looked at.
        macros(
            &format!(
                r#"{{"big": {{"type": "constDef", "result": {{{members}}}}}, "n": {{"type": "constDef", "result": "@range(@int(1),@int(400))"}}}}"#
            ),
            r#"{"type": "foreach", "from": "%n%", "use": [{"type": "foreach", "from": "%n%", "use": ["@select(%big%,k9)"]}]}"#,
        ),
        macros(
            r#"{"n": {"type": "constDef", "result": "@range(@int(1),@int(3000))"}}"#,
            r#"{"type": "foreach", "from": "%n%", "where": "@contains(%n%,@int(-1))"}"#,
        ),
    ];
    for text in cases {
        let reason = reason(Files::default(), text.clone());
        assert!(
            reason.contains("the configuration takes more than 2000000 steps to read"),
            "{text}: {reason}"
        );
    }
    // Many names take no more than many steps.
    let names: String = (0..200_000).map(|at| format!("\"v{at}\": 1,")).collect();
    let text = macros(
        "{}",
        &format!(
            r#"{{"type": "foreach", "from": "@range(@int(1),@int(400000))", "use": ["a", "b", "c"], "vars": {{{names}}}}}"#
        ),
    );
    assert!(reason(Files::default(), text).contains("more than 2000000 steps"));
    let parameters: String =
        (0..20_000).map(|at| format!("{{\"name\": \"v{at}\", \"optional\": true}},")).collect();
    let arguments: String = (0..20_000).map(|at| format!("\"v{at}\": 1,")).collect();
    let definition = format!(r#"{{"m": {{"type": "macroDef", "params": [{parameters}], "result": 1}}}}"#);
    let text = macros(&definition, &format!(r#"{{"type": "m", {arguments}}}"#));
    assert!(reason(Files::default(), text).contains("more than 2000000 steps"));
    // A default of an import does not help.
    let files = Files::default().with("file:a", r#""@range(@int(1),@int(3000000))""#);
    assert!(reason(files, macros("{}", r#"["@import(file:a,1)", 1]"#)).contains("more than 2000000 steps"));
}

#[test]
fn sizes_end() {
    let reason_of = |text: String| reason(Files::default(), text);
    assert_eq!(reason_of(" ".repeat((32 << 20) + 1)), "the file has more than 33554432 bytes");
    let reason =
        reason_of(macros("{}", r#"["@range(@int(1),@int(900000))", "@range(@int(1),@int(200000))"]"#));
    assert_eq!(reason, "the expanded configuration has more than 1000000 values");
}

#[test]
fn arguments_and_reasons_end() {
    let commas = ",".repeat(1000);
    let found = reason(Files::default(), macros("{}", &format!("\"@merge({commas})\"")));
    assert!(found.contains("a call has more than 1000 arguments"), "{found}");
    let found = reason(Files::default(), macros("{}", &format!("\"@fail({})\"", "ä".repeat(100_000))));
    assert!((1000..1010).contains(&found.len()) && found.ends_with("ä…"), "{found}");
}

/// Each pool has all servers of the one that it inherits from.
#[test]
fn servers_of_all_pools_end() {
    let servers = "\"a:1\",".repeat(1000);
    let heirs: String = (0..600).map(|at| format!("\"p{at}\": {{\"inherit\": \"base\"}},")).collect();
    let config =
        read(&format!("{{\"pools\": {{\"base\": {{\"servers\": [{servers}]}}, {heirs}}}}}")).unwrap().json;
    let files = Files::default();
    let warnings = Pools::new(&config, &files).unwrap().finish().warnings;
    assert!(
        warnings.last().unwrap().reason.contains("the configuration takes more than 2000000 steps to read")
    );
}

#[test]
fn imports_end() {
    let cycle =
        Files::default().with("file:a", r#""@import(file:b)""#).with("file:b", r#"["@import(file:a)"]"#);
    let found = reason(cycle, macros("{}", r#""@import(file:a)""#));
    assert!(found.starts_with("\"ret\": \"file:a\" imports itself (in import at file:a:1"), "{found}");

    let chain = |length: usize| {
        (0..length).fold(Files::default().with(&format!("f{length}"), "1"), |files, at| {
            files.with(&format!("f{at}"), &format!("\"@import(f{})\"", at + 1))
        })
    };
    assert!(read_with(&chain(31), &macros("{}", r#""@import(f0)""#)).is_ok());
    let found = reason(chain(32), macros("{}", r#""@import(f0)""#));
    assert!(found.contains("more than 32 imports within each other"), "{found}");

    let many: String = (0..1001).map(|at| format!("\"@import(f{at},1)\",")).collect();
    let found = reason(Files::default(), macros("{}", &format!("[{many}]")));
    assert!(found.contains("more than 1000 imports"), "{found}");
}
