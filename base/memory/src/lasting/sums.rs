//! Checksums of the blocks of a Region's file: computed when it is closed, compared when it is opened.
//!
//! **Which blocks are read.** Holes are zero, and are not read: that would commit memory. The other blocks are read
//! as a file, not through a mapping: pages that are not in memory stay out of it, and a bad sector is an error
//! instead of a signal.

use super::layout::{BLOCK_BYTES, HEAD_BYTES};
use guira_sync::threads::map_by_threads;
use rapidhash::v3::rapidhash_v3;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The checksum of a block that cannot be read.
const UNREADABLE: u64 = u64::MAX;

/// The number of blocks that a thread takes at a time.
const SHARE: usize = 16;

/// Number and checksum of each block that is not zero, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums(Vec<(u64, u64)>);

impl Sums {
    /// The checksums of the first `bytes` of a file, a multiple of [`BLOCK_BYTES`], without the head. A block that
    /// cannot be read gets a checksum that never matches, so that it alone counts as damaged at the next start.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn of(file: &File, bytes: usize) -> io::Result<Self> {
        let sums = read(file, bytes)?.into_iter().map(|(block, sum)| (block, sum.unwrap_or(UNREADABLE)));
        Ok(Sums(sums.collect()).without_zeroes())
    }

    /// The blocks of the first `bytes` of a file whose checksums differ, or that cannot be read.
    ///
    /// # Errors
    /// An error of the system.
    pub(super) fn compare(&self, file: &File, bytes: usize) -> io::Result<Damage> {
        let mut found = Vec::new();
        let mut unreadable = Vec::new();
        for (block, sum) in read(file, bytes)? {
            match sum {
                Ok(sum) => found.push((block, sum)),
                Err(_) => unreadable.push(block),
            }
        }
        let found = Sums(found).without_zeroes();
        let mut blocks = unreadable;
        for (these, those) in [(self, &found), (&found, self)] {
            let is_other = |entry: &&(u64, u64)| those.0.binary_search(entry).is_err();
            blocks.extend(these.0.iter().filter(is_other).map(|(block, _)| block));
        }
        blocks.sort_unstable();
        blocks.dedup();
        Ok(Damage { blocks })
    }

    /// A block of zeroes is equivalent to a hole.
    fn without_zeroes(mut self) -> Self {
        // Not a constant: that would be 256 KiB of the program.
        let zero = rapidhash_v3(&vec![0; BLOCK_BYTES]);
        self.0.retain(|(_, sum)| *sum != zero);
        self
    }

    /// The most bytes of the encoded checksums of `bytes` of a file.
    pub(super) fn longest(bytes: usize) -> usize {
        bytes / BLOCK_BYTES * 16
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(block, sum)| [block.to_le_bytes(), sum.to_le_bytes()]).flatten().collect()
    }

    /// Decodes the result of [`Sums::encode`].
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let (entries, _) = bytes.as_chunks::<16>();
        let number = |entry: &[u8; 16], at: usize| u64::from_le_bytes(std::array::from_fn(|i| entry[at + i]));
        Sums(entries.iter().map(|entry| (number(entry, 0), number(entry, 8))).collect())
    }
}

/// The blocks of a Region that changed after it was closed, and were zeroed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The numbers of the blocks, in order.
    blocks: Vec<u64>,
}

impl Damage {
    pub fn is_none(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Whether any of the `length` bytes from `at` on lies in a damaged block.
    pub fn touches(&self, at: usize, length: usize) -> bool {
        let (first, end) = (at as u64 / BLOCK, (at as u64).saturating_add(length as u64).div_ceil(BLOCK));
        let next = self.blocks.partition_point(|block| *block < first);
        length > 0 && self.blocks.get(next).is_some_and(|block| *block < end)
    }

    /// The byte ranges of the blocks, without the head.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.blocks.iter().map(|block| {
            let start = *block as usize * BLOCK_BYTES;
            start.max(HEAD_BYTES)..start + BLOCK_BYTES
        })
    }
}

/// Reads all blocks of a file that are not holes. Returns their checksums, in order.
fn read(file: &File, bytes: usize) -> io::Result<Vec<(u64, io::Result<u64>)>> {
    let blocks = held(file, bytes as u64)?;
    let buffer = || vec![0; BLOCK_BYTES];
    Ok(map_by_threads(&blocks, SHARE, buffer, |buffer, block| (*block, sum_in(file, *block, buffer))))
}

/// The blocks of a file that are not holes, in order.
fn held(file: &File, end: u64) -> io::Result<Vec<u64>> {
    let mut blocks: Vec<u64> = Vec::new();
    let mut at = HEAD_BYTES as u64;
    while at < end {
        let from = match seek(file, SeekFrom::Data(at)) {
            Ok(from) if from < end => from,
            // The rest of the file is a hole.
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = seek(file, SeekFrom::Hole(from))?.min(end);
        let first = blocks.last().map_or(0, |last| last + 1).max(from / BLOCK);
        blocks.extend(first..at.div_ceil(BLOCK));
    }
    Ok(blocks)
}

/// The checksum of a block of a file.
fn sum_in(file: &File, block: u64, buffer: &mut [u8]) -> io::Result<u64> {
    file.read_exact_at(buffer, block * BLOCK)?;
    // The head has its own checksum, and changes when the file is opened.
    let of_head = HEAD_BYTES.saturating_sub(block as usize * BLOCK_BYTES).min(buffer.len());
    buffer[..of_head].fill(0);
    Ok(rapidhash_v3(buffer))
}

#[cfg(not(miri))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// The sum of a certain block.
    const WRITTEN: u64 = 9246823720687793302;

    fn scratch_file(name: &str, blocks: u64) -> (Scratch, File) {
        let scratch = Scratch::new(name);
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(scratch.place().path());
        let file = file.unwrap();
        file.set_len(blocks * BLOCK).unwrap();
        (scratch, file)
    }

    fn taken(file: &File) -> u64 {
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap())
    }

    #[test]
    fn no_change_of_a_bit_or_two_goes_unnoticed() {
        let mut block = vec![0; BLOCK_BYTES];
        let mut random = 1u64;
        for word in block.chunks_mut(8) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&random.to_le_bytes());
        }
        let whole = rapidhash_v3(&block);
        let flip = |block: &mut [u8], bit: usize| block[bit / 8] ^= 1 << (bit % 8);
        for bit in (0..BLOCK_BYTES * 8).step_by(1013) {
            flip(&mut block, bit);
            assert_ne!(rapidhash_v3(&block), whole, "bit {bit}");
            flip(&mut block, bit);
        }
        // A bit of a word, and one of another at a distance that a hash may have lanes at.
        for distance in [8, 16, 64, 112, 128] {
            for (one, other) in (0..64).flat_map(|one| (0..64).map(move |other| (one, other))) {
                let bits = [8 * 4096 + one, 8 * (4096 + distance) + other];
                // Bytes behind the block do not affect its checksum.
                let part = &mut block[4000..4600];
                let whole = rapidhash_v3(part);
                bits.iter().for_each(|bit| flip(part, bit - 8 * 4000));
                assert_ne!(rapidhash_v3(part), whole, "bits {bits:?}");
                bits.iter().for_each(|bit| flip(part, bit - 8 * 4000));
            }
        }
        assert_eq!(rapidhash_v3(&block), whole);
        // Swapped words.
        for (one, other) in [(0, 8), (0, 64), (800, 1600)] {
            let mut moved = block.clone();
            (0..8).for_each(|byte| moved.swap(one + byte, other + byte));
            assert_ne!(rapidhash_v3(&moved), whole, "{one} and {other}");
        }
    }

    #[test]
    fn checksums_are_stable() {
        let block: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at * 31) as u8).collect();
        assert_eq!(rapidhash_v3(&block), WRITTEN, "files hold it");
    }

    #[test]
    fn changes_are_found_block_by_block() {
        let (_scratch, file) = scratch_file("sums", 8);
        let write = |block: u64, at: u64, byte: u8| file.write_all_at(&[byte], block * BLOCK + at).unwrap();
        write(0, HEAD_BYTES as u64, 1);
        write(2, 5000, 2);
        write(3, 0, 3);
        write(7, BLOCK - 1, 4);
        let sums = Sums::of(&file, 8 * BLOCK_BYTES).unwrap();
        assert_eq!(sums.0.iter().map(|(block, _)| *block).collect::<Vec<_>>(), [0, 2, 3, 7]);
        assert_eq!(Sums::decode(&sums.encode()), sums);
        let damage = || sums.compare(&file, 8 * BLOCK_BYTES).unwrap();
        assert!(damage().is_none());
        // The head is excluded; a block of zeroes is equivalent to a hole.
        write(0, HEAD_BYTES as u64 - 1, 9);
        write(4, 77, 0);
        assert!(damage().is_none());
        // One block changed, one lost, one where there was a hole.
        write(2, 5000, 3);
        write(3, 0, 0);
        write(5, 100, 1);
        let found = damage();
        assert_eq!((found.blocks.as_slice(), found.count()), ([2, 3, 5].as_slice(), 3));
        let touched = |at: u64, length: usize| found.touches(at as usize, length);
        assert!(touched(2 * BLOCK, 1) && touched(2 * BLOCK - 1, 2) && touched(5 * BLOCK + 8, 9));
        assert!(touched(0, usize::MAX) && touched(3 * BLOCK, 2 * BLOCK_BYTES + 1));
        assert!(!touched(0, 2 * BLOCK_BYTES) && !touched(4 * BLOCK, BLOCK_BYTES) && !touched(6 * BLOCK, 1));
        assert!(!touched(2 * BLOCK + 8, 0), "nothing lies nowhere");
    }

    #[test]
    fn holes_are_not_read_and_stay_holes() {
        let (_scratch, file) = scratch_file("holes", 1 << 20);
        for block in [3u64, 4, 1000, (1 << 20) - 1] {
            file.write_all_at(&[1], block * BLOCK + 4096).unwrap();
        }
        let before = taken(&file);
        // 256 GiB of holes.
        let sums = Sums::of(&file, BLOCK_BYTES << 20).unwrap();
        assert_eq!((sums.0.len(), taken(&file)), (4, before));
    }

    #[test]
    fn many_blocks_are_shared_among_threads_and_none_is_left_out() {
        let (_scratch, file) = scratch_file("many", 100);
        for block in 0..100 {
            file.write_all_at(&[block as u8 + 1; 8192], block * BLOCK + 80_000).unwrap();
        }
        let sums = Sums::of(&file, 100 * BLOCK_BYTES).unwrap();
        assert!(sums.0.iter().map(|(block, _)| *block).eq(0..100));
        for block in (0..100).step_by(7) {
            file.write_all_at(&[0], block * BLOCK + 80_000).unwrap();
        }
        let damage = sums.compare(&file, 100 * BLOCK_BYTES).unwrap();
        assert!(damage.blocks.into_iter().eq((0..100).step_by(7)));
    }

    #[test]
    fn a_block_that_cannot_be_read_is_damaged() {
        let (_scratch, file) = scratch_file("unreadable", 4);
        for block in 0..4 {
            file.write_all_at(&[1], block * BLOCK + 80_000).unwrap();
        }
        let sums = Sums::of(&file, 4 * BLOCK_BYTES).unwrap();
        // The file ends in the middle of the last block.
        file.set_len(4 * BLOCK - 4096).unwrap();
        let damage = sums.compare(&file, 4 * BLOCK_BYTES).unwrap();
        assert_eq!(damage.blocks, [3]);
        let sums = Sums::of(&file, 4 * BLOCK_BYTES).unwrap();
        file.set_len(4 * BLOCK).unwrap();
        let damage = sums.compare(&file, 4 * BLOCK_BYTES).unwrap();
        assert_eq!(damage.blocks, [3], "it could not be read at the stop");
    }
}
