//! The disks of all hosts of the world.

use super::change::Entry;
use super::node::{Content, FileContent, FolderContent, Node};
use crate::failure::{bad_descriptor, error};
use crate::net;
use crate::scheduler::{self, Own, Process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::path::{Component, Path};
use std::time::Duration;

/// Delays and failures of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// The least time of a sync, and what may be added.
    pub sync: (Duration, Duration),
    /// The most bytes of all files.
    pub room: u64,
    /// One in this many writes and syncs fails; 0 for none.
    pub errors: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Faults { sync: (Duration::from_micros(50), Duration::from_millis(2)), room: 1 << 30, errors: 0 }
    }
}

/// The number of the root folder.
const ROOT: u64 = 1;

#[derive(Debug)]
pub(super) struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    pub(super) faults: Faults,
    /// Bytes of all files.
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Handle {
    process: Process,
    host: IpAddr,
    node: u64,
}

#[derive(Debug, Default)]
struct Disks {
    hosts: BTreeMap<IpAddr, Disk>,
    handles: BTreeMap<u64, Handle>,
    next: u64,
}

thread_local! {
    static DISKS: Own<Disks> = const { Own::new() };
}

fn with_all<R>(work: impl FnOnce(&mut Disks) -> R) -> R {
    DISKS.with(|disks| disks.with(|| scheduler::at_end(end_process), work))
}

/// Works on the disk of the host that the running task is on.
pub(super) fn with<R>(work: impl FnOnce(&mut Disk) -> R) -> R {
    let host = net::host_of(scheduler::current_process());
    with_all(|disks| work(disks.hosts.entry(host).or_default()))
}

/// Works on the node of an open file. A file whose process was killed, or whose host lost power, is closed.
pub(super) fn with_open<R>(handle: u64, work: impl FnOnce(&mut Disk, u64) -> io::Result<R>) -> io::Result<R> {
    with_all(|disks| {
        let Handle { host, node, .. } = *disks.handles.get(&handle).ok_or_else(bad_descriptor)?;
        work(disks.hosts.entry(host).or_default(), node)
    })
}

pub(super) fn open(node: u64) -> u64 {
    let process = scheduler::current_process();
    let host = net::host_of(process);
    with_all(|disks| {
        disks.next += 1;
        disks.handles.insert(disks.next, Handle { process, host, node });
        if let Some(node) = disks.hosts.entry(host).or_default().nodes.get_mut(&node) {
            node.handles += 1;
        }
        disks.next
    })
}

pub(super) fn close(handle: u64) {
    with_all(|disks| {
        let Some(Handle { host, node: number, .. }) = disks.handles.remove(&handle) else { return };
        let disk = disks.hosts.entry(host).or_default();
        let Some(node) = disk.nodes.get_mut(&number) else { return };
        node.handles = node.handles.saturating_sub(1);
        if node.lock == Some(handle) {
            node.lock = None;
        }
        disk.free(number);
    });
}

fn end_process(process: Process) {
    let open = with_all(|disks| {
        let own = disks.handles.iter().filter(|(_, handle)| handle.process == process);
        own.map(|(number, _)| *number).collect::<Vec<_>>()
    });
    open.into_iter().for_each(close);
}

/// Sets the delays and failures of a host's disk.
pub fn set_faults(host: IpAddr, faults: Faults) {
    with_all(|disks| disks.hosts.entry(host).or_default().faults = faults);
}

/// The disk of a host loses changes that were not synced. Kill the host's processes first.
pub fn lose_power(host: IpAddr) {
    with_all(|disks| {
        disks.handles.retain(|_, handle| handle.host != host);
        disks.hosts.entry(host).or_default().lose_power();
    });
}

impl Default for Disk {
    fn default() -> Self {
        let mut root = Node::new(Content::Folder(FolderContent::default()), 0o755, Duration::ZERO);
        root.links = 1;
        Disk { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT, faults: Faults::default(), used: 0 }
    }
}

impl Disk {
    pub(super) fn node(&mut self, number: u64) -> &mut Node {
        self.nodes.get_mut(&number).expect("a node is there as long as it is open or named")
    }

    pub(super) fn file(&mut self, number: u64) -> io::Result<&mut FileContent> {
        match &mut self.node(number).content {
            Content::File(file) => Ok(file),
            Content::Folder(_) => Err(error(io::ErrorKind::IsADirectory)),
        }
    }

    fn folder(&mut self, number: u64) -> io::Result<&mut FolderContent> {
        match &mut self.node(number).content {
            Content::Folder(folder) => Ok(folder),
            Content::File(_) => Err(error(io::ErrorKind::NotADirectory)),
        }
    }

    /// The names in a folder, with their nodes.
    pub(super) fn entries(&mut self, folder: u64) -> io::Result<Vec<(OsString, u64)>> {
        Ok(self.folder(folder)?.entries.iter().map(|(name, node)| (name.clone(), *node)).collect())
    }

    pub(super) fn find(&mut self, path: &Path) -> io::Result<u64> {
        let mut at = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = *self.folder(at)?.entries.get(name).ok_or_else(|| error(io::ErrorKind::NotFound))?;
            }
        }
        Ok(at)
    }

    /// The folder that a path is in, and its name there.
    fn place(&mut self, path: &Path) -> io::Result<(u64, OsString)> {
        let name = path.file_name().ok_or_else(|| error(io::ErrorKind::AlreadyExists))?.to_owned();
        let folder = self.find(path.parent().unwrap_or(Path::new("/")))?;
        self.folder(folder)?;
        Ok((folder, name))
    }

    fn create(&mut self, path: &Path, content: Content, mode: u32) -> io::Result<u64> {
        let (folder, name) = self.place(path)?;
        if self.folder(folder)?.entries.contains_key(&name) {
            return Err(error(io::ErrorKind::AlreadyExists));
        }
        self.next += 1;
        let mut node = Node::new(content, mode, scheduler::now());
        node.links = 1;
        self.nodes.insert(self.next, node);
        let entry = Entry::Put(name, self.next);
        self.folder(folder)?.change(entry);
        Ok(self.next)
    }

    pub(super) fn create_file(&mut self, path: &Path, mode: u32) -> io::Result<u64> {
        self.create(path, Content::File(FileContent::default()), mode)
    }

    pub(super) fn create_folder(&mut self, path: &Path, mode: u32) -> io::Result<u64> {
        self.create(path, Content::Folder(FolderContent::default()), mode)
    }

    /// Removes a name. A file's bytes stay as long as it is open.
    pub(super) fn remove(&mut self, path: &Path, of_folder: IsFolder) -> io::Result<()> {
        let node = self.find(path)?;
        match (&self.node(node).content, of_folder) {
            (Content::Folder(_), IsFolder::No) => return Err(error(io::ErrorKind::IsADirectory)),
            (Content::File(_), IsFolder::Yes) => return Err(error(io::ErrorKind::NotADirectory)),
            (Content::Folder(folder), _) if !folder.entries.is_empty() => {
                return Err(error(io::ErrorKind::DirectoryNotEmpty));
            }
            _ => {}
        }
        let (folder, name) = self.place(path)?;
        self.folder(folder)?.change(Entry::Remove(name));
        self.unlink(node);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.find(from)?;
        let ((folder, name), (target, new)) = (self.place(from)?, self.place(to)?);
        let replaced = self.folder(target)?.entries.get(&new).copied();
        if replaced == Some(node) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            let is_folder = self.node(node).is_folder();
            match (is_folder, &self.node(replaced).content) {
                (false, Content::Folder(_)) => return Err(error(io::ErrorKind::IsADirectory)),
                (true, Content::File(_)) => return Err(error(io::ErrorKind::NotADirectory)),
                (true, Content::Folder(folder)) if !folder.entries.is_empty() => {
                    return Err(error(io::ErrorKind::DirectoryNotEmpty));
                }
                _ => {}
            }
        }
        if folder == target {
            self.folder(folder)?.change(Entry::Rename(name, new));
        } else {
            self.folder(target)?.change(Entry::Put(new, node));
            self.folder(folder)?.change(Entry::Remove(name));
        }
        replaced.into_iter().for_each(|node| self.unlink(node));
        Ok(())
    }

    fn unlink(&mut self, number: u64) {
        let node = self.node(number);
        node.links = node.links.saturating_sub(1);
        self.free(number);
    }

    fn free(&mut self, number: u64) {
        let Some(node) = self.nodes.get(&number).filter(|node| node.is_unused()) else { return };
        self.used -= if node.is_folder() { 0 } else { node.length() };
        self.sweep();
    }

    /// Drops nodes that are neither open nor named, also by an entry that only a loss of power brings back.
    fn sweep(&mut self) {
        let unused = self.nodes.iter().filter(|(_, node)| node.is_unused()).map(|(number, _)| *number);
        for number in unused.collect::<Vec<_>>() {
            if !self.nodes.values().any(|node| node.names(number)) {
                self.nodes.remove(&number);
            }
        }
    }

    /// Stores the changes of a file or folder.
    pub(super) fn sync(&mut self, number: u64) {
        self.node(number).sync();
        self.sweep();
    }

    /// How many of `wanted` more bytes a file may get.
    pub(super) fn room(&self, wanted: u64) -> u64 {
        wanted.min(self.faults.room.saturating_sub(self.used))
    }

    /// A file had `from` bytes, and has `to`.
    pub(super) fn has_grown(&mut self, from: u64, to: u64) {
        self.used = (self.used + to).saturating_sub(from);
    }

    fn lose_power(&mut self) {
        self.nodes.values_mut().for_each(Node::lose_power);
        let mut links = BTreeMap::<u64, u64>::from([(ROOT, 1)]);
        let mut reached = vec![ROOT];
        while let Some(folder) = reached.pop() {
            for (_, node) in self.entries(folder).unwrap_or_default() {
                *links.entry(node).or_default() += 1;
                reached.push(node);
            }
        }
        self.nodes.retain(|number, _| links.contains_key(number));
        self.nodes.iter_mut().for_each(|(number, node)| node.links = links[number]);
        let files = self.nodes.values().filter(|node| !node.is_folder());
        self.used = files.map(Node::length).sum();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsFolder {
    Yes,
    No,
}
