//! Built-ins that use hashes or random numbers. Their results are mcrouter's, so that a choice made
//! by a configuration stays the same when the router is replaced.

use std::rc::Rc;

use super::super::expand::{Call, Outcome};
use super::super::json::{Json, Value};
use super::{BuiltIn, call, optional, required};
use crate::hash::spooky;

pub(super) const ROWS: &[BuiltIn] = &[
    call("hash", &[required("value")], hash),
    call("weightedHash", &[required("dictionary"), required("key")], weighted_hash),
    call("shuffle", &[required("dictionary"), optional("seed")], shuffle),
];

fn hash(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let hash = match &json.value {
        Value::Integer(value) => twang_mix64(value.cast_unsigned()),
        Value::Text(text) => text_hash(call, text)?,
        _ => return Err(call.expected(0, &json, "an integer or string")),
    };
    call.result(Value::Integer(hash.cast_signed()))
}

fn text_hash(call: &Call<'_>, text: &str) -> Outcome<u64> {
    call.expander.spend(super::super::limits::steps(text.len()), call.place())?;
    Ok(spooky::hash64(text.as_bytes(), 0))
}

/// The name that rendezvous hashing chooses: each name has a hash together with the key, scaled by its share of the weights, and the
/// largest wins. Of equal ones, the first in the text.
fn weighted_hash(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let json = call.value(0)?;
    let Value::Object(members) = &json.value else { return Err(call.expected(0, &json, "an object")) };
    let key = call.value(1)?;
    let key = match &key.value {
        Value::Integer(value) => value.cast_unsigned(),
        Value::Text(text) => text_hash(call, text)?,
        _ => return Err(call.expected(1, &key, "an integer or string")),
    };
    call.expander.spend(members.len() as u64, call.place())?;
    let mut weights = Vec::with_capacity(members.len());
    for (name, weight) in members {
        // mcrouter takes a value slightly below 0 for 0.
        weights.push(weight.number(name, -0.01..=f64::MAX)?.max(0.0));
    }
    let sum = weights.iter().fold(0.0, |sum, weight| sum + weight);
    if !(f64::EPSILON..=f64::MAX).contains(&sum) {
        return Err(call.fail(format!("the sum of the weights is {sum}")));
    }
    let (mut largest, mut chosen) = (-1.0, 0);
    for (at, ((name, _), weight)) in members.iter().zip(weights).enumerate() {
        let weight = weight / sum;
        let hash = twang_mix64(fnv64(name.as_bytes()).wrapping_add(key)) as f64 / u64::MAX as f64;
        let scaled = if weight > f64::EPSILON { hash.powf(1.0 / weight) } else { 0.0 };
        if scaled > largest {
            (largest, chosen) = (scaled, at);
        }
    }
    call.result(Value::Text(members[chosen].0.clone()))
}

/// Thomas Wang's mix of 64 bits, as folly has it.
fn twang_mix64(mut key: u64) -> u64 {
    key = (!key).wrapping_add(key << 21);
    key ^= key >> 24;
    key = key.wrapping_add(key << 3).wrapping_add(key << 8);
    key ^= key >> 14;
    key = key.wrapping_add(key << 2).wrapping_add(key << 4);
    key ^= key >> 28;
    key.wrapping_add(key << 31)
}

/// FNV-1.
fn fnv64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| hash.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte))
}

fn shuffle(call: &Call<'_>) -> Outcome<Rc<Json>> {
    let mut json = call.expander.own(call.value(0)?, call.place())?;
    let seed = match call.optional(1)? {
        None => call.expander.globals().shuffle_seed(),
        // mcrouter takes the lower half.
        Some(seed) => seed.integer("seed", 0..=i64::MAX)? as u32,
    };
    call.spend_on(&json)?;
    let Value::Array(items) = &mut json.value else { return Err(call.expected(0, &json, "an array")) };
    shuffle_items(items, &mut MinStd::new(seed));
    Ok(Rc::new(json))
}

/// `std::minstd_rand` of C++.
struct MinStd(u64);

impl MinStd {
    const MODULUS: u64 = 0x7fff_ffff;

    fn new(seed: u32) -> Self {
        Self((u64::from(seed) % Self::MODULUS).max(1))
    }

    /// A random number in `0..count`, as libstdc++'s `uniform_int_distribution` computes it.
    fn below(&mut self, count: u64) -> u64 {
        let numbers = Self::MODULUS - 2;
        let scale = numbers / count;
        loop {
            self.0 = self.0 * 48271 % Self::MODULUS;
            let number = self.0 - 1;
            if number < scale * count {
                return number / scale;
            }
        }
    }
}

/// libstdc++'s `std::shuffle`, which finds two positions with each random number while both fit into one.
fn shuffle_items<T>(items: &mut [T], random: &mut MinStd) {
    let length = items.len() as u64;
    if length < 2 {
        return;
    }
    if (MinStd::MODULUS - 2) / length < length {
        for at in 1..items.len() {
            items.swap(at, random.below(at as u64 + 1) as usize);
        }
        return;
    }
    let mut at = 1;
    if length.is_multiple_of(2) {
        items.swap(at, random.below(2) as usize);
        at += 1;
    }
    while at < items.len() {
        let range = at as u64 + 1;
        let both = random.below(range * (range + 1));
        items.swap(at, (both / (range + 1)) as usize);
        items.swap(at + 1, (both % (range + 1)) as usize);
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `std::shuffle` with `std::minstd_rand` of GCC 12.2 makes of 0, 1, 2 ….
    #[test]
    fn shuffles_are_those_of_libstdcxx() {
        let cases: [(u32, &[usize]); 9] = [
            (0, &[0]),
            (0, &[1, 0]),
            (1, &[3, 4, 1, 2, 0]),
            (1, &[5, 3, 1, 4, 0, 2]),
            (1, &[5, 7, 1, 4, 0, 2, 6, 9, 8, 3]),
            (7, &[2, 4, 3, 1, 0]),
            (7, &[5, 4, 0, 3, 2, 1]),
            (7, &[5, 6, 0, 3, 2, 7, 8, 1, 4, 9]),
            (u32::MAX, &[5, 7, 1, 4, 0, 2, 6, 9, 8, 3]),
        ];
        for (seed, expected) in cases {
            let mut items: Vec<usize> = (0..expected.len()).collect();
            shuffle_items(&mut items, &mut MinStd::new(seed));
            assert_eq!(items, expected, "seed {seed}");
        }
        // One position for a number.
        let mut items: Vec<u64> = (0..60_000).collect();
        shuffle_items(&mut items, &mut MinStd::new(5));
        let sum = items.iter().fold(0u64, |sum, item| sum.wrapping_mul(31).wrapping_add(*item));
        assert_eq!(sum, 13_141_850_578_907_841_878);
    }

    /// `hashInt` of mcrouter's config_preprocessor_test_file.json at 0265955761; the others by the reference of FNV.
    #[test]
    fn integers_and_names_have_the_hashes_of_folly() {
        assert_eq!(twang_mix64(2313).cast_signed(), -4_996_987_850_411_076_878);
        assert_eq!(fnv64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv64(b"a"), 0xaf63_bd4c_8601_b7be);
    }
}
