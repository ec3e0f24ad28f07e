//! What lasts from one run to the next.

use guira_memory::lasting::{BLOCK_BYTES, Loss, NOTES_MAX};
use guira_memory::{KIB, MIB};
use guira_sync::clock::{TimeBase, wall_clock};
use std::fmt;
use std::io;

/// What an engine found when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Nothing: it begins empty.
    New,
    /// What was stored when it was closed.
    Restored {
        /// How many items.
        items: u64,
    },
    /// What was stored when it was closed, but for what lay in blocks that have changed since.
    Salvaged {
        /// How many items.
        items: u64,
        /// What is missing.
        dropped: Dropped,
    },
    /// Something that could not be used: it begins empty.
    Emptied(Emptied),
}

/// What was dropped of a Region, since it was not as it had been left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Blocks of [`BLOCK_BYTES`].
    pub blocks: u64,
    /// Items that lay in them, or were found by them.
    pub items: u64,
}

impl Opening {
    /// What was dropped.
    pub fn dropped(&self) -> Dropped {
        match self {
            Opening::Salvaged { dropped, .. } | Opening::Emptied(Emptied::Contents(dropped)) => *dropped,
            Opening::New | Opening::Restored { .. } | Opening::Emptied(_) => Dropped::default(),
        }
    }
}

/// An engine that was opened, and what was found.
#[derive(Debug)]
pub struct Opened<E> {
    /// The engine.
    pub engine: E,
    /// What was found.
    pub opening: Opening,
    /// What was given to [`Engine::close`](crate::Engine::close) as notes, if the engine was restored.
    pub notes: Vec<u8>,
    /// The clock has to go by this base.
    pub base: TimeBase,
    /// What the file system of its Region lacks, if it does.
    pub shortage: Option<Shortage>,
}

/// A file system has room for less than a Region may take: pages more may be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// How much it has room for, in bytes, with what the file takes already.
    pub room: u64,
    /// How much the Region may take, in bytes.
    pub memory: u64,
}

impl<E> Opened<E> {
    /// An engine in memory, which begins now.
    pub fn anew(engine: E) -> Self {
        let base = TimeBase::new(wall_clock());
        Opened { engine, opening: Opening::New, notes: Vec::new(), base, shortage: None }
    }
}

/// What is known of a Region in use by who may go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The engine's state, of which only the setup is settled.
    pub state: Vec<u8>,
    /// Length of the Region, in bytes.
    pub bytes: usize,
}

/// Why a Region was emptied when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// Its file could not be believed.
    Lost(Loss),
    /// Blocks of it are not as they were left, without which nothing in it can be found, or all that it holds may be wrong.
    Contents(Dropped),
    /// It was used by another engine.
    Engine,
    /// It was set up in another way.
    Setting {
        /// The option.
        name: &'static str,
        /// What it was.
        was: String,
        /// What it is now.
        is: String,
    },
    /// The memory that is wanted now is more than it has address space for.
    Reserve {
        /// How much is wanted, in bytes.
        memory: usize,
        /// How much there could be, in bytes.
        reserve: usize,
    },
    /// The memory that is wanted now does not hold what it takes to keep it.
    TooSmall {
        /// How much is wanted, in bytes.
        memory: usize,
        /// How much is needed, in bytes.
        least: usize,
    },
    /// It is so old, by the wall clock, that seconds cannot be counted on.
    TooOld,
}

impl From<Loss> for Emptied {
    fn from(loss: Loss) -> Self {
        Emptied::Lost(loss)
    }
}

impl fmt::Display for Opening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opening::New => formatter.write_str("new and empty"),
            Opening::Restored { items } => write!(formatter, "restored with {items} items"),
            Opening::Salvaged { items, dropped } => {
                write!(
                    formatter,
                    "restored with {items} items; {} were dropped because {dropped}",
                    dropped.items
                )
            }
            Opening::Emptied(why) => write!(formatter, "emptied because {why}"),
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [room, memory] = [self.room, self.memory].map(|bytes| bytes / MIB as u64);
        write!(formatter, "has room for {room} of {memory} MiB")
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (blocks, kib) = (self.blocks, BLOCK_BYTES / KIB);
        write!(formatter, "{blocks} blocks of {kib} KiB are corrupt")
    }
}

impl fmt::Display for Emptied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Emptied::Lost(loss) => loss.fmt(formatter),
            Emptied::Contents(dropped) => dropped.fmt(formatter),
            Emptied::Engine => formatter.write_str("the region belongs to another engine"),
            Emptied::Setting { name, was, is } => write!(formatter, "the {name} was {was} and is now {is}"),
            Emptied::Reserve { memory, reserve } => {
                write!(
                    formatter,
                    "the region was created for up to {reserve} bytes of memory, and the limit is now {memory}"
                )
            }
            Emptied::TooSmall { memory, least } => {
                write!(
                    formatter,
                    "{memory} bytes of memory are too little for the region: at least {least} are needed"
                )
            }
            Emptied::TooOld => formatter.write_str("by the wall clock, the region is more than 68 years old"),
        }
    }
}

/// Why an engine could not be closed in order. What it held is lost.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// A session, a pinned value, a pending value or another handle of the engine still exists.
    #[error("the engine is still in use")]
    InUse,
    /// It has no region.
    #[error("the engine has no region")]
    NoRegion,
    /// The notes are too long.
    #[error("{0} bytes of notes exceed the limit of {NOTES_MAX}")]
    Notes(usize),
    /// The file could not be written.
    #[error("cannot write the region")]
    File(#[from] io::Error),
}

/// An engine that was not handed over, and is as it was.
#[derive(Debug)]
pub struct NotHandedOver<E> {
    /// The engine, which may be in use.
    pub engine: E,
    /// Why not.
    pub why: CloseError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_understands_what_became_of_a_region() {
        let why = Emptied::Setting { name: "growth factor", was: "1.06".into(), is: "1.25".into() };
        assert_eq!(
            Opening::Emptied(why).to_string(),
            "emptied because the growth factor was 1.06 and is now 1.25"
        );
        assert!(Opening::Emptied(Loss::NotClosed.into()).to_string().contains("was killed"));
        assert_eq!(Opening::Restored { items: 7 }.to_string(), "restored with 7 items");
        let dropped = Dropped { blocks: 2, items: 30 };
        let salvaged = Opening::Salvaged { items: 7, dropped };
        let damage = "because 2 blocks of 256 KiB are corrupt";
        assert_eq!(salvaged.to_string(), format!("restored with 7 items; 30 were dropped {damage}"));
        let emptied = Opening::Emptied(Emptied::Contents(dropped));
        assert_eq!(emptied.to_string(), format!("emptied {damage}"));
        assert_eq!((salvaged.dropped(), emptied.dropped()), (dropped, dropped));
        assert_eq!(Opening::Emptied(Emptied::TooOld).dropped(), Dropped::default());
    }
}
