//! Counting what a client's path carries.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use guira_sync::atomic::{AtomicU64, Ordering};
use guira_transport::ClientPath;

/// Bytes that went either way. Relaxed: statistics.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    out: AtomicU64,
    back: AtomicU64,
}

impl Traffic {
    /// Bytes sent and received since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.out.swap(0, Ordering::Relaxed), self.back.swap(0, Ordering::Relaxed))
    }
}

/// A path whose bytes are counted.
#[derive(Debug)]
pub(crate) struct Counted<P> {
    path: P,
    traffic: Arc<Traffic>,
}

impl<P> Counted<P> {
    /// The same path, counted in `traffic`.
    pub(crate) const fn new(path: P, traffic: Arc<Traffic>) -> Self {
        Self { path, traffic }
    }
}

impl<P: ClientPath> ClientPath for Counted<P> {
    fn cores(&self) -> usize {
        self.path.cores()
    }

    fn reach(&mut self, cores: usize) -> io::Result<()> {
        self.path.reach(cores)
    }

    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        self.path.buffer(core)
    }

    fn post(&mut self, length: usize) {
        self.traffic.out.fetch_add(length as u64, Ordering::Relaxed);
        self.path.post(length);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.path.flush()
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut bytes = 0;
        let count = self.path.receive(&mut |datagram| {
            bytes += datagram.len() as u64;
            take(datagram);
        });
        self.traffic.back.fetch_add(bytes, Ordering::Relaxed);
        count
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        self.path.wait(most)
    }
}
