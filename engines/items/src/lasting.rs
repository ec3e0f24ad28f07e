//! Opening an engine whose Region lasts in a file: going on with what is there, or beginning anew.

use crate::setup::{EngineOptions, OpenError};
use crate::shell::Shell;
use guira_contract::{Dropped, Emptied, Opening, Shortage};
use guira_memory::lasting::{Damage, FileContents, HEAD_BYTES, HandedBy, RegionFile, SavedRegion};
use guira_memory::{HugePages, Region, RegionPlace};
use guira_sync::clock::TimeBase;

/// Why an engine does not go on with what the file holds.
#[derive(Debug)]
pub enum Failure {
    /// The Region has to be emptied.
    Emptied(Emptied),
    /// There can be no engine.
    Open(OpenError),
}

impl<E: Into<Emptied>> From<E> for Failure {
    fn from(why: E) -> Self {
        Failure::Emptied(why.into())
    }
}

/// The Region that an engine begins with if it cannot go on.
#[derive(Clone, Copy, Debug)]
pub struct EmptyRegion {
    /// Bytes of it that may come to be used.
    pub memory: usize,
    pub bytes: usize,
    /// Whether it asks for huge pages.
    pub huge: HugePages,
}

/// An engine on a Region that lasts.
#[derive(Debug)]
pub struct Begun<C> {
    /// What `restore` or `begin` has made.
    pub core: C,
    pub file: RegionFile,
    pub opening: Opening,
    pub notes: Vec<u8>,
    /// What the file system lacks, if it does.
    pub shortage: Option<Shortage>,
}

/// What an engine goes on with.
#[derive(Debug)]
pub struct Restored<C> {
    pub core: C,
    pub items: u64,
    pub dropped: Dropped,
}

/// Opens the file at `place`. If it was closed in order, `restore` is to go on with it. Otherwise, or if it cannot, `begin` begins with an empty Region.
///
/// # Errors
/// If the file cannot be used or is too small a place, or what `restore` and `begin` say. What the file holds is lost only if it was emptied.
pub fn open_lasting<C>(
    place: &RegionPlace,
    empty: EmptyRegion,
    restore: impl FnOnce(&RegionFile, &SavedRegion) -> Result<Restored<C>, Failure>,
    begin: impl FnOnce(Region) -> Result<C, OpenError>,
) -> Result<Begun<C>, OpenError> {
    let refused = |source| OpenError::Region { place: place.clone(), source };
    let (file, found) = RegionFile::open(place).map_err(refused)?;
    let room = match file.room() {
        Ok(room) => room,
        Err(error) => return Err(leave(file, &found, refused(error.into()))),
    };
    let memory = empty.memory + HEAD_BYTES;
    let no_room = || OpenError::NoRoom { place: place.clone(), room, memory };
    // A server that runs makes do with what its file system has. So does who goes on with its region,
    // which must not end for a lack of room that its own clients have not noticed.
    let shortage = (room < memory as u64).then_some(Shortage { room, memory: memory as u64 });
    if shortage.is_some() && !place.is_handed() {
        return Err(leave(file, &found, no_room()));
    }
    // Somebody has taken it since.
    let told = |error| if matches!(error, OpenError::Full) { no_room() } else { error };
    let opening = match found {
        FileContents::Empty => Opening::New,
        FileContents::Unusable(loss) => Opening::Emptied(loss.into()),
        FileContents::Intact(ref kept) => match restore(&file, kept) {
            Ok(Restored { core, items, dropped }) => {
                let opening = match dropped.blocks {
                    0 => Opening::Restored { items },
                    _ => Opening::Salvaged { items, dropped },
                };
                return Ok(Begun { core, file, opening, notes: kept.notes.clone(), shortage });
            }
            // Who has handed it over can still go on with what is there.
            Err(Failure::Emptied(why)) if kept.handed_by() == HandedBy::Process => {
                return Err(OpenError::NotTakenOver { place: place.clone(), why });
            }
            Err(Failure::Emptied(why)) => Opening::Emptied(why),
            Err(Failure::Open(error)) => return Err(leave(file, &found, told(error))),
        },
    };
    let region = file.empty(empty.bytes, empty.huge).map_err(|error| refused(error.into()))?;
    Ok(Begun { core: begin(region).map_err(told)?, file, opening, notes: Vec::new(), shortage })
}

/// The shell of an engine with these options and this many classes that goes on with what the file holds, and what is damaged of it.
///
/// # Errors
/// If the system refuses address space, or to lock memory.
pub fn reopen(
    file: &RegionFile,
    kept: &SavedRegion,
    options: &EngineOptions,
    classes: usize,
    base: TimeBase,
) -> Result<(Shell, Damage), Failure> {
    let (region, damage) = file
        .map(kept, options.huge_pages())
        .map_err(|source| Failure::Open(OpenError::Reserve { bytes: kept.bytes, source }))?;
    Ok((Shell::since(base, region, options, classes).map_err(Failure::Open)?, damage))
}

/// There is no engine, for a reason that is not the Region's: what it holds is not lost. Nothing was stored into it yet.
fn leave(file: RegionFile, found: &FileContents, error: OpenError) -> OpenError {
    if let FileContents::Intact(kept) = found {
        // If that fails, the next to open it finds no mark.
        let _ = file.leave(kept);
    }
    error
}
