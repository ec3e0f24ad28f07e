//! Macros and constants of a configuration.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use super::super::json::{ConfigError, Json, Place, Value};
use super::{Outcome, Trouble};

pub(super) struct Macro {
    name: Arc<str>,
    parameters: Vec<Parameter>,
    /// The first parameters, which have neither a default nor the mark `optional`.
    required: usize,
    result: Json,
}

struct Parameter {
    name: Arc<str>,
    default: Option<Rc<Json>>,
}

/// A constant, or a parameter of the router. It is expanded on its first use.
pub(super) struct Constant(RefCell<State>);

#[derive(Clone)]
enum State {
    Unexpanded(Rc<Json>),
    Open,
    Value(Rc<Json>),
    /// A parameter of the router, which needs no expansion.
    Global(Value),
}

impl Macro {
    pub(super) fn new(name: &Arc<str>, parameters: Option<&Json>, result: Json) -> Result<Self, ConfigError> {
        let mut read: Vec<Parameter> = Vec::new();
        let mut names = HashSet::new();
        let mut required = 0;
        for json in parameters.map(|json| json.list("params")).transpose()?.unwrap_or_default() {
            let (parameter, is_required) = Parameter::new(json)?;
            if !names.insert(Arc::clone(&parameter.name)) {
                return Err(json.error(format!("macro {name:?} has two parameters {:?}", parameter.name)));
            }
            if is_required && required < read.len() {
                let reason = "parameters with a default, or optional ones, come last";
                return Err(json.error(format!("macro {name:?}: {reason}")));
            }
            required += usize::from(is_required);
            read.push(parameter);
        }
        Ok(Self { name: Arc::clone(name), parameters: read, required, result })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Steps that a call with this many arguments takes.
    pub(super) fn steps(&self, arguments: usize) -> u64 {
        self.parameters.len() as u64 * (1 + arguments as u64 / 8)
    }

    pub(super) fn result(&self) -> &Json {
        &self.result
    }

    /// The parameters and their values, if the macro is called by its name in a string.
    pub(super) fn bind_texts(
        &self,
        arguments: &[&str],
        place: &Place,
        expand: impl Fn(&str) -> Outcome<Rc<Json>>,
    ) -> Outcome<Vec<(Arc<str>, Rc<Json>)>> {
        check_count(&self.name, arguments.len(), self.required, self.parameters.len(), place)?;
        let mut values = Vec::with_capacity(self.parameters.len());
        for (index, parameter) in self.parameters.iter().enumerate() {
            let value = match arguments.get(index) {
                Some(argument) => Some(expand(argument)?),
                None => parameter.default.clone(),
            };
            values.extend(value.map(|value| (Arc::clone(&parameter.name), value)));
        }
        Ok(values)
    }

    /// Binds the members of an object that is a call.
    pub(super) fn bind_members(
        &self,
        json: &Json,
        expand: impl Fn(&Json) -> Outcome<Rc<Json>>,
    ) -> Outcome<Vec<(Arc<str>, Rc<Json>)>> {
        let mut values = Vec::with_capacity(self.parameters.len());
        for (index, parameter) in self.parameters.iter().enumerate() {
            let value = match json.get(&parameter.name) {
                Some(argument) => {
                    Some(expand(argument).map_err(|trouble| trouble.in_member(&parameter.name))?)
                }
                None if index < self.required => {
                    let reason = format!("the call of macro {:?} has no {:?}", self.name, parameter.name);
                    return Err(Trouble::at(&json.place, reason));
                }
                None => parameter.default.clone(),
            };
            values.extend(value.map(|value| (Arc::clone(&parameter.name), value)));
        }
        Ok(values)
    }
}

pub(super) fn check_count(name: &str, given: usize, min: usize, max: usize, place: &Place) -> Outcome<()> {
    if (min..=max).contains(&given) {
        return Ok(());
    }
    let wanted = if min == max { format!("{min}") } else { format!("{min} to {max}") };
    Err(Trouble::at(place, format!("{name:?} is called with {given} arguments, {wanted} expected")))
}

impl Parameter {
    /// And whether each call has to give it.
    fn new(json: &Json) -> Result<(Self, bool), ConfigError> {
        if let Value::Text(name) = &json.value {
            return Ok((Self { name: Arc::clone(name), default: None }, true));
        }
        let mut object = json.object("params")?;
        let name = Arc::clone(object.required_as("name", Json::shared_text)?);
        let optional = object.optional_as("optional", Json::boolean)?;
        let default = object.optional("default");
        if default.is_some() && optional == Some(false) {
            return Err(json.error(format!("the parameter {name:?} has a default and is not optional")));
        }
        // A default of null is no default, but makes the parameter optional.
        let is_required = default.is_none() && optional != Some(true);
        let default = default.filter(|json| !matches!(json.value, Value::Null));
        Ok((Self { name, default: default.map(|json| Rc::new(json.clone())) }, is_required))
    }
}

impl Constant {
    pub(super) fn unexpanded(json: Rc<Json>) -> Self {
        Self(RefCell::new(State::Unexpanded(json)))
    }

    /// A parameter of the router.
    pub(super) fn global(value: &Value) -> Self {
        Self(RefCell::new(State::Global(value.clone())))
    }

    /// `expand` is called once, for the first value.
    pub(super) fn value(
        &self,
        name: &str,
        place: &Place,
        expand: impl FnOnce(&Json) -> Outcome<Rc<Json>>,
    ) -> Outcome<Rc<Json>> {
        let state = self.0.borrow().clone();
        match state {
            State::Value(value) => Ok(value),
            State::Global(value) => Ok(Rc::new(Json { place: place.clone(), value })),
            State::Open => Err(Trouble::at(place, format!("the constant {name:?} depends on itself"))),
            State::Unexpanded(json) => {
                self.0.replace(State::Open);
                let value = expand(&json);
                let next =
                    value.as_ref().map_or(State::Unexpanded(json), |value| State::Value(Rc::clone(value)));
                self.0.replace(next);
                value.map_err(|trouble| trouble.via(|| format!("constant {name:?}")))
            }
        }
    }
}
