//! Estimated counts by slab class: one command of every [`SAMPLED`] of a kind is sampled, and counts as that many.
//! Finding the class of every item that is read would cost an access to its page's descriptor.

use crate::Executor;
use crate::counters::CommandCount;
use guira_contract::{Key, Session};
use guira_sync::counters::Counters;

/// The sampling interval; a power of two.
pub(crate) const SAMPLED: u64 = 32;

/// The counters by class, in the order of `stats slabs`.
pub const BY_CLASS: [CommandCount; 8] = [
    CommandCount::GetHits,
    CommandCount::CmdSet,
    CommandCount::DeleteHits,
    CommandCount::IncrHits,
    CommandCount::DecrHits,
    CommandCount::CasHits,
    CommandCount::CasBadval,
    CommandCount::TouchHits,
];

/// A class is numbered by a byte.
const CLASSES: usize = 256;

#[derive(Debug)]
pub struct ClassCounters(Box<[Counters<{ BY_CLASS.len() }>]>);

impl Default for ClassCounters {
    fn default() -> Self {
        ClassCounters((0..CLASSES).map(|_| Counters::default()).collect())
    }
}

impl ClassCounters {
    /// An estimate of how often `BY_CLASS[index]` was counted in `class`.
    pub fn get(&self, class: u8, index: usize) -> u64 {
        self.0[usize::from(class)].get(index)
    }

    fn add(&self, class: u8, what: CommandCount) {
        if let Some(index) = BY_CLASS.iter().position(|other| *other == what) {
            self.0[usize::from(class)].add(index, SAMPLED);
        }
    }
}

impl<S: Session> Executor<S> {
    /// Counts the class of an item if the command just counted is sampled.
    #[inline(always)]
    pub(crate) fn sample(&mut self, what: CommandCount, key: Key<'_>) {
        if self.counters.get(what).is_multiple_of(SAMPLED) {
            self.count_class(what, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_class(&mut self, what: CommandCount, key: Key<'_>) {
        if let Some(meta) = self.meta_of(key) {
            self.counters.classes.add(meta.class, what);
        }
    }

    /// The class of an item that is about to be deleted, if the delete is sampled.
    pub(crate) fn class_before_delete(&mut self, key: Key<'_>) -> Option<u8> {
        let next = self.counters.get(CommandCount::DeleteHits) + 1;
        if !next.is_multiple_of(SAMPLED) {
            return None;
        }
        self.meta_of(key).map(|meta| meta.class)
    }

    pub(crate) fn sample_delete(&mut self, class: Option<u8>) {
        if let Some(class) = class {
            self.counters.classes.add(class, CommandCount::DeleteHits);
        }
    }
}
