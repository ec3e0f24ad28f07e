//! A Region's file for a test.

use super::Tested;
use crate::index::Scheme;
use guira_memory::RegionPlace;
use std::path::PathBuf;

/// A file of a test's own, removed when this is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        // The same tests run for every index at the same time.
        let index = Tested::NAME;
        Scratch(folder.join(format!("guira-slab-test-{}-{index}-{name}", std::process::id())))
    }

    pub(super) fn place(&self) -> RegionPlace {
        RegionPlace::at(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
