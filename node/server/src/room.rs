//! What connections may hold: requests that have arrived in part, replies that their clients do not take, and the long values in
//! these, which stay in the engine's memory meanwhile. All of it is bounded. A connection that has to hold more than is left is closed;
//! before it comes to that, all connections are made to hold less.

use crate::division::Division;
use guira_memory::Budget;
use guira_sync::atomic::AtomicU64;

/// What a connection holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    /// Of memory for connections.
    pub(crate) bytes: usize,
    /// Of the engine's memory.
    pub(crate) pinned: usize,
}

/// The room that all connections share.
#[derive(Debug)]
pub(crate) struct Room {
    /// What connections take that do nothing.
    idle: Budget,
    bytes: Budget,
    pinned: Budget,
    /// Connections that were closed because a request, or a reply, did not fit. Relaxed: statistics.
    pub(crate) closed_receiving: AtomicU64,
    pub(crate) closed_sending: AtomicU64,
}

/// Long values in replies that are not taken keep at most this part of the engine's memory from being used otherwise.
const PINNED_PART: usize = 4;
/// Room is short from this part of it on.
const SHORT_PART: usize = 2;

impl Room {
    /// The room of a process with this memory.
    pub(crate) fn new(division: &Division) -> Self {
        Room {
            idle: Budget::new(division.idle),
            bytes: Budget::new(division.traffic),
            pinned: Budget::new(division.engine / PINNED_PART),
            closed_receiving: AtomicU64::new(0),
            closed_sending: AtomicU64::new(0),
        }
    }

    /// From now on memory is divided like this. Whoever holds more goes on.
    pub(crate) fn resize(&self, division: &Division) {
        self.idle.set_limit(division.idle);
        self.bytes.set_limit(division.traffic);
        self.pinned.set_limit(division.engine / PINNED_PART);
    }

    /// Whether connections should hold as little as they can.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes.used() > self.bytes.limit() / SHORT_PART
    }

    /// Takes room for a new connection. False if there is none.
    #[must_use]
    pub(crate) fn enter(&self, bytes: usize) -> bool {
        self.idle.take(bytes)
    }

    /// A connection is gone.
    pub(crate) fn leave(&self, bytes: usize) {
        self.idle.give(bytes);
    }

    /// A connection that holds `held` is going to hold `wanted`. False if there is no room for that, and then nothing has changed.
    #[must_use]
    pub(crate) fn change(&self, held: Holding, wanted: Holding) -> bool {
        if !change(&self.bytes, held.bytes, wanted.bytes) {
            return false;
        }
        if change(&self.pinned, held.pinned, wanted.pinned) {
            return true;
        }
        // Less than before, or as much: it is there.
        let _ = change(&self.bytes, wanted.bytes, held.bytes);
        false
    }

    /// Bytes held, pinned, and allowed to be held.
    pub(crate) fn usage(&self) -> (usize, usize, usize) {
        (self.bytes.used(), self.pinned.used(), self.bytes.limit())
    }
}

fn change(budget: &Budget, held: usize, wanted: usize) -> bool {
    if wanted > held {
        return budget.take(wanted - held);
    }
    budget.give(held - wanted);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(bytes: usize, pinned: usize) -> Holding {
        Holding { bytes, pinned }
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let division = Division { process: 0, workers: 0, idle: 10, traffic: 100, engine: 400 };
        let room = Room::new(&division);
        assert!(room.enter(10) && !room.enter(1));
        assert!(room.change(holding(0, 0), holding(40, 60)));
        assert!(!room.is_short());
        assert!(!room.change(holding(0, 0), holding(61, 0)), "40 are held");
        assert!(!room.change(holding(0, 0), holding(50, 41)), "60 are pinned");
        assert_eq!(room.usage(), (40, 60, 100), "what was refused is not held");
        assert!(room.change(holding(0, 0), holding(50, 40)));
        assert!(room.is_short());
        assert!(room.change(holding(40, 60), holding(0, 0)));
        room.leave(10);
        assert!(room.enter(1));
        assert_eq!(room.usage(), (50, 40, 100));
    }
}
