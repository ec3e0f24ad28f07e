//! Bytes in and out: addresses, listeners and streams, and the event loop's view of them. It knows no protocol.

mod address;
mod listener;
mod mailbox;
mod poll;
mod stream;

pub use address::{Address, AddressError};
pub use listener::{ListenError, Listener};
pub use mailbox::Mailbox;
pub use poll::{Event, Interest, Poll, Token};
pub use stream::{Progress, Stream};
