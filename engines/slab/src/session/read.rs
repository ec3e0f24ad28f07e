//! Reading a key, whatever is in the way.

use super::state::{Local, SessionState};
use super::update;
use crate::core::Core;
use crate::index::{Guess, Scheme, Visitor};
use crate::pins::pin::SlabPin;
use guira_contract::{
    Counter, Decision, ItemView, Key, Meta, MissKind, Provision, Read, Recency, Sink, Want,
};
use guira_items::hooks::{self, Window};
use guira_items::{INLINE_MAX, Item, SessionCounters};
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// What a reader took from an item.
enum Taken<'a> {
    Copied(Item<'a>),
    Pinned(Item<'a>, Box<Meta>),
    /// It is there no more.
    Dead(MissKind),
}

struct Reader<'a, 'k, 's, S, X: Scheme> {
    core: &'a Arc<Core<X>>,
    counters: &'a SessionCounters,
    key: Key<'k>,
    now: Seconds,
    sink: &'s mut S,
}

impl<'a, X: Scheme, S: Sink<Pin = SlabPin<X>>> Visitor for Reader<'a, '_, '_, S, X> {
    type Result = Taken<'a>;

    fn visit(&mut self, at: Offset) -> Option<Taken<'a>> {
        let core: &'a Core<X> = self.core;
        hooks::pause(Window::Visiting);
        let item = core.items.at(at, self.now)?;
        if !item.key_is(self.key.bytes) {
            return None;
        }
        // The item may be unlinked and its chunk refilled during the copy (hazard 2).
        hooks::pause(Window::Reading);
        if let Some(kind) = core.items.dead(&item, self.now) {
            return Some(Taken::Dead(kind));
        }
        match self.sink.wants() {
            Want::Value if item.value_len() > INLINE_MAX => return Some(pinned(core, item)),
            Want::Value => self.sink.found(&item),
            Want::Meta => self.sink.found(&item.of_class(core.pool.class_number(at))),
        }
        Some(Taken::Copied(item))
    }

    fn undo(&mut self, result: Taken<'a>) {
        match result {
            Taken::Dead(_) => {}
            Taken::Copied(_) => self.sink.undo(),
            Taken::Pinned(item, _) => self.core.unpin(item.at),
        }
    }

    fn repeats(&mut self) {
        self.counters.add(Counter::ReadRetries, 1);
    }
}

fn pinned<'a, X: Scheme>(core: &'a Core<X>, item: Item<'a>) -> Taken<'a> {
    core.pins.pin(item.at);
    Taken::Pinned(item, Box::new(item.of_class(core.pool.class_number(item.at)).meta()))
}

/// Reads a key, whatever is in the way.
#[cold]
#[inline(never)]
pub(crate) fn search<X: Scheme, S: Sink<Pin = SlabPin<X>>>(
    state: &mut SessionState<'_, X>,
    key: Key<'_>,
    now: Seconds,
    sink: &mut S,
) -> Read {
    let SessionState { core, local: Local { counters, events, .. } } = state;
    let core = &*core;
    let mut reader = Reader { core, counters, key, now, sink };
    match core.index.search(key.hash, &mut reader) {
        None => Read::Miss(MissKind::Absent),
        Some(Taken::Copied(item)) => {
            if sink.recency() == Recency::Bump {
                item.note_read(now);
                core.pool.memory().touch(item.at, item.shape().size());
                core.evictor().note_read(events, item.at);
            }
            Read::Hit
        }
        Some(Taken::Pinned(item, meta)) => {
            if sink.recency() == Recency::Bump {
                core.evictor().note_read(events, item.at);
            }
            hand_over(core, &item, &meta, now, sink);
            Read::Hit
        }
        Some(Taken::Dead(kind)) => {
            remove_dead(state, key, now);
            Read::Miss(kind)
        }
    }
}

/// Gives the sink a value that is pinned.
fn hand_over<X: Scheme, S: Sink<Pin = SlabPin<X>>>(
    core: &Arc<Core<X>>,
    item: &Item<'_>,
    meta: &Meta,
    now: Seconds,
    sink: &mut S,
) {
    let pin = SlabPin::<X>::of(core, item);
    let chunks = pin.chunks();
    sink.pinned(meta, pin);
    if sink.recency() == Recency::Bump {
        item.note_read(now);
        chunks.into_iter().for_each(|chunk| core.pool.memory().touch(chunk, core.pool.chunk_bytes(chunk)));
    }
}
/// Removes the item under `key` if it is dead.
#[cold]
#[inline(never)]
fn remove_dead<X: Scheme>(state: &mut SessionState<'_, X>, key: Key<'_>, now: Seconds) {
    // Nothing is stored, so nothing can be refused.
    let _ = update::update(state, (key, &Guess::default()), now, Provision::None, |_| Decision::Keep);
}
