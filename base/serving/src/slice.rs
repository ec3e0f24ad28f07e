//! How much a connection may have done before others have their turn.
//!
//! A turn ends by the work done and not by the clock: to ask the time costs as much as a get. Work is counted in bytes copied to and from
//! the socket, and a request counts as many bytes as are copied in the time it takes. A whole slice is about a tenth of a millisecond.
//! A command that is not about one key may take any time: only for those is the clock asked
//! (docs/develop/decisions/0023-slices.md).

use crate::queue::Rank;
use std::time::Duration;

/// What a request, or a key of a get, counts beside its bytes.
const REQUEST: usize = 512;
/// A turn of a connection that has not asked for much lately: a few batches.
const LIGHT: usize = 64 << 10;
/// A turn of a connection that has, and what all of those may have done before the poller is asked again.
const WHOLE: usize = 256 << 10;
const WHOLE_TIME: Duration = Duration::from_micros(100);
/// What is sent at once in a whole slice: a value of the usual greatest length. In smaller pieces it would cost a third more, since each
/// of them wakes the client up.
const LONG: usize = (1 << 20) + (64 << 10);
/// What a turn counts in which nothing was done: its system calls.
const TURN: usize = 4 << 10;

/// What is left of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    size: usize,
    left: usize,
    /// What of it commands have taken that were counted by their time.
    timed: usize,
    cut: Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Before any request: those that were read are kept.
    Anywhere,
    /// Where all that was read is executed, so that nothing of it is kept.
    AfterInput,
}

impl Slice {
    /// For requests that are executed all at once.
    pub const ENDLESS: Self = Slice { size: usize::MAX, left: usize::MAX, timed: 0, cut: Cut::AfterInput };

    /// A turn of a connection of this rank.
    pub fn of(rank: Rank) -> Self {
        let size = match rank {
            Rank::Light => LIGHT,
            Rank::Heavy => WHOLE,
        };
        Slice { size, left: size, timed: 0, cut: Cut::Anywhere }
    }

    pub fn cut(self, cut: Cut) -> Self {
        Slice { cut, ..self }
    }

    /// Counts bytes that were read or sent.
    pub fn copied(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    #[inline(always)]
    pub fn executed(&mut self, requests: usize) {
        self.left = self.left.saturating_sub(requests * REQUEST);
    }

    /// Counts the time of a command that no number of bytes stands for.
    pub fn took(&mut self, time: Duration) {
        let nanos = usize::try_from(time.as_nanos()).unwrap_or(usize::MAX);
        let before = self.left;
        self.copied(nanos.saturating_mul(WHOLE) / WHOLE_TIME.as_nanos() as usize);
        self.timed += before - self.left;
    }

    /// Whether a request may wait for another turn.
    pub fn can_wait(self) -> bool {
        self.cut == Cut::Anywhere
    }

    pub fn end(&mut self) {
        self.left = 0;
    }

    /// Bytes that may still be sent.
    pub fn sendable(self) -> usize {
        match self.left {
            0 => 0,
            _ if self.size > LIGHT => LONG.max(self.left),
            left => left,
        }
    }

    pub fn is_over(self) -> bool {
        self.left == 0
    }

    /// Others have their turn now, although more requests were read.
    #[inline(always)]
    pub fn is_cut(self) -> bool {
        self.left == 0 && self.cut == Cut::Anywhere
    }

    pub fn spent(self) -> usize {
        TURN + self.size - self.left
    }

    /// The rank of the connection that has taken it and has more to do.
    pub fn rank(self) -> Rank {
        Self::rank_of(self.size - self.left)
    }

    /// The rank of one that has no more to do: a `stats` now and then is little, however long it takes.
    pub fn rank_at_rest(self) -> Rank {
        Self::rank_of(self.size - self.left - self.timed)
    }

    fn rank_of(spent: usize) -> Rank {
        if spent >= LIGHT { Rank::Heavy } else { Rank::Light }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_requests_as_well_as_by_bytes() {
        let mut slice = Slice::of(Rank::Light);
        slice.executed(100);
        slice.copied(8 << 10);
        assert!(!slice.is_over() && slice.rank() == Rank::Light, "a get of 100 keys is little");
        slice.copied(LIGHT);
        assert!(slice.is_over() && slice.is_cut() && slice.sendable() == 0);
        assert_eq!(slice.rank(), Rank::Heavy);
        let mut slice = Slice::of(slice.rank());
        assert_eq!(slice.sendable(), LONG);
        slice.copied(LIGHT - 1);
        assert!(!slice.is_over() && slice.rank() == Rank::Light, "it asks for little again");
        slice.executed(WHOLE / REQUEST);
        assert!(slice.is_over() && slice.spent() == WHOLE + TURN);
    }

    #[test]
    fn a_command_that_takes_long_ends_a_turn() {
        let mut slice = Slice::of(Rank::Heavy);
        slice.took(Duration::from_micros(60));
        assert!(!slice.is_over());
        slice.took(Duration::from_micros(60));
        assert!(slice.is_cut());
        assert_eq!((slice.rank(), slice.rank_at_rest()), (Rank::Heavy, Rank::Light));
        let mut endless = Slice::ENDLESS;
        endless.took(Duration::MAX);
        assert!(!endless.is_cut());
    }

    #[test]
    fn where_room_is_short_all_that_was_read_is_executed() {
        let mut slice = Slice::of(Rank::Light).cut(Cut::AfterInput);
        slice.copied(LIGHT);
        assert!(slice.is_over() && !slice.is_cut());
        let mut endless = Slice::ENDLESS;
        endless.executed(1 << 40);
        assert!(!endless.is_over() && !endless.is_cut());
    }
}
