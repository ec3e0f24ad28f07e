//! Folders that live as long as a test or a run.

use guira_sync::atomic::{AtomicU64, Ordering};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder that only this user can read, removed on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a folder in the system's temporary folder.
    ///
    /// # Panics
    /// If the temporary folder cannot be written.
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir()).expect("the temporary folder can be written")
    }

    /// Makes a folder in `parent` that nothing else uses. Its name is not used again by this process: a program that was told of a file in a
    /// folder since removed, and looks whether it has changed, must not find another test's file there.
    ///
    /// # Errors
    /// When `parent` cannot be written.
    pub fn within(parent: &Path) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        loop {
            // Relaxed: the number alone must differ.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("guira-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the file `name` in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes the file `name`, and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&self, name: &str, contents: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, contents).expect("a scratch folder can be written");
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder left behind does no harm, so a failure to remove it fails nothing.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::Scratch;

    #[test]
    fn folders_differ_and_are_removed_with_their_files() {
        let (one, two) = (Scratch::new(), Scratch::new());
        assert_ne!(one.path(), two.path());
        assert_eq!(std::fs::read(one.write("x", "y")).unwrap(), b"y");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && two.path().exists());
    }

    #[test]
    fn the_name_of_a_removed_folder_is_not_used_again() {
        let removed = Scratch::new().path().to_owned();
        assert!(!removed.exists());
        assert!((0..10).all(|_| Scratch::new().path() != removed));
    }
}
