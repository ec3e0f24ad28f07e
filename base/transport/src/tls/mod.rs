//! TLS over the streams of this crate, by rustls.
//!
//! A [`crate::Stream`] that speaks TLS is read and written as any other. Three things are different, since there is a
//! layer between it and its socket that holds bytes of its own:
//!
//! - To read, the socket may have to be writable, and the other way round: [`crate::Stream::wants`] says what to poll
//!   for.
//! - What a write has taken may not have been sent yet: [`crate::Stream::flush`] at the beginning of each turn, and
//!   [`crate::Stream::finish`] before the stream is dropped.
//! - A read that fills the buffer may leave more behind that the poller does not know of; one that does not fill it
//!   leaves nothing. [`crate::Stream::has_input`] tells.

mod acceptor;
mod certificate;
mod counters;
mod files;
mod nobody;
mod options;
mod records;
mod stream;

pub use acceptor::{TlsAcceptor, TlsStatus};
pub use counters::{TlsCounters, TlsFailure, TlsFault};
pub use files::TlsError;
pub use options::{CipherList, MinVersion, Resumption, TlsOptionError, TlsOptions, VerifyMode};
pub use stream::{TlsFacts, TlsStream};
