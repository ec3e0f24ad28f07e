//! The hand of a class, and the pages that it goes around.

use crate::policy::clock::{Hand, ReadBits, Ring, RingPlace};
use guira_memory::slab::{ClassGuard, PageId, SlabMemory};
use guira_sync::words;
use std::cell::Cell;

/// The hand of a locked class, while victims are taken.
#[derive(Debug)]
pub(crate) struct Circle<'a> {
    guard: &'a ClassGuard<'a>,
    hand: Cell<Hand>,
    /// The tick when the hand came to the page that it points at; 0 before it has moved.
    entered: Cell<u32>,
    tick: u32,
    steps: Cell<u64>,
}

impl<'a> Circle<'a> {
    pub(super) fn new(hand: (Hand, u32), guard: &'a ClassGuard<'a>, tick: u32) -> Self {
        let (hand, entered, steps) = (Cell::new(hand.0), Cell::new(hand.1), Cell::new(0));
        Circle { guard, hand, entered, tick, steps }
    }

    /// Turns the hand until it has shown `want` victims to `take`, or there are none.
    pub(crate) fn sweep(
        &self,
        memory: &SlabMemory,
        counted: ReadBits,
        want: usize,
        mut take: impl FnMut(PageId, u32),
    ) {
        // A hand that looks for nothing would still wipe the bits that it comes by.
        if want == 0 {
            return;
        }
        if self.entered.get() == 0 {
            // It has been at its first page since before that one was filled.
            self.entered.set(self.tick);
        }
        let mut hand = self.hand.get();
        let mut ring = PageRing { memory, circle: self, counted };
        let sweep = hand.sweep(&mut ring, want, |place: RingPlace| {
            let (page, word) = self.locate(place.word);
            take(page, word * 64 + place.bit);
        });
        self.hand.set(hand);
        self.steps.set(self.steps.get() + sweep.steps);
    }

    /// The hand, when it came to its page, and how many chunks it has looked at.
    pub(super) fn end(self) -> (Hand, u32, u64) {
        (self.hand.get(), self.entered.get(), self.steps.get())
    }

    fn locate(&self, word: usize) -> (PageId, u32) {
        let per_page = self.guard.geometry().bitmap_words as usize;
        (self.guard.pages()[word / per_page], (word % per_page) as u32)
    }
}

/// The pages of a locked class as words of chunks.
struct PageRing<'a> {
    memory: &'a SlabMemory,
    circle: &'a Circle<'a>,
    counted: ReadBits,
}

impl Ring for PageRing<'_> {
    fn words(&self) -> usize {
        let guard = self.circle.guard;
        guard.pages().len() * guard.geometry().bitmap_words as usize
    }

    fn occupied(&self, word: usize) -> u64 {
        let (page, word) = self.circle.locate(word);
        words::load(self.memory.occupied(page, word))
    }

    fn recent(&self, word: usize) -> u64 {
        let occupied = self.occupied(word);
        let (page, word) = self.circle.locate(word);
        self.circle.guard.recent(page, word, occupied)
    }

    fn fade(&self, word: usize, bits: u64) {
        let (page, word) = self.circle.locate(word);
        match self.counted {
            ReadBits::One => self.circle.guard.clear_recent(page, word, bits),
            ReadBits::Two => self.circle.guard.decay_recent(page, word, bits),
        }
    }

    fn passed(&mut self, word: usize) {
        let (page, in_page) = self.circle.locate(word);
        if in_page + 1 == self.circle.guard.geometry().bitmap_words {
            self.circle.guard.set_stamp(page, self.circle.entered.get());
            self.circle.entered.set(self.circle.tick);
        }
    }
}
