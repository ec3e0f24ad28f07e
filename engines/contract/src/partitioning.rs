//! Partitions of the keys, and who may work on them (MICA, section 4.1).

use crate::session::KeyHash;
use crate::stats::OptionError;

/// Who may read and write a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Exclusive read, exclusive write: one session does both.
    Erew,
    /// Concurrent read, exclusive write: all sessions read, one writes.
    Crew,
    /// Concurrent read, concurrent write: all sessions do both, one after the other in each partition.
    #[default]
    Crcw,
}

const ACCESSES: [(&str, Access); 3] =
    [("erew", Access::Erew), ("crew", Access::Crew), ("crcw", Access::Crcw)];

impl Access {
    /// Its name in options.
    pub fn name(self) -> &'static str {
        ACCESSES[self as usize].0
    }

    /// The mode with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(name: &str) -> Result<Self, OptionError> {
        let known = || ACCESSES.map(|(known, _)| known).join(", ");
        let unknown = || OptionError::Unknown { what: "access mode", name: name.to_owned(), known: known() };
        ACCESSES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode).ok_or_else(unknown)
    }
}

/// How an engine divides keys among threads. A request that reaches another thread is slower and never wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// The partition of a key is the highest `bits` bits of its hash.
    pub bits: u32,
    /// Who may work on a partition.
    pub access: Access,
    /// The seed of the hash, which is rapidhash v3 micro.
    pub seed: u64,
}

impl Partitioning {
    /// The home of a key: which of `workers` threads its partition belongs to.
    #[inline(always)]
    pub fn home(&self, hash: KeyHash, workers: usize) -> usize {
        let partition = if self.bits == 0 { 0 } else { hash.0 >> (u64::BITS - self.bits) };
        ((partition * workers as u64) >> self.bits) as usize
    }
}
