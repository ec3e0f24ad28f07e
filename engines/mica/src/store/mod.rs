//! The memory of a partition's items, and what happens when it is full: a circular log, whose oldest items are evicted ([`Log`]), or segregated fits, where
//! nothing is evicted and more is refused ([`Fits`]).

mod fits;
mod holder;
mod item_store;
mod keep;
mod log;

pub use fits::Fits;
pub(crate) use holder::{Holder, Relocated};
pub use item_store::ItemStore;
pub(crate) use item_store::{OffsetSum, SavedStore};
pub use log::Log;
#[cfg(all(test, not(guira_loom)))]
pub(crate) use log::Passed;
