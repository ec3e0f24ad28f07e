//! Directories that live as long as a test.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A directory under the system's temporary directory, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

/// Directories made so far in this process.
static MADE: Mutex<u64> = Mutex::new(0);

impl Scratch {
    /// Makes a directory that nothing else uses.
    pub fn new() -> Self {
        let number = {
            let mut made = MADE.lock().expect("a test panicked while it counted directories");
            *made += 1;
            *made
        };
        let path = std::env::temp_dir().join(format!("guira-tests-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self { path }
    }

    /// Where the directory is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover directory in /tmp harms nobody, so a failure to remove it fails no test.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
