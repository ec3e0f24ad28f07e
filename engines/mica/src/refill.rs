//! Storing over an item that was found ahead of time.
//!
//! Most sets replace an item by one that fits where it lies. This is the fast path for them, in not many more instructions than a read takes: no other
//! session holds the partition, the guess was right, and the new item takes no more bytes and has the same fields. [`crate::update`] does everything else.

use crate::anew::Cause;
use crate::entry::Entry;
use crate::guess::Guess;
use crate::index::Bucket;
use crate::local::Local;
use crate::partition::partition_of;
use crate::store::{Holder, ItemStore};
use crate::update::{account_replaced, header_spec, note_use};
use crate::writer::Writer;
use guira_contract::{Access, Decision, ItemView, Key, Value};
use guira_items::hooks::{self, Window};
use guira_sync::clock::Seconds;
use guira_sync::words;

/// Does what `decide` says, if that is the usual case. Otherwise nothing was done, though `decide` may have been called and the partition may be held: the
/// caller continues with [`crate::update`].
#[inline(always)]
pub(crate) fn refill<'d, S: ItemStore, F>(
    local: &mut Local<S>,
    key: Key<'_>,
    guess: Guess,
    now: Seconds,
    decide: &mut F,
) -> bool
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    let number = partition_of(key.hash, local.core().bits);
    if !local.try_take(number) {
        return false;
    }
    let is_done = refill_held(&local.writer(number, now), key, guess, decide);
    // If not, the caller is about to work on it.
    if is_done {
        local.release(number);
    }
    is_done
}

#[inline(always)]
fn refill_held<'d, S: ItemStore, F>(
    writer: &Writer<'_, S>,
    key: Key<'_>,
    guess: Guess,
    decide: &mut F,
) -> bool
where
    F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
{
    let Some((bucket, entry)) = guessed(writer, key, guess) else {
        return false;
    };
    let Decision::Put(new) = decide(Some(&entry)) else {
        return false;
    };
    let Value::Bytes(value) = new.value else {
        return false;
    };
    let header_spec = header_spec(writer, key, entry.place(), &new);
    let shape = header_spec.shape(value.len());
    // It has its room, and an item that takes no more than the one that is there breaks no other limit.
    let is_smaller = entry.has_fields_of(shape) && shape.size() <= entry.size();
    if !is_smaller || !entry.suits(shape.units()) {
        return false;
    }
    // Nothing moves: what was guessed of the bucket stays true. Under EREW no other session reads meanwhile, and its line need not be written.
    let open = (writer.core().locks.access() != Access::Erew).then(|| bucket.open());
    header_spec.write_over(entry.words(), shape);
    hooks::pause(Window::Refilling);
    words::copy_in(entry.words(), shape.value_at(), value);
    drop(open);
    note_use(writer, &entry, guess.offset);
    account_replaced(writer, &entry, shape, Cause::Store);
    true
}

/// The guessed item and its bucket, if it is under the key, alive, and may be changed where it lies.
#[inline(always)]
fn guessed<'s, S: ItemStore>(
    writer: &Writer<'s, S>,
    key: Key<'_>,
    guess: Guess,
) -> Option<(Bucket<'s>, Entry<'s>)> {
    let is_settled = writer.core().flushes.count_at(writer.time()) == Some(writer.part().flushes());
    if !is_settled || !writer.is_clean() {
        return None;
    }
    let bucket = writer.part().index().bucket(guess.bucket);
    if !bucket.begins_as(guess.version) {
        return None;
    }
    let entry = writer.entry_at(guess.offset)?;
    // No `filter`: its closure would not be inlined.
    if writer.is_pinned(guess.offset) {
        return None;
    }
    (entry.key_is(key.bytes) && !entry.expiry().passed(writer.time())).then_some((bucket, entry))
}
