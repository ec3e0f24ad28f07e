//! Making index and items of a partition fit together again after blocks of it were damaged: these read as zero.
//!
//! An item in such a block is removed from the index, and one that a damaged bucket has led to is buried. Items lie one after the other, each as long as
//! it says, so that the next one behind a damaged item is found by the index only: nothing before that is kept.

use crate::entry::{Anchor, UNITS_MAX};
use crate::index::Bucket;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::recover::can_be;
use crate::store::ItemStore;
use guira_memory::lasting::Damage;
use guira_memory::{Offset, Region};
use guira_sync::words::WORD;

#[derive(Debug)]
struct Kept {
    /// The items that the index leads to, in bytes from the start of the Region.
    items: Vec<usize>,
    /// Whether a spare bucket is in a chain, by its link.
    spares: Vec<bool>,
}

struct Mender<'p, S> {
    region: &'p Region,
    plan: &'p Plan,
    partition: &'p Partition<S>,
    damage: &'p Damage,
}

/// Makes all slots lead to whole items, and all items be led to. The partition was restored, and is not in use yet.
pub(crate) fn mend<S: ItemStore>(region: &Region, plan: &Plan, partition: &Partition<S>, damage: &Damage) {
    Mender { region, plan, partition, damage }.mend();
}

impl<S: ItemStore> Mender<'_, S> {
    fn mend(&self) {
        let index = self.partition.index();
        let spares = vec![false; index.spares_reached() as usize + 1];
        let mut kept = Kept { items: Vec::new(), spares };
        for number in 0..index.buckets() as u32 {
            let main = index.bucket(number);
            // A bucket in the middle of a change is found when its slots are checked.
            if main.begin().is_some() {
                main.change(|| self.mend_bucket(main, &mut kept));
            }
        }
        self.mend_spares(&kept.spares);
        kept.items.sort_unstable();
        for run in self.partition.store().runs() {
            self.mend_run(run, &kept.items);
        }
    }

    /// Empties the slots of a bucket and its chain that do not lead to whole items.
    fn mend_bucket(&self, main: Bucket<'_>, kept: &mut Kept) {
        self.mend_slots(main, &mut kept.items);
        let mut before = main;
        while let Some(bucket) = self.partition.index().behind(before) {
            let Some(is_known @ false) = kept.spares.get_mut(before.link() as usize) else {
                before.set_link(0);
                return;
            };
            *is_known = true;
            self.mend_slots(bucket, &mut kept.items);
            before = bucket;
        }
    }

    fn mend_slots(&self, bucket: Bucket<'_>, items: &mut Vec<usize>) {
        let (store, damage) = (self.partition.store(), self.damage);
        for slot in bucket.used() {
            let offset = bucket.offset(slot);
            let at = store.at(offset);
            let is_whole = || {
                let anchor = Anchor::load(self.region, at);
                !anchor.is_dead() && !damage.touches(at.bytes(), anchor.units() * WORD)
            };
            if store.is_live(offset)
                && can_be(self.plan, store, offset)
                && !damage.touches(at.bytes(), WORD)
                && is_whole()
            {
                items.push(at.bytes());
            } else {
                bucket.clear(slot);
            }
        }
    }

    /// Frees the spare buckets that are in no chain: the list of free ones may have been damaged.
    fn mend_spares(&self, kept: &[bool]) {
        let index = self.partition.index();
        let mut saved = index.saved();
        // All that were ever used are in use, and none is free.
        saved[4] = saved[3];
        saved[5] = 0;
        index.restore(saved, self.plan.buckets_max);
        let free = (1..kept.len()).filter(|link| !kept[*link]);
        free.for_each(|link| index.give_spare(link as u32));
    }

    /// Follows entries from an offset on and buries those that are not among `items`, which are in order.
    fn mend_run(&self, (start, length): (u64, u64), items: &[usize]) {
        let damage = self.damage;
        let mut at = self.partition.store().at(start).bytes();
        let end = at + length as usize * WORD;
        while at < end {
            let place = Offset::from_bytes(at as u64);
            let anchor = Anchor::load(self.region, place);
            if anchor.units() > 0 && !damage.touches(at, WORD) {
                if !anchor.is_dead() && items.binary_search(&at).is_err() {
                    Anchor::bury(self.region, place);
                }
                at += anchor.units() * WORD;
                continue;
            }
            let next = items.partition_point(|item| *item <= at);
            let next = items.get(next).copied().unwrap_or(end).min(end);
            self.bury_all(at, next);
            if next < end {
                let next = Offset::from_bytes(next as u64);
                Anchor::load(self.region, next).after_used().store(self.region, next);
            }
            at = next;
        }
    }

    /// Marks everything between `at` and `end` as a hole.
    fn bury_all(&self, mut at: usize, end: usize) {
        while at < end {
            let left = (end - at) / WORD;
            // The rest is long enough for another hole then.
            let units = if left > UNITS_MAX { UNITS_MAX / 2 } else { left };
            Anchor::hole(units).store(self.region, Offset::from_bytes(at as u64));
            at += units * WORD;
        }
    }
}
