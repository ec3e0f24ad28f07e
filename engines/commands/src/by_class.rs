//! Estimated counts by slab class: one command of every [`SAMPLED`] of a kind is sampled, and counts as that many.
//! Finding the class of every item that is read would cost an access to its page's descriptor.

use crate::counters::{CommandCount, SAMPLED};
use crate::executor::Executor;
use guira_contract::{Key, Session};

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
