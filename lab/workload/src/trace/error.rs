//! What can be wrong with a trace, and where.

use std::io;

use crate::keys::KEY_LEN_MAX;

/// Why a trace cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("{place} {number}: {kind}")]
pub struct TraceError {
    pub place: Place,
    /// Which one, from 1.
    pub number: u64,
    pub kind: TraceErrorKind,
}

/// What the number in a [`TraceError`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Line,
    Request,
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Line => "line",
            Self::Request => "request",
        })
    }
}

/// What can be wrong with a request of a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceErrorKind {
    /// The input could not be read or decompressed.
    #[error("{0}")]
    Read(io::Error),
    /// The input is something else, as its first bytes say.
    #[error("the file is {0}, which is not supported: use a plain file or zstd")]
    Other(&'static str),
    /// Nothing says what the input is.
    #[error(
        "cannot detect the format: the file is not text, and its first 32-bit numbers are all different. Set the format, such as \
         --format be-u32"
    )]
    Unrecognised,
    /// The input ends within a request.
    #[error("the trace ends within a request, {0} bytes into it")]
    Truncated(usize),
    /// The first line does not name the columns that are needed.
    #[error("the first line must name the columns, and among them one of {0}")]
    Header(&'static str),
    /// A line has too few or too many fields.
    #[error("{found} fields instead of {expected}")]
    Fields { found: usize, expected: String },
    /// A field that must be a number is not.
    #[error("the {field} {text:?} is not a number")]
    Number { field: &'static str, text: String },
    /// A line that stands for more requests than any real one does.
    #[error("the line has {0} requests; the maximum is {REPEATS_MAX}")]
    Repeats(u64),
    /// An operation that is not known.
    #[error("unknown operation {0:?}")]
    Operation(String),
    /// A key that the memcached protocol does not allow.
    #[error(
        "the key has {0} bytes, or a blank or control character; 1 to {KEY_LEN_MAX} visible bytes are allowed"
    )]
    Key(usize),
    /// A line that is too long to be a request.
    #[error("the line is longer than {0} bytes")]
    LineTooLong(usize),
}

/// The most requests that one line may stand for: a broken count must not keep a reader busy for days.
pub(super) const REPEATS_MAX: u64 = 1 << 20;

impl TraceErrorKind {
    /// Whether only one request is affected, so that the next can be read.
    pub(super) const fn is_local(&self) -> bool {
        !matches!(self, Self::Read(_) | Self::Header(_))
    }
}
