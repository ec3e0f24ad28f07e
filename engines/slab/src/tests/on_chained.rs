//! All tests of the engine, on this index.

type Tested = crate::Chained;

#[path = "all.rs"]
mod all;
