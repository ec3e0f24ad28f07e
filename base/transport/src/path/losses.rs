//! Counters of datagrams that a path dropped.

use guira_sync::atomic::{AtomicU64, Ordering};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use std::fmt::Debug;
use std::sync::{Arc, Weak};

/// Datagrams that reached a server's path and were dropped, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Malformed, or longer than [`crate::PAYLOAD_MAX`].
    pub unreadable: u64,
    /// Dropped by the kernel, because the thread was too slow.
    pub overrun: u64,
}

/// Reads the losses of a path from any thread. After the path was closed it returns the last values.
pub trait LossMeter: Debug + Send + Sync {
    /// The losses so far. May make a system call.
    fn losses(&self) -> Losses;
}

/// The number of malformed datagrams, counted by the path's thread alone. Relaxed: a statistic.
#[derive(Clone, Debug, Default)]
pub(super) struct Unreadable(Arc<AtomicU64>);

impl Unreadable {
    pub(super) fn note(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Reads from sockets how many datagrams the kernel dropped.
#[derive(Debug)]
pub(super) struct SocketMeter<S> {
    /// Weak: the meter does not keep them open.
    sockets: Vec<Weak<S>>,
    unreadable: Unreadable,
    overrun_of: fn(&S) -> u64,
    /// The last value, so that the count does not decrease when the path is closed. Relaxed: a statistic.
    reported: AtomicU64,
}

impl<S> SocketMeter<S> {
    pub(super) fn new<'s>(
        sockets: impl Iterator<Item = &'s Arc<S>>,
        unreadable: &Unreadable,
        overrun_of: fn(&S) -> u64,
    ) -> Self
    where
        S: 's,
    {
        SocketMeter {
            sockets: sockets.map(Arc::downgrade).collect(),
            unreadable: unreadable.clone(),
            overrun_of,
            reported: AtomicU64::new(0),
        }
    }
}

impl<S: Debug + Send + Sync> LossMeter for SocketMeter<S> {
    fn losses(&self) -> Losses {
        let open = self.sockets.iter().filter_map(Weak::upgrade);
        let overrun = open.map(|socket| (self.overrun_of)(&socket)).sum();
        Losses {
            unreadable: self.unreadable.0.load(Ordering::Relaxed),
            overrun: self.reported.fetch_max(overrun, Ordering::Relaxed).max(overrun),
        }
    }
}

/// The number of datagrams that the kernel dropped because this socket's buffer was full; 0 if the kernel does not
/// report it.
pub(super) fn dropped(socket: &impl AsFd) -> u64 {
    let fd: BorrowedFd<'_> = socket.as_fd();
    let mut numbers = [0u32; MEMINFO_NUMBERS];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `numbers`, any of which are numbers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let is_told = result == 0 && length as usize > MEMINFO_DROPS * size_of::<u32>();
    if is_told { u64::from(numbers[MEMINFO_DROPS]) } else { 0 }
}

/// The numbers of `SO_MEMINFO`, and the index of the number of dropped packets (linux/sock_diag.h).
const MEMINFO_NUMBERS: usize = 9;
const MEMINFO_DROPS: usize = 8;
