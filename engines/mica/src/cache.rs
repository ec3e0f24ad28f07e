//! What a circular log does about room (MICA, section 4.3.1): the oldest items go.

use crate::core::Core;
use crate::entry::{Anchor, Entry};
use crate::log::{Log, Passed};
use crate::maintain::Moving;
use crate::partition::Partition;
use crate::restart::OffsetSum;
use crate::space::{SavedSpace, Space, held_of};
use crate::update::{Gone, Writer, account_gone};
use guira_contract::Refusal;
use guira_items::{Count, Fields, Held};
use guira_memory::{Offset, Region};
use std::sync::Arc;

#[allow(private_interfaces, reason = "spaces are written in this crate only")]
impl Space for Log {
    const FORMAT: [u8; 8] = *b"mica0001";
    const IS_LOSSY: bool = true;
    const FIELDS: Fields = Fields(0);

    fn new(region: Arc<Region>, base: usize, ring: u64, offset_bits: u32) -> Self {
        Log::begin(region, base, ring, offset_bits)
    }

    #[inline(always)]
    fn at(&self, offset: u64) -> Offset {
        self.place_of(offset)
    }

    #[inline(always)]
    fn is_live(&self, offset: u64) -> bool {
        self.has(offset)
    }

    #[inline(always)]
    fn is_still_live(&self, offset: u64) -> bool {
        self.has_still(offset)
    }

    fn is_flushed(&self, offset: u64) -> bool {
        self.has_flushed(offset)
    }

    fn age(&self, offset: u64) -> u64 {
        self.behind_tail(offset)
    }

    #[inline(always)]
    fn is_evicting(&self) -> bool {
        self.has_turned()
    }

    fn is_in_older_half(&self, offset: u64) -> bool {
        self.is_nearer_to_head(offset)
    }

    fn end(&self) -> u64 {
        self.round_end()
    }

    fn set_end(&self, end: u64) {
        self.move_round_end(end);
    }

    fn reached(&self) -> u64 {
        self.committed()
    }

    #[inline]
    fn find_room(writer: &mut Writer<'_, Self>, units: u64) -> Result<(), Refusal> {
        let log = &writer.part.space;
        if units > log.end() {
            return Err(Refusal::NoMemory);
        }
        log.make_room(units, |head| writer.pass(head)).map_err(|_| Refusal::NoMemory)
    }

    #[inline(always)]
    fn take(&self, units: u64) -> (u64, Anchor) {
        (self.append(units), Anchor::room_of(units as usize))
    }

    /// The room is taken back when the head comes by.
    fn leave(writer: &mut Writer<'_, Self>, offset: u64) {
        Anchor::bury(&writer.core.region, writer.part.space.at(offset));
    }

    fn flush(writer: &mut Writer<'_, Self>) {
        writer.part.space.forget_all();
    }

    #[inline]
    fn after_store(writer: &mut Writer<'_, Self>) {
        let part = writer.part;
        while part.space.is_to_tidy(part.index.buckets()) {
            writer.tidy_one();
        }
    }

    fn end_moved(writer: &mut Writer<'_, Self>, before: u64) {
        if writer.part.space.end() > before {
            writer.adopt();
        }
    }

    fn give_back(writer: &mut Writer<'_, Self>) -> bool {
        let log = &writer.part.space;
        // The tail leaves first what is to be given back. It may have come there again, around what is pinned.
        if log.turn_before(log.end(), &mut |head| writer.pass(head)).is_err() {
            return false;
        }
        match writer.move_some() {
            Moving::More => true,
            Moving::Stuck => false,
            Moving::Done => {
                let is_given = writer.discard_beyond_end();
                if is_given {
                    log.forget_beyond(log.end());
                }
                is_given
            }
        }
    }

    fn saved(&self) -> SavedSpace {
        self.numbers()
    }

    fn restore(&self, saved: SavedSpace) -> bool {
        self.go_on(saved)
    }

    fn recover(core: &Core<Self>, partition: &Partition<Self>, offsets: &mut OffsetSum) -> Option<Held> {
        let log = &partition.space;
        let mut held = Held::default();
        for (start, length) in log.runs() {
            let mut passed = 0;
            while passed < length {
                let offset = log.later(start, passed);
                let at = log.at(offset);
                let anchor = Anchor::load(&core.region, at);
                let units = anchor.units() as u64;
                let is_live = !anchor.is_dead() && !log.is_before_flush(offset);
                // What was given back at the end of a round may be the end of an entry.
                if units == 0 || (is_live && units > length - passed) {
                    return None;
                }
                if is_live {
                    held = held.plus(held_of(core, at, anchor)?);
                    offsets.add(offset);
                }
                passed += units;
            }
        }
        Some(held)
    }
}

impl Writer<'_, Log> {
    /// Lets go of the oldest entry, at `head`.
    fn pass(&mut self, head: u64) -> Passed {
        let log = &self.part.space;
        let anchor = Anchor::load(&self.core.region, log.at(head));
        let units = anchor.units() as u64;
        let is_live = !anchor.is_dead() && !log.is_before_flush(head);
        if let Some(entry) = is_live.then(|| Entry::at(&self.core.region, log.at(head), self.now)).flatten() {
            let is_dead = entry.expiry().passed(self.now);
            account_gone(self, &entry, if is_dead { Gone::Dead } else { Gone::Evicted });
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
    fn tidy_one(&mut self) {
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
    fn adopt(&mut self) {
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
