//! Files and folders under the names that std has. Each host has a disk, which loses unsynced changes when the host
//! loses power ([`lose_power`]). A killed process loses no write.
//!
//! Paths begin at the root of the host's disk. There is no `/proc`, `/sys` or `/etc` with facts about the machine: they differ
//! from machine to machine, and change while others work on it, and a seed must mean the same everywhere.

mod change;
mod file;
mod folder;
mod node;
mod state;

pub use file::{File, FileExt, OpenOptions, OpenOptionsExt};
pub use folder::{
    DirBuilder, DirBuilderExt, DirEntry, FileType, Metadata, MetadataExt, ReadDir, canonicalize, create_dir,
    create_dir_all, metadata, read_dir, read_link, remove_dir, remove_dir_all, remove_file, rename,
    set_permissions, symlink_metadata,
};
pub use state::{Faults, lose_power, set_faults};
pub use std::fs::{Permissions, TryLockError};
pub use std::os::unix::fs::PermissionsExt;

use std::io::{self, Read, Write};
use std::path::Path;

/// Reads a whole file.
///
/// # Errors
/// As std's.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text.
///
/// # Errors
/// As std's.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a file that is created, or emptied first.
///
/// # Errors
/// As std's.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path)?.write_all(content.as_ref())
}
