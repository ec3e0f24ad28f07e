//! Values that are read where they lie.

use std::fmt::Debug;

/// A long value that stays in place until this is dropped.
pub trait ValuePin: Debug + Send {
    /// Length of the value, in bytes.
    fn value_len(&self) -> usize;

    /// The bytes of the value from `from` on that lie next to each other: at least one if `from < value_len()`.
    fn piece(&self, from: usize) -> &[u8];
}
