//! How the engine is set up.

use crate::index::OFFSET_BITS;
use guira_contract::{Access, OptionError, Spec};
use guira_items::EngineOptions;
use guira_sync::atomic::{AtomicU32, Ordering};

/// The options of the engine. An item takes no more than half of its partition's log, whatever the largest item may be.
#[derive(Clone, Copy, Debug)]
pub struct MicaOptions {
    pub engine: EngineOptions,
    /// The number of partitions, rounded up to a power of two. There are fewer if their logs would hold too few of the largest items.
    pub partitions: usize,
    /// Who may read and write a partition.
    pub access: Access,
    pub policy: LogPolicy,
    /// Bits of an offset in the log, in words. Fewer than 48 are for tests in which offsets wrap.
    pub offset_bits: u32,
}

/// Which items are evicted first when the log is full (MICA, section 4.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogPolicy {
    Fifo,
    /// Items that are read or replaced while they are in the older half are kept when the head comes by.
    #[default]
    ApproxLru,
    /// Items that are read or replaced are kept when the head comes by.
    Lru,
}

const POLICIES: [(&str, LogPolicy); 3] =
    [("fifo", LogPolicy::Fifo), ("approx-lru", LogPolicy::ApproxLru), ("lru", LogPolicy::Lru)];

impl LogPolicy {
    fn of(number: u32) -> Self {
        POLICIES[number as usize % POLICIES.len()].1
    }

    /// Parses it.
    ///
    /// # Errors
    /// If there is no such policy, or an option is given.
    pub fn read(spec: &Spec) -> Result<Self, OptionError> {
        let policy = known("policy", &spec.name, &POLICIES)?;
        spec.allow(&[])?;
        Ok(policy)
    }

    /// The form that [`LogPolicy::read`] parses.
    pub fn spec(self) -> Spec {
        Spec { name: POLICIES[self as usize].0.to_owned(), options: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct CurrentPolicy(AtomicU32);

impl CurrentPolicy {
    pub(crate) fn new(policy: LogPolicy) -> Self {
        CurrentPolicy(AtomicU32::new(policy as u32))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> LogPolicy {
        LogPolicy::of(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, policy: LogPolicy) {
        self.0.store(policy as u32, Ordering::Relaxed);
    }
}

fn known<T: Copy>(what: &'static str, name: &str, table: &[(&str, T)]) -> Result<T, OptionError> {
    let names = || table.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let unknown = || OptionError::Unknown { what, name: name.to_owned(), known: names() };
    table.iter().find(|(known, _)| *known == name).map(|(_, thing)| *thing).ok_or_else(unknown)
}

/// The default number of partitions.
pub const DEFAULT_PARTITIONS: usize = 16;
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
        assert_eq!(error, "unknown access mode 'crow'; use one of: erew, crew, crcw");
        let error = LogPolicy::read(&Spec::parse("clock").unwrap()).unwrap_err().to_string();
        assert_eq!(error, "unknown policy 'clock'; use one of: fifo, approx-lru, lru");
        assert!(LogPolicy::read(&Spec::parse("fifo:bits=2").unwrap()).is_err());
    }
}
