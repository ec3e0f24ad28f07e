//! A Region's file for a test.

use guira_memory::RegionPlace;
use std::path::PathBuf;

/// A file of a test's own, removed when this is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        Scratch(folder.join(format!("guira-mica-test-{}-{name}", std::process::id())))
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
