//! Numbers of handles, servers and logs.

use std::num::NonZeroU32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// A server with the way to it. Numbers stay the same when a configuration is loaded again that has it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub u32);

/// A name under which deletes that fail are logged: mcrouter's asynclog name. Numbers stay the same when a configuration is loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogName(NonZeroU32);

impl LogName {
    pub(crate) fn new(index: usize) -> Self {
        LogName(NonZeroU32::MIN.saturating_add(index as u32))
    }

    /// Its place among [`crate::Destinations::logs`].
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}
