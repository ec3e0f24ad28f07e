//! A file of logged deletes during its replay: locked, and read line by line.

use super::super::entry::Entry;
use guira_disk::{self as disk, File, MetadataExt, OpenOptionsExt, TryLockError};
use guira_sync::simulated::sometimes;
use rustix::fs::OFlags;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// The longest line in bytes.
const LINE_MAX: u64 = 64 << 10;

/// A line of the file, and its place.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Delete(Entry),
    /// Not a delete, for this reason.
    Unreadable(String),
    /// The file ends within the line: its writer was killed before it confirmed the line.
    Torn,
}

/// A log file, locked against writers and other replays.
#[derive(Debug)]
pub(crate) struct HeldLog {
    input: BufReader<File>,
    at: u64,
}

impl HeldLog {
    /// Locks a file. `None` if another process has locked or removed it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        // With a pipe of that name, this does not wait for its writer.
        let opened = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                sometimes("delete-log-is-written-to");
                return Ok(None);
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Another process may have removed the file before the lock.
        let is_same = disk::metadata(path).is_ok_and(|there| {
            file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
        });
        Ok(is_same.then(|| HeldLog { input: BufReader::with_capacity(256 << 10, file), at: 0 }))
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut text = Vec::new();
        let from = self.at;
        let read = (&mut self.input).take(LINE_MAX).read_until(b'\n', &mut text)? as u64;
        self.at += read;
        let content = match text.last() {
            None => return Ok(None),
            Some(b'\n') => match Entry::read(&text) {
                Ok(entry) => Content::Delete(entry),
                Err(reason) => Content::Unreadable(reason),
            },
            Some(_) if read < LINE_MAX => Content::Torn,
            Some(_) => {
                self.skip_line()?;
                Content::Unreadable("line too long".to_owned())
            }
        };
        Ok(Some(Line { from, to: self.at, content }))
    }

    /// Skips the rest of the line.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.input.fill_buf()?;
            let end = memchr::memchr(b'\n', buffer).map(|at| at + 1);
            let taken = end.unwrap_or(buffer.len());
            self.input.consume(taken);
            self.at += taken as u64;
            if end.is_some() || taken == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, content: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("guira-router-lines-{name}-{}", std::process::id()));
        disk::write(&path, content).unwrap();
        path
    }

    #[test]
    fn lines_are_told_apart_from_what_is_none() {
        let good = b"[\"AS1.0\",1,\"C\",[\"h\",1,\"delete k\\r\\n\"]]\n";
        let long = [b"x".repeat(300_000), b"\n".to_vec()].concat();
        let content = [good.as_slice(), b"garbage\n", &long, b"\n", good, &good[..20]].concat();
        let path = file("apart", &content);
        let mut log = HeldLog::take(&path).unwrap().unwrap();
        let mut kinds = Vec::new();
        let mut at = 0;
        while let Some(line) = log.next().unwrap() {
            assert_eq!(line.from, at);
            at = line.to;
            kinds.push(match line.content {
                Content::Delete(_) => 'd',
                Content::Unreadable(_) => 'u',
                Content::Torn => 't',
            });
        }
        assert_eq!((kinds.iter().collect::<String>(), at), ("duuudt".to_owned(), content.len() as u64));
        disk::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_is_held_by_one() {
        let path = file("held", b"");
        let log = HeldLog::take(&path).unwrap();
        assert!(log.is_some() && HeldLog::take(&path).unwrap().is_none());
        drop(log);
        assert!(HeldLog::take(&path).unwrap().is_some());
        disk::remove_file(&path).unwrap();
        assert!(HeldLog::take(&path).unwrap().is_none());
    }
}
