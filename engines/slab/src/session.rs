//! A thread's access to a slab engine, and reading.

use crate::core::Core;
use crate::draft::SlabDraft;
use crate::hooks::{self, Window};
use crate::index::Visitor;
use crate::item::Item;
use crate::pin::SlabPin;
use crate::stats::{Count, SessionCounters};
use guira_contract::{
    Decision, ItemView, Key, KeyHash, Meta, MissKind, Pace, Read, Recency, Refusal, Room, Session, Sink, Want,
};
use guira_memory::Offset;
use guira_sync::clock::Seconds;
use guira_sync::quiescence::Participant;
use std::sync::Arc;

/// The longest value that is copied under the version counters; longer ones are pinned. The plan's figure; the point
/// where copying begins to cost more than a pin and a second part in the send has not been measured yet.
pub(crate) const INLINE_MAX: usize = 16 << 10;

/// A session of a slab engine.
#[derive(Debug)]
pub struct SlabSession {
    pub(crate) core: Arc<Core>,
    pub(crate) participant: Participant,
    pub(crate) counters: Arc<SessionCounters>,
    /// Free chunks of each class, handed out to this session.
    pub(crate) caches: Vec<Vec<Offset>>,
    /// How many drains had begun when the caches were last cleared of chunks of draining pages.
    pub(crate) drains_seen: u64,
    /// Rounds of upkeep done.
    pub(crate) busy_rounds: u32,
}

impl SlabSession {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let participant = core.quiescence.register();
        let counters = core.registry.register();
        let caches = core.memory.classes().ids().map(|_| Vec::new()).collect();
        SlabSession { core, participant, counters, caches, drains_seen: 0, busy_rounds: 0 }
    }
}

/// What a reader took from an item.
enum Taken<'a> {
    /// The sink has it.
    Copied(Item<'a>),
    /// It is pinned.
    Pinned(Meta, Item<'a>),
    /// It is there no more.
    Dead(MissKind),
}

/// What would have to be taken back.
#[derive(Clone, Copy)]
enum Left {
    Nothing,
    Copy,
    Pin(Offset),
}

struct Reader<'a, 'k, S> {
    core: &'a Arc<Core>,
    key: Key<'k>,
    now: Seconds,
    sink: &'a mut S,
    left: Left,
}

impl<'a, S: Sink<Pin = SlabPin>> Visitor for Reader<'a, '_, S> {
    type Result = Taken<'a>;

    #[inline(always)]
    fn visit(&mut self, at: Offset) -> Option<Taken<'a>> {
        let core: &'a Core = self.core;
        hooks::pause(Window::Visiting);
        let item = core.item(at, self.now)?;
        if !item.key_is(self.key.bytes) {
            return None;
        }
        hooks::pause(Window::Reading);
        if let Some(kind) = core.dead(&item, self.now) {
            self.left = Left::Nothing;
            return Some(Taken::Dead(kind));
        }
        if item.value_len() > INLINE_MAX && self.sink.wants() == Want::Value {
            core.pins.pin(at);
            self.left = Left::Pin(at);
            return Some(Taken::Pinned(item.of_class(core.class_number(at)).meta(), item));
        }
        self.left = Left::Copy;
        match self.sink.wants() {
            Want::Value => self.sink.found(&item),
            Want::Meta => self.sink.found(&item.of_class(core.class_number(at))),
        }
        Some(Taken::Copied(item))
    }

    fn undo(&mut self) {
        match self.left {
            Left::Nothing => {}
            Left::Copy => self.sink.undo(),
            Left::Pin(at) => self.core.unpin(at),
        }
    }
}

impl Session for SlabSession {
    type Pin = SlabPin;
    type Draft = SlabDraft;

    #[inline(always)]
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.core.hash(key)
    }

    #[inline(always)]
    fn prefetch_buckets(&self, hash: KeyHash) {
        self.core.index.prefetch_buckets(hash);
    }

    #[inline(always)]
    fn prefetch_item(&self, hash: KeyHash) {
        if let Some(at) = self.core.index.guess(hash) {
            self.core.region.prefetch(at.bytes());
            self.core.region.prefetch(at.bytes() + 56);
            self.core.memory.prefetch_recency(at);
        }
    }

    #[inline(always)]
    fn read<S: Sink<Pin = SlabPin>>(&mut self, key: Key<'_>, now: Seconds, sink: &mut S) -> Read {
        let core = &self.core;
        core.settle_flush(now);
        let mut reader = Reader { core, key, now, sink, left: Left::Nothing };
        let found = core.index.search(key.hash, &mut reader);
        if found.retries > 0 {
            self.counters.add(Count::ReadRetries, found.retries);
        }
        match found.result {
            None => Read::Miss(MissKind::Absent),
            Some(Taken::Copied(item)) => {
                if reader.sink.recency() == Recency::Bump {
                    item.note_read(now);
                    core.memory.touch(item.at);
                }
                Read::Hit
            }
            Some(Taken::Pinned(meta, item)) => {
                let pin = SlabPin::of(core, &item);
                let chunks = pin.chunks();
                reader.sink.pinned(&meta, pin);
                if reader.sink.recency() == Recency::Bump {
                    item.note_read(now);
                    chunks.into_iter().for_each(|chunk| core.memory.touch(chunk));
                }
                Read::Hit
            }
            Some(Taken::Dead(kind)) => {
                self.remove_dead(key, now);
                Read::Miss(kind)
            }
        }
    }

    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        now: Seconds,
        room: Option<Room>,
        draft: Option<SlabDraft>,
        decide: F,
    ) -> Result<(), Refusal>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        self.read_modify_write(key, now, room, draft, decide)
    }

    fn draft(&mut self, key: &[u8], room: Room) -> Result<SlabDraft, Refusal> {
        if !self.fits(key.len(), &room) {
            return Err(Refusal::TooLarge);
        }
        self.new_draft(key.len(), &room).ok_or(Refusal::NoMemory)
    }

    fn inline_max(&self) -> usize {
        INLINE_MAX
    }

    fn fits(&self, key_len: usize, room: &Room) -> bool {
        Core::counted_size(key_len, room.flags, room.value_len) <= self.core.options.max_item_size
    }

    fn next_cas(&mut self) -> u64 {
        self.core.next_cas()
    }

    #[inline]
    fn quiesce(&mut self) {
        self.return_draining_chunks();
        self.participant.quiesce();
    }

    fn offline(&mut self) {
        self.return_draining_chunks();
        self.participant.offline();
    }

    fn rest(&mut self) {
        for class in 0..self.caches.len() {
            for at in std::mem::take(&mut self.caches[class]) {
                self.core.give_chunk(at);
            }
        }
    }

    fn online(&mut self) {
        self.participant.online();
    }

    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize {
        self.do_maintain(now, pace, budget)
    }
}

impl Drop for SlabSession {
    fn drop(&mut self) {
        self.rest();
    }
}
