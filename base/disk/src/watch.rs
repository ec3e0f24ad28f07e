//! Detects changes of files: by inotify on their folders, and by comparing the files' stamps, which also finds what
//! inotify does not report.

use crate::{MetadataExt, folder_of, fs};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Differs between two versions of a file.
type Stamp = Option<[i64; 6]>;

#[derive(Debug)]
pub struct FileWatch {
    inotify: Option<OwnedFd>,
    /// The names of the files, and of the links and folders that lead to them. Events of other names are ignored.
    names: BTreeSet<OsString>,
    stamps: Vec<(PathBuf, Stamp)>,
}

/// The longest chain of links that is followed.
const LINKS_MAX: usize = 40;

fn stamp(path: &Path) -> Stamp {
    let found = fs::metadata(path).ok()?;
    let (dev, ino, size) = (found.dev() as i64, found.ino() as i64, found.size() as i64);
    Some([dev, ino, size, found.mtime(), found.mtime_nsec(), found.ctime_nsec()])
}

/// The paths by which a file is reached: its own, those of the links in between, and that of the file itself.
fn ways(path: &Path) -> Vec<PathBuf> {
    let mut ways = vec![path.to_owned()];
    while let (Some(last), true) = (ways.last(), ways.len() < LINKS_MAX) {
        match fs::read_link(last) {
            Ok(target) => ways.push(folder_of(last).join(target)),
            Err(_) => break,
        }
    }
    ways.extend(fs::canonicalize(path));
    ways
}

impl FileWatch {
    /// Watches these files, which need not exist.
    pub fn of(paths: &[PathBuf]) -> Self {
        // Without inotify, changes are found by the stamps. A simulated disk has none.
        let inotify = (!cfg!(guira_simulated))
            .then(|| inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok())
            .flatten();
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE;
        let mut names = BTreeSet::new();
        for way in paths.iter().flat_map(|path| ways(path)) {
            if let Some(inotify) = &inotify {
                // The appearance of a folder that does not exist is found by the stamps.
                let _ = inotify::add_watch(inotify, folder_of(&way), events);
            }
            names.extend(way.components().map(|part| part.as_os_str().to_owned()));
        }
        FileWatch { inotify, names, stamps: paths.iter().map(|path| (path.clone(), stamp(path))).collect() }
    }

    /// A descriptor that is readable after an event in one of the folders; `None` if the system has no more inotify
    /// instances.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Whether a file may have changed since the previous call, or since [`FileWatch::of`].
    pub fn has_changed(&mut self) -> bool {
        let mut changed = false;
        if let Some(inotify) = &self.inotify {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(inotify, &mut buffer);
            while let Ok(event) = reader.next() {
                let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                changed |= name.is_none_or(|name| self.names.contains(name));
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
        let mut watch = FileWatch::of(std::slice::from_ref(&path));
        assert!(!watch.has_changed());
        fs::write(folder.join("one/other"), "5").unwrap();
        assert!(!watch.has_changed(), "another file");
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
