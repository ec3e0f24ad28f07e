//! What sessions count, and how it is summed up.

use guira_contract::Counter;
use guira_memory::slab::ClassId;
use guira_sync::counters::Counters;
use std::sync::{Arc, Mutex, PoisonError};

/// What the items of a class come to. A session may remove what another has stored: only the sums over all of them
/// are numbers, those of one wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUsage {
    /// How many there are.
    pub items: u64,
    /// Their bytes.
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

/// One session's counters.
#[derive(Debug)]
pub struct SessionCounters {
    counts: Counters<{ Counter::COUNT }>,
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

    /// Counts. Only the session itself does so.
    #[inline(always)]
    pub fn add(&self, what: Counter, amount: u64) {
        self.counts.add(what as usize, amount);
    }

    /// An item of `bytes` bytes was put into the table.
    #[inline]
    pub fn item_put(&self, class: Option<ClassId>, bytes: u64) {
        self.hold(class, ClassUsage { items: 1, bytes });
    }

    /// An item of `bytes` bytes was taken out of the table.
    #[inline]
    pub fn item_removed(&self, class: Option<ClassId>, bytes: u64) {
        self.hold(class, ClassUsage { items: 1u64.wrapping_neg(), bytes: bytes.wrapping_neg() });
    }

    /// So many items more are in the table, and so many bytes: numbers that wrap.
    pub fn items_added(&self, class: Option<ClassId>, items: u64, bytes: u64) {
        self.hold(class, ClassUsage { items, bytes });
    }

    #[inline]
    fn hold(&self, class: Option<ClassId>, more: ClassUsage) {
        if let Some(held) = class.and_then(|class| self.held.get(usize::from(class.0))) {
            held.add(0, more.items);
            held.add(1, more.bytes);
        }
    }

    fn held(&self, class: usize) -> ClassUsage {
        ClassUsage { items: self.held[class].get(0), bytes: self.held[class].get(1) }
    }
}

/// What [`Registry`] keeps across a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCounts {
    /// All that was counted.
    pub sums: [u64; Counter::COUNT],
    /// What they were at the last reset.
    pub base: [u64; Counter::COUNT],
    /// What the items of each class come to.
    pub held: Vec<ClassUsage>,
}

/// The counters of all sessions there were.
#[derive(Debug)]
pub struct Registry {
    classes: usize,
    /// LOCK: counters. Leaf.
    all: Mutex<Vec<Arc<SessionCounters>>>,
    /// What sessions counted that are over. Taken under the lock of the others.
    gone: SessionCounters,
    /// What the counters said at the last reset.
    base: Mutex<[u64; Counter::COUNT]>,
}

impl Registry {
    /// Nothing counted yet, of so many classes.
    pub fn new(classes: usize) -> Self {
        Registry {
            classes,
            all: Mutex::default(),
            gone: SessionCounters::new(classes),
            base: Mutex::new([0; Counter::COUNT]),
        }
    }

    /// The counters of a new session.
    pub fn register(&self) -> Arc<SessionCounters> {
        let counters = Arc::new(SessionCounters::new(self.classes));
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
        counters
    }

    /// A session is over: what it counted is kept.
    pub fn retire(&self, counters: &Arc<SessionCounters>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| !Arc::ptr_eq(other, counters));
        for index in 0..Counter::COUNT {
            self.gone.counts.add(index, counters.counts.get(index));
        }
        for class in 0..self.classes {
            self.gone.hold(Some(ClassId(class as u8)), counters.held(class));
        }
    }

    /// What is kept across a restart.
    pub fn saved(&self) -> SavedCounts {
        let base = *self.base.lock().unwrap_or_else(PoisonError::into_inner);
        SavedCounts { sums: self.sums(), base, held: self.held() }
    }

    /// Goes on counting from there.
    pub fn restore(&self, saved: &SavedCounts) {
        let counters = self.register();
        saved.sums.iter().enumerate().for_each(|(index, sum)| counters.counts.add(index, *sum));
        for (class, held) in saved.held.iter().enumerate() {
            counters.hold(Some(ClassId(class as u8)), *held);
        }
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = saved.base;
    }

    /// Counts from zero again, but for what says how much is stored.
    pub fn reset(&self) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = self.sums();
    }

    /// What was counted since the last reset.
    pub fn since_reset(&self) -> impl Fn(Counter) -> u64 + use<> {
        let sums = self.sums();
        let base = *self.base.lock().unwrap_or_else(PoisonError::into_inner);
        move |what| sums[what as usize].saturating_sub(base[what as usize])
    }

    fn sums(&self) -> [u64; Counter::COUNT] {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub fn items_of(&self, class: ClassId) -> u64 {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        self.held_of(&all, usize::from(class.0)).items
    }

    /// What the items of each class come to.
    pub fn held(&self) -> Vec<ClassUsage> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        (0..self.classes).map(|class| self.held_of(&all, class)).collect()
    }

    /// What the items of a class come to. Sums over sessions are no snapshot, so a little more or less.
    fn held_of(&self, all: &[Arc<SessionCounters>], class: usize) -> ClassUsage {
        let sessions = all.iter().map(Arc::as_ref).chain([&self.gone]);
        let sum = sessions.map(|counters| counters.held(class)).fold(ClassUsage::default(), ClassUsage::plus);
        // One that was removed may be counted before the one that was stored is.
        let positive = |number: u64| if (number as i64) < 0 { 0 } else { number };
        ClassUsage { items: positive(sum.items), bytes: positive(sum.bytes) }
    }
}
