//! What whoever holds a partition with a log does with its oldest items, and with offsets that lie behind the head.

use crate::entry::{Anchor, Entry};
use crate::log::{Log, Passed};
use crate::space::Space;
use crate::update::{Writer, account_removed};
use guira_contract::Counter;
use guira_items::Removal;
use guira_sync::words;

/// How much of what was used a search for room may keep: so much that hot items which were stored one after the other all stay, and not so much that a store
/// takes longer than some milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keeps {
    items: u32,
    /// Words that are copied.
    words: u64,
}

impl Keeps {
    /// Nothing.
    pub(crate) const NONE: Self = Keeps { items: 0, words: 0 };
    /// What a store's search may.
    pub(crate) const OF_A_SEARCH: Self = Keeps { items: 16 << 10, words: 1 << 20 };
}

impl Writer<'_, Log> {
    /// Lets go of the oldest entry, at `head`.
    pub(crate) fn pass(&mut self, head: u64) -> Passed {
        let log = &self.part.space;
        let anchor = Anchor::load(self.core.shell.region(), log.at(head));
        let units = anchor.units() as u64;
        let is_live = !anchor.is_dead() && !log.is_before_flush(head);
        if let Some(entry) =
            is_live.then(|| Entry::at(self.core.shell.region(), log.at(head), self.now)).flatten()
        {
            let is_replaced = self.replaced.take_if(|replaced| *replaced == head).is_some();
            let why = if is_replaced { Removal::Gone } else { Removal::Evicted };
            let is_dead = entry.expiry().passed(self.now);
            if entry.is_used()
                && !is_replaced
                && !is_dead
                && let Some(kept) = self.keep(head, &entry)
            {
                return kept;
            }
            account_removed(self, &entry, if is_dead { Removal::Dead } else { why });
            Anchor::bury(self.core.shell.region(), log.at(head));
        }
        self.counters.add(Counter::HandSteps, 1);
        if self.is_pinned(head) {
            // It may have been flushed. When the log comes by again it lies before no flush.
            Anchor::bury(self.core.shell.region(), log.at(head));
            return Passed::Needed(units);
        }
        Passed::Free(units)
    }

    /// Keeps the oldest entry, which is at `head` and was used: at the tail, with whatever gap there is before it. It stays where it is, as the newest, if there
    /// is no gap, or if it is pinned or too long to copy: then the gap is lost until the log comes round. `None` if enough was kept.
    fn keep(&mut self, head: u64, entry: &Entry<'_>) -> Option<Passed> {
        let (part, region) = (self.part, self.core.shell.region());
        let (log, units) = (&part.space, entry.units() as u64);
        let items = self.keeps_left.items.checked_sub(1)?;
        let main = self.bucket_of(entry.place());
        let slot = main.used().find(|slot| main.offset(*slot) == head)?;
        self.keeps_left.items = items;
        let gap = log.gap();
        if gap == 0 || units > Keeps::OF_A_SEARCH.words || self.is_pinned(head) {
            entry.anchor().moved_to(entry.room()).store(region, log.at(head));
            main.change(|| main.set(slot, main.tag(slot), log.as_newest(head)));
            return Some(Passed::Needed(entry.room() as u64));
        }
        self.keeps_left.words = self.keeps_left.words.checked_sub(units)?;
        let to = log.take_of_gap(units);
        let (anchor, room) = (entry.anchor(), entry.room() as u64);
        let copy = || {
            let words = region.words(log.at(to), entry.units()).expect("the log lies in the Region");
            // From the first word on: where the gap is shorter than the entry, the two overlap.
            words.iter().zip(entry.words()).for_each(|(to, from)| words::store(to, words::load(from)));
            anchor.moved_to(entry.units()).store(region, log.at(to));
        };
        if gap >= units {
            copy();
            main.change(|| main.set(slot, main.tag(slot), to));
            Anchor::bury(region, log.at(head));
        } else {
            // What a reader has found at the old place is written over: the version of its bucket is odd meanwhile.
            main.change(|| {
                copy();
                main.set(slot, main.tag(slot), to);
            });
        }
        Some(Passed::Free(room))
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
