//! What is counted of commands, by the names of memcached's `stats`: a row each.

use guira_contract::SAMPLED_BY_CLASS;
use guira_sync::counters::Counters;

guira_sync::counters! {
    /// A counter of commands, in the order of `stats`.
    pub enum CommandCount {
        CmdGet = "cmd_get", Count, "Requested keys.";
        CmdSet = "cmd_set", Count, "Stores.";
        CmdFlush = "cmd_flush", Count, "Flushes." as "memcached_commands_total{command=flush,status=hit}";
        CmdFlushPrefix = "cmd_flush_prefix", Count, "Prefixes whose items were deleted.";
        CmdTouch = "cmd_touch", Count, "Requested touches.";
        CmdMeta = "cmd_meta", Count, "Meta debug commands.";
        GetHits = "get_hits", Count, "Requested keys that were found." as "memcached_commands_total{command=get,status=hit}";
        GetMisses = "get_misses", Count, "Requested keys that were not found." as "memcached_commands_total{command=get,status=miss}";
        GetExpired = "get_expired", Count, "Requested keys whose item had expired.";
        GetFlushed = "get_flushed", Count, "Requested keys whose item had been flushed.";
        DeleteMisses = "delete_misses", Count, "Deletes of missing keys." as "memcached_commands_total{command=delete,status=miss}";
        DeleteHits = "delete_hits", Count, "Deletes." as "memcached_commands_total{command=delete,status=hit}";
        IncrMisses = "incr_misses", Count, "Increments of missing keys." as "memcached_commands_total{command=incr,status=miss}";
        IncrHits = "incr_hits", Count, "Increments." as "memcached_commands_total{command=incr,status=hit}";
        DecrMisses = "decr_misses", Count, "Decrements of missing keys." as "memcached_commands_total{command=decr,status=miss}";
        DecrHits = "decr_hits", Count, "Decrements." as "memcached_commands_total{command=decr,status=hit}";
        CasMisses = "cas_misses", Count, "Stores with cas for missing keys." as "memcached_commands_total{command=cas,status=miss}";
        CasHits = "cas_hits", Count, "Stores with cas that stored." as "memcached_commands_total{command=cas,status=hit}";
        CasBadval = "cas_badval", Count, "Stores with cas and another unique." as "memcached_commands_total{command=cas,status=badval}";
        TouchHits = "touch_hits", Count, "Keys touched." as "memcached_commands_total{command=touch,status=hit}";
        TouchMisses = "touch_misses", Count, "Touches of missing keys." as "memcached_commands_total{command=touch,status=miss}";
        LeaseGets = "cmd_lease_get", Count, "Keys requested with lease-get.";
        LeaseTokens = "lease_tokens", Count, "Granted lease tokens: clients that may fill a key.";
        LeaseHotMisses = "lease_hot_misses", Count, "Keys requested with lease-get while another client fills them.";
        LeaseStores = "lease_stores", Count, "lease-sets that stored.";
        LeaseStaleStores = "lease_stale_stores", Count, "lease-sets with a void token that replaced a stale value.";
        LeaseRefusals = "lease_refusals", Count, "lease-sets refused because their token is void.";
        StoreTooLarge = "store_too_large", Count, "Items refused because they are too large." as "memcached_item_too_large_total";
        StoreNoMemory = "store_no_memory", Count, "Items refused for lack of memory." as "memcached_item_no_memory_total";
    }
}

/// The counters by class, in the order of `stats slabs`.
pub const BY_CLASS: [CommandCount; 8] = [
    CommandCount::GetHits,
    CommandCount::CmdSet,
    CommandCount::DeleteHits,
    CommandCount::IncrHits,
    CommandCount::DecrHits,
    CommandCount::CasHits,
    CommandCount::CasBadval,
    CommandCount::TouchHits,
];

/// A class is numbered by a byte.
const CLASSES: usize = 256;

/// Sets without a cas unique come after them.
const PLAIN_SETS: usize = BY_CLASS.len();

#[derive(Debug)]
pub struct ClassCounters(Box<[Counters<{ BY_CLASS.len() + 1 }>]>);

impl Default for ClassCounters {
    fn default() -> Self {
        ClassCounters((0..CLASSES).map(|_| Counters::default()).collect())
    }
}

impl ClassCounters {
    /// An estimate of how often `BY_CLASS[index]` was counted in `class`.
    pub fn get(&self, class: u8, index: usize) -> u64 {
        self.0[usize::from(class)].get(index)
    }

    /// An estimate of the items to store in `class` without a cas unique. A difference of the estimates above could become less.
    pub fn plain_sets(&self, class: u8) -> u64 {
        self.0[usize::from(class)].get(PLAIN_SETS)
    }

    pub(crate) fn add_plain_set(&self, class: u8) {
        self.0[usize::from(class)].add(PLAIN_SETS, SAMPLED_BY_CLASS);
    }

    pub(crate) fn add(&self, class: u8, what: CommandCount) {
        if let Some(index) = BY_CLASS.iter().position(|other| *other == what) {
            self.0[usize::from(class)].add(index, SAMPLED_BY_CLASS);
        }
    }
}

#[derive(Debug, Default)]
pub struct CommandCounters {
    all: Counters<{ CommandCount::COUNT }>,
    pub classes: ClassCounters,
}

impl CommandCounters {
    /// Only the thread that owns the counters calls this.
    #[inline(always)]
    pub fn add(&self, what: CommandCount, amount: u64) {
        self.all.add(what as usize, amount);
    }

    #[inline(always)]
    pub fn get(&self, what: CommandCount) -> u64 {
        self.all.get(what as usize)
    }
}
