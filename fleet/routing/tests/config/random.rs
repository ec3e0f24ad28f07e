//! Whatever is read, an error has its line, and a result is a configuration that stands for itself.

use guira_routing::config::{ConfigError, Json, Pools};
use proptest::prelude::*;

use crate::{Files, escaped, read, read_with};

/// What the language is made of.
const WORDS: [&str; 48] = [
    "\"macros\":",
    "\"vars\":",
    "\"type\":",
    "\"macroDef\"",
    "\"constDef\"",
    "\"result\":",
    "\"params\":",
    "\"name\":",
    "\"default\":",
    "\"foreach\"",
    "\"transform\"",
    "\"process\"",
    "\"from\":",
    "\"use\":",
    "\"dictionary\":",
    "\"itemTransform\":",
    "\"initialValue\":",
    "\"transform\":",
    "\"merge\"",
    "\"if\"",
    "\"pools\":",
    "\"inherit\":",
    "\"servers\":",
    "\"a:1\"",
    "\"A\":",
    "\"A\"",
    "\"B\":",
    "\"@A\"",
    "\"@A(%B%,x)\"",
    "\"%A%\"",
    "\"%item%%key%\"",
    "\"@import(file:A)\"",
    "\"@if(%A%,@B,\\\\,)\"",
    "\"@range(@int(1),@int(3))\"",
    "{",
    "{",
    "}",
    "}",
    "[",
    "]",
    ",",
    ",",
    ":",
    "1",
    "-0.5e3",
    "true",
    "null",
    "/* \n */",
];

fn files(text: &str) -> Files {
    Files::default().with("file:A", text).with("file:B", "{\"servers\": [\"b:1\"], \"inherit\": \"A\"}")
}

fn check_error(error: &ConfigError, text: &str) {
    let lines = text.matches('\n').count() as u32 + 1;
    assert!(!error.reason.is_empty() && (1..=lines).contains(&error.place.line), "{error}");
}

fn check(text: &str) {
    let files = files(text);
    let loaded = match read_with(&files, text) {
        Ok(loaded) => loaded,
        Err(error) => return check_error(&error, text),
    };
    let shown = loaded.json.to_string();
    assert_eq!(read_with(&files, text).unwrap().json.to_string(), shown);
    let mut pools = match Pools::new(&loaded.json, &files) {
        Ok(pools) => pools,
        Err(error) => return check_error(&error, text),
    };
    let known = loaded.json.get("pools").and_then(|pools| pools.get("A")).map(|json| json.place.clone());
    if let Some(place) = known {
        let wanted = Json { place, value: guira_routing::config::Value::Text("A".into()) };
        if let Err(error) = pools.pool(&wanted) {
            check_error(&error, text);
        }
    }
    pools.finish().warnings.iter().for_each(|warning| check_error(warning, text));
}

fn json(depth: u32) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|value| value.to_string()),
        (-1e9..1e9).prop_map(|value: f64| format!("{value:?}")),
        Just("true".to_owned()),
        Just("null".to_owned()),
        "[a-z@%(),\\\\ äß]{0,8}".prop_map(|text| format!("{text:?}")),
    ];
    leaf.prop_recursive(depth, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..6).prop_map(|members| {
                let members: Vec<String> =
                    members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: proptest::test_runner::RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        check(&text);
    }

    #[test]
    fn any_string_is_expanded_or_refused(text in "[a@%(),\\\\ ä]{0,24}") {
        let quoted = text.replace('\\', "\\\\");
        check(&format!("{{\"macros\": {{\"a\": {{\"type\": \"macroDef\", \"params\": [{{\"name\": \"a\", \"default\": \"x\"}}], \"result\": \"%a%\"}}}},\n\"ret\": \"{quoted}\"}}"));
    }

    #[test]
    fn any_words_are_read_or_refused(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..40)) {
        check(&words.concat());
        check(&format!("{{{}}}", words.concat()));
    }

    /// Without the characters that have a meaning, a configuration stands for itself; with them, it does so when they are escaped.
    #[test]
    fn a_result_stands_for_itself(json in json(4)) {
        let text = format!("{{\"ret\":{json}}}");
        check(&text);
        let plain = read(&escaped(&text)).unwrap().json.to_string();
        prop_assert_eq!(read(&escaped(&plain)).unwrap().json.to_string(), plain);
    }
}
