//! How a key of a partition is found: buckets of slots (`bucket`), their number and growth (`buckets`), and the spare buckets behind full ones (`chain`).

mod bucket;
mod buckets;
mod chain;

pub(crate) use bucket::{BUCKET_BYTES, Bucket, OFFSET_BITS, Open, SLOTS, Tag, Version};
pub(crate) use buckets::{FIRST_BUCKETS, Index, SPARE_PART, SavedIndex};
