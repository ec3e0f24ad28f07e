//! How the engine is set up.

use crate::bucket::OFFSET_BITS;
use guira_contract::{Access, OptionError, Spec};
use guira_items::EngineOptions;

/// The options of the engine. An item takes no more than half of its partition's log, whatever the largest item may be.
#[derive(Clone, Copy, Debug)]
pub struct MicaOptions {
    /// What every engine has.
    pub engine: EngineOptions,
    /// Partitions that are wanted; rounded up to a power of two. There are fewer if their logs would hold too few of the largest items.
    pub partitions: usize,
    /// Who may read and write a partition.
    pub access: Access,
    /// Which items go when memory is needed.
    pub policy: LogPolicy,
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
            engine: EngineOptions::default(),
            partitions: DEFAULT_PARTITIONS,
            access: Access::default(),
            policy: LogPolicy::default(),
            offset_bits: OFFSET_BITS,
        }
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
