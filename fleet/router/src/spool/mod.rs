//! Deletes that could not be delivered: they are logged before they are acknowledged, in mcrouter's files, and delivered when their server is back.
//!
//! ```text
//! Flow ── DeleteLog ──► LogWriter ──► files ──► Replayer ──► servers
//!   ▲        │ a worker's   │ one thread           one thread
//!   └────────┴── Written ◄──┘
//! ```

mod counts;
mod entry;
mod file;
#[cfg(test)]
pub(crate) mod named;
mod names;
mod options;
mod pending;
mod replay;
mod running;
mod writer;

pub(crate) use counts::{LogCount, LogCounts};
pub(crate) use entry::Delete;
#[cfg(test)]
pub(crate) use entry::HoldOff;
pub use entry::LogVersion;
pub use file::LogSync;
pub use options::LogOptions;
pub(crate) use pending::{DeleteLog, LogAccess, Waiting};
pub use replay::{
    FileEnd, FileFate, FileReport, Left, LeftReason, Remarks, ReplayError, ReplayManner, ReplayOptions,
    ReplayReport, ReplayTakes, replay,
};
pub(crate) use running::Logging;
pub(crate) use writer::Written;
