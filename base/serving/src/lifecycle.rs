//! The end of a server: whether its workers still accept, drain, or hand their connections over.

use guira_sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Lifecycle {
    /// A worker may still distribute connections that it has accepted.
    accepting: AtomicBool,
    /// Set once: no connection is accepted any more, and the present ones are closed when they are idle.
    stopping: AtomicBool,
    /// Set once: the time to drain is over, and requests in flight are abandoned.
    abandoned: AtomicBool,
    /// Set once, before `stopping`: connections are not closed but handed over.
    handing_over: AtomicBool,
}

impl Lifecycle {
    /// A worker accepts connections from now on.
    pub(crate) fn begin_to_accept(&self) {
        self.accepting.store(true, Ordering::Relaxed);
    }

    /// The acceptor has distributed all its connections.
    pub(crate) fn end_to_accept(&self) {
        // Release: pairs with the Acquire in `is_accepting`; the distributed connections are in the mailboxes.
        self.accepting.store(false, Ordering::Release);
    }

    /// Whether connections may still arrive in the mailboxes.
    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting.load(Ordering::Acquire)
    }

    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `is_stopping`.
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// To be followed by [`Lifecycle::stop`].
    pub(crate) fn hand_over(&self) {
        // Ordered by `stopping`, which is set after it and read before it.
        self.handing_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_handing_over(&self) -> bool {
        self.handing_over.load(Ordering::Relaxed)
    }
}
