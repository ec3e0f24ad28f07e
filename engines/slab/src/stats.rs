//! What a slab engine counts, and how it is summed up.

use crate::core::Core;
use crate::index::Scheme;
use crate::notes::NOTE;
use guira_contract::{ClassStats, EngineStats};
use guira_items::{ClassUsage, Item};
use guira_memory::slab::ClassGuard;
use guira_sync::waits::Waits;

impl<X: Scheme> Core<X> {
    /// Items stored at the moment. Sums over sessions are no snapshot, so a little more or less.
    pub(crate) fn items_now(&self) -> u64 {
        self.shell.registry().items()
    }

    pub(crate) fn reset_stats(&self) {
        self.shell.registry().reset();
        self.waits().into_iter().for_each(Waits::reset);
    }

    /// Of the locks that sessions take.
    fn waits(&self) -> [&Waits; 3] {
        [self.index.waits(), &self.order_waits, self.memory.waits()]
    }

    pub(crate) fn stats(&self) -> EngineStats {
        let held = self.shell.registry().held();
        EngineStats {
            items: held.iter().map(|held| held.items).sum(),
            bytes: held.iter().map(|held| held.bytes).sum(),
            crawling: self.upkeep.is_crawling(),
            crawls: self.upkeep.crawls(),
            moving: self.upkeep.is_draining(),
            items_rescued: self.upkeep.items_rescued(),
            pages_free: self.memory.pool_size() as u64,
            index_bytes: self.index.bytes() as u64,
            index_slots: self.index.slots(),
            index_growing: self.index.is_growing(),
            index_growths: self.index.growths(),
            lock_waits: self.waits().map(Waits::count).into_iter().sum(),
            memory_limit: self.budget.limit() as u64,
            memory_reserve: self.plan.reserve as u64,
            memory_used: self.budget.used() as u64,
            region_no_room: self.shell.region().refusals(),
            policy_item_bytes: (self.turn.policies().0.order(0).words() * NOTE) as u64,
            classes: self.class_stats(&held),
            ..EngineStats::counted(self.shell.registry().since_reset())
        }
    }

    /// How long ago the first item from word `word` of a class's pages on, in that page, was last read or stored.
    fn age_at(&self, guard: &ClassGuard<'_>, word: usize) -> u64 {
        let per_page = guard.geometry().bitmap_words as usize;
        let Some(page) = guard.pages().get(word / per_page) else {
            return 0;
        };
        let now = self.shell.time_seen();
        let ahead =
            self.memory.start_of(*page).plus(guard.geometry().start_of((word % per_page) as u32 * 64));
        let mut chunks = guard.occupied_chunks(*page).into_iter().filter(|at| *at >= ahead);
        let item = chunks.find_map(|at| self.item(at, now));
        item.map_or(0, |item| self.idle(&item))
    }

    /// How long ago an item was last read or stored, in seconds.
    fn idle(&self, item: &Item<'_>) -> u64 {
        let now = self.shell.time_seen();
        u64::from(now.0.saturating_sub(item.header.last_access(now).0))
    }

    fn class_stats(&self, held: &[ClassUsage]) -> Vec<ClassStats> {
        let mut all = Vec::new();
        for class in self.memory.classes().ids() {
            let hand = self.lock_order(class);
            let counts = self.shell.registry().class_counts(class);
            let guard = self.memory.lock(class);
            let usage = guard.usage();
            if usage.pages == 0 && counts.evicted == 0 {
                continue;
            }
            let next = self.next_to_go(class, &hand, guard.pages());
            let word = hand.hand.word();
            drop(hand);
            let age = match next {
                Some((at, _)) => self.item(at, self.shell.time_seen()).map_or(0, |item| self.idle(&item)),
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
