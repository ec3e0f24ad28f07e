//! Built-ins for conditions and branches, and those that inspect values and the environment.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::rc::Rc;

use super::super::expand::{Call, Outcome};
use super::super::json::{Json, Value};
use super::{BuiltIn, call, compare, optional, required};

pub(super) const ROWS: &[BuiltIn] = &[
    call("if", &[required("condition"), required("is_true"), required("is_false")], if_),
    call("and", &[required("A"), required("B")], |call| {
        call.result(Value::Bool(call.boolean(0)? && call.boolean(1)?))
    }),
    call("or", &[required("A"), required("B")], |call| {
        call.result(Value::Bool(call.boolean(0)? || call.boolean(1)?))
    }),
    call("not", &[required("A")], |call| call.result(Value::Bool(!call.boolean(0)?))),
    call("equals", &[required("A"), required("B")], |call| {
        call.result(Value::Bool(compare::equal(call, &*call.value(0)?, &*call.value(1)?)?))
    }),
    call("less", &[required("A"), required("B")], less),
    call("define", &[required("result")], |call| call.value(0)),
    call("defined", &[required("name")], |call| {
        let name = call.text(0)?;
        call.result(Value::Bool(call.expander.is_defined(&name, call.scope())))
    }),
    call("fail", &[required("msg")], fail),
    call("import", &[required("path"), optional("default")], import),
    call("isLocalIp", &[required("ip")], is_local_ip),
];

fn less(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let (a, b) = (call.value(0)?, call.value(1)?);
    let weights = compare::weight(&a).zip(compare::weight(&b));
    let (a_weight, b_weight) = weights.ok_or_else(|| call.fail("objects have no order"))?;
    call.expander.spend(a_weight + b_weight, call.place())?;
    call.result(Value::Bool(compare::order(&a, &b) == Some(Ordering::Less)))
}

/// Only the branch that is taken is expanded.
fn if_(call: &Call<'_>) -> Outcome<Rc<Json>> {
    if call.boolean(0)? { call.value(1) } else { call.value(2) }
}

fn fail(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let message = call.value(0)?;
    Err(match &message.value {
        Value::Text(text) => call.fail(text),
        _ => call.fail(message),
    })
}

/// The default takes the place of a file that is missing or wrong, for all imports of this name.
fn import(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let path = call.text(0)?;
    match call.expander.import(&path, call.place()) {
        Ok(result) => Ok(result),
        Err(trouble) if trouble.is_limit() => Err(trouble),
        Err(trouble) => match call.optional(1)? {
            Some(default) => {
                call.expander.remember_import(&path, &default);
                Ok(default)
            }
            None => Err(trouble),
        },
    }
}

/// A text that is no address is not local.
fn is_local_ip(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let text = call.text(0)?;
    let bare = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(&text);
    let address: Option<IpAddr> = bare.parse().ok();
    let is_local =
        address.is_some_and(|address| call.expander.globals().local_addresses().contains(&address));
    call.result(Value::Bool(is_local))
}
