//! What engines count and measure: a row for each metric.

guira_sync::snapshot! {
    /// What a session of an engine counts.
    pub enum Counter;
    /// An engine's counters and gauges.
    pub struct EngineStats;
    counted {
        ItemsStored / total_items = "total_items", Count, "Items stored." as "memcached_items_total";
        Evictions / evictions = "evictions", Count, "Items evicted before they expired." as "memcached_items_evicted_total";
        EvictedUnfetched / evicted_unfetched = "evicted_unfetched", Count, "Evicted items that were never read.";
        IndexEvictions / index_evictions = "index_evictions", Count, "Items evicted to make room in the index rather than in memory.";
        Reclaimed / reclaimed = "reclaimed", Count, "Expired or flushed items that were removed." as "memcached_items_reclaimed_total";
        ExpiredUnfetched / expired_unfetched = "expired_unfetched", Count, "Reclaimed items that were never read.";
        CrawlerReclaimed / crawler_reclaimed = "crawler_reclaimed", Count, "Items removed by the crawler." as "memcached_lru_crawler_reclaimed_total";
        CrawlerChecked / crawler_checked = "crawler_items_checked", Count, "Items that the crawler examined." as "memcached_lru_crawler_items_checked_total";
        PagesMoved / pages_moved = "slabs_moved", Count, "Pages moved from one class to another.";
        Displacements / displacements = "index_displacements", Count, "Entries moved to another bucket by inserts.";
        ReadRetries / read_retries = "read_retries", Count, "Reads repeated because of a concurrent writer.";
        WriteRetries / write_retries = "write_retries", Count, "Writes repeated because the item had changed.";
        SwapsLost / swaps_lost = "swaps_lost", Count, "Compare-and-swaps lost to another thread.";
        ShortLivedReclaimed / short_lived_reclaimed = "short_lived_reclaimed", Count, "Items removed in the second in which they expired.";
        HandSteps / hand_steps = "hand_steps", Count, "Steps of the policy's hand.";
    }
    counters {
        crawls: u64 = "lru_crawler_starts", Count, "Runs of the crawler." as "memcached_lru_crawler_starts_total";
        items_rescued: u64 = "slab_reassign_rescues", Count, "Recently read items that were moved to other chunks when their page changed its class.";
        parts_rescued: u64 = "slab_reassign_chunk_rescues", Count, "Further chunks of long values that were moved when their page changed its class.";
        index_growths: u64 = "index_growths", Count, "Times the index has grown.";
        lock_waits: u64 = "lock_waits", Count, "Times a thread waited for a lock of the index, a policy or the allocator.";
        short_lived_untracked: u64 = "short_lived_untracked", Count, "Short-lived items left to the crawler because there was no memory to track them.";
        short_lived_busy: u64 = "short_lived_busy", Count, "Short-lived items left to the crawler because another thread held the list.";
        region_no_room: u64 = "region_no_room", Count, "Times the file system of the region was full.";
    }
    gauges {
        items: u64 = "curr_items", Count, "Items stored." as "memcached_current_items";
        bytes: u64 = "bytes", Bytes, "Size of the items stored." as "memcached_current_bytes";
        crawling: bool = "lru_crawler_running", Flag, "Whether the crawler runs.";
        moving: bool = "slab_reassign_running", Flag, "Whether a page is moving from one class to another.";
        pages_free: u64 = "slab_global_page_pool", Count, "Pages in the pool.";
        index_bytes: u64 = "hash_bytes", Bytes, "Size of the index.";
        index_slots: u64 = "index_slots", Count, "Slots of the index.";
        index_growing: bool = "hash_is_expanding", Flag, "Whether the index is growing.";
        memory_limit: u64 = "memory_limit", Bytes, "Memory limit of items and index.";
        memory_reserve: u64 = "memory_reserve", Bytes, "Memory that items and index can be resized to.";
        memory_used: u64 = "memory_used", Bytes, "Memory used by items and index.";
        policy_item_bytes: u64 = "policy_item_bytes", Bytes, "Metadata of the policy for each item, beside the item.";
    }
    besides {
        /// Each class in use.
        classes: Vec<ClassStats>;
    }
}

/// In a cache that is full no more than this part of its chunks are free.
const FREE_MOST: f64 = 0.03;
/// The share of a page that items fill, before there are any.
const USUAL_SHARE: f64 = 0.9;

impl EngineStats {
    fn sum(&self, of: fn(&ClassStats) -> u64) -> f64 {
        self.classes.iter().map(of).sum::<u64>() as f64
    }

    /// Whether there is next to no memory that holds no item. Of an engine without classes nothing is known.
    pub fn is_full(&self) -> bool {
        let free = self.sum(|class| class.free_chunks * class.chunk_size);
        !self.classes.is_empty() && self.pages_free == 0 && free <= FREE_MOST * self.memory_limit as f64
    }

    /// Bytes of items that there is room for: as many as there are, if memory is full and some were evicted.
    pub fn item_capacity(&self) -> f64 {
        let held = self.sum(|class| class.bytes);
        if self.evictions > self.index_evictions && self.is_full() {
            return held;
        }
        let occupied = self.sum(|class| class.used_chunks * class.chunk_size);
        let share = if occupied > 0.0 { (held / occupied).min(1.0) } else { USUAL_SHARE };
        (self.memory_limit.saturating_sub(self.index_bytes) as f64 * share).max(held)
    }
}

/// A slab class in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Its number, from 1.
    pub id: u32,
    /// Size of a chunk, in bytes.
    pub chunk_size: u64,
    /// Chunks in a page.
    pub chunks_per_page: u64,
    /// Pages.
    pub pages: u64,
    /// Items.
    pub items: u64,
    /// Size of the items, in bytes, without what their chunks have to spare.
    pub bytes: u64,
    /// Chunks in use, or in a session's cache. A long value takes several.
    pub used_chunks: u64,
    /// Chunks free.
    pub free_chunks: u64,
    /// What became of its items.
    pub counts: ClassCounts,
    /// Seconds since the last read or store of the item that eviction looks at next.
    pub age: u64,
    /// Weight of the ages of its items, in millionths of the largest weight of all classes: the lower, the longer they stay.
    pub age_weight_ppm: u64,
}

/// Of this many commands of a kind one is counted by class, as if it were all of them; a power of two.
pub const SAMPLED_BY_CLASS: u64 = 32;

guira_sync::snapshot! {
    /// What is counted for each class.
    pub enum ClassCounter;
    /// What became of the items of a class.
    pub struct ClassCounts;
    counted {
        Evicted / evicted = "evicted", Count, "Items evicted." as "memcached_slab_items_evicted_total";
        EvictedNonzero / evicted_nonzero = "evicted_nonzero", Count, "Evicted items that had an expiry." as "memcached_slab_items_evicted_nonzero_total";
        EvictedUnfetched / evicted_unfetched = "evicted_unfetched", Count, "Evicted items that were never read." as "memcached_slab_items_evicted_unfetched_total";
        EvictedTime / evicted_time = "evicted_time", Seconds, "Time from the last read or store of the item last evicted to its eviction." as "memcached_slab_items_evicted_time_seconds";
        Reclaimed / reclaimed = "reclaimed", Count, "Expired or flushed items that were removed." as "memcached_slab_items_reclaimed_total";
        ExpiredUnfetched / expired_unfetched = "expired_unfetched", Count, "Reclaimed items that were never read." as "memcached_slab_items_expired_unfetched_total";
        CrawlerReclaimed / crawler_reclaimed = "crawler_reclaimed", Count, "Items removed by the crawler." as "memcached_slab_items_crawler_reclaimed_total";
        CrawlerChecked / crawler_checked = "crawler_items_checked", Count, "Items that the crawler examined.";
        OutOfMemory / out_of_memory = "outofmemory", Count, "Stores that failed for lack of memory." as "memcached_slab_items_outofmemory_total";
    }
    counters {}
    gauges {}
    besides {}
}

/// An option that an engine does not have, or a value that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such name.
    #[error("unknown {what} '{name}'; use one of: {known}")]
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
