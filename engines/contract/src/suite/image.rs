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

    /// As version 1 would have left it, which had no sums: they show no change in it.
    #[must_use]
    pub fn without_sums(mut self) -> Self {
        let [region, state, notes] = [LENGTH, STATE, NOTES].map(|at| self.word(at) as usize);
        self.whole.truncate(region);
        self.blocks.retain(|at| *at < region);
        let used = FIXED + OF_SUMS + state + notes;
        self.whole.copy_within(FIXED + OF_SUMS..used, FIXED);
        self.whole[used - OF_SUMS..used].fill(0);
        self.whole[VERSION] = 1;
        self.seal(used - OF_SUMS);
        self
    }

    /// As a version would have left it that counts other things: for the name of each counter that was saved `change` gives another one, or none if that
    /// version does not count it.
    ///
    /// # Panics
    /// If the counters are not where they should be.
    #[must_use]
    pub fn with_counters(mut self, change: impl Fn(&str) -> Option<String>) -> Self {
        let [state, notes] = [STATE, NOTES].map(|at| self.word(at) as usize);
        let begin = FIXED + OF_SUMS;
        let words: Vec<u64> = (begin..begin + state).step_by(8).map(|at| self.word(at)).collect();
        let words = with_columns(&words, &change);
        let text = String::from_utf8_lossy(&self.whole[begin + state..begin + state + notes]).into_owned();
        let lines = text.lines().filter_map(|line| {
            let (name, count) = line.split_once(' ').expect("a name and a number");
            change(name).map(|name| format!("{name} {count}\n"))
        });
        let (state, notes): (Vec<u8>, String) =
            (words.iter().flat_map(|word| word.to_le_bytes()).collect(), lines.collect());
        for (at, length) in [(STATE, state.len()), (NOTES, notes.len())] {
            self.whole[at..at + 8].copy_from_slice(&(length as u64).to_le_bytes());
        }
        let used = begin + state.len() + notes.len();
        self.whole[begin..used].copy_from_slice(&[state, notes.into_bytes()].concat());
        self.blocks
            .extend((0..used).step_by(BLOCK).filter(|at| !self.blocks.contains(at)).collect::<Vec<_>>());
        self.seal(used);
        self
    }

    /// Writes the checksum of a head of this length.
    fn seal(&mut self, used: usize) {
        let is_counted =
            |at: &usize| !(MARK..MARK + 8).contains(at) && !(CHECKSUM..CHECKSUM + 8).contains(at);
        // FNV-1a.
        let sum = (0..used).filter(is_counted).fold(0xcbf2_9ce4_8422_2325_u64, |sum, at| {
            (sum ^ u64::from(self.whole[at])).wrapping_mul(0x0100_0000_01b3)
        });
        self.whole[CHECKSUM..CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
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

/// The state of an engine whose rows of counters have other columns. Rows begin with a word of ones; the number of columns, their names, the number of
/// rows and their values follow.
fn with_columns(words: &[u64], change: &impl Fn(&str) -> Option<String>) -> Vec<u64> {
    let mut all = words.iter().copied();
    let mut changed = Vec::new();
    while let Some(word) = all.next() {
        changed.push(word);
        if word != u64::MAX {
            continue;
        }
        let mut next = || all.next().expect("a word of the rows") as usize;
        let names: Vec<Option<String>> = (0..next())
            .map(|_| {
                let length = next();
                let bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next().to_le_bytes()).collect();
                change(std::str::from_utf8(&bytes[..length]).expect("a name"))
            })
            .collect();
        changed.push(names.iter().flatten().count() as u64);
        for name in names.iter().flatten() {
            changed.push(name.len() as u64);
            changed.extend(name.as_bytes().chunks(8).map(|part| {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                u64::from_le_bytes(word)
            }));
        }
        let rows = next();
        changed.push(rows as u64);
        for _ in 0..rows {
            changed.extend(
                names
                    .iter()
                    .map(|name| (name, next() as u64))
                    .filter_map(|(name, value)| name.as_ref().map(|_| value)),
            );
        }
    }
    changed
}
