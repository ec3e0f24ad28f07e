//! Chunks in plain memory, for tests.

use super::{Arrival, Chunk, Chunks, Moment, Notes, Order, Side};
use std::cell::Cell;

/// Chunks that hold whatever their numbers say.
#[derive(Debug)]
pub(crate) struct Plain {
    words: usize,
    notes: Vec<Cell<u32>>,
    links: Vec<[Cell<u32>; 2]>,
    pub(crate) recent: Vec<Cell<bool>>,
    /// Whether it was read once more.
    again: Vec<Cell<bool>>,
    pub(crate) occupied: Vec<Cell<bool>>,
    pub(crate) dead: Vec<Cell<bool>>,
}

impl Plain {
    /// `count` chunks of which so much is noted.
    pub(crate) fn new(count: usize, notes: Notes) -> Self {
        let words = notes.count();
        let links = if notes.has_links() { count } else { 0 };
        Plain {
            words,
            links: (0..links).map(|_| Default::default()).collect(),
            again: vec![Cell::new(false); count],
            notes: vec![Cell::new(0); count * words],
            recent: vec![Cell::new(false); count],
            occupied: vec![Cell::new(false); count],
            dead: vec![Cell::new(false); count],
        }
    }

    /// The item in `chunk` is read.
    pub(crate) fn read(&self, chunk: Chunk) {
        let was_recent = self.recent[chunk as usize].replace(true);
        if was_recent {
            self.again[chunk as usize].set(true);
        }
    }

    fn link_cell(&self, chunk: Chunk, side: Side) -> &Cell<u32> {
        &self.links[chunk as usize][usize::from(side == Side::Older)]
    }
}

impl Chunks for Plain {
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.notes[chunk as usize * self.words + word].get()
    }

    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.notes[chunk as usize * self.words + word].set(value);
    }

    fn link(&self, chunk: Chunk, side: Side) -> u32 {
        self.link_cell(chunk, side).get()
    }

    fn set_link(&self, chunk: Chunk, side: Side, link: u32) {
        self.link_cell(chunk, side).set(link);
    }

    fn reads(&self, chunk: Chunk) -> u32 {
        [&self.recent, &self.again].iter().map(|bits| u32::from(bits[chunk as usize].get())).sum()
    }

    fn fade(&self, chunk: Chunk) {
        if !self.again[chunk as usize].replace(false) {
            self.recent[chunk as usize].set(false);
        }
    }

    fn is_recent(&self, chunk: Chunk) -> bool {
        self.recent[chunk as usize].get()
    }

    fn forget(&self, chunk: Chunk) {
        self.recent[chunk as usize].set(false);
        self.again[chunk as usize].set(false);
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
