//! Finding a chunk for a session.
//!
//! Free chunks of the class come first, then a new page, then eviction: the hand frees items of any class ([`evictor::sweep`]). As soon as the free chunks of
//! another class make up a page, one of its pages is emptied ([`donors`]). All of that is bounded, and none of it waits.

use crate::dead;
use crate::donors::{self, Idle};
use crate::evictor;
use crate::local::Local;
use crate::pool::Taking;
use guira_contract::{ClassCounter, Key, StoreError};
use guira_items::Eviction;
use guira_memory::Offset;
use guira_memory::slab::ClassId;
use guira_sync::atomic::yield_now;
use guira_sync::clock::Seconds;
use guira_sync::hazard::Hazard;

/// How often the hand is turned for one chunk at most.
const SWEEPS_MAX: u32 = 256;
/// After so many turns the allocator asks for another class's page in any case.
const SWEEPS_A_QUESTION: u32 = 4;
/// After so many turns all sessions give back what they keep, if they did not in this second: a page of which one of them keeps a chunk cannot go to another
/// class.
const SWEEPS_A_RECALL: u32 = 64;
/// How often a session looks again after a recall, and without eviction, where memory stays full for long.
const RECALL_ROUNDS: u32 = 64;
const KEEPING_ROUNDS: u32 = 8;
/// Without eviction a store looks for dead items this often at most, as long as it finds some.
const LOOKS: usize = 16;

#[derive(Debug)]
pub(crate) struct Allocator {
    local: Local,
    /// How often it has turned the hand.
    sweeps: u32,
    /// Whether another class may have a page to spare: the last one had, or the last turn of the hand freed no chunk of the class in need.
    may_find_idle: bool,
}

impl Allocator {
    pub(crate) fn new(local: Local) -> Self {
        Allocator { local, sweeps: 0, may_find_idle: false }
    }

    #[inline(always)]
    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    #[inline(always)]
    pub(crate) fn local_mut(&mut self) -> &mut Local {
        &mut self.local
    }

    /// A chunk for `size` bytes of a new item. What is under the key `kept` is not evicted for it.
    pub(crate) fn take(&mut self, size: usize, kept: Option<Key<'_>>, now: Seconds) -> Option<Offset> {
        let class = self.local.core().memory.classes().class_for(size)?;
        self.prepare(class, kept, now).ok()?;
        self.local.cache().pop(class)
    }

    /// Fills the session's cache of `class` for a new item, if it is empty. What is under the key `kept` is not evicted for it.
    pub(crate) fn prepare(
        &mut self,
        class: ClassId,
        kept: Option<Key<'_>>,
        now: Seconds,
    ) -> Result<(), StoreError> {
        if self.local.cache().has(class) {
            return Ok(());
        }
        let _held = kept.and_then(|key| self.hold(key, now));
        self.refill(class, Taking::Fresh, now)
    }

    /// Announces the item under `key` while memory is looked for. An announced item is not evicted; without this the hand might take the very item that is
    /// to be changed.
    #[cold]
    #[inline(never)]
    pub(crate) fn hold(&mut self, key: Key<'_>, now: Seconds) -> Option<Hazard> {
        let mut editor = self.local.editor();
        let core = editor.core();
        editor.at_key(core.table.bucket_of(key.hash.0), key, now, |_, spot| {
            let node = spot.node?;
            let hazard = core.announcements.claim();
            hazard.announce(0, node.at.bytes() as u64);
            // An item that was removed before it was announced is not held.
            node.stands().then_some(hazard)
        })
    }

    /// Fills the session's cache of `class`, which is empty.
    pub(crate) fn refill(&mut self, class: ClassId, taking: Taking, now: Seconds) -> Result<(), StoreError> {
        self.local.core().shell.see_time(now);
        if self.refill_free(class, taking) {
            return Ok(());
        }
        self.local.reclaim();
        if self.has_or_refills(class, taking) {
            return Ok(());
        }
        let found = match self.eviction() {
            // A file system that was full has taken the pages of all classes: no session has anything to give back.
            _ if self.local.core().memory.has_no_page(class) => false,
            Eviction::On => self.borrow(class) || self.evict(class, taking, now),
            Eviction::Off => self.refill_keeping(class, taking, now),
        };
        if !found {
            self.local.counters().add_to_class(Some(class), ClassCounter::OutOfMemory, 1);
            return Err(StoreError::NoMemory);
        }
        Ok(())
    }

    fn eviction(&self) -> Eviction {
        self.local.core().options.engine.eviction
    }

    fn refill_free(&mut self, class: ClassId, taking: Taking) -> bool {
        let (editor, cache) = self.local.editor_and_cache();
        cache.refill(&editor.core().memory, class, taking)
    }

    fn has_or_refills(&mut self, class: ClassId, taking: Taking) -> bool {
        self.local.cache().has(class) || self.refill_free(class, taking)
    }

    fn borrow(&mut self, class: ClassId) -> bool {
        let (editor, cache) = self.local.editor_and_cache();
        cache.borrow(&editor.core().memory, class)
    }

    /// Evicts until there is a chunk of the class.
    fn evict(&mut self, class: ClassId, taking: Taking, now: Seconds) -> bool {
        let mut idle = Idle::None;
        for _ in 0..SWEEPS_MAX {
            self.sweeps = self.sweeps.wrapping_add(1);
            if self.sweeps.is_multiple_of(SWEEPS_A_RECALL) && self.local.core().memory.is_recall_due(now) {
                self.local.recall();
            }
            if self.may_find_idle || self.sweeps.is_multiple_of(SWEEPS_A_QUESTION) {
                idle = donors::take_idle(&mut self.local, class, now);
                self.may_find_idle = idle == Idle::Taken;
                if idle == Idle::Taken && self.refill_free(class, taking) {
                    return true;
                }
            }
            let evicted = evictor::sweep(&mut self.local.editor(), now);
            self.local.reclaim();
            if self.has_or_refills(class, taking) {
                return true;
            }
            // Of long items one turn frees a page and more.
            self.may_find_idle = idle != Idle::Stuck;
            if evicted == 0 {
                break;
            }
        }
        self.recall(RECALL_ROUNDS, (class, taking), now)
    }

    /// Asks the other sessions to give back their free chunks, and looks again `rounds` times.
    #[cold]
    fn recall(&mut self, rounds: u32, (class, taking): (ClassId, Taking), now: Seconds) -> bool {
        self.local.recall();
        for _ in 0..rounds {
            let is_taken = self.refill_free(class, taking)
                || match self.eviction() {
                    Eviction::On => donors::take_any(&mut self.local, class, now),
                    Eviction::Off => donors::take_empty(&mut self.local, class),
                };
            if is_taken && self.has_or_refills(class, taking) {
                return true;
            }
            yield_now();
        }
        false
    }

    /// Finds chunks without eviction: dead items and empty pages.
    fn refill_keeping(&mut self, class: ClassId, taking: Taking, now: Seconds) -> bool {
        for _ in 0..LOOKS {
            // Dead items may be of other classes.
            let found = dead::remove_some(&mut self.local, now);
            self.local.reclaim();
            if self.has_or_refills(class, taking) {
                return true;
            }
            if !found {
                break;
            }
        }
        (donors::take_empty(&mut self.local, class) && self.refill_free(class, taking))
            || self.recall(KEEPING_ROUNDS, (class, taking), now)
    }
}
