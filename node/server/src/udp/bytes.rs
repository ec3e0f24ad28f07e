//! Memory that UDP takes, in bytes.

use guira_serving::{FRAME_BYTES, FRAMED_MAX};
use guira_transport::DATAGRAMS_BYTES;

/// The memory that a worker keeps for a reply; a longer one borrows from the budget of connections until the worker has
/// sent the reply.
pub(super) const REPLY_KEPT: usize = 64 << 10;

/// A worker sends collected replies from this length on: one call sends this much.
pub(super) const OUTGOING_FULL: usize = 64 * (FRAME_BYTES + FRAMED_MAX);

/// Memory of a worker that serves datagrams, beside the memory of every worker.
pub(crate) const OF_WORKER: usize = DATAGRAMS_BYTES + 2 * OUTGOING_FULL + REPLY_KEPT;
