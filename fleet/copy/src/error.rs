//! Why a copy ended before its end.

use guira_client::pools;
use guira_client::text::TextError;

/// Why a copy ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source cannot be connected to, or it failed while it listed its keys.
    #[error("cannot list the keys of {server}: {error}")]
    List {
        /// The source.
        server: String,
        /// The cause.
        error: TextError,
    },
    /// The source does not list its keys.
    #[error(
        "{server} does not list its keys: {line}; run it without -X (disable-dumping), and send it `lru_crawler enable`"
    )]
    Refused {
        /// The source.
        server: String,
        /// Its reply.
        line: String,
    },
    /// The source lists its keys to another client, and does not end.
    #[error("{server} lists its keys for another client; run the command again later")]
    Busy {
        /// The source.
        server: String,
    },
    /// The source failed.
    #[error("cannot read from {server}: {error}; {AGAIN}")]
    Source {
        /// The source.
        server: String,
        /// The cause.
        error: TextError,
    },
    /// A server of the destination failed, and did not come back.
    #[error("cannot write to the destination: {0}; {AGAIN}")]
    Destination(pools::Error),
    /// The observer has stopped it.
    #[error("stopped; {AGAIN}")]
    Stopped,
}

/// What to do about the items that are left.
const AGAIN: &str = "run the command again to copy the rest";
