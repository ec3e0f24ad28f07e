//! What sessions count, and how it is summed up.

use guira_contract::{ClassCounter, ClassCounts, Counter};
use guira_memory::slab::ClassId;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use guira_sync::counters::Counters;
use guira_sync::lock::{Mutex, MutexGuard};
use std::sync::Arc;

/// The items of a class. A session may remove what another has stored: only the sums over all sessions are numbers, those of one wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUsage {
    pub items: u64,
    /// Their size, in bytes.
    pub bytes: u64,
}

impl ClassUsage {
    /// These and those of `other`.
    #[must_use]
    pub fn plus(self, other: ClassUsage) -> ClassUsage {
        ClassUsage {
            items: self.items.wrapping_add(other.items),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

/// Why an item is no longer in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Another one was put in its place, or it was deleted.
    Gone,
    /// It had expired or was flushed.
    Dead,
    /// It was evicted for its memory.
    Evicted,
    /// It was evicted for its slot in the index.
    Displaced,
}

impl Removal {
    pub fn is_eviction(self) -> bool {
        matches!(self, Removal::Evicted | Removal::Displaced)
    }
}

/// An item that is no longer in the table, as it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Removed {
    pub class: Option<ClassId>,
    /// Its size, in bytes.
    pub bytes: u64,
    pub is_fetched: bool,
    /// Whether it would have expired by itself.
    pub expires: bool,
    /// For how long it had not been read or stored.
    pub idle: Seconds,
}

/// What is counted of each class: items, bytes, and what became of items.
const OF_CLASS: usize = 2 + ClassCounter::COUNT;

/// Where the counters of a class begin.
const COUNTS_AT: usize = 2;

#[derive(Debug)]
pub struct SessionCounters {
    counts: Counters<{ Counter::COUNT }>,
    classes: Vec<Counters<OF_CLASS>>,
    /// For how long the item of each class had not been used that was evicted last. Shared by all sessions; Relaxed, as all statistics.
    evicted_time: Arc<[AtomicU64]>,
}

impl SessionCounters {
    fn new(evicted_time: Arc<[AtomicU64]>) -> Self {
        SessionCounters {
            counts: Counters::default(),
            classes: evicted_time.iter().map(|_| Counters::default()).collect(),
            evicted_time,
        }
    }

    /// Counts. Only the session itself does so.
    #[inline(always)]
    pub fn add(&self, what: Counter, amount: u64) {
        self.counts.add(what as usize, amount);
    }

    #[inline]
    pub fn add_to_class(&self, class: Option<ClassId>, what: ClassCounter, amount: u64) {
        if let Some(counters) = class.and_then(|class| self.classes.get(usize::from(class.0))) {
            counters.add(COUNTS_AT + what as usize, amount);
        }
    }

    /// An item of `bytes` bytes was put into the table.
    #[inline]
    pub fn item_put(&self, class: Option<ClassId>, bytes: u64) {
        self.use_class(class, ClassUsage { items: 1, bytes });
    }

    /// An item of `bytes` bytes was taken out of the table, to be put there again.
    #[inline]
    pub fn item_taken(&self, class: Option<ClassId>, bytes: u64) {
        self.use_class(class, ClassUsage { items: 1u64.wrapping_neg(), bytes: bytes.wrapping_neg() });
    }

    /// An item was put into the table in place of another. Of both, the class and the size in bytes.
    #[inline]
    pub fn item_replaced(&self, new: (Option<ClassId>, u64), old: (Option<ClassId>, u64)) {
        if new == old {
            return;
        }
        self.item_put(new.0, new.1);
        self.item_taken(old.0, old.1);
    }

    /// Adds items and bytes to what is in the table: numbers that wrap.
    pub fn items_added(&self, class: Option<ClassId>, items: u64, bytes: u64) {
        self.use_class(class, ClassUsage { items, bytes });
    }

    /// An item is no longer in the table.
    pub fn item_removed(&self, why: Removal, item: &Removed) {
        self.item_taken(item.class, item.bytes);
        if why == Removal::Gone {
            return;
        }
        let unfetched = u64::from(!item.is_fetched);
        if why == Removal::Dead {
            self.add(Counter::Reclaimed, 1);
            self.add(Counter::ExpiredUnfetched, unfetched);
            self.add_to_class(item.class, ClassCounter::Reclaimed, 1);
            self.add_to_class(item.class, ClassCounter::ExpiredUnfetched, unfetched);
            return;
        }
        self.add(Counter::Evictions, 1);
        self.add(Counter::EvictedUnfetched, unfetched);
        self.add(Counter::IndexEvictions, u64::from(why == Removal::Displaced));
        self.add_to_class(item.class, ClassCounter::Evicted, 1);
        self.add_to_class(item.class, ClassCounter::EvictedUnfetched, unfetched);
        self.add_to_class(item.class, ClassCounter::EvictedNonzero, u64::from(item.expires));
        if let Some(time) = item.class.and_then(|class| self.evicted_time.get(usize::from(class.0))) {
            time.store(u64::from(item.idle.0), Ordering::Relaxed);
        }
    }

    /// The crawler has looked at `checked` items of a class, and removed `reclaimed` of them.
    pub fn crawled(&self, class: Option<ClassId>, checked: u64, reclaimed: u64) {
        self.add(Counter::CrawlerChecked, checked);
        self.add(Counter::CrawlerReclaimed, reclaimed);
        self.add_to_class(class, ClassCounter::CrawlerChecked, checked);
        self.add_to_class(class, ClassCounter::CrawlerReclaimed, reclaimed);
    }

    #[inline]
    fn use_class(&self, class: Option<ClassId>, more: ClassUsage) {
        if let Some(counters) = class.and_then(|class| self.classes.get(usize::from(class.0))) {
            counters.add(0, more.items);
            counters.add(1, more.bytes);
        }
    }

    fn usage(&self, class: usize) -> ClassUsage {
        ClassUsage { items: self.classes[class].get(0), bytes: self.classes[class].get(1) }
    }
}

/// The counters of one class, in the order of [`ClassCounter::ALL`].
pub type ClassValues = [u64; ClassCounter::COUNT];

/// What [`Registry`] keeps across a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCounts {
    pub sums: [u64; Counter::COUNT],
    /// The same at the last reset.
    pub base: [u64; Counter::COUNT],
    pub held: Vec<ClassUsage>,
    /// What was counted of each class since the last reset.
    pub classes: Vec<ClassValues>,
}

/// The counters of all sessions there were.
#[derive(Debug)]
pub struct Registry {
    /// LOCK: counters. Leaf.
    all: Mutex<Vec<Arc<SessionCounters>>>,
    /// What sessions have counted that are over. Taken under the lock of the others.
    gone: SessionCounters,
    base: Mutex<Base>,
}

/// What the counters said at the last reset.
#[derive(Debug)]
struct Base {
    counts: [u64; Counter::COUNT],
    classes: Vec<ClassValues>,
}

impl Registry {
    /// Nothing counted yet, for this many classes.
    pub fn new(classes: usize) -> Self {
        let evicted_time = (0..classes).map(|_| AtomicU64::new(0)).collect();
        let base = Base { counts: [0; Counter::COUNT], classes: vec![[0; ClassCounter::COUNT]; classes] };
        Registry { all: Mutex::default(), gone: SessionCounters::new(evicted_time), base: Mutex::new(base) }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<SessionCounters>>> {
        self.all.lock()
    }

    fn base(&self) -> MutexGuard<'_, Base> {
        self.base.lock()
    }

    fn classes(&self) -> usize {
        self.gone.classes.len()
    }

    /// The counters of a new session.
    pub fn register(&self) -> Arc<SessionCounters> {
        let counters = Arc::new(SessionCounters::new(self.gone.evicted_time.clone()));
        self.all().push(counters.clone());
        counters
    }

    /// A session is over: its counts are kept.
    pub fn retire(&self, counters: &Arc<SessionCounters>) {
        let mut all = self.all();
        all.retain(|other| !Arc::ptr_eq(other, counters));
        for index in 0..Counter::COUNT {
            self.gone.counts.add(index, counters.counts.get(index));
        }
        for (gone, counters) in self.gone.classes.iter().zip(&counters.classes) {
            (0..OF_CLASS).for_each(|index| gone.add(index, counters.get(index)));
        }
    }

    /// What is kept across a restart.
    pub fn saved(&self) -> SavedCounts {
        let classes = (0..self.classes()).map(|class| self.values_since_reset(class)).collect();
        SavedCounts { sums: self.sums(), base: self.base().counts, held: self.held(), classes }
    }

    pub fn restore(&self, saved: &SavedCounts) {
        let counters = self.register();
        saved.sums.iter().enumerate().for_each(|(index, sum)| counters.counts.add(index, *sum));
        for (class, usage) in saved.held.iter().enumerate() {
            counters.use_class(Some(ClassId(class as u8)), *usage);
        }
        for (class, values) in saved.classes.iter().enumerate().take(self.classes()) {
            for (what, value) in ClassCounter::ALL.into_iter().zip(values) {
                match what {
                    ClassCounter::EvictedTime => {
                        self.gone.evicted_time[class].store(*value, Ordering::Relaxed);
                    }
                    what => counters.add_to_class(Some(ClassId(class as u8)), what, *value),
                }
            }
        }
        self.base().counts = saved.base;
    }

    /// Counts from zero again, but for the usage of classes.
    pub fn reset(&self) {
        let counts = self.sums();
        let classes = (0..self.classes()).map(|class| self.values(class)).collect();
        *self.base() = Base { counts, classes };
        self.gone.evicted_time.iter().for_each(|time| time.store(0, Ordering::Relaxed));
    }

    /// What was counted since the last reset.
    pub fn since_reset(&self) -> impl Fn(Counter) -> u64 + use<> {
        let (sums, base) = (self.sums(), self.base().counts);
        move |what| sums[what as usize].saturating_sub(base[what as usize])
    }

    /// What became of the items of a class since the last reset.
    pub fn class_counts(&self, class: ClassId) -> ClassCounts {
        let values = self.values_since_reset(usize::from(class.0));
        ClassCounts::counted(|what| values[what as usize])
    }

    fn values_since_reset(&self, class: usize) -> ClassValues {
        let (mut values, base) = (self.values(class), self.base().classes[class]);
        values.iter_mut().zip(base).for_each(|(value, base)| *value = value.saturating_sub(base));
        values[ClassCounter::EvictedTime as usize] = self.gone.evicted_time[class].load(Ordering::Relaxed);
        values
    }

    fn values(&self, class: usize) -> ClassValues {
        let all = self.all();
        let mut values = [0u64; ClassCounter::COUNT];
        for counters in all.iter().map(Arc::as_ref).chain([&self.gone]) {
            for (index, value) in values.iter_mut().enumerate() {
                *value = value.wrapping_add(counters.classes[class].get(COUNTS_AT + index));
            }
        }
        values
    }

    fn sums(&self) -> [u64; Counter::COUNT] {
        let all = self.all();
        let mut sums = [0u64; Counter::COUNT];
        for counters in all.iter().map(Arc::as_ref).chain([&self.gone]) {
            for (index, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(counters.counts.get(index));
            }
        }
        sums
    }

    /// How many items there are. Sums over sessions are no snapshot, so a little more or less.
    pub fn items(&self) -> u64 {
        let all = self.all();
        let sessions = all.iter().map(Arc::as_ref).chain([&self.gone]);
        let of_session = |counters: &SessionCounters| {
            (0..self.classes()).fold(0u64, |sum, class| sum.wrapping_add(counters.usage(class).items))
        };
        positive(sessions.map(of_session).fold(0, u64::wrapping_add))
    }

    /// How many items a class has.
    pub fn items_of(&self, class: ClassId) -> u64 {
        self.usage_of(&self.all(), usize::from(class.0)).items
    }

    pub fn held(&self) -> Vec<ClassUsage> {
        let all = self.all();
        (0..self.classes()).map(|class| self.usage_of(&all, class)).collect()
    }

    /// The usage of a class. Sums over sessions are no snapshot, so a little more or less.
    fn usage_of(&self, all: &[Arc<SessionCounters>], class: usize) -> ClassUsage {
        let sessions = all.iter().map(Arc::as_ref).chain([&self.gone]);
        let sum =
            sessions.map(|counters| counters.usage(class)).fold(ClassUsage::default(), ClassUsage::plus);
        ClassUsage { items: positive(sum.items), bytes: positive(sum.bytes) }
    }
}

/// An item that was removed may be counted before the one that was stored is.
fn positive(number: u64) -> u64 {
    if (number as i64) < 0 { 0 } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_items_is_counted_once_for_all_and_for_their_class() {
        let registry = Registry::new(2);
        let (one, other) = (registry.register(), registry.register());
        let class = Some(ClassId(1));
        let item = Removed { class, bytes: 50, is_fetched: false, expires: true, idle: Seconds(9) };
        (0..4).for_each(|_| one.item_put(class, 50));
        other.item_removed(Removal::Gone, &item);
        other.item_removed(Removal::Dead, &Removed { is_fetched: true, ..item });
        one.item_removed(Removal::Displaced, &item);
        one.crawled(class, 7, 1);
        registry.retire(&other);
        let since = registry.since_reset();
        let counted =
            [Counter::Evictions, Counter::IndexEvictions, Counter::EvictedUnfetched, Counter::Reclaimed];
        assert_eq!(counted.map(&since), [1, 1, 1, 1]);
        assert_eq!(registry.held()[1], ClassUsage { items: 1, bytes: 50 });
        let counts = registry.class_counts(ClassId(1));
        assert_eq!((counts.evicted, counts.evicted_nonzero, counts.evicted_time), (1, 1, 9));
        assert_eq!((counts.reclaimed, counts.expired_unfetched, counts.crawler_checked), (1, 0, 7));
        assert_eq!(registry.class_counts(ClassId(0)), ClassCounts::default());
        let again = Registry::new(2);
        again.restore(&registry.saved());
        assert_eq!(again.class_counts(ClassId(1)), counts);
        registry.reset();
        assert_eq!(registry.class_counts(ClassId(1)), ClassCounts::default());
        assert_eq!((registry.since_reset()(Counter::Evictions), registry.items()), (0, 1));
    }
}
