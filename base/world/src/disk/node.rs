//! A file or a folder of a disk.

use super::change::{Change, Entries, Entry, bytes_after_power_loss, entries_after_power_loss};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) mode: u32,
    /// Entries of folders that name it.
    pub(super) links: u64,
    pub(super) handles: u32,
    pub(super) modified: Duration,
    /// The handle that has the lock.
    pub(super) lock: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Content {
    File(FileContent),
    Folder(FolderContent),
}

#[derive(Debug, Default)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    stable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Default)]
pub(super) struct FolderContent {
    pub(super) entries: Entries,
    stable: Entries,
    unsynced: Vec<Entry>,
}

impl FileContent {
    pub(super) fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.unsynced.drain(..).for_each(|change| change.apply(&mut self.stable));
    }

    /// A sync that fails: the disk has some of the changes, and the system forgets that it had to write the others.
    pub(super) fn fail_sync(&mut self) {
        self.stable =
            bytes_after_power_loss(std::mem::take(&mut self.stable), std::mem::take(&mut self.unsynced));
    }

    fn lose_power(&mut self) {
        self.fail_sync();
        self.bytes.clone_from(&self.stable);
    }
}

impl FolderContent {
    pub(super) fn change(&mut self, change: Entry) {
        change.apply(&mut self.entries);
        self.unsynced.push(change);
    }

    pub(super) fn sync(&mut self) {
        self.stable.clone_from(&self.entries);
        self.unsynced.clear();
    }

    fn lose_power(&mut self) {
        self.stable = entries_after_power_loss(std::mem::take(&mut self.stable), &self.unsynced);
        self.unsynced.clear();
        self.entries.clone_from(&self.stable);
    }
}

impl Node {
    pub(super) fn new(content: Content, mode: u32, now: Duration) -> Self {
        Node { content, mode, links: 0, handles: 0, modified: now, lock: None }
    }

    pub(super) fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder(_))
    }

    pub(super) fn is_unused(&self) -> bool {
        self.links == 0 && self.handles == 0
    }

    pub(super) fn length(&self) -> u64 {
        match &self.content {
            Content::File(file) => file.bytes.len() as u64,
            Content::Folder(_) => 4096,
        }
    }

    /// Whether the disk may still have an entry for the node with this number.
    pub(super) fn names(&self, number: u64) -> bool {
        let Content::Folder(folder) = &self.content else { return false };
        let is_put = |entry: &Entry| matches!(entry, Entry::Put(_, node) if *node == number);
        folder.stable.values().any(|node| *node == number) || folder.unsynced.iter().any(is_put)
    }

    pub(super) fn sync(&mut self) {
        match &mut self.content {
            Content::File(file) => file.sync(),
            Content::Folder(folder) => folder.sync(),
        }
    }

    pub(super) fn lose_power(&mut self) {
        match &mut self.content {
            Content::File(file) => file.lose_power(),
            Content::Folder(folder) => folder.lose_power(),
        }
        (self.handles, self.lock) = (0, None);
    }
}
