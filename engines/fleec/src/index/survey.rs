//! A look at the whole list of a Region that another engine left: whether it is one, and what is on it.
//!
//! The part of the list that is a bucket's begins at the bucket's link and has to end at the next bucket, so the parts can be checked one by one, many at
//! the same time. No chunk is claimed twice, so the list has an end, and so has every search on it.

use super::link::Link;
use super::order::{Order, bucket_of};
use super::table::Index;
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicU64, Ordering};

pub(crate) trait Surveyor {
    /// Claims the chunk of a node. `None` if it is no chunk in use, or claimed already.
    fn claim(&mut self, at: Offset) -> Option<()>;

    /// Checks the item at `at`, which is in the table. Returns the hash of its key.
    fn check(&mut self, at: Offset) -> Option<u64>;

    /// The node at `at` was marked, and is off the list now.
    fn unlinked(&mut self, at: Offset);
}

/// How many buckets are surveyed together, so that the processor waits for many items at the same time.
const TOGETHER: u64 = 256;

/// A bucket's part of the list, and how far the survey has come.
struct Part<'n> {
    bucket: u64,
    /// The link of the last node that is in the table.
    before: &'n AtomicU64,
    at: Offset,
    /// The node after the last item.
    end: Offset,
    /// The place in the order of the last item, or of the bucket.
    order: Order,
}

/// Follows the whole list, and takes off it what is marked. No other thread uses it. `None` if it is no list in split order, or `surveyor` objects.
pub(crate) fn survey(index: &Index, region: &Region, surveyor: &mut impl Surveyor) -> Option<()> {
    let buckets = index.buckets();
    let mut parts = Vec::with_capacity(TOGETHER as usize);
    for first in (0..buckets).step_by(TOGETHER as usize) {
        for bucket in first..buckets.min(first + TOGETHER) {
            let part = begin(index, bucket)?;
            prefetch(region, &part);
            parts.push(part);
        }
        while !parts.is_empty() {
            parts.retain(|part: &Part<'_>| part.at != part.end);
            parts.iter_mut().try_for_each(|part| step(index, region, surveyor, part))?;
        }
    }
    Some(())
}

fn begin(index: &Index, bucket: u64) -> Option<Part<'_>> {
    let before = index.head(bucket);
    let link = Link(before.load(Ordering::Relaxed));
    let (at, end) = (link.next(), index.place_after(bucket));
    let part = Part { bucket, before, at, end, order: Order::of_bucket(bucket) };
    (!link.is_marked() && !link.is_linking()).then_some(part)
}

fn prefetch(region: &Region, part: &Part<'_>) {
    if part.at != part.end {
        region.prefetch(part.at.bytes());
    }
}

fn step<'n>(
    index: &'n Index,
    region: &Region,
    surveyor: &mut impl Surveyor,
    part: &mut Part<'n>,
) -> Option<()> {
    let at = part.at;
    surveyor.claim(at)?;
    let word = index.link_of_item(at)?;
    let link = Link(word.load(Ordering::Relaxed));
    if link.is_linking() {
        return None;
    }
    part.at = link.next();
    prefetch(region, part);
    if link.is_marked() {
        let before = Link(part.before.load(Ordering::Relaxed));
        part.before.store(before.leading_to(link.next()).0, Ordering::Relaxed);
        surveyor.unlinked(at);
        return Some(());
    }
    part.before = word;
    let hash = surveyor.check(at)?;
    let order = Order::of_item(hash);
    let is_in_place = bucket_of(hash, index.buckets()) == part.bucket && order.compare(part.order).is_ge();
    part.order = order;
    is_in_place.then_some(())
}
