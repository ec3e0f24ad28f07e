//! A Region's file that was closed in order, to be written again and again, each time with something in it changed.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What a file holds, and where.
#[derive(Clone, Debug)]
pub struct Image {
    path: PathBuf,
    whole: Vec<u8>,
    /// Where there are blocks that are not zero.
    blocks: Vec<usize>,
}

/// A block of the file system.
const BLOCK: usize = 4096;

/// Where the version is in the head, the mark, the length of the Region, of the state and the notes, and the checksum.
const VERSION: usize = 16;
const MARK: usize = 24;
const LENGTH: usize = 32;
const STATE: usize = 40;
const NOTES: usize = 48;
const CHECKSUM: usize = 56;
/// Where the state begins, or the checksum of the sums before it.
const FIXED: usize = 80;
const OF_SUMS: usize = 8;

impl Image {
    /// That of the file at `path`.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let whole = std::fs::read(&path).expect("there is a file");
        let end = |at: usize| (at + BLOCK).min(whole.len());
        let is_used = |at: &usize| whole[*at..end(*at)].iter().any(|byte| *byte != 0);
        let blocks = (0..whole.len()).step_by(BLOCK).filter(is_used).collect();
        Image { path, whole, blocks }
    }

    /// What it holds.
    pub fn bytes(&self) -> &[u8] {
        &self.whole
    }

    /// The word at `at`.
    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.whole[at + i]))
    }

    /// As version 1 would have left it, which had no sums: whatever is changed in it, nobody notices by them.
    #[must_use]
    pub fn without_sums(mut self) -> Self {
        let [region, state, notes] = [LENGTH, STATE, NOTES].map(|at| self.word(at) as usize);
        self.whole.truncate(region);
        self.blocks.retain(|at| *at < region);
        let used = FIXED + OF_SUMS + state + notes;
        self.whole.copy_within(FIXED + OF_SUMS..used, FIXED);
        self.whole[used - OF_SUMS..used].fill(0);
        self.whole[VERSION] = 1;
        let is_counted =
            |at: &usize| !(MARK..MARK + 8).contains(at) && !(CHECKSUM..CHECKSUM + 8).contains(at);
        // FNV-1a.
        let sum = (0..used - OF_SUMS).filter(is_counted).fold(0xcbf2_9ce4_8422_2325_u64, |sum, at| {
            (sum ^ u64::from(self.whole[at])).wrapping_mul(0x0100_0000_01b3)
        });
        self.whole[CHECKSUM..CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
        self
    }

    /// Writes the file again, with these changes.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write<B: AsRef<[u8]>>(&self, changes: impl IntoIterator<Item = (usize, B)>) {
        let file = OpenOptions::new().write(true).open(&self.path).expect("it is there");
        let put = |bytes: &[u8], at: usize| file.write_all_at(bytes, at as u64).expect("there is spec");
        file.set_len(0).expect("it can be emptied");
        file.set_len(self.whole.len() as u64).expect("it can be as long");
        for at in &self.blocks {
            put(&self.whole[*at..(*at + BLOCK).min(self.whole.len())], *at);
        }
        changes.into_iter().for_each(|(at, bytes)| put(bytes.as_ref(), at));
    }
}
