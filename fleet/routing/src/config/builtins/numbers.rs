//! Arithmetic on integers. What does not fit into 64 bits is an error.

use std::rc::Rc;

use super::super::expand::{Call, Outcome};
use super::super::json::{Json, Value};
use super::{BuiltIn, Parameter, call, required};

const TWO: &[Parameter] = &[required("A"), required("B")];

pub(super) const ROWS: &[BuiltIn] = &[
    call("add", TWO, |call| checked(call, i64::checked_add)),
    call("sub", TWO, |call| checked(call, i64::checked_sub)),
    call("mul", TWO, |call| checked(call, i64::checked_mul)),
    call("div", TWO, |call| divided(call, i64::checked_div)),
    call("mod", TWO, |call| divided(call, i64::checked_rem)),
    call("bitwiseAnd", TWO, |call| checked(call, |a, b| Some(a & b))),
    call("bitwiseOr", TWO, |call| checked(call, |a, b| Some(a | b))),
    call("bitwiseXor", TWO, |call| checked(call, |a, b| Some(a ^ b))),
    call("bitwiseNot", &[required("A")], |call| call.result(Value::Integer(!call.integer(0)?))),
    call("bitwiseLeftShift", TWO, |call| shifted(call, |bits, by| bits << by)),
    call("bitwiseRightShift", TWO, |call| shifted(call, |bits, by| bits >> by)),
];

fn checked(call: &Call<'_>, compute: fn(i64, i64) -> Option<i64>) -> Outcome<Rc<Json>> {
    let (a, b) = (call.integer(0)?, call.integer(1)?);
    let value = compute(a, b)
        .ok_or_else(|| call.fail(format!("the result for {a} and {b} has more than 64 bits")))?;
    call.result(Value::Integer(value))
}

fn divided(call: &Call<'_>, compute: fn(i64, i64) -> Option<i64>) -> Outcome<Rc<Json>> {
    match call.integer(1)? {
        0 => Err(call.fail("division by 0")),
        _ => checked(call, compute),
    }
}

/// Shifts move bits, not a number with a sign.
fn shifted(call: &Call<'_>, shift: fn(u64, u32) -> u64) -> Outcome<Rc<Json>> {
    let (bits, by) = (call.integer(0)?.cast_unsigned(), call.integer(1)?);
    let by = u32::try_from(by).ok().filter(|by| *by < u64::BITS);
    let by = by.ok_or_else(|| call.fail("\"B\" is the number of bits to shift by, 0 to 63"))?;
    call.result(Value::Integer(shift(bits, by).cast_signed()))
}
