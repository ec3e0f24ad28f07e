//! The door to files and folders. Server, web, node and fleet use files through this crate only, so that a simulator can
//! exchange them; a Region's file belongs to `guira_memory`.
//!
//! | what | for |
//! |---|---|
//! | [`File`], [`OpenOptions`], [`read`], [`rename`], … | std's, under the same names |
//! | [`read_file`] | a whole file of limited length |
//! | [`replace`] | new content under an old name, whole or not at all |
//! | [`FileWatch`] | has a file changed? |

#![forbid(unsafe_code)]

mod read;
mod replace;
mod watch;

pub use read::read_file;
pub use replace::{Durability, Mode, UNFINISHED, replace};
pub use watch::FileWatch;

#[cfg(guira_simulated)]
use guira_world::{disk as fs, disk as unix};
#[cfg(not(guira_simulated))]
use std::{fs, os::unix::fs as unix};

pub use fs::{
    DirBuilder, DirEntry, File, Metadata, OpenOptions, Permissions, ReadDir, TryLockError, canonicalize,
    create_dir, create_dir_all, metadata, read, read_dir, read_link, read_to_string, remove_dir,
    remove_dir_all, remove_file, rename, set_permissions, symlink_metadata, write,
};
#[cfg(not(guira_simulated))]
pub use unix::symlink;
pub use unix::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};

use std::io;
use std::path::Path;

/// Checks that this process may create files in a folder.
///
/// # Errors
/// Why the process may not: the folder does not exist, or its permissions.
pub fn check_writable(folder: &Path) -> io::Result<()> {
    #[cfg(not(guira_simulated))]
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    #[cfg(guira_simulated)]
    fs::read_dir(folder)?;
    Ok(())
}

/// Whether there is a folder with this path.
pub fn is_folder(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_dir())
}

/// Whether there is a file, not a folder, with this path.
pub fn is_file(path: &Path) -> bool {
    metadata(path).is_ok_and(|found| found.is_file())
}

/// Whether there is a file or folder with this path.
pub fn exists(path: &Path) -> bool {
    metadata(path).is_ok()
}

/// The folder that a path is in: `.` for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    }
}
