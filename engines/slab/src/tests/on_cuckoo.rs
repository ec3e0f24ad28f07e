//! All tests of the engine, on this index, and those of what only this one does.

type Tested = crate::Cuckoo;

#[path = "all.rs"]
mod all;

#[path = "full_buckets.rs"]
mod full_buckets;
