use crate::place::RegionPlace;
use std::path::PathBuf;

/// A file of one test, removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        Scratch(folder.join(format!("guira-test-{}-{name}", std::process::id())))
    }

    pub(crate) fn place(&self) -> RegionPlace {
        RegionPlace::at(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
