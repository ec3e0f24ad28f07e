//! What was learnt of a key ahead of an operation.

use crate::index::Version;

/// An entry that has the key's tag, and the version of the bucket where it was found.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    pub(crate) offset: u64,
    pub(crate) bucket: u32,
    pub(crate) version: Version,
}

/// No offset.
const NOWHERE: u64 = u64::MAX;

impl Guess {
    /// Whether nothing was learnt.
    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.offset == NOWHERE
    }
}

impl Default for Guess {
    fn default() -> Self {
        Guess { offset: NOWHERE, bucket: 0, version: Version::default() }
    }
}
