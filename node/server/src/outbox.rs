//! What a connection is going to be sent: bytes, with long values and reply slots between them.
//!
//! Most replies are bytes in a buffer that the worker uses for one connection after another. Two things are *inserted* at a
//! place between the bytes: a long value, which is sent from where it lies in the engine's memory, and a slot,
//! whose reply comes later, from another worker (crate::forward). Everything is sent in order, up to the first slot that is still empty.

use crate::interpreter::OUTBOX_FULL;
use crate::room::Holding;
use guira_commands::Replies;
use guira_contract::ValuePin;
use guira_protocol::ReplyBuffer;
use guira_transport::{Progress, Stream};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;

/// Names a slot of an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotId(u64);

/// A place in an outbox: bytes of its buffer, and inserts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyEnd {
    bytes: usize,
    inserts: usize,
}

/// Replies that were not sent yet.
#[derive(Debug)]
pub(crate) struct Outbox<P> {
    buffer: ReplyBuffer,
    /// How many bytes of the buffer were sent.
    sent: usize,
    inserts: VecDeque<Insert<P>>,
    /// Replies that have come for slots.
    late: Vec<u8>,
    slots: u64,
    /// Slots that are still empty.
    open: usize,
}

#[derive(Debug)]
struct Insert<P> {
    /// It comes after so many bytes of the buffer.
    at: usize,
    what: Inserted<P>,
    /// How much of it was sent.
    sent: usize,
}

#[derive(Debug)]
enum Inserted<P> {
    Value(P),
    /// A reply is to come.
    Slot(SlotId),
    /// It has come: these bytes of those that came late.
    Late(Range<usize>),
}

impl<P: ValuePin> Insert<P> {
    /// Bytes of it from `from` on, as many as lie next to each other.
    fn piece<'a>(&'a self, late: &'a [u8], from: usize) -> &'a [u8] {
        match &self.what {
            Inserted::Value(pin) => pin.piece(from),
            Inserted::Slot(_) => &[],
            Inserted::Late(range) => &late[range.start + from..range.end],
        }
    }

    /// How many bytes of it came late.
    fn late_len(&self) -> usize {
        if let Inserted::Late(range) = &self.what { range.len() } else { 0 }
    }

    /// How long it is; `None` if it is a slot that is still empty.
    fn length(&self) -> Option<usize> {
        match &self.what {
            Inserted::Value(pin) => Some(pin.value_len()),
            Inserted::Slot(_) => None,
            Inserted::Late(range) => Some(range.len()),
        }
    }
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything was sent.
    All,
    /// The socket takes no more for now.
    Blocked,
    /// As much as was to be sent at once.
    Enough,
    /// The next reply has not come yet.
    Waiting,
    /// The other end is gone.
    Ended,
}

/// No buffer larger than this is kept: twice what an outbox holds when it is full and has taken one reply more.
const KEPT_MAX: usize = 4 * OUTBOX_FULL;

/// Parts handed to the system at once.
const PARTS: usize = 16;

impl<P: ValuePin> Outbox<P> {
    /// An empty outbox with room for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Outbox {
            buffer: ReplyBuffer::with_capacity(capacity),
            sent: 0,
            inserts: VecDeque::new(),
            late: Vec::new(),
            slots: 0,
            open: 0,
        }
    }

    /// One that has these bytes to send.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut outbox = Self::with_capacity(bytes.len());
        outbox.buffer.put(bytes);
        outbox
    }

    /// Whether there is nothing to send.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent == self.buffer.len() && self.inserts.is_empty()
    }

    /// Whether everything asked for so far is answered and on its way: nothing is to be sent, or a client has ended its requests with mn,
    /// after which memcached sends what it has.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_empty() || self.buffer.as_slice().ends_with(b"MN\r\n")
    }

    /// Bytes in the buffer, and long values, that are waiting: a measure of when to stop.
    #[inline(always)]
    pub(crate) fn weight(&self) -> usize {
        let long = if self.inserts.is_empty() { 0 } else { self.long_weight() };
        self.buffer.len() - self.sent + long
    }

    /// What it holds: bytes, and bytes of long values.
    pub(crate) fn holding(&self) -> Holding {
        let late = self.late.capacity();
        Holding { bytes: self.buffer.len() + late + size_of::<Self>(), pinned: self.long_weight() }
    }

    fn long_weight(&self) -> usize {
        let of_one = |insert: &Insert<P>| match &insert.what {
            Inserted::Value(pin) => pin.value_len() - insert.sent,
            Inserted::Slot(_) | Inserted::Late(_) => 0,
        };
        self.inserts.iter().map(of_one).sum()
    }

    /// How many slots are still empty.
    #[inline(always)]
    pub(crate) fn open_slots(&self) -> usize {
        self.open
    }

    /// The slot that everything else waits for, if all before it was sent.
    pub(crate) fn next_slot(&self) -> Option<SlotId> {
        match self.inserts.front() {
            Some(Insert { at, what: Inserted::Slot(slot), .. }) if *at == self.sent => Some(*slot),
            _ => None,
        }
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> ReplyEnd {
        ReplyEnd { bytes: self.buffer.len(), inserts: self.inserts.len() }
    }

    /// Forgets everything, and keeps a buffer of no more than `kept` bytes.
    pub(crate) fn forget(&mut self, kept: usize) {
        self.inserts.clear();
        self.sent = 0;
        if self.buffer.capacity() > kept {
            self.buffer = ReplyBuffer::with_capacity(0);
        } else {
            self.buffer.clear();
        }
    }

    /// Leaves a place for a reply that comes later.
    pub(crate) fn defer(&mut self) -> SlotId {
        self.slots += 1;
        let id = SlotId(self.slots);
        self.open += 1;
        self.inserts.push_back(Insert { at: self.buffer.len(), what: Inserted::Slot(id), sent: 0 });
        id
    }

    /// Replies have come for slots, in the order of those: they are taken out of `replies`, where each ends as `parts` says.
    pub(crate) fn fill(
        &mut self,
        mut parts: impl Iterator<Item = (SlotId, ReplyEnd)> + Clone,
        replies: &mut Outbox<P>,
    ) {
        self.compact();
        let bytes = replies.buffer.as_slice();
        // No more than it takes: what is held is counted by capacity.
        self.late.reserve_exact(parts.clone().last().map_or(0, |(_, end)| end.bytes));
        let mut values = replies.inserts.drain(..);
        let mut next = parts.next();
        let mut done = ReplyEnd::default();
        for insert in std::mem::take(&mut self.inserts) {
            let part =
                next.filter(|(wanted, _)| matches!(insert.what, Inserted::Slot(slot) if slot == *wanted));
            let Some((_, end)) = part else {
                self.inserts.push_back(insert);
                continue;
            };
            let mut late = |inserts: &mut VecDeque<Insert<P>>, range: Range<usize>| {
                if !range.is_empty() {
                    let from = self.late.len();
                    self.late.extend_from_slice(&bytes[range]);
                    let what = Inserted::Late(from..self.late.len());
                    inserts.push_back(Insert { at: insert.at, what, sent: 0 });
                }
            };
            for value in values.by_ref().take(end.inserts - done.inserts) {
                late(&mut self.inserts, done.bytes..value.at);
                done.bytes = value.at;
                self.inserts.push_back(Insert { at: insert.at, what: value.what, sent: 0 });
            }
            late(&mut self.inserts, done.bytes..end.bytes);
            done = end;
            self.open -= 1;
            next = parts.next();
        }
    }

    /// Gives back what replies took that were sent.
    fn compact(&mut self) {
        let kept: usize = self.inserts.iter().map(|insert| insert.late_len()).sum();
        if kept == self.late.len() {
            return;
        }
        let mut late = Vec::with_capacity(kept);
        for insert in &mut self.inserts {
            if let Inserted::Late(range) = &mut insert.what {
                let from = late.len();
                late.extend_from_slice(&self.late[range.clone()]);
                *range = from..late.len();
            }
        }
        self.late = late;
    }

    /// What is to be sent next, in order: at most `most` bytes, in at most [`PARTS`] parts.
    fn parts(&self, most: usize) -> arrayvec::ArrayVec<IoSlice<'_>, PARTS> {
        let mut parts = arrayvec::ArrayVec::new();
        let mut left = most;
        let bytes = self.buffer.as_slice();
        let mut from = self.sent;
        for insert in &self.inserts {
            from += add(&mut parts, &bytes[from..insert.at], &mut left);
            let Some(length) = insert.length().filter(|_| from == insert.at) else {
                return parts;
            };
            let mut position = insert.sent;
            while position < length {
                let taken = add(&mut parts, insert.piece(&self.late, position), &mut left);
                if taken == 0 {
                    return parts;
                }
                position += taken;
            }
        }
        add(&mut parts, &bytes[from..], &mut left);
        parts
    }

    /// So many bytes were sent.
    fn advance(&mut self, mut bytes: usize) {
        while let Some(insert) = self.inserts.front_mut() {
            let before = insert.at - self.sent;
            if bytes < before {
                break;
            }
            bytes -= before;
            self.sent += before;
            let Some(length) = insert.length() else {
                break;
            };
            let part = bytes.min(length - insert.sent);
            insert.sent += part;
            bytes -= part;
            if insert.sent < length {
                break;
            }
            self.inserts.pop_front();
        }
        self.sent += bytes;
    }

    /// Sends as much as can be sent now, at most `most` bytes. Returns how it went, and how many bytes were sent.
    ///
    /// # Errors
    /// What the system says; the connection is of no use any more.
    pub(crate) fn send(&mut self, stream: &mut Stream, most: usize) -> io::Result<(Sent, usize)> {
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
            let progress = if self.inserts.is_empty() {
                let rest = &self.buffer.as_slice()[self.sent..];
                stream.write(&rest[..rest.len().min(left)])?
            } else {
                let parts = self.parts(left);
                if parts.is_empty() {
                    return Ok((Sent::Waiting, total));
                }
                stream.write_vectored(&parts)?
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
    pub(crate) fn collect(&mut self, out: &mut Vec<u8>) {
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

    /// Forgets what was sent. A buffer that a long answer has made large becomes a usual one again.
    fn empty(&mut self) {
        self.sent = 0;
        self.late.clear();
        if self.buffer.capacity() > KEPT_MAX {
            self.buffer = ReplyBuffer::with_capacity(2 * OUTBOX_FULL);
        } else {
            self.buffer.clear();
        }
    }

    /// Takes what was not sent into an outbox of its own, and leaves this one empty.
    pub(crate) fn take_rest(&mut self) -> Outbox<P> {
        let rest = &self.buffer.as_slice()[self.sent..];
        let mut taken = Outbox::of(rest);
        taken.slots = self.slots;
        taken.open = std::mem::take(&mut self.open);
        taken.late = std::mem::take(&mut self.late);
        taken.inserts = std::mem::take(&mut self.inserts);
        for insert in &mut taken.inserts {
            insert.at -= self.sent;
        }
        self.empty();
        taken
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
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// A value of two pieces.
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

    fn pair() -> (Stream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Stream::Unix(ours), theirs)
    }

    fn read(stream: &mut UnixStream, length: usize) -> Vec<u8> {
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
    fn a_long_answer_does_not_keep_its_buffer() {
        let (mut stream, client) = pair();
        let mut outbox = Outbox::<TwoPieces>::with_capacity(16);
        let long = vec![b'x'; 2 << 20];
        outbox.buffer().put(&long);
        let reader = std::thread::spawn(move || {
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
        for (number, slot) in slots.iter().enumerate() {
            fill(&mut outbox, *slot, &[number as u8; 1000]);
            assert!(outbox.late.capacity() <= 2000, "{number}");
            outbox.send(&mut stream, usize::MAX).unwrap();
            assert_eq!(read(&mut client, 1000), [number as u8; 1000]);
        }
        assert!(outbox.is_empty());
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
        let reader = std::thread::spawn(move || read(&mut client, 3_000_008));
        let mut total = first;
        loop {
            let (sent, bytes) = rest.send(&mut stream, usize::MAX).unwrap();
            total += bytes;
            match sent {
                Sent::All => break,
                Sent::Blocked => std::thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(total, expected.len());
        assert!(reader.join().unwrap() == expected);
    }
}
