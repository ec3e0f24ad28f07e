//! The semantics of commands, written once above the engine contract.
//!
//! A worker owns an [`Executor`]: an engine's session, the time of the current batch, and counters. It executes
//! commands that guira-protocol has parsed and writes the replies into [`Replies`]. Nothing here depends on sockets
//! or on a particular engine.

#![forbid(unsafe_code)]

mod arithmetic;
pub mod binary;
mod by_class;
mod change;
mod counters;
mod debug;
mod deletion;
mod direct;
mod executor;
mod exptime;
mod item;
mod lease;
mod meta_get;
mod meta_reply;
mod meta_set;
pub mod observe;
mod prefixes;
mod report;
mod request;
mod retrieve;
mod showing;
mod sight;
mod store;
mod token;
mod uniques;

pub use guira_protocol::Replies;

pub use counters::{BY_CLASS, ClassCounters, CommandCount, CommandCounters};
pub use executor::Executor;
pub use item::{Effect, GetKey, Item, ItemPacket, PIECES_MAX, refuse_block};
pub use prefixes::reply_to_meta_prefix;
pub use retrieve::Answered;
pub use store::{Data, Incoming};
pub use token::{DeleteTime, Leases};
pub use uniques::Uniques;
