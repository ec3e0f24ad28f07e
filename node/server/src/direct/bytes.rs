//! Memory that MICA's datagrams take, in bytes.

use crate::options::Options;
use guira_transport::{RING_PATH_BYTES, UDP_PATH_BYTES, client_rings_bytes};

/// Memory of one worker for its paths.
pub(crate) fn of_worker(options: &Options) -> usize {
    options.mica.len() * UDP_PATH_BYTES + if options.local.is_some() { RING_PATH_BYTES } else { 0 }
}

/// The most memory that clients on this host take for their rings: a part of the whole, and enough for a few.
pub(crate) fn of_rings(options: &Options, memory: usize) -> usize {
    const SHARE: usize = 32;
    const CLIENTS_LEAST: usize = 4;
    const MOST: usize = 64 << 20;
    if options.local.is_none() {
        return 0;
    }
    (memory / SHARE).min(MOST).max(CLIENTS_LEAST * client_rings_bytes(options.workers))
}

/// Memory that all workers together share with the kernel, for datagrams that pass its network stack.
pub(crate) fn of_interface(options: &Options) -> usize {
    options.xdp.as_ref().map_or(0, |interface| interface.options(Vec::new(), 0, options.workers).memory())
}
