//! Closes a Region's file in order.

use super::head::{MARK, MARK_AT, compose, fnv};
use super::sums::Sums;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Writes the checksums of the blocks, the head, and last the mark.
pub(super) fn seal(file: &File, bytes: usize, state: &[u8], notes: &[u8]) -> io::Result<()> {
    // The previous checksums are obsolete.
    file.set_len(bytes as u64)?;
    let sums = Sums::of(file, bytes)?.encode();
    let checksum = match file.write_all_at(&sums, bytes as u64) {
        Ok(()) => Some(fnv(sums.into_iter())),
        // Losing the checksums is better than losing the items, whichever limit was hit: the file system, a
        // quota, or the file length.
        Err(_) => {
            file.set_len(bytes as u64)?;
            None
        }
    };
    file.write_all_at(&compose(bytes, state, notes, checksum), 0)?;
    file.sync_all()?;
    set_mark(file, MARK)
}

pub(super) fn set_mark(file: &File, mark: u64) -> io::Result<()> {
    file.write_all_at(&mark.to_le_bytes(), MARK_AT as u64)?;
    file.sync_all()
}

/// Whether the file was closed in order, and not opened since.
pub(super) fn is_marked(file: &File) -> io::Result<bool> {
    let mut mark = [0; 8];
    file.read_exact_at(&mut mark, MARK_AT as u64)?;
    Ok(u64::from_le_bytes(mark) == MARK)
}
