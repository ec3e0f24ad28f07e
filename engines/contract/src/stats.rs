//! What engines count.

/// Counters of an engine. What is marked *now* says what is stored at the moment; the rest has been counted since the
/// start, or since `stats reset`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Items stored, *now*.
    pub items: u64,
    /// Bytes of their chunks, *now*.
    pub bytes: u64,
    /// Items stored altogether.
    pub total_items: u64,
    /// Items evicted before they expired.
    pub evictions: u64,
    /// Of these, how many had never been read.
    pub evicted_unfetched: u64,
    /// Of the evictions, how many made room in the index rather than in memory.
    pub index_evictions: u64,
    /// Expired items removed.
    pub reclaimed: u64,
    /// Of these, how many had never been read.
    pub expired_unfetched: u64,
    /// Items removed by the crawler.
    pub crawler_reclaimed: u64,
    /// Items the crawler looked at.
    pub crawler_checked: u64,
    /// Whether the crawler is on its way, *now*.
    pub crawling: bool,
    /// Times the crawler has set out.
    pub crawls: u64,
    /// Whether a page is on its way from one class to another, *now*.
    pub moving: bool,
    /// Pages moved from one class to another.
    pub pages_moved: u64,
    /// Items that were read and were moved to other chunks when their page changed its class.
    pub items_rescued: u64,
    /// Pages in the pool, *now*.
    pub pages_free: u64,
    /// Bytes of the index, *now*.
    pub index_bytes: u64,
    /// Slots of the index, *now*.
    pub index_slots: u64,
    /// Whether the index is growing, *now*.
    pub index_growing: bool,
    /// Times the index has grown.
    pub index_growths: u64,
    /// Keys moved to their other bucket by inserts.
    pub displacements: u64,
    /// Reads that had to be repeated because a writer was at work.
    pub read_retries: u64,
    /// Writes that looked again because another was quicker.
    pub write_retries: u64,
    /// Compare-and-swaps that another thread was quicker with.
    pub swaps_lost: u64,
    /// Times a thread waited for a lock of the index, of a policy, or of the allocator.
    pub lock_waits: u64,
    /// Times the policy's hand looked at a chunk.
    pub hand_steps: u64,
    /// Bytes the engine may commit.
    pub memory_limit: u64,
    /// Bytes it could be resized to.
    pub memory_reserve: u64,
    /// Bytes it has committed, *now*.
    pub memory_used: u64,
    /// Times that there was no more room where the Region lies.
    pub region_no_room: u64,
    /// Bytes that the policy notes of each item, beside the item.
    pub policy_item_bytes: u64,
    /// Each class in use.
    pub classes: Vec<ClassStats>,
}

/// A slab class in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Its number, from 1.
    pub id: u32,
    /// Bytes in a chunk.
    pub chunk_size: u64,
    /// Chunks in a page.
    pub chunks_per_page: u64,
    /// Pages.
    pub pages: u64,
    /// Items, *now*.
    pub items: u64,
    /// What they come to in bytes, without what their chunks have to spare.
    pub bytes: u64,
    /// Chunks in use, or kept by a worker to be used next. A long value takes several.
    pub used_chunks: u64,
    /// Chunks free.
    pub free_chunks: u64,
    /// What became of its items.
    pub counts: ClassCounts,
    /// How long ago the item was last read or stored that is next to be looked at for eviction, in seconds, *now*.
    pub age: u64,
}

/// What became of the items of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Items evicted.
    pub evicted: u64,
    /// Of these, how many would have expired later.
    pub evicted_nonzero: u64,
    /// Of the evicted, how many had never been read.
    pub evicted_unfetched: u64,
    /// How long the last one evicted had not been read or stored, in seconds.
    pub evicted_time: u64,
    /// Expired items removed.
    pub reclaimed: u64,
    /// Of these, how many had never been read.
    pub expired_unfetched: u64,
    /// Of the reclaimed, how many the crawler found.
    pub crawler_reclaimed: u64,
    /// Items that the crawler looked at.
    pub crawler_checked: u64,
    /// Times there was no memory for an item.
    pub out_of_memory: u64,
}

/// An option that an engine does not have, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such name.
    #[error("unknown {what} '{name}'; there are: {known}")]
    Unknown {
        /// What was named.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The number is out of range, or no number.
    #[error("{name}: '{value}' is not a number from {from} to {to}")]
    Range {
        /// The option.
        name: String,
        /// The value given.
        value: String,
        /// The least that is allowed.
        from: u64,
        /// The most that is allowed.
        to: u64,
    },
    /// The value is not allowed.
    #[error("{name}: '{value}' is not {expected}")]
    Value {
        /// The option.
        name: String,
        /// The value given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}
