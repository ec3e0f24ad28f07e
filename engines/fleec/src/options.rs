//! How the engine is set up.

use guira_contract::{OptionError, Spec};
use guira_items::{ClassOptions, EngineOptions, OpenError};

/// Bytes of the link before each item.
pub(crate) const LINK_BYTES: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
pub struct FleecOptions {
    pub engine: EngineOptions,
    pub classes: ClassOptions,
    pub clock: BucketClock,
    pub buckets: Buckets,
}

/// Whether several sessions may use a bucket at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buckets {
    /// They may: FLeeC.
    #[default]
    Open,
    /// They may not: MemCLOCK, the paper's intermediate system.
    Locked,
}

impl FleecOptions {
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        self.engine.check()?;
        self.classes.check(LINK_BYTES)
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
    pub const NAME: &'static str = "bucket-clock";

    pub(crate) fn max(self) -> u8 {
        u8::MAX >> (8 - self.bits)
    }

    /// Parses it.
    ///
    /// # Errors
    /// If `spec` names another policy, or an option or value that does not exist.
    pub fn read(spec: &Spec) -> Result<Self, OptionError> {
        if spec.name != Self::NAME {
            let known = Self::NAME.to_owned();
            return Err(OptionError::Unknown { what: "policy", name: spec.name.clone(), known });
        }
        spec.allow(&["bits"])?;
        let usual = u64::from(Self::default().bits);
        Ok(BucketClock { bits: spec.number("bits", 1..=8)?.unwrap_or(usual) as u32 })
    }

    /// The form that [`BucketClock::read`] parses.
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
        assert_eq!(error("lru"), "unknown policy 'lru'; use one of: bucket-clock");
        assert!(error("bucket-clock:bits=9").contains("1 to 8"));
        assert!(error("bucket-clock:bit=1").contains("unknown option"));
    }
}
