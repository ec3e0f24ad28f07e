//! What tests of policies share.

use crate::policy::{Id, Policy};

/// Asks for each key and stores it if it is not there; 1 for a hit.
pub(crate) fn hits(mut policy: impl Policy, ids: &[Id]) -> Vec<u8> {
    let ask = |(number, &id): (usize, &Id)| {
        policy.begin(number);
        let is_held = policy.read(id);
        if !is_held {
            policy.insert(id, 1);
        }
        u8::from(is_held)
    };
    ids.iter().enumerate().map(ask).collect()
}
