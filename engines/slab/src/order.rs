//! The order of a class: whichever policy keeps it.

use crate::policy::clock::Hand;
use crate::policy::lru::Lru;
use crate::policy::{Arrival, Chunk, Chunks, Moment, Order, Reads};
use guira_contract::{ClassCounts, OptionError, Spec};
use guira_memory::slab::PageId;

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

/// An order, and the area of notes that it is kept in.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) kept: Kept,
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
    pub(crate) counts: ClassCounts,
}

impl ClassOrder {
    pub(crate) fn new(policy: Policy) -> Self {
        ClassOrder {
            placed: Placed { kept: policy.kept(), area: 0 },
            heir: None,
            left_behind: None,
            hand: Hand::default(),
            entered: 0,
            counts: ClassCounts::default(),
        }
    }

    /// The areas in which something is noted of the class's chunks.
    pub(crate) fn areas(&self) -> impl Iterator<Item = usize> + use<> {
        let used =
            [Some(self.placed.area), self.heir.as_ref().map(|heir| heir.placed.area), self.left_behind];
        (0..2).filter(move |area| used.contains(&Some(*area)))
    }
}

/// How a read touches what is noted of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touching {
    Nothing = 0,
}

impl Touching {
    pub(crate) const ALL: [Touching; 1] = [Touching::Nothing];

    pub(crate) fn touch(self, _chunks: &impl Chunks, _chunk: Chunk, _now: Moment) {
        match self {
            Touching::Nothing => {}
        }
    }
}

/// The policies there are, by name.
const POLICIES: &[(&str, fn(&Spec) -> Result<Policy, OptionError>)] = &[
    ("clock", |spec| spec.allow(&[]).map(|()| Policy::Clock)),
    ("lru", |spec| spec.allow(&[]).map(|()| Policy::Lru)),
];

impl Policy {
    /// Reads a policy with its options.
    ///
    /// # Errors
    /// If there is no such policy or option, or a value is not allowed. The error lists what there is.
    pub fn read(spec: &Spec) -> Result<Self, OptionError> {
        match POLICIES.iter().find(|(name, _)| *name == spec.name) {
            Some((_, read)) => read(spec),
            None => {
                let known: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).collect();
                Err(OptionError::Unknown { what: "policy", name: spec.name.clone(), known: known.join(", ") })
            }
        }
    }

    /// The same the other way round.
    pub fn spec(self) -> Spec {
        let (name, options): (&str, Vec<(&str, String)>) = match self {
            Policy::Clock => ("clock", Vec::new()),
            Policy::Lru => ("lru", Vec::new()),
        };
        let options = options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Spec { name: name.to_owned(), options }
    }

    pub(crate) fn kept(self) -> Kept {
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

    /// How a read touches its notes.
    pub(crate) fn touching(self) -> Touching {
        match self {
            Policy::Clock | Policy::Lru => Touching::Nothing,
        }
    }
}

impl Kept {
    /// Whether its victims come in the order of its own, so that another can take over from it one after the other. If not, they are drawn, or
    /// found in pages.
    pub(crate) fn is_sequence(&self) -> bool {
        match self {
            Kept::Clock => false,
            Kept::Lru(_) => true,
        }
    }

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
