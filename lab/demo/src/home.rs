//! The folder of a region.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The prefix of temporary folders.
pub(crate) const PREFIX: &str = "guira-fleet-";
/// The socket of the admin listener, for users who may read the folder.
pub(crate) const CONTROL: &str = "control";
/// The path of a socket has room for this many bytes; names in the folder take up to 16.
const PATH_MAX: usize = 107 - 16;

/// The folder of all files of a region. A temporary one is removed at the end.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    path: PathBuf,
    is_temporary: bool,
}

impl Home {
    /// The named folder, which has to be empty or missing, or a new temporary one.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub(crate) fn open(named: Option<&Path>) -> io::Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id())),
        };
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        match builder.create(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && named.is_some() => {
                if fs::read_dir(&path)?.next().is_some() {
                    return Err(io::Error::other("the folder is not empty"));
                }
            }
            Err(error) => return Err(error),
        }
        let home = Home { path: fs::canonicalize(&path)?, is_temporary: named.is_none() };
        if home.path.as_os_str().len() > PATH_MAX {
            return Err(io::Error::other(format!(
                "the path is longer than {PATH_MAX} bytes, too long for sockets in it"
            )));
        }
        Ok(home)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: &str) -> io::Result<PathBuf> {
        let path = self.file(name);
        fs::write(&path, contents)?;
        Ok(path)
    }

    pub(crate) fn folder(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.file(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

impl Home {
    /// Removes the folder if it is temporary.
    pub(crate) fn clear(&self) {
        if self.is_temporary {
            // Files that remain do no harm.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Home;
    use guira_harness::scratch::Scratch;

    #[test]
    fn a_folder_that_was_named_is_empty_at_first_and_stays() {
        let scratch = Scratch::new();
        let path = scratch.file("region");
        Home::open(Some(&path)).unwrap().clear();
        let home = Home::open(Some(&path)).unwrap();
        home.write("x", "y").unwrap();
        home.clear();
        assert!(path.exists());
        let why = Home::open(Some(&path)).unwrap_err().to_string();
        assert!(why.contains("not empty"), "{why}");
        let why = Home::open(Some(&scratch.file(&"x".repeat(100)))).unwrap_err().to_string();
        assert!(why.contains("longer"), "{why}");
    }

    #[test]
    fn a_temporary_one_is_removed() {
        let home = Home::open(None).unwrap();
        let path = home.path().to_owned();
        assert!(path.exists());
        home.clear();
        assert!(!path.exists());
    }
}
