//! All tests of the engine, on this index, and those of what only this one does.

use crate::Policy;

type Tested = crate::Cuckoo;

/// Whether the tests try this policy.
fn tries(_: &Policy) -> bool {
    true
}

/// Whether the tests try policies with other options than the default ones.
const TRIES_VARIANTS: bool = true;

#[path = "all.rs"]
mod all;

#[path = "full_buckets.rs"]
mod full_buckets;

// Which class gives a page, and where the hand stands, depends on no index.
#[path = "hot_class.rs"]
mod hot_class;
