//! Built-ins, and a call of one: an argument is expanded when the built-in reads it.

use std::rc::Rc;
use std::sync::Arc;

use super::super::json::{Json, Place, Value};
use super::super::limits::steps;
use super::definitions::check_count;
use super::{Expander, Outcome, Scope, Trouble};

/// A call that every configuration has.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
}

pub(crate) enum Form {
    /// Has parameters, and may be called in either form. An argument is expanded when the built-in
    /// reads it.
    Call(&'static [Parameter], fn(&Call<'_>) -> Outcome<Rc<Json>>),
    /// May be called only as an object. Some of its members are expanded in a scope of their own.
    Object(fn(&Expander<'_>, &Json, &Scope<'_>) -> Outcome<Json>),
}

#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    Optional,
}

pub(crate) struct Call<'c> {
    pub(crate) expander: &'c Expander<'c>,
    scope: &'c Scope<'c>,
    place: &'c Place,
    name: &'static str,
    parameters: &'static [Parameter],
    arguments: Vec<Option<Arg<'c>>>,
}

/// An argument as written in the configuration.
#[derive(Clone, Copy)]
enum Arg<'c> {
    Text(&'c str),
    Json(&'c Json),
}

impl<'c> Call<'c> {
    pub(super) fn of_texts(
        expander: &'c Expander<'c>,
        scope: &'c Scope<'c>,
        place: &'c Place,
        name: &'static str,
        parameters: &'static [Parameter],
        arguments: &[&'c str],
    ) -> Outcome<Self> {
        let required = parameters.iter().filter(|parameter| parameter.presence == Presence::Required).count();
        check_count(name, arguments.len(), required, parameters.len(), place)?;
        let arguments =
            (0..parameters.len()).map(|at| arguments.get(at).map(|text| Arg::Text(text))).collect();
        Ok(Self { expander, scope, place, name, parameters, arguments })
    }

    pub(super) fn of_object(
        expander: &'c Expander<'c>,
        scope: &'c Scope<'c>,
        json: &'c Json,
        name: &'static str,
        parameters: &'static [Parameter],
    ) -> Outcome<Self> {
        let find = |parameter: &Parameter| match (json.get(parameter.name), parameter.presence) {
            (None, Presence::Required) => {
                Err(Trouble::at(&json.place, format!("the call of {name:?} has no {:?}", parameter.name)))
            }
            (found, _) => Ok(found.map(Arg::Json)),
        };
        let arguments = parameters.iter().map(find).collect::<Outcome<_>>()?;
        Ok(Self { expander, scope, place: &json.place, name, parameters, arguments })
    }

    pub(crate) fn place(&self) -> &Place {
        self.place
    }

    pub(crate) fn scope(&self) -> &Scope<'c> {
        self.scope
    }

    pub(crate) fn fail(&self, reason: impl std::fmt::Display) -> Trouble {
        Trouble::at(self.place, format!("@{}: {reason}", self.name))
    }

    pub(crate) fn result(&self, value: Value) -> Outcome<Rc<Json>> {
        Ok(Rc::new(Json { place: self.place.clone(), value }))
    }

    pub(crate) fn value(&self, at: usize) -> Outcome<Rc<Json>> {
        let value = self.optional(at)?;
        value.ok_or_else(|| self.fail(format!("has no {:?}", self.parameters[at].name)))
    }

    pub(crate) fn optional(&self, at: usize) -> Outcome<Option<Rc<Json>>> {
        match self.arguments[at] {
            None => Ok(None),
            Some(Arg::Text(text)) => self.expander.expand_text(text, self.place, self.scope).map(Some),
            Some(Arg::Json(json)) => {
                let value = self.expander.expand_shared(json, self.scope);
                value.map(Some).map_err(|trouble| trouble.in_member(self.parameters[at].name))
            }
        }
    }

    pub(crate) fn integer(&self, at: usize) -> Outcome<i64> {
        let json = self.value(at)?;
        match json.value {
            Value::Integer(value) => Ok(value),
            _ => Err(self.expected(at, &json, "an integer")),
        }
    }

    pub(crate) fn boolean(&self, at: usize) -> Outcome<bool> {
        let json = self.value(at)?;
        match json.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.expected(at, &json, "true or false")),
        }
    }

    pub(crate) fn text(&self, at: usize) -> Outcome<Arc<str>> {
        let json = self.value(at)?;
        match &json.value {
            Value::Text(value) => Ok(Arc::clone(value)),
            _ => Err(self.expected(at, &json, "a string")),
        }
    }

    /// The error of an argument of another kind.
    pub(crate) fn expected(&self, at: usize, json: &Json, what: &str) -> Trouble {
        self.fail(format!("{:?} is {}, {what} expected", self.parameters[at].name, json.kind()))
    }

    /// Charges a walk over the direct members of `json` to the budget.
    pub(crate) fn spend_on(&self, json: &Json) -> Outcome<()> {
        let size = match &json.value {
            Value::Array(items) => items.len() as u64,
            Value::Object(members) => members.len() as u64,
            Value::Text(text) => steps(text.len()),
            _ => 1,
        };
        self.expander.spend(size / 8 + 1, self.place)
    }
}
