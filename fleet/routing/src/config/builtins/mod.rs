//! The calls that every configuration has, each a row: `@name(…)` or `{"type": "name", …}`.

mod collections;
mod compare;
mod decisions;
mod hashing;
mod loops;
mod numbers;
mod values;

use std::rc::Rc;

use super::expand::{Call, Expander, Outcome, Scope};
use super::json::Json;

pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    pub(super) form: Form,
}

pub(super) enum Form {
    /// Has parameters and both forms. An argument is expanded when it is asked for.
    Call(&'static [Parameter], fn(&Call<'_>) -> Outcome<Rc<Json>>),
    /// Only the form of an object, in which some members are expanded in a scope of their own.
    Object(fn(&Expander<'_>, &Json, &Scope<'_>) -> Outcome<Json>),
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

const fn required(name: &'static str) -> Parameter {
    Parameter { name, presence: Presence::Required }
}

const fn optional(name: &'static str) -> Parameter {
    Parameter { name, presence: Presence::Optional }
}

const fn call(
    name: &'static str,
    parameters: &'static [Parameter],
    run: fn(&Call<'_>) -> Outcome<Rc<Json>>,
) -> BuiltIn {
    BuiltIn { name, form: Form::Call(parameters, run) }
}

const fn object(name: &'static str, run: fn(&Expander<'_>, &Json, &Scope<'_>) -> Outcome<Json>) -> BuiltIn {
    BuiltIn { name, form: Form::Object(run) }
}

/// Every built-in.
pub(super) fn all() -> impl Iterator<Item = &'static BuiltIn> {
    [values::ROWS, numbers::ROWS, decisions::ROWS, collections::ROWS, loops::ROWS, hashing::ROWS]
        .into_iter()
        .flatten()
}
