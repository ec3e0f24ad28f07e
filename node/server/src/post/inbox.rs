//! Where parcels for a worker arrive.

use super::Parcel;
use crossbeam_queue::ArrayQueue;
use guira_sync::atomic::{AtomicBool, Ordering, Padded, fence};

/// Parcels for a worker. Nobody who puts one in waits, and nobody who takes one out.
#[derive(Debug)]
pub(crate) struct Inbox<P> {
    parcels: ArrayQueue<Box<Parcel<P>>>,
    /// The worker sleeps, and has to be woken.
    asleep: Padded<AtomicBool>,
}

impl<P> Inbox<P> {
    pub(super) fn with_capacity(parcels: usize) -> Self {
        Inbox { parcels: ArrayQueue::new(parcels), asleep: Padded(AtomicBool::new(false)) }
    }

    /// Puts a parcel in. True if the worker has to be woken.
    pub(super) fn put(&self, parcel: Box<Parcel<P>>) -> bool {
        let put = self.parcels.push(parcel);
        assert!(put.is_ok(), "there is room for all parcels that there are");
        // SeqCst: pairs with the fence in `doze`: either the worker sees the parcel, or this thread sees that it sleeps.
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed)
    }

    /// Takes the next parcel.
    #[inline(always)]
    pub(super) fn take(&self) -> Option<Box<Parcel<P>>> {
        self.parcels.pop()
    }

    /// The worker is about to sleep. False if there is a parcel.
    pub(super) fn doze(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `put`.
        fence(Ordering::SeqCst);
        self.parcels.is_empty()
    }

    /// It is awake.
    pub(super) fn wake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}
