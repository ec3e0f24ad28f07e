//! Parameters of single parts, beside the options of all measurements.

use std::path::PathBuf;

/// A short bench allows this part of the memory and sets this part of the keys.
const QUICK_PART: u64 = 16;

/// The engines of the parts that compare engines, unless others are named.
const ENGINES: [&str; 4] = ["memc3", "classic", "fleec", "mica"];

/// How much of a record is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Full,
    Quick,
}

impl Scale {
    /// This many keys or bytes, or the part of them that a short bench has.
    pub(super) const fn part(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Quick => full / QUICK_PART,
        }
    }

    pub(super) fn or<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Parameters {
    pub scale: Scale,
    /// The engines of the parts that compare engines.
    pub engines: Vec<String>,
    /// A folder of traces that are not in the repository.
    pub traces: Option<PathBuf>,
    /// The traces of the misses, as NAME or NAME:PERCENT, and the variants of Guira; empty for all.
    pub cases: Vec<String>,
    pub variants: Vec<String>,
    /// Another guira, whose instructions are counted too.
    pub against: Option<PathBuf>,
}

impl Parameters {
    pub(super) fn new(scale: Scale) -> Self {
        let engines = ENGINES.map(str::to_owned).to_vec();
        Self { scale, engines, traces: None, cases: Vec::new(), variants: Vec::new(), against: None }
    }
}
