//! Replacement policies: which item goes when memory is needed.

pub mod clock;
