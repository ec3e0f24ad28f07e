//! Items that left the list and are not free yet: another session may have announced them before.
//!
//! From time to time a session looks at all announcements and frees those of its retired items that no session has announced (Michael, "Hazard pointers",
//! IEEE TPDS 15(6), 2004).

use guira_contract::ItemView;
use guira_items::{INLINE_MAX, Item};
use guira_memory::Offset;
use guira_sync::hazard::{Hazard, Hazards};
use guira_sync::lock::Mutex;
use std::sync::Arc;

/// A session retires this many items before it looks at the announcements, unless it needs memory.
const RETIRED_MAX: usize = 32;

/// Whether an item is so long that its value may be pinned, and that its memory should not wait.
pub(crate) fn is_long(item: &Item<'_>) -> bool {
    item.value_len() > INLINE_MAX
}

#[derive(Debug, Default)]
pub(crate) struct Announcements {
    /// The items that sessions work on.
    hazards: Arc<Hazards>,
    /// The items whose long values are being sent. There may be many more of them, and short ones are never looked for here.
    pins: Arc<Hazards>,
    /// LOCK: orphans. What sessions that ended or went idle could not free. Leaf; taken by sessions that end or go idle, and tried in idle time.
    orphans: Mutex<Vec<Offset>>,
}

impl Announcements {
    pub(crate) fn claim(&self) -> Hazard {
        self.hazards.claim()
    }

    /// Announces an item whose long value is about to be sent. The caller has announced it too, and afterwards checks that it is still there.
    pub(crate) fn pin(&self, item: &Item<'_>) -> Hazard {
        let hazard = self.pins.claim();
        hazard.announce(0, item.at.bytes() as u64);
        hazard
    }

    /// Whether a holder other than that of `own` has announced `item`: it sends the value, or is about to change the item.
    pub(crate) fn is_held(&self, item: &Item<'_>, own: &Hazard) -> bool {
        let place = item.at.bytes() as u64;
        let mut held = false;
        self.hazards.announced_by_others(own, |other| held |= other == place);
        held || (is_long(item) && self.pins.is_announced(place))
    }

    /// Whether there are orphans, unless another session is taking them.
    pub(crate) fn has_orphans(&self) -> bool {
        self.orphans.try_lock().is_some_and(|orphans| !orphans.is_empty())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Retired {
    items: Vec<Offset>,
    /// How many of them were announced at the last look.
    kept: usize,
    announced: Vec<u64>,
}

impl Retired {
    /// Takes the items that leave the list.
    pub(crate) fn items(&mut self) -> &mut Vec<Offset> {
        &mut self.items
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    #[cfg(all(test, not(guira_loom)))]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether a look at the announcements pays. If memory is scarce it does for every item, as for long ones.
    #[inline]
    pub(crate) fn is_due(&self, is_scarce: impl FnOnce() -> bool, is_long: impl Fn(Offset) -> bool) -> bool {
        // What was announced last time probably still is.
        let new = self.items.len().saturating_sub(self.kept);
        let has_long = || self.items.last().is_some_and(|at| is_long(*at));
        new >= RETIRED_MAX || (new > 0 && (has_long() || is_scarce()))
    }

    /// Passes to `free` what no session has announced, and keeps the rest.
    pub(crate) fn reclaim(
        &mut self,
        announcements: &Announcements,
        is_long: impl Fn(Offset) -> bool,
        mut free: impl FnMut(Offset),
    ) {
        if self.items.is_empty() {
            return;
        }
        let Retired { items, kept, announced } = self;
        announcements.hazards.announced(|place| announced.push(place));
        if items.iter().any(|at| is_long(*at)) {
            announcements.pins.announced(|place| announced.push(place));
        }
        announced.sort_unstable();
        items.retain(|at| {
            let stays = announced.binary_search(&(at.bytes() as u64)).is_ok();
            if !stays {
                free(*at);
            }
            stays
        });
        announced.clear();
        *kept = items.len();
    }

    /// Leaves everything to the other sessions.
    pub(crate) fn orphan(&mut self, announcements: &Announcements) {
        if !self.items.is_empty() {
            let mut orphans = announcements.orphans.lock();
            orphans.append(&mut self.items);
            self.kept = 0;
        }
    }

    /// Takes what other sessions left, unless another one is taking it.
    pub(crate) fn adopt(&mut self, announcements: &Announcements) {
        if let Some(mut orphans) = announcements.orphans.try_lock() {
            self.items.append(&mut orphans);
        }
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    fn place(number: u64) -> Offset {
        Offset::from_units(number)
    }

    fn reclaimed(retired: &mut Retired, announcements: &Announcements) -> Vec<Offset> {
        let mut free = Vec::new();
        retired.reclaim(announcements, |_| false, |at| free.push(at));
        free
    }

    #[test]
    fn an_item_is_freed_once_nobody_announces_it() {
        let (announcements, mut retired) = (Announcements::default(), Retired::default());
        let hazard = announcements.claim();
        hazard.announce(0, place(2).bytes() as u64);
        retired.items().extend([1, 2, 3].map(place));
        assert_eq!(reclaimed(&mut retired, &announcements), [place(1), place(3)]);
        assert!(!retired.is_due(|| true, |_| true), "the item that is left was announced at the last look");
        hazard.clear();
        assert_eq!(reclaimed(&mut retired, &announcements), [place(2)]);
        assert!(retired.is_empty());
    }

    #[test]
    fn pins_hold_long_items_only() {
        let (announcements, mut retired) = (Announcements::default(), Retired::default());
        let pin = announcements.pins.claim();
        pin.announce(0, place(1).bytes() as u64);
        retired.items().push(place(1));
        retired.reclaim(&announcements, |_| true, |at| panic!("{at:?} is being sent"));
        assert_eq!(reclaimed(&mut retired, &announcements), [place(1)]);
    }

    #[test]
    fn a_look_pays_for_many_items_for_long_ones_and_if_memory_is_scarce() {
        let mut retired = Retired::default();
        assert!(!retired.is_due(|| true, |_| true));
        retired.items().push(place(1));
        assert!(retired.is_due(|| true, |_| false) && retired.is_due(|| false, |_| true));
        assert!(!retired.is_due(|| false, |_| false));
        retired.items().extend((2..=RETIRED_MAX as u64).map(place));
        assert!(retired.is_due(|| false, |_| false));
    }

    #[test]
    fn another_session_takes_what_one_leaves() {
        let announcements = Announcements::default();
        let (mut one, mut other) = (Retired::default(), Retired::default());
        one.orphan(&announcements);
        assert!(!announcements.has_orphans());
        one.items().push(place(1));
        one.orphan(&announcements);
        assert!(one.is_empty() && announcements.has_orphans());
        other.adopt(&announcements);
        assert!(!announcements.has_orphans());
        assert_eq!(reclaimed(&mut other, &announcements), [place(1)]);
    }
}
