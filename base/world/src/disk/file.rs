//! Files as std has them.

use super::change::Change;
use super::folder::Metadata;
use super::node::Content;
use super::state;
use super::{Permissions, PermissionsExt, TryLockError};
use crate::failure::{bad_descriptor, disk_error, error};
use crate::scheduler;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

#[derive(Debug)]
pub struct File {
    /// An open file or folder of the host's disk.
    handle: u64,
    access: Access,
    /// Relaxed: the world has one thread.
    position: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Access {
    read: bool,
    write: bool,
    append: bool,
}

#[derive(Clone, Debug)]
pub struct OpenOptions {
    access: Access,
    create: bool,
    create_new: bool,
    truncate: bool,
    mode: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    pub fn new() -> Self {
        OpenOptions {
            access: Access::default(),
            create: false,
            create_new: false,
            truncate: false,
            mode: 0o666,
        }
    }

    pub fn read(&mut self, read: bool) -> &mut Self {
        self.access.read = read;
        self
    }

    pub fn write(&mut self, write: bool) -> &mut Self {
        self.access.write = write;
        self
    }

    pub fn append(&mut self, append: bool) -> &mut Self {
        (self.access.append, self.access.write) = (append, append || self.access.write);
        self
    }

    pub fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As std's.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        scheduler::point();
        let (path, access) = (path.as_ref(), self.access);
        let node = state::with(|disk| match disk.find(path) {
            Ok(_) if self.create_new => Err(error(io::ErrorKind::AlreadyExists)),
            Ok(node) if access.write && disk.node(node).is_folder() => {
                Err(error(io::ErrorKind::IsADirectory))
            }
            Ok(node) => Ok(node),
            Err(none) if none.kind() == io::ErrorKind::NotFound && (self.create || self.create_new) => {
                disk.create_file(path, self.mode)
            }
            Err(error) => Err(error),
        })?;
        let file = File { handle: state::open(node), access, position: AtomicU64::new(0) };
        if self.truncate && access.write {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

/// What std has for Unix only.
pub trait OpenOptionsExt {
    /// The permissions of a file that is created.
    fn mode(&mut self, mode: u32) -> &mut Self;
    /// Has no effect: there are no pipes to wait for.
    fn custom_flags(&mut self, flags: i32) -> &mut Self;
}

impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    fn custom_flags(&mut self, _flags: i32) -> &mut Self {
        self
    }
}

impl File {
    /// Opens a file or folder to read.
    ///
    /// # Errors
    /// As std's.
    pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path)
    }

    /// Creates a file, or empties it.
    ///
    /// # Errors
    /// As std's.
    pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Facts about the file.
    ///
    /// # Errors
    /// As std's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        state::with_open(self.handle, |disk, node| Ok(Metadata::of(node, disk.node(node))))
    }

    /// Sets the permissions.
    ///
    /// # Errors
    /// As std's.
    pub fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        state::with_open(self.handle, |disk, node| {
            disk.node(node).mode = permissions.mode();
            Ok(())
        })
    }

    /// Sets when the bytes were last changed.
    ///
    /// # Errors
    /// As std's.
    pub fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        state::with_open(self.handle, |disk, node| {
            disk.node(node).modified = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Ok(())
        })
    }

    /// Has the disk store the bytes. After an error some of them may not be stored, and a later call does not store
    /// them either.
    ///
    /// # Errors
    /// As the disk's faults say.
    pub fn sync_all(&self) -> io::Result<()> {
        let handle = self.handle;
        let (least, more) = state::with_open(handle, |disk, _| Ok(disk.faults.sync))?;
        scheduler::wait(Some(least + Duration::from_nanos(scheduler::draw(more.as_nanos() as u64 + 1))));
        state::with_open(handle, |disk, node| {
            if fails(disk.faults.errors) {
                if let Content::File(file) = &mut disk.node(node).content {
                    file.fail_sync();
                }
                return Err(disk_error());
            }
            disk.sync(node);
            Ok(())
        })
    }

    /// As [`File::sync_all`].
    ///
    /// # Errors
    /// As the disk's faults say.
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync_all()
    }

    /// Sets the length.
    ///
    /// # Errors
    /// As std's.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        scheduler::point();
        self.change(|_| Some(Change::Length(length as usize))).map(drop)
    }

    /// Locks the file until it is closed.
    ///
    /// # Errors
    /// When another handle has the lock.
    pub fn try_lock(&self) -> Result<(), TryLockError> {
        scheduler::point();
        let handle = self.handle;
        let is_locked =
            state::with_open(handle, |disk, node| Ok(*disk.node(node).lock.get_or_insert(handle) == handle));
        match is_locked {
            Ok(true) => Ok(()),
            Ok(false) => Err(TryLockError::WouldBlock),
            Err(error) => Err(TryLockError::Error(error)),
        }
    }

    /// Makes the change of a file with this length, and returns the new length.
    fn change(&self, change: impl FnOnce(usize) -> Option<Change>) -> io::Result<usize> {
        if !self.access.write {
            return Err(bad_descriptor());
        }
        state::with_open(self.handle, |disk, node| {
            let file = disk.file(node)?;
            let before = file.bytes.len();
            if let Some(change) = change(before) {
                file.change(change);
            }
            let after = file.bytes.len();
            disk.has_grown(before as u64, after as u64);
            disk.node(node).modified = scheduler::now();
            Ok(after)
        })
    }

    /// Writes at a place, or at the end with `None`. Returns how many bytes were written, and where the last one is.
    fn write_some(&self, bytes: &[u8], at: Option<u64>) -> io::Result<(usize, usize)> {
        scheduler::point();
        // A process may be killed between the two parts of a write.
        let cut = if scheduler::draw(8) == 0 { scheduler::draw(bytes.len() as u64 + 1) as usize } else { 0 };
        let bytes = if cut > 0 { &bytes[..cut] } else { bytes };
        let room = state::with_open(self.handle, |disk, node| {
            let length = disk.file(node)?.bytes.len() as u64;
            let begin = at.unwrap_or(length);
            let grows = (begin + bytes.len() as u64).saturating_sub(length);
            if fails(disk.faults.errors) {
                return Err(disk_error());
            }
            Ok(bytes.len().saturating_sub((grows - disk.room(grows)) as usize))
        })?;
        if room == 0 && !bytes.is_empty() {
            return Err(error(io::ErrorKind::StorageFull));
        }
        let mut end = 0;
        self.change(|length| {
            let offset = at.map_or(length, |at| at as usize);
            end = offset + room;
            (room > 0).then(|| Change::Write { offset, bytes: bytes[..room].to_vec() })
        })?;
        Ok((room, end))
    }

    fn read_some(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        scheduler::point();
        if !self.access.read {
            return Err(bad_descriptor());
        }
        let mut copy = |bytes: &[u8]| {
            let rest = bytes.get(at as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            count
        };
        state::with_open(self.handle, |disk, node| Ok(copy(&disk.file(node)?.bytes)))
    }
}

/// Whether an operation fails of which one in this many does.
fn fails(one_in: u64) -> bool {
    one_in > 0 && scheduler::draw(one_in) == 0
}

impl Drop for File {
    fn drop(&mut self) {
        state::close(self.handle);
    }
}

impl Read for &File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.position.load(Ordering::Relaxed);
        let count = self.read_some(buffer, at)?;
        self.position.store(at + count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Write for &File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let at = (!self.access.append).then(|| self.position.load(Ordering::Relaxed));
        let (count, end) = self.write_some(bytes, at)?;
        self.position.store(end as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let end = || self.metadata().map(|file| file.len());
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (end()?, by),
            SeekFrom::Current(by) => (self.position.load(Ordering::Relaxed), by),
        };
        let at = from.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        self.position.store(at, Ordering::Relaxed);
        Ok(at)
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

/// What std has for Unix only.
pub trait FileExt {
    /// Reads from a place.
    ///
    /// # Errors
    /// As std's.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of the bytes from a place on.
    ///
    /// # Errors
    /// As std's.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
}

impl FileExt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_some(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            written += self.write_some(&bytes[written..], Some(offset + written as u64))?.0;
        }
        Ok(())
    }
}
