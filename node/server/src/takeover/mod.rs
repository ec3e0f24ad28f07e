//! A successor takes over from a running server, without refusing a client.
//!
//! The running server, the *predecessor*, listens on a UNIX socket ([`Door`]). A new process that is started with the same path is its
//! *successor*:
//!
//! ```text
//! successor                                    predecessor
//! HELLO versions                          ──►
//!                                         ◄──  SOCKETS listeners, UDP sockets; OFFER region, layout
//! checks options, memory, the layout of the
//! region, and binds what it does not inherit
//! READY                                   ──►  workers end between two turns; clients wait in their sockets
//!                                         ◄──  CONNECTIONS with unexecuted input
//!                                         ◄──  REGION the open file, and the engine's state
//! opens the region, makes its workers
//! OPENED                                  ──►
//!                                         ◄──  COMMIT the point of no return
//! its workers begin
//! SERVING                                 ──►  ends
//! ```
//!
//! **Ownership of the items.** The predecessor keeps everything that it sends (the descriptors are
//! copies) until it has read SERVING. Between the end of its workers and COMMIT no process stores
//! anything: if the successor refuses, dies, or exceeds its time and is killed, the predecessor
//! resumes with its items. Between COMMIT and SERVING the successor may have stored: if it dies
//! there, the predecessor resumes with an empty region. If the successor refuses there, it had
//! given up before it read COMMIT, and has stored nothing. Two processes never serve clients from
//! the region.
//!
//! **The time** is handed over with the region. The server's clock is monotonic, so that no step of
//! the wall clock expires an item, and the successor continues it ([`HandedTime`]).
//!
//! **Not handed over** are TLS connections, watchers, lists that are being sent, and partial
//! values. They may finish within `STRAGGLERS`, and are closed then. Without a region the items are
//! lost, which is logged.
//!
//! **Versions.** Both processes may be of any build. A message has its length, and its fields have
//! theirs ([`guira_serving::Fields`]): unknown fields are skipped. The head of a HELLO never
//! changes; processes without a common version refuse each other.

mod channel;
mod door;
mod hand_over;
mod handed;
mod message;
mod predecessor;
mod successor;
mod time;

pub use door::Door;
pub use hand_over::HandOverError;
pub use predecessor::Predecessor;
pub use successor::Successor;

pub(crate) use door::OfferedRegion;
pub(crate) use handed::{Incoming, Sockets};
pub(crate) use predecessor::{Bringing, region_identity};
pub(crate) use successor::{Failing, Leaving};
pub(crate) use time::HandedTime;

use guira_contract::CloseError;
use std::io;
use std::path::PathBuf;

/// The reason that a takeover fails, or cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    #[error("cannot use the takeover socket {path}")]
    Socket { path: PathBuf, source: io::Error },
    /// The link between the two processes.
    #[error("cannot reach the other server")]
    Link(#[from] io::Error),
    /// The other process has ended, or closed the socket.
    #[error("the other server exited")]
    Gone,
    /// The other process does not reply.
    #[error("timeout: no reply from the other server")]
    Late,
    /// The other process sent an unexpected message.
    #[error("protocol error on the takeover socket: {0}")]
    Unknown(&'static str),
    #[error("the other process runs as another user")]
    Foreign,
    /// If it failed, it could not be kept from using the region.
    #[error("cannot signal the other process: it may be in another PID namespace")]
    OutOfReach,
    #[error("the other server refused: {0}")]
    Refused(String),
    /// The region is not the predecessor's.
    #[error("the running server keeps its items in {theirs}, this one {ours}: use the same --region")]
    OtherRegion { theirs: String, ours: String },
    /// The successor could not restore the items.
    #[error("a takeover would lose the items of the running server: {0}")]
    WouldEmpty(String),
    #[error("lists of items are still being sent")]
    Busy,
    /// The region stays where it is.
    #[error("the running server keeps its region")]
    Kept(#[from] CloseError),
    /// The items may be wrong.
    #[error("a worker of the running server panicked; starting empty")]
    Panicked,
}
