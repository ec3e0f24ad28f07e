//! The bytes of requests that have no reply yet, and how much of them was sent.
//!
//! A byte has a *position* in the stream of all requests to the server, which does not change when
//! earlier bytes are discarded.

use guira_routing::Op;
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    /// The position of the first byte.
    start: u64,
    /// How many bytes were sent.
    sent: usize,
    /// The position from which on nothing is sent for now.
    held_from: Option<u64>,
    /// The request at the end is a get that takes further keys.
    open_get: Option<OpenGet>,
}

#[derive(Clone, Copy, Debug)]
struct OpenGet {
    op: Op,
    keys: u32,
    begin: u64,
}

/// Keys of different clients in one get …
const KEYS_MAX: u32 = 64;
/// … and the length of its line, which fits into one segment.
const LINE_MAX: u64 = 1300;
/// Bytes with replies that may stay in front of the others.
const ANSWERED_MAX: usize = 64 << 10;

impl SendBuffer {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The position behind the last byte.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The position of the first byte that was not sent.
    #[inline]
    pub(super) fn sent(&self) -> u64 {
        self.start + self.sent as u64
    }

    /// Whether all bytes were sent.
    #[inline]
    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// The bytes from a position on.
    #[inline]
    pub(super) fn from(&self, position: u64) -> &[u8] {
        &self.bytes[(position - self.start) as usize..]
    }

    #[inline]
    pub(super) fn slice(&self, position: u64, length: usize) -> &[u8] {
        let at = (position - self.start) as usize;
        &self.bytes[at..at + length]
    }

    /// Appends the bytes that `write` appends. The last get is complete.
    #[inline]
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(self.open_get.is_none(), "a get is closed before another request follows");
        write(&mut self.bytes);
    }

    /// Appends a key to the open get. Returns where the get begins; `None` if the key needs a get
    /// of its own.
    #[inline]
    pub(super) fn extend_get(&mut self, op: Op, key: &[u8]) -> Option<u64> {
        let end = self.end();
        let open = self.open_get.as_mut()?;
        // A gets may carry keys of a get: their clients ignore the cas uniques.
        let fits = open.keys < KEYS_MAX
            && end - open.begin + (key.len() as u64) < LINE_MAX
            && (open.op == op || open.op == Op::Gets);
        if !fits {
            return None;
        }
        open.keys += 1;
        let begin = open.begin;
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(key);
        Some(begin)
    }

    /// Begins a get with its first key.
    #[inline]
    pub(super) fn open_get(&mut self, op: Op, key: &[u8]) -> u64 {
        let begin = self.end();
        self.open_get = Some(OpenGet { op, keys: 1, begin });
        self.bytes.extend_from_slice(if op == Op::Get { b"get " } else { b"gets " });
        self.bytes.extend_from_slice(key);
        begin
    }

    /// Ends the line of the open get. Returns its operation if there is one.
    #[inline]
    pub(super) fn close_get(&mut self) -> Option<Op> {
        let open = self.open_get.take()?;
        self.bytes.extend_from_slice(b"\r\n");
        Some(open.op)
    }

    /// The bytes that may be sent now.
    #[inline]
    pub(super) fn unsent(&self) -> &[u8] {
        let limit = self.held_from.map_or(self.bytes.len(), |position| (position - self.start) as usize);
        &self.bytes[self.sent.min(limit)..limit]
    }

    #[inline]
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Holds back everything that is appended from now on.
    pub(super) fn hold(&mut self) {
        self.held_from = Some(self.end());
    }

    /// The position from which bytes are held back, if any are.
    pub(super) fn held_from(&self) -> Option<u64> {
        self.held_from
    }

    /// Holds nothing back any more. Returns from where on bytes were held back.
    pub(super) fn release(&mut self) -> Option<u64> {
        self.held_from.take()
    }

    /// Replaces each of these ranges, which are in order and were not sent, by `text`.
    pub(super) fn replace_unsent(&mut self, ranges: &[Range<u64>], text: &[u8]) {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut copied = self.start;
        for range in ranges {
            assert!(self.sent() <= range.start, "bytes that were sent are not replaced");
            bytes.extend_from_slice(self.slice(copied, (range.start - copied) as usize));
            bytes.extend_from_slice(text);
            copied = range.end;
        }
        bytes.extend_from_slice(self.from(copied));
        if let Some(open) = &mut self.open_get {
            // It is behind all ranges.
            open.begin -= (self.bytes.len() - bytes.len()) as u64;
        }
        self.bytes = bytes;
    }

    /// Discards the requests before `position`, or all of them, if that frees enough memory: they
    /// have replies.
    #[inline]
    pub(super) fn trim(&mut self, position: Option<u64>) {
        match position {
            None if self.is_sent() => {
                self.start += self.bytes.len() as u64;
                self.bytes.clear();
                self.bytes.shrink_to(ANSWERED_MAX);
                self.sent = 0;
            }
            None => {}
            Some(position) => {
                let answered = ((position - self.start) as usize).min(self.sent);
                if answered > ANSWERED_MAX && answered > self.bytes.len() / 2 {
                    self.discard(answered);
                }
            }
        }
    }

    /// Discards everything before `position`, or everything. The rest is sent over the next
    /// connection.
    pub(super) fn rewind(&mut self, position: Option<u64>) {
        self.held_from = None;
        self.discard(position.map_or(self.bytes.len(), |position| (position - self.start) as usize));
        self.sent = 0;
    }

    fn discard(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.start += bytes as u64;
        self.sent = self.sent.saturating_sub(bytes);
        self.open_get = self.open_get.filter(|open| open.begin >= self.start);
    }
}
