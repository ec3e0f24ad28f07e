//! A successor that takes over from a running server, without refusing a client.
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
//!                                         ◄──  CONNECTIONS with what was read and not executed
//!                                         ◄──  REGION the open file, and the engine's state
//! opens the region, makes its workers
//! OPENED                                  ──►
//!                                         ◄──  COMMIT the point of no return
//! its workers begin
//! SERVING                                 ──►  ends
//! ```
//!
//! **Who has the items.** The predecessor keeps everything it gives away (the descriptors are copies) until it has read SERVING. Up to
//! COMMIT nobody has stored anything since its own workers ended: if the successor refuses, dies, or takes too long, which is when it is
//! killed, the predecessor continues with what it has, items too. Between COMMIT and SERVING the successor may have stored: if it dies
//! there, the predecessor continues with an empty region. If it refuses there, it had given up before it read COMMIT, and has stored
//! nothing. Two processes never serve clients from the region.
//!
//! **The time** goes over with the region: the server's clock is a monotonic one, so that no step of the wall clock expires an item,
//! and it continues as if the process had not changed ([`HandedTime`]).
//!
//! **What does not go over.** TLS connections, watchers, lists that are being sent, and values that have arrived in part: these end what
//! they do if it takes no longer than `STRAGGLERS`, and are closed. Without a region the items are lost, and the log says so.
//!
//! **Versions.** Both processes may be of any build. A message has its length, and its fields have theirs ([`guira_serving::Fields`]):
//! what is not known is passed over. The head of a HELLO never changes; versions that have none in common refuse each other.

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

/// Why a takeover fails, or cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    #[error("cannot use the takeover socket {path}")]
    Socket { path: PathBuf, source: io::Error },
    /// The link between the two processes.
    #[error("cannot reach the other server")]
    Link(#[from] io::Error),
    /// It has ended, or closed the link.
    #[error("the other server exited")]
    Gone,
    /// It says nothing.
    #[error("timeout: no reply from the other server")]
    Late,
    /// It says something else than it should.
    #[error("protocol error on the takeover socket: {0}")]
    Unknown(&'static str),
    #[error("the other process runs as another user")]
    Foreign,
    /// If it failed, nothing could keep it from going on with the region.
    #[error("cannot signal the other process: it may be in another PID namespace")]
    OutOfReach,
    /// It will not.
    #[error("the other server refused: {0}")]
    Refused(String),
    /// The region is not the predecessor's.
    #[error("the running server keeps its items in {theirs}, this one {ours}: use the same --region")]
    OtherRegion { theirs: String, ours: String },
    /// The successor could not continue with the items.
    #[error("a takeover would lose the items of the running server: {0}")]
    WouldEmpty(String),
    #[error("lists of items are still being sent")]
    Busy,
    /// The region stays where it is.
    #[error("the running server keeps its region")]
    Kept(#[from] CloseError),
    /// It is not known what the items are.
    #[error("a worker of the running server panicked; starting empty")]
    Panicked,
}
