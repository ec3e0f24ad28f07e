//! Where parcels for a worker arrive.

use super::Parcel;
use crossbeam_queue::ArrayQueue;
use guira_sync::atomic::{AtomicU64, Padded};
use guira_sync::sleep::{fall_asleep, must_wake, wake_up};

/// Parcels for a worker. Nobody who puts one in waits, and nobody who takes one out.
#[derive(Debug)]
pub(crate) struct Inbox<P> {
    parcels: ArrayQueue<Box<Parcel<P>>>,
    /// The worker sleeps, and has to be woken.
    asleep: Padded<AtomicU64>,
}

impl<P> Inbox<P> {
    pub(super) fn with_capacity(parcels: usize) -> Self {
        Inbox { parcels: ArrayQueue::new(parcels), asleep: Padded(AtomicU64::new(0)) }
    }

    /// Puts a parcel in. True if the worker has to be woken.
    pub(super) fn put(&self, parcel: Box<Parcel<P>>) -> bool {
        let put = self.parcels.push(parcel);
        assert!(put.is_ok(), "there is room for all parcels that there are");
        must_wake(&self.asleep.0)
    }

    /// Takes the next parcel.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<Box<Parcel<P>>> {
        self.parcels.pop()
    }

    /// The worker is about to sleep. False if there is a parcel.
    pub(super) fn doze(&self) -> bool {
        fall_asleep(&self.asleep.0);
        self.parcels.is_empty()
    }

    /// It is awake.
    pub(super) fn wake(&self) {
        wake_up(&self.asleep.0);
    }
}
