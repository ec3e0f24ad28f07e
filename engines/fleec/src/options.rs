//! How the engine is set up.

use guira_contract::{OptionError, Spec};
use guira_items::{DEFAULT_FACTOR, DEFAULT_SMALLEST_ITEM, Eviction, Hashing, OpenError, Residence, Sizes};
use guira_memory::slab::ClassTable;
use guira_memory::{HugePages, MIB};

/// Bytes of a link, before each item.
pub(crate) const LINK_BYTES: usize = 8;

/// How the engine is set up.
#[derive(Clone, Copy, Debug)]
pub struct FleecOptions {
    /// Bytes it may commit: items, their pages' metadata, and the table.
    pub memory: usize,
    /// The most bytes it may be resized to; if that is less than `memory`, no more than `memory`. Costs address space only.
    pub reserve: usize,
    /// The largest item, in bytes as memcached counts them (`-I`).
    pub max_item_size: usize,
    /// Growth from one slab class to the next above 256 bytes; more than 1.
    pub factor: f64,
    /// Bytes of key, value and flags that fit into the smallest chunk.
    pub smallest_item: usize,
    /// What happens when memory is full.
    pub eviction: Eviction,
    /// Whether memory is committed in huge pages; `None`: if there is more than 64 MiB of it.
    pub huge_pages: Option<HugePages>,
    /// Whether memory may be swapped out.
    pub residence: Residence,
    /// Which items go when memory is needed.
    pub clock: BucketClock,
    /// Who may use a bucket while somebody else does.
    pub buckets: Buckets,
    /// How keys are hashed.
    pub hashing: Hashing,
}

/// Who may use a bucket while somebody else does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buckets {
    /// Everybody: FLeeC.
    #[default]
    Open,
    /// Nobody: MemCLOCK, the paper's intermediate system.
    Locked,
}

impl Default for FleecOptions {
    fn default() -> Self {
        FleecOptions {
            memory: 64 * MIB,
            reserve: 0,
            max_item_size: MIB,
            factor: DEFAULT_FACTOR,
            smallest_item: DEFAULT_SMALLEST_ITEM,
            eviction: Eviction::On,
            huge_pages: None,
            residence: Residence::Swappable,
            clock: BucketClock::default(),
            buckets: Buckets::Open,
            hashing: Hashing::Seeded(0),
        }
    }
}

impl FleecOptions {
    /// Whether they make sense.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        self.sizes().check(LINK_BYTES)
    }

    /// How large everything is.
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            memory: self.memory,
            reserve: self.reserve,
            max_item_size: self.max_item_size,
            factor: self.factor,
            smallest_item: self.smallest_item,
        }
    }

    /// Whether memory is committed in huge pages.
    pub(crate) fn pages_of_the_system(&self) -> HugePages {
        self.huge_pages.unwrap_or(self.sizes().pages_of_the_system())
    }

    pub(crate) fn classes(&self) -> ClassTable {
        self.sizes().classes(LINK_BYTES)
    }
}

/// The replacement policy: a CLOCK value for each bucket (FLeeC, "Design").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketClock {
    /// Bits of a CLOCK value, 1 to 8.
    pub bits: u32,
}

impl Default for BucketClock {
    fn default() -> Self {
        // Decision 18 compares them.
        BucketClock { bits: 2 }
    }
}

impl BucketClock {
    /// What it is called.
    pub const NAME: &'static str = "bucket-clock";

    /// The highest CLOCK value.
    pub(crate) fn max(self) -> u8 {
        u8::MAX >> (8 - self.bits)
    }

    /// Reads it.
    ///
    /// # Errors
    /// If that is another policy, or there is no such option or value.
    pub fn read(spec: &Spec) -> Result<Self, OptionError> {
        if spec.name != Self::NAME {
            let known = Self::NAME.to_owned();
            return Err(OptionError::Unknown { what: "policy", name: spec.name.clone(), known });
        }
        spec.allow(&["bits"])?;
        let usual = u64::from(Self::default().bits);
        Ok(BucketClock { bits: spec.number("bits", 1..=8)?.unwrap_or(usual) as u32 })
    }

    /// As it is written.
    pub fn spec(self) -> Spec {
        Spec { name: Self::NAME.to_owned(), options: vec![("bits".to_owned(), self.bits.to_string())] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_read_as_it_is_written() {
        for bits in 1..=8 {
            let clock = BucketClock { bits };
            assert_eq!(BucketClock::read(&clock.spec()).unwrap(), clock);
            assert_eq!(u32::from(clock.max()), (1 << bits) - 1);
        }
        let error = |text: &str| BucketClock::read(&Spec::parse(text).unwrap()).unwrap_err().to_string();
        assert_eq!(error("lru"), "unknown policy 'lru'; there are: bucket-clock");
        assert!(error("bucket-clock:bits=9").contains("1 to 8"));
        assert!(error("bucket-clock:bit=1").contains("unknown option"));
    }
}
