//! All tests of the engine, on this index.

use crate::Policy;

type Tested = crate::Chained;

/// Whether the tests try this policy. No order sees the index, and on cuckoo all are tried: here it is one by hand, one
/// in lists and one that draws.
fn tries(policy: &Policy) -> bool {
    matches!(policy, Policy::Clock(_) | Policy::SegLru(_) | Policy::Klru(_))
}

/// Whether the tests try policies with other options than the default ones.
const TRIES_VARIANTS: bool = false;

#[path = "all.rs"]
mod all;
