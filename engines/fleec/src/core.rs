//! What all sessions of an engine share.

use crate::flush::Flushed;
use crate::gate::Gate;
use crate::maintain::Upkeep;
use crate::options::{BucketClock, FleecOptions, LINK_BYTES};
use crate::plan::Plan;
use crate::restart;
use crate::session::FleecSession;
use crate::table::Table;
use guira_contract::{
    CloseError, Control, Engine, EngineStats, EvictionWatcher, ItemSpec, MissKind, Opened, PolicyError,
    Reassign, ResizeError, Spec, Tuning,
};
use guira_items::{Fields, Flushes, Item, ItemHeaderSpec, OpenError, Shell};
use guira_memory::slab::PAGE_BYTES;
use guira_memory::slab::lockfree::LockFreeSlab;
use guira_memory::{Budget, Offset, RegionPlace};
use guira_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazards;
use std::sync::{Arc, Mutex};

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) shell: Shell,
    pub(crate) budget: Arc<Budget>,
    pub(crate) memory: LockFreeSlab,
    pub(crate) table: Table,
    pub(crate) gate: Gate,
    /// The items that sessions work on.
    pub(crate) hazards: Arc<Hazards>,
    /// The items whose long values are being sent: there may be many more of them, and nobody looks here for short ones.
    pub(crate) pins: Arc<Hazards>,
    /// LOCK: orphans. What was taken off the list by sessions that are over or at rest, and could not be freed then. Leaf; taken by sessions that end or
    /// go to rest, and tried in idle time.
    pub(crate) orphans: Mutex<Vec<Offset>>,
    /// The most memory of whose pages the metadata is charged.
    pub(crate) described: AtomicUsize,
    /// Bytes of values that are still arriving.
    pub(crate) arriving: AtomicU64,
    pub(crate) options: FleecOptions,
    pub(crate) plan: Plan,
    pub(crate) flushes: Flushes<()>,
    pub(crate) upkeep: Upkeep,
    /// Whether a walk is under way.
    pub(crate) walking: AtomicBool,
    /// How often a session has not found memory: then the others give back what they keep for themselves.
    pub(crate) recalls: AtomicU64,
}

impl Core {
    fn open(options: FleecOptions) -> Result<Self, OpenError> {
        options.check()?;
        let plan = Plan::new(options.engine.reserve.max(options.engine.memory));
        let shell = Shell::anonymous(&options.engine, plan.total, options.classes.table(LINK_BYTES).len())?;
        let core = Core::on(shell, plan, options)?;
        core.table.begin();
        Ok(core)
    }

    /// An engine in `shell`, whose Region is divided as `plan` says. Nothing is stored into it yet: its table is to be begun or restored.
    pub(crate) fn on(shell: Shell, plan: Plan, options: FleecOptions) -> Result<Self, OpenError> {
        let (region, commit_step) = (shell.region().clone(), shell.commit_step());
        let budget = Arc::new(Budget::new(options.engine.memory));
        let too_small = || OpenError::TooSmall(options.engine.memory);
        if !budget.take(plan.metadata(options.engine.memory, commit_step)) {
            return Err(too_small());
        }
        let places = [plan.links_at, plan.clock_at];
        let clock_max = options.clock.max();
        let table = Table::new(region.clone(), places, plan.buckets_max, commit_step, clock_max, &budget);
        let table = match table {
            Some(table) => table,
            None if region.refusals() > 0 => return Err(OpenError::Full),
            None => return Err(too_small()),
        };
        let classes = options.classes.table(LINK_BYTES);
        let memory = LockFreeSlab::new(
            region.clone(),
            budget.clone(),
            classes,
            Offset::from_bytes(plan.metadata_at as u64),
            Offset::from_bytes(plan.pages_at as u64),
            plan.pages as u32,
            (commit_step / PAGE_BYTES).max(1) as u32,
        );
        Ok(Core {
            shell,
            budget,
            memory,
            table,
            gate: Gate::new(options.buckets),
            hazards: Arc::default(),
            pins: Arc::default(),
            orphans: Mutex::default(),
            described: AtomicUsize::new(options.engine.memory),
            arriving: AtomicU64::new(0),
            options,
            plan,
            flushes: Flushes::default(),
            upkeep: Upkeep::default(),
            walking: AtomicBool::new(false),
            recalls: AtomicU64::new(0),
        })
    }

    /// The fields of an item with these properties and a value of `value_len` bytes.
    #[inline(always)]
    pub(crate) fn fields(&self, item: &ItemHeaderSpec<'_>, value_len: usize) -> Fields {
        ItemHeaderSpec::fields(
            self.options.engine.eviction.fields(),
            item.flags,
            item.expiry,
            item.cas,
            value_len,
        )
    }

    /// Those of an item that will be stored.
    #[inline(always)]
    pub(crate) fn fields_of(&self, spec: &ItemSpec) -> Fields {
        let always = self.options.engine.eviction.fields();
        ItemHeaderSpec::fields(always, spec.flags, spec.expiry, spec.cas, spec.value_len)
    }

    /// The item at `at`, if there is one.
    #[inline(always)]
    pub(crate) fn item(&self, at: Offset, now: Seconds) -> Option<Item<'_>> {
        Item::at(self.shell.region(), at, now)
    }

    /// Whether `item` is no longer there, and why.
    #[inline(always)]
    pub(crate) fn dead(&self, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        Flushes::<()>::dead_as_of(self.flushes.generation(), item, now)
    }

    /// The class of the item at `at`, as shown to users: from 1.
    pub(crate) fn class_number(&self, at: Offset) -> u8 {
        self.memory.class_at(at).map_or(0, |class| class.0 + 1)
    }

    /// What an item counts for in `bytes`.
    pub(crate) fn bytes_of(item: &Item<'_>) -> u64 {
        use guira_contract::ItemView as _;
        (LINK_BYTES + item.size_before_value() + item.value_len()) as u64
    }
}

/// FLeeC.
#[derive(Clone, Debug)]
pub struct FleecEngine {
    pub(crate) core: Arc<Core>,
}

impl FleecEngine {
    /// An empty engine.
    ///
    /// # Errors
    /// If the options leave too little memory, or the system refuses the address space.
    pub fn open(options: FleecOptions) -> Result<Self, OpenError> {
        Ok(FleecEngine { core: Arc::new(Core::open(options)?) })
    }

    /// An engine whose Region lasts at `place`, where it goes on with what was there when it was last closed, if it can. Then the
    /// reserve is what the file was made for, whatever the options say. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// As [`FleecEngine::open`], or if the file cannot be used. What cannot be restored is no error: see [`Opened::opening`].
    pub fn open_lasting(
        options: FleecOptions,
        place: &RegionPlace,
        now_unix: u64,
    ) -> Result<Opened<FleecEngine>, OpenError> {
        restart::open(options, place, now_unix)
    }
}

impl Engine for FleecEngine {
    type Session = FleecSession;

    fn session(&self) -> FleecSession {
        FleecSession::new(self.core.clone())
    }

    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        Arc::into_inner(self.core).ok_or(CloseError::InUse)?.close(now, notes)
    }
}

impl Control for FleecEngine {
    fn flush(&self, now: Seconds, at: Seconds) {
        self.core.flushes.schedule(now, at, &Flushed(&self.core));
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        self.core.shell.watch_evictions(watcher);
    }

    fn policy(&self) -> (Spec, Option<Spec>) {
        let bits = 8 - self.core.table.clock_max().leading_zeros();
        (BucketClock { bits }.spec(), None)
    }

    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError> {
        self.core.table.set_clock_max(BucketClock::read(policy)?.max());
        Ok(())
    }

    fn tune(&self, tuning: Tuning) {
        self.core.upkeep.tune(tuning);
    }

    fn reassign(&self, from: Option<u32>, to: u32) -> Reassign {
        self.core.reassign(from, to)
    }

    fn resize(&self, memory: usize) -> Result<(), ResizeError> {
        self.core.resize(memory)
    }

    fn stats(&self) -> EngineStats {
        self.core.stats()
    }

    fn reset_stats(&self) {
        self.core.reset_stats();
    }
}
