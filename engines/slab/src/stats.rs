//! What a slab engine counts, and how it is summed up.

use crate::core::Core;
use crate::index::Scheme;
use crate::notes::NOTE;
use guira_contract::{ClassStats, EngineStats};
use guira_items::Item;
use guira_memory::slab::{ClassGuard, ClassId};
use guira_sync::counters::Counters;
use std::sync::{Arc, Mutex, PoisonError};

/// What a session counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    ItemsStored,
    Evictions,
    EvictedUnfetched,
    IndexEvictions,
    Reclaimed,
    ExpiredUnfetched,
    CrawlerReclaimed,
    CrawlerChecked,
    PagesMoved,
    Displacements,
    ReadRetries,
    HandSteps,
}

pub(crate) const COUNTS: usize = Count::HandSteps as usize + 1;

/// What the items of a class come to. A session may remove what another has stored: only the sums over all of them
/// are numbers, those of one wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

impl Held {
    fn plus(self, other: Held) -> Held {
        Held { items: self.items.wrapping_add(other.items), bytes: self.bytes.wrapping_add(other.bytes) }
    }
}

/// One session's counters.
#[derive(Debug)]
pub(crate) struct SessionCounters {
    counts: Counters<COUNTS>,
    /// Items and bytes of each class.
    held: Vec<Counters<2>>,
}

impl SessionCounters {
    fn new(classes: usize) -> Self {
        SessionCounters {
            counts: Counters::default(),
            held: (0..classes).map(|_| Counters::default()).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn add(&self, what: Count, amount: u64) {
        self.counts.add(what as usize, amount);
    }

    /// An item of `bytes` bytes was put into the table.
    #[inline]
    pub(crate) fn item_stored(&self, class: Option<ClassId>, bytes: u64) {
        self.add(Count::ItemsStored, 1);
        self.hold(class, Held { items: 1, bytes });
    }

    /// An item of `bytes` bytes was taken out of the table.
    #[inline]
    pub(crate) fn item_removed(&self, class: Option<ClassId>, bytes: u64) {
        self.hold(class, Held { items: 1u64.wrapping_neg(), bytes: bytes.wrapping_neg() });
    }

    #[inline]
    fn hold(&self, class: Option<ClassId>, more: Held) {
        if let Some(held) = class.and_then(|class| self.held.get(usize::from(class.0))) {
            held.add(0, more.items);
            held.add(1, more.bytes);
        }
    }

    fn held(&self, class: usize) -> Held {
        Held { items: self.held[class].get(0), bytes: self.held[class].get(1) }
    }
}

/// What [`Registry`] keeps across a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedCounts {
    pub(crate) sums: [u64; COUNTS],
    /// What they were at the last reset.
    pub(crate) base: [u64; COUNTS],
    pub(crate) held: Vec<Held>,
}

/// The counters of all sessions there were.
#[derive(Debug)]
pub(crate) struct Registry {
    classes: usize,
    /// LOCK: counters. Leaf.
    all: Mutex<Vec<Arc<SessionCounters>>>,
    /// What sessions counted that are over. Taken under the lock of the others.
    gone: SessionCounters,
    /// What the counters said at the last reset.
    base: Mutex<[u64; COUNTS]>,
}

impl Registry {
    pub(crate) fn new(classes: usize) -> Self {
        Registry {
            classes,
            all: Mutex::default(),
            gone: SessionCounters::new(classes),
            base: Mutex::new([0; COUNTS]),
        }
    }

    pub(crate) fn register(&self) -> Arc<SessionCounters> {
        let counters = Arc::new(SessionCounters::new(self.classes));
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    /// A session is over: what it counted is kept.
    pub(crate) fn retire(&self, counters: &Arc<SessionCounters>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !Arc::ptr_eq(other, counters));
        for index in 0..COUNTS {
            self.gone.counts.add(index, counters.counts.get(index));
        }
        for class in 0..self.classes {
            self.gone.hold(Some(ClassId(class as u8)), counters.held(class));
        }
    }

    pub(crate) fn saved(&self) -> SavedCounts {
        let base = *self.base.lock().unwrap_or_else(PoisonError::into_inner);
        SavedCounts { sums: self.sums(), base, held: self.held() }
    }

    /// Goes on counting from there.
    pub(crate) fn restore(&self, saved: &SavedCounts) {
        let counters = self.register();
        saved.sums.iter().enumerate().for_each(|(index, sum)| counters.counts.add(index, *sum));
        for (class, held) in saved.held.iter().enumerate() {
            counters.hold(Some(ClassId(class as u8)), *held);
        }
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = saved.base;
    }

    fn sums(&self) -> [u64; COUNTS] {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = [0u64; COUNTS];
        for counters in all.iter().map(Arc::as_ref).chain([&self.gone]) {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(counters.counts.get(index));
            }
        }
        sums
    }

    /// How many items there are. Sums over sessions are no snapshot, so a little more or less.
    fn items(&self) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = all.iter().map(Arc::as_ref).chain([&self.gone]);
        let of_session = |counters: &SessionCounters| {
            (0..self.classes).fold(0u64, |sum, class| sum.wrapping_add(counters.held(class).items))
        };
        let sum = sessions.map(of_session).fold(0, u64::wrapping_add);
        // One that was removed may be counted before the one that was stored is.
        if (sum as i64) < 0 { 0 } else { sum }
    }

    /// How many items a class has.
    pub(crate) fn items_of(&self, class: ClassId) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        self.held_of(&all, usize::from(class.0)).items
    }

    /// What the items of each class come to.
    fn held(&self) -> Vec<Held> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        (0..self.classes).map(|class| self.held_of(&all, class)).collect()
    }

    /// What the items of a class come to. Sums over sessions are no snapshot, so a little more or less.
    fn held_of(&self, all: &[Arc<SessionCounters>], class: usize) -> Held {
        let sessions = all.iter().map(Arc::as_ref).chain([&self.gone]);
        let sum = sessions.map(|counters| counters.held(class)).fold(Held::default(), Held::plus);
        // One that was removed may be counted before the one that was stored is.
        let positive = |number: u64| if (number as i64) < 0 { 0 } else { number };
        Held { items: positive(sum.items), bytes: positive(sum.bytes) }
    }
}

impl<X: Scheme> Core<X> {
    /// Items stored at the moment. Sums over sessions are no snapshot, so a little more or less.
    pub(crate) fn items_now(&self) -> u64 {
        self.registry.items()
    }

    pub(crate) fn reset_stats(&self) {
        *self.registry.base.lock().unwrap_or_else(PoisonError::into_inner) = self.registry.sums();
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let sums = self.registry.sums();
        let base = *self.registry.base.lock().unwrap_or_else(PoisonError::into_inner);
        let since = |what: Count| sums[what as usize].saturating_sub(base[what as usize]);
        let held = self.registry.held();
        EngineStats {
            items: held.iter().map(|held| held.items).sum(),
            bytes: held.iter().map(|held| held.bytes).sum(),
            total_items: since(Count::ItemsStored),
            evictions: since(Count::Evictions),
            evicted_unfetched: since(Count::EvictedUnfetched),
            index_evictions: since(Count::IndexEvictions),
            reclaimed: since(Count::Reclaimed),
            expired_unfetched: since(Count::ExpiredUnfetched),
            crawler_reclaimed: since(Count::CrawlerReclaimed),
            crawler_checked: since(Count::CrawlerChecked),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            moving: self.upkeep.is_draining(),
            pages_moved: since(Count::PagesMoved),
            pages_free: self.memory.pool_size() as u64,
            index_bytes: self.index.bytes() as u64,
            index_slots: self.index.slots(),
            index_growing: self.index.is_growing(),
            index_growths: self.index.growths(),
            displacements: since(Count::Displacements),
            read_retries: since(Count::ReadRetries),
            hand_steps: since(Count::HandSteps),
            memory_limit: self.budget.limit() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.budget.used() as u64,
            policy_item_bytes: (self.turn.policies().0.words() * NOTE) as u64,
            classes: self.class_stats(&held),
        }
    }

    /// How long ago the first item from word `word` of a class's pages on, in that page, was last read or stored.
    fn age_at(&self, guard: &ClassGuard<'_>, word: usize) -> u64 {
        let per_page = guard.geometry().bitmap_words as usize;
        let Some(page) = guard.pages().get(word / per_page) else {
            return 0;
        };
        let now = self.time_seen();
        let ahead =
            self.memory.start_of(*page).plus(guard.geometry().start_of((word % per_page) as u32 * 64));
        let mut chunks = guard.occupied_chunks(*page).into_iter().filter(|at| *at >= ahead);
        let item = chunks.find_map(|at| self.item(at, now));
        item.map_or(0, |item| self.idle(&item))
    }

    /// How long ago an item was last read or stored, in seconds.
    fn idle(&self, item: &Item<'_>) -> u64 {
        let now = self.time_seen();
        u64::from(now.0.saturating_sub(item.header.last_access(now).0))
    }

    fn class_stats(&self, held: &[Held]) -> Vec<ClassStats> {
        let mut all = Vec::new();
        for class in self.memory.classes().ids() {
            let hand = self.lock_order(class);
            let counts = hand.counts;
            let guard = self.memory.lock(class);
            let usage = guard.usage();
            if usage.pages == 0 && counts.evicted == 0 {
                continue;
            }
            let next = self.next_to_go(class, &hand, guard.pages());
            let word = hand.hand.word();
            drop(hand);
            let age = match next {
                Some((at, _)) => self.item(at, self.time_seen()).map_or(0, |item| self.idle(&item)),
                None => self.age_at(&guard, word),
            };
            let held = held[usize::from(class.0)];
            all.push(ClassStats {
                id: u32::from(class.0) + 1,
                chunk_size: u64::from(guard.geometry().chunk),
                chunks_per_page: u64::from(guard.geometry().chunks),
                pages: usage.pages,
                items: held.items,
                bytes: held.bytes,
                used_chunks: usage.chunks - usage.free,
                free_chunks: usage.free,
                counts,
                age,
            });
        }
        all
    }
}
