//! TLS over the streams of this crate, by rustls.
//!
//! A [`crate::Stream`] with TLS is read and written like any other. Three things differ, since the layer between it
//! and its socket buffers bytes:
//!
//! - To read, the socket may have to be writable, and the other way round: [`crate::Stream::wants`] returns what to
//!   poll for.
//! - A write may not have been sent yet: call [`crate::Stream::flush`] at the beginning of each slice, and
//!   [`crate::Stream::finish`] before the stream is dropped.
//! - A read that fills the buffer may leave bytes that the poller does not report; one that does not fill it leaves
//!   none. See [`crate::Stream::has_input`].

mod acceptor;
mod certificate;
mod connector;
mod counters;
mod files;
mod options;
mod records;
mod reject_all;
mod server_check;
mod stream;

pub use acceptor::{TlsAcceptor, TlsStatus};
pub use connector::{TlsConnector, TlsName};
pub use counters::{TlsCounters, TlsFailure, TlsFault};
pub use files::TlsError;
pub use options::{
    CipherList, MinVersion, NameCheck, Resumption, TlsClientOptions, TlsOptionError, TlsOptions, VerifyMode,
};
pub use stream::{TlsFacts, TlsStream};
