//! Requests of clients, from bytes to replies, without I/O.
//!
//! ```text
//! bytes ── Reader ── Batch ── Runner ── replies
//!             text, packets      │
//!                                ├─ the engine, for items
//!                                ├─ other workers, for items that are theirs (crate::forward)
//!                                └─ server: commands without a key
//! ```
//!
//! [`Interpreter`] drives them for a conversation, whose place in its protocol is in a [`ProtocolState`]. It executes
//! itself what does not belong into a batch: faults, gets of many keys, and values that arrive in pieces.

mod batch;
mod group;
mod interpreter;
mod long_value;
mod packets;
mod reader;
mod runner;
mod server;
mod state;
mod text;
mod values;

pub(crate) use batch::{BATCH, Batch, Keyed, Kind, Order, Request, Subject};
pub(crate) use interpreter::Interpreter;
pub(crate) use reader::Reader;
pub(crate) use runner::{Execute, Runner, is_local};
pub(crate) use state::{Phase, ProtocolState};
