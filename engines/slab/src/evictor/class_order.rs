//! The order of one class, and what goes with it.

use super::circle::Circle;
use super::metadata::Metadata;
use crate::policy::clock::Hand;
use crate::policy::table::{Policy, PolicyState};
use guira_memory::slab::ClassId;
use guira_memory::slab::{ClassGuard, Geometry, PageId};
use guira_sync::lock::{Mutex, MutexGuard};
use guira_sync::waits::Waits;

/// An order, and the area that its metadata lies in.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) state: PolicyState,
    pub(crate) area: usize,
}

/// The order that takes over from another one.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) placed: Placed,
    /// The pages whose chunks have still to go over, if the old order cannot say what comes first.
    pub(crate) pages: Vec<PageId>,
}

/// The order of a class, and what is counted of it.
#[derive(Debug)]
pub(crate) struct ClassOrder {
    pub(crate) placed: Placed,
    pub(crate) incoming: Option<Incoming>,
    /// The area with metadata of the policy before, which sessions may still use.
    pub(crate) left_behind: Option<usize>,
    /// The hand that goes around the pages: CLOCK's; for other policies it stands at the page that goes next when one has
    /// to go.
    hand: Hand,
    /// The tick when the hand came to the page that it points at; 0 before it has moved.
    entered: u32,
    /// Bytes that were charged for what the order keeps beside the metadata.
    charged: usize,
}

impl ClassOrder {
    fn new(policy: Policy, seed: u64) -> Self {
        ClassOrder {
            placed: Placed { state: policy.order(seed), area: 0 },
            incoming: None,
            left_behind: None,
            hand: Hand::default(),
            entered: 0,
            charged: 0,
        }
    }

    /// Begins anew with `policy`, and the hand at its place in the first page.
    pub(crate) fn restore(&mut self, policy: Policy, hand: Hand, entered: u32) {
        self.placed.state = policy.order(0);
        (self.hand, self.entered) = (hand, entered);
    }

    pub(crate) fn hand(&self) -> Hand {
        self.hand
    }

    /// When the hand came to the page that it points at; 0 before it has moved.
    pub(crate) fn entered(&self) -> u32 {
        self.entered
    }

    /// The hand stands at the first chunk of page `index` since `tick`.
    pub(crate) fn move_hand(&mut self, index: usize, geometry: &Geometry, tick: u32) {
        self.hand = Hand::at(index * geometry.bitmap_words as usize, 0);
        self.entered = tick;
    }

    /// The hand goes around the pages of a locked class until [`ClassOrder::hand_turned`].
    pub(crate) fn circle<'a>(&self, guard: &'a ClassGuard<'a>, tick: u32) -> Circle<'a> {
        Circle::new((self.hand, self.entered), guard, tick)
    }

    /// Takes the hand back. Returns how many chunks it has looked at.
    pub(crate) fn hand_turned(&mut self, circle: Circle<'_>) -> u64 {
        let (hand, entered, steps) = circle.end();
        (self.hand, self.entered) = (hand, entered);
        steps
    }

    /// The place where a new page goes among the pages of its class: just behind the hand, which then comes by it last.
    pub(crate) fn place_for_page(&self, guard: &ClassGuard<'_>) -> usize {
        (self.hand.word() / guard.geometry().bitmap_words as usize).min(guard.pages().len())
    }

    /// A page was added at [`ClassOrder::place_for_page`].
    pub(crate) fn page_added(&mut self, guard: &ClassGuard<'_>) {
        if guard.pages().len() > 1 {
            self.hand.words_inserted(guard.geometry().bitmap_words as usize);
        }
    }

    /// The page at `index` has left the class.
    pub(crate) fn page_removed(&mut self, index: usize, geometry: &Geometry) {
        let per_page = geometry.bitmap_words as usize;
        self.hand.words_removed(index * per_page, per_page);
    }

    /// Whether the hand alone knows what goes next.
    pub(crate) fn goes_by_hand(&self) -> bool {
        self.incoming.is_none() && self.placed.state.goes_by_hand()
    }

    /// The page that the hand points into.
    pub(crate) fn page_under_hand(&self, guard: &ClassGuard<'_>) -> Option<PageId> {
        let pages = guard.pages();
        pages.get(self.hand.word() / guard.geometry().bitmap_words as usize).or(pages.first()).copied()
    }

    /// The place of the next page that the hand has not begun with: the first part of the one it is in holds the newest
    /// items.
    pub(crate) fn next_page(&self, geometry: &Geometry) -> usize {
        self.hand.next_word().div_ceil(geometry.bitmap_words as usize)
    }

    /// Bytes that the order keeps beside the metadata.
    pub(crate) fn bytes(&self) -> usize {
        self.placed.state.bytes() + self.incoming.as_ref().map_or(0, |incoming| incoming.placed.state.bytes())
    }

    #[cfg(test)]
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// Bytes that were charged for them before; from now on it is what they are.
    pub(crate) fn charge(&mut self) -> (usize, usize) {
        let bytes = self.bytes();
        let before = std::mem::replace(&mut self.charged, bytes);
        (before, self.charged)
    }

    /// The areas with metadata of the class's chunks.
    pub(crate) fn areas(&self) -> impl Iterator<Item = usize> + use<> {
        let incoming = self.incoming.as_ref().map(|incoming| incoming.placed.area);
        let used = [Some(self.placed.area), incoming, self.left_behind];
        (0..2).filter(move |area| used.contains(&Some(*area)))
    }
}

/// The orders of all classes, and the metadata that they keep of chunks.
#[derive(Debug)]
pub(crate) struct Orders {
    /// LOCK: orders. Taken before the class's own lock.
    classes: Vec<Mutex<ClassOrder>>,
    waits: Waits,
    /// One area for each of the two policies that there are while one takes over from the other.
    metadata: [Metadata; 2],
}

impl Orders {
    pub(crate) fn new(policy: Policy, classes: usize, metadata: [Metadata; 2]) -> Self {
        let order = |class| Mutex::new(ClassOrder::new(policy, class as u64));
        metadata[0].set_notes(policy.order(0).notes());
        Orders { classes: (0..classes).map(order).collect(), waits: Waits::default(), metadata }
    }

    pub(crate) fn lock(&self, class: ClassId) -> MutexGuard<'_, ClassOrder> {
        self.waits.lock(&self.classes[usize::from(class.0)])
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn metadata(&self) -> &[Metadata; 2] {
        &self.metadata
    }
}
