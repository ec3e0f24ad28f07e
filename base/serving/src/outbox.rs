//! What a connection is going to be sent: bytes, with long values and reply slots between them.
//!
//! Most replies are bytes in a buffer that the worker uses for one connection after another. Two things are *inserted* at a
//! place between the bytes: a long value, which is sent from where it lies, and a slot, whose reply comes later, from another
//! worker or another server. Everything is sent in order, up to the first slot that is still empty.

use crate::ConnMemory;
use guira_memory::ValuePin;
use guira_protocol::{Replies, ReplyBuffer};
use guira_transport::{Progress, Stream};
use std::collections::VecDeque;
use std::io::{self, IoSlice};

mod slots;
mod spares;

pub use slots::SlotId;
use slots::Slots;
pub(crate) use spares::Spares;

/// An outbox is full when it holds this many bytes: what follows waits until they were sent.
pub const OUTBOX_FULL: usize = 64 << 10;
/// The same while memory for connections is short.
pub(crate) const OUTBOX_FULL_SHORT: usize = 2 << 10;

/// A place in an outbox: bytes of its buffer, and inserts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyEnd {
    bytes: usize,
    inserts: usize,
}

/// Replies that were not sent yet.
#[derive(Debug)]
pub struct Outbox<P> {
    buffer: ReplyBuffer,
    /// How many bytes of the buffer were sent.
    sent: usize,
    inserts: VecDeque<Insert<P>>,
    slots: Slots<P>,
}

#[derive(Debug)]
struct Insert<P> {
    /// How many bytes of the buffer come before it.
    at: usize,
    what: Inserted<P>,
    /// How much of it was sent.
    sent: usize,
}

#[derive(Debug)]
enum Inserted<P> {
    Value(P),
    /// The reply in a slot, which may be still to come.
    Slot(SlotId),
}

impl<P: ValuePin> Insert<P> {
    /// Bytes of it from `from` on, as many as lie next to each other.
    fn piece<'a>(&'a self, slots: &'a Slots<P>, from: usize) -> &'a [u8] {
        match &self.what {
            Inserted::Value(pin) => pin.piece(from),
            Inserted::Slot(id) => slots.piece(*id, from),
        }
    }

    /// How long it is; `None` if it is a slot that is still empty.
    fn length(&self, slots: &Slots<P>) -> Option<usize> {
        match &self.what {
            Inserted::Value(pin) => Some(pin.value_len()),
            Inserted::Slot(id) => slots.length(*id),
        }
    }

    /// Bytes of long values that were not sent.
    fn long_weight(&self, slots: &Slots<P>) -> usize {
        match &self.what {
            Inserted::Value(pin) => pin.value_len() - self.sent,
            Inserted::Slot(id) => slots.long_weight(*id, self.sent),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    All,
    /// The socket takes no more for now.
    Blocked,
    /// As much as was to be sent at once.
    Enough,
    /// The next reply has not come yet.
    Waiting,
    Ended,
}

/// What an outbox has to send first.
enum First<'a> {
    /// This, which is all that it has.
    All(&'a [u8]),
    /// A reply that has not come.
    Awaited,
    /// A part of what it has.
    OfSeveral,
}

/// No buffer larger than this is kept: twice what an outbox holds when it is full and has taken one reply more.
const KEPT_MAX: usize = 4 * OUTBOX_FULL;

/// Parts handed to the system at once.
const PARTS: usize = 16;

impl<P: ValuePin> Outbox<P> {
    /// An empty outbox with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Outbox {
            buffer: ReplyBuffer::with_capacity(capacity),
            sent: 0,
            inserts: VecDeque::new(),
            slots: Slots::default(),
        }
    }

    /// One that has these bytes to send.
    pub fn of(bytes: &[u8]) -> Self {
        let mut outbox = Self::with_capacity(bytes.len());
        outbox.buffer.put(bytes);
        outbox
    }

    /// An outbox that waits for the reply in a slot of another outbox, and has nothing else to send.
    pub(crate) fn awaiting(slot: SlotId) -> Self {
        let mut outbox = Self::with_capacity(0);
        outbox.slots = Slots::from(slot);
        outbox.defer();
        outbox
    }

    /// Takes the slot of the awaited reply, if there is only one and nothing else to send. The outbox is empty then.
    #[inline]
    pub(crate) fn take_only_slot(&mut self) -> Option<SlotId> {
        if self.inserts.len() != 1 || self.sent != self.buffer.len() {
            return None;
        }
        let slot = self.next_slot()?;
        self.inserts.clear();
        self.slots.pop_open();
        self.empty();
        Some(slot)
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.sent == self.buffer.len() && self.inserts.is_empty()
    }

    /// Whether everything asked for so far is answered and on its way: nothing is to be sent, or a client has ended its requests with mn,
    /// after which memcached sends what it has.
    pub fn is_settled(&self) -> bool {
        self.is_empty() || self.buffer.as_slice().ends_with(b"MN\r\n")
    }

    /// Bytes in the buffer, and long values, that are waiting: a measure of when to stop.
    #[inline(always)]
    pub fn weight(&self) -> usize {
        let long = if self.inserts.is_empty() { 0 } else { self.long_weight() };
        self.buffer.len() - self.sent + long
    }

    /// What it holds: bytes, and bytes of long values.
    pub fn holding(&self) -> ConnMemory {
        let slots = self.slots.holding();
        ConnMemory { bytes: self.buffer.len() + slots + size_of::<Self>(), pinned: self.long_weight() }
    }

    fn long_weight(&self) -> usize {
        self.inserts.iter().map(|insert| insert.long_weight(&self.slots)).sum()
    }

    /// How many slots are still empty.
    #[inline(always)]
    pub fn open_slots(&self) -> usize {
        self.slots.open()
    }

    /// Puts replies that have all come, and are bytes alone, next to each other, so that they are sent as one part: a part costs the system
    /// more than its bytes do. Long ones stay as they are. `scratch` is used for it, and left empty.
    pub fn flatten(&mut self, scratch: &mut Vec<u8>) {
        let is_bytes = |insert: &Insert<P>| match &insert.what {
            Inserted::Value(_) => false,
            Inserted::Slot(id) => self.slots.is_bytes(*id),
        };
        let is_long = self.slots.late_bytes() > KEPT_MAX;
        if self.inserts.len() < 2 || is_long || !self.inserts.iter().all(is_bytes) {
            return;
        }
        scratch.reserve_exact(self.buffer.len() - self.sent + self.slots.late_bytes());
        self.collect(scratch);
        self.buffer.swap(scratch);
        scratch.clear();
    }

    /// Whether there is so much to send that nothing is waited for. Slots that are still empty count nothing.
    pub fn is_full(&self) -> bool {
        self.buffer.len() - self.sent + self.slots.late_bytes() >= OUTBOX_FULL
    }

    /// The slot that everything else waits for, if all before it was sent.
    pub fn next_slot(&self) -> Option<SlotId> {
        match self.inserts.front() {
            Some(Insert { at, what: Inserted::Slot(slot), .. })
                if *at == self.sent && self.slots.length(*slot).is_none() =>
            {
                Some(*slot)
            }
            _ => None,
        }
    }

    /// Whether there are long values or slots between the bytes.
    #[inline(always)]
    pub fn has_inserts(&self) -> bool {
        !self.inserts.is_empty()
    }

    /// The bytes from one place to another; `None` if there are inserts between them.
    pub(crate) fn bytes_between(&self, from: ReplyEnd, to: ReplyEnd) -> Option<&[u8]> {
        (from.inserts == to.inserts).then(|| &self.buffer.as_slice()[from.bytes..to.bytes])
    }

    /// Everything before `end` was sent, and there are no inserts in it.
    pub(crate) fn pass(&mut self, end: ReplyEnd) {
        debug_assert_eq!(end.inserts, 0);
        self.sent = end.bytes;
    }

    #[inline(always)]
    pub fn end(&self) -> ReplyEnd {
        ReplyEnd { bytes: self.buffer.len(), inserts: self.inserts.len() }
    }

    /// Forgets everything, and keeps a buffer of no more than `most` bytes. Returns how many these are.
    pub fn forget(&mut self, most: usize) -> usize {
        self.inserts.clear();
        self.sent = 0;
        if self.buffer.capacity() > most {
            self.buffer = ReplyBuffer::with_capacity(0);
        } else {
            self.buffer.clear();
        }
        self.buffer.capacity()
    }

    /// Leaves a place for a reply that comes later.
    pub fn defer(&mut self) -> SlotId {
        let id = self.slots.push();
        self.inserts.push_back(Insert { at: self.buffer.len(), what: Inserted::Slot(id), sent: 0 });
        id
    }

    /// Replies have come for slots: they are taken out of `replies`, where each ends as `parts` says.
    pub fn fill(&mut self, parts: impl Iterator<Item = (SlotId, ReplyEnd)> + Clone, replies: &mut Outbox<P>) {
        self.slots.reserve(parts.clone().last().map_or(0, |(_, end)| end.bytes));
        let bytes = replies.buffer.as_slice();
        let mut inserts = replies.inserts.drain(..);
        let mut done = ReplyEnd::default();
        for (slot, end) in parts {
            let of_slot = inserts.by_ref().take(end.inserts - done.inserts);
            let values = of_slot.filter_map(|insert| match insert.what {
                Inserted::Value(value) => Some((insert.at - done.bytes, value)),
                // What is executed for another worker is not forwarded again.
                Inserted::Slot(_) => None,
            });
            let values = values.collect();
            self.slots.fill(slot, values, |late| late.extend_from_slice(&bytes[done.bytes..end.bytes]));
            done = end;
        }
        // Replies without a byte, to what is quiet, are sent by this.
        self.advance(0);
    }

    /// The same for replies that are bytes alone, `length` together: `write` appends each of them.
    pub fn fill_bytes<R>(
        &mut self,
        replies: impl Iterator<Item = (SlotId, R)>,
        length: usize,
        write: impl Fn(R, &mut Vec<u8>),
    ) {
        self.slots.reserve(length);
        for (slot, reply) in replies {
            self.slots.fill(slot, Vec::new(), |late| write(reply, late));
        }
        // Replies without a byte, to what is quiet, are sent by this.
        self.advance(0);
    }

    /// What is to be sent first.
    #[inline]
    fn first(&self) -> First<'_> {
        let bytes = &self.buffer.as_slice()[self.sent..];
        let Some(first) = self.inserts.front() else {
            return First::All(bytes);
        };
        let (Inserted::Slot(slot), true) = (&first.what, first.at == self.sent) else {
            return First::OfSeveral;
        };
        if self.slots.length(*slot).is_none() {
            return First::Awaited;
        }
        let is_all = bytes.is_empty() && self.inserts.len() == 1 && self.slots.is_bytes(*slot);
        if is_all { First::All(self.slots.piece(*slot, first.sent)) } else { First::OfSeveral }
    }

    /// What is to be sent next, in order: at most `most` bytes, in at most [`PARTS`] parts.
    fn parts(&self, most: usize) -> arrayvec::ArrayVec<IoSlice<'_>, PARTS> {
        let mut parts = arrayvec::ArrayVec::new();
        let mut left = most;
        let bytes = self.buffer.as_slice();
        let mut from = self.sent;
        for insert in &self.inserts {
            from += add(&mut parts, &bytes[from..insert.at], &mut left);
            let Some(length) = insert.length(&self.slots).filter(|_| from == insert.at) else {
                return parts;
            };
            let mut position = insert.sent;
            while position < length {
                let taken = add(&mut parts, insert.piece(&self.slots, position), &mut left);
                if taken == 0 {
                    return parts;
                }
                position += taken;
            }
        }
        add(&mut parts, &bytes[from..], &mut left);
        parts
    }

    /// Passes over bytes that were sent.
    fn advance(&mut self, mut bytes: usize) {
        while let Some(insert) = self.inserts.front_mut() {
            let before = insert.at - self.sent;
            if bytes < before {
                break;
            }
            bytes -= before;
            self.sent += before;
            let Some(length) = insert.length(&self.slots) else {
                break;
            };
            let part = bytes.min(length - insert.sent);
            insert.sent += part;
            bytes -= part;
            if insert.sent < length {
                break;
            }
            if let Some(Insert { what: Inserted::Slot(_), .. }) = self.inserts.pop_front() {
                self.slots.pop();
            }
        }
        self.sent += bytes;
    }

    /// Sends as much as can be sent now, at most `most` bytes. Returns how it went, and how many bytes were sent.
    ///
    /// # Errors
    /// What the system says; the connection is of no use any more.
    pub fn send(&mut self, stream: &mut Stream, most: usize) -> io::Result<(Sent, usize)> {
        let mut total = 0;
        loop {
            if self.is_empty() {
                self.empty();
                return Ok((Sent::All, total));
            }
            let left = most - total;
            if left == 0 {
                return Ok((Sent::Enough, total));
            }
            let progress = match self.first() {
                First::All(piece) => stream.write(&piece[..piece.len().min(left)])?,
                First::Awaited => return Ok((Sent::Waiting, total)),
                First::OfSeveral => {
                    let parts = self.parts(left);
                    if parts.is_empty() {
                        return Ok((Sent::Waiting, total));
                    }
                    stream.write_vectored(&parts)?
                }
            };
            match progress {
                Progress::Moved(bytes) => {
                    total += bytes;
                    self.advance(bytes);
                }
                Progress::Blocked => return Ok((Sent::Blocked, total)),
                Progress::Ended => return Ok((Sent::Ended, total)),
            }
        }
    }

    /// Takes everything out, up to the first reply that has not come, and appends it to `out`.
    pub fn collect(&mut self, out: &mut Vec<u8>) {
        while !self.is_empty() {
            let before = out.len();
            for part in self.parts(usize::MAX) {
                out.extend_from_slice(&part);
            }
            let taken = out.len() - before;
            if taken == 0 {
                return;
            }
            self.advance(taken);
        }
        self.empty();
    }

    /// Forgets everything.
    pub(crate) fn forget_all(&mut self) {
        self.inserts.clear();
        self.empty();
    }

    /// Forgets what was sent. A buffer that a long answer has made large becomes a usual one again.
    fn empty(&mut self) {
        self.sent = 0;
        self.slots.forget_sent(spares::SPARE_BYTES);
        if self.buffer.capacity() > KEPT_MAX {
            self.buffer = ReplyBuffer::with_capacity(2 * OUTBOX_FULL);
        } else {
            self.buffer.clear();
        }
    }

    /// Takes what was not sent into an outbox of its own, and leaves this one empty.
    pub fn take_rest(&mut self) -> Outbox<P> {
        let mut taken = Outbox::with_capacity(0);
        self.move_rest(&mut taken);
        taken
    }

    /// Takes what was not sent into `other`, which is empty, and leaves this one empty.
    fn move_rest(&mut self, other: &mut Outbox<P>) {
        other.buffer.put(&self.buffer.as_slice()[self.sent..]);
        self.slots.move_to(&mut other.slots);
        std::mem::swap(&mut self.inserts, &mut other.inserts);
        for insert in &mut other.inserts {
            insert.at -= self.sent;
        }
        self.empty();
    }
}

/// Adds what there is room for, and what is left of the bytes to be sent at once, of a piece; returns how much that is.
fn add<'a>(parts: &mut arrayvec::ArrayVec<IoSlice<'a>, PARTS>, piece: &'a [u8], left: &mut usize) -> usize {
    let taken = if parts.is_full() { 0 } else { piece.len().min(*left) };
    if taken > 0 {
        *left -= taken;
        parts.push(IoSlice::new(&piece[..taken]));
    }
    taken
}

impl<P: ValuePin> Replies for Outbox<P> {
    type Pin = P;

    #[inline(always)]
    fn buffer(&mut self) -> &mut ReplyBuffer {
        &mut self.buffer
    }

    fn pin(&mut self, value: P) {
        self.inserts.push_back(Insert { at: self.buffer.len(), what: Inserted::Value(value), sent: 0 });
    }

    fn take_back(&mut self, length: usize) {
        self.buffer.truncate(length);
        while self.inserts.back().is_some_and(|insert| insert.at > length) {
            self.inserts.pop_back();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use guira_transport::net::UnixStream;
    use std::io::Read;

    #[derive(Debug)]
    pub(crate) struct TwoPieces(Vec<u8>, usize);

    impl ValuePin for TwoPieces {
        fn value_len(&self) -> usize {
            self.0.len()
        }
        fn piece(&self, from: usize) -> &[u8] {
            if from < self.1 { &self.0[from..self.1] } else { &self.0[from..] }
        }
    }

    pub(crate) fn pair() -> (Stream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Stream::Unix(ours), theirs)
    }

    pub(crate) fn read(stream: &mut UnixStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn values_are_sent_at_their_place_between_the_bytes() {
        let (mut stream, mut client) = pair();
        let mut outbox = Outbox::with_capacity(16);
        outbox.buffer().put(b"<");
        outbox.pin(TwoPieces(b"abcdef".to_vec(), 2));
        outbox.pin(TwoPieces(Vec::new(), 0));
        outbox.buffer().put(b">");
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::All, 8));
        assert_eq!(read(&mut client, 8), b"<abcdef>");
        assert!(outbox.is_empty());
    }

    #[test]
    fn no_more_is_sent_at_once_than_is_asked_for() {
        let (mut stream, mut client) = pair();
        let mut outbox = Outbox::with_capacity(16);
        outbox.buffer().put(b"<");
        outbox.pin(TwoPieces(b"abcdef".to_vec(), 2));
        outbox.buffer().put(b">");
        assert_eq!(outbox.send(&mut stream, 0).unwrap(), (Sent::Enough, 0));
        assert_eq!(outbox.send(&mut stream, 4).unwrap(), (Sent::Enough, 4));
        assert_eq!(read(&mut client, 4), b"<abc");
        let mut rest = outbox.take_rest();
        assert_eq!(rest.send(&mut stream, 3).unwrap(), (Sent::Enough, 3));
        assert_eq!(rest.send(&mut stream, 1).unwrap(), (Sent::All, 1));
        assert_eq!(read(&mut client, 4), b"def>");
        rest.buffer().put(b"bytes");
        assert_eq!(rest.send(&mut stream, 2).unwrap(), (Sent::Enough, 2));
        assert_eq!(rest.send(&mut stream, 9).unwrap(), (Sent::All, 3));
        assert_eq!(read(&mut client, 5), b"bytes");
    }

    #[test]
    fn everything_can_be_collected_in_order() {
        let mut outbox = Outbox::with_capacity(16);
        outbox.buffer().put(b"<");
        outbox.pin(TwoPieces(b"abcdef".to_vec(), 2));
        outbox.buffer().put(b">");
        let mut out = b"=".to_vec();
        outbox.collect(&mut out);
        assert_eq!(out, b"=<abcdef>");
        assert!(outbox.is_empty());
        outbox.collect(&mut out);
        assert_eq!(out.len(), 9);
    }

    #[test]
    fn replies_that_have_all_come_are_one_part() {
        let (mut stream, mut client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let mut scratch = Vec::new();
        outbox.buffer().put(b"<");
        let slots: Vec<SlotId> = (0..40).map(|_| outbox.defer()).collect();
        outbox.buffer().put(b">");
        outbox.flatten(&mut scratch);
        assert_eq!((outbox.open_slots(), outbox.inserts.len()), (40, 40), "nothing has come");
        let mut fill = |outbox: &mut Outbox<TwoPieces>, numbers: std::ops::Range<usize>| {
            let replies: Vec<_> = numbers.map(|number| (slots[number], [b'a' + number as u8 % 26])).collect();
            let parts = replies.iter().map(|(slot, bytes)| (*slot, bytes));
            outbox.fill_bytes(parts, replies.len(), |bytes, out| out.extend_from_slice(bytes));
            outbox.flatten(&mut scratch);
        };
        fill(&mut outbox, 20..40);
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::Waiting, 1));
        fill(&mut outbox, 0..20);
        assert_eq!((outbox.open_slots(), outbox.parts(usize::MAX).len()), (0, 1));
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::All, 41));
        assert_eq!(read(&mut client, 42), b"<abcdefghijklmnopqrstuvwxyzabcdefghijklmn>");
        outbox.defer();
        outbox.pin(TwoPieces(b"ab".to_vec(), 1));
        outbox.flatten(&mut scratch);
        assert_eq!(outbox.inserts.len(), 2, "a long value stays where it is");
    }

    #[test]
    fn a_long_answer_does_not_keep_its_buffer() {
        let (mut stream, client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let long = vec![b'x'; 2 << 20];
        outbox.buffer().put(&long);
        let reader = guira_sync::thread::spawn(move || {
            let mut client = client;
            read(&mut client, 2 << 20)
        });
        while outbox.send(&mut stream, usize::MAX).unwrap().0 != Sent::All {}
        assert!(outbox.buffer.capacity() <= KEPT_MAX, "sent");
        assert_eq!(reader.join().unwrap().len(), 2 << 20);
        outbox.buffer().put(&long);
        outbox.collect(&mut Vec::new());
        assert!(outbox.buffer.capacity() <= KEPT_MAX, "collected");
        outbox.buffer().put(&long);
        assert_eq!(outbox.take_rest().buffer.len(), 2 << 20);
        assert!(outbox.buffer.capacity() <= KEPT_MAX, "taken out");
    }

    fn fill(outbox: &mut Outbox<TwoPieces>, slot: SlotId, reply: &[u8]) {
        let mut replies = Outbox::of(reply);
        let end = replies.end();
        outbox.fill([(slot, end)].into_iter(), &mut replies);
    }

    #[test]
    fn replies_of_a_forward_batch_fill_their_slots_with_the_values_in_them() {
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let slots = [outbox.defer(), outbox.defer(), outbox.defer(), outbox.defer()];
        outbox.buffer().put(b".");
        let mut replies = Outbox::with_capacity(16);
        let mut parts = Vec::new();
        for (number, slot) in [0, 2, 3].into_iter().zip([slots[0], slots[2], slots[3]]) {
            if number != 2 {
                replies.buffer().put(b"<");
                replies.pin(TwoPieces(format!("{number}").repeat(4).into_bytes(), 1));
                replies.buffer().put(b"|");
                replies.pin(TwoPieces(b"xy".to_vec(), 1));
                replies.buffer().put(b">");
            }
            parts.push((slot, replies.end()));
        }
        outbox.fill(parts.into_iter(), &mut replies);
        assert_eq!(outbox.open_slots(), 1);
        let mut out = Vec::new();
        outbox.collect(&mut out);
        assert_eq!(out, b"<0000|xy>");
        fill(&mut outbox, slots[1], b"one");
        outbox.collect(&mut out);
        assert_eq!(out, b"<0000|xy>one<3333|xy>.");
        assert!(outbox.is_empty() && outbox.open_slots() == 0);
    }

    #[test]
    fn replies_that_were_sent_are_held_no_longer() {
        let (mut stream, mut client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let slots: Vec<SlotId> = (0..100).map(|_| outbox.defer()).collect();
        let ring = outbox.slots.holding();
        for (number, slot) in slots.iter().enumerate() {
            fill(&mut outbox, *slot, &[number as u8; 1000]);
            assert!(outbox.slots.holding() <= ring + 2000, "{number}");
            outbox.send(&mut stream, usize::MAX).unwrap();
            assert_eq!(read(&mut client, 1000), [number as u8; 1000]);
        }
        assert!(outbox.is_empty());
    }

    #[test]
    fn replies_without_a_byte_leave_nothing_to_send() {
        let (mut stream, _client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let slots = [outbox.defer(), outbox.defer(), outbox.defer()];
        assert_eq!(outbox.next_slot(), Some(slots[0]));
        fill(&mut outbox, slots[1], b"");
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::Waiting, 0));
        fill(&mut outbox, slots[0], b"");
        assert_eq!((outbox.next_slot(), outbox.open_slots()), (Some(slots[2]), 1));
        let mut outbox = outbox.take_rest();
        fill(&mut outbox, slots[2], b"");
        assert!(outbox.is_empty() && outbox.next_slot().is_none());
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::All, 0));
    }

    #[test]
    fn values_in_a_late_reply_are_held_until_they_are_sent() {
        let (mut stream, mut client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let slot = outbox.defer();
        let mut replies = Outbox::with_capacity(16);
        replies.buffer().put(b"<");
        replies.pin(TwoPieces(b"abcdef".to_vec(), 2));
        replies.buffer().put(b">");
        let end = replies.end();
        outbox.fill([(slot, end)].into_iter(), &mut replies);
        assert_eq!(outbox.holding().pinned, 6);
        assert_eq!(outbox.send(&mut stream, 3).unwrap(), (Sent::Enough, 3));
        assert_eq!((outbox.holding().pinned, outbox.weight()), (4, 4));
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::All, 5));
        assert_eq!(read(&mut client, 8), b"<abcdef>");
        assert_eq!(outbox.holding().pinned, 0);
    }

    #[test]
    fn slots_that_are_filled_late_and_out_of_order_are_sent_in_order() {
        let (mut stream, mut client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        outbox.buffer().put(b"1");
        let second = outbox.defer();
        outbox.buffer().put(b"3");
        let fourth = outbox.defer();
        let fifth = outbox.defer();
        outbox.buffer().put(b"6");
        fill(&mut outbox, fourth, b"four");
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::Waiting, 1));
        assert_eq!(read(&mut client, 1), b"1");
        let mut outbox = outbox.take_rest();
        fill(&mut outbox, second, b"two");
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::Waiting, 8));
        assert_eq!(read(&mut client, 8), b"two3four");
        fill(&mut outbox, fifth, b"");
        assert_eq!(outbox.send(&mut stream, usize::MAX).unwrap(), (Sent::All, 1));
        assert_eq!(read(&mut client, 1), b"6");
    }

    #[test]
    fn what_a_full_socket_does_not_take_is_sent_later_from_another_outbox() {
        let (mut stream, mut client) = pair();
        let value: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7) as u8).collect();
        let mut outbox = Outbox::with_capacity(16);
        outbox.buffer().put(b"head");
        outbox.pin(TwoPieces(value.clone(), 1_234_567));
        outbox.buffer().put(b"tail");
        let expected = [b"head", value.as_slice(), b"tail"].concat();
        let (sent, first) = outbox.send(&mut stream, usize::MAX).unwrap();
        assert_eq!(sent, Sent::Blocked);
        let mut rest = outbox.take_rest();
        assert!(outbox.is_empty());
        let reader = guira_sync::thread::spawn(move || read(&mut client, 3_000_008));
        let mut total = first;
        loop {
            let (sent, bytes) = rest.send(&mut stream, usize::MAX).unwrap();
            total += bytes;
            match sent {
                Sent::All => break,
                Sent::Blocked => guira_sync::thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(total, expected.len());
        assert!(reader.join().unwrap() == expected);
    }
}
