//! Storing over an item that was found ahead of time.
//!
//! Most sets replace an item by one that fits where it lies. That case is dealt with here, in not many more instructions than a read takes, if
//! nobody else holds the partition, the guess was right, and the new item takes no more bytes and has the same fields; all others are in [`crate::update`].

use crate::anew::Cause;
use crate::bucket::Bucket;
use crate::entry::Entry;
use crate::partition::partition_of;
use crate::session::{Guess, MicaSession};
use crate::space::Space;
use crate::update::Writer;
use guira_contract::{Access, Decision, ItemView, Key, Value};
use guira_items::hooks::{self, Window};
use guira_sync::clock::Seconds;
use guira_sync::words;

impl<S: Space> MicaSession<S> {
    /// Does what `decide` says, if the usual case is what it comes to. Otherwise nothing was done, though `decide` may have been asked, and the partition may be
    /// held: whoever calls goes on with [`MicaSession::change`].
    #[inline(always)]
    pub(crate) fn refill<'d, F>(&mut self, key: Key<'_>, guess: Guess, now: Seconds, decide: &mut F) -> bool
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let number = partition_of(key.hash, self.core.bits);
        if !self.holdings.try_take(&self.core, number) {
            return false;
        }
        let is_done = self.refill_held(number, key, guess, now, decide);
        // If not, it is about to be worked on all the same.
        if is_done {
            self.holdings.release(&self.core, number);
        }
        is_done
    }

    #[inline(always)]
    fn refill_held<'d, F>(
        &mut self,
        number: usize,
        key: Key<'_>,
        guess: Guess,
        now: Seconds,
        decide: &mut F,
    ) -> bool
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let writer = self.writer(number, now);
        let Some((bucket, entry)) = writer.guessed(key, guess) else {
            return false;
        };
        let Decision::Put(new) = decide(Some(&entry)) else {
            return false;
        };
        let Value::Bytes(value) = new.value else {
            return false;
        };
        let header_spec = writer.header_spec(key, entry.place(), &new);
        let shape = header_spec.shape(value.len());
        // It has its room, and no other limit is one of what takes no more than the item that is there.
        let is_smaller = entry.has_fields_of(shape) && shape.size() <= entry.size();
        if !is_smaller || !entry.suits(shape.units()) {
            return false;
        }
        // Nothing moves: what was guessed of the bucket stays true. Under EREW nobody else reads meanwhile, and its line need not be written.
        let open = (writer.core.access != Access::Erew).then(|| bucket.open());
        header_spec.write_over(entry.words(), shape);
        hooks::pause(Window::Refilling);
        words::copy_in(entry.words(), shape.value_at(), value);
        drop(open);
        writer.note_use(&entry, guess.offset);
        writer.account_replaced(&entry, shape, Cause::Store);
        true
    }
}

impl<'s, S: Space> Writer<'s, S> {
    /// The item that was guessed to be under the key, if it is, is alive and may stay where it lies; and its bucket.
    #[inline(always)]
    fn guessed(&self, key: Key<'_>, guess: Guess) -> Option<(Bucket<'s>, Entry<'s>)> {
        if self.core.flushes.count_at(self.now) != Some(self.part.flushes()) {
            return None;
        }
        let bucket = self.part.index.bucket(guess.bucket);
        if !bucket.begins_as(guess.version) {
            return None;
        }
        let entry = self.entry_at(guess.offset).filter(|_| !self.is_pinned(guess.offset))?;
        (entry.key_is(key.bytes) && !entry.expiry().passed(self.now)).then_some((bucket, entry))
    }
}
