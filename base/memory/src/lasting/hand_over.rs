//! A Region that changes hands between two processes that both live.
//!
//! Nothing is written for that. The file stays as it is for a server that runs: locked, by the open file that both share, and without
//! a mark. What an orderly close would have put into its head goes to the successor by other ways, with the open file. There are no
//! checksums either: memory that no process has written to since needs none. If both processes die, the next start finds a file
//! that was not closed, which is what it is.

use super::{
    EngineStates, FileContents, FileError, HandedBy, HandedRegion, HandedState, Loss, NOTES_MAX, RegionFile,
    STATE_MAX, SavedRegion,
};
use crate::place::RegionPlace;
use crate::region::Region;
use guira_sync::lock::OnceLock;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

impl RegionFile {
    /// Uses the file that was handed over, in place of the one that the path leads to. It is locked already.
    pub(super) fn take_over(
        place: &RegionPlace,
        handed: &Arc<HandedRegion>,
    ) -> Result<(Self, FileContents), FileError> {
        let (ours, theirs) = (std::fs::metadata(place.path())?, handed.file().metadata()?);
        if (ours.dev(), ours.ino()) != (theirs.dev(), theirs.ino()) {
            return Err(FileError::Moved);
        }
        let file = RegionFile {
            // The place without what was handed over, which would stay mapped.
            place: RegionPlace::at(place.path()),
            file: handed.shared_file().clone(),
            is_damaged: OnceLock::new(),
        };
        let found = match handed.state() {
            Some(HandedState { state, notes, bytes }) => FileContents::Intact(SavedRegion {
                state: state.clone(),
                notes: notes.clone(),
                bytes: *bytes,
                sums: None,
                by: HandedBy::Process,
            }),
            None => FileContents::Unusable(Loss::NotClosed),
        };
        Ok((file, found))
    }

    /// Hands the file over with its Region, which is no longer stored to. Unlike [`RegionFile::close`] this writes nothing, whatever
    /// the size of the Region.
    pub fn hand_over(self, region: Arc<Region>, states: EngineStates, notes: Vec<u8>) -> HandedRegion {
        assert!(states.closed.len() <= STATE_MAX && notes.len() <= NOTES_MAX, "the head has no room for it");
        HandedRegion::given(self.file, region, states, notes)
    }
}

#[cfg(not(miri))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Offset;
    use crate::region::HugePages;
    use crate::scratch::Scratch;
    use guira_sync::words;

    const SOME: usize = 4 << 20;
    const AT: Offset = Offset::from_bytes(1 << 20);

    /// A Region with 7 stored at `AT`, on its way.
    fn handed(scratch: &Scratch) -> HandedRegion {
        let (file, _) = RegionFile::open(&scratch.place()).unwrap();
        let region = file.empty(SOME, HugePages::No).unwrap();
        words::store(region.word(AT), 7);
        file.hand_over(
            Arc::new(region),
            EngineStates { handed: b"state".to_vec(), closed: b"closed".to_vec() },
            b"notes".to_vec(),
        )
    }

    #[test]
    fn a_region_goes_on_without_a_mark_and_stays_locked_all_the_time() {
        let scratch = Scratch::new("handed");
        let there = handed(&scratch);
        assert!(matches!(RegionFile::open(&scratch.place()), Err(FileError::InUse)));
        let received =
            HandedRegion::received(there.file().try_clone().unwrap(), there.state().unwrap().clone());
        drop(there);
        let place = scratch.place().with(Arc::new(received));
        let (file, found) = RegionFile::open(&place).unwrap();
        let FileContents::Intact(kept) = found else { panic!("{found:?}") };
        let (region, damage) = file.map(&kept, HugePages::No).unwrap();
        assert_eq!((kept.state.as_slice(), kept.notes.as_slice()), (&b"state"[..], &b"notes"[..]));
        assert_eq!((region.reserved(), words::load(region.word(AT)), damage.is_none()), (SOME, 7, true));
        // A failed start leaves it to the one who handed it over, and seals nothing.
        file.leave(&kept).unwrap();
        drop((region, place));
        let found = RegionFile::open(&scratch.place()).unwrap().1;
        assert!(matches!(found, FileContents::Unusable(Loss::NotClosed)), "both are gone: {found:?}");
    }

    #[test]
    fn a_region_that_nobody_goes_on_with_is_closed_in_order_once() {
        let scratch = Scratch::new("unwanted");
        let there = Arc::new(handed(&scratch));
        assert!(there.spoilt().close().is_err(), "its contents are of no use");
        there.close().unwrap();
        let open = |place: &RegionPlace| {
            let (file, found) = RegionFile::open(place).unwrap();
            let FileContents::Intact(kept) = found else { panic!("{found:?}") };
            (file, kept)
        };
        // One that goes on leaves another state, and that counts.
        let (file, kept) = open(&scratch.place().with(there.clone()));
        let (region, _) = file.map(&kept, HugePages::No).unwrap();
        file.close(&region, b"later", b"notes").unwrap();
        there.close().unwrap();
        drop((region, there));
        let (file, kept) = open(&scratch.place());
        let (region, damage) = file.map(&kept, HugePages::No).unwrap();
        assert_eq!((kept.state.as_slice(), kept.notes.as_slice()), (&b"later"[..], &b"notes"[..]));
        assert_eq!((words::load(region.word(AT)), damage.is_none()), (7, true));
    }

    #[test]
    fn what_another_process_has_used_is_emptied_and_another_file_is_refused() {
        let (scratch, other) = (Scratch::new("spoilt"), Scratch::new("moved"));
        let there = Arc::new(handed(&scratch));
        let spoilt = scratch.place().with(Arc::new(there.spoilt()));
        assert!(matches!(RegionFile::open(&spoilt).unwrap().1, FileContents::Unusable(Loss::NotClosed)));
        std::fs::write(other.place().path(), b"").unwrap();
        assert!(matches!(RegionFile::open(&other.place().with(there)), Err(FileError::Moved)));
    }
}
