//! The engine's own CLOCK, turned over plain arrays: the hand is [`guira_slab::policy::clock::Hand`], the very code
//! that evicts in the server, and this file is only the ring that it goes around (MemC3, section 4; Corbató 1968).
//!
//! A key has a chunk of the ring, as an item has in a slab class. A victim's chunk is taken by the next insert, which
//! puts the new key just behind the hand. With a room in bytes the ring has as many chunks as were ever used at once.

use std::cell::Cell;

use guira_slab::policy::clock::{Hand, Ring};

use super::{Id, Policy, Room};

/// No chunk.
const NONE: u32 = u32::MAX;

/// A ring of chunks in plain arrays, and the hand.
#[derive(Debug)]
pub(crate) struct Clock {
    room: Room,
    hand: Hand,
    chunks: Chunks,
    /// The chunk of each key.
    chunk_of: Vec<u32>,
    /// The key in each chunk.
    key_in: Vec<Id>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Chunks {
    occupied: Vec<u64>,
    recent: Vec<Cell<u64>>,
}

impl Ring for Chunks {
    fn words(&self) -> usize {
        self.occupied.len()
    }
    fn occupied(&self, word: usize) -> u64 {
        self.occupied[word]
    }
    fn recent(&self, word: usize) -> u64 {
        self.recent[word].get()
    }
    fn clear_recent(&self, word: usize, bits: u64) {
        self.recent[word].set(self.recent[word].get() & !bits);
    }
    fn passed(&mut self, _word: usize) {}
}

impl Clock {
    pub(crate) fn new(limit: u64, keys: usize) -> Self {
        Self {
            room: Room::new(limit),
            hand: Hand::default(),
            chunks: Chunks::default(),
            chunk_of: vec![NONE; keys],
            key_in: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Turns the hand to the next victim and frees its chunk; false when there is nothing to evict.
    fn evict(&mut self) -> bool {
        let mut victim = None;
        self.hand.sweep(&mut self.chunks, 1, |place| victim = Some(place.word as u32 * 64 + place.bit));
        victim.map(|chunk| self.vacate(chunk)).is_some()
    }

    fn vacate(&mut self, chunk: u32) {
        let id = self.key_in[chunk as usize];
        self.chunk_of[id as usize] = NONE;
        self.chunks.occupied[chunk as usize / 64] &= !(1 << (chunk % 64));
        self.room.give_back(id);
        self.free.push(chunk);
    }

    /// A chunk that holds nothing.
    fn chunk(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let chunk = self.key_in.len() as u32;
            self.key_in.push(0);
            if chunk.is_multiple_of(64) {
                self.chunks.occupied.push(0);
                self.chunks.recent.push(Cell::new(0));
            }
            chunk
        })
    }
}

impl Policy for Clock {
    #[inline]
    fn read(&mut self, id: Id) -> bool {
        let chunk = self.chunk_of[id as usize];
        if chunk == NONE {
            return false;
        }
        let recent = &self.chunks.recent[chunk as usize / 64];
        recent.set(recent.get() | 1 << (chunk % 64));
        true
    }

    fn insert(&mut self, id: Id, weight: u32) {
        if !self.room.admits(weight) {
            return;
        }
        while !self.room.fits(weight) && self.evict() {}
        self.room.take(id, weight);
        let chunk = self.chunk();
        let (word, bit) = (chunk as usize / 64, 1_u64 << (chunk % 64));
        self.chunk_of[id as usize] = chunk;
        self.key_in[chunk as usize] = id;
        self.chunks.occupied[word] |= bit;
        self.chunks.recent[word].set(self.chunks.recent[word].get() & !bit);
    }

    fn remove(&mut self, id: Id) {
        let chunk = self.chunk_of[id as usize];
        if chunk != NONE {
            self.vacate(chunk);
        }
    }

    fn held(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::policy::Policy;
    use crate::testing::hits;

    #[test]
    fn what_was_read_since_the_hand_came_by_stays() {
        // 0 1 2 fill it and 0 is read. 3: the hand clears 0 and takes 1. 4: it takes 2. 0 hits; 1 misses: the hand
        // clears 0 once more and, past it, takes 3.
        assert_eq!(hits(Clock::new(3, 5), &[0, 1, 2, 0, 3, 4, 0, 1, 4, 3]), [0, 0, 0, 1, 0, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn without_reads_it_is_first_in_first_out() {
        assert_eq!(hits(Clock::new(2, 4), &[0, 1, 2, 3, 2, 0]), [0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn a_removed_key_leaves_its_chunk_to_the_next() {
        let mut clock = Clock::new(200, 300);
        (0..200).for_each(|id| clock.insert(id, 1));
        clock.remove(77);
        clock.insert(250, 1);
        assert_eq!((clock.held(), clock.key_in.len(), clock.chunk_of[250]), (200, 200, 77));
    }

    #[test]
    fn a_room_in_bytes_is_never_overdrawn() {
        let mut clock = Clock::new(100, 50);
        for id in 0..50 {
            clock.insert(id, 1 + id);
            assert!(clock.held() <= 100);
            assert!(clock.read(id));
        }
        assert_eq!(clock.held(), 50 + 49);
    }
}
