//! How the engine is set up.

use crate::bucket::OFFSET_BITS;
use guira_contract::{Access, OptionError, Spec};
use guira_items::{DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Hashing, OpenError, Residence, Sizes};
use guira_memory::{HugePages, MIB};

/// How the engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct MicaOptions {
    /// Bytes it may commit: logs, indexes, and values that are still arriving.
    pub memory: usize,
    /// The most bytes it may be resized to; if that is less than `memory`, no more than `memory`. Costs address space only.
    pub reserve: usize,
    /// The largest item, in bytes as memcached counts them (`-I`). An item takes no more than half of its partition's log in any case.
    pub max_item_size: usize,
    /// Partitions that are wanted; rounded up to a power of two. There are fewer if their logs would hold too few of the largest items.
    pub partitions: usize,
    /// Who may read and write a partition.
    pub access: Access,
    /// Which items go when memory is needed.
    pub policy: LogPolicy,
    /// Whether memory is committed in huge pages; `None`: if there is more than 64 MiB of it.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out.
    pub residence: Residence,
    /// How keys are hashed.
    pub hashing: Hashing,
    /// Bits of an offset in the log, in words. What is less than 48 is for tests that want to see offsets wrap.
    pub offset_bits: u32,
}

/// Which items go first when the log is full (MICA, section 4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogPolicy {
    /// Those that were stored first.
    Fifo,
    /// What is read, or stored anew, is stored again at the tail if it is nearer to the head.
    #[default]
    ApproxLru,
    /// What is read, or stored anew, is stored again at the tail.
    Lru,
}

const POLICIES: [(&str, LogPolicy); 3] =
    [("fifo", LogPolicy::Fifo), ("approx-lru", LogPolicy::ApproxLru), ("lru", LogPolicy::Lru)];

impl LogPolicy {
    /// The policy with this number.
    pub(crate) fn of(number: u32) -> Self {
        POLICIES[number as usize % POLICIES.len()].1
    }

    /// Reads it.
    ///
    /// # Errors
    /// If there is no such policy, or an option is given.
    pub fn read(spec: &Spec) -> Result<Self, OptionError> {
        let policy = known("policy", &spec.name, &POLICIES)?;
        spec.allow(&[])?;
        Ok(policy)
    }

    /// As it is written.
    pub fn spec(self) -> Spec {
        Spec { name: POLICIES[self as usize].0.to_owned(), options: Vec::new() }
    }
}

fn known<T: Copy>(what: &'static str, name: &str, table: &[(&str, T)]) -> Result<T, OptionError> {
    let names = || table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let unknown = || OptionError::Unknown { what, name: name.to_owned(), known: names() };
    table.iter().find(|(known, _)| *known == name).map(|(_, thing)| *thing).ok_or_else(unknown)
}

/// Partitions that are wanted unless told otherwise.
pub const DEFAULT_PARTITIONS: usize = 16;
/// The most partitions.
pub const MAX_PARTITIONS: usize = 256;

impl Default for MicaOptions {
    fn default() -> Self {
        MicaOptions {
            memory: 64 * MIB,
            reserve: 0,
            max_item_size: MIB,
            partitions: DEFAULT_PARTITIONS,
            access: Access::default(),
            policy: LogPolicy::default(),
            huge_pages: None,
            residence: Residence::Swappable,
            hashing: Hashing::Seeded(0),
            offset_bits: OFFSET_BITS,
        }
    }
}

impl MicaOptions {
    /// Whether they make sense.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        self.sizes().check(0)
    }

    /// How large everything is. There are no classes, so their options are the usual ones.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            memory: self.memory,
            reserve: self.reserve,
            max_item_size: self.max_item_size,
            factor: DEFAULT_FACTOR,
            smallest_item: DEFAULT_SMALLEST_ITEM,
        }
    }

    /// Whether memory is committed in huge pages.
    pub(crate) fn pages_of_the_system(&self) -> HugePages {
        self.huge_pages.unwrap_or(self.sizes().pages_of_the_system())
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn modes_and_policies_are_read_as_they_are_written() {
        for (name, access) in [("erew", Access::Erew), ("crew", Access::Crew), ("crcw", Access::Crcw)] {
            assert_eq!((Access::read(name).unwrap(), access.name()), (access, name));
        }
        for (number, (name, policy)) in POLICIES.into_iter().enumerate() {
            assert_eq!(LogPolicy::read(&Spec::parse(name).unwrap()).unwrap(), policy);
            assert_eq!((policy.spec().to_string().as_str(), LogPolicy::of(number as u32)), (name, policy));
        }
        let error = Access::read("crow").unwrap_err().to_string();
        assert_eq!(error, "unknown access mode 'crow'; there are: erew, crew, crcw");
        let error = LogPolicy::read(&Spec::parse("clock").unwrap()).unwrap_err().to_string();
        assert_eq!(error, "unknown policy 'clock'; there are: fifo, approx-lru, lru");
        assert!(LogPolicy::read(&Spec::parse("fifo:bits=2").unwrap()).is_err());
    }
}
