//! Estimated counts by slab class: one command of every [`SAMPLED_BY_CLASS`] of a kind is sampled, and counts as that many.
//! Finding the class of every item that is read would cost an access to its page's descriptor.

use crate::counters::CommandCount;
use crate::executor::Executor;
use guira_contract::{Key, SAMPLED_BY_CLASS, Session};
use guira_protocol::Verb;

impl<S: Session> Executor<S> {
    /// Counts a key that was asked for and found. Whether it is sampled.
    #[inline(always)]
    pub(crate) fn count_hit(&self) -> bool {
        // To the compiler the counters could lie elsewhere after each addition.
        let counters = &*self.counters;
        counters.add(CommandCount::CmdGet, 1);
        counters.add(CommandCount::GetHits, 1);
        counters.get(CommandCount::GetHits).is_multiple_of(SAMPLED_BY_CLASS)
    }

    /// Counts the class of an item if the command just counted is sampled.
    #[inline(always)]
    pub(crate) fn sample(&mut self, what: CommandCount, key: Key<'_>) {
        if self.counters.get(what).is_multiple_of(SAMPLED_BY_CLASS) {
            self.count_class(what, key);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn count_class(&mut self, what: CommandCount, key: Key<'_>) {
        if let Some(meta) = self.meta_of(key) {
            self.counters.classes.add(meta.class, what);
        }
    }

    /// The same of a set, which was counted with those of its kind.
    #[inline(always)]
    pub(crate) fn sample_set(&mut self, key: Key<'_>, verb: Verb) {
        if self.counters.get(CommandCount::CmdSet).is_multiple_of(SAMPLED_BY_CLASS) {
            self.count_class_of_set(key, verb);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_class_of_set(&mut self, key: Key<'_>, verb: Verb) {
        if let Some(meta) = self.meta_of(key) {
            self.counters.classes.add(meta.class, CommandCount::CmdSet);
            if !matches!(verb, Verb::Cas(_)) {
                self.counters.classes.add_plain_set(meta.class);
            }
        }
    }

    /// The class of an item that is about to be deleted, if the delete is sampled.
    pub(crate) fn class_before_delete(&mut self, key: Key<'_>) -> Option<u8> {
        let next = self.counters.get(CommandCount::DeleteHits) + 1;
        if !next.is_multiple_of(SAMPLED_BY_CLASS) {
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
