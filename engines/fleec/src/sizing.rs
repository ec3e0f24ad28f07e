//! The memory limit, and the metadata that is charged to it.

use crate::plan::Plan;
use guira_contract::ResizeError;
use guira_items::{MINIMUM, Shell};
use guira_memory::Budget;
use guira_sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Sizing {
    budget: Arc<Budget>,
    plan: Plan,
    /// The system commits memory in steps of this many bytes.
    commit_step: usize,
    /// The metadata of the pages of this many bytes of memory is charged.
    described: AtomicUsize,
}

impl Sizing {
    /// `None` if the metadata of `memory` bytes does not fit into them.
    pub(crate) fn new(memory: usize, plan: Plan, commit_step: usize) -> Option<Self> {
        let budget = Arc::new(Budget::new(memory));
        let fits = budget.take(plan.metadata(memory, commit_step));
        fits.then(|| Sizing { budget, plan, commit_step, described: AtomicUsize::new(memory) })
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Charges the metadata of the pages of `memory` bytes, unless that is done: it is never given back.
    pub(crate) fn describe(&self, memory: usize) {
        // Relaxed: of two at once, each charges its part.
        let before = self.described.fetch_max(memory, Ordering::Relaxed);
        let metadata = |memory| self.plan.metadata(memory, self.commit_step);
        self.budget.charge(metadata(memory.max(before)) - metadata(before));
    }

    /// Sets the limit to `memory` bytes. `index_bytes` are committed for the index, and items have up to `max_item_size` bytes.
    pub(crate) fn resize(
        &self,
        shell: &Shell,
        memory: usize,
        index_bytes: usize,
        max_item_size: usize,
    ) -> Result<(), ResizeError> {
        let least = MINIMUM.max(2 * max_item_size).max(2 * index_bytes);
        if memory < least {
            return Err(ResizeError::TooSmall { memory, least });
        }
        if memory > self.plan.reserve {
            return Err(ResizeError::TooBig { memory, most: self.plan.reserve });
        }
        shell.check_room(self.budget.limit(), memory)?;
        self.describe(memory);
        self.budget.set_limit(memory);
        Ok(())
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;
    use guira_items::EngineOptions;
    use guira_memory::MIB;

    #[test]
    fn the_limit_stays_between_index_and_reserve_and_metadata_is_charged_once() {
        let shell = Shell::anonymous(&EngineOptions::of(8 * MIB), 64 * MIB, 1).unwrap();
        let sizing = Sizing::new(8 * MIB, Plan::new(1024 * MIB), 4096).unwrap();
        let resize = |memory| sizing.resize(&shell, memory, 3 * MIB, MIB);
        assert!(matches!(resize(5 * MIB), Err(ResizeError::TooSmall { least, .. }) if least == 6 * MIB));
        assert!(matches!(resize(1025 * MIB), Err(ResizeError::TooBig { .. })));
        let before = sizing.budget().used();
        resize(1024 * MIB).unwrap();
        let used = sizing.budget().used();
        assert!(sizing.budget().limit() == 1024 * MIB && used > before);
        resize(6 * MIB).unwrap();
        resize(32 * MIB).unwrap();
        assert_eq!(sizing.budget().used(), used);
        assert!(Sizing::new(4096, Plan::new(64 * MIB), 2 * MIB).is_none());
    }
}
