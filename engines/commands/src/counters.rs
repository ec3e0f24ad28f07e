//! What is counted of commands, by the names of memcached's `stats`.

use crate::by_class::ClassCounters;
use guira_sync::counters::Counters;

macro_rules! counts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// A counter of commands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CommandCount {
            $($(#[$doc])* $variant,)*
        }

        impl CommandCount {
            /// All of them, in the order in which `stats` tells them.
            pub const ALL: &'static [CommandCount] = &[$(CommandCount::$variant),*];

            /// Its name in `stats`.
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
    /// Keys asked for.
    CmdGet = "cmd_get",
    /// Items to store.
    CmdSet = "cmd_set",
    /// Flushes.
    CmdFlush = "cmd_flush",
    /// Keys to touch.
    CmdTouch = "cmd_touch",
    /// Meta debug commands.
    CmdMeta = "cmd_meta",
    /// Keys asked for and found.
    GetHits = "get_hits",
    /// Keys asked for and not found.
    GetMisses = "get_misses",
    /// Of these, how many had expired.
    GetExpired = "get_expired",
    /// Of these, how many had been flushed.
    GetFlushed = "get_flushed",
    /// Deletes of what is not there.
    DeleteMisses = "delete_misses",
    /// Deletes.
    DeleteHits = "delete_hits",
    /// Increments of what is not there.
    IncrMisses = "incr_misses",
    /// Increments.
    IncrHits = "incr_hits",
    /// Decrements of what is not there.
    DecrMisses = "decr_misses",
    /// Decrements.
    DecrHits = "decr_hits",
    /// cas on what is not there.
    CasMisses = "cas_misses",
    /// cas that stored.
    CasHits = "cas_hits",
    /// cas with another unique.
    CasBadval = "cas_badval",
    /// Keys touched.
    TouchHits = "touch_hits",
    /// Keys to touch that are not there.
    TouchMisses = "touch_misses",
    /// Items refused because they are too large.
    StoreTooLarge = "store_too_large",
    /// Items refused for want of memory.
    StoreNoMemory = "store_no_memory",
}

/// One thread's counters.
#[derive(Debug, Default)]
pub struct CommandCounters {
    all: Counters<COUNT>,
    /// Some of them by class.
    pub classes: ClassCounters,
}

impl CommandCounters {
    /// Counts. Only the owner does.
    #[inline(always)]
    pub fn add(&self, what: CommandCount, amount: u64) {
        self.all.add(what as usize, amount);
    }

    /// What was counted.
    #[inline(always)]
    pub fn get(&self, what: CommandCount) -> u64 {
        self.all.get(what as usize)
    }
}
