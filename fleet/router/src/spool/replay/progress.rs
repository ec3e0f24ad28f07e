//! The progress of a replay, saved next to each file, so that the next replay continues from there.
//! The saved place may be behind: deletes since then are sent again, which does no harm.

use guira_disk::{self as disk, Durability, Mode};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Not a name of mcrouter's folders, so that its tools ignore it.
const FOLDER: &str = ".replay";
/// The permissions of the progress files.
const MODE: u32 = 0o666;
const HEAD: &str = "guira-replay 1";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Every line before this place was read once, and reported if it is no delete.
    pub(crate) read: u64,
    /// The number of complete lines that are no deletes.
    pub(crate) unreadable: u64,
    /// For each destination (as one line) the place before which all its deletes were delivered.
    delivered: BTreeMap<String, u64>,
}

/// The path of a file's progress; `name` is `hour/file`.
#[derive(Clone, Debug)]
pub(crate) struct ProgressFile {
    path: PathBuf,
    /// The path to which a file with unreadable lines is moved.
    unreadable: PathBuf,
}

impl Progress {
    pub(crate) fn of(&self, whom: &str) -> u64 {
        self.delivered.get(whom).copied().unwrap_or(0)
    }

    pub(crate) fn advance(&mut self, whom: &str, to: u64) {
        match self.delivered.get_mut(whom) {
            Some(known) => *known = to.max(*known),
            None => drop(self.delivered.insert(whom.to_owned(), to)),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}\n{} {}\n", self.read, self.unreadable);
        for (whom, to) in &self.delivered {
            text.push_str(&format!("{to} {whom}\n"));
        }
        text
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != HEAD {
            return None;
        }
        let (read, unreadable) = lines.next()?.split_once(' ')?;
        let mut progress = Progress {
            read: read.parse().ok()?,
            unreadable: unreadable.parse().ok()?,
            delivered: BTreeMap::new(),
        };
        for line in lines {
            let (to, whom) = line.split_once(' ')?;
            progress.delivered.insert(whom.to_owned(), to.parse().ok()?);
        }
        Some(progress)
    }
}

impl ProgressFile {
    pub(crate) fn new(root: &Path, name: &str) -> Self {
        let folder = root.join(FOLDER);
        let flat = name.replace('/', ".");
        ProgressFile { path: folder.join(&flat), unreadable: folder.join(format!("{flat}.unreadable")) }
    }

    /// The saved progress; that of a new file if there is none or it is damaged.
    pub(crate) fn load(&self) -> Progress {
        let text = disk::read_to_string(&self.path).ok();
        text.and_then(|text| Progress::parse(&text)).unwrap_or_default()
    }

    pub(crate) fn save(&self, progress: &Progress) -> io::Result<()> {
        self.path.parent().map_or(Ok(()), disk::create_dir_all)?;
        disk::replace(&self.path, progress.text().as_bytes(), Mode::Masked(MODE), Durability::Unsynced)
    }

    /// All deletes of the file are delivered: removes the file and its progress. A file with
    /// unreadable lines is moved away instead.
    pub(crate) fn finish(&self, file: &Path, progress: &Progress) -> io::Result<()> {
        if progress.unreadable > 0 {
            self.path.parent().map_or(Ok(()), disk::create_dir_all)?;
            disk::rename(file, &self.unreadable)?;
        } else {
            disk::remove_file(file)?;
        }
        // The progress may be missing, and the folder may have other files.
        let _ = disk::remove_file(&self.path);
        let _ = file.parent().map(disk::remove_dir);
        Ok(())
    }
}

/// Removes the progress of files that no longer exist; `names` has all existing files.
pub(crate) fn tidy(root: &Path, names: &[String]) {
    let known: Vec<String> = names.iter().map(|name| name.replace('/', ".")).collect();
    for entry in disk::read_dir(root.join(FOLDER)).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // A router, perhaps an older one, may be replacing a file at this moment.
        let of = name.strip_suffix(".new").unwrap_or(&name);
        let is_kept = name.ends_with(".unreadable") || name.starts_with(disk::UNFINISHED);
        if !is_kept && !known.iter().any(|known| known == of) {
            // Another router may remove it first.
            let _ = disk::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("guira-router-progress-{name}-{}", std::process::id()));
        let _ = disk::remove_dir_all(&folder);
        disk::create_dir_all(folder.join("hour")).unwrap();
        folder
    }

    #[test]
    fn what_was_saved_is_read_again_and_nothing_else_is() {
        let folder = folder("saved");
        let file = ProgressFile::new(&folder, "hour/file");
        assert_eq!(file.load(), Progress::default());
        let mut progress = Progress { read: 900, unreadable: 2, ..Progress::default() };
        progress.advance("a:1", 70);
        progress.advance("[2001:db8::1]:2", 300);
        progress.advance("a:1", 60);
        assert_eq!((progress.of("a:1"), progress.of("b:1")), (70, 0));
        file.save(&progress).unwrap();
        assert_eq!(file.load(), progress);
        for wrong in
            ["", "guira-replay 2\n0 0\n", "guira-replay 1\n0 0\nx a:1\n", "guira-replay 1\n0 0\n70 a:1"]
        {
            disk::write(&file.path, wrong).unwrap();
            assert_eq!(file.load(), Progress::default(), "{wrong:?}");
        }
        disk::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_finished_file_is_removed_unless_it_has_more_than_deletes() {
        let folder = folder("finished");
        for (unreadable, is_kept) in [(0, false), (1, true)] {
            let path = folder.join("hour/file");
            disk::create_dir_all(folder.join("hour")).unwrap();
            disk::write(&path, "lines").unwrap();
            let file = ProgressFile::new(&folder, "hour/file");
            let progress = Progress { unreadable, ..Progress::default() };
            file.save(&progress).unwrap();
            file.finish(&path, &progress).unwrap();
            assert!(!folder.join("hour").exists() && !file.path.exists());
            assert_eq!(folder.join(".replay/hour.file.unreadable").exists(), is_kept);
        }
        disk::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_known_of_files_that_are_gone_is_forgotten() {
        let folder = folder("tidy");
        for name in ["h/a", "h/b"] {
            ProgressFile::new(&folder, name).save(&Progress::default()).unwrap();
        }
        disk::write(folder.join(".replay/h.c.unreadable"), "").unwrap();
        tidy(&folder, &["h/b".to_owned()]);
        let mut left: Vec<_> =
            disk::read_dir(folder.join(".replay")).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["h.b", "h.c.unreadable"]);
        disk::remove_dir_all(&folder).unwrap();
    }
}
