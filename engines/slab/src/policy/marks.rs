//! When parts of a list were pushed, in a few marks instead of a note on each chunk.
//!
//! A mark stands at a chunk and holds for it and the newer ones before the next mark. If its chunk leaves the list, the mark moves to the next newer one. The
//! first stands at the oldest chunk. When there are too many, the one goes whose neighbours are closest in time, so that they are about evenly spread.

use super::{Chunk, Lately};

/// How many marks a list has at the most.
const MARKS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    chunk: Chunk,
    /// When the chunk was pushed, or an older one that has left.
    tick: u32,
    /// When a hand came by, or else the same.
    left_alone: u32,
}

/// The marks of a list, from its oldest chunk to its newest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(Vec<Mark>);

/// Ticks from `earlier` to `later`; 0 if it is not later.
fn between(earlier: u32, later: u32) -> u32 {
    let passed = later.wrapping_sub(earlier);
    if passed > u32::MAX / 2 { 0 } else { passed }
}

impl Marks {
    /// When the oldest chunk was pushed, or a little earlier.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.first().map(|mark| mark.tick)
    }

    /// `chunk` is the newest now.
    pub(super) fn pushed(&mut self, chunk: Chunk, tick: u32) {
        let mark = Mark { chunk, tick, left_alone: tick };
        if let (Some(first), Some(last)) = (self.0.first(), self.0.last()) {
            if between(last.tick, tick) <= between(first.tick, tick) / MARKS as u32 {
                return;
            }
            if self.0.len() == MARKS {
                self.thin();
            }
        }
        self.0.push(mark);
    }

    /// Removes the mark whose neighbours are closest to each other.
    fn thin(&mut self) {
        let gap = |at: &usize| between(self.0[at - 1].tick, self.0[at + 1].tick);
        if let Some(at) = (1..self.0.len() - 1).min_by_key(gap) {
            self.0.remove(at);
        }
    }

    fn find(&self, chunk: Chunk) -> Option<usize> {
        self.0.iter().position(|mark| mark.chunk == chunk)
    }

    /// `chunk` has left the list, in which `newer` was next to it.
    pub(super) fn removed(&mut self, chunk: Chunk, newer: Option<Chunk>) {
        let Some(at) = self.find(chunk) else { return };
        match newer {
            Some(newer) if self.0.get(at + 1).is_none_or(|next| next.chunk != newer) => {
                self.0[at].chunk = newer;
            }
            _ => {
                self.0.remove(at);
            }
        }
    }

    /// A hand comes by `chunk`. If a mark stands there: since when the chunks from there on were left alone.
    pub(super) fn pass(&mut self, chunk: Chunk, tick: u32) -> Option<u32> {
        let at = self.find(chunk)?;
        Some(std::mem::replace(&mut self.0[at].left_alone, tick))
    }

    /// Where the newest mark stands that was not set lately.
    pub(super) fn last_before(&self, lately: Lately) -> Option<Chunk> {
        let is_old = |mark: &&Mark| lately.now.ticks_since(mark.tick) >= lately.ticks;
        self.0.iter().rev().find(is_old).map(|mark| mark.chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mark_tells_about_when_the_oldest_was_pushed() {
        let mut marks = Marks::default();
        assert_eq!(marks.first(), None);
        // A chunk in each of a million ticks, and the ticks wrap.
        let start = u32::MAX - 300_000;
        let count = 1_000_000;
        (0..count).for_each(|chunk| marks.pushed(chunk, start.wrapping_add(chunk)));
        for chunk in 0..count {
            let (since, pushed) = (marks.first().unwrap(), start.wrapping_add(chunk));
            let early = pushed.wrapping_sub(since);
            assert!(early <= count / 20, "{chunk}: {early} ticks too early");
            marks.removed(chunk, (chunk + 1 < count).then_some(chunk + 1));
            assert!(marks.0.len() <= MARKS);
        }
        assert_eq!(marks, Marks::default());
    }

    #[test]
    fn a_mark_moves_on_when_its_chunk_leaves_and_goes_when_it_meets_the_next() {
        let mut marks = Marks::default();
        for (chunk, tick) in [(1, 10), (2, 10), (3, 20), (4, 30)] {
            marks.pushed(chunk, tick);
        }
        assert_eq!(marks.0.len(), 3);
        marks.removed(1, Some(2));
        assert_eq!((marks.first(), marks.0[0].chunk), (Some(10), 2));
        marks.removed(4, None);
        assert_eq!(marks.0.len(), 2);
        marks.removed(2, Some(3));
        assert_eq!((marks.first(), marks.0.len()), (Some(20), 1));
    }

    #[test]
    fn a_hand_learns_when_it_came_by_before() {
        let mut marks = Marks::default();
        [(1, 10), (2, 20)].into_iter().for_each(|(chunk, tick)| marks.pushed(chunk, tick));
        assert_eq!([marks.pass(1, 30), marks.pass(2, 40), marks.pass(9, 50)], [Some(10), Some(20), None]);
        assert_eq!((marks.pass(1, 60), marks.first()), (Some(30), Some(10)));
    }

    #[test]
    fn a_session_that_is_behind_sets_no_mark() {
        let mut marks = Marks::default();
        [(1, 10), (2, 9), (3, 10)].into_iter().for_each(|(chunk, tick)| marks.pushed(chunk, tick));
        assert_eq!(marks.0.len(), 1);
    }
}
