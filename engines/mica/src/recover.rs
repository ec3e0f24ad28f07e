//! Checking a partition of a Region that another engine left: every slot has to lead to an item, and every item to be led to.

use crate::entry::Anchor;
use crate::index::{Bucket, Index};
use crate::partition::Partition;
use crate::plan::Plan;
use crate::store::{ItemStore, OffsetSum};
use guira_items::ClassUsage;
use guira_memory::Region;

/// The usage of a partition that is not in use yet, if everything there is as it should be.
pub(crate) fn recover<S: ItemStore>(
    region: &Region,
    plan: &Plan,
    partition: &Partition<S>,
) -> Option<ClassUsage> {
    let mut offsets = OffsetSum::default();
    let held = partition.store().recover(plan.ring, &mut offsets)?;
    (slots_in_use(region, plan, partition)? == offsets).then_some(held)
}

/// The offsets in the slots that lead to items. `None` if one leads elsewhere than to an item of its bucket. Empties those whose items are gone.
fn slots_in_use<S: ItemStore>(region: &Region, plan: &Plan, partition: &Partition<S>) -> Option<OffsetSum> {
    let mut in_use = OffsetSum::default();
    let index = partition.index();
    let mut spares = Spares { is_known: vec![false; index.spares_reached() as usize] };
    let mut chained = 0;
    for number in 0..index.buckets() as u32 {
        let main = index.bucket(number);
        main.begin()?;
        let mut bucket = main;
        loop {
            check_bucket((region, plan), partition, number, [main, bucket], &mut in_use)?;
            let Some(next) = spares.follow(index, bucket.link())? else { break };
            bucket = next;
            chained += 1;
        }
    }
    let mut free = spares.follow(index, index.first_free())?;
    while let Some(bucket) = free {
        free = spares.follow(index, bucket.link())?;
    }
    (chained == index.spares_in_use() && !spares.is_known.contains(&false)).then_some(in_use)
}

/// The spare buckets that were ever used. Each is in one chain, or free.
struct Spares {
    is_known: Vec<bool>,
}

impl Spares {
    /// The bucket that a link leads to, if it leads anywhere. `None` if that was never used, or is led to by two links.
    fn follow<'i>(&mut self, index: &'i Index, link: u32) -> Option<Option<Bucket<'i>>> {
        let Some(number) = (link as usize).checked_sub(1) else { return Some(None) };
        let is_known = self.is_known.get_mut(number).filter(|is_known| !**is_known)?;
        *is_known = true;
        index.linked(link).map(Some)
    }
}

/// Adds the offsets of a bucket: one of the chain of `main`, or `main` itself.
fn check_bucket<S: ItemStore>(
    (region, plan): (&Region, &Plan),
    partition: &Partition<S>,
    number: u32,
    [main, bucket]: [Bucket<'_>; 2],
    in_use: &mut OffsetSum,
) -> Option<()> {
    let (index, store) = (partition.index(), partition.store());
    for slot in bucket.used() {
        let offset = bucket.offset(slot);
        if !store.is_live(offset) {
            main.change(|| bucket.clear(slot));
            continue;
        }
        if !can_be(plan, store, offset) {
            return None;
        }
        let anchor = Anchor::load(region, store.at(offset));
        if anchor.is_dead() || index.bucket_of(anchor.place(), index.extent()) != number {
            return None;
        }
        in_use.add(offset);
    }
    Some(())
}

/// Whether an item can lie at `offset`.
pub(crate) fn can_be<S: ItemStore>(plan: &Plan, store: &S, offset: u64) -> bool {
    store.age(offset) <= 2 * plan.ring && (S::IS_LOSSY || offset < plan.ring)
}
