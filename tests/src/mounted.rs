//! A file system that can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::scratch::Scratch;
use crate::skip;

/// A file system in memory, unmounted on drop.
#[derive(Debug)]
pub struct Mounted(Scratch);

impl Mounted {
    /// One of so many mebibytes. `None` if it cannot be had; then the test says that it is left out.
    pub fn new(mebibytes: usize) -> Option<Self> {
        let scratch = Scratch::new();
        let size = format!("size={mebibytes}m");
        let mount = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(scratch.path()).stderr(Stdio::null()).status();
        if !mounted.is_ok_and(|status| status.success()) {
            skip::say("no file system can be mounted");
            return None;
        }
        Some(Mounted(scratch))
    }

    /// The path of the file `name` in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes somebody else's file of so many mebibytes.
    ///
    /// # Panics
    /// If there is no room for it.
    pub fn take(&self, mebibytes: usize) {
        fs::write(self.file("other"), vec![1; mebibytes << 20]).expect("there is room");
    }

    /// Writes somebody else's file until there is no room.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn take_all(&self) {
        let mut other = File::create(self.file("other")).expect("a file can be made");
        while other.write_all(&[1; 4096]).is_ok() {}
    }

    /// Removes somebody else's file.
    ///
    /// # Panics
    /// If it is not there.
    pub fn give(&self) {
        fs::remove_file(self.file("other")).expect("it was written");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}
