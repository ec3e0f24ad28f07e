//! Which class gives memory to which.
//!
//! Time is counted in bytes stored (*ticks* of 4 KiB), so that what happens does not depend on how fast it happens. A
//! page's *stamp* says when the hand last came to it, and the *age* of a class is how long ago that was for the page
//! that its hand points at now: the time of one round. A class whose hand is slow has memory to spare. If the oldest
//! class would be older even with a page less than the one that needs memory with a page more, and by a fortieth at the least, it gives one
//! of the next pages before its hand; its only page, if it is four times as old. Were ages compared as they are, the effect would be that of
//! one hand over all of memory, which Facebook's balance of ages (Nishtala et al., section 6.2) aims at.
//!
//! But a page of small items has more of them in it. So an age counts by a weight for its class, once it is known how often items of that size are read
//! ([`Balance::weigh`], docs/develop/decisions/0056-memory-by-hits.md): who is older, or oldest, is so by that.

use guira_contract::{SizeWeight, Switch};
use guira_memory::slab::{ClassId, ClassTable, PAGE_BYTES};
use guira_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const TICK_BYTES: u64 = 4096;

/// Ages are compared with this many ticks of slack, so that young caches do not swap pages to and fro: 1 MiB.
pub(crate) const SLACK: u32 = 256;

/// A class gives if it is older by more than one part in this many of the age of the one in need. Measured: decision 5.
const OLDER_BY: u32 = 40;

/// A class that would give its only page counts as this many times younger.
pub(crate) const ONLY_PAGE: u32 = 4;

/// The time in which so many bytes are stored.
pub(crate) fn ticks(bytes: usize) -> u32 {
    u32::try_from(bytes as u64 / TICK_BYTES).unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(crate) struct Balance {
    stored: AtomicU64,
    classes: Vec<ClassAge>,
    /// Pages move only to classes that have none.
    still: AtomicBool,
    /// The class that was looked at last.
    looked_at: AtomicU32,
}

#[derive(Debug)]
struct ClassAge {
    pages: AtomicU32,
    /// When the hand came to the page that it points at, the last time round.
    stamp: AtomicU32,
    /// The tick after the one when the class asked another for a page that it has not got yet; 0 if it has not.
    claim: AtomicU32,
    /// How much an age counts, as a fixed-point number.
    weight: AtomicU32,
    /// Bytes that were wasted in chunks of larger classes for want of a page of its own.
    wasted: AtomicU32,
    /// The tick when that began.
    wasted_since: AtomicU32,
}

impl Default for ClassAge {
    fn default() -> Self {
        let zero = || AtomicU32::new(0);
        ClassAge {
            pages: zero(),
            stamp: zero(),
            claim: zero(),
            weight: AtomicU32::new(1 << WEIGHT_BITS),
            wasted: zero(),
            wasted_since: zero(),
        }
    }
}

/// Bits of a weight behind the point.
const WEIGHT_BITS: u32 = 26;

/// A class that has wasted so much in chunks of larger ones has earned a page of its own.
const WASTED_MAX: u32 = 2 * PAGE_BYTES as u32;

/// A claim is void after this many ticks: 4 MiB. Who made it may never store again.
const CLAIM_TICKS: u32 = 1024;

impl Balance {
    /// No class has pages.
    pub(crate) fn new(classes: &ClassTable) -> Self {
        Balance {
            stored: AtomicU64::new(0),
            classes: classes.ids().map(|_| ClassAge::default()).collect(),
            still: AtomicBool::new(false),
            looked_at: AtomicU32::new(0),
        }
    }

    /// Whether pages move between classes that have some.
    pub(crate) fn switch(&self, switch: Switch) {
        self.still.store(switch == Switch::Off, Ordering::Relaxed);
    }

    /// Ages of classes count so much from now on, the largest weight as 1; those of classes that have ends of longer items count as of the longest.
    pub(crate) fn weigh(
        &self,
        weights: &[SizeWeight],
        classes: &ClassTable,
        has_ends: impl Fn(ClassId) -> bool,
    ) {
        let most = weights.iter().map(|one| one.weight).fold(f64::MIN_POSITIVE, f64::max);
        let longest = weights.last().map_or(most, |one| one.weight);
        for (class, id) in self.classes.iter().zip(classes.ids()) {
            let chunk = classes.geometry(id).chunk as usize;
            let own = weights.iter().find(|one| one.upto >= chunk).map(|one| one.weight);
            let weight = own.filter(|_| !has_ends(id)).unwrap_or(longest);
            let fixed = (weight / most * f64::from(1 << WEIGHT_BITS)) as u32;
            class.weight.store(fixed.max(1), Ordering::Relaxed);
        }
    }

    /// How much the age of a class counts, in millionths.
    pub(crate) fn weight_ppm(&self, class: ClassId) -> u64 {
        let weight = u64::from(self.classes[usize::from(class.0)].weight.load(Ordering::Relaxed));
        (weight * 1_000_000) >> WEIGHT_BITS
    }

    /// Whether pages move to classes without any alone.
    pub(crate) fn keeps_still(&self) -> bool {
        self.still.load(Ordering::Relaxed)
    }

    /// The time. All orderings here are Relaxed: ages are estimates, and a stale one only delays a move.
    pub(crate) fn tick(&self) -> u32 {
        (self.stored.load(Ordering::Relaxed) / TICK_BYTES) as u32
    }

    /// Time goes on as bytes are stored.
    pub(crate) fn stored(&self, bytes: usize) {
        self.stored.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes stored altogether.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Says how a class stands: its pages, and the stamp of the page under its hand.
    pub(crate) fn note(&self, class: ClassId, pages: usize, stamp: u32) {
        let age = &self.classes[usize::from(class.0)];
        age.pages.store(pages as u32, Ordering::Relaxed);
        age.stamp.store(stamp, Ordering::Relaxed);
    }

    /// A class has not been looked at for eviction for long, and is to count as if it had been just now. False if it has been.
    pub(crate) fn count_as_young(&self, class: ClassId) -> bool {
        let tick = self.tick();
        self.classes[usize::from(class.0)].stamp.swap(tick, Ordering::Relaxed) != tick
    }

    /// One class after another. Relaxed: one may be left out, or looked at twice.
    pub(crate) fn next_to_look_at(&self) -> ClassId {
        let next = self.looked_at.fetch_add(1, Ordering::Relaxed) as usize;
        ClassId((next % self.classes.len()) as u8)
    }

    /// Whether `class` has a page.
    pub(crate) fn has_pages(&self, class: ClassId) -> bool {
        self.classes[usize::from(class.0)].pages.load(Ordering::Relaxed) > 0
    }

    /// `bytes` more were wasted in a chunk of a larger class. True if `class` has earned a page of its own by now: what was wasted more
    /// than `fill` ticks ago does not count.
    pub(crate) fn wasted(&self, class: ClassId, bytes: u32, fill: u32) -> bool {
        let (class, tick) = (&self.classes[usize::from(class.0)], self.tick());
        let since = class.wasted_since.load(Ordering::Relaxed);
        if tick.wrapping_sub(since) > fill {
            class.wasted_since.store(tick, Ordering::Relaxed);
            class.wasted.store(bytes, Ordering::Relaxed);
            return false;
        }
        if class.wasted.fetch_add(bytes, Ordering::Relaxed) < WASTED_MAX {
            return false;
        }
        class.wasted.store(0, Ordering::Relaxed);
        true
    }

    /// `class` has asked for a page. It comes free later, and others are not to take it meanwhile.
    pub(crate) fn claim(&self, class: ClassId) {
        self.classes[usize::from(class.0)].claim.store(self.tick().wrapping_add(1), Ordering::Relaxed);
    }

    /// `class` has got a page.
    pub(crate) fn settle(&self, class: ClassId) {
        self.classes[usize::from(class.0)].claim.store(0, Ordering::Relaxed);
    }

    fn has_claim(&self, class: &ClassAge, tick: u32) -> bool {
        let claim = class.claim.load(Ordering::Relaxed);
        claim != 0 && tick.wrapping_add(1).wrapping_sub(claim) < CLAIM_TICKS
    }

    /// Whether `class` waits for a page that it has asked for.
    pub(crate) fn is_waiting(&self, class: ClassId) -> bool {
        self.has_claim(&self.classes[usize::from(class.0)], self.tick())
    }

    /// How many classes wait for a page that they have asked for.
    pub(crate) fn waiting(&self) -> usize {
        let tick = self.tick();
        self.classes.iter().filter(|class| self.has_claim(class, tick)).count()
    }

    /// The class whose weighted age is highest, but for these.
    pub(crate) fn oldest_but(&self, except: &[ClassId]) -> Option<ClassId> {
        let tick = self.tick();
        let age = |class: &ClassAge| class.weighted(class.age_without_a_page(tick));
        self.oldest(age, |id, _| !except.contains(&id))
    }

    /// The age of `class` as one of `other`, whose ages may count more or less.
    pub(crate) fn age_as_of(&self, class: ClassId, other: ClassId) -> u32 {
        let (class, other) = (&self.classes[usize::from(class.0)], &self.classes[usize::from(other.0)]);
        let weighted = class.weighted(class.age(self.tick()));
        u32::try_from(weighted / u64::from(other.weight.load(Ordering::Relaxed))).unwrap_or(u32::MAX)
    }

    /// The class that should give a page to `needy`, if any should: one that would be older even with a page less than `needy` with
    /// one more, so that no page goes to and fro. A class without pages takes from the oldest whatever its age.
    pub(crate) fn donor(&self, needy: ClassId) -> Option<ClassId> {
        let tick = self.tick();
        let own = &self.classes[usize::from(needy.0)];
        let pages = own.pages.load(Ordering::Relaxed);
        if pages == 0 {
            return self.oldest_but(&[needy]);
        }
        if self.keeps_still() {
            return None;
        }
        let age = own.age(tick);
        let with_one_more = age.saturating_add(age / pages);
        let threshold = own.weighted(with_one_more.max(age.saturating_add(age / OLDER_BY)));
        let age = |class: &ClassAge| class.weighted(class.age_without_a_page(tick).saturating_sub(SLACK));
        self.oldest(age, |id, age| id != needy && age > 0 && age >= threshold)
    }

    /// Of the classes that have pages, and may give one at that age, the oldest.
    fn oldest(
        &self,
        age: impl Fn(&ClassAge) -> u64,
        may_give: impl Fn(ClassId, u64) -> bool,
    ) -> Option<ClassId> {
        let mut oldest: Option<(u64, ClassId)> = None;
        for (index, class) in self.classes.iter().enumerate() {
            let id = ClassId(index as u8);
            if class.pages.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let age = age(class);
            if oldest.is_none_or(|(most, _)| age > most) && may_give(id, age) {
                oldest = Some((age, id));
            }
        }
        oldest.map(|(_, class)| class)
    }
}

impl ClassAge {
    fn age(&self, tick: u32) -> u32 {
        tick.wrapping_sub(self.stamp.load(Ordering::Relaxed))
    }

    /// What an age of this class counts beside those of others.
    fn weighted(&self, age: u32) -> u64 {
        u64::from(age) * u64::from(self.weight.load(Ordering::Relaxed))
    }

    /// The age that it would have with a page less.
    fn age_without_a_page(&self, tick: u32) -> u32 {
        let age = self.age(tick);
        match self.pages.load(Ordering::Relaxed) {
            0 | 1 => age / ONLY_PAGE,
            pages => age - age / pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance() -> Balance {
        Balance::new(&ClassTable::new(4.0, 24))
    }

    #[test]
    fn a_claim_lasts_until_it_is_settled_or_too_old() {
        let balance = balance();
        balance.claim(ClassId(1));
        assert!(balance.is_waiting(ClassId(1)) && !balance.is_waiting(ClassId(0)));
        assert_eq!(balance.waiting(), 1);
        balance.settle(ClassId(1));
        assert_eq!(balance.waiting(), 0);
        balance.stored(TICK_BYTES as usize);
        balance.claim(ClassId(2));
        balance.stored((CLAIM_TICKS as u64 * TICK_BYTES) as usize + TICK_BYTES as usize);
        assert_eq!(balance.waiting(), 0);
    }

    #[test]
    fn pages_that_are_to_keep_still_go_only_to_classes_without_any() {
        let balance = balance();
        balance.note(ClassId(0), 100, 0);
        balance.stored(10_000 * TICK_BYTES as usize);
        balance.note(ClassId(1), 100, 6_000);
        balance.switch(Switch::Off);
        assert_eq!((balance.donor(ClassId(1)), balance.donor(ClassId(2))), (None, Some(ClassId(0))));
        balance.switch(Switch::On);
        assert_eq!(balance.donor(ClassId(1)), Some(ClassId(0)));
    }

    #[test]
    fn the_oldest_class_gives_and_only_to_one_that_is_younger_by_more_than_a_little() {
        let balance = balance();
        balance.note(ClassId(0), 100, 0);
        balance.stored(10_000 * TICK_BYTES as usize);
        balance.note(ClassId(1), 100, 6_000);
        assert_eq!(balance.donor(ClassId(1)), Some(ClassId(0)));
        assert_eq!(balance.donor(ClassId(0)), None);
        balance.note(ClassId(1), 10, 700);
        assert_eq!(
            balance.donor(ClassId(1)),
            None,
            "9,300 and a fourteenth, and the slack, is more than 10,000"
        );
        assert_eq!(balance.donor(ClassId(2)), Some(ClassId(0)), "a class without pages gets one");
    }
}
