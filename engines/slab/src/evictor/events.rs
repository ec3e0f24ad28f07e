//! What a session has still to say to the orders of classes: stores, and for some policies reads. It says it together, at the
//! end of a batch, so that neither a store nor a read takes the lock of an order by itself.

use super::class_order::ClassOrder;
use super::switch::{PolicySwitch, Wants};
use super::view::View;
use crate::policy::table::ReadHook;
use crate::policy::{Arrival, Moment};
use guira_contract::Expiry;
use guira_memory::Offset;
use guira_memory::slab::{ClassId, PageId, PageState};
use guira_sync::clock::Seconds;
use guira_sync::lock::MutexGuard;

/// Something that happened to an item.
#[derive(Clone, Copy, Debug)]
struct Event {
    at: Offset,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Stored(Arrival),
    /// In place of another item with the same key, which counts as a read.
    StoredOver(Arrival),
    /// A victim was too new to go.
    Spared,
    Read,
}

/// The orders hear of events when there are this many, at the latest.
const QUEUE: usize = 128;

/// Events in the order in which they happened.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: Vec<Event>,
}

/// What an order may want to know of an item that is stored.
fn arrival(hash: u32, expiry: Expiry, now: Seconds) -> Arrival {
    let lives = match expiry {
        Expiry::Never => u32::MAX,
        Expiry::At(second) => second.0.saturating_sub(now.0),
    };
    Arrival { hash, lives }
}

impl EventQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= QUEUE
    }

    /// An item was stored at `at`, the hash of whose key ends in `hash`.
    pub(crate) fn stored(&mut self, at: Offset, hash: u32, expiry: Expiry, now: Seconds) {
        self.events.push(Event { at, what: What::Stored(arrival(hash, expiry, now)) });
    }

    /// The same, in place of another item with the same key, or of a copy of it.
    pub(crate) fn stored_over(&mut self, at: Offset, hash: u32, expiry: Expiry, now: Seconds) {
        self.events.push(Event { at, what: What::StoredOver(arrival(hash, expiry, now)) });
    }

    /// The item at `at` was a victim and cannot go now: it is pinned, or it is no item. It comes back as a new one, or it
    /// would be the next victim again.
    pub(crate) fn stuck(&mut self, at: Offset) {
        self.events.push(Event { at, what: What::Stored(Arrival::UNKNOWN) });
    }

    /// The item at `at` was a victim and is too new to go. It is in no order now.
    pub(crate) fn spared(&mut self, at: Offset) {
        self.events.push(Event { at, what: What::Spared });
    }

    /// Does for a read what the policy wants beyond the recency bit.
    #[inline(never)]
    pub(super) fn note_read(&mut self, view: View<'_>, switch: &PolicySwitch, at: Offset) {
        if switch.wants().has(Wants::READS) && touch(view, switch, at) {
            self.events.push(Event { at, what: What::Read });
        }
    }

    /// Has the orders hear of all events.
    #[cold]
    #[inline(never)]
    pub(super) fn flush(&mut self, view: View<'_>, switch: &PolicySwitch) {
        let now = view.moment();
        let mut locked: Option<(ClassId, MutexGuard<'_, ClassOrder>)> = None;
        let memory = view.pool.memory();
        for event in &self.events {
            prefetch_metadata(view, event.at);
        }
        for Event { at, what } in self.events.drain(..) {
            let Some((page, geometry, chunk)) = memory.locate(at) else {
                continue;
            };
            // What drains is in no order any more, or will soon be in none.
            let PageState::Serving(class) = memory.state_of(page) else {
                continue;
            };
            if locked.as_ref().is_none_or(|(other, _)| *other != class) {
                drop(locked.take());
                locked = Some((class, view.orders.lock(class)));
            }
            let Some((_, order)) = &mut locked else { continue };
            apply(view, (class, order), (page, chunk), what, now);
            if let What::StoredOver(_) = what {
                memory.touch(at, geometry.chunk as usize);
                touch(view, switch, at);
            }
        }
    }
}

/// Prefetches the metadata of the chunk at `at`, which may come from a racy read.
#[inline(never)]
pub(super) fn prefetch_metadata(view: View<'_>, at: Offset) {
    if let Some((page, geometry, chunk)) = view.pool.memory().locate(at) {
        let used = view.orders.metadata().iter().filter(|metadata| !metadata.notes().is_none());
        used.for_each(|metadata| metadata.prefetch(metadata.layout(geometry), (page, chunk)));
    }
}

/// Updates the metadata of what was read at `at`. True if an order wants to hear of the read.
fn touch(view: View<'_>, switch: &PolicySwitch, at: Offset) -> bool {
    let Some((page, _, chunk)) = view.pool.memory().locate(at) else {
        return false;
    };
    let (now, mut tells) = (view.moment(), false);
    for (area, hook) in switch.read_hooks() {
        if hook != ReadHook::NOTHING
            && let Some(class) = view.pool.memory().class_at(at)
        {
            let chunks = view.chunks(area, class, &[]);
            tells |= hook.touch(&chunks, chunks.number(page, chunk), now);
        }
    }
    tells
}

/// Has the order of a class hear of an event.
fn apply(
    view: View<'_>,
    (class, order): (ClassId, &mut ClassOrder),
    (page, chunk): (PageId, u32),
    what: What,
    now: Moment,
) {
    let chunks = view.chunks(order.placed.area, class, &[]);
    let chunk = chunks.number(page, chunk);
    let Some(incoming) = &mut order.incoming else {
        return match what {
            What::Stored(arrival) | What::StoredOver(arrival) => {
                order.placed.state.stored(&chunks, chunk, arrival, now);
            }
            What::Spared => order.placed.state.put_back(&chunks, chunk, now),
            What::Read => order.placed.state.was_read(&chunks, chunk, now),
        };
    };
    let new = view.chunks(incoming.placed.area, class, &[]);
    match what {
        What::Stored(arrival) | What::StoredOver(arrival) => {
            order.placed.state.removed(&chunks, chunk);
            incoming.placed.state.stored(&new, chunk, arrival, now);
        }
        What::Spared => {
            order.placed.state.removed(&chunks, chunk);
            incoming.placed.state.stored(&new, chunk, Arrival::UNKNOWN, now);
        }
        What::Read => {
            order.placed.state.was_read(&chunks, chunk, now);
            incoming.placed.state.was_read(&new, chunk, now);
        }
    }
}
