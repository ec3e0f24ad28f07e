//! The path for clients on the same host: rings in shared memory.
//!
//! ```text
//! client                        memory of the client (memfd)                   worker
//! post, flush ──► requests ring ──► receive         one pair of rings for each worker
//!     receive ◄── answers ring  ◄── answer, send
//! ```
//!
//! While both ends are busy, there are no system calls. An end that is about to block announces it in the ring it
//! reads from, and is woken by a byte through a pair of sockets. A client connects to a UNIX socket, whose
//! permissions control access, and receives the memory and its ends of those pairs over it; the connection stays open
//! as long as both ends live.
//!
//! The server does not trust the contents: the client may write anything at any time. It copies each datagram before
//! it parses it, and disconnects a client whose rings are invalid.

mod bell;
mod client;
mod handshake;
mod lane;
mod server;
mod shared;

pub use client::RingClientPath;
pub use handshake::client_rings_bytes;
pub use server::{Lender, RING_PATH_BYTES, RingError, RingServerPath, ring_paths};

#[cfg(test)]
mod tests;
