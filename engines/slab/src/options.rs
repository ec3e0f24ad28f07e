//! How a slab engine is set up.

use crate::index::SearchLimits;
use crate::policy::table::Policy;
use guira_items::{ClassOptions, EngineOptions, OpenError};

/// The options of a slab engine. Its Region takes about three times as much address space as its reserve: the index has two arenas, and so has the metadata of
/// policies.
#[derive(Clone, Copy, Debug)]
pub struct SlabOptions {
    pub engine: EngineOptions,
    pub classes: ClassOptions,
    /// Which item goes when memory is needed.
    pub policy: Policy,
    pub stripes: usize,
    /// How far an insert searches for an empty slot.
    pub search: SearchLimits,
}

impl Default for SlabOptions {
    fn default() -> Self {
        SlabOptions {
            engine: EngineOptions::default(),
            classes: ClassOptions::default(),
            policy: Policy::default(),
            stripes: guira_sync::version::DEFAULT_STRIPES,
            search: SearchLimits::default(),
        }
    }
}

impl SlabOptions {
    /// Whether they make sense, if `link` bytes before each item belong to the index.
    pub(crate) fn check(&self, link: usize) -> Result<(), OpenError> {
        self.engine.check()?;
        self.classes.check(link)
    }
}
