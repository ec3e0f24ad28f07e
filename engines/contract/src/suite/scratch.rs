//! A Region's file for a test.

use guira_memory::RegionPlace;
use guira_sync::lock::Mutex;
use std::path::PathBuf;

/// A file of a test's own, in shared memory where there is any. It is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

/// Tests of one process run at the same time, each for several engines.
static FILES: Mutex<u32> = Mutex::new(0);

impl Default for Scratch {
    /// A path that nothing else uses. There is no file yet.
    fn default() -> Self {
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        let mut number = FILES.lock();
        *number += 1;
        Scratch(folder.join(format!("guira-test-{}-{}", std::process::id(), *number)))
    }
}

impl Scratch {
    /// The path, as an engine takes it.
    pub fn place(&self) -> RegionPlace {
        RegionPlace::at(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
