//! Replacement policies: which item goes when memory is needed.
//!
//! A policy keeps the chunks of a slab class in an order ([`Order`]). What it notes of a chunk lies beside the pages, not in the item, in
//! a few words of 32 bits that begin as zero ([`Chunks::note`]); what readers leave behind is one recency bit a chunk, and for some
//! policies a stamp. All of a class's order is changed under one lock, which neither a read nor a store waits for: they are queued, and
//! their turn comes at the end of a batch.
//!
//! A policy sees chunks through [`Chunks`] only, so that the simulator runs the very same code over plain arrays.
//!
//! To add a policy: one file here that implements [`Order`], and its rows in the engine's options.

mod bits;
pub mod clock;
pub mod fifo;
mod ghost;
pub mod klru;
pub mod lazy_lru;
mod list;
pub mod lru;
pub mod miniature;
#[cfg(test)]
mod model;
#[cfg(test)]
mod plain;
pub mod s3_fifo;
pub mod seg_lru;
pub mod sieve;

/// A chunk of a slab class, by a number of its own in that class; below [`CHUNKS_MAX`].
pub type Chunk = u32;

/// Numbers of chunks end here.
pub const CHUNKS_MAX: u32 = u32::MAX - 2;

/// When something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time as eviction knows it: it goes on as bytes are stored, and wraps.
    pub tick: u32,
    /// Time as people know it.
    pub seconds: u32,
}

impl Moment {
    /// How many ticks ago `tick` was. A tick that lies ahead, since another session has seen a later one, was just now.
    pub fn ticks_since(self, tick: u32) -> u32 {
        let passed = self.tick.wrapping_sub(tick);
        if passed > u32::MAX / 2 { 0 } else { passed }
    }
}

/// What a policy may want to know of an item that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Of its key.
    pub hash: u32,
    /// In how many seconds it expires; `u32::MAX`: never.
    pub lives: u32,
}

impl Arrival {
    /// Of an item of which nothing is known but that it is there.
    pub const UNKNOWN: Arrival = Arrival { hash: 0, lives: u32::MAX };
}

/// What a policy sees of the chunks of a class.
pub trait Chunks {
    /// Word `word` of what is noted of `chunk`.
    fn note(&self, chunk: Chunk, word: usize) -> u32;
    /// Notes `value` there.
    fn set_note(&self, chunk: Chunk, word: usize, value: u32);
    /// Whether the item in `chunk` was read since that was forgotten.
    fn is_recent(&self, chunk: Chunk) -> bool;
    /// Forgets that it was read.
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
    /// Asks for the memory that [`Chunks::is_held`], [`Chunks::is_dead`] and [`Chunks::note`] are going to look at.
    fn prefetch(&self, _chunk: Chunk) {}
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
pub trait Order {
    /// Words of notes on each chunk.
    const WORDS: usize;
    /// What a read has to do.
    const READS: Reads;

    /// An item was stored in `chunk`: a new one, or one that was in the order before with what was in the chunk then.
    fn stored(&mut self, chunks: &impl Chunks, chunk: Chunk, arrival: Arrival, now: Moment);

    /// Whether [`Order::was_read`] would do anything; asked without the lock, so that reads that change nothing need not be queued.
    fn is_due(_chunks: &impl Chunks, _chunk: Chunk, _now: Moment) -> bool {
        true
    }

    /// The item in `chunk` was read; if [`Order::READS`] is [`Reads::Queue`].
    fn was_read(&mut self, _chunks: &impl Chunks, _chunk: Chunk, _now: Moment) {}

    /// The same without the order itself; if [`Order::READS`] is [`Reads::Touch`]. Others may be at it, and lose one of two notes.
    fn touch(_chunks: &impl Chunks, _chunk: Chunk, _now: Moment) {}

    /// Whether `chunk` is in the order. What is noted of it need not tell: a read may have touched that.
    fn has(&self, chunks: &impl Chunks, chunk: Chunk) -> bool;

    /// `chunk` holds nothing any more, and never again. It may not have been in the order.
    fn removed(&mut self, chunks: &impl Chunks, chunk: Chunk);

    /// Takes some dead chunks out of the order, if the policy looks for such before each store, and shows them to `take`.
    fn reclaim(&mut self, _chunks: &impl Chunks, _now: Moment, _take: impl FnMut(Chunk)) {}

    /// Takes up to `want` chunks out of the order, and shows them to `take`: their items are to go. It may be that what was in one has gone
    /// already.
    fn victims(&mut self, chunks: &impl Chunks, want: usize, now: Moment, take: impl FnMut(Chunk));

    /// The chunk that would go next, as far as that can be told, and the tick since when it was left alone; `None` if there is nothing in
    /// the order.
    fn next(&self, chunks: &impl Chunks) -> Option<(Chunk, u32)>;

    /// Bytes of memory that the order has taken for itself, beside the notes.
    fn bytes(&self) -> usize {
        0
    }
}
