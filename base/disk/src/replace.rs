//! Replacing a file as a whole.

use crate::folder_of;
use guira_sync::atomic::{AtomicU32, Ordering};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What a crash of the machine may leave of a replaced file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The new content, from the moment that the call has returned: file and folder are synced.
    Synced,
    /// The previous content, the new, or an empty file.
    Unsynced,
}

/// Replaces the content of `path`, or creates it with the permissions `mode` (less the process's mask). A reader sees
/// the previous content or the new, never a part, and so does a process that starts after this one was killed.
///
/// # Errors
/// An error of the system; the previous content is still there, unless the sync of the folder failed.
pub fn replace(path: &Path, content: &[u8], mode: u32, durability: Durability) -> io::Result<()> {
    let (new, mut file) = create_beside(path, mode)?;
    let written = file.write_all(content).and_then(|()| match durability {
        Durability::Synced => file.sync_all(),
        Durability::Unsynced => Ok(()),
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

/// Creates a file that no other process or thread writes: several processes may replace the same file, and in containers
/// processes have the same number.
fn create_beside(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    loop {
        let new = beside(path);
        match File::options().write(true).create_new(true).mode(mode).open(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (new, file)),
        }
    }
}

fn beside(path: &Path) -> PathBuf {
    static REPLACED: AtomicU32 = AtomicU32::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Relaxed: the number must be unique and orders nothing.
    name.push(format!(".new-{}-{}", std::process::id(), REPLACED.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
        for (content, durability) in [("one", Durability::Synced), ("longer", Durability::Unsynced)] {
            replace(&path, content.as_bytes(), 0o600, durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no other file is left");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn new_content_is_written_in_the_same_folder_and_by_one_call_only() {
        for (path, folder) in [("config", "."), ("a/config", "a"), ("/config", "/")] {
            let path = Path::new(path);
            assert_eq!(folder_of(path), Path::new(folder));
            assert_eq!(beside(path).parent(), path.parent());
        }
        let [own, other] = ["/run/a.config", "/run/a.b"].map(Path::new);
        let all = [beside(own), beside(own), beside(other)];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}");
    }

    #[test]
    fn what_cannot_be_replaced_is_kept_and_nothing_is_left_beside_it() {
        let folder = folder("kept");
        let path = folder.join("file");
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"x", 0o600, Durability::Synced).is_err());
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(replace(&folder.join("none/file"), b"x", 0o600, Durability::Synced).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
