//! Errors of a run.

use std::io;
use std::path::PathBuf;

use guira_client::mica::ClientError;

use crate::reply_error::ReplyError;

/// Why a load, a replay or a bench could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A connection could not be opened.
    #[error("cannot connect to {addr}")]
    Connect { addr: std::net::SocketAddr, source: io::Error },
    /// MICA's datagrams could not be sent.
    #[error("cannot query {way}")]
    Direct { way: String, source: ClientError },
    /// A request that MICA's datagrams cannot carry.
    #[error("a request of the load cannot be sent")]
    Request(#[from] ClientError),
    /// A connection failed while it was used.
    #[error("connection {index} failed")]
    Connection { index: usize, source: io::Error },
    /// The server closed a connection that still waited for replies.
    #[error("the server closed connection {index} with {unanswered} requests unanswered")]
    Closed {
        index: usize,
        /// How many requests were never answered.
        unanswered: usize,
    },
    /// A reply was not what the protocol allows here.
    #[error("connection {index}: a reply breaks the protocol")]
    Reply { index: usize, source: ReplyError },
    /// The server was silent for a long time.
    #[error("the server sent nothing for {seconds} s")]
    Silent { seconds: u64 },
    /// A system call of the event loop failed.
    #[error("{action}")]
    System { action: &'static str, source: io::Error },
    /// A server process could not be started or did not come up.
    #[error("server {name}: {problem}")]
    Server {
        /// The server's name in the bench.
        name: String,
        problem: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {path}")]
    File { path: PathBuf, source: io::Error },
    /// A request asks for a value longer than the pool of values holds.
    #[error("a value of {len} bytes exceeds the announced maximum of {max}")]
    ValueTooLong { len: usize, max: usize },
    /// TLS could not be prepared, or a server does not agree to it.
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Options(String),
    /// A trace could not be read.
    #[error("cannot read the trace")]
    Trace(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A plot could not be drawn.
    #[error("cannot draw {name}: {problem}")]
    Plot { name: String, problem: String },
    /// More requests were never answered than is allowed.
    #[error("{lost} of {requests} requests had no reply; the limit is {} %", .limit * 100.0)]
    Lost { lost: u64, requests: u64, limit: f64 },
    /// The server answered with wrong contents.
    #[error("{count} replies were wrong; the first: {first}")]
    WrongReplies { count: u64, first: String },
    /// An operation writes to more cache lines that other workers touch than it may.
    #[error("{0}")]
    AboveLimits(String),
    /// Values that others have stored before.
    #[error(
        "the server was not empty ({items} items before the replay): run flush_all first; {count} values were not those of the trace"
    )]
    NotEmpty { items: u64, count: u64 },
}

impl LoadError {
    pub(crate) fn system(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
