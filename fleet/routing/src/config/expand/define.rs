//! The definitions of a configuration: its member `macros`.

use std::rc::Rc;
use std::sync::Arc;

use super::super::json::{ConfigError, Json, Value};
use super::definitions::{Constant, Macro};
use super::{Expander, Form};

impl Expander<'_> {
    /// Reads `macros`: an object of definitions, or an array of such. What it contains is expanded, its definitions are not.
    pub(in super::super) fn define(&mut self, json: &Json) -> Result<(), ConfigError> {
        let json = self.expand_file(json)?;
        match json.value {
            Value::Object(members) => {
                for (name, definition) in members {
                    self.define_one(name, definition)?;
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.define(&item)?;
                }
            }
            _ => return Err(json.error(format!("'macros' is {}, an object or array expected", json.kind()))),
        }
        Ok(())
    }

    fn define_one(&mut self, name: Arc<str>, definition: Json) -> Result<(), ConfigError> {
        let Json { place, value: Value::Object(mut members) } = definition else {
            return Err(definition
                .error(format!("the definition of {name:?} is {}, an object expected", definition.kind())));
        };
        let mut take = |wanted: &str| {
            members.iter().position(|(known, _)| **known == *wanted).map(|at| members.swap_remove(at).1)
        };
        let missing = |what: &str| place.error(format!("the definition of {name:?} has no '{what}'"));
        let kind = take("type").ok_or_else(|| missing("type"))?;
        let result = take("result");
        match kind.text("type")? {
            "macroDef" => {
                let result = result.ok_or_else(|| missing("result"))?;
                let defined = Macro::new(&name, take("params").as_ref(), result)?;
                if self.built_ins.get(&*name).is_some_and(|row| matches!(row.form, Form::Call(..))) {
                    self.warnings
                        .push(place.error(format!("the macro {name:?} replaces the built-in of this name")));
                }
                self.macros.insert(name, Rc::new(defined));
            }
            "constDef" => {
                let result = Rc::new(result.ok_or_else(|| missing("result"))?);
                self.constants.insert(name, Constant::unexpanded(result));
            }
            other => {
                let reason =
                    format!("the 'type' of {name:?} is {other:?}, \"macroDef\" or \"constDef\" expected");
                return Err(kind.error(reason));
            }
        }
        Ok(())
    }
}
