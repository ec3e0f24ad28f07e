//! The index: which item has a key.
//!
//! Where the entries of a key lie is a [`Scheme`]: [`Cuckoo`], MemC3's buckets of ten slots, two for each key; or
//! [`Chained`], memcached's chains. Everything else is the same for both, and written here.
//!
//! # Concurrency
//! Every bucket is covered by a version counter ([`guira_sync::version`]). A reader takes the versions of its key's
//! buckets, searches them and whatever items their entries lead to, and believes what it saw if no version has
//! changed (MemC3, section 3.3). A writer holds the counters of all buckets of the key it works on; nothing about a key, neither its
//! entry nor its item, changes under anybody else.
//!
//! # Growth
//! While the table grows there are two tables , and a key's counters are those of its buckets in
//! both. Readers look into the old one first; writers store into the new one only; a migrator moves the entries of the old table
//! bucket by bucket. It starts when every thread knows of the new table, and the old one's memory is given
//! back when every thread has forgotten it: see [`grow`].

mod ahead;
mod chained;
mod cuckoo;
mod grow;
mod locked;
mod lookup;
mod scheme;
mod table;

pub(crate) use ahead::TableAhead;
pub use chained::Chained;
pub use cuckoo::Cuckoo;
pub use cuckoo::bucket::SLOTS;
#[cfg(feature = "probe")]
pub use cuckoo::probe::{IndexProbe, Touched};
pub(crate) use grow::{Begin, GrowthStep, MovedItems, SavedIndex};
pub(crate) use locked::{Found, LockedBuckets};
pub use lookup::Guess;
pub(crate) use lookup::{Index, Visitor};
pub(crate) use scheme::Neighbour;
pub use scheme::{Scheme, SearchLimits};
pub(crate) use table::Table;
