//! How a key is found. Buckets and items are on one list (`list`) in split order (`order`); `table` has the buckets and their CLOCK values.

pub mod bucket_clock;
mod edit;
mod gate;
mod link;
mod list;
mod order;
mod survey;
mod table;

pub(crate) use edit::{EditNodes, ListEditor};
pub(crate) use list::{Found, Node, Spot, Target, Visit};
pub(crate) use order::{BUCKETS_FIRST, bucket_of};
pub(crate) use survey::{Surveyor, survey};
pub(crate) use table::{Growth, Index, IndexSpec, SavedIndex};

#[cfg(all(test, guira_loom))]
mod loom_tests;
