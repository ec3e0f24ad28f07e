//! The calls that every configuration has, each a row: `@name(…)` or `{"type": "name", …}`.

mod collections;
mod compare;
mod decisions;
mod hashing;
mod loops;
mod numbers;
mod values;

use std::rc::Rc;

use super::expand::{BuiltIn, Call, Expander, Form, Outcome, Parameter, Presence, Scope};
use super::json::Json;

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
