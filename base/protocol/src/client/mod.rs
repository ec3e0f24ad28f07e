//! The client's side of the protocols: requests are appended to a buffer, and replies are read from the bytes that
//! have arrived. No I/O, and nothing is allocated but the caller's buffer of requests.
//!
//! [`read`] takes the first text reply off the input, [`read_packet`] the first packet. Both say how many bytes the
//! reply has, or how many have to arrive first, so the input may come in any pieces.

mod equal;
mod failure;
mod key_list;
mod meta;
mod packet;
mod reply;
mod request;
mod words;

pub use equal::are_equal;
pub use failure::{Failure, failure};
pub use key_list::{KeyList, KeyWalk, Listed, ListedKey, list_keys, listed};
pub use meta::{MetaReply, belongs};
pub use packet::{
    PacketReply, ReadPacket, RequestHeader, arithmetic_extras, packet, read_packet, store_extras,
};
pub use reply::{LineTooLong, MetaHit, Read, Reply, Value, line, meta_hit, read, value_of};
pub use request::{
    Item, META_NOOP, MetaRequest, VERSION, arithmetic, begin_get, begin_store, debug, delete, end_line,
    end_store, flush_all, get, login, meta, meta_store, stats, store, touch,
};
pub use words::{has_flag, words};
