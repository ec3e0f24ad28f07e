//! Quiescent-state-based reclamation (QSBR): has every thread dropped what it may have found without a lock?
//!
//! A reader without locks may hold the offset of a slab page, or of a table, that a writer has just retired. Before
//! such memory is reused, every [`Participant`] must have passed a quiescent point: the end of a batch, where it
//! holds no such offset. A participant that waits for input is offline and counts as passed. Readers pay one load for
//! each batch.

use crate::atomic::{AtomicU64, Mutex, Ordering, Padded, fence};
use std::sync::{Arc, PoisonError};

/// The value of an offline participant's slot.
const OFFLINE: u64 = 0;

/// The participants of an engine.
#[derive(Debug)]
pub struct Quiescence {
    epoch: Padded<AtomicU64>,
    /// LOCK: participants. Leaf; taken to register and to check tickets, never by readers.
    slots: Mutex<Vec<Arc<Slot>>>,
}

#[derive(Debug)]
struct Slot {
    /// The epoch of the participant's last quiescent point, or `OFFLINE`.
    seen: Padded<AtomicU64>,
}

/// A point in time: has every participant been quiescent since?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

impl Default for Quiescence {
    fn default() -> Self {
        Quiescence { epoch: Padded(AtomicU64::new(1)), slots: Mutex::new(Vec::new()) }
    }
}

impl Quiescence {
    /// Registers a participant, online. It must reach quiescent points, go offline, or be dropped.
    pub fn register(self: &Arc<Self>) -> Participant {
        let slot = Arc::new(Slot { seen: Padded(AtomicU64::new(OFFLINE)) });
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot.clone());
        let participant = Participant { shared: self.clone(), slot };
        participant.online();
        participant
    }

    /// Draws a ticket, after memory was retired. Once it has passed, no participant can hold that memory.
    pub fn ticket(&self) -> Ticket {
        // Release: a participant that sees the new epoch also sees that the memory is retired. Pairs with the Acquire
        // in `quiesce`.
        Ticket(self.epoch.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Whether every participant has been quiescent, or offline, since the ticket was drawn.
    pub fn passed(&self, ticket: Ticket) -> bool {
        // SeqCst fence: pairs with the one in `online`. Either that participant sees that the memory is retired, or
        // we see it online here.
        fence(Ordering::SeqCst);
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.iter().all(|slot| {
            // Acquire: pairs with the Release in `quiesce` and `offline`: the participant's accesses, late stores
            // included, happened before.
            let seen = slot.seen.load(Ordering::Acquire);
            seen == OFFLINE || seen >= ticket.0
        })
    }
}

/// A thread that takes part in [`Quiescence`].
#[derive(Debug)]
pub struct Participant {
    shared: Arc<Quiescence>,
    slot: Arc<Slot>,
}

impl Participant {
    /// Marks a quiescent point: the thread holds nothing that it found without a lock.
    #[inline]
    pub fn quiesce(&self) {
        // Acquire: pairs with the Release in `ticket`.
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        if self.slot.seen.load(Ordering::Relaxed) != epoch {
            // Release: pairs with the Acquire in `passed`.
            self.slot.seen.store(epoch, Ordering::Release);
        }
    }

    /// Goes offline, before a wait: the thread holds nothing. Until [`Participant::online`] it must not access shared
    /// memory.
    pub fn offline(&self) {
        // Release: pairs with the Acquire in `passed`.
        self.slot.seen.store(OFFLINE, Ordering::Release);
    }

    /// Comes back online.
    pub fn online(&self) {
        let epoch = self.shared.epoch.load(Ordering::Acquire);
        self.slot.seen.store(epoch, Ordering::Release);
        // SeqCst fence: pairs with the one in `passed`.
        fence(Ordering::SeqCst);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.offline();
        let mut slots = self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| !Arc::ptr_eq(slot, &self.slot));
    }
}

#[cfg(all(test, not(guira_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_passes_when_all_online_participants_were_quiescent() {
        let quiescence = Arc::new(Quiescence::default());
        let (a, b) = (quiescence.register(), quiescence.register());
        let ticket = quiescence.ticket();
        assert!(!quiescence.passed(ticket));
        a.quiesce();
        assert!(!quiescence.passed(ticket));
        b.quiesce();
        assert!(quiescence.passed(ticket));
    }

    #[test]
    fn offline_and_dropped_participants_hold_nothing_up() {
        let quiescence = Arc::new(Quiescence::default());
        let (a, b) = (quiescence.register(), quiescence.register());
        let ticket = quiescence.ticket();
        a.offline();
        drop(b);
        assert!(quiescence.passed(ticket));
        a.online();
        assert!(quiescence.passed(ticket), "it came back after the ticket was drawn");
        assert!(!quiescence.passed(quiescence.ticket()));
    }
}

#[cfg(all(test, guira_loom))]
mod loom_tests {
    use super::*;
    use crate::atomic::AtomicU32;

    /// A reader finds memory through a link and stores into it a little later. A thread that unlinks the memory and
    /// waits for the ticket must see that store, and none after the ticket has passed.
    #[test]
    fn loom_retired_memory_is_not_held_once_the_ticket_has_passed() {
        loom::model(|| {
            let quiescence = Arc::new(Quiescence::default());
            let shared = Arc::new((AtomicU32::new(1), AtomicU32::new(0)));
            let reader = quiescence.register();
            let theirs = shared.clone();
            let thread = loom::thread::spawn(move || {
                for _ in 0..2 {
                    let (link, memory) = &*theirs;
                    if link.load(Ordering::Relaxed) == 1 {
                        memory.store(7, Ordering::Relaxed);
                    }
                    reader.quiesce();
                }
                reader.offline();
            });
            let (link, memory) = &*shared;
            link.store(0, Ordering::Relaxed);
            let ticket = quiescence.ticket();
            if quiescence.passed(ticket) {
                memory.store(9, Ordering::Relaxed);
                thread.join().unwrap();
                assert_eq!(memory.load(Ordering::Relaxed), 9);
            } else {
                thread.join().unwrap();
            }
        });
    }

    /// The same, with a reader that comes online meanwhile.
    #[test]
    fn loom_a_participant_that_comes_online_sees_the_retirement_or_is_waited_for() {
        loom::model(|| {
            let quiescence = Arc::new(Quiescence::default());
            let shared = Arc::new((AtomicU32::new(1), AtomicU32::new(0)));
            let reader = quiescence.register();
            reader.offline();
            let theirs = shared.clone();
            let thread = loom::thread::spawn(move || {
                let (link, memory) = &*theirs;
                reader.online();
                if link.load(Ordering::Relaxed) == 1 {
                    memory.store(7, Ordering::Relaxed);
                }
                reader.offline();
            });
            let (link, memory) = &*shared;
            link.store(0, Ordering::Relaxed);
            let ticket = quiescence.ticket();
            if quiescence.passed(ticket) {
                memory.store(9, Ordering::Relaxed);
                thread.join().unwrap();
                assert_eq!(memory.load(Ordering::Relaxed), 9);
            } else {
                thread.join().unwrap();
            }
        });
    }
}
