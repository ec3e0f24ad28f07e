//! A connection's share of its worker: its present turn, and how long its earlier ones were.

use crate::{Cut, Rank, Slice};
use guira_sync::clock::Seconds;

/// The most turns in a row that one connection has while others wait.
const ROW: u32 = 16;

#[derive(Debug)]
pub(crate) struct Share {
    /// The rest of the turn.
    pub(crate) slice: Slice,
    /// The rank after the last turn, and when that was.
    rank: (Rank, Seconds),
    /// Turns in a row that the slice has ended.
    row: u32,
}

impl Default for Share {
    fn default() -> Self {
        Share { slice: Slice::ENDLESS, rank: (Rank::Light, Seconds(0)), row: 0 }
    }
}

impl Share {
    /// Begins a turn. `cut` is where it may end, if not anywhere.
    pub(crate) fn begin(&mut self, now: Seconds, cut: Option<Cut>) {
        let slice = Slice::of(self.rank(now));
        self.slice = cut.map_or(slice, |cut| slice.cut(cut));
    }

    /// Ends a turn after which the connection has more to do.
    pub(crate) fn end_unfinished(&mut self, now: Seconds) {
        self.rank = (self.slice.rank(), now);
        self.row = self.row.wrapping_add(1);
    }

    pub(crate) fn end(&mut self, now: Seconds) {
        self.rank = (self.slice.rank_at_rest(), now);
        self.row = 0;
    }

    /// A heavy turn counts until the next second: a client that has filled the cache may send small requests afterwards.
    pub(crate) fn rank(&self, now: Seconds) -> Rank {
        if self.rank.1 == now { self.rank.0 } else { Rank::Light }
    }

    /// Whether it may continue before other heavy connections: not in its first turn, and not for ever.
    pub(crate) fn may_continue(&self) -> bool {
        self.rank.0 == Rank::Heavy && self.row % ROW > 1
    }
}
