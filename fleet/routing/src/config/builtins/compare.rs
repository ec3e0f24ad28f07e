//! Equality and order of values, as folly's `dynamic` has them, which mcrouter keeps its values in.

use std::cmp::Ordering;

use super::super::expand::{Call, Outcome};
use super::super::json::{Json, Value};
use super::super::limits::steps;

/// Whether two values are the same. An integer equals a number of its size.
pub(super) fn equal(call: &Call<'_>, a: &Json, b: &Json) -> Outcome<bool> {
    call.expander.spend(1, call.place())?;
    Ok(match (&a.value, &b.value) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Integer(a), Value::Integer(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => {
            call.expander.spend(steps(a.len().min(b.len())), call.place())?;
            a == b
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal(call, a, b)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(members), Value::Object(others)) => {
            if members.len() != others.len() {
                return Ok(false);
            }
            for (name, member) in members {
                call.spend_on(b)?;
                let Some(other) = b.get(name) else { return Ok(false) };
                if !equal(call, member, other)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Integer(_) | Value::Number(_), Value::Integer(_) | Value::Number(_)) => {
            order(a, b) == Some(Ordering::Equal)
        }
        _ => false,
    })
}

/// Which value comes first; none if objects are among them, which have no order. Values of different kinds come in the order of their
/// kinds. A total order, so that it can sort.
pub(super) fn order(a: &Json, b: &Json) -> Option<Ordering> {
    Some(match (&a.value, &b.value) {
        (Value::Object(_), _) | (_, Value::Object(_)) => return None,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => numbers(*a, *b),
        (Value::Integer(a), Value::Number(b)) => mixed(*a, *b),
        (Value::Number(a), Value::Integer(b)) => mixed(*b, *a).reverse(),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Array(items), Value::Array(others)) => {
            for (item, other) in items.iter().zip(others) {
                match order(item, other)? {
                    Ordering::Equal => {}
                    unequal => return Some(unequal),
                }
            }
            items.len().cmp(&others.len())
        }
        _ => rank(a).cmp(&rank(b)),
    })
}

/// Values in `json`, and pieces of text: what a comparison may have to look at. None if there are objects among them.
pub(super) fn weight(json: &Json) -> Option<u64> {
    match &json.value {
        Value::Object(_) => None,
        Value::Array(items) => items.iter().try_fold(1, |sum, item| Some(sum + weight(item)?)),
        Value::Text(text) => Some(steps(text.len())),
        _ => Some(1),
    }
}

fn numbers(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

/// Exact: as numbers, large integers that differ would be equal.
fn mixed(integer: i64, number: f64) -> Ordering {
    // A cast ends at the bounds of the integers.
    integer.cmp(&(number.trunc() as i64)).then_with(|| numbers(integer as f64, number))
}

fn rank(json: &Json) -> u8 {
    match json.value {
        Value::Null => 0,
        Value::Array(_) => 1,
        Value::Bool(_) => 2,
        Value::Integer(_) | Value::Number(_) => 3,
        Value::Object(_) => 4,
        Value::Text(_) => 5,
    }
}
