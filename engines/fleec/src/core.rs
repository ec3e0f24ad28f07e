//! The parts that all sessions of an engine share.

use crate::crawler::Crawler;
use crate::index::{Index, IndexSpec};
use crate::options::{FleecOptions, LINK_BYTES};
use crate::plan::Plan;
use crate::pool::ChunkPool;
use crate::retired::Announcements;
use crate::sizing::Sizing;
use guira_contract::{ItemSpec, ItemView, Meta, MissKind, counted_size};
use guira_items::{
    Arriving, Fields, Flushes, Item, ItemHeaderSpec, OpenError, Removal, SessionCounters, Shell, ShortLived,
    Walks,
};
use guira_memory::Offset;
use guira_memory::slab::PAGE_BYTES;
use guira_memory::slab::lockfree::LockFreeSlab;
use guira_sync::clock::Seconds;
use guira_sync::quiescence::{Quiescence, Ticket};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) shell: Shell,
    pub(crate) plan: Plan,
    pub(crate) options: FleecOptions,
    pub(crate) sizing: Sizing,
    pub(crate) memory: ChunkPool,
    pub(crate) table: Index,
    pub(crate) announcements: Announcements,
    pub(crate) flushes: Flushes<Ticket>,
    /// Whether sessions have ended what they did before a flush: until then the crawler does not set out for it.
    pub(crate) quiescence: Arc<Quiescence>,
    pub(crate) expiry: ExpirySearch,
    pub(crate) walks: Walks,
    pub(crate) arriving: Arriving,
}

/// Finds expired items that no client requests.
#[derive(Debug)]
pub(crate) struct ExpirySearch {
    pub(crate) crawler: Crawler,
    pub(crate) short_lived: ShortLived,
}

impl Core {
    /// An empty engine.
    pub(crate) fn open(options: FleecOptions) -> Result<Self, OpenError> {
        options.check()?;
        let plan = Plan::new(options.engine.reserve.max(options.engine.memory));
        let shell = Shell::anonymous(&options.engine, plan.total, options.classes.table(LINK_BYTES).len())?;
        let core = Core::on(shell, plan, options)?;
        core.table.begin();
        Ok(core)
    }

    /// An engine in `shell`, whose Region is divided as `plan` says. Its index is to be begun or restored.
    pub(crate) fn on(shell: Shell, plan: Plan, options: FleecOptions) -> Result<Self, OpenError> {
        let (region, commit_step) = (shell.region().clone(), shell.commit_step());
        let too_small = || OpenError::TooSmall(options.engine.memory);
        let sizing = Sizing::new(options.engine.memory, plan, commit_step).ok_or_else(too_small)?;
        let budget = sizing.budget().clone();
        let spec = IndexSpec {
            links_at: plan.links_at,
            clock_at: plan.clock_at,
            buckets_max: plan.buckets_max,
            commit_step,
            clock_max: options.clock.max(),
            buckets: options.buckets,
        };
        let short_lived = ShortLived::new(options.engine.short_lived, options.engine.memory);
        if !budget.take(short_lived.bytes()) {
            return Err(too_small());
        }
        let table = match Index::new(region.clone(), spec, &budget) {
            Some(table) => table,
            None if region.refusals() > 0 => return Err(OpenError::Full),
            None => return Err(too_small()),
        };
        let slab = LockFreeSlab::new(
            region,
            budget.clone(),
            options.classes.table(LINK_BYTES),
            Offset::from_bytes(plan.metadata_at as u64),
            Offset::from_bytes(plan.pages_at as u64),
            plan.pages as u32,
            (commit_step / PAGE_BYTES).max(1) as u32,
        );
        Ok(Core {
            shell,
            plan,
            options,
            sizing,
            memory: ChunkPool::new(slab, budget, options.engine.eviction),
            table,
            announcements: Announcements::default(),
            flushes: Flushes::default(),
            quiescence: Arc::default(),
            expiry: ExpirySearch { crawler: Crawler::default(), short_lived },
            walks: Walks::default(),
            arriving: Arriving::default(),
        })
    }

    /// The fields of an item with this header and a value of `value_len` bytes.
    #[inline(always)]
    pub(crate) fn fields(&self, item: &ItemHeaderSpec<'_>, value_len: usize) -> Fields {
        let always = self.options.engine.eviction.fields();
        ItemHeaderSpec::fields(always, item.flags, item.expiry, item.cas, value_len)
    }

    /// The fields of an item that is to be stored.
    #[inline(always)]
    pub(crate) fn fields_of(&self, spec: &ItemSpec) -> Fields {
        let always = self.options.engine.eviction.fields();
        ItemHeaderSpec::fields(always, spec.flags, spec.expiry, spec.cas, spec.value_len)
    }

    /// Whether the item size limit allows such an item.
    pub(crate) fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool {
        counted_size(key_len, spec.flags, spec.value_len) <= self.options.engine.max_item_size
    }

    /// The item at `at`, if there is one.
    #[inline(always)]
    pub(crate) fn item(&self, at: Offset, now: Seconds) -> Option<Item<'_>> {
        Item::at(self.shell.region(), at, now)
    }

    pub(crate) fn hash_of(&self, item: &Item<'_>) -> u64 {
        self.shell.hash(item.key(&mut [0; 256])).0
    }

    /// Why `item` is dead, if it is.
    #[inline(always)]
    pub(crate) fn dead(&self, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        self.flushes.dead_as_of(self.flushes.generation(), item, now)
    }

    /// What a decision sees of an item, with its class.
    pub(crate) fn meta_of(&self, item: &Item<'_>) -> Meta {
        item.of_class(self.memory.class_number(item.at)).meta()
    }

    /// What an item counts for in `bytes`.
    pub(crate) fn bytes_of(item: &Item<'_>) -> u64 {
        (LINK_BYTES + item.size_before_value() + item.value_len()) as u64
    }

    /// Counts an item that left the table, and reports an eviction. The item is announced by the caller, or was never seen by others.
    pub(crate) fn account_removed(
        &self,
        counters: &SessionCounters,
        item: &Item<'_>,
        why: Removal,
        now: Seconds,
    ) {
        let class = self.memory.class_at(item.at);
        counters.item_removed(why, &item.removed(class, Core::bytes_of(item), now));
        if why.is_eviction()
            && let Some((watcher, now)) = self.shell.watcher()
        {
            let item = self.item(item.at, now).unwrap_or(*item);
            watcher.evicted(item.key(&mut [0; 256]), &self.meta_of(&item), now);
        }
    }
}
