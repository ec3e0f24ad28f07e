//! Replacing a file as a whole.

use crate::{File, OpenOptionsExt, Permissions, PermissionsExt, folder_of, fs};
use guira_sync::random;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a crash of the machine may leave of a replaced file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The new content, from the moment that the call has returned: file and folder are synced.
    Synced,
    /// The previous content, the new, or an empty file.
    Unsynced,
}

/// The permissions of the new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Exact(u32),
    /// These, less those that the process's mask takes away.
    Masked(u32),
}

/// The beginning of the names of temporary files. One stays if the process is killed during a call.
pub const UNFINISHED: &str = ".new-";

/// Replaces the content of `path`, or creates it. A reader sees the previous content or the new, never a part, and so
/// does a process that starts after this one was killed.
///
/// # Errors
/// An error of the system; the previous content is still there, unless the sync of the folder failed.
pub fn replace(path: &Path, content: &[u8], mode: Mode, durability: Durability) -> io::Result<()> {
    let (new, mut file) = create_temporary(path, mode)?;
    let written = file.write_all(content).and_then(|()| {
        if let Mode::Exact(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        match durability {
            Durability::Synced => file.sync_all(),
            Durability::Unsynced => Ok(()),
        }
    });
    if let Err(error) = written.and_then(|()| fs::rename(&new, path)) {
        // The error to report is the first one. A file that stays takes space and does no other harm.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    match durability {
        Durability::Synced => File::open(folder_of(path))?.sync_all(),
        Durability::Unsynced => Ok(()),
    }
}

/// Creates a file that no other process or thread writes, since several may replace the same file.
fn create_temporary(path: &Path, mode: Mode) -> io::Result<(PathBuf, File)> {
    let (Mode::Exact(mode) | Mode::Masked(mode)) = mode;
    loop {
        let new = temporary_name(path);
        match File::options().write(true).create_new(true).mode(mode).open(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (new, file)),
        }
    }
}

/// A name in the same folder. It is short: that of the file may be as long as the file system allows.
fn temporary_name(path: &Path) -> PathBuf {
    folder_of(path).join(format!("{UNFINISHED}{:016x}", random::seed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("guira-replace-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_is_created_with_its_mode_and_replaced() {
        let folder = folder("created");
        let path = folder.join("file");
        let cases = [
            ("one", Mode::Masked(0o600), Durability::Synced, 0o600),
            ("longer", Mode::Exact(0o666), Durability::Unsynced, 0o666),
        ];
        for (content, mode, durability, found) in cases {
            replace(&path, content.as_bytes(), mode, durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, found);
        }
        // A name that is as long as a file system allows.
        let long = folder.join("n".repeat(255));
        replace(&long, b"x", Mode::Masked(0o600), Durability::Unsynced).unwrap();
        fs::remove_file(long).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no other file is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn new_content_is_written_in_the_same_folder_and_by_one_call_only() {
        for (path, folder) in [("config", "."), ("a/config", "a"), ("/config", "/")] {
            let path = Path::new(path);
            assert_eq!(folder_of(path), Path::new(folder));
            assert_eq!(temporary_name(path).parent(), Some(Path::new(folder)));
        }
        let [own, other] = ["/run/a.config", "/run/a.b"].map(Path::new);
        let all = [temporary_name(own), temporary_name(own), temporary_name(other)];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}");
    }

    #[test]
    fn what_cannot_be_replaced_is_kept_and_nothing_is_left_beside_it() {
        let folder = folder("kept");
        let path = folder.join("file");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"x", Mode::Masked(0o600), Durability::Synced).is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(replace(&folder.join("none/file"), b"x", Mode::Masked(0o600), Durability::Synced).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
