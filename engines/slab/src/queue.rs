//! What a session has still to tell the orders of classes: stores, and for some policies reads. It is told together at the end of a batch,
//! so that neither a store nor a read takes the lock of an order by itself.

use crate::core::Core;
use crate::index::Scheme;
use crate::notes::ClassChunks;
use crate::order::ClassOrder;
use crate::policy::table::ReadHook;
use crate::policy::{Arrival, Moment};
use crate::session::SlabSession;
use crate::turn::Wants;
use guira_contract::Expiry;
use guira_memory::Offset;
use guira_memory::slab::{ClassId, PageId, PageState};
use guira_sync::clock::Seconds;
use std::sync::MutexGuard;

/// Something that happened to an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: Offset,
    pub(crate) what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Stored(Arrival),
    /// In place of another item with the same key, which counts as a read.
    StoredOver(Arrival),
    Read,
}

/// So many are told at once at the latest.
const QUEUE: usize = 128;

/// It was passed over: nothing is known of it but that it is there.
pub(crate) const BACK: What = What::Stored(Arrival::UNKNOWN);

/// An item that was stored.
pub(crate) fn arrival(hash: u32, expiry: Expiry, now: Seconds) -> Arrival {
    let lives = match expiry {
        Expiry::Never => u32::MAX,
        Expiry::At(second) => second.0.saturating_sub(now.0),
    };
    Arrival { hash, lives }
}

/// Does for a read what the policy wants beyond the recency bit.
#[inline(never)]
pub(crate) fn note_read<X: Scheme>(core: &Core<X>, queue: &mut Vec<Event>, at: Offset) {
    let wants = core.turn.wants();
    if wants.has(Wants::READS) && core.touch(at) {
        queue.push(Event { at, what: What::Read });
    }
}

impl<X: Scheme> Core<X> {
    pub(crate) fn moment(&self) -> Moment {
        Moment { tick: self.balance.tick(), seconds: self.shell.time_seen().0 }
    }

    /// Updates the notes on what was read at `at`. True if an order wants to hear of the read.
    fn touch(&self, at: Offset) -> bool {
        let Some((page, geometry, chunk)) = self.memory.locate(at) else {
            return false;
        };
        let (now, mut tells) = (self.moment(), false);
        for (area, hook) in self.turn.read_hooks() {
            if hook != ReadHook::NOTHING {
                let notes = &self.notes[area];
                let chunks = ClassChunks { core: self, notes, geometry: *geometry, pages: &[], circle: None };
                tells |= hook.touch(&chunks, chunks.number(page, chunk), now);
            }
        }
        tells
    }

    /// Tells the order of a class what happened to a chunk of its own.
    fn tell_order(
        &self,
        (class, order): (ClassId, &mut ClassOrder),
        (page, chunk): (PageId, u32),
        what: What,
        now: Moment,
    ) {
        let chunks = ClassChunks::new(self, order.placed.area, class, &[]);
        let chunk = chunks.number(page, chunk);
        let Some(heir) = &mut order.heir else {
            return match what {
                What::Stored(arrival) | What::StoredOver(arrival) => {
                    order.placed.state.stored(&chunks, chunk, arrival, now);
                }
                What::Read => order.placed.state.was_read(&chunks, chunk, now),
            };
        };
        let new = ClassChunks::new(self, heir.placed.area, class, &[]);
        match what {
            What::Stored(arrival) | What::StoredOver(arrival) => {
                order.placed.state.removed(&chunks, chunk);
                heir.placed.state.stored(&new, chunk, arrival, now);
            }
            What::Read => {
                order.placed.state.was_read(&chunks, chunk, now);
                heir.placed.state.was_read(&new, chunk, now);
            }
        }
    }
}

impl<X: Scheme> SlabSession<X> {
    /// Tells the orders what has happened, if it is much.
    #[inline]
    pub(crate) fn tell_much(&mut self) {
        if self.queue.len() >= QUEUE {
            self.tell();
        }
    }

    /// Tells the orders what has happened.
    #[cold]
    #[inline(never)]
    pub(crate) fn tell(&mut self) {
        let core = self.core.clone();
        let now = core.moment();
        let mut locked: Option<(ClassId, MutexGuard<'_, ClassOrder>)> = None;
        let mut queue = std::mem::take(&mut self.queue);
        for event in &queue {
            core.prefetch_notes(event.at);
        }
        for Event { at, what } in queue.drain(..) {
            let Some((page, geometry, chunk)) = core.memory.locate(at) else {
                continue;
            };
            // What drains is in no order any more, or will soon be in none.
            let PageState::Serving(class) = core.memory.state_of(page) else {
                continue;
            };
            if locked.as_ref().is_none_or(|(other, _)| *other != class) {
                drop(locked.take());
                locked = Some((class, core.lock_order(class)));
            }
            let Some((_, order)) = &mut locked else { continue };
            core.tell_order((class, order), (page, chunk), what, now);
            if let What::StoredOver(_) = what {
                core.memory.touch(at, geometry.chunk as usize);
                core.touch(at);
            }
        }
        self.queue = queue;
    }
}
