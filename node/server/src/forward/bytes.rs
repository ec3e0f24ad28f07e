//! Memory that forwarding takes, in bytes.

use crate::options::Options;

/// The most that a worker keeps in forward batches that are not in use.
pub(super) const SPARE: usize = 256 << 10;

/// Memory of one worker while no forward batch is in use.
pub(crate) fn of_worker(options: &Options) -> usize {
    let has_homes =
        options.choice().is_ok_and(|choice| choice.access().is_some_and(|access| access != "crcw"));
    let is_used = options.workers > 1 && has_homes;
    if is_used { SPARE } else { 0 }
}
