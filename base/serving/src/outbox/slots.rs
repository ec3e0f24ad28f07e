//! The slots of an outbox, and the replies that have come for them.

use guira_memory::ValuePin;
use std::collections::VecDeque;
use std::ops::Range;

/// Names a slot of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId(u64);

/// The slots of an outbox that were not sent yet, by number: a ring, since they are sent in the order in which they were made.
#[derive(Debug)]
pub(super) struct Slots<P> {
    first: u64,
    ring: VecDeque<Option<LateReply<P>>>,
    /// The bytes of all replies that have come for them.
    late: Vec<u8>,
    /// How many of these were sent.
    gone: usize,
    /// How many are still empty.
    open: usize,
}

/// A reply that has come for a slot: bytes, with long values between them.
#[derive(Debug)]
struct LateReply<P> {
    /// Which of the late bytes.
    bytes: Range<usize>,
    /// Long values, each with the number of bytes before it.
    values: Vec<(usize, P)>,
}

impl<P: ValuePin> LateReply<P> {
    fn length(&self) -> usize {
        self.bytes.len() + self.values.iter().map(|(_, value)| value.value_len()).sum::<usize>()
    }

    /// Bytes of it from `from` on, as many as lie next to each other; its bytes are among `late`.
    fn piece<'a>(&'a self, late: &'a [u8], from: usize) -> &'a [u8] {
        let bytes = &late[self.bytes.clone()];
        let (mut left, mut done) = (from, 0);
        for (before, value) in &self.values {
            if left < before - done {
                return &bytes[done + left..*before];
            }
            left -= before - done;
            done = *before;
            if left < value.value_len() {
                return value.piece(left);
            }
            left -= value.value_len();
        }
        &bytes[done + left..]
    }

    /// Bytes of long values in it, without the first `sent` bytes of the reply.
    fn long_weight(&self, sent: usize) -> usize {
        let mut values_before = 0;
        let unsent = self.values.iter().map(|(before, value)| {
            let (begin, length) = (before + values_before, value.value_len());
            values_before += length;
            length - sent.saturating_sub(begin).min(length)
        });
        unsent.sum()
    }
}

impl<P> Default for Slots<P> {
    fn default() -> Self {
        Slots { first: 0, ring: VecDeque::new(), late: Vec::new(), gone: 0, open: 0 }
    }
}

impl<P: ValuePin> Slots<P> {
    /// Slots of which this will be the first.
    pub(super) fn from(first: SlotId) -> Self {
        Slots { first: first.0, ..Slots::default() }
    }

    pub(super) fn push(&mut self) -> SlotId {
        let id = SlotId(self.first + self.ring.len() as u64);
        self.ring.push_back(None);
        self.open += 1;
        id
    }

    /// How many are still empty.
    #[inline(always)]
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// The bytes of all replies that have come.
    pub(super) fn late_bytes(&self) -> usize {
        self.late.len()
    }

    pub(super) fn holding(&self) -> usize {
        self.late.capacity() + self.ring.capacity() * size_of::<Option<LateReply<P>>>()
    }

    /// The reply in a slot, if it has come.
    fn get(&self, id: SlotId) -> Option<&LateReply<P>> {
        self.ring.get(id.0.checked_sub(self.first)? as usize)?.as_ref()
    }

    /// How long the reply in a slot is; `None` if it has not come.
    pub(super) fn length(&self, id: SlotId) -> Option<usize> {
        self.get(id).map(LateReply::length)
    }

    /// Whether the reply in a slot has come, and is bytes alone.
    pub(super) fn is_bytes(&self, id: SlotId) -> bool {
        self.get(id).is_some_and(|reply| reply.values.is_empty())
    }

    /// Bytes of the reply in a slot from `from` on, as many as lie next to each other.
    pub(super) fn piece(&self, id: SlotId, from: usize) -> &[u8] {
        self.get(id).map_or(&[], |reply| reply.piece(&self.late, from))
    }

    /// Bytes of long values of the reply in a slot, of which `sent` bytes were sent.
    pub(super) fn long_weight(&self, id: SlotId, sent: usize) -> usize {
        self.get(id).map_or(0, |reply| reply.long_weight(sent))
    }

    /// Makes space for this many bytes of replies, and no more: what is held is counted by capacity.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.compact();
        self.late.reserve_exact(bytes);
    }

    /// A reply has come, of which `write` appends the bytes.
    pub(super) fn fill(&mut self, id: SlotId, values: Vec<(usize, P)>, write: impl FnOnce(&mut Vec<u8>)) {
        let from = self.late.len();
        write(&mut self.late);
        let number = id.0.wrapping_sub(self.first) as usize;
        if let Some(slot @ None) = self.ring.get_mut(number) {
            *slot = Some(LateReply { bytes: from..self.late.len(), values });
            self.open -= 1;
        }
    }

    /// Forgets the first, whose reply was sent.
    pub(super) fn pop(&mut self) {
        let first = self.ring.pop_front();
        self.gone += first.flatten().map_or(0, |reply| reply.bytes.len());
        self.first += 1;
    }

    /// Takes out the first, whose reply has not come.
    pub(super) fn pop_open(&mut self) {
        self.pop();
        self.open -= 1;
    }

    /// All that have come were sent: forgets their bytes, and keeps no more than `most` of what these have taken.
    pub(super) fn forget_sent(&mut self, most: usize) {
        self.late.clear();
        self.late.shrink_to(most);
        self.gone = 0;
    }

    /// Gives all of them to `other`, which has none. Later ones have other numbers.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        self.first = other.first + other.ring.len() as u64;
    }

    /// Gives back what the bytes of replies took that were sent, if it is as much as what the others take.
    fn compact(&mut self) {
        if self.gone == 0 || self.gone < self.late.len() / 2 {
            return;
        }
        let mut late = Vec::with_capacity(self.late.len() - self.gone);
        for reply in self.ring.iter_mut().flatten() {
            let from = late.len();
            late.extend_from_slice(&self.late[reply.bytes.clone()]);
            reply.bytes = from..late.len();
        }
        (self.late, self.gone) = (late, 0);
    }
}
