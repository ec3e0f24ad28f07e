//! Chunks in plain memory, for tests.

use super::{Arrival, Chunk, Chunks, Moment, Order};
use std::cell::Cell;

/// Chunks that hold whatever their numbers say.
#[derive(Debug)]
pub(crate) struct Plain {
    words: usize,
    notes: Vec<Cell<u32>>,
    pub(crate) recent: Vec<Cell<bool>>,
    pub(crate) occupied: Vec<Cell<bool>>,
    pub(crate) dead: Vec<Cell<bool>>,
}

impl Plain {
    /// `count` chunks with `words` words of notes each.
    pub(crate) fn new(count: usize, words: usize) -> Self {
        Plain {
            words,
            notes: vec![Cell::new(0); count * words],
            recent: vec![Cell::new(false); count],
            occupied: vec![Cell::new(false); count],
            dead: vec![Cell::new(false); count],
        }
    }
}

impl Chunks for Plain {
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.notes[chunk as usize * self.words + word].get()
    }

    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.notes[chunk as usize * self.words + word].set(value);
    }

    fn is_recent(&self, chunk: Chunk) -> bool {
        self.recent[chunk as usize].get()
    }

    fn forget(&self, chunk: Chunk) {
        self.recent[chunk as usize].set(false);
    }

    fn is_dead(&self, chunk: Chunk) -> bool {
        self.dead[chunk as usize].get()
    }

    fn hash(&self, chunk: Chunk) -> u32 {
        chunk.wrapping_mul(0x9e37_79b9) | 1
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        Some((random % self.occupied.len() as u64) as Chunk)
    }

    fn is_held(&self, chunk: Chunk) -> bool {
        self.occupied[chunk as usize].get()
    }
}

/// A moment whose seconds are its ticks.
pub(crate) fn at(tick: u32) -> Moment {
    Moment { tick, seconds: tick }
}

/// Stores something in `chunk` at `tick`.
pub(crate) fn store(order: &mut impl Order, chunks: &Plain, chunk: Chunk, tick: u32) {
    chunks.occupied[chunk as usize].set(true);
    chunks.dead[chunk as usize].set(false);
    let arrival = Arrival { hash: chunks.hash(chunk), lives: u32::MAX };
    order.stored(chunks, chunk, arrival, at(tick));
}

/// Since when what goes next was left alone.
pub(crate) fn next_since(order: &impl Order, chunks: &Plain) -> Option<u32> {
    order.next(chunks).map(|chunk| order.since(chunks, chunk))
}

/// The next `want` victims.
pub(crate) fn victims(order: &mut impl Order, chunks: &Plain, want: usize) -> Vec<Chunk> {
    let mut all = Vec::new();
    order.victims(chunks, want, Moment::default(), |chunk| {
        chunks.occupied[chunk as usize].set(false);
        all.push(chunk);
    });
    all
}
