//! What all sessions of an engine share: its parts, composed.

use crate::committer::Committer;
use crate::crawler::Crawler;
use crate::evictor::{Evictor, EvictorState};
use crate::index::{Index, Scheme};
use crate::items::Items;
use crate::options::SlabOptions;
use crate::pins::Pins;
use crate::plan::Plan;
use crate::policy::table::Policy;
use crate::pool::ChunkPool;
use crate::sizing::Sizing;
use crate::walks::Walks;
use guira_items::{OpenError, SessionCounters, Shell, ShortLived};
use guira_memory::slab::{PAGE_BYTES, SlabMemory};
use guira_memory::{Budget, Offset};
use guira_sync::quiescence::Quiescence;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Core<X: Scheme> {
    pub(crate) items: Items,
    pub(crate) pool: ChunkPool,
    pub(crate) index: Index<X>,
    pub(crate) pins: Pins,
    pub(crate) evictor: EvictorState,
    pub(crate) crawler: Crawler,
    pub(crate) committer: Committer,
    pub(crate) short_lived: ShortLived,
    pub(crate) walks: Walks,
    pub(crate) sizing: Sizing,
    pub(crate) options: SlabOptions,
    /// What a flush removes without a session counts here, under the flush lock.
    pub(crate) flush_counters: Arc<SessionCounters>,
}

impl<X: Scheme> Core<X> {
    pub(crate) fn open(options: SlabOptions) -> Result<Self, OpenError> {
        options.check(X::LINK_BYTES)?;
        let plan = Plan::new::<X>(options.engine.reserve.max(options.engine.memory));
        let shell =
            Shell::anonymous(&options.engine, plan.total, options.classes.table(X::LINK_BYTES).len())?;
        Core::<X>::on(shell, plan, options, options.policy)
    }

    /// An empty engine in `shell`, whose Region is divided as `plan` says, that begins with the policy `first`. Nothing is
    /// stored into it yet.
    pub(crate) fn on(
        shell: Shell,
        plan: Plan,
        options: SlabOptions,
        first: Policy,
    ) -> Result<Self, OpenError> {
        let (region, commit_step) = (shell.region().clone(), shell.commit_step());
        let budget = Arc::new(Budget::new(options.engine.memory));
        let buckets = plan.buckets_least::<X>(options.engine.memory);
        let (sizes, stripes) = ((buckets, plan.buckets_max), options.stripes);
        let index = Index::new(region.clone(), plan.arenas_at, sizes, commit_step, stripes, options.search);
        let metadata = plan.metadata(options.engine.memory, commit_step);
        let short_lived = ShortLived::new(options.engine.short_lived, options.engine.memory);
        if !budget.take(metadata + index.committed(buckets) + short_lived.bytes()) {
            return Err(OpenError::TooSmall(options.engine.memory));
        }
        if !index.back_tables() {
            return Err(OpenError::Full);
        }
        let classes = options.classes.table(X::LINK_BYTES);
        let sizes = (plan.pages, classes.len());
        let kind = (options.engine.eviction, options.engine.residence);
        let evictor = EvictorState::new(first, sizes, kind)?;
        let memory = SlabMemory::new(
            region,
            budget.clone(),
            classes,
            Offset::from_bytes(plan.metadata_at as u64),
            Offset::from_bytes(plan.pages_at as u64),
            plan.pages as u32,
            (commit_step / PAGE_BYTES).max(1) as u32,
        );
        let flush_counters = shell.registry().register();
        Ok(Core {
            items: Items::new(shell, options.engine.eviction.fields()),
            pool: ChunkPool::new(memory, budget, Arc::new(Quiescence::default())),
            index,
            pins: Pins::default(),
            evictor,
            crawler: Crawler::default(),
            committer: Committer::default(),
            short_lived,
            walks: Walks::default(),
            sizing: Sizing::new(plan, metadata, options.engine.memory),
            options,
            flush_counters,
        })
    }

    #[inline(always)]
    pub(crate) fn evictor(&self) -> Evictor<'_> {
        self.evictor.over(&self.items, &self.pool)
    }

    /// Takes a pin back, and frees the item if it was unlinked meanwhile.
    pub(crate) fn unpin(&self, at: Offset) {
        if self.pins.unpin(at) {
            self.items.freed_chunks_of(at).into_iter().for_each(|chunk| self.pool.give(chunk));
        }
    }
}
