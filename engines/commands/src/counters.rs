//! Counters of commands, named as in memcached's `stats`.

use crate::by_class::ClassCounters;
use guira_sync::counters::Counters;

macro_rules! counts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CommandCount {
            $($(#[$doc])* $variant,)*
        }

        impl CommandCount {
            /// In the order of `stats`.
            pub const ALL: &'static [CommandCount] = &[$(CommandCount::$variant),*];

            /// The name in `stats`.
            pub fn name(self) -> &'static str {
                match self {
                    $(CommandCount::$variant => $name,)*
                }
            }
        }

        const COUNT: usize = [$(CommandCount::$variant),*].len();
    };
}

counts! {
    CmdGet = "cmd_get",
    CmdSet = "cmd_set",
    CmdFlush = "cmd_flush",
    CmdTouch = "cmd_touch",
    CmdMeta = "cmd_meta",
    GetHits = "get_hits",
    GetMisses = "get_misses",
    /// Misses of expired items.
    GetExpired = "get_expired",
    /// Misses of flushed items.
    GetFlushed = "get_flushed",
    DeleteMisses = "delete_misses",
    DeleteHits = "delete_hits",
    IncrMisses = "incr_misses",
    IncrHits = "incr_hits",
    DecrMisses = "decr_misses",
    DecrHits = "decr_hits",
    CasMisses = "cas_misses",
    CasHits = "cas_hits",
    CasBadval = "cas_badval",
    TouchHits = "touch_hits",
    TouchMisses = "touch_misses",
    StoreTooLarge = "store_too_large",
    StoreNoMemory = "store_no_memory",
}

#[derive(Debug, Default)]
pub struct CommandCounters {
    all: Counters<COUNT>,
    pub classes: ClassCounters,
}

impl CommandCounters {
    /// Only the owning thread calls this.
    #[inline(always)]
    pub fn add(&self, what: CommandCount, amount: u64) {
        self.all.add(what as usize, amount);
    }

    #[inline(always)]
    pub fn get(&self, what: CommandCount) -> u64 {
        self.all.get(what as usize)
    }
}
