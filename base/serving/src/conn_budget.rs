//! What connections may hold: requests that have arrived in part, replies that their clients do not take, and the long values in these, which stay in the
//! engine's memory meanwhile. All of it is bounded. If a connection has to hold more than is left, the one that holds most is closed, whichever worker it
//! is of; before it comes to that, all connections are made to hold less.

use guira_memory::Budget;
use guira_sync::atomic::{AtomicU64, Padded};
use guira_sync::lock::{Mutex, MutexGuard};

/// What a connection holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnMemory {
    pub bytes: usize,
    pub pinned: usize,
}

impl ConnMemory {
    const NOTHING: Self = ConnMemory { bytes: 0, pinned: 0 };

    /// By which the connection that holds most is found.
    pub fn total(self) -> usize {
        self.bytes + self.pinned
    }
}

/// A connection, by its worker and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnId {
    pub worker: usize,
    pub place: usize,
}

/// The answer to a connection that is going to hold more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    Granted,
    /// There is no memory left; nothing has changed.
    Full,
    /// What it had was given to another connection: it has to be closed.
    Evicted,
}

/// What the connections of one worker hold.
#[derive(Debug, Default)]
struct Ledger {
    /// By place. Only the worker itself writes down more than nothing.
    held: Vec<ConnMemory>,
    /// Places whose connections are to be closed, since others have their budget.
    evicted: Vec<usize>,
}

/// How much memory connections may take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnLimits {
    /// Those that do nothing.
    pub idle: usize,
    pub traffic: usize,
    /// Long values of the engine in replies that are not taken.
    pub pinned: usize,
}

/// The memory that all connections share.
#[derive(Debug)]
pub struct ConnBudget {
    /// What connections take that do nothing. Apart from the others, which workers look at in each round.
    idle: Padded<Budget>,
    bytes: Budget,
    pinned: Budget,
    /// LOCK: ledger (one a worker). Leaf.
    ledgers: Vec<Padded<Mutex<Ledger>>>,
    /// Connections that were closed because a request, or a reply, did not fit. Relaxed: statistics.
    pub closed_receiving: AtomicU64,
    pub closed_sending: AtomicU64,
}

/// Memory is short once this part of it is used.
const SHORT_PART: usize = 2;
/// Logs for watchers take at most this part of it.
const LOGS_PART: usize = 4;

impl ConnBudget {
    pub fn new(limits: ConnLimits, workers: usize) -> Self {
        ConnBudget {
            idle: Padded(Budget::new(limits.idle)),
            bytes: Budget::new(limits.traffic),
            pinned: Budget::new(limits.pinned),
            ledgers: (0..workers).map(|_| Padded::default()).collect(),
            closed_receiving: AtomicU64::new(0),
            closed_sending: AtomicU64::new(0),
        }
    }

    /// Sets other limits. Connections that hold more go on.
    pub fn resize(&self, limits: ConnLimits) {
        self.idle.set_limit(limits.idle);
        self.bytes.set_limit(limits.traffic);
        self.pinned.set_limit(limits.pinned);
    }

    fn ledger(&self, worker: usize) -> MutexGuard<'_, Ledger> {
        self.ledgers[worker].lock()
    }

    /// Whether connections should hold as little as they can.
    pub fn is_short(&self) -> bool {
        self.bytes.used() > self.bytes.limit() / SHORT_PART
    }

    /// How much of long values a worker's connections may have pinned that wait for their next turn: it is not counted, since it
    /// is soon sent.
    pub fn for_turns(&self) -> usize {
        self.pinned.limit() / self.ledgers.len()
    }

    /// Takes room for a new connection. False if there is none.
    #[must_use]
    pub fn enter(&self, bytes: usize) -> bool {
        self.idle.take(bytes)
    }

    pub fn leave(&self, bytes: usize) {
        self.idle.give(bytes);
    }

    /// What logs for watchers may take.
    pub fn for_logs(&self) -> usize {
        self.bytes.limit() / LOGS_PART
    }

    /// Lends room that no connection holds. False if there is none.
    #[must_use]
    pub fn lend(&self, bytes: usize) -> bool {
        self.bytes.take(bytes)
    }

    pub fn take_back(&self, bytes: usize) {
        self.bytes.give(bytes);
    }

    /// The connection at `id`, which believes that it holds `held`, is going to hold `wanted`.
    pub fn change(&self, id: ConnId, held: ConnMemory, wanted: ConnMemory) -> Grant {
        let mut ledger = self.ledger(id.worker);
        if ledger.held.len() <= id.place {
            ledger.held.resize(id.place + 1, ConnMemory::NOTHING);
        }
        let entry = &mut ledger.held[id.place];
        if *entry != held {
            return Grant::Evicted;
        }
        // First what is more: what is given back may be taken by another connection before it can be taken again.
        let more = wanted.bytes.saturating_sub(held.bytes);
        if !self.bytes.take(more) {
            return Grant::Full;
        }
        if !self.pinned.take(wanted.pinned.saturating_sub(held.pinned)) {
            self.bytes.give(more);
            return Grant::Full;
        }
        self.bytes.give(held.bytes.saturating_sub(wanted.bytes));
        self.pinned.give(held.pinned.saturating_sub(wanted.pinned));
        *entry = wanted;
        Grant::Granted
    }

    /// The connection at `id` is given up: its room is free.
    pub fn release(&self, id: ConnId) {
        if let Some(entry) = self.ledger(id.worker).held.get_mut(id.place) {
            self.free(entry);
        }
    }

    /// Whether the memory of a connection, which believes that it holds `held`, was given to another.
    pub fn is_evicted(&self, id: ConnId, held: ConnMemory) -> bool {
        self.ledger(id.worker).held.get(id.place).copied().unwrap_or_default() != held
    }

    /// Places of a worker whose connections are to be closed, if [`ConnBudget::is_evicted`] still says so.
    pub fn evicted(&self, worker: usize) -> Vec<usize> {
        std::mem::take(&mut self.ledger(worker).evicted)
    }

    /// Frees the memory of the connection that holds most, if that is more than `wanted` in all, for `worker`. If that is another worker's, the caller
    /// rings its bell, and it closes the connection: until then the connection has what it has, beside what is counted.
    pub fn evict_above(&self, wanted: usize, worker: usize) -> Option<ConnId> {
        let largest = |worker| {
            let ledger = self.ledger(worker);
            let (place, holding) =
                ledger.held.iter().enumerate().max_by_key(|(_, holding)| holding.total())?;
            Some((holding.total(), ConnId { worker, place }))
        };
        let (_, id) = (0..self.ledgers.len()).filter_map(largest).max_by_key(|(total, _)| *total)?;
        let mut ledger = self.ledger(id.worker);
        let entry = ledger.held.get_mut(id.place).filter(|entry| entry.total() > wanted)?;
        self.free(entry);
        if id.worker != worker {
            ledger.evicted.push(id.place);
        }
        Some(id)
    }

    fn free(&self, entry: &mut ConnMemory) {
        let ConnMemory { bytes, pinned } = std::mem::take(entry);
        self.bytes.give(bytes);
        self.pinned.give(pinned);
    }

    /// Bytes held, pinned, and allowed to be held.
    pub fn usage(&self) -> (usize, usize, usize) {
        (self.bytes.used(), self.pinned.used(), self.bytes.limit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(bytes: usize, pinned: usize) -> ConnMemory {
        ConnMemory { bytes, pinned }
    }

    fn id(worker: usize, place: usize) -> ConnId {
        ConnId { worker, place }
    }

    fn budget() -> ConnBudget {
        ConnBudget::new(ConnLimits { idle: 10, traffic: 100, pinned: 100 }, 2)
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let budget = budget();
        assert!(budget.enter(10) && !budget.enter(1));
        let (one, two) = (id(0, 3), id(1, 0));
        assert_eq!(budget.change(one, ConnMemory::NOTHING, memory(40, 60)), Grant::Granted);
        assert!(!budget.is_short());
        assert_eq!(budget.change(two, ConnMemory::NOTHING, memory(61, 0)), Grant::Full, "40 are held");
        assert_eq!(budget.change(two, ConnMemory::NOTHING, memory(50, 41)), Grant::Full, "60 are pinned");
        assert_eq!(budget.usage(), (40, 60, 100), "what was refused is not held");
        assert_eq!(budget.change(two, ConnMemory::NOTHING, memory(50, 40)), Grant::Granted);
        assert!(budget.is_short());
        budget.release(one);
        budget.release(one);
        budget.leave(10);
        assert!(budget.enter(1));
        assert_eq!(budget.usage(), (50, 40, 100));
    }

    #[test]
    fn what_is_refused_leaves_what_was_held_although_some_of_it_would_be_less() {
        let budget = budget();
        assert_eq!(budget.change(id(0, 0), ConnMemory::NOTHING, memory(90, 50)), Grant::Granted);
        assert_eq!(budget.change(id(1, 0), ConnMemory::NOTHING, memory(10, 50)), Grant::Granted);
        assert_eq!(budget.change(id(0, 0), memory(90, 50), memory(10, 51)), Grant::Full);
        assert_eq!(budget.usage(), (100, 100, 100), "the 90 bytes were never anybody else's");
        budget.release(id(0, 0));
        assert_eq!(budget.usage(), (10, 50, 100));
    }

    #[test]
    fn the_connection_that_holds_most_makes_room_whichever_worker_it_is_of() {
        let budget = budget();
        for (seat, held) in [(id(0, 0), 20), (id(1, 2), 50), (id(1, 1), 30)] {
            assert_eq!(budget.change(seat, ConnMemory::NOTHING, memory(held, 0)), Grant::Granted);
        }
        assert_eq!(budget.evict_above(50, 0), None, "no connection holds more");
        assert_eq!(budget.evict_above(49, 0), Some(id(1, 2)));
        assert_eq!((budget.evicted(1), budget.evicted(1), budget.evicted(0)), (vec![2], vec![], vec![]));
        assert!(budget.is_evicted(id(1, 2), memory(50, 0)) && !budget.is_evicted(id(1, 1), memory(30, 0)));
        assert_eq!(budget.usage().0, 50);
        assert_eq!(budget.change(id(1, 2), memory(50, 0), memory(51, 0)), Grant::Evicted);
        budget.release(id(1, 2));
        assert_eq!(budget.usage().0, 50, "it was given back once");
        assert_eq!(budget.evict_above(0, 1), Some(id(1, 1)));
        assert_eq!(budget.evicted(1), Vec::<usize>::new(), "its own worker knows");
    }
}
