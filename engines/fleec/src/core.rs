//! What all sessions of an engine share.

use crate::flush::Flushes;
use crate::gate::Gate;
use crate::maintain::Upkeep;
use crate::options::{BucketClock, FleecOptions, LINK_BYTES};
use crate::plan::Plan;
use crate::restart;
use crate::session::FleecSession;
use crate::stats::ClassCounters;
use crate::table::Table;
use guira_contract::{
    CloseError, Control, Engine, EngineStats, EvictionWatcher, ItemSpec, KeyHash, MissKind, Opened,
    PolicyError, Reassign, ResizeError, Spec, Tuning,
};
use guira_items::{Fields, Hashing, Item, ItemHeaderSpec, OpenError, Registry, Residence};
use guira_memory::lasting::RegionFile;
use guira_memory::slab::PAGE_BYTES;
use guira_memory::slab::lockfree::LockFreeSlab;
use guira_memory::{Budget, HugePages, MIB, Offset, Region, RegionPlace};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::hazard::Hazards;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};
use std::sync::{Arc, Mutex, OnceLock};

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) region: Arc<Region>,
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
    pub(crate) registry: Registry,
    /// By class.
    pub(crate) class_counters: Vec<ClassCounters>,
    pub(crate) flushes: Flushes,
    pub(crate) upkeep: Upkeep,
    /// The time when upkeep was last done, for statistics. Relaxed.
    seen: AtomicU32,
    /// Whether a walk is under way.
    pub(crate) walking: AtomicBool,
    /// How often a session has not found memory: then the others give back what they keep for themselves.
    pub(crate) recalls: AtomicU64,
    pub(crate) eviction_watcher: OnceLock<Arc<dyn EvictionWatcher>>,
    pub(crate) cas: AtomicU64,
    /// When second 0 was, for a Region that lasts.
    pub(crate) base: TimeBase,
    /// What the Region lasts in, if it does.
    pub(crate) file: Option<RegionFile>,
    /// The system commits memory in steps of so many bytes.
    pub(crate) commit_step: usize,
    secrets: RapidSecrets,
}

/// Cas uniques start above this; lower numbers stay free for codes of the lease protocol.
const CAS_START: u64 = 100;

impl Core {
    fn open(options: FleecOptions) -> Result<Self, OpenError> {
        options.check()?;
        let plan = Plan::new(options.reserve.max(options.memory));
        let region = Region::anonymous(plan.total, options.pages_of_the_system())
            .map_err(|source| OpenError::Reserve { bytes: plan.total, source })?;
        let core = Core::on(region, plan, options)?;
        core.table.begin();
        Ok(core)
    }

    /// An engine in `region`, which is divided as `plan` says. Nothing is stored into it yet: its table is to be begun or restored.
    pub(crate) fn on(mut region: Region, plan: Plan, options: FleecOptions) -> Result<Self, OpenError> {
        if options.residence == Residence::Locked {
            region.lock().map_err(|source| OpenError::Lock { bytes: region.reserved(), source })?;
        }
        let region = Arc::new(region);
        let budget = Arc::new(Budget::new(options.memory));
        // A page that was touched anywhere is committed as a whole.
        let commit_step = if options.pages_of_the_system() == HugePages::Ask { 2 * MIB } else { 4096 };
        let too_small = || OpenError::TooSmall(options.memory);
        if !budget.take(plan.metadata(options.memory, commit_step)) {
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
        let classes = options.classes();
        let registry = Registry::new(classes.len());
        let class_counters = classes.ids().map(|_| ClassCounters::default()).collect();
        let memory = LockFreeSlab::new(
            region.clone(),
            budget.clone(),
            classes,
            Offset::from_bytes(plan.metadata_at as u64),
            Offset::from_bytes(plan.pages_at as u64),
            plan.pages as u32,
            (commit_step / PAGE_BYTES).max(1) as u32,
        );
        let seed = if let Hashing::Seeded(seed) = options.hashing { seed } else { 0 };
        Ok(Core {
            region,
            budget,
            memory,
            table,
            gate: Gate::new(options.buckets),
            hazards: Arc::default(),
            pins: Arc::default(),
            orphans: Mutex::default(),
            described: AtomicUsize::new(options.memory),
            arriving: AtomicU64::new(0),
            options,
            plan,
            registry,
            class_counters,
            flushes: Flushes::default(),
            upkeep: Upkeep::default(),
            seen: AtomicU32::new(0),
            walking: AtomicBool::new(false),
            recalls: AtomicU64::new(0),
            eviction_watcher: OnceLock::new(),
            cas: AtomicU64::new(CAS_START),
            base: TimeBase::new(0),
            file: None,
            commit_step,
            secrets: RapidSecrets::seed(seed),
        })
    }

    /// The hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        match self.options.hashing {
            Hashing::Seeded(_) => KeyHash(rapidhash_v3_micro_inline::<true, true>(key, &self.secrets)),
            Hashing::Fixed(function) => KeyHash(function(key)),
        }
    }

    /// The fields of an item with these properties and a value of `value_len` bytes.
    #[inline(always)]
    pub(crate) fn fields(&self, item: &ItemHeaderSpec<'_>, value_len: usize) -> Fields {
        ItemHeaderSpec::fields(self.options.eviction.fields(), item.flags, item.expiry, item.cas, value_len)
    }

    /// Those of an item that will be stored.
    #[inline(always)]
    pub(crate) fn fields_of(&self, spec: &ItemSpec) -> Fields {
        let always = self.options.eviction.fields();
        ItemHeaderSpec::fields(always, spec.flags, spec.expiry, spec.cas, spec.value_len)
    }

    /// A cas unique that no item has yet.
    pub(crate) fn next_cas(&self) -> u64 {
        // Relaxed: only that no number is given out twice matters.
        self.cas.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The item at `at`, if there is one.
    #[inline(always)]
    pub(crate) fn item(&self, at: Offset, now: Seconds) -> Option<Item<'_>> {
        Item::at(&self.region, at, now)
    }

    /// Whether `item` is no longer there, and why.
    #[inline(always)]
    pub(crate) fn dead(&self, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        self.dead_as_of(self.flushes.generation(), item, now)
    }

    /// The same, if items of that flush generation are alive.
    #[inline(always)]
    pub(crate) fn dead_as_of(&self, generation: u32, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        if item.header.generation() != generation {
            return Some(MissKind::Flushed);
        }
        item.expiry().passed(now).then_some(MissKind::Expired)
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

    /// The time, as far as anybody has told it.
    pub(crate) fn time_seen(&self) -> Seconds {
        Seconds(self.seen.load(Ordering::Relaxed))
    }

    /// It is so late.
    pub(crate) fn see_time(&self, now: Seconds) {
        // Relaxed, and not one operation: a clock that somebody sets back by a second for a moment does no harm.
        if now > self.time_seen() {
            self.seen.store(now.0, Ordering::Relaxed);
        }
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
        self.core.schedule_flush(now, at);
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        // The first stays.
        let _ = self.core.eviction_watcher.set(watcher);
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
