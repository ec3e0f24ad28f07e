//! The file that deletes are logged in at present.

use super::names::{self, Naming};
use guira_disk::{DirBuilder, DirBuilderExt, File, FileExt, MetadataExt, OpenOptionsExt};
use guira_sync::host;
use guira_sync::simulated::is_planted;
use std::io;
use std::path::{Path, PathBuf};

/// When an acknowledged delete is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSync {
    /// From the end of the router, however it ends: the system has it, and writes it to the disk within half a minute or so.
    Never,
    /// From a crash of the machine too: it is on the disk before the client is answered.
    Always,
}

/// The folder of the files, and the parts of their names.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) naming: Naming,
    pub(crate) sync: LogSync,
}

/// A file, locked for as long as it is open.
#[derive(Debug)]
pub(crate) struct OpenLog {
    file: File,
    since: u64,
    /// Bytes of whole lines.
    length: u64,
    sync: LogSync,
}

/// Names that are tried before it is given up.
const TRIES: usize = 8;

impl OpenLog {
    /// Begins a file. Its folder for the hour is made if need be; the one above has to be there.
    pub(crate) fn create(place: &mut Place, now: u64) -> io::Result<Self> {
        let hour = place.folder.join(names::folder_name(now));
        let mut refused = io::Error::other("no name is free");
        for _ in 0..TRIES {
            match Self::try_create(place, &hour, now) {
                Ok(log) => return Ok(log),
                // Another process was faster, or has removed the empty folder or the empty file.
                Err(error) if is_of_others(&error) && guira_disk::is_folder(&place.folder) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    fn try_create(place: &mut Place, hour: &Path, now: u64) -> io::Result<Self> {
        match DirBuilder::new().mode(0o777).create(hour) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = hour.join(place.naming.next(now, host::thread()));
        let file = File::options().write(true).create_new(true).mode(0o666).open(&path)?;
        file.try_lock()?;
        if place.sync == LogSync::Always && !is_planted("delete-log-folder-unsynced") {
            for folder in [hour, place.folder.as_path()] {
                File::open(folder)?.sync_all()?;
            }
        }
        let log = OpenLog { file, since: now, length: 0, sync: place.sync };
        log.check()?;
        Ok(log)
    }

    /// Lines written to a removed file are lost.
    fn check(&self) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was removed"));
        }
        Ok(())
    }

    /// Appends lines.
    ///
    /// # Errors
    /// When they are not all there; then none of them is, if the system lets that be done, and the file is of no more use otherwise.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<(), AppendError> {
        self.check().map_err(AppendError::of_file)?;
        if let Err(error) = self.file.write_all_at(lines, self.length) {
            // A partial line would be read together with the next one.
            return match self.file.set_len(self.length) {
                Ok(()) => Err(AppendError { error, next: Next::SameFile }),
                Err(_) => Err(AppendError::of_file(error)),
            };
        }
        if self.sync == LogSync::Always && !is_planted("delete-log-unsynced") {
            // After a failure it is unknown what the disk has, and a later call may not report
            // that.
            self.file.sync_data().map_err(AppendError::of_file)?;
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    pub(crate) fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.since)
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

fn is_of_others(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists | io::ErrorKind::WouldBlock)
}

/// Lines could not be appended.
#[derive(Debug)]
pub(crate) struct AppendError {
    pub(crate) error: io::Error,
    pub(crate) next: Next,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    SameFile,
    NewFile,
}

impl AppendError {
    fn of_file(error: io::Error) -> Self {
        AppendError { error, next: Next::NewFile }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_disk as disk;

    fn place(name: &str) -> Place {
        let folder = std::env::temp_dir().join(format!("guira-router-file-{name}-{}", std::process::id()));
        let _ = disk::remove_dir_all(&folder);
        disk::create_dir_all(&folder).unwrap();
        Place { folder, naming: Naming::new("s", "r"), sync: LogSync::Always }
    }

    #[test]
    fn lines_are_appended_and_the_file_is_locked() {
        let mut place = place("append");
        let mut log = OpenLog::create(&mut place, 7200).unwrap();
        log.append(b"one\n").unwrap();
        log.append(b"two\n").unwrap();
        let [file] = &*names::list(&place.folder).unwrap() else { panic!("one file") };
        assert_eq!(disk::read(&file.path).unwrap(), b"one\ntwo\n");
        let other = File::open(&file.path).unwrap();
        assert!(other.try_lock().is_err());
        drop(log);
        assert!(other.try_lock().is_ok());
        disk::remove_dir_all(&place.folder).unwrap();
    }

    #[test]
    fn nothing_is_written_to_a_file_that_was_removed() {
        let mut place = place("removed");
        let mut log = OpenLog::create(&mut place, 7200).unwrap();
        log.append(b"one\n").unwrap();
        disk::remove_file(&names::list(&place.folder).unwrap()[0].path).unwrap();
        assert_eq!(log.append(b"two\n").unwrap_err().next, Next::NewFile);
        disk::remove_dir_all(&place.folder).unwrap();
        let refused = OpenLog::create(&mut place, 7200).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert!(!place.folder.exists(), "the folder is not made");
    }

    #[test]
    fn a_disk_that_is_full_leaves_no_part_of_a_line() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let mut log = OpenLog { file, since: 0, length: 0, sync: LogSync::Never };
        let refused = log.append(b"one\n").unwrap_err();
        assert_eq!(refused.error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(log.length, 0);
    }
}
