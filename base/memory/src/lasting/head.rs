//! The head of a Region's file: how it is encoded and validated.

use super::layout::HEAD_BYTES;
use super::sums::Sums;
use crate::region::Region;
use std::fmt;

/// Why the contents of a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The file was not closed in order.
    NotClosed,
    /// The file has another layout or version.
    Version,
    Damaged,
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Loss::NotClosed => {
                "the region was not closed because the server was killed or the machine crashed"
            }
            Loss::Version => "the region was written by another version of the server",
            Loss::Damaged => "the region is corrupt",
        })
    }
}

/// The longest notes, in bytes.
pub const NOTES_MAX: usize = 16 << 10;
/// The longest state, in bytes.
pub const STATE_MAX: usize = HEAD_BYTES - FIXED - OF_SUMS - NOTES_MAX;

/// Stored twice, so that a file with a damaged head is still recognized.
pub(super) const MAGIC: &[u8; 16] = b"guira region\r\n\x1a\n";
pub(super) const VERSION: u64 = 2;
/// The version without checksums of blocks.
pub(super) const WITHOUT_SUMS: u64 = 1;
/// The mark of a file that was closed in order.
pub(super) const MARK: u64 = 0x6f72_6465_726c_7921;

pub(super) const VERSION_AT: usize = 16;
pub(super) const MARK_AT: usize = 24;
pub(super) const BYTES_AT: usize = 32;
pub(super) const STATE_AT: usize = 40;
pub(super) const NOTES_AT: usize = 48;
pub(super) const CHECKSUM_AT: usize = 56;
pub(super) const SECOND_MAGIC_AT: usize = 64;
/// Bytes of the head before the state, or before the checksum of the checksums.
pub(super) const FIXED: usize = 80;
/// Bytes of that checksum.
pub(super) const OF_SUMS: usize = 8;

/// The validated fields of a head.
#[derive(Debug)]
pub(super) struct Head<'a> {
    pub(super) state: &'a [u8],
    pub(super) notes: &'a [u8],
    /// Length of the Region, in bytes.
    pub(super) bytes: usize,
    /// Length of the checksums behind it, in bytes.
    pub(super) behind: usize,
    pub(super) checksum_of_sums: Option<u64>,
}

/// Encodes a head without a mark.
pub(super) fn compose(bytes: usize, state: &[u8], notes: &[u8], checksum_of_sums: Option<u64>) -> Vec<u8> {
    let version = if checksum_of_sums.is_some() { VERSION } else { WITHOUT_SUMS };
    let mut head = Vec::with_capacity(FIXED + OF_SUMS + state.len() + notes.len());
    head.extend_from_slice(MAGIC);
    for number in [version, 0, bytes as u64, state.len() as u64, notes.len() as u64, 0] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(MAGIC);
    head.extend(checksum_of_sums.iter().flat_map(|checksum| checksum.to_le_bytes()));
    head.extend_from_slice(state);
    head.extend_from_slice(notes);
    let sum = checksum(&head).to_le_bytes();
    head[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&sum);
    head
}

/// Validates a head. `length` is that of the file.
pub(super) fn examine(head: &[u8], length: u64) -> Result<Head<'_>, Loss> {
    if head.len() < FIXED + OF_SUMS {
        return Err(Loss::Damaged);
    }
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let checksum_of_sums = match number(VERSION_AT) {
        VERSION => Some(number(FIXED)),
        WITHOUT_SUMS => None,
        _ => return Err(Loss::Version),
    };
    match number(MARK_AT) {
        MARK => {}
        0 => return Err(Loss::NotClosed),
        _ => return Err(Loss::Damaged),
    }
    let part = |from: usize, length: u64, most: usize| {
        let end = from.checked_add(usize::try_from(length).ok().filter(|length| *length <= most)?)?;
        head.get(from..end)
    };
    let of_sums = if checksum_of_sums.is_some() { OF_SUMS } else { 0 };
    let state = part(FIXED + of_sums, number(STATE_AT), HEAD_BYTES).ok_or(Loss::Damaged)?;
    let state_end = FIXED + of_sums + state.len();
    let notes = part(state_end, number(NOTES_AT), NOTES_MAX).ok_or(Loss::Damaged)?;
    let bytes = usize::try_from(number(BYTES_AT)).map_err(|_| Loss::Damaged)?;
    let behind = length.checked_sub(bytes as u64).ok_or(Loss::Damaged)? as usize;
    let behind_max = if checksum_of_sums.is_some() { Sums::longest(bytes) } else { 0 };
    let is_sound = checksum(&head[..state_end + notes.len()]) == number(CHECKSUM_AT)
        && bytes == Region::rounded(bytes)
        && bytes >= HEAD_BYTES
        && behind <= behind_max;
    if is_sound { Ok(Head { state, notes, bytes, behind, checksum_of_sums }) } else { Err(Loss::Damaged) }
}

/// The checksum of a head without its mark and checksum.
fn checksum(head: &[u8]) -> u64 {
    let left_out =
        |at: usize| (MARK_AT..MARK_AT + 8).contains(&at) || (CHECKSUM_AT..CHECKSUM_AT + 8).contains(&at);
    fnv(head.iter().enumerate().filter(|(at, _)| !left_out(*at)).map(|(_, byte)| *byte))
}

/// FNV-1a. A change of a single byte always changes it.
pub(super) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
