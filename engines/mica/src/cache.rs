//! What whoever holds a partition with a log does with its oldest items, and with offsets that lie behind the head.

use crate::entry::{Anchor, Entry};
use crate::log::{Log, Passed};
use crate::space::Space;
use crate::update::{Gone, Writer, account_gone};
use guira_items::Count;

impl Writer<'_, Log> {
    /// Lets go of the oldest entry, at `head`.
    pub(crate) fn pass(&mut self, head: u64) -> Passed {
        let log = &self.part.space;
        let anchor = Anchor::load(&self.core.region, log.at(head));
        let units = anchor.units() as u64;
        let is_live = !anchor.is_dead() && !log.is_before_flush(head);
        if let Some(entry) = is_live.then(|| Entry::at(&self.core.region, log.at(head), self.now)).flatten() {
            let is_replaced = self.replaced.take_if(|replaced| *replaced == head).is_some();
            let why = if is_replaced { Gone::Removed } else { Gone::Evicted };
            let is_dead = entry.expiry().passed(self.now);
            account_gone(self, &entry, if is_dead { Gone::Dead } else { why });
            Anchor::bury(&self.core.region, log.at(head));
        }
        self.counters.add(Count::HandSteps, 1);
        if self.is_pinned(head) {
            // It may have been flushed. When the log comes by again it lies before no flush.
            Anchor::bury(&self.core.region, log.at(head));
            return Passed::Pinned(units);
        }
        Passed::Free(units)
    }

    /// Removes what lies behind the head from the next bucket, long before it could be taken for something else (MICA, section 4.3.2).
    #[cold]
    pub(crate) fn tidy_one(&mut self) {
        let part = self.part;
        let number = part.space.next_to_tidy(part.index.buckets());
        let bucket = part.index.bucket(number as u32);
        for slot in bucket.used() {
            if !part.space.is_live(bucket.offset(slot)) {
                bucket.change(|| bucket.clear(slot));
            }
        }
    }

    /// Makes room that has come behind the end of the log usable at once, though the tail is not there yet: what lies between is counted to its round. All
    /// buckets are looked at, while others wait: some milliseconds for a million of items, when an operator gives more memory.
    pub(crate) fn adopt(&mut self) {
        let log = &self.part.space;
        if log.pass_flushed(&mut |head| self.pass(head)).is_err() {
            return;
        }
        let Some(adopted) = log.adoption() else {
            return;
        };
        for number in 0..self.part.index.buckets() as u32 {
            let bucket = self.part.index.bucket(number);
            for slot in bucket.used() {
                let offset = bucket.offset(slot);
                if let Some(offset) = adopted(offset).filter(|_| log.is_live(offset)) {
                    bucket.change(|| bucket.set(slot, bucket.tag(slot), offset));
                }
            }
        }
        log.adopt();
    }
}
