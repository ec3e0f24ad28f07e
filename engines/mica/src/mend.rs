//! Making index and items of a partition fit together again, if blocks of it are damaged: they are zero, since nobody knows what was in them.
//!
//! An item that lies in such a block is taken out of the index, and one that a damaged bucket has led to is buried. Items lie one after the other, each as long as
//! it says, so that what lies behind one that is damaged is found by the index only: from there up to the next item that it leads to nothing is kept, and the way
//! goes on with that.

use crate::bucket::Bucket;
use crate::core::Core;
use crate::entry::{Anchor, UNITS_MAX};
use crate::partition::Partition;
use crate::space::Space;
use guira_memory::Offset;
use guira_memory::lasting::Damage;
use guira_sync::words::WORD;

/// What is kept of a partition.
#[derive(Debug)]
struct Kept {
    /// Where the items lie that the index leads to, in bytes from the start of the Region.
    items: Vec<usize>,
    /// The spare buckets that others go on in, by their links.
    spares: Vec<bool>,
}

impl<S: Space> Core<S> {
    /// Has all slots lead to items that are whole, and all items be led to. The partition was restored, and nobody uses it yet.
    pub(crate) fn mend(&self, partition: &Partition<S>, damage: &Damage) {
        let index = &partition.index;
        let spares = vec![false; index.spares_reached() as usize + 1];
        let mut kept = Kept { items: Vec::new(), spares };
        for number in 0..index.buckets() as u32 {
            let main = index.bucket(number);
            // One that somebody has not come to an end with is told when slots are looked at next.
            if main.begin().is_some() {
                main.change(|| self.mend_bucket(partition, main, damage, &mut kept));
            }
        }
        if !S::IS_LOSSY {
            self.mend_spares(partition, &kept.spares);
        }
        kept.items.sort_unstable();
        for run in partition.space.runs() {
            self.mend_run(&partition.space, run, damage, &kept.items);
        }
    }

    /// Empties the slots of a bucket, and of those that it goes on in, that lead to nothing that is whole.
    fn mend_bucket(&self, partition: &Partition<S>, main: Bucket<'_>, damage: &Damage, kept: &mut Kept) {
        self.mend_slots(partition, main, damage, &mut kept.items);
        if S::IS_LOSSY {
            return;
        }
        let mut before = main;
        while let Some(bucket) = partition.index.linked(before.link()) {
            let Some(is_known @ false) = kept.spares.get_mut(before.link() as usize) else {
                before.set_link(0);
                return;
            };
            *is_known = true;
            self.mend_slots(partition, bucket, damage, &mut kept.items);
            before = bucket;
        }
    }

    fn mend_slots(
        &self,
        partition: &Partition<S>,
        bucket: Bucket<'_>,
        damage: &Damage,
        items: &mut Vec<usize>,
    ) {
        let space = &partition.space;
        for slot in bucket.used() {
            let offset = bucket.offset(slot);
            let at = space.at(offset);
            let is_whole = || {
                let anchor = Anchor::load(self.shell.region(), at);
                !anchor.is_dead() && !damage.touches(at.bytes(), anchor.units() * WORD)
            };
            if space.is_live(offset)
                && self.can_be(space, offset)
                && !damage.touches(at.bytes(), WORD)
                && is_whole()
            {
                items.push(at.bytes());
            } else {
                bucket.clear(slot);
            }
        }
    }

    /// Gives the spare buckets back that no bucket goes on in any more: those that were free may have been damaged.
    fn mend_spares(&self, partition: &Partition<S>, kept: &[bool]) {
        let index = &partition.index;
        let mut saved = index.saved();
        // All that were ever used are in use, and none is free.
        saved[4] = saved[3];
        saved[5] = 0;
        index.restore(saved, self.plan.buckets_max);
        let free = (1..kept.len()).filter(|link| !kept[*link]);
        free.for_each(|link| index.give_spare(link as u32));
    }

    /// Goes along the items from an offset on: `items` are those that are kept, in order.
    fn mend_run(&self, space: &S, (start, length): (u64, u64), damage: &Damage, items: &[usize]) {
        let mut at = space.at(start).bytes();
        let end = at + length as usize * WORD;
        while at < end {
            let place = Offset::from_bytes(at as u64);
            let anchor = Anchor::load(self.shell.region(), place);
            if anchor.units() > 0 && !damage.touches(at, WORD) {
                if !anchor.is_dead() && items.binary_search(&at).is_err() {
                    Anchor::bury(self.shell.region(), place);
                }
                at += anchor.units() * WORD;
                continue;
            }
            let next = items.partition_point(|item| *item <= at);
            let next = items.get(next).copied().unwrap_or(end).min(end);
            self.bury_all(at, next);
            if next < end {
                let next = Offset::from_bytes(next as u64);
                Anchor::load(self.shell.region(), next).after_used().store(self.shell.region(), next);
            }
            at = next;
        }
    }

    /// Nothing between `at` and `end` is in use. Whether what lies before it is free, is noted when chunks are looked at next.
    fn bury_all(&self, mut at: usize, end: usize) {
        while at < end {
            let left = (end - at) / WORD;
            // What is left then is long enough for one more.
            let units = if left > UNITS_MAX { UNITS_MAX / 2 } else { left };
            Anchor::hole(units).store(self.shell.region(), Offset::from_bytes(at as u64));
            at += units * WORD;
        }
    }
}
