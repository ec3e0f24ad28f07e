//! Paths: ways by which datagrams reach the thread that answers them, many at a time.
//!
//! A server's thread has a [`ServerPath`] of its own for each way that leads to it; a client has a [`ClientPath`] to all threads of a
//! server, of which it picks one for each datagram (MICA, section 4.2). What is in the datagrams nobody here knows.
//!
//! Datagrams may be lost, doubled and reordered on every path, as the network does it. Nothing here blocks but [`ClientPath::wait`],
//! except that a client who finds that a server on its host has gone looks for the next one for a fraction of a second.

mod losses;
mod ring;
mod rooms;
mod segments;
mod udp;
mod xdp;

pub use losses::{LossMeter, Losses};
pub use ring::{
    Lender, RING_PATH_BYTES, RingClientPath, RingError, RingServerPath, client_rings_bytes, ring_paths,
};
pub use udp::{UDP_PATH_BYTES, UdpClientPath, UdpServerPath};
pub use xdp::{
    XdpAttach, XdpChecksums, XdpClientOptions, XdpClientPath, XdpCopying, XdpError, XdpFacts, XdpMode,
    XdpServerOptions, XdpServerPath, XdpSteering,
};

use rustix::fd::BorrowedFd;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The longest datagram, in bytes, on every path: what a packet of 1,500 bytes holds behind the headers of IPv6 and UDP.
pub const PAYLOAD_MAX: usize = 1452;

/// The most datagrams that are taken together.
pub const BURST_MAX: usize = 64;

/// What was sent of a burst's answers. The others are lost, as datagrams may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: usize,
    /// Bytes of them, without headers.
    pub bytes: usize,
}

/// Whether a thread may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Park {
    /// It may: the bell will ring.
    Quiet,
    /// It may not: something has arrived just now.
    Pending,
}

/// A server's end of a path, for one thread.
///
/// ```text
/// receive → for each datagram: exchange, answer → send → receive …
/// ```
pub trait ServerPath: Debug + Send {
    /// What kind of path it is, for people.
    fn name(&self) -> &'static str;

    /// Takes what has arrived, at most [`BURST_MAX`] datagrams, and returns how many. Those of the burst before are forgotten, and their
    /// answers with them if they were not sent. Datagrams longer than [`PAYLOAD_MAX`] are dropped.
    ///
    /// # Errors
    /// If the path is of no more use. What went wrong with one datagram is no error.
    fn receive(&mut self) -> io::Result<usize>;

    /// The datagram `index` of the burst, and room of [`PAYLOAD_MAX`] bytes for its answer. The room lies elsewhere than the datagram: it
    /// can be written while that is read. It may hold anything.
    ///
    /// # Panics
    /// If there is no such datagram.
    fn exchange(&mut self, index: usize) -> (&[u8], &mut [u8]);

    /// The first `length` bytes of the room are the answer to datagram `index`. Without this it has none.
    ///
    /// # Panics
    /// If there is no such datagram, or that is more than the room.
    fn answer(&mut self, index: usize, length: usize);

    /// Sends the answers.
    fn send(&mut self) -> Sent;

    /// What to poll for, with [`crate::Interest::Read`], while the thread sleeps.
    fn bell(&self) -> BorrowedFd<'_>;

    /// The thread is about to sleep. Unless something has arrived, the bell rings when something does.
    fn park(&mut self) -> Park;

    /// Tells of datagrams that were lost on the way to the thread. `None` if that cannot happen here.
    fn meter(&self) -> Option<Arc<dyn LossMeter>> {
        None
    }

    /// The thread is awake again. Called after each [`ServerPath::park`], also if it returned [`Park::Pending`].
    fn unpark(&mut self);
}

/// A client's end of a path, to all threads of a server.
pub trait ClientPath: Debug + Send {
    /// How many threads it leads to.
    fn cores(&self) -> usize;

    /// Leads to so many threads from now on. What was posted and not sent is lost, as what is on its way may be.
    ///
    /// # Errors
    /// If the path is of no more use.
    fn reach(&mut self, cores: usize) -> io::Result<()>;

    /// Room for a datagram of [`PAYLOAD_MAX`] bytes to thread `core`. `None` if too much is under way: receive first.
    ///
    /// # Panics
    /// If there is no such thread.
    fn room(&mut self, core: usize) -> Option<&mut [u8]>;

    /// The first `length` bytes of the room that [`ClientPath::room`] gave last are a datagram. It is sent with the next
    /// [`ClientPath::flush`], if not before.
    ///
    /// # Panics
    /// If there was no room, or that is more than it.
    fn post(&mut self, length: usize);

    /// Sends what was posted.
    ///
    /// # Errors
    /// If the path is of no more use. What the system does not take is lost.
    fn flush(&mut self) -> io::Result<()>;

    /// Gives each datagram that has arrived to `take`, and returns how many: at most [`BURST_MAX`].
    ///
    /// # Errors
    /// If the path is of no more use.
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize>;

    /// Waits until something may have arrived, or for so long.
    ///
    /// # Errors
    /// If the path is of no more use.
    fn wait(&mut self, most: Duration) -> io::Result<()>;
}

impl<P: ClientPath + ?Sized> ClientPath for Box<P> {
    fn cores(&self) -> usize {
        (**self).cores()
    }

    fn reach(&mut self, cores: usize) -> io::Result<()> {
        (**self).reach(cores)
    }

    fn room(&mut self, core: usize) -> Option<&mut [u8]> {
        (**self).room(core)
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
