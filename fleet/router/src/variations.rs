//! Changes to a configuration that router options require, made before its routes are built.

use guira_routing::config::{ConfigError, Globals, Json, Sources, Value, load};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variations {
    pub runtime_vars: Option<PathBuf>,
    pub shard_splits: ShardSplits,
}

/// The use of `shard_splits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardSplits {
    Used,
    Ignored,
}

const RANGE: &str = "key_fraction_range";
/// Names the variable with a shadow's range.
const RANGE_VARIABLE: &str = "key_fraction_range_rv";
const SHARD_SPLITS: &str = "shard_splits";

/// The variables import nothing.
struct NoImports;

impl Sources for NoImports {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("runtime variables import nothing".to_owned())
    }
}

impl Variations {
    /// Changes a configuration. The file of the variables is a part of it from now on, so that it is watched.
    pub(crate) fn apply(&self, json: &mut Json, sources: &dyn Sources, warnings: &mut Vec<ConfigError>) {
        let variables = self.variables(json, sources, warnings);
        if variables.is_some() || self.shard_splits == ShardSplits::Ignored {
            self.change(json, variables.as_ref(), warnings);
        }
    }

    fn variables(&self, json: &Json, sources: &dyn Sources, warnings: &mut Vec<ConfigError>) -> Option<Json> {
        let name = self.runtime_vars.as_ref()?.display().to_string();
        let text = sources.read(&format!("file:{name}"));
        let text =
            text.map_err(|reason| json.error(format!("cannot read the runtime variables {name}: {reason}")));
        let loaded = text.and_then(|text| load(&name, &text, &NoImports, &Globals::new()));
        loaded.map(|loaded| loaded.json).map_err(|error| warnings.push(error)).ok()
    }

    fn change(&self, json: &mut Json, variables: Option<&Json>, warnings: &mut Vec<ConfigError>) {
        match &mut json.value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.change(item, variables, warnings)),
            Value::Object(members) => {
                let is_route = members.iter().any(|(name, _)| &**name == "type");
                if is_route && self.shard_splits == ShardSplits::Ignored {
                    members.retain(|(name, _)| &**name != SHARD_SPLITS);
                }
                if let Some(variables) = variables {
                    take_range(members, variables, warnings);
                }
                members.iter_mut().for_each(|(_, json)| self.change(json, variables, warnings));
            }
            _ => {}
        }
    }
}

/// Gives a shadow the range that its variable has, if there is one.
fn take_range(members: &mut Vec<(Arc<str>, Json)>, variables: &Json, warnings: &mut Vec<ConfigError>) {
    let Some(place) = members.iter().position(|(name, _)| &**name == RANGE_VARIABLE) else { return };
    let Value::Text(variable) = &members[place].1.value else { return };
    let range = variables.get(variable);
    if range.is_some_and(|range| !is_range(range)) {
        let wrong = variables.error(format!("{variable:?} is not a range: two numbers from 0 to 1 expected"));
        warnings.push(wrong);
    }
    members.remove(place);
    if let Some(range) = range.filter(|range| is_range(range)) {
        members.retain(|(name, _)| &**name != RANGE);
        members.push((RANGE.into(), range.clone()));
    }
}

fn is_range(json: &Json) -> bool {
    let Value::Array(items) = &json.value else { return false };
    let number = |json: &Json| json.number(RANGE, 0.0..=1.0).ok();
    match items.as_slice() {
        [from, to] => matches!((number(from), number(to)), (Some(from), Some(to)) if from <= to),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_routing::config::Texts;

    fn varied(variations: &Variations, config: &str, variables: &str) -> (String, Vec<String>) {
        let others = [("file:/vars".to_owned(), Ok(variables.to_owned()))].into();
        let texts = Texts { main: config.to_owned(), others };
        let mut json = load("c", config, &texts, &Globals::new()).unwrap().json;
        let mut warnings = Vec::new();
        variations.apply(&mut json, &texts, &mut warnings);
        (json.to_string(), warnings.iter().map(ToString::to_string).collect())
    }

    fn variables() -> Variations {
        Variations { runtime_vars: Some("/vars".into()), shard_splits: ShardSplits::Used }
    }

    #[test]
    fn a_variable_takes_the_place_of_a_range() {
        let config = r#"{"shadows": [{"key_fraction_range": [0, 1], "key_fraction_range_rv": "share"}]}"#;
        let with = |variables_text| varied(&variables(), config, variables_text);
        let own = r#"{"shadows":[{"key_fraction_range":[0,1]}]}"#;
        assert_eq!(
            with(r#"{"share": [0.25, 0.5]} // A comment."#),
            (r#"{"shadows":[{"key_fraction_range":[0.25,0.5]}]}"#.to_owned(), vec![])
        );
        assert_eq!(with("{}"), (own.to_owned(), vec![]));
        let (json, warnings) = with(r#"{"share": [0.5, 0.25]}"#);
        assert_eq!(json, own);
        assert!(warnings[0].contains("is not a range"), "{warnings:?}");
        // Without variables the configuration is as it was written.
        let (json, warnings) = with("{");
        let as_written = r#"{"shadows":[{"key_fraction_range":[0,1],"key_fraction_range_rv":"share"}]}"#;
        assert_eq!((json.as_str(), warnings.len()), (as_written, 1), "{warnings:?}");
    }

    #[test]
    fn shard_splits_of_routes_are_ignored_if_asked() {
        let config =
            r#"{"route": {"type": "PoolRoute", "shard_splits": {"a": 2}}, "pools": {"shard_splits": 1}}"#;
        let ignored = Variations { runtime_vars: None, shard_splits: ShardSplits::Ignored };
        let expected = r#"{"route":{"type":"PoolRoute"},"pools":{"shard_splits":1}}"#;
        assert_eq!(varied(&ignored, config, "").0, expected);
    }
}
