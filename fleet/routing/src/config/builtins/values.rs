//! Casts, and what kind a value is.

use std::rc::Rc;

use super::super::expand::{Call, Outcome, Trouble};
use super::super::json::{Json, Value};
use super::{BuiltIn, call, required};

pub(super) const ROWS: &[BuiltIn] = &[
    call("int", &[required("value")], int),
    call("double", &[required("value")], double),
    call("str", &[required("value")], str),
    call("bool", &[required("value")], bool),
    call("isArray", &[required("value")], |call| is(call, |value| matches!(value, Value::Array(_)))),
    call("isBool", &[required("value")], |call| is(call, |value| matches!(value, Value::Bool(_)))),
    call("isInt", &[required("value")], |call| is(call, |value| matches!(value, Value::Integer(_)))),
    call("isDouble", &[required("value")], |call| is(call, |value| matches!(value, Value::Number(_)))),
    call("isObject", &[required("value")], |call| is(call, |value| matches!(value, Value::Object(_)))),
    call("isString", &[required("value")], |call| is(call, |value| matches!(value, Value::Text(_)))),
];

fn is(call: &Call<'_>, test: fn(&Value) -> bool) -> Outcome<Rc<Json>> {
    call.result(Value::Bool(test(&call.value(0)?.value)))
}

fn cannot(call: &Call<'_>, json: &Json) -> Trouble {
    let shown: String = match &json.value {
        Value::Array(_) | Value::Object(_) => json.kind().into(),
        _ => json.to_string().chars().take(60).collect(),
    };
    call.fail(format!("{shown} has no such value"))
}

fn int(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let value = match &json.value {
        Value::Bool(value) => Some(i64::from(*value)),
        Value::Integer(value) => Some(*value),
        // Only a number that is an integer is one. The bounds are powers of two, which are exact.
        Value::Number(value) if value.fract() == 0.0 && (-TWO_63..TWO_63).contains(value) => {
            Some(*value as i64)
        }
        Value::Text(text) => text.trim_ascii().parse().ok(),
        _ => None,
    };
    call.result(Value::Integer(value.ok_or_else(|| cannot(call, &json))?))
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

fn double(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let value = match &json.value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::Text(text) => text.trim_ascii().parse().ok().filter(|value: &f64| value.is_finite()),
        _ => None,
    };
    call.result(Value::Number(value.ok_or_else(|| cannot(call, &json))?))
}

fn str(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let value = match &json.value {
        Value::Bool(value) => u8::from(*value).to_string(),
        Value::Integer(value) => value.to_string(),
        // Long ones are written with an exponent.
        Value::Number(value) if *value == 0.0 || (1e-6..1e21).contains(&value.abs()) => value.to_string(),
        Value::Number(value) => format!("{value:E}"),
        Value::Text(_) => return Ok(json),
        _ => return Err(cannot(call, &json)),
    };
    call.result(Value::Text(value.into()))
}

/// The words that folly takes for true and false, whatever their case.
const TRUE: [&str; 5] = ["y", "yes", "t", "true", "on"];
const FALSE: [&str; 5] = ["n", "no", "f", "false", "off"];

fn bool(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let value = match &json.value {
        Value::Bool(value) => Some(*value),
        Value::Integer(value) => Some(*value != 0),
        Value::Number(value) => Some(*value != 0.0),
        Value::Text(text) => {
            let word = text.trim_ascii();
            let is_in = |words: [&str; 5]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
            match word.trim_start_matches('0') {
                "" if !word.is_empty() => Some(false),
                "1" => Some(true),
                _ if is_in(TRUE) => Some(true),
                _ if is_in(FALSE) => Some(false),
                _ => None,
            }
        }
        _ => None,
    };
    call.result(Value::Bool(value.ok_or_else(|| cannot(call, &json))?))
}
