//! Functions on arrays, objects and strings: their size, items, parts and combinations. Positions
//! and lengths in strings are in bytes.

use std::rc::Rc;
use std::sync::Arc;

use super::super::expand::{Call, Members, Outcome};
use super::super::json::{Json, Value};
use super::super::limits::steps;
use super::{BuiltIn, call, compare, optional, required};

pub(super) const ROWS: &[BuiltIn] = &[
    call("keys", &[required("dictionary")], keys),
    call("values", &[required("dictionary")], values),
    call("merge", &[required("params")], merge),
    call("select", &[required("dictionary"), required("key"), optional("default")], select),
    call("slice", &[required("dictionary"), required("from"), required("to")], slice),
    call("split", &[required("dictionary"), required("delim")], split),
    call("set", &[required("dictionary"), required("key"), required("value")], set),
    call("range", &[required("from"), required("to")], range),
    call("contains", &[required("dictionary"), required("key")], contains),
    call("empty", &[required("dictionary")], |call| call.result(Value::Bool(length(call)? == 0))),
    call("size", &[required("dictionary")], |call| call.result(Value::Integer(length(call)?))),
    call("sort", &[required("dictionary")], sort),
];

const ANY: &str = "an array, object or string";

fn length(call: &Call<'_>) -> Outcome<i64> {
    let json = call.value(0)?;
    match &json.value {
        Value::Array(items) => Ok(items.len() as i64),
        Value::Object(members) => Ok(members.len() as i64),
        Value::Text(text) => Ok(text.len() as i64),
        _ => Err(call.expected(0, &json, ANY)),
    }
}

fn keys(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let Value::Object(members) = &json.value else { return Err(call.expected(0, &json, "an object")) };
    call.expander.spend(members.len() as u64, call.place())?;
    let name = |(name, json): &(Arc<str>, Json)| Json {
        place: json.place.clone(),
        value: Value::Text(name.clone()),
    };
    call.result(Value::Array(members.iter().map(name).collect()))
}

fn values(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let Value::Object(members) = &json.value else { return Err(call.expected(0, &json, "an object")) };
    let values = members.iter().map(|(_, json)| call.expander.copy(json)).collect::<Outcome<_>>()?;
    call.result(Value::Array(values))
}

/// Arrays in a row, strings in a row, or objects, of which later ones replace members of earlier ones.
fn merge(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let params = call.value(0)?;
    let Value::Array(parts) = &params.value else { return Err(call.expected(0, &params, "an array")) };
    let Some(first) = parts.first() else { return Err(call.fail("\"params\" is empty")) };
    let wrong = |part: &Json| call.fail(format!("{} cannot be merged with {}", part.kind(), first.kind()));
    let value = match &first.value {
        Value::Array(_) => {
            let mut items = Vec::new();
            for part in parts {
                let Value::Array(more) = &part.value else { return Err(wrong(part)) };
                for item in more {
                    items.push(call.expander.copy(item)?);
                }
            }
            Value::Array(items)
        }
        Value::Object(_) => {
            let mut members = Members::default();
            for part in parts {
                let Value::Object(more) = &part.value else { return Err(wrong(part)) };
                for (name, json) in more {
                    members.insert(Arc::clone(name), call.expander.copy(json)?);
                }
            }
            members.into_value()
        }
        Value::Text(_) => {
            let mut text = String::new();
            for part in parts {
                let Value::Text(more) = &part.value else { return Err(wrong(part)) };
                call.expander.spend(steps(more.len()), call.place())?;
                text.push_str(more);
            }
            Value::Text(text.into())
        }
        _ => return Err(call.fail(format!("{} cannot be merged, {ANY} expected", first.kind()))),
    };
    call.result(value)
}

/// One member of an object, or item of an array; a negative position counts from the end.
fn select(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let key = call.value(1)?;
    call.spend_on(&json)?;
    let (found, what) = match (&json.value, &key.value) {
        (Value::Object(_), Value::Text(name)) => (json.get(name), format!("{name:?}")),
        (Value::Array(items), Value::Integer(at)) => {
            let from_start = if *at < 0 { at.checked_add(items.len() as i64) } else { Some(*at) };
            let position = from_start.and_then(|at| usize::try_from(at).ok());
            (position.and_then(|at| items.get(at)), format!("position {at} of {}", items.len()))
        }
        (Value::Object(_), _) => return Err(call.expected(1, &key, "a string")),
        (Value::Array(_), _) => return Err(call.expected(1, &key, "an integer")),
        _ => return Err(call.expected(0, &json, "an array or object")),
    };
    match found {
        Some(found) => call.expander.copy(found).map(Rc::new),
        None => match call.optional(2)? {
            Some(default) => Ok(default),
            None => Err(call.fail(format!("no {what} and no default"))),
        },
    }
}

/// From one position or name to another; both are part of it.
fn slice(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let value = match &json.value {
        Value::Object(members) => {
            let (from, to) = (call.text(1)?, call.text(2)?);
            call.spend_on(&json)?;
            let within = members.iter().filter(|(name, _)| (&from..=&to).contains(&name));
            let copied = within.map(|(name, json)| Ok((Arc::clone(name), call.expander.copy(json)?)));
            Value::Object(copied.collect::<Outcome<_>>()?)
        }
        Value::Array(items) => {
            let (from, end) = bounds(call, items.len())?;
            let copied = items[from..end].iter().map(|item| call.expander.copy(item));
            Value::Array(copied.collect::<Outcome<_>>()?)
        }
        Value::Text(text) => {
            let (from, end) = bounds(call, text.len())?;
            call.spend_on(&json)?;
            let part = text.get(from..end);
            let part =
                part.ok_or_else(|| call.fail(format!("bytes {from} to {end} of {text:?} cut a character")))?;
            Value::Text(part.into())
        }
        _ => return Err(call.expected(0, &json, ANY)),
    };
    call.result(value)
}

/// The begin and the end of a slice, within `length`.
fn bounds(call: &Call<'_>, length: usize) -> Outcome<(usize, usize)> {
    let from = usize::try_from(call.integer(1)?.max(0)).unwrap_or(usize::MAX);
    let end = usize::try_from(call.integer(2)?.saturating_add(1).max(0)).unwrap_or(usize::MAX);
    let end = end.min(length);
    Ok((from.min(end), end))
}

/// The pieces between the delimiters; one more than there are delimiters.
fn split(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let (text, delimiter) = (call.text(0)?, call.text(1)?);
    let count = if delimiter.is_empty() { 0 } else { text.matches(&*delimiter).count() };
    call.expander.spend(steps(text.len()) + count as u64, call.place())?;
    let piece = |piece: &str| Json { place: call.place().clone(), value: Value::Text(piece.into()) };
    let pieces =
        if delimiter.is_empty() { vec![piece(&text)] } else { text.split(&*delimiter).map(piece).collect() };
    call.result(Value::Array(pieces))
}

fn set(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let mut json = call.expander.own(call.value(0)?, call.place())?;
    let key = call.value(1)?;
    let value = call.expander.own(call.value(2)?, call.place())?;
    call.spend_on(&json)?;
    match (&mut json.value, &key.value) {
        (Value::Object(members), Value::Text(name)) => {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = value,
                None => members.push((Arc::clone(name), value)),
            }
        }
        (Value::Array(items), Value::Integer(at)) => {
            let length = items.len();
            let item = usize::try_from(*at).ok().and_then(|at| items.get_mut(at));
            *item.ok_or_else(|| call.fail(format!("there is no position {at} of {length}")))? = value;
        }
        (Value::Object(_), _) => return Err(call.expected(1, &key, "a string")),
        (Value::Array(_), _) => return Err(call.expected(1, &key, "an integer")),
        _ => return Err(call.expected(0, &json, "an array or object")),
    }
    Ok(Rc::new(json))
}

/// The integers from one to another, both among them.
fn range(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let (from, to) = (call.integer(0)?, call.integer(1)?);
    let length = if from > to { 0 } else { to.abs_diff(from).saturating_add(1) };
    call.expander.spend(length, call.place())?;
    let item = |value| Json { place: call.place().clone(), value: Value::Integer(value) };
    call.result(Value::Array((from..=to).map(item).collect()))
}

/// Whether an object has the name, an array the item, or a string the part.
fn contains(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let key = call.value(1)?;
    call.spend_on(&json)?;
    let found = match (&json.value, &key.value) {
        (Value::Object(_), Value::Text(name)) => json.get(name).is_some(),
        (Value::Text(text), Value::Text(part)) => text.contains(&**part),
        (Value::Object(_) | Value::Text(_), _) => return Err(call.expected(1, &key, "a string")),
        (Value::Array(items), _) => {
            let mut found = false;
            for item in items {
                found = found || compare::equal(call, item, &key)?;
            }
            found
        }
        _ => return Err(call.expected(0, &json, ANY)),
    };
    call.result(Value::Bool(found))
}

fn sort(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let mut json = call.expander.own(call.value(0)?, call.place())?;
    let weight = compare::weight(&json);
    let Value::Array(items) = &mut json.value else { return Err(call.expected(0, &json, "an array")) };
    let weight = weight.ok_or_else(|| call.fail("objects have no order"))?;
    let rounds = u64::from(items.len().max(1).ilog2() + 1);
    call.expander.spend((weight / 8 + 1).saturating_mul(rounds), call.place())?;
    items.sort_by(|a, b| compare::order(a, b).expect("there are no objects"));
    Ok(Rc::new(json))
}
