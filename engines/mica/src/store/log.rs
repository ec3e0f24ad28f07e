//! The circular log of a partition (MICA, section 4.3.1).
//!
//! Entries are appended at the tail, and those at the head make room for them. An offset is a number of words, 48 bits wide, that only ever grows; its low
//! bits are the entry's place in the log's part of the Region. So an offset that is still in the index when its entry has gone is recognised: it lies
//! behind the head. Places are never divided by a length that can change: the log's part is a power of two long, and an entry that does not fit before the
//! log's *end* begins a new *round* at place 0, where the offset continues at the next multiple of that power. So the end can move from round to round.
//!
//! An entry never straddles the end, so that it is read as one run of words. The paper maps the log's first page once more behind its last for that,
//! which the system offers only for memory that is shared, and then without huge pages unless it was set up so: docs/develop/decisions/0019-partitions.md has the figures.

use super::holder::{Holder, Relocated};
use super::item_store::{ItemStore, OffsetSum, SavedStore, usage_of};
use super::keep::{self, Keeps};
use crate::entry::{Anchor, UNITS_MAX};
use crate::index::{Bucket, Index};
use crate::owned::Owned;
use guira_contract::StoreError;
use guira_items::{ClassUsage, Fields};
use guira_memory::{Offset, Region};
use guira_sync::atomic::{AtomicU64, Ordering, Padded, fence};
use guira_sync::words::WORD;
use std::sync::Arc;

/// A circular log: where the items of a cache lie.
#[derive(Debug)]
pub struct Log {
    region: Arc<Region>,
    /// Where its part of the Region begins, in bytes.
    base: usize,
    /// Length of that part, in words; a power of two.
    ring: u64,
    bits: u64,
    /// Items at offsets behind this are gone. Readers need nothing else.
    live_from: Padded<AtomicU64>,
    /// Items before this offset are the older half: they are evicted before as much is stored as was since they were stored.
    middle: Owned,
    /// The tail when that was computed.
    middle_at: Owned,
    /// Whether there are any: not before the log is half full.
    has_older_half: Owned,
    tail: Owned,
    /// The oldest entry that has kept its room.
    head: Owned,
    flushed: Owned,
    /// A round ends here, in words from the start: the round of the tail.
    end: Owned,
    /// Where the round before it has ended.
    seam: Owned,
    /// How far the log ever came, in words from the start: that is committed.
    reached: Owned,
    /// How far it may come before more has to be backed.
    backed: Owned,
    /// The tail when the last bucket was tidied of offsets that are gone, and the next bucket to tidy.
    tidied: Owned,
    to_tidy: Owned,
    /// How far the tail comes in between, and for how many buckets that was computed.
    stride: Owned,
    stride_for: Owned,
}

/// What the log may do with the oldest entry's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Free(u64),
    /// These words are still needed: the log goes around them.
    Needed(u64),
}

/// Words at the end of the log's part that are never used: a page of the system.
const END_KEPT: u64 = 4096 / WORD as u64;

/// The older half is computed again when the tail has moved by one part of the log in this many.
const MIDDLE_STEPS: u64 = 64;

/// The log has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Log {
    /// Whether a bucket of `buckets` has to be tidied of offsets that are gone.
    #[inline]
    pub(crate) fn is_to_tidy(&self, buckets: u64) -> bool {
        if self.stride_for.get() != buckets {
            self.stride_for.set(buckets);
            self.stride.set(self.stride(buckets));
        }
        self.ahead(self.tidied.get(), self.tail.get()) >= self.stride.get()
    }

    pub(crate) fn next_to_tidy(&self, buckets: u64) -> u64 {
        let next = self.to_tidy.get() % buckets;
        self.to_tidy.set(next + 1);
        self.tidied.set(self.later(self.tidied.get(), self.stride.get()));
        next
    }

    /// Removes offsets behind the head from the next bucket, long before they could be taken for others (MICA, section 4.3.2).
    #[cold]
    fn tidy_one(&self, index: &Index) {
        let number = self.next_to_tidy(index.buckets());
        let main = index.bucket(number as u32);
        let is_gone = |(bucket, slot): &(Bucket<'_>, usize)| !self.is_live(bucket.offset(*slot));
        if index.slots_of(number as u32).any(|slot| is_gone(&slot)) {
            main.change(|| {
                index.slots_of(number as u32).filter(is_gone).for_each(|(bucket, slot)| bucket.clear(slot));
                index.tighten(main);
            });
        }
    }

    /// Lets go of the oldest entry, and keeps nothing.
    fn let_go(&self, holder: &impl Holder, head: u64) -> Passed {
        keep::pass(self, &self.region, holder, head, (&mut { Keeps::NONE }, &mut None))
    }

    /// Makes room behind the end of the older round usable at once, though the tail is not there yet: what lies between is counted to the tail's round. This
    /// looks at all buckets while others wait: some milliseconds for a million items, when an operator gives more memory.
    fn adopt_all(&self, holder: &impl Holder) {
        if self.pass_flushed(&mut |head| self.let_go(&*holder, head)).is_err() {
            return;
        }
        let Some(adopted) = self.adoption() else {
            return;
        };
        for number in 0..holder.index().buckets() as u32 {
            let main = holder.index().bucket(number);
            for (bucket, slot) in holder.index().slots_of(number) {
                let offset = bucket.offset(slot);
                if let Some(offset) = adopted(offset).filter(|_| self.is_live(offset)) {
                    main.change(|| bucket.set(slot, bucket.tag(slot), offset));
                }
            }
        }
        self.adopt();
    }

    /// How far `to` lies ahead of `from`.
    #[inline(always)]
    fn ahead(&self, from: u64, to: u64) -> u64 {
        to.wrapping_sub(from) & self.bits
    }

    /// Whether `offset` does not lie behind `from`. Of two offsets the one that is less than half of all ahead is ahead; one that falls behind by more was
    /// removed from the index before: see `Log::stride`.
    #[inline(always)]
    fn is_from(&self, from: u64, offset: u64) -> bool {
        self.ahead(from, offset) <= self.bits / 2
    }

    /// The offset `by` words after another.
    pub(crate) fn later(&self, offset: u64, by: u64) -> u64 {
        offset.wrapping_add(by) & self.bits
    }

    /// Where `offset` lies, in words from the start.
    pub(crate) fn place(&self, offset: u64) -> u64 {
        offset & (self.ring - 1)
    }

    fn round(&self, offset: u64) -> u64 {
        offset & !(self.ring - 1)
    }

    /// Whether the head is in the round before the tail's.
    fn has_older_round(&self) -> bool {
        self.round(self.head.get()) != self.round(self.tail.get())
    }

    /// The memory beyond `place` words from the start was given back. Nothing lies there any more.
    pub(crate) fn forget_beyond(&self, place: u64) {
        self.reached.set(self.reached.get().min(place));
        self.backed.set(self.backed.get().min(place));
        self.seam.set(self.seam.get().min(place.max(1)));
    }

    /// Begins a new round, if the tail lies beyond `place`. `pass` lets go of what the older round has left.
    pub(crate) fn turn_before(&self, place: u64, pass: &mut impl FnMut(u64) -> Passed) -> Result<(), Full> {
        if self.place(self.tail.get()) <= place {
            return Ok(());
        }
        while self.has_older_round() {
            self.pass_head(pass)?;
        }
        self.begin_round();
        Ok(())
    }

    /// Finds room for `units` words at the tail. `pass` lets go of the oldest entry, as long as room is needed.
    ///
    /// # Errors
    /// If too much is pinned.
    #[inline]
    pub(crate) fn make_room(&self, units: u64, mut pass: impl FnMut(u64) -> Passed) -> Result<(), Full> {
        let mut turns = 0;
        loop {
            let place = self.place(self.tail.get());
            let has_older = self.has_older_round();
            if place + units > self.end.get() {
                if has_older {
                    self.pass_head(&mut pass)?;
                    continue;
                }
                // Only pins can make it go around without finding anything.
                turns += 1;
                if turns > 2 {
                    return Err(Full);
                }
                self.begin_round();
            } else if has_older && self.place(self.head.get()) < place + units {
                self.pass_head(&mut pass)?;
            } else {
                return Ok(());
            }
        }
    }

    fn begin_round(&self) {
        let tail = self.tail.get();
        let next = self.round(tail).wrapping_add(self.ring) & self.bits;
        // At least 1: 0 says that there was no round before.
        self.seam.set(self.place(tail).max(1));
        if self.head.get() == tail {
            self.set_head(next);
        }
        self.tail.set(next);
    }

    /// Lets go of the oldest entry.
    fn pass_head(&self, pass: &mut impl FnMut(u64) -> Passed) -> Result<(), Full> {
        let head = self.head.get();
        let next = if self.place(head) >= self.seam.get() {
            self.round(self.tail.get())
        } else {
            match pass(head) {
                Passed::Free(units) => self.after(head, units),
                Passed::Needed(units) => {
                    self.go_around(self.place(head), units);
                    self.after(head, units)
                }
            }
        };
        self.set_head(next);
        Ok(())
    }

    /// The offset after an entry of the older round.
    fn after(&self, head: u64, units: u64) -> u64 {
        // An entry without a length is damaged memory. What lies behind it cannot be found.
        let units = if units == 0 { self.seam.get() } else { units };
        if self.place(head) + units >= self.seam.get() {
            self.round(self.tail.get())
        } else {
            head.wrapping_add(units) & self.bits
        }
    }

    /// The tail goes around `units` words that begin `from` words from the start.
    fn go_around(&self, from: u64, units: u64) {
        let tail = self.tail.get();
        self.leave_hole(tail, from.saturating_sub(self.place(tail)));
        self.tail.set(self.round(tail).wrapping_add(from + units) & self.bits);
    }

    /// Words between the tail and the oldest entry, which is in the round before the tail's.
    pub(crate) fn gap(&self) -> u64 {
        self.place(self.head.get()) - self.place(self.tail.get())
    }

    /// Takes the first `units` words of the gap. Returns their offset.
    pub(crate) fn take_of_gap(&self, units: u64) -> u64 {
        let tail = self.tail.get();
        self.tail.set(self.later(tail, units));
        tail
    }

    /// The offset of the oldest entry, if it is counted to the tail's round.
    pub(crate) fn as_newest(&self, head: u64) -> u64 {
        self.later(head, self.ring)
    }

    /// Marks the `gap` words from `offset` on as a hole, so that the log can be followed from entry to entry.
    fn leave_hole(&self, mut offset: u64, mut gap: u64) {
        while gap > 0 {
            let units = gap.min(UNITS_MAX as u64);
            Anchor::hole(units as usize).store(&self.region, self.at(offset));
            offset = self.later(offset, units);
            gap -= units;
        }
    }

    /// If only the remains of the older round keep the tail from continuing beyond where that round ended: a function that says whether an offset is of these
    /// remains, and which offset it has when it is counted to the tail's round.
    pub(crate) fn adoption(&self) -> Option<impl Fn(u64) -> Option<u64> + use<>> {
        let (head, tail, ring, bits) = (self.head.get(), self.tail.get(), self.ring, self.bits);
        let older = self.round(head);
        let has_more = self.end.get() > self.seam.get() && self.place(tail) <= self.place(head);
        let adopted = move |offset: u64| {
            let is_older = offset & !(ring - 1) == older && offset >= head;
            is_older.then(|| offset.wrapping_add(ring) & bits)
        };
        (self.has_older_round() && has_more).then_some(adopted)
    }

    /// Lets go of flushed entries at the head.
    pub(crate) fn pass_flushed(&self, pass: &mut impl FnMut(u64) -> Passed) -> Result<(), Full> {
        while self.has_older_round() && self.is_before_flush(self.head.get()) {
            self.pass_head(pass)?;
        }
        Ok(())
    }

    /// Counts the remains of the older round to the tail's round, in which the tail continues behind them. See `Log::adoption`.
    pub(crate) fn adopt(&self) {
        self.cut_at_seam();
        let (head, tail) = (self.head.get(), self.tail.get());
        self.leave_hole(tail, self.place(head) - self.place(tail));
        self.tail.set(self.round(tail).wrapping_add(self.seam.get()) & self.bits);
        self.set_head(self.round(tail));
    }

    /// When memory was given back, an entry of the older round may have lost its end. The entry ends at the seam from now on.
    fn cut_at_seam(&self) {
        let (mut at, seam) = (self.head.get(), self.seam.get());
        while self.place(at) < seam {
            let units = Anchor::load(&self.region, self.at(at)).units() as u64;
            let left = seam - self.place(at);
            if units == 0 || units > left {
                return self.leave_hole(at, left);
            }
            at = self.later(at, units);
        }
    }

    /// Computes the older half. The log consists of what was stored since an item was, and of what is free or older and will go before the item.
    #[cold]
    fn find_middle(&self) {
        let (head, tail) = (self.head.get(), self.tail.get());
        let (half, place) = (self.end.get() / 2, self.place(tail));
        let middle = if place >= half {
            self.round(tail) + (place - half)
        } else if self.has_older_round() {
            let older = self.seam.get().saturating_sub(half - place);
            head.max(self.round(head) + older)
        } else {
            head
        };
        self.middle.set(middle);
        self.middle_at.set(tail);
        self.has_older_half.set(u64::from(middle != head || self.has_older_round()));
    }

    fn set_head(&self, head: u64) {
        self.head.set(head);
        self.publish();
    }

    pub(crate) fn forget_all(&self) {
        self.flushed.set(self.tail.get());
        self.publish();
    }

    /// Whether the entry at `offset` was flushed.
    pub(crate) fn is_before_flush(&self, offset: u64) -> bool {
        !self.is_from(self.flushed.get(), offset)
    }

    /// Publishes what is gone, before its room is reused.
    fn publish(&self) {
        let (head, flushed) = (self.head.get(), self.flushed.get());
        let live_from = if self.is_from(head, flushed) { flushed } else { head };
        // A flush is forgotten once the head has passed it: it must not fall behind by half of all offsets.
        self.flushed.set(live_from);
        self.live_from.store(live_from, Ordering::Relaxed);
        // Release fence: pairs with the Acquire fence in `is_still_live`.
        fence(Ordering::Release);
    }

    /// How many words may be appended between two buckets that are tidied of offsets behind the head, so that none is left in the index when half of all
    /// offsets have gone by.
    pub(crate) fn stride(&self, buckets: u64) -> u64 {
        // A quarter, less the rounds that are not whole.
        (self.bits / 4).saturating_sub(2 * self.ring).max(1) / (2 * buckets.max(1))
    }

    /// Where entries lie one after the other, oldest first: first offset and length in words.
    pub(crate) fn runs(&self) -> [(u64, u64); 2] {
        let (head, tail) = (self.head.get(), self.tail.get());
        if self.has_older_round() {
            let ahead = self.seam.get().saturating_sub(self.place(head));
            [(head, ahead), (self.round(tail), self.place(tail))]
        } else {
            [(head, self.ahead(head, tail)), (tail, 0)]
        }
    }
}

#[allow(private_interfaces, private_bounds, reason = "stores are written in this crate only")]
impl ItemStore for Log {
    const FORMAT: [u8; 8] = *b"mica0003";
    const IS_LOSSY: bool = true;
    const FIELDS: Fields = Fields(0);

    fn new(region: Arc<Region>, base: usize, ring: u64, offset_bits: u32) -> Self {
        Log {
            region,
            base,
            ring,
            bits: (1 << offset_bits) - 1,
            live_from: Padded::default(),
            middle: Owned::default(),
            middle_at: Owned::default(),
            has_older_half: Owned::default(),
            tail: Owned::default(),
            head: Owned::default(),
            flushed: Owned::default(),
            end: Owned::default(),
            seam: Owned::default(),
            reached: Owned::default(),
            backed: Owned::default(),
            tidied: Owned::default(),
            to_tidy: Owned::default(),
            stride: Owned::default(),
            stride_for: Owned::default(),
        }
    }

    #[inline(always)]
    fn at(&self, offset: u64) -> Offset {
        Offset::from_bytes(self.base as u64 + (offset & (self.ring - 1)) * WORD as u64)
    }

    #[inline(always)]
    fn is_live(&self, offset: u64) -> bool {
        self.is_from(self.live_from.load(Ordering::Relaxed), offset)
    }

    #[inline(always)]
    fn is_still_live(&self, offset: u64) -> bool {
        // Acquire fence: pairs with the Release fence in `publish`: a reader that saw anything of what took the item's room sees that the item is gone.
        fence(Ordering::Acquire);
        self.is_live(offset)
    }

    fn is_flushed(&self, offset: u64) -> bool {
        !self.is_live(offset) && self.is_from(self.head.get(), offset)
    }

    fn runs(&self) -> [(u64, u64); 2] {
        self.runs()
    }

    fn age(&self, offset: u64) -> u64 {
        self.ahead(offset, self.tail.get())
    }

    #[inline(always)]
    fn is_evicting(&self) -> bool {
        self.seam.get() != 0
    }

    #[inline(always)]
    fn has_older_half(&self) -> bool {
        self.has_older_half.get() != 0
    }

    #[inline(always)]
    fn is_in_older_half(&self, offset: u64) -> bool {
        !self.is_from(self.middle.get(), offset)
    }

    fn end(&self) -> u64 {
        self.end.get()
    }

    /// A tail that came to the very end of the log's part would be in the next round before that has begun.
    fn set_end(&self, end: u64) {
        self.end.set(end.min(self.ring - END_KEPT));
        self.find_middle();
    }

    fn reached(&self) -> u64 {
        self.reached.get()
    }

    fn backed(&self) -> u64 {
        self.backed.get()
    }

    fn set_backed(&self, words: u64) {
        self.backed.set(words);
    }

    #[inline]
    fn find_room(
        &self,
        holder: &mut impl Holder,
        units: u64,
        replaced: &mut Option<u64>,
    ) -> Result<(), StoreError> {
        let mut keeps = Keeps::OF_A_SEARCH;
        while units <= self.end() {
            let pass = |head| keep::pass(self, &self.region, &*holder, head, (&mut keeps, &mut *replaced));
            if self.make_room(units, pass).is_err() {
                break;
            }
            let upto = self.place(self.tail.get()) + units;
            // If there is no memory the log ends before it, and goes around.
            if upto <= self.backed() || holder.back(upto) {
                return Ok(());
            }
        }
        Err(StoreError::NoMemory)
    }

    #[inline]
    fn take(&self, units: u64) -> (u64, Anchor) {
        let offset = self.tail.get();
        let tail = offset.wrapping_add(units) & self.bits;
        self.tail.set(tail);
        let place = self.place(offset) + units;
        if place > self.reached.get() {
            self.reached.set(place);
        }
        if self.ahead(self.middle_at.get(), tail) > self.end.get() / MIDDLE_STEPS {
            self.find_middle();
        }
        (offset, Anchor::room_of(units as usize))
    }

    /// The room is taken back when the head comes by.
    fn leave(&self, offset: u64, _is_pinned: impl Fn(u64) -> bool) {
        Anchor::bury(&self.region, self.at(offset));
    }

    fn flush(&self, _holder: &mut impl Holder) {
        self.forget_all();
    }

    #[inline]
    fn after_store(&self, holder: &mut impl Holder) {
        while self.is_to_tidy(holder.index().buckets()) {
            self.tidy_one(holder.index());
        }
    }

    fn end_moved(&self, holder: &mut impl Holder, before: u64) {
        if self.end() > before {
            self.adopt_all(holder);
        }
    }

    fn give_back<H: Holder>(
        &self,
        holder: &mut H,
        mut relocate: impl FnMut(&mut H) -> Relocated,
        discard: impl FnOnce(&mut H) -> bool,
    ) -> bool {
        // The tail leaves first what is to be given back. It may have come there again, around what is pinned.
        if self.turn_before(self.end(), &mut |head| self.let_go(&*holder, head)).is_err() {
            return false;
        }
        match relocate(holder) {
            Relocated::Some => true,
            Relocated::Stuck => false,
            Relocated::All => {
                let is_given = discard(holder);
                if is_given {
                    self.forget_beyond(self.end());
                }
                is_given
            }
        }
    }

    fn saved(&self) -> SavedStore {
        [&self.tail, &self.head, &self.flushed, &self.end, &self.seam, &self.reached].map(Owned::get)
    }

    fn restore(&self, saved: SavedStore) -> bool {
        let [tail, head, flushed, end, seam, reached] = saved;
        let offsets = [tail, head, flushed];
        let rounds = self.ahead(self.round(head), self.round(tail)) / self.ring;
        let is_sound = offsets.iter().all(|offset| *offset <= self.bits)
            && [end, seam, reached].iter().all(|place| *place <= self.ring)
            && self.ahead(head, tail) < 2 * self.ring
            && self.ahead(head, flushed) <= self.ahead(head, tail)
            && rounds <= 1
            && self.place(tail) <= reached.max(end)
            && (rounds == 0 || (self.place(head) >= self.place(tail) && seam <= reached.max(1)));
        if is_sound {
            self.tail.set(tail);
            self.head.set(head);
            self.flushed.set(flushed);
            self.end.set(end);
            self.seam.set(seam);
            self.reached.set(reached);
            self.backed.set(reached);
            self.tidied.set(tail);
            self.publish();
            self.find_middle();
        }
        is_sound
    }

    /// How far the index was tidied.
    fn handed(&self) -> Vec<u64> {
        vec![self.tidied.get(), self.to_tidy.get()]
    }

    fn go_on(&self, handed: &[u64]) -> bool {
        let [tidied, to_tidy] = *handed else { return false };
        self.tidied.set(tidied);
        self.to_tidy.set(to_tidy);
        tidied <= self.bits
    }

    fn recover(&self, _ring: u64, offsets: &mut OffsetSum) -> Option<ClassUsage> {
        let mut held = ClassUsage::default();
        for (start, length) in self.runs() {
            let mut passed = 0;
            while passed < length {
                let offset = self.later(start, passed);
                let at = self.at(offset);
                let anchor = Anchor::load(&self.region, at);
                let units = anchor.units() as u64;
                let is_live = !anchor.is_dead() && !self.is_before_flush(offset);
                // An entry at the end of a round may have lost its end with memory that was given back.
                if units == 0 || (is_live && units > length - passed) {
                    return None;
                }
                if is_live {
                    held = held.plus(usage_of(&self.region, at, anchor)?);
                    offsets.add(offset);
                }
                passed += units;
            }
        }
        Some(held)
    }
}
