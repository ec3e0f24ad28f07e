//! Replacement policies: which item goes when memory is needed.
//!
//! A policy keeps the chunks of a slab class in an order ([`Order`]). What it notes of a chunk lies beside the pages, not in the item, in
//! a few bytes that begin as zero ([`Notes`]); what readers leave behind are recency bits, and for some policies a stamp. All of a class's order is changed under one lock, which neither a read nor a store waits for: they are queued, and
//! their turn comes at the end of a batch.
//!
//! A policy sees chunks through [`Chunks`] only, so that the simulator runs the very same code over plain arrays.
//!
//! To add a policy: one file here with an [`Order`] and its [`PolicyOptions`], and one row in [`table`].

mod bits;
pub mod clock;
pub mod fifo;
mod ghost;
pub mod klru;
pub mod lazy_lru;
mod list;
pub mod lru;
mod marks;
pub mod miniature;
#[cfg(test)]
mod model;
#[cfg(test)]
mod plain;
pub mod s3_fifo;
pub mod seg_lru;
pub mod sieve;
pub mod table;
pub mod two_q;

use clock::ReadBits;
use guira_contract::{OptionError, Spec};
use std::fmt::Debug;

/// A chunk of a slab class, by a number of its own in that class; below [`CHUNKS_MAX`].
pub type Chunk = u32;

pub const CHUNKS_MAX: u32 = u32::MAX - 2;

/// When something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time as eviction knows it: it goes on as bytes are stored, and wraps.
    pub tick: u32,
    pub seconds: u32,
}

impl Moment {
    /// How many ticks ago `tick` was. A tick that lies ahead, since another session has seen a later one, was just now.
    pub fn ticks_since(self, tick: u32) -> u32 {
        let passed = self.tick.wrapping_sub(tick);
        if passed > u32::MAX / 2 { 0 } else { passed }
    }
}

/// What counts as a short time ago.
#[derive(Clone, Copy, Debug)]
pub struct Lately {
    pub now: Moment,
    /// Fewer ticks than these …
    pub ticks: u32,
    /// … and not more items than these of a list.
    pub most: usize,
}

/// What a policy may want to know of an item that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub hash: u32,
    /// In how many seconds it expires; `u32::MAX`: never.
    pub lives: u32,
}

impl Arrival {
    /// Of an item of which nothing is known but that it is there.
    pub const UNKNOWN: Arrival = Arrival { hash: 0, lives: u32::MAX };
}

/// What a policy notes of each chunk, in the order of the engine's memory: words of 32 bits, and the two links of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    words: usize,
    links: Links,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Links {
    #[default]
    None,
    Two,
}

impl Notes {
    pub const NONE: Notes = Notes::words(0);
    /// The links of a list.
    pub const LIST: Notes = Notes { words: 0, links: Links::Two };

    /// So many words.
    pub const fn words(words: usize) -> Self {
        Notes { words, links: Links::None }
    }

    /// The same and one word.
    #[must_use]
    pub const fn and_word(self) -> Self {
        Notes { words: self.words + 1, ..self }
    }

    /// The same and the links of a list.
    #[must_use]
    pub const fn and_links(self) -> Self {
        Notes { links: Links::Two, ..self }
    }

    pub fn is_none(self) -> bool {
        self == Notes::NONE
    }

    /// How many words.
    pub fn count(self) -> usize {
        self.words
    }

    pub fn has_links(self) -> bool {
        self.links == Links::Two
    }

    /// About how many bytes that is, in a class of a million chunks to sixteen millions.
    pub fn bytes(self) -> usize {
        self.words * size_of::<u32>() + if self.has_links() { 6 } else { 0 }
    }
}

/// A neighbour in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Newer,
    Older,
}

/// What a policy sees of the chunks of a class.
pub trait Chunks {
    /// Word `word` of what is noted of `chunk`.
    fn note(&self, chunk: Chunk, word: usize) -> u32;
    /// Notes `value` there.
    fn set_note(&self, chunk: Chunk, word: usize, value: u32);
    /// A link of `chunk`: 0 at first; `u32::MAX`, or one more than the number of another chunk.
    fn link(&self, chunk: Chunk, side: Side) -> u32;
    /// Changes a link. Under the lock of the order only.
    fn set_link(&self, chunk: Chunk, side: Side, link: u32);
    /// How often the item in `chunk` was read, as far as the recency bits count it: up to 2.
    fn reads(&self, chunk: Chunk) -> u32;
    /// One read less.
    fn fade(&self, chunk: Chunk);
    /// Whether the item in `chunk` was read since that was forgotten.
    fn is_recent(&self, chunk: Chunk) -> bool;
    fn forget(&self, chunk: Chunk);
    /// Whether what is in `chunk` is known to be of no use any more: it has expired, or was removed.
    fn is_dead(&self, _chunk: Chunk) -> bool {
        false
    }
    /// The hash of the key of the item in `chunk`, or 0 if there is none.
    fn hash(&self, chunk: Chunk) -> u32;
    /// Some chunk of those there are, as `random` has it, whether it holds something or not. None if there are none. Looks at none of them.
    fn any(&self, random: u64) -> Option<Chunk>;
    /// Whether `chunk` holds something.
    fn is_held(&self, chunk: Chunk) -> bool;
    /// Prefetches what [`Chunks::is_held`], [`Chunks::is_dead`] and [`Chunks::note`] read.
    fn prefetch(&self, _chunk: Chunk) {}
    /// Turns the hand that goes around the chunks as they lie in memory, until it has shown `want` victims to `take`
    /// or there are none. `counted` says how many recency bits spare a chunk. Chunks without a hand show nothing.
    fn sweep(&self, _counted: ReadBits, _want: usize, _take: impl FnMut(Chunk)) {}
}

/// What a read has to do for a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// Nothing: the recency bit, which every read sets, says enough.
    Bit,
    /// [`Order::touch`], at once and without a lock.
    Touch,
    /// [`Order::was_read`], under the lock of the class, at the end of the batch.
    Queue,
}

/// The order in which the items of a class go.
pub trait Order: Debug + Send + 'static {
    /// What a read has to do.
    const READS: Reads;
    /// The order is the one in which chunks lie in memory, and its state the recency bits: it hears of nothing, and
    /// the hand of the class says what goes next.
    const GOES_BY_HAND: bool = false;
    /// Victims come in an order of their own, so that another policy can take items over one after the other. If not,
    /// victims are drawn at random or found in pages.
    const IS_SEQUENCE: bool = true;
    /// The order clears the recency bits of an item when its turn comes. Nobody else clears them then.
    const CLEARS_BITS: bool = false;
    /// A read makes an item stay longer, however soon after the store or an earlier read.
    const HEEDS_EVERY_READ: bool = true;

    /// What the order notes of each chunk.
    fn notes(&self) -> Notes;

    /// What [`Order::touch`] has to know of the options.
    fn variant(&self) -> u8 {
        0
    }

    /// An item was stored in `chunk`: a new one, or one that was in the order before with what was in the chunk then.
    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment);

    /// An item in `chunk` comes from another order, which would have evicted those before it sooner. What is known of it is that it was kept.
    fn adopted(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.stored(chunks, chunk, Arrival::UNKNOWN, now);
    }

    /// A victim in `chunk` was too new to go, and comes back into the order.
    fn put_back(&mut self, chunks: &impl Chunks, chunk: Chunk, now: Moment) {
        self.stored(chunks, chunk, Arrival::UNKNOWN, now);
    }

    /// Whether [`Order::was_read`] would do anything; asked without the lock, so that reads that change nothing are not
    /// queued.
    fn is_due(_chunks: &impl Chunks, _chunk: Chunk, _now: Moment) -> bool {
        true
    }

    /// The item in `chunk` was read; if [`Order::READS`] is [`Reads::Queue`].
    fn was_read(&mut self, _chunks: &impl Chunks, _chunk: Chunk, _now: Moment) {}

    /// The same without the order itself; if [`Order::READS`] is [`Reads::Touch`]. Others may touch the chunk at the
    /// same time, and one of two notes is lost.
    fn touch(_variant: u8, _chunks: &impl Chunks, _chunk: Chunk, _now: Moment) {}

    /// Whether `chunk` is in the order. Its notes cannot say: a read may have touched them.
    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool;

    /// `chunk` holds nothing any more, and never will again. It may not have been in the order.
    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk);

    /// Takes dead chunks out of the order, if the policy looks for them before each store, and shows them to `take`.
    fn reclaim(&mut self, _chunks: &impl Chunks, _now: Moment, _take: impl FnMut(Chunk)) {}

    /// Takes up to `want` chunks out of the order and shows them to `take`: their items are to go. What was in one may
    /// have gone already.
    fn victims(&mut self, chunks: &impl Chunks, want: usize, now: Moment, take: impl FnMut(Chunk));

    /// The chunk that would go next, as far as that can be said; `None` if there is nothing in the order, or if it goes by the hand.
    fn next(&self, chunks: &impl Chunks) -> Option<Chunk>;

    /// The tick since when the item in `chunk`, which is what [`Order::next`] returns, was left alone, or a little earlier. If only the mean time
    /// between two uses is known, it is as if that had passed since the last. 0 if the order goes by the hand.
    fn since(&self, chunks: &impl Chunks, chunk: Chunk) -> u32;

    /// Of the chunks `among`, which are in ascending order, those whose items were stored or used lately, as far as the order knows, with a number that grows
    /// with the age.
    fn newest(&self, chunks: &impl Chunks, among: &[Chunk], lately: Lately) -> Vec<(u32, Chunk)>;

    /// Bytes of memory that the order has taken for itself, beside the notes.
    fn bytes(&self) -> usize {
        0
    }
}

/// What can be chosen of a policy, and its name.
pub trait PolicyOptions: Copy + Debug + Default + PartialEq {
    type Order: Order;
    const NAME: &'static str;
    /// One line for those who choose among policies.
    const ABOUT: &'static str;
    const KEYS: &'static [&'static str] = &[];

    /// About what the order takes for each item beside its notes, in bytes.
    fn ghost_bytes(self) -> u32 {
        0
    }

    /// Reads the options. What is left out has its default.
    ///
    /// # Errors
    /// If a value is not allowed.
    fn read(_spec: &Spec) -> Result<Self, OptionError> {
        Ok(Self::default())
    }

    /// Name and value of every option, as [`PolicyOptions::read`] reads them.
    fn write(self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// An empty order. What it draws at random follows from `seed`.
    fn order(self, seed: u64) -> Self::Order;

    /// Has `order` go on by these options. False if that takes a new order.
    fn tune(self, _order: &mut Self::Order) -> bool {
        false
    }
}
