//! How far an invalidator is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::http;

/// What an invalidator says of itself.
#[derive(Clone, Debug)]
pub struct Progress {
    pub position: PathBuf,
    /// The socket of its admin listener.
    pub admin: PathBuf,
}

impl Progress {
    /// Whether all deletes of the log up to this position, the number behind the last dash of a GTID, were acknowledged by this target, for the second time too.
    pub fn has_delivered(&self, target: &str, position: u64) -> bool {
        let saved = fs::read_to_string(&self.position).ok();
        let saved = saved.and_then(|text| text.trim_end().rsplit('-').next()?.parse::<u64>().ok());
        let spool = format!("guira_invalidator_spool_bytes{{target=\"{target}\"}} 0");
        let page = || http::page(&self.admin, "/metrics");
        // In this order: the position counts what is in the spool as acknowledged.
        saved.is_some_and(|saved| saved >= position)
            && page().is_some_and(|page| page.lines().any(|line| line == spool))
    }
}

/// Whether there is a file with something in it in this folder, or in one below it: a router has logged deletes that it has not delivered.
pub fn has_files(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => has_files(&entry.path()),
        found => found.is_ok_and(|found| found.len() > 0),
    })
}
