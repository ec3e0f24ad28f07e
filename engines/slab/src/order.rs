//! The order of a class: whichever policy keeps it.

use crate::policy::clock::Hand;
use crate::policy::lru::Lru;
use crate::policy::{Arrival, Chunk, Chunks, Moment, Order, Reads};
use guira_contract::ClassCounts;

/// A replacement policy, with its options.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Policy {
    /// CLOCK.
    #[default]
    Clock,
    /// Strict LRU.
    Lru,
}

/// The order of a class's chunks. CLOCK is the odd one: its order is that in which chunks lie in pages, its notes are the recency bits, and so
/// nothing is told to it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Clock,
    Lru(Lru),
}

/// The order of a class, and what is counted of it.
#[derive(Debug)]
pub(crate) struct ClassOrder {
    pub(crate) kept: Kept,
    /// The hand that goes around the pages: CLOCK's; for other policies it stands at the page that goes next when one has to go.
    pub(crate) hand: Hand,
    /// When the hand came to the page that it points at; 0 before it has moved.
    pub(crate) entered: u32,
    pub(crate) counts: ClassCounts,
}

impl ClassOrder {
    pub(crate) fn new(policy: Policy) -> Self {
        ClassOrder { kept: policy.kept(), hand: Hand::default(), entered: 0, counts: ClassCounts::default() }
    }
}

impl Policy {
    fn kept(self) -> Kept {
        match self {
            Policy::Clock => Kept::Clock,
            Policy::Lru => Kept::Lru(Lru::default()),
        }
    }

    /// Words noted of each chunk.
    pub(crate) fn words(self) -> usize {
        match self {
            Policy::Clock => 0,
            Policy::Lru => Lru::WORDS,
        }
    }

    /// What a read has to do.
    pub(crate) fn reads(self) -> Reads {
        match self {
            Policy::Clock => Reads::Bit,
            Policy::Lru => Lru::READS,
        }
    }

    /// Whether it wants to be told of what is stored.
    pub(crate) fn wants_stores(self) -> bool {
        self != Policy::Clock
    }

    /// [`Order::touch`].
    pub(crate) fn touch(self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        match self {
            Policy::Clock => {}
            Policy::Lru => Lru::touch(chunks, chunk, now),
        }
    }
}

impl Kept {
    pub(crate) fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment) {
        match self {
            Kept::Clock => {}
            Kept::Lru(order) => order.stored(chunks, chunk, arrival, now),
        }
    }

    pub(crate) fn was_read(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        match self {
            Kept::Clock => {}
            Kept::Lru(order) => order.was_read(chunks, chunk, now),
        }
    }

    pub(crate) fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk) {
        match self {
            Kept::Clock => {}
            Kept::Lru(order) => order.removed(chunks, chunk),
        }
    }

    pub(crate) fn victims(
        &mut self,
        chunks: &impl Chunks,
        want: usize,
        now: Moment,
        take: impl FnMut(Chunk),
    ) {
        match self {
            Kept::Clock => {}
            Kept::Lru(order) => order.victims(chunks, want, now, take),
        }
    }

    pub(crate) fn oldest(&self, chunks: &impl Chunks) -> Option<u32> {
        match self {
            Kept::Clock => None,
            Kept::Lru(order) => order.oldest(chunks),
        }
    }
}
