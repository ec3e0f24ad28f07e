//! What all sessions of an engine share.

use crate::balance::Balance;
use crate::index::{Index, Scheme};
use crate::maintain::Upkeep;
use crate::notes::Notes;
use crate::options::SlabOptions;
use crate::order::{ClassOrder, Policy};
use crate::pins::Pins;
use crate::plan::Plan;
use crate::reclaim::SCARCE_BELOW;
use crate::resize::Sizing;
use crate::restart;
use crate::session::SlabSession;
use crate::turn::{Refused, Turn};
use crate::walk::Walks;
use guira_contract::{
    CloseError, Control, Engine, EngineStats, EvictionWatcher, ItemSpec, ItemView, KeyHash, MissKind, Opened,
    PolicyError, Reassign, ResizeError, Spec, Tuning,
};
use guira_items::{Fields, Hashing, Item, ItemHeaderSpec, OpenError, Registry, Residence, SessionCounters};
use guira_memory::lasting::RegionFile;
use guira_memory::slab::{PAGE_BYTES, SlabMemory};
use guira_memory::{Budget, HugePages, MIB, Offset, Region, RegionPlace};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::{Seconds, TimeBase};
use guira_sync::quiescence::Quiescence;
use guira_sync::waits::Waits;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_micro_inline};
use std::sync::{Arc, Mutex, OnceLock};

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Core<X: Scheme> {
    pub(crate) region: Arc<Region>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) memory: SlabMemory,
    pub(crate) index: Index<X>,
    pub(crate) pins: Pins,
    /// Bytes of values that are still arriving.
    pub(crate) arriving: AtomicU64,
    pub(crate) quiescence: Arc<Quiescence>,
    pub(crate) options: SlabOptions,
    pub(crate) plan: Plan,
    /// The system commits memory in steps of so many bytes.
    pub(crate) commit_step: usize,
    /// LOCK: sizing. Held while memory is resized; leaf.
    pub(crate) sizing: Mutex<Sizing>,
    /// Whether there are few pages for each class.
    pub(crate) scarce: AtomicBool,
    pub(crate) balance: Balance,
    pub(crate) upkeep: Upkeep,
    pub(crate) registry: Registry,
    pub(crate) walks: Walks,
    /// The time when upkeep was last done, for statistics. Relaxed.
    pub(crate) seen: AtomicU32,
    pub(crate) eviction_watcher: OnceLock<Arc<dyn EvictionWatcher>>,
    /// LOCK: orders. Taken before the class's own lock.
    pub(crate) orders: Vec<Mutex<ClassOrder>>,
    pub(crate) order_waits: Waits,
    pub(crate) turn: Turn,
    /// What policies note of chunks.
    pub(crate) notes: [Notes; 2],
    /// The flush generation of new items, and when the next flush is due: see [`crate::maintain`].
    pub(crate) flush: AtomicU64,
    /// Counts what a flush removes without a session, under the flush lock.
    pub(crate) flush_counters: Arc<SessionCounters>,
    pub(crate) cas: AtomicU64,
    /// When second 0 was, for a Region that lasts.
    pub(crate) base: TimeBase,
    /// What the Region lasts in, if it does.
    pub(crate) file: Option<RegionFile>,
    secrets: RapidSecrets,
}

/// Cas uniques start above this; lower numbers stay free for codes of the lease protocol.
const CAS_START: u64 = 100;

impl<X: Scheme> Core<X> {
    fn open(options: SlabOptions) -> Result<Self, OpenError> {
        options.check(X::LINK_BYTES)?;
        let plan = Plan::new::<X>(options.reserve.max(options.memory));
        let region = Region::anonymous(plan.total, options.pages_of_the_system())
            .map_err(|source| OpenError::Reserve { bytes: plan.total, source })?;
        Core::<X>::on(region, plan, options)
    }

    /// An empty engine in `region`, which is divided as `plan` says. Nothing is stored into it yet.
    pub(crate) fn on(mut region: Region, plan: Plan, options: SlabOptions) -> Result<Self, OpenError> {
        if options.residence == Residence::Locked {
            region.lock().map_err(|source| OpenError::Lock { bytes: region.reserved(), source })?;
        }
        let region = Arc::new(region);
        let budget = Arc::new(Budget::new(options.memory));
        let buckets = plan.buckets_least::<X>(options.memory);
        // A page that was touched anywhere is committed as a whole.
        let commit_step = if options.pages_of_the_system() == HugePages::Ask { 2 * MIB } else { 4096 };
        let (sizes, stripes) = ((buckets, plan.buckets_max), options.stripes);
        let index = Index::new(region.clone(), plan.arenas_at, sizes, commit_step, stripes, options.search);
        let metadata = plan.metadata(options.memory, commit_step);
        if !budget.take(metadata + index.committed(buckets)) {
            return Err(OpenError::TooSmall(options.memory));
        }
        if !index.back_tables() {
            return Err(OpenError::Full);
        }
        let classes = options.classes(X::LINK_BYTES);
        let class_count = classes.len();
        let memory = SlabMemory::new(
            region.clone(),
            budget.clone(),
            classes,
            Offset::from_bytes(plan.metadata_at as u64),
            Offset::from_bytes(plan.pages_at as u64),
            plan.pages as u32,
            (commit_step / PAGE_BYTES).max(1) as u32,
        );
        let notes = || Notes::new(plan.pages, options.residence);
        let notes = [notes()?, notes()?];
        notes[0].set_words(options.policy.words());
        let balance = Balance::new(memory.classes(), options.size_weight);
        let registry = Registry::new(class_count);
        let flush_counters = registry.register();
        let seed = if let Hashing::Seeded(seed) = options.hashing { seed } else { 0 };
        Ok(Core {
            region,
            budget,
            memory,
            index,
            pins: Pins::default(),
            arriving: AtomicU64::new(0),
            quiescence: Arc::new(Quiescence::default()),
            options,
            plan,
            commit_step,
            sizing: Mutex::new(Sizing::new(metadata, options.memory)),
            scarce: AtomicBool::new(options.memory < SCARCE_BELOW),
            balance,
            upkeep: Upkeep::default(),
            registry,
            walks: Walks::default(),
            seen: AtomicU32::new(0),
            eviction_watcher: OnceLock::new(),
            flush_counters,
            order_waits: Waits::default(),
            orders: (0..class_count)
                .map(|class| Mutex::new(ClassOrder::new(options.policy, class as u64)))
                .collect(),
            turn: Turn::new(options.policy),
            notes,
            flush: AtomicU64::new(crate::maintain::Flush::NEVER.0),
            cas: AtomicU64::new(CAS_START),
            base: TimeBase::new(0),
            file: None,
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

    /// Whether `item` is no longer there, and why.
    #[inline(always)]
    pub(crate) fn dead(&self, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        self.dead_as_of(self.generation(), item, now)
    }

    /// The same as of a flush generation.
    #[inline(always)]
    pub(crate) fn dead_as_of(&self, generation: u32, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        if item.header.generation() != generation {
            return Some(MissKind::Flushed);
        }
        item.expiry().passed(now).then_some(MissKind::Expired)
    }

    /// The item at `at`, if there is one.
    #[inline(always)]
    pub(crate) fn item(&self, at: Offset, now: Seconds) -> Option<Item<'_>> {
        Item::at(&self.region, at, now)
    }

    /// The hash of the key of the item at `at`, which may be changing.
    pub(crate) fn hash_at(&self, at: Offset) -> Option<KeyHash> {
        let item = self.item(at, Seconds(0))?;
        let mut buffer = [0; 256];
        Some(self.hash(item.key(&mut buffer)))
    }

    /// The class of the item at `item`, as shown to users: from 1.
    pub(crate) fn class_number(&self, at: Offset) -> u8 {
        self.memory.class_at(at).map_or(0, |class| class.0 + 1)
    }

    /// What an item counts for in `bytes`.
    pub(crate) fn bytes_of(item: &Item<'_>) -> u64 {
        (item.size_before_value() + item.value_len()) as u64
    }
}

/// A slab engine.
#[derive(Clone, Debug)]
pub struct SlabEngine<X: Scheme> {
    pub(crate) core: Arc<Core<X>>,
}

impl<X: Scheme> SlabEngine<X> {
    /// An empty engine.
    ///
    /// # Errors
    /// If the options leave too little memory, or the system refuses the address space.
    pub fn open(options: SlabOptions) -> Result<Self, OpenError> {
        Ok(SlabEngine { core: Arc::new(Core::<X>::open(options)?) })
    }
}

impl<X: Scheme> SlabEngine<X> {
    /// An engine whose Region lasts at `place`, where it goes on with what was there when it was last closed, if it can. Then the
    /// reserve is what the file was made for, whatever the options say. `now_unix` is the time in seconds since 1970.
    ///
    /// # Errors
    /// As [`SlabEngine::open`], or if the file cannot be used. What cannot be restored is no error: see [`Opened::opening`].
    pub fn open_lasting(
        options: SlabOptions,
        place: &RegionPlace,
        now_unix: u64,
    ) -> Result<Opened<SlabEngine<X>>, OpenError> {
        restart::open(options, place, now_unix)
    }
}

impl<X: Scheme> Engine for SlabEngine<X> {
    type Session = SlabSession<X>;

    fn session(&self) -> SlabSession<X> {
        SlabSession::<X>::new(self.core.clone())
    }

    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError> {
        Arc::into_inner(self.core).ok_or(CloseError::InUse)?.close(now, notes)
    }
}

impl<X: Scheme> Control for SlabEngine<X> {
    fn flush(&self, now: Seconds, at: Seconds) {
        self.core.schedule_flush(now, at);
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        // The first stays.
        let _ = self.core.eviction_watcher.set(watcher);
    }

    fn policy(&self) -> (Spec, Option<Spec>) {
        let (policy, next) = self.core.turn.policies();
        (policy.spec(), next.map(Policy::spec))
    }

    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError> {
        self.core.turn_to(Policy::read(policy)?).map_err(|refused| match refused {
            Refused::Busy => PolicyError::Busy,
            Refused::NoRoom => PolicyError::NoRoom,
        })
    }

    fn tune(&self, tuning: Tuning) {
        match tuning {
            Tuning::Crawler(switch) => self.core.upkeep.switch_crawler(switch),
            Tuning::CrawlNow => self.core.upkeep.crawl_now(),
            Tuning::Automove(switch) => self.core.balance.switch(switch),
        }
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
