//! Paths: transports of datagrams to the threads of a server, in bursts.
//!
//! A server's thread has its own [`ServerPath`] for each transport; a client has a [`ClientPath`] to all threads of a
//! server, and chooses the thread for each datagram (MICA, section 4.2). Paths do not interpret the datagrams.
//!
//! As in any network, every path may lose, duplicate and reorder datagrams. Only [`ClientPath::wait`] blocks, except
//! that a client whose server on the same host is gone spends a fraction of a second looking for its successor.

mod buffers;
mod losses;
mod ring;
mod segments;
mod udp;
mod xdp;

pub use losses::{LossMeter, Losses};
pub use ring::{
    Lender, RING_PATH_BYTES, RingClientPath, RingError, RingServerPath, client_rings_bytes, ring_paths,
};
pub use udp::{UDP_PATH_BYTES, UdpClientPath, UdpServerPath};
pub use xdp::{
    XdpAttach, XdpChecksums, XdpClientOptions, XdpClientPath, XdpError, XdpFacts, XdpMode, XdpServerOptions,
    XdpServerPath,
};

use crate::AcceptError;
use rustix::fd::BorrowedFd;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The longest datagram, in bytes, on every path: what a packet of 1,500 bytes holds behind the headers of IPv6 and UDP.
pub const PAYLOAD_MAX: usize = 1452;

/// The most datagrams in a burst.
pub const BURST_MAX: usize = 64;

/// The answers of a burst that were sent. The others are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub datagrams: usize,
    /// Their bytes, without headers.
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// It may: the bell will become readable.
    Quiet,
    /// It may not: a datagram has arrived.
    Pending,
}

/// A server's end of a path, for one thread.
///
/// ```text
/// receive → for each datagram: exchange, answer → send → receive …
/// ```
pub trait ServerPath: Send {
    /// The kind of path, for log messages.
    fn name(&self) -> &'static str;

    /// Receives at most [`BURST_MAX`] datagrams that have arrived, and returns their number. Discards the previous
    /// burst, with answers that were not sent. Datagrams longer than [`PAYLOAD_MAX`] are dropped.
    ///
    /// # Errors
    /// If the path has failed. A fault of a single datagram is not an error.
    fn receive(&mut self) -> io::Result<usize>;

    /// Datagram `index` of the burst, and a buffer of [`PAYLOAD_MAX`] bytes for its answer, with arbitrary contents.
    /// The two do not overlap.
    ///
    /// # Panics
    /// If there is no such datagram.
    fn exchange(&mut self, index: usize) -> (&[u8], &mut [u8]);

    /// Answers datagram `index` with the first `length` bytes of its buffer. Datagrams without this call get no
    /// answer.
    ///
    /// # Panics
    /// If there is no such datagram, or `length` exceeds the buffer.
    fn answer(&mut self, index: usize, length: usize);

    fn send(&mut self) -> Sent;

    /// The descriptor to poll, with [`crate::Interest::Read`], while the thread is blocked.
    fn bell(&self) -> BorrowedFd<'_>;

    /// Announces that the thread is about to block. Unless a datagram has arrived, the bell becomes readable when one
    /// does.
    fn park(&mut self) -> Park;

    /// Reads the path's losses. `None` if the path cannot lose datagrams.
    fn meter(&self) -> Option<Arc<dyn LossMeter>> {
        None
    }

    /// Why the path accepts no new clients, if that is new since the last call.
    fn failure(&mut self) -> Option<AcceptError> {
        None
    }

    /// Announces that the thread runs again. Called after each [`ServerPath::park`], also if it returned
    /// [`Park::Pending`].
    fn unpark(&mut self);
}

impl fmt::Debug for dyn ServerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerPath")
    }
}

/// A client's end of a path, to all threads of a server.
pub trait ClientPath: Send {
    /// The number of the server's threads.
    fn cores(&self) -> usize;

    /// Sets the number of the server's threads. Datagrams that were not flushed are lost.
    ///
    /// # Errors
    /// If the path has failed.
    fn reach(&mut self, cores: usize) -> io::Result<()>;

    /// A buffer of [`PAYLOAD_MAX`] bytes for a datagram to thread `core`. `None` if too many datagrams are in flight:
    /// receive first.
    ///
    /// # Panics
    /// If there is no such thread.
    fn buffer(&mut self, core: usize) -> Option<&mut [u8]>;

    /// Queues the first `length` bytes of the last buffer from [`ClientPath::buffer`] as a datagram. It is sent with
    /// the next [`ClientPath::flush`], or earlier.
    ///
    /// # Panics
    /// If there was no buffer, or `length` exceeds it.
    fn post(&mut self, length: usize);

    /// Sends the queued datagrams.
    ///
    /// # Errors
    /// If the path has failed. Datagrams that the system does not accept are lost.
    fn flush(&mut self) -> io::Result<()>;

    /// Passes each datagram that has arrived to `take`, and returns their number: at most [`BURST_MAX`].
    ///
    /// # Errors
    /// If the path has failed.
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Waits until a datagram may have arrived, or for the given time.
    ///
    /// # Errors
    /// If the path has failed.
    fn wait(&mut self, most: Duration) -> io::Result<()>;
}

impl fmt::Debug for dyn ClientPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientPath")
    }
}

impl<P: ClientPath + ?Sized> ClientPath for Box<P> {
    fn cores(&self) -> usize {
        (**self).cores()
    }

    fn reach(&mut self, cores: usize) -> io::Result<()> {
        (**self).reach(cores)
    }

    fn buffer(&mut self, core: usize) -> Option<&mut [u8]> {
        (**self).buffer(core)
    }

    fn post(&mut self, length: usize) {
        (**self).post(length);
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        (**self).receive(take)
    }

    fn wait(&mut self, most: Duration) -> io::Result<()> {
        (**self).wait(most)
    }
}
