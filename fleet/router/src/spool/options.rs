//! Options of the log of deletes.

use super::entry::LogVersion;
use super::file::LogSync;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Where and how deletes that fail are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    pub folder: PathBuf,
    pub version: LogVersion,
    pub sync: LogSync,
    /// Deletes a second that are replayed; without, another program replays the files.
    pub replay_rate: Option<NonZeroU32>,
}
