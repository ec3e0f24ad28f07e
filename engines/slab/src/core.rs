//! What all sessions of an engine share.

use crate::balance::Balance;
use crate::index::{Index, Scheme};
use crate::maintain::Upkeep;
use crate::notes::Notes;
use crate::options::SlabOptions;
use crate::order::ClassOrder;
use crate::pins::Pins;
use crate::plan::Plan;
use crate::policy::table::Policy;
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
use guira_items::{Fields, Flushes, Item, ItemHeaderSpec, OpenError, SessionCounters, Shell};
use guira_memory::slab::{PAGE_BYTES, SlabMemory};
use guira_memory::{Budget, Offset, RegionPlace};
use guira_sync::atomic::{AtomicBool, AtomicU64};
use guira_sync::clock::Seconds;
use guira_sync::quiescence::{Quiescence, Ticket};
use guira_sync::waits::Waits;
use std::sync::{Arc, Mutex};

/// What all sessions share.
#[derive(Debug)]
pub(crate) struct Core<X: Scheme> {
    pub(crate) shell: Shell,
    pub(crate) budget: Arc<Budget>,
    pub(crate) memory: SlabMemory,
    pub(crate) index: Index<X>,
    pub(crate) pins: Pins,
    /// Bytes of values that are still arriving.
    pub(crate) arriving: AtomicU64,
    pub(crate) quiescence: Arc<Quiescence>,
    pub(crate) options: SlabOptions,
    pub(crate) plan: Plan,
    /// LOCK: sizing. Held while memory is resized; leaf.
    pub(crate) sizing: Mutex<Sizing>,
    /// Whether there are few pages for each class.
    pub(crate) scarce: AtomicBool,
    pub(crate) balance: Balance,
    pub(crate) upkeep: Upkeep,
    pub(crate) walks: Walks,
    /// LOCK: orders. Taken before the class's own lock.
    pub(crate) orders: Vec<Mutex<ClassOrder>>,
    pub(crate) order_waits: Waits,
    pub(crate) turn: Turn,
    /// What policies note of chunks.
    pub(crate) notes: [Notes; 2],
    pub(crate) flushes: Flushes<Ticket>,
    /// Counts what a flush removes without a session, under the flush lock.
    pub(crate) flush_counters: Arc<SessionCounters>,
}

impl<X: Scheme> Core<X> {
    fn open(options: SlabOptions) -> Result<Self, OpenError> {
        options.check(X::LINK_BYTES)?;
        let plan = Plan::new::<X>(options.engine.reserve.max(options.engine.memory));
        let shell =
            Shell::anonymous(&options.engine, plan.total, options.classes.table(X::LINK_BYTES).len())?;
        Core::<X>::on(shell, plan, options)
    }

    /// An empty engine in `shell`, whose Region is divided as `plan` says. Nothing is stored into it yet.
    pub(crate) fn on(shell: Shell, plan: Plan, options: SlabOptions) -> Result<Self, OpenError> {
        let (region, commit_step) = (shell.region().clone(), shell.commit_step());
        let budget = Arc::new(Budget::new(options.engine.memory));
        let buckets = plan.buckets_least::<X>(options.engine.memory);
        let (sizes, stripes) = ((buckets, plan.buckets_max), options.stripes);
        let index = Index::new(region.clone(), plan.arenas_at, sizes, commit_step, stripes, options.search);
        let metadata = plan.metadata(options.engine.memory, commit_step);
        if !budget.take(metadata + index.committed(buckets)) {
            return Err(OpenError::TooSmall(options.engine.memory));
        }
        if !index.back_tables() {
            return Err(OpenError::Full);
        }
        let classes = options.classes.table(X::LINK_BYTES);
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
        let notes = || Notes::new(plan.pages, options.engine.residence);
        let notes = [notes()?, notes()?];
        notes[0].set_words(options.policy.order(0).words());
        let balance = Balance::new(memory.classes());
        let flush_counters = shell.registry().register();
        Ok(Core {
            shell,
            budget,
            memory,
            index,
            pins: Pins::default(),
            arriving: AtomicU64::new(0),
            quiescence: Arc::new(Quiescence::default()),
            options,
            plan,
            sizing: Mutex::new(Sizing::new(metadata, options.engine.memory)),
            scarce: AtomicBool::new(options.engine.memory < SCARCE_BELOW),
            balance,
            upkeep: Upkeep::default(),
            walks: Walks::default(),
            flush_counters,
            order_waits: Waits::default(),
            orders: (0..class_count)
                .map(|class| Mutex::new(ClassOrder::new(options.policy, class as u64)))
                .collect(),
            turn: Turn::new(options.policy),
            notes,
            flushes: Flushes::default(),
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

    /// Whether `item` is no longer there, and why.
    #[inline(always)]
    pub(crate) fn dead(&self, item: &Item<'_>, now: Seconds) -> Option<MissKind> {
        Flushes::<Ticket>::dead_as_of(self.flushes.generation(), item, now)
    }

    /// The item at `at`, if there is one.
    #[inline(always)]
    pub(crate) fn item(&self, at: Offset, now: Seconds) -> Option<Item<'_>> {
        Item::at(self.shell.region(), at, now)
    }

    /// The hash of the key of the item at `at`, which may be changing.
    pub(crate) fn hash_at(&self, at: Offset) -> Option<KeyHash> {
        let item = self.item(at, Seconds(0))?;
        let mut buffer = [0; 256];
        Some(self.shell.hash(item.key(&mut buffer)))
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
        self.core.flushes.schedule(now, at, &*self.core);
    }

    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>) {
        self.core.shell.watch_evictions(watcher);
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
