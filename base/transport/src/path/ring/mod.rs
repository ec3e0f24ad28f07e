//! The path for clients on the same host: rings in memory that both processes have.
//!
//! ```text
//! client                        memory of the client (memfd)                   worker
//! post, flush ──► requests ring ──► receive         one pair of rings for each worker
//!     receive ◄── answers ring  ◄── answer, send
//! ```
//!
//! Nothing is asked of the system while both are busy. Who sleeps says so in the ring it reads from, and is woken by a byte through a pair of sockets.
//! A client connects to a UNIX socket, whose permissions say who may, and is given the memory and its ends of those pairs over it; as long
//! as it is open both are there.
//!
//! The server believes nothing that it reads there: the client may write anything at any time. It copies each datagram before it
//! looks at it, and is done with a client whose rings make no sense.

mod bell;
mod client;
mod lane;
mod meeting;
mod server;
mod shared;

pub use client::RingClientPath;
pub use meeting::client_rings_bytes;
pub use server::{Lender, RING_PATH_BYTES, RingError, RingServerPath, ring_paths};

#[cfg(test)]
mod tests;
