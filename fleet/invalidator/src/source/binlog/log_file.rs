//! Names of the files of the log.

use crate::source::position;

/// The number of a file, which is called NAME.NUMBER.
pub(super) fn number(name: &[u8]) -> Option<u64> {
    let digits = name.rsplit(|byte| *byte == b'.').next()?;
    position::number(str::from_utf8(digits).ok()?)
}
