//! Sees files change: by inotify on the folders that they are in, and by a look at each file, where that does not reach.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells two versions of a file apart, without reading them.
type Stamp = Option<[i64; 6]>;

/// Watches some files.
#[derive(Debug)]
pub(crate) struct Watch {
    inotify: Option<OwnedFd>,
    stamps: Vec<(PathBuf, Stamp)>,
}

/// Links that lead to a file, one after the other.
const LINKS_MAX: usize = 40;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    let (dev, ino, size) = (found.dev() as i64, found.ino() as i64, found.size() as i64);
    Some([dev, ino, size, found.mtime(), found.mtime_nsec(), found.ctime_nsec()])
}

/// The folders in which something changes when the file gets another content, by a write, by a rename, or by a link that leads to another file.
fn folders(path: &Path) -> BTreeSet<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => PathBuf::from("/"),
    };
    let mut folders = BTreeSet::new();
    let mut link = path.to_owned();
    for _ in 0..LINKS_MAX {
        folders.insert(parent(&link));
        match fs::read_link(&link) {
            Ok(target) => link = parent(&link).join(target),
            Err(_) => break,
        }
    }
    folders.extend(fs::canonicalize(path).ok().map(|path| parent(&path)));
    folders
}

impl Watch {
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        // Without inotify a look at the files is enough.
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE;
        if let Some(inotify) = &inotify {
            for folder in paths.iter().flat_map(|path| folders(path)) {
                // A folder that is not there is seen to appear by a look at the file.
                let _ = inotify::add_watch(inotify, &folder, events);
            }
        }
        Watch { inotify, stamps: paths.iter().map(|path| (path.clone(), stamp(path))).collect() }
    }

    /// Readable when something has happened in a folder.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Whether there may be something new since the last time.
    pub(crate) fn has_changed(&mut self) -> bool {
        let mut changed = false;
        if let Some(inotify) = &self.inotify {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(inotify, &mut buffer);
            while reader.next().is_ok() {
                changed = true;
            }
        }
        for (path, known) in &mut self.stamps {
            let now = stamp(path);
            changed |= now != *known;
            *known = now;
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn writes_renames_and_links_are_seen() {
        let folder = std::env::temp_dir().join(format!("guira-router-watch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("one")).unwrap();
        fs::create_dir_all(folder.join("two")).unwrap();
        fs::write(folder.join("one/config"), "1").unwrap();
        fs::write(folder.join("two/config"), "2").unwrap();
        symlink("one", folder.join("data")).unwrap();
        symlink("data/config", folder.join("config")).unwrap();
        let path = folder.join("config");
        let mut watch = Watch::of(std::slice::from_ref(&path));
        assert!(!watch.has_changed());
        fs::write(folder.join("one/config"), "3").unwrap();
        assert!(watch.has_changed(), "it was written");
        assert!(!watch.has_changed());
        fs::write(folder.join("one/new"), "4").unwrap();
        fs::rename(folder.join("one/new"), folder.join("one/config")).unwrap();
        assert!(watch.has_changed(), "another took its place");
        symlink("two", folder.join("later")).unwrap();
        watch.has_changed();
        fs::rename(folder.join("later"), folder.join("data")).unwrap();
        assert!(watch.has_changed(), "a link leads elsewhere");
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        fs::remove_dir_all(&folder).unwrap();
        assert!(watch.has_changed(), "it is gone");
    }
}
