//! The conformance suites of caches and of stores, which engines run from tests of their own: `guira_contract::suite::behaviour(&|memory| MyEngine::open(memory))`.
//!
//! It panics with the seed and the step when something is wrong.

mod arrivals;
mod behaviour;
mod counting;
mod damage;
mod differential;
mod few_items;
mod full;
mod history;
mod hot_items;
mod image;
mod kept;
mod lasting;
mod leavings;
mod newest;
mod prefixes;
mod refusing;
pub mod restarts;
mod scratch;
mod short_lived;
mod sink;
mod stores;
mod walks;

pub use behaviour::behaviour;
pub use counting::{Counting, counting};
pub use damage::{Costs, Part, a_region_without_sums_is_kept_and_has_some_when_it_is_closed, damage};
pub use differential::differential;
pub use few_items::few_items;
pub use full::{Full, Memory, Workers, full, full_memory};
pub use history::{History, history, history_of_store};
pub use hot_items::HotItems;
pub use image::Image;
pub use lasting::{Lasting, RegionSize, Site, close, reason};
pub use newest::{lost_at_once, lost_by_several, newest};
pub use prefixes::prefixes;
pub use refusing::{FIRST_UNIQUE, Moment, Refused, Refusing};
pub use scratch::Scratch;
pub use short_lived::{more_short_lived_items_than_notes, short_lived};
pub use sink::{Copied, CopySink, hits, pin_of, remove, settle, sevens, store, value_of};
pub use stores::{full_stores_give_items_a_cas_unique_and_a_time_where_they_lie, stores};
pub use walks::{walk_all, walks};

use crate::Engine;

/// All of them for an engine that evicts nothing and refuses what there is no room for: behaviour one by one, random operations against a plain map, and threads
/// against a history.
pub fn store_suite<E: Engine>(open: impl Fn(usize) -> E) {
    behaviour::common(&open);
    prefixes(&open);
    stores(&open);
    for seed in 1..=8 {
        differential(&open(64 << 20), seed, 20_000);
    }
    walks(&open);
    history_of_store(&open(8 << 20), History { seed: 1, threads: 4, keys: 64, operations: 60_000 });
    counting(&open(8 << 20), Counting { seed: 1, threads: 4, keys: 3, increments: 20_000 });
}
