//! What is counted of commands, by the names of memcached's `stats`: a row each.

use crate::by_class::ClassCounters;
use guira_sync::counters::Counters;

guira_sync::counters! {
    /// A counter of commands, in the order of `stats`.
    pub enum CommandCount {
        CmdGet = "cmd_get", Count, "Keys asked for.";
        CmdSet = "cmd_set", Count, "Items to store.";
        CmdFlush = "cmd_flush", Count, "Flushes.";
        CmdTouch = "cmd_touch", Count, "Keys to touch.";
        CmdMeta = "cmd_meta", Count, "Meta debug commands.";
        GetHits = "get_hits", Count, "Keys asked for and found.";
        GetMisses = "get_misses", Count, "Keys asked for and not found.";
        GetExpired = "get_expired", Count, "Keys asked for whose item had expired.";
        GetFlushed = "get_flushed", Count, "Keys asked for whose item had been flushed.";
        DeleteMisses = "delete_misses", Count, "Deletes of keys that are not there.";
        DeleteHits = "delete_hits", Count, "Deletes.";
        IncrMisses = "incr_misses", Count, "Increments of keys that are not there.";
        IncrHits = "incr_hits", Count, "Increments.";
        DecrMisses = "decr_misses", Count, "Decrements of keys that are not there.";
        DecrHits = "decr_hits", Count, "Decrements.";
        CasMisses = "cas_misses", Count, "Stores with cas for keys that are not there.";
        CasHits = "cas_hits", Count, "Stores with cas that stored.";
        CasBadval = "cas_badval", Count, "Stores with cas whose unique was another.";
        TouchHits = "touch_hits", Count, "Keys touched.";
        TouchMisses = "touch_misses", Count, "Keys to touch that are not there.";
        StoreTooLarge = "store_too_large", Count, "Items refused because they are too large.";
        StoreNoMemory = "store_no_memory", Count, "Items refused for lack of memory.";
    }
}

#[derive(Debug, Default)]
pub struct CommandCounters {
    all: Counters<{ CommandCount::COUNT }>,
    /// Some of them by class.
    pub classes: ClassCounters,
}

impl CommandCounters {
    /// Only the thread that owns the counters calls this.
    #[inline(always)]
    pub fn add(&self, what: CommandCount, amount: u64) {
        self.all.add(what as usize, amount);
    }

    /// The value of a counter.
    #[inline(always)]
    pub fn get(&self, what: CommandCount) -> u64 {
        self.all.get(what as usize)
    }
}
