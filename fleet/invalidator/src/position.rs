//! The file with the position at which the log is read after a restart.

use guira_disk::{Durability, File, Mode, OpenOptionsExt};
use guira_sync::simulated::is_planted;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The first word of the file, with its version.
const HEAD: &str = "guira-position-1";
/// The longest position file that is read, in bytes.
const FILE_MAX: u64 = 1 << 20;
/// The suffix of the lock file's name.
const LOCK: &str = ".lock";
const MODE: u32 = 0o600;

#[derive(Debug, thiserror::Error)]
pub enum PositionError {
    #[error("cannot {action} {path}")]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("another process has locked {0}: each invalidator needs its own position file and spool")]
    InUse(PathBuf),
    #[error(
        "position file {0} is corrupt or of another version, so the last deletes are unknown. Flush the caches and remove the \
         file; the invalidator then reads the log from its current end"
    )]
    Damaged(PathBuf),
}

/// A lock file; the lock ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is unlocked when it is closed")] File);

/// Locks the file at `path`, which is created if it is missing.
pub(crate) fn lock(path: &Path) -> Result<Lock, PositionError> {
    let file = File::options().create(true).truncate(false).write(true).mode(MODE).open(path);
    let file =
        file.map_err(|source| PositionError::File { action: "open", path: path.to_owned(), source })?;
    file.try_lock().map_err(|_| PositionError::InUse(path.to_owned()))?;
    Ok(Lock(file))
}

/// The position file, locked against other processes.
#[derive(Debug)]
pub(crate) struct PositionFile {
    path: PathBuf,
    _lock: Lock,
}

impl PositionFile {
    /// Opens the file at `path`, and reads its position if it has one.
    pub(crate) fn open(path: &Path) -> Result<(Self, Option<String>), PositionError> {
        let locked = with_ending(path, LOCK);
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| PositionError::File { action, path, source }
        };
        let lock = lock(&locked)?;
        let mut text = Vec::new();
        match File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((PositionFile { path: path.to_owned(), _lock: lock }, None));
            }
            read => read.map_err(failed("read", path))?,
        };
        let position = parse(&text).ok_or_else(|| PositionError::Damaged(path.to_owned()))?;
        Ok((PositionFile { path: path.to_owned(), _lock: lock }, Some(position)))
    }

    /// Saves `position`. After a crash of the machine the file has this position; after a crash during the call, this
    /// one or the previous one.
    pub(crate) fn save(&self, position: &str) -> io::Result<()> {
        let durability =
            if is_planted("position-unsynced") { Durability::Unsynced } else { Durability::Synced };
        guira_disk::replace(&self.path, render(position).as_bytes(), Mode::Masked(MODE), durability)
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn render(position: &str) -> String {
    format!("{HEAD} {:08x} {position}\n", crc32fast::hash(position.as_bytes()))
}

fn parse(text: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
    let mut words = line.splitn(3, ' ');
    let (head, sum, position) = (words.next()?, words.next()?, words.next()?);
    let is_whole = head == HEAD && u32::from_str_radix(sum, 16).ok()? == crc32fast::hash(position.as_bytes());
    is_whole.then(|| position.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use guira_harness::scratch::Scratch;

    #[test]
    fn a_position_is_there_when_the_file_is_opened_again() {
        let scratch = Scratch::new();
        let path = scratch.file("position");
        let (file, position) = PositionFile::open(&path).unwrap();
        assert_eq!(position, None);
        for position in ["", "0-1-270,1-1-5"] {
            file.save(position).unwrap();
        }
        assert!(matches!(PositionFile::open(&path), Err(PositionError::InUse(_))));
        drop(file);
        let (_, position) = PositionFile::open(&path).unwrap();
        assert_eq!(position.as_deref(), Some("0-1-270,1-1-5"));
    }

    #[test]
    fn an_empty_position_is_not_the_same_as_none() {
        let scratch = Scratch::new();
        let path = scratch.file("position");
        PositionFile::open(&path).unwrap().0.save("").unwrap();
        assert_eq!(PositionFile::open(&path).unwrap().1.as_deref(), Some(""));
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let scratch = Scratch::new();
        let whole = render("0-1-270");
        let cut = &whole[..whole.len() - 2];
        let changed = whole.replace("270", "271");
        for text in ["", "\n", "0-1-270\n", cut, &changed, &whole.replace(HEAD, "guira-position-2")] {
            let path = scratch.write("position", text);
            assert!(matches!(PositionFile::open(&path), Err(PositionError::Damaged(_))), "{text:?}");
        }
    }

    #[test]
    fn a_save_that_fails_leaves_the_position_before() {
        let scratch = Scratch::new();
        let path = scratch.file("position");
        let (mut file, _) = PositionFile::open(&path).unwrap();
        file.save("0-1-1").unwrap();
        file.path = scratch.file("no/folder/position");
        assert!(file.save("0-1-2").is_err());
        drop(file);
        assert_eq!(PositionFile::open(&path).unwrap().1.as_deref(), Some("0-1-1"));
    }
}
