//! The order of a class, and what is counted of it.

use crate::policy::clock::Hand;
use crate::policy::table::{Policy, PolicyState};
use guira_memory::slab::PageId;

/// An order, and the area that its metadata lies in.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) state: PolicyState,
    pub(crate) area: usize,
}

/// The order that takes over from another one.
#[derive(Debug)]
pub(crate) struct Heir {
    pub(crate) placed: Placed,
    /// The pages whose chunks have still to go over, if the old order cannot say what comes first.
    pub(crate) pages: Vec<PageId>,
}

/// The order of a class, and what is counted of it.
#[derive(Debug)]
pub(crate) struct ClassOrder {
    pub(crate) placed: Placed,
    /// While another policy takes over.
    pub(crate) heir: Option<Heir>,
    /// The area in which there are notes of the policy before, which somebody may still be at.
    pub(crate) left_behind: Option<usize>,
    /// The hand that goes around the pages: CLOCK's; for other policies it stands at the page that goes next when one has to go.
    pub(crate) hand: Hand,
    /// When the hand came to the page that it points at; 0 before it has moved.
    pub(crate) entered: u32,
    /// What the order takes of memory beside the notes, as far as it was charged.
    pub(crate) charged: usize,
}

impl ClassOrder {
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        ClassOrder {
            placed: Placed { state: policy.order(seed), area: 0 },
            heir: None,
            left_behind: None,
            hand: Hand::default(),
            entered: 0,
            charged: 0,
        }
    }

    /// What the order takes of memory beside the notes.
    pub(crate) fn bytes(&self) -> usize {
        let of = |placed: &Placed| placed.state.bytes();
        of(&self.placed) + self.heir.as_ref().map_or(0, |heir| of(&heir.placed))
    }

    /// The areas in which something is noted of the class's chunks.
    pub(crate) fn areas(&self) -> impl Iterator<Item = usize> + use<> {
        let used =
            [Some(self.placed.area), self.heir.as_ref().map(|heir| heir.placed.area), self.left_behind];
        (0..2).filter(move |area| used.contains(&Some(*area)))
    }
}
