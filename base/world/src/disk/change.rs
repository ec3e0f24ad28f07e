//! Unsynced changes, and their fate when the power fails.

use crate::scheduler;
use std::collections::BTreeMap;
use std::ffi::OsString;

/// A change of a file's bytes.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    pub(super) fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Length(length) => to.resize(*length, 0),
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
        }
    }

    /// The first part of a write, as a disk has it that lost power while it wrote.
    fn torn(self) -> Change {
        match self {
            Change::Write { offset, mut bytes } => {
                bytes.truncate(scheduler::draw(bytes.len() as u64 + 1) as usize);
                Change::Write { offset, bytes }
            }
            length @ Change::Length(_) => length,
        }
    }
}

/// A change of a folder's entries.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Put(OsString, u64),
    Remove(OsString),
    Rename(OsString, OsString),
}

pub(super) type Entries = BTreeMap<OsString, u64>;

impl Entry {
    pub(super) fn apply(&self, to: &mut Entries) {
        match self {
            Entry::Put(name, node) => {
                to.insert(name.clone(), *node);
            }
            Entry::Remove(name) => {
                to.remove(name);
            }
            Entry::Rename(from, name) => {
                if let Some(node) = to.remove(from) {
                    to.insert(name.clone(), node);
                }
            }
        }
    }
}

/// The bytes that a file has after a loss of power: of the changes since the last sync none, all, or some are there,
/// and the last may be there in part.
pub(super) fn bytes_after_power_loss(stable: Vec<u8>, changes: Vec<Change>) -> Vec<u8> {
    let mut bytes = stable;
    let (manner, kept) = (scheduler::draw(4), scheduler::draw(changes.len() as u64 + 1) as usize);
    for (number, change) in changes.into_iter().enumerate() {
        match manner {
            0 => break,
            1 => change.apply(&mut bytes),
            2 if number < kept => change.apply(&mut bytes),
            2 => {
                change.torn().apply(&mut bytes);
                break;
            }
            _ if scheduler::draw(2) == 0 => change.apply(&mut bytes),
            _ => {}
        }
    }
    bytes
}

/// The entries that a folder has after a loss of power: those of the last sync, and the first of the changes since.
pub(super) fn entries_after_power_loss(stable: Entries, changes: &[Entry]) -> Entries {
    let mut entries = stable;
    let kept = scheduler::draw(changes.len() as u64 + 1) as usize;
    changes[..kept].iter().for_each(|change| change.apply(&mut entries));
    entries
}
