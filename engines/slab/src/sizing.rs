//! How large memory is to be, and how large it can ever become.

use crate::plan::Plan;
use guira_sync::lock::{Mutex, MutexGuard};

/// What was decided about the size of memory.
#[derive(Debug)]
pub(crate) struct Sizing {
    plan: Plan,
    /// LOCK: sizing. Held while memory is resized; leaf.
    sizes: Mutex<Sizes>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes that are charged for metadata of pages.
    pub(crate) metadata: usize,
    /// What was used, or could be, when memory was last made smaller. Until the new limit is reached this one holds.
    pub(crate) before: usize,
}

impl Sizing {
    pub(crate) fn new(plan: Plan, metadata: usize, memory: usize) -> Self {
        Sizing { plan, sizes: Mutex::new(Sizes { metadata, before: memory }) }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock()
    }
}
