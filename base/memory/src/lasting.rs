//! The file in which a Region survives a restart, for every engine.
//!
//! The file begins with a head, in which the engine saves its state beside the Region's own contents, and the server
//! its notes, and ends with checksums of the Region's blocks:
//!
//! ```text
//! head: | magic 16 | version 8 | mark 8 | length of the Region 8 | of the state 8 | of the notes 8 | checksum 8 | magic 16 |
//!       | checksum of the sums 8 | state | notes |
//! file: | Region, which begins with the head | sums |
//! ```
//!
//! Version 1 had no checksums of blocks, and no field for them. Such files are accepted without the check.
//!
//! **The protocol.** A process that opens the file locks it for as long as it is used, and clears the mark before
//! anything else. A process that closes the file writes everything, syncs, sets the mark, and syncs again. A file
//! with a mark was closed in order and not opened since; any other has to be emptied. The checksum covers the head,
//! so a damaged head counts as a missing mark. Blocks whose checksums differ are zeroed and reported ([`Damage`]).

mod hand_over;
mod handed;
mod head;
mod layout;
mod sealing;
mod sums;

pub use handed::{EngineStates, HandedRegion, HandedState};
pub use head::{Loss, NOTES_MAX, STATE_MAX};
pub use layout::{BLOCK_BYTES, HEAD_BYTES};
pub use sums::Damage;

use crate::fault;
use crate::place::RegionPlace;
use crate::region::{HugePages, Region};
use guira_sync::lock::OnceLock;
use head::{FIXED, Head, MAGIC, MARK, SECOND_MAGIC_AT, compose, examine, fnv};
use sealing::{seal, set_mark};
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;
use sums::Sums;

/// The locked file of a Region.
#[derive(Debug)]
pub struct RegionFile {
    place: RegionPlace,
    file: Arc<File>,
    /// Whether blocks were damaged; set once the Region was mapped.
    is_damaged: OnceLock<bool>,
}

/// The contents of a file when it was opened.
#[derive(Debug)]
pub enum FileContents {
    /// The file did not exist, or was empty.
    Empty,
    /// The file was closed in order.
    Intact(SavedRegion),
    Unusable(Loss),
}

/// The state of a Region that was closed in order.
#[derive(Debug)]
pub struct SavedRegion {
    pub state: Vec<u8>,
    pub notes: Vec<u8>,
    /// Length of the Region, in bytes.
    pub bytes: usize,
    /// The checksums of its blocks, if the file has any.
    sums: Option<Sums>,
    by: HandedBy,
}

/// How a Region came to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandedBy {
    /// Closed in order, and opened some time later.
    File,
    /// Handed over by a live process: nobody can have changed it since.
    Process,
}

impl SavedRegion {
    /// How it came to this process.
    pub fn handed_by(&self) -> HandedBy {
        self.by
    }
}

/// Why a file cannot be used for a Region.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("another server uses the region")]
    InUse,
    /// It belongs to another user, who could change it at any time.
    #[error("the file belongs to another user")]
    Foreign,
    /// It was handed over, and its path leads to another file.
    #[error("the region that was handed over is at another address")]
    Moved,
    /// It is not a Region's file.
    #[error("the file is not a region of Guira and is not overwritten")]
    NoRegion,
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Only the owner may read or write items.
const MODE: u32 = 0o600;

impl RegionFile {
    /// Opens and locks the file, creates it if it is missing, and clears its mark.
    ///
    /// # Errors
    /// If the file cannot be opened, is in use, or is not a Region's file.
    pub fn open(place: &RegionPlace) -> Result<(Self, FileContents), FileError> {
        if let Some(handed) = place.handed() {
            return Self::take_over(place, handed);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(MODE);
        let file = options.open(place.path())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FileError::InUse),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let metadata = file.metadata()?;
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(FileError::Foreign);
        }
        if !metadata.is_file() {
            return Err(FileError::NoRegion);
        }
        let this = RegionFile { place: place.clone(), file: Arc::new(file), is_damaged: OnceLock::new() };
        if metadata.len() == 0 {
            this.close_to_others()?;
            return Ok((this, FileContents::Empty));
        }
        let mut head = vec![0; HEAD_BYTES.min(metadata.len() as usize)];
        this.file.read_exact_at(&mut head, 0)?;
        let is_ours = |at: usize| head.get(at..at + MAGIC.len()) == Some(MAGIC);
        // A process that was killed while it created the file, or one that preallocated it, has left zeroes.
        let is_blank = head.iter().all(|byte| *byte == 0);
        if is_blank {
            this.close_to_others()?;
            return Ok((this, FileContents::Empty));
        }
        // A file that ends within its first words holds no items.
        let is_stump = MAGIC.starts_with(&head);
        if !is_stump && !is_ours(0) && !is_ours(SECOND_MAGIC_AT) {
            return Err(FileError::NoRegion);
        }
        this.close_to_others()?;
        // A file without a complete head has no mark, and is not extended: its first words might be a foreign file's.
        if head.len() >= FIXED {
            set_mark(&this.file, 0)?;
        }
        let found = match examine(&head, metadata.len()).and_then(|head| this.kept(head)) {
            Ok(kept) => FileContents::Intact(kept),
            Err(loss) => FileContents::Unusable(loss),
        };
        Ok((this, found))
    }

    /// Combines the head with the checksums behind the Region.
    fn kept(&self, head: Head<'_>) -> Result<SavedRegion, Loss> {
        let read = |checksum| {
            let mut sums = vec![0; head.behind];
            let end = self.file.read_exact_at(&mut sums, head.bytes as u64);
            let is_whole = end.is_ok() && fnv(sums.iter().copied()) == checksum;
            if is_whole { Ok(Sums::decode(&sums)) } else { Err(Loss::Damaged) }
        };
        let sums = head.checksum_of_sums.map(read).transpose()?;
        let (state, notes) = (head.state.to_vec(), head.notes.to_vec());
        Ok(SavedRegion { state, notes, bytes: head.bytes, sums, by: HandedBy::File })
    }

    /// Removes the permissions of other users, who must not read items.
    fn close_to_others(&self) -> io::Result<()> {
        self.file.set_permissions(Permissions::from_mode(MODE))
    }

    /// Maps a saved Region, and checks all of it for blocks that changed since it was closed. Without saved checksums
    /// no block counts as damaged.
    ///
    /// # Errors
    /// An error of the system.
    pub fn map(&self, kept: &SavedRegion, huge: HugePages) -> io::Result<(Region, Damage)> {
        let damage = match &kept.sums {
            Some(sums) => sums.compare(&self.file, kept.bytes)?,
            None => Damage::default(),
        };
        // No other process maps it.
        let _ = self.is_damaged.set(!damage.is_none());
        let region = self.mapped(kept.bytes, huge)?;
        // The contents of a damaged block afterwards.
        let zeroes = if damage.is_none() { Vec::new() } else { vec![0; BLOCK_BYTES] };
        for Range { start, end } in damage.ranges() {
            // Zeroing keeps allocated blocks allocated; of those that are not, or cannot be written to, the engine
            // allocates the memory again when it restores them.
            if self.file.write_all_at(&zeroes[..end - start], start as u64).is_err() {
                region.discard(start, end - start)?;
            }
        }
        Ok((region, damage))
    }

    fn mapped(&self, bytes: usize, huge: HugePages) -> io::Result<Region> {
        let region = Region::on_file(self.file.clone(), bytes, huge)?;
        fault::watch(region.addresses(), &self.place);
        Ok(region)
    }

    /// Empties the file, extends it for a Region of `bytes`, and maps that. The file must not be mapped any more. It
    /// stays sparse until it is used.
    ///
    /// # Errors
    /// An error of the system.
    pub fn empty(&self, bytes: usize, huge: HugePages) -> io::Result<Region> {
        self.file.set_len(0)?;
        let bytes = Region::rounded(bytes.max(HEAD_BYTES));
        self.file.set_len(bytes as u64)?;
        // The whole head, so that it can be written when the file is closed.
        let mut head = compose(bytes, &[], &[], None);
        head.resize(HEAD_BYTES, 0);
        self.file.write_all_at(&head, 0)?;
        self.file.sync_all()?;
        self.mapped(bytes, huge)
    }

    /// The most bytes that the file could hold, as far as its file system has space.
    ///
    /// # Errors
    /// An error of the system.
    pub fn room(&self) -> io::Result<u64> {
        let system = rustix::fs::fstatvfs(&*self.file)?;
        if system.f_blocks == 0 {
            // A file system in memory may have no limit.
            return Ok(u64::MAX);
        }
        let taken = self.file.metadata()?.blocks().saturating_mul(512);
        Ok(system.f_bavail.saturating_mul(system.f_frsize).saturating_add(taken))
    }

    /// Restores the mark that [`RegionFile::open`] cleared, so that the Region can be opened again. A process that
    /// has mapped it may have changed metadata of free memory, so checksums are computed again. If any block was
    /// damaged, changed blocks count as damaged too.
    ///
    /// # Errors
    /// An error of the system. The file then has no mark.
    pub fn leave(self, kept: &SavedRegion) -> io::Result<()> {
        if kept.by == HandedBy::Process {
            // Who has handed it over has everything that it takes to go on.
            return Ok(());
        }
        match self.is_damaged.get() {
            Some(false) => self.seal(kept.bytes, &kept.state, &kept.notes),
            Some(true) | None => set_mark(&self.file, MARK),
        }
    }

    /// Closes the file in order, with `region`, which is mapped from it and no longer stored to, and the `state` and
    /// `notes` for the next process.
    ///
    /// # Errors
    /// An error of the system. The file then has no mark.
    ///
    /// # Panics
    /// If the state is longer than [`STATE_MAX`], or the notes longer than [`NOTES_MAX`].
    pub fn close(self, region: &Region, state: &[u8], notes: &[u8]) -> io::Result<()> {
        assert!(state.len() <= STATE_MAX && notes.len() <= NOTES_MAX, "they fit into the head");
        region.sync()?;
        self.seal(region.reserved(), state, notes)
    }

    fn seal(&self, bytes: usize, state: &[u8], notes: &[u8]) -> io::Result<()> {
        seal(&self.file, bytes, state, notes)
    }
}

#[cfg(not(miri))]
#[cfg(test)]
mod tests {
    use super::head::{MARK_AT, OF_SUMS};
    use super::*;
    use crate::Offset;
    use crate::scratch::Scratch;
    use guira_sync::words;

    const SOME: usize = 4 << 20;
    const AT: Offset = Offset::from_bytes(1 << 20);

    fn open(scratch: &Scratch) -> (RegionFile, FileContents) {
        RegionFile::open(&scratch.place()).unwrap()
    }

    /// A file that was closed in order, with 7 stored at `AT`.
    fn closed(scratch: &Scratch) {
        let (file, _) = open(scratch);
        let region = file.empty(SOME, HugePages::No).unwrap();
        words::store(region.word(AT), 7);
        file.close(&region, b"the state", b"notes").unwrap();
    }

    #[test]
    fn a_closed_region_is_opened_once() {
        let scratch = Scratch::new("once");
        assert!(matches!(open(&scratch).1, FileContents::Empty));
        closed(&scratch);
        let (file, found) = open(&scratch);
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        assert_eq!(
            (kept.state.as_slice(), kept.notes.as_slice()),
            (b"the state".as_slice(), b"notes".as_slice())
        );
        let (region, damage) = file.map(&kept, HugePages::No).unwrap();
        assert_eq!((region.reserved(), words::load(region.word(AT))), (SOME, 7));
        assert!(damage.is_none());
        drop((region, file));
        assert!(
            matches!(open(&scratch).1, FileContents::Unusable(Loss::NotClosed)),
            "it was opened and not closed"
        );
    }

    #[test]
    fn a_file_that_was_made_in_advance_is_closed_to_others() {
        for (name, length) in [("advance-empty", 0), ("advance-blank", 1 << 20)] {
            let scratch = Scratch::new(name);
            let made = File::create(scratch.place().path()).unwrap();
            made.set_len(length).unwrap();
            made.set_permissions(Permissions::from_mode(0o644)).unwrap();
            assert!(matches!(open(&scratch).1, FileContents::Empty));
            assert_eq!(made.metadata().unwrap().mode() & 0o777, MODE, "{name}");
        }
        let scratch = Scratch::new("opened-since");
        closed(&scratch);
        let path = scratch.place().path().to_owned();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(open(&scratch).1, FileContents::Intact(_)));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, MODE);
        // A foreign file stays as it is.
        std::fs::write(&path, "a letter").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(RegionFile::open(&scratch.place()), Err(FileError::NoRegion)));
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn the_mark_is_gone_from_the_file_as_soon_as_it_is_open() {
        let scratch = Scratch::new("mark");
        closed(&scratch);
        let mark = || std::fs::read(scratch.place().path()).unwrap()[MARK_AT..MARK_AT + 8].to_vec();
        assert_eq!(mark(), MARK.to_le_bytes());
        let opened = open(&scratch);
        assert_eq!(mark(), [0; 8]);
        drop(opened);
    }

    #[test]
    fn a_region_that_was_only_mapped_can_be_left_as_it_was() {
        let scratch = Scratch::new("left");
        closed(&scratch);
        for _ in 0..3 {
            let (file, found) = open(&scratch);
            let FileContents::Intact(kept) = found else { panic!("{found:?}") };
            file.leave(&kept).unwrap();
        }
    }

    #[test]
    fn two_never_share_a_file() {
        let scratch = Scratch::new("two");
        closed(&scratch);
        let (file, found) = open(&scratch);
        assert!(matches!(RegionFile::open(&scratch.place()), Err(FileError::InUse)));
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        let region = file.map(&kept, HugePages::No).unwrap();
        drop(file);
        assert!(matches!(RegionFile::open(&scratch.place()), Err(FileError::InUse)), "it is still mapped");
        drop(region);
        assert!(RegionFile::open(&scratch.place()).is_ok());
    }

    #[test]
    fn a_file_with_something_else_in_it_is_left_alone() {
        let scratch = Scratch::new("else");
        let text = b"the only copy of my thesis".repeat(10);
        std::fs::write(scratch.place().path(), &text).unwrap();
        assert!(matches!(RegionFile::open(&scratch.place()), Err(FileError::NoRegion)));
        assert_eq!(std::fs::read(scratch.place().path()).unwrap(), text);
        assert!(RegionFile::open(&RegionPlace::at("/dev")).is_err());
    }

    #[test]
    fn a_file_that_was_cut_is_emptied_however_little_is_left() {
        let scratch = Scratch::new("cut");
        let path = scratch.place().path().to_owned();
        closed(&scratch);
        let whole = std::fs::read(&path).unwrap();
        for length in 1..=FIXED + 1 {
            std::fs::write(&path, &whole[..length]).unwrap();
            // A server that is killed before it has emptied the file leaves it for the next one.
            for _ in 0..2 {
                let found = open(&scratch).1;
                assert!(
                    matches!(found, FileContents::Unusable(Loss::Damaged | Loss::NotClosed)),
                    "{length}: {found:?}"
                );
            }
        }
        for text in ["G", "Gu", "guirx", "guira regional news"] {
            std::fs::write(&path, text).unwrap();
            assert!(matches!(RegionFile::open(&scratch.place()), Err(FileError::NoRegion)), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_file_that_begins_with_nothing_is_as_good_as_none() {
        let scratch = Scratch::new("blank");
        for length in [1, 4096, HEAD_BYTES as u64, 8 << 20] {
            File::create(scratch.place().path()).unwrap().set_len(length).unwrap();
            let (file, found) = open(&scratch);
            assert!(matches!(found, FileContents::Empty), "{length}: {found:?}");
            drop(file.empty(SOME, HugePages::No).unwrap());
        }
    }

    #[test]
    fn no_head_with_a_byte_changed_or_missing_is_believed() {
        let scratch = Scratch::new("flip");
        closed(&scratch);
        let whole = std::fs::read(scratch.place().path()).unwrap();
        let used = FIXED + OF_SUMS + b"the state".len() + b"notes".len();
        assert!(examine(&whole[..HEAD_BYTES], whole.len() as u64).is_ok());
        for at in 0..used {
            for change in [1, 0x80, 0xff] {
                let mut head = whole[..HEAD_BYTES].to_vec();
                head[at] ^= change;
                assert!(examine(&head, whole.len() as u64).is_err(), "byte {at} changed by {change:#x}");
            }
            assert!(examine(&whole[..at], whole.len() as u64).is_err(), "cut off at {at}");
        }
        assert!(examine(&whole[..HEAD_BYTES], whole.len() as u64 + (2 << 20)).is_err());
        assert!(examine(&whole[..HEAD_BYTES], SOME as u64 - (2 << 20)).is_err());
    }

    /// Overwrites a byte of the file of `scratch`.
    fn spoil(scratch: &Scratch, at: u64, byte: u8) {
        let file = File::options().write(true).open(scratch.place().path()).unwrap();
        file.write_all_at(&[byte], at).unwrap();
    }

    #[test]
    fn a_changed_block_is_reported_and_zeroed_and_the_others_are_kept() {
        let scratch = Scratch::new("damage");
        closed(&scratch);
        let (at, other) = (AT.bytes(), AT.bytes() + 2 * BLOCK_BYTES);
        spoil(&scratch, at as u64 + 4096, 1);
        spoil(&scratch, other as u64 + 4096, 1);
        for _ in 0..2 {
            let (file, found) = open(&scratch);
            let FileContents::Intact(kept) = found else { panic!("{found:?}") };
            let (region, damage) = file.map(&kept, HugePages::No).unwrap();
            assert!(damage.touches(at, 1) && damage.touches(other, BLOCK_BYTES));
            assert_eq!((damage.count(), damage.touches(at + BLOCK_BYTES, BLOCK_BYTES)), (2, false));
            let words = [at, at + 4096, other + 4096].map(|at| Offset::from_bytes(at as u64));
            assert_eq!(words.map(|at| words::load(region.word(at))), [0; 3]);
            // `leave` leaves the file damaged: one block is zero that should not be. The other is intact.
            file.leave(&kept).unwrap();
            drop(region);
            spoil(&scratch, other as u64 + 8192, 1);
        }
        let (file, found) = open(&scratch);
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        let (region, _) = file.map(&kept, HugePages::No).unwrap();
        file.close(&region, b"", b"").unwrap();
        drop(region);
        let (file, found) = open(&scratch);
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        assert!(file.map(&kept, HugePages::No).unwrap().1.is_none(), "what was closed since is whole");
    }

    #[test]
    fn sums_that_have_changed_or_are_missing_are_not_believed() {
        let scratch = Scratch::new("spoilt-sums");
        closed(&scratch);
        let whole = std::fs::read(scratch.place().path()).unwrap();
        assert_eq!(whole.len(), SOME + 16, "one block holds something");
        for at in SOME..whole.len() {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 0x10;
            std::fs::write(scratch.place().path(), spoilt).unwrap();
            assert!(matches!(open(&scratch).1, FileContents::Unusable(Loss::Damaged)), "byte {at}");
        }
        for length in [SOME, SOME + 8, SOME + 15, SOME + 17, SOME + 32] {
            let mut other = whole.clone();
            other.resize(length, 0);
            std::fs::write(scratch.place().path(), other).unwrap();
            assert!(matches!(open(&scratch).1, FileContents::Unusable(Loss::Damaged)), "{length} bytes");
        }
    }

    /// A file of version 1.
    #[test]
    fn a_region_that_was_closed_without_sums_is_believed_and_gets_some() {
        let scratch = Scratch::new("without");
        closed(&scratch);
        let file = File::options().write(true).open(scratch.place().path()).unwrap();
        let head = compose(SOME, b"the state", b"notes", None);
        file.write_all_at(&head, 0).unwrap();
        file.write_all_at(&MARK.to_le_bytes(), MARK_AT as u64).unwrap();
        file.set_len(SOME as u64).unwrap();
        spoil(&scratch, AT.bytes() as u64 + 4096, 1);
        let (file, found) = open(&scratch);
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        assert_eq!((kept.state.as_slice(), kept.notes.as_slice()), (&b"the state"[..], &b"notes"[..]));
        let (region, damage) = file.map(&kept, HugePages::No).unwrap();
        assert!(damage.is_none(), "there were no checksums");
        file.close(&region, &kept.state, b"").unwrap();
        drop(region);
        spoil(&scratch, AT.bytes() as u64 + 4096, 2);
        let (file, found) = open(&scratch);
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        assert_eq!(file.map(&kept, HugePages::No).unwrap().1.count(), 1);
    }

    #[test]
    fn memory_that_is_given_back_is_a_hole_in_the_file() {
        let scratch = Scratch::new("hole");
        let (file, _) = open(&scratch);
        let region = file.empty(SOME, HugePages::No).unwrap();
        let taken = || std::fs::metadata(scratch.place().path()).unwrap().blocks() * 512;
        let empty = taken();
        (0..256).for_each(|page| words::store(region.word(AT.plus(page * 4096)), 9));
        assert!(taken() >= empty + (1 << 20), "{} bytes", taken());
        region.discard(1 << 20, 1 << 20).unwrap();
        assert_eq!((taken(), words::load(region.word(AT))), (empty, 0));
        assert!(file.room().unwrap() > 1 << 20);
    }
}
