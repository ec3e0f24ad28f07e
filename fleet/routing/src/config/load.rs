//! A file → what the tree of handles is built of.

use std::sync::Arc;

use super::builtins;
use super::expand::Expander;
use super::globals::Globals;
use super::json::{ConfigError, Json, Value};
use super::limits::{Budget, RESULT_SIZE, steps};
use super::parse::parse;
use super::sources::Sources;

#[derive(Debug)]
pub struct Loaded {
    /// Without `macros`, and with all of them expanded.
    pub json: Json,
    /// All imported files, including imports of imports: the configuration is out of date when one
    /// of them changes. Unreadable files that a default replaced are included.
    pub imports: Vec<Arc<str>>,
    pub warnings: Vec<ConfigError>,
}

/// Reads a configuration and expands all macros, calls and imports in it.
pub fn load(name: &str, text: &str, sources: &dyn Sources, globals: &Globals) -> Result<Loaded, ConfigError> {
    let budget = Budget::new();
    let source = Arc::from(name);
    let mut json = parse(&source, text, &budget)?;
    let place = json.place.clone();
    let Value::Object(members) = &mut json.value else {
        return Err(json.error(format!("a configuration is an object, this is {}", json.kind())));
    };
    let macros = members.iter().position(|(name, _)| &**name == "macros").map(|at| members.remove(at).1);

    let mut expander = Expander::new(sources, globals, builtins::all(), budget);
    if let Some(macros) = macros {
        expander.define(&macros)?;
    }
    let json = expander.expand_file(&json)?;
    if size(&json) > RESULT_SIZE {
        return Err(place.error(format!("the expanded configuration has more than {RESULT_SIZE} values")));
    }
    let (imports, warnings) = expander.finish();
    Ok(Loaded { json, imports, warnings })
}

fn size(json: &Json) -> u64 {
    match &json.value {
        Value::Text(text) => steps(text.len()),
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(members) => {
            1 + members.iter().map(|(name, json)| steps(name.len()) - 1 + size(json)).sum::<u64>()
        }
        _ => 1,
    }
}
