//! A folder that becomes a package.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A folder, empty at first, into which files are put.
#[derive(Debug)]
pub(super) struct Tree(PathBuf);

/// Makes a folder, or empties it.
pub(super) fn empty(folder: &Path) -> Result<(), String> {
    let result = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder),
    };
    result.map_err(|error| format!("{}: {error}", folder.display()))
}

/// Removes a folder with all that is in it.
pub(super) fn remove(folder: &Path) -> Result<(), String> {
    fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

impl Tree {
    pub(super) fn new(folder: PathBuf) -> Result<Self, String> {
        empty(&folder)?;
        Ok(Tree(folder))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// The path of a file here, whose folder is made, with the permissions that all folders of packages have.
    pub(super) fn place(&self, path: &str) -> Result<PathBuf, String> {
        let mut folder = self.0.clone();
        let parents = Path::new(path).parent().into_iter().flat_map(Path::components);
        let result = std::iter::once(Ok(folder.clone())).chain(parents.map(|part| {
            folder.push(part);
            Ok::<_, std::io::Error>(folder.clone())
        }));
        for each in result {
            let made = each.and_then(|each| {
                fs::create_dir_all(&each)?;
                fs::set_permissions(&each, fs::Permissions::from_mode(0o755))
            });
            made.map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(self.0.join(path))
    }

    pub(super) fn write(&self, path: &str, mode: u32, bytes: impl AsRef<[u8]>) -> Result<(), String> {
        let place = self.place(path)?;
        let result = fs::write(&place, bytes)
            .and_then(|()| fs::set_permissions(&place, fs::Permissions::from_mode(mode)));
        result.map_err(|error| format!("{path}: {error}"))
    }

    pub(super) fn copy(&self, source: &Path, path: &str, mode: u32) -> Result<(), String> {
        let bytes = fs::read(source).map_err(|error| format!("{}: {error}", source.display()))?;
        self.write(path, mode, bytes)
    }

    pub(super) fn link(&self, path: &str, target: &str) -> Result<(), String> {
        symlink(target, self.place(path)?).map_err(|error| format!("{path}: {error}"))
    }
}
