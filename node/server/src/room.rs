//! What connections may hold: requests that have arrived in part, replies that their clients do not take, and the long values in
//! these, which stay in the engine's memory meanwhile. All of it is bounded. If a connection has to hold more than is left, whoever
//! holds most is closed, whichever worker it is of; before it comes to that, all connections are made to hold less.

use crate::division::Division;
use guira_memory::Budget;
use guira_sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a connection holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    /// Of memory for connections.
    pub(crate) bytes: usize,
    /// Of the engine's memory.
    pub(crate) pinned: usize,
}

impl Holding {
    const NOTHING: Self = Holding { bytes: 0, pinned: 0 };

    /// A measure of who holds most.
    pub(crate) fn total(self) -> usize {
        self.bytes + self.pinned
    }
}

/// A connection, by its worker and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) worker: usize,
    pub(crate) place: usize,
}

/// What came of asking for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// It is there.
    Granted,
    /// There is none; nothing has changed.
    Full,
    /// The room that it had was given to somebody else: it has to go.
    Evicted,
}

/// What the connections of one worker hold.
#[derive(Debug, Default)]
struct Ledger {
    /// By place. Only the worker itself writes down more than nothing.
    held: Vec<Holding>,
    /// Places whose connections are to be closed, since others have their room.
    evicted: Vec<usize>,
}

/// The room that all connections share.
#[derive(Debug)]
pub(crate) struct Room {
    /// What connections take that do nothing.
    idle: Budget,
    bytes: Budget,
    pinned: Budget,
    /// LOCK: ledger (one a worker). Leaf.
    ledgers: Vec<Mutex<Ledger>>,
    /// Connections that were closed because a request, or a reply, did not fit. Relaxed: statistics.
    pub(crate) closed_receiving: AtomicU64,
    pub(crate) closed_sending: AtomicU64,
}

/// Long values in replies that are not taken keep at most this part of the engine's memory from being used otherwise.
const PINNED_PART: usize = 4;
/// Room is short from this part of it on.
const SHORT_PART: usize = 2;
/// Logs for those who watch take at most this part of it.
const LOGS_PART: usize = 4;

impl Room {
    /// The room of a process with this memory and so many workers.
    pub(crate) fn new(division: &Division, workers: usize) -> Self {
        Room {
            idle: Budget::new(division.idle),
            bytes: Budget::new(division.traffic),
            pinned: Budget::new(division.engine / PINNED_PART),
            ledgers: (0..workers).map(|_| Mutex::default()).collect(),
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

    fn ledger(&self, worker: usize) -> MutexGuard<'_, Ledger> {
        self.ledgers[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether connections should hold as little as they can.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes.used() > self.bytes.limit() / SHORT_PART
    }

    /// How much of long values a worker's connections may have pinned that wait for their next turn: nobody asks for room for it, since it
    /// is soon sent.
    pub(crate) fn for_turns(&self) -> usize {
        self.pinned.limit() / self.ledgers.len()
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

    /// What logs for those who watch may take.
    pub(crate) fn for_logs(&self) -> usize {
        self.bytes.limit() / LOGS_PART
    }

    /// Lends room that no connection holds. False if there is none.
    #[must_use]
    pub(crate) fn lend(&self, bytes: usize) -> bool {
        self.bytes.take(bytes)
    }

    /// Takes back what was lent.
    pub(crate) fn take_back(&self, bytes: usize) {
        self.bytes.give(bytes);
    }

    /// The connection at `seat`, which believes that it holds `held`, is going to hold `wanted`.
    pub(crate) fn change(&self, seat: Seat, held: Holding, wanted: Holding) -> Asked {
        let mut ledger = self.ledger(seat.worker);
        if ledger.held.len() <= seat.place {
            ledger.held.resize(seat.place + 1, Holding::NOTHING);
        }
        let entry = &mut ledger.held[seat.place];
        if *entry != held {
            return Asked::Evicted;
        }
        // What is more first: what was given back may be somebody else's before it could be taken again.
        let more = wanted.bytes.saturating_sub(held.bytes);
        if !self.bytes.take(more) {
            return Asked::Full;
        }
        if !self.pinned.take(wanted.pinned.saturating_sub(held.pinned)) {
            self.bytes.give(more);
            return Asked::Full;
        }
        self.bytes.give(held.bytes.saturating_sub(wanted.bytes));
        self.pinned.give(held.pinned.saturating_sub(wanted.pinned));
        *entry = wanted;
        Asked::Granted
    }

    /// The connection at `seat` is given up: its room is free.
    pub(crate) fn release(&self, seat: Seat) {
        if let Some(entry) = self.ledger(seat.worker).held.get_mut(seat.place) {
            self.free(entry);
        }
    }

    /// Whether the room of a connection, which believes that it holds `held`, was given to somebody else.
    pub(crate) fn is_evicted(&self, seat: Seat, held: Holding) -> bool {
        self.ledger(seat.worker).held.get(seat.place).copied().unwrap_or_default() != held
    }

    /// Places of a worker whose connections are to be closed, if [`Room::is_evicted`] still says so.
    pub(crate) fn evicted(&self, worker: usize) -> Vec<usize> {
        std::mem::take(&mut self.ledger(worker).evicted)
    }

    /// Frees the room of whoever holds most, if that is more than `wanted` in all, for `worker`. Another worker has to be told, by its
    /// bell, and closes it then: until that moment the connection has what it has, beside what is counted.
    pub(crate) fn evict_above(&self, wanted: usize, worker: usize) -> Option<Seat> {
        let largest = |worker| {
            let ledger = self.ledger(worker);
            let (place, holding) =
                ledger.held.iter().enumerate().max_by_key(|(_, holding)| holding.total())?;
            Some((holding.total(), Seat { worker, place }))
        };
        let (_, seat) = (0..self.ledgers.len()).filter_map(largest).max_by_key(|(total, _)| *total)?;
        let mut ledger = self.ledger(seat.worker);
        let entry = ledger.held.get_mut(seat.place).filter(|entry| entry.total() > wanted)?;
        self.free(entry);
        if seat.worker != worker {
            ledger.evicted.push(seat.place);
        }
        Some(seat)
    }

    fn free(&self, entry: &mut Holding) {
        let Holding { bytes, pinned } = std::mem::take(entry);
        self.bytes.give(bytes);
        self.pinned.give(pinned);
    }

    /// Bytes held, pinned, and allowed to be held.
    pub(crate) fn usage(&self) -> (usize, usize, usize) {
        (self.bytes.used(), self.pinned.used(), self.bytes.limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(bytes: usize, pinned: usize) -> Holding {
        Holding { bytes, pinned }
    }

    fn seat(worker: usize, place: usize) -> Seat {
        Seat { worker, place }
    }

    /// Room for connections that do nothing, of 10 bytes, 100 to hold, and 100 to pin.
    fn room() -> Room {
        Room::new(
            &Division { process: 0, workers: 0, idle: 10, traffic: 100, rings: 0, advice: 0, engine: 400 },
            2,
        )
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let room = room();
        assert!(room.enter(10) && !room.enter(1));
        let (one, two) = (seat(0, 3), seat(1, 0));
        assert_eq!(room.change(one, Holding::NOTHING, holding(40, 60)), Asked::Granted);
        assert!(!room.is_short());
        assert_eq!(room.change(two, Holding::NOTHING, holding(61, 0)), Asked::Full, "40 are held");
        assert_eq!(room.change(two, Holding::NOTHING, holding(50, 41)), Asked::Full, "60 are pinned");
        assert_eq!(room.usage(), (40, 60, 100), "what was refused is not held");
        assert_eq!(room.change(two, Holding::NOTHING, holding(50, 40)), Asked::Granted);
        assert!(room.is_short());
        room.release(one);
        room.release(one);
        room.leave(10);
        assert!(room.enter(1));
        assert_eq!(room.usage(), (50, 40, 100));
    }

    #[test]
    fn what_is_refused_leaves_what_was_held_although_some_of_it_would_be_less() {
        let room = room();
        assert_eq!(room.change(seat(0, 0), Holding::NOTHING, holding(90, 50)), Asked::Granted);
        assert_eq!(room.change(seat(1, 0), Holding::NOTHING, holding(10, 50)), Asked::Granted);
        assert_eq!(room.change(seat(0, 0), holding(90, 50), holding(10, 51)), Asked::Full);
        assert_eq!(room.usage(), (100, 100, 100), "the 90 bytes were never anybody else's");
        room.release(seat(0, 0));
        assert_eq!(room.usage(), (10, 50, 100));
    }

    #[test]
    fn whoever_holds_most_makes_room_whichever_worker_it_is_of() {
        let room = room();
        for (seat, held) in [(seat(0, 0), 20), (seat(1, 2), 50), (seat(1, 1), 30)] {
            assert_eq!(room.change(seat, Holding::NOTHING, holding(held, 0)), Asked::Granted);
        }
        assert_eq!(room.evict_above(50, 0), None, "nobody holds more");
        assert_eq!(room.evict_above(49, 0), Some(seat(1, 2)));
        assert_eq!((room.evicted(1), room.evicted(1), room.evicted(0)), (vec![2], vec![], vec![]));
        assert!(room.is_evicted(seat(1, 2), holding(50, 0)) && !room.is_evicted(seat(1, 1), holding(30, 0)));
        assert_eq!(room.usage().0, 50);
        assert_eq!(room.change(seat(1, 2), holding(50, 0), holding(51, 0)), Asked::Evicted);
        room.release(seat(1, 2));
        assert_eq!(room.usage().0, 50, "it was given back once");
        assert_eq!(room.evict_above(0, 1), Some(seat(1, 1)));
        assert_eq!(room.evicted(1), Vec::<usize>::new(), "its own worker knows");
    }
}
