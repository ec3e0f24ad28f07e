//! The queue of batches for a worker.

use super::ForwardBatch;
use crossbeam_queue::ArrayQueue;
use guira_sync::atomic::{AtomicU64, Padded};
use guira_sync::sleep::{fall_asleep, must_wake, wake_up};

/// Forward batches for a worker. Neither putting one in nor taking one out waits.
#[derive(Debug)]
pub(crate) struct Inbox<P> {
    batches: ArrayQueue<Box<ForwardBatch<P>>>,
    /// The worker sleeps, and has to be woken.
    asleep: Padded<AtomicU64>,
}

impl<P> Inbox<P> {
    pub(super) fn with_capacity(batches: usize) -> Self {
        Inbox { batches: ArrayQueue::new(batches), asleep: Padded(AtomicU64::new(0)) }
    }

    /// Puts a batch in. True if the worker has to be woken.
    pub(super) fn put(&self, batch: Box<ForwardBatch<P>>) -> bool {
        let put = self.batches.push(batch);
        assert!(put.is_ok(), "there is room for all batches that there are");
        must_wake(&self.asleep.0)
    }

    #[inline(always)]
    pub(super) fn take(&self) -> Option<Box<ForwardBatch<P>>> {
        self.batches.pop()
    }

    /// The worker is about to sleep. False if there is a batch.
    pub(super) fn park(&self) -> bool {
        fall_asleep(&self.asleep.0);
        self.batches.is_empty()
    }

    pub(super) fn unpark(&self) {
        wake_up(&self.asleep.0);
    }
}
