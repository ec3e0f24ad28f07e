//! Flushes. Every item carries the flush generation in which it was stored, 3 bits; a flush begins a new one, and every item of another is dead
//! from that moment. A generation may be used again once no item of it is left, which the crawler finds out; if seven flushes come
//! before it has, the eighth does the crawler's work itself.

use crate::core::Core;
use crate::session::FleecSession;
use guira_items::GENERATIONS;
use guira_sync::atomic::{AtomicU64, Ordering, fence};
use guira_sync::clock::Seconds;
use std::sync::{Arc, Mutex, PoisonError};

/// The flush word: the generation of new items, and the second at which the next flush is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flush(u64);

impl Flush {
    /// Generation 0, and no flush due.
    const NEVER: Flush = Flush((u32::MAX as u64) << 32);

    #[inline(always)]
    fn due(self) -> Seconds {
        Seconds((self.0 >> 32) as u32)
    }

    #[inline(always)]
    fn generation(self) -> u32 {
        self.0 as u32
    }

    fn new(generation: u32, due: Seconds) -> Self {
        Flush(u64::from(due.0) << 32 | u64::from(generation))
    }
}

/// What has been flushed, and what will be.
#[derive(Debug)]
pub(crate) struct Flushes {
    word: AtomicU64,
    /// LOCK: flush. Taken by whoever asks for a flush, and by the first to meet one that has fallen due.
    dirty: Mutex<Dirty>,
}

/// Flush generations of which items may be left.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    generations: u8,
    /// Counts flushes: what a crawler finds out that set out before the last of them is told as of then.
    flushes: u32,
}

impl Default for Flushes {
    fn default() -> Self {
        Flushes { word: AtomicU64::new(Flush::NEVER.0), dirty: Mutex::default() }
    }
}

/// What is kept across a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedFlushes {
    /// The flush word.
    pub(crate) word: u64,
    /// Flush generations of which items may be left, a bit each.
    pub(crate) dirty: u8,
}

/// What the crawler knows when it sets out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tidying {
    generations: u8,
    flushes: u32,
}

impl Flushes {
    /// The flush generation of items stored now, and of items that are alive.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u32 {
        // Relaxed: a flush is ordered with what follows it by the reply to whoever asked for it.
        Flush(self.word.load(Ordering::Relaxed)).generation()
    }

    /// What is kept across a restart.
    pub(crate) fn saved(&self) -> SavedFlushes {
        let dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner).generations;
        SavedFlushes { word: self.word.load(Ordering::Relaxed), dirty }
    }

    /// Goes on from there. False if there can be no such flushes.
    pub(crate) fn restore(&self, saved: SavedFlushes) -> bool {
        let is_sound = Flush(saved.word).generation() < GENERATIONS;
        if is_sound {
            self.word.store(saved.word, Ordering::Relaxed);
            self.dirty.lock().unwrap_or_else(PoisonError::into_inner).generations = saved.dirty;
        }
        is_sound
    }

    /// Whether items stored as of `generation` are alive, now that one has been put into the table.
    ///
    /// Whoever puts an item into the table and asks this afterwards is one of two with whoever begins a generation and sends the crawler: he learns
    /// of the new generation, or the crawler finds his item.
    #[inline(always)]
    pub(crate) fn is_still(&self, generation: u32) -> bool {
        // SeqCst: after the compare-and-swap that has put the item there; pairs with the fence in `begin_tidying`.
        Flush(self.word.load(Ordering::SeqCst)).generation() == generation
    }

    /// Whether items of other generations may be left.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).generations != 0
    }

    /// The crawler sets out.
    pub(crate) fn begin_tidying(&self) -> Tidying {
        let dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        // SeqCst fence: pairs with `is_still`.
        fence(Ordering::SeqCst);
        Tidying { generations: dirty.generations, flushes: dirty.flushes }
    }

    /// The crawler has been everywhere. Whoever stores an item of another generation behind its back takes it out again himself
    /// ([`crate::update`]).
    pub(crate) fn end_tidying(&self, tidying: Tidying) {
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if dirty.flushes == tidying.flushes {
            dirty.generations &= !tidying.generations;
        }
    }
}

impl Core {
    /// Lets a flush take effect that has fallen due. Every operation begins with this.
    #[inline(always)]
    pub(crate) fn settle_flush(self: &Arc<Self>, now: Seconds) {
        if now >= Flush(self.flushes.word.load(Ordering::Relaxed)).due() {
            self.fall_due(now);
        }
    }

    #[cold]
    fn fall_due(self: &Arc<Self>, now: Seconds) {
        let mut dirty = self.flushes.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= Flush(self.flushes.word.load(Ordering::Relaxed)).due() {
            self.begin_generation(&mut dirty, now);
        }
    }

    /// Items that are stored now are dead from `at` on.
    pub(crate) fn schedule_flush(self: &Arc<Self>, now: Seconds, at: Seconds) {
        // One that has fallen due and that nobody has met yet goes first: it would be forgotten.
        self.settle_flush(now);
        let mut dirty = self.flushes.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if at <= now {
            self.begin_generation(&mut dirty, now);
        } else {
            let generation = self.flushes.generation();
            self.flushes.word.store(Flush::new(generation, at).0, Ordering::Relaxed);
        }
    }

    fn begin_generation(self: &Arc<Self>, dirty: &mut Dirty, now: Seconds) {
        let old = self.flushes.generation();
        dirty.generations |= 1 << old;
        let fresh = (1..GENERATIONS).map(|step| (old + step) % GENERATIONS);
        let next = fresh.clone().find(|generation| dirty.generations & (1 << generation) == 0);
        let next = next.unwrap_or_else(|| {
            // SeqCst fence: as in `begin_tidying`.
            fence(Ordering::SeqCst);
            FleecSession::new(self.clone()).remove_all_dead(now);
            dirty.generations = 1 << old;
            (old + 1) % GENERATIONS
        });
        dirty.flushes = dirty.flushes.wrapping_add(1);
        // SeqCst: pairs with `Flushes::is_still`.
        self.flushes.word.store(Flush::new(next, Seconds(u32::MAX)).0, Ordering::SeqCst);
    }
}
