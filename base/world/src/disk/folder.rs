//! Folders, names and facts about files, as std has them.

use super::node::Node;
use super::state::{self, Disk, IsFolder};
use super::{Permissions, PermissionsExt};
use crate::failure::error;
use crate::scheduler;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug)]
pub struct Metadata {
    node: u64,
    length: u64,
    mode: u32,
    links: u64,
    is_folder: bool,
    modified: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileType {
    is_folder: bool,
}

impl FileType {
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.is_folder
    }

    #[must_use]
    pub fn is_file(&self) -> bool {
        !self.is_folder
    }
}

impl Metadata {
    pub(super) fn of(number: u64, node: &Node) -> Self {
        let (length, is_folder) = (node.length(), node.is_folder());
        Metadata {
            node: number,
            length,
            mode: node.mode,
            links: node.links,
            is_folder,
            modified: node.modified,
        }
    }

    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "std has none")]
    pub fn len(&self) -> u64 {
        self.length
    }

    #[must_use]
    pub fn is_file(&self) -> bool {
        !self.is_folder
    }

    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.is_folder
    }

    #[must_use]
    pub fn file_type(&self) -> FileType {
        FileType { is_folder: self.is_folder }
    }

    #[must_use]
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(self.mode)
    }

    /// When the bytes were last changed.
    ///
    /// # Errors
    /// Never.
    pub fn modified(&self) -> io::Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH + self.modified)
    }
}

/// What std has for Unix only.
pub trait MetadataExt {
    fn dev(&self) -> u64;
    fn ino(&self) -> u64;
    fn mode(&self) -> u32;
    fn nlink(&self) -> u64;
    fn size(&self) -> u64;
    fn mtime(&self) -> i64;
    fn mtime_nsec(&self) -> i64;
    fn ctime(&self) -> i64;
    fn ctime_nsec(&self) -> i64;
}

impl MetadataExt for Metadata {
    fn dev(&self) -> u64 {
        1
    }

    fn ino(&self) -> u64 {
        self.node
    }

    fn mode(&self) -> u32 {
        self.mode
    }

    fn nlink(&self) -> u64 {
        self.links
    }

    fn size(&self) -> u64 {
        self.length
    }

    fn mtime(&self) -> i64 {
        self.modified.as_secs() as i64
    }

    fn mtime_nsec(&self) -> i64 {
        self.modified.subsec_nanos().into()
    }

    fn ctime(&self) -> i64 {
        self.mtime()
    }

    fn ctime_nsec(&self) -> i64 {
        self.mtime_nsec()
    }
}

fn on_disk<R>(work: impl FnOnce(&mut Disk) -> io::Result<R>) -> io::Result<R> {
    scheduler::point();
    state::with(work)
}

/// Facts about a file.
///
/// # Errors
/// As std's.
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    on_disk(|disk| {
        let node = disk.find(path)?;
        Ok(Metadata::of(node, disk.node(node)))
    })
}

/// As [`metadata`]: there are no links.
///
/// # Errors
/// As std's.
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    metadata(path)
}

/// Fails: there are no links.
///
/// # Errors
/// Always.
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    metadata(path).and_then(|_| Err(io::ErrorKind::InvalidInput.into()))
}

/// The path, if there is such a file.
///
/// # Errors
/// As std's.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    metadata(&path).map(|_| path.as_ref().to_owned())
}

/// Sets the permissions.
///
/// # Errors
/// As std's.
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    on_disk(|disk| {
        let node = disk.find(path)?;
        disk.node(node).mode = permissions.mode();
        Ok(())
    })
}

/// Removes a file.
///
/// # Errors
/// As std's.
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    on_disk(|disk| disk.remove(path, IsFolder::No))
}

/// Removes an empty folder.
///
/// # Errors
/// As std's.
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    on_disk(|disk| disk.remove(path, IsFolder::Yes))
}

/// Removes a folder with everything in it.
///
/// # Errors
/// As std's.
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    for entry in read_dir(path)? {
        let entry = entry?;
        if entry.is_folder {
            remove_dir_all(entry.path())?;
        } else {
            remove_file(entry.path())?;
        }
    }
    remove_dir(path)
}

/// Renames a file or folder; another file of the new name is replaced.
///
/// # Errors
/// As std's.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    on_disk(|disk| disk.rename(from, to))
}

/// Creates a folder.
///
/// # Errors
/// As std's.
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Creates a folder, and those above.
///
/// # Errors
/// As std's.
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

#[derive(Clone, Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: u32,
}

impl Default for DirBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl DirBuilder {
    #[must_use]
    pub fn new() -> Self {
        DirBuilder { recursive: false, mode: 0o777 }
    }

    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Creates the folder.
    ///
    /// # Errors
    /// As std's.
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        if !self.recursive {
            return on_disk(|disk| disk.create_folder(path, self.mode).map(drop));
        }
        let mut above: Vec<&Path> = path.ancestors().filter(|path| path.file_name().is_some()).collect();
        above.reverse();
        for folder in above {
            let made = on_disk(|disk| disk.create_folder(folder, self.mode).map(drop));
            match made {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && metadata(folder)?.is_dir() => {}
                made => made?,
            }
        }
        Ok(())
    }
}

/// What std has for Unix only.
pub trait DirBuilderExt {
    fn mode(&mut self, mode: u32) -> &mut Self;
}

impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }
}

#[derive(Clone, Debug)]
pub struct DirEntry {
    folder: PathBuf,
    name: OsString,
    is_folder: bool,
}

impl DirEntry {
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    #[must_use]
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// Facts about the file.
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        metadata(self.path())
    }

    /// Whether the entry is a folder.
    ///
    /// # Errors
    /// Never.
    pub fn file_type(&self) -> io::Result<FileType> {
        Ok(FileType { is_folder: self.is_folder })
    }
}

/// The entries of a folder as they were when the reading began.
#[derive(Debug)]
pub struct ReadDir(std::vec::IntoIter<DirEntry>);

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

/// Reads the entries of a folder, in an order that the seed decides.
///
/// # Errors
/// As std's.
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let entries = on_disk(|disk| {
        let folder = disk.find(path)?;
        if !disk.node(folder).is_folder() {
            return Err(error(io::ErrorKind::NotADirectory));
        }
        let entries = disk.entries(folder)?.into_iter();
        let entry = |(name, node)| {
            let is_folder = disk.node(node).is_folder();
            DirEntry { folder: path.to_owned(), name, is_folder }
        };
        Ok(entries.map(entry).collect::<Vec<_>>())
    })?;
    let mut entries = entries;
    for last in (1..entries.len()).rev() {
        entries.swap(last, scheduler::draw(last as u64 + 1) as usize);
    }
    Ok(ReadDir(entries.into_iter()))
}
