//! Sans-io codecs of memcached's protocols, for servers and clients. No I/O, no clock, no panics, and no allocation.
//!
//! Semantics and error strings are those of memcached 1.6.45. In a server, [`cut`] takes a [`Line`] off the input,
//! [`parse`] turns it into a [`Command`], and the reply is written into a [`ReplyBuffer`]. [`client`] is the other side:
//! it writes requests and reads replies. Both take their words from [`word`].

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod admin;
pub mod binary;
mod classic;
pub mod client;
mod line;
mod meta;
pub mod mica;
mod number;
mod relocate;
mod reply;
mod usual;
pub mod word;

pub use admin::AdminVerb;
pub use classic::{
    Arithmetic, Command, Delete, Direction, Get, GetForm, Keys, ServerCommand, Store, Touch, Unique, Verb,
    parse,
};
pub use line::{BAD_FORMAT, Cut, Fault, Line, Noreply, UNKNOWN, cut, noreply};
pub use meta::{
    KeyBuffer, Meta, MetaFlags, MetaGet, MetaKey, MetaSet, MetaVerb, Mode, encode_key, fits_in_text,
};
pub use number::{Exptime, NumberReader, exact_i32, exact_u32, number_from};
pub use reply::{Replies, ReplyBuffer, Writer};
pub use usual::{Usual, usual};

/// The longest key, in bytes.
pub const KEY_MAX: usize = 250;

/// The longest value that a command can announce, in bytes.
pub const VALUE_MAX: u32 = i32::MAX as u32 - 2;
