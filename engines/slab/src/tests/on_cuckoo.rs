//! All tests of the engine, on this index, and those of what only this one does.

use crate::Policy;

type Tested = crate::Cuckoo;

/// Whether the tests try this policy.
fn tries(_: &Policy) -> bool {
    true
}

#[path = "all.rs"]
mod all;

#[path = "full_buckets.rs"]
mod full_buckets;
