//! Connections whose requests are executed together.
//!
//! Most clients send one request and wait for the reply. A turn for each of them costs several times what the request does: the code of a turn
//! is cold, since the kernel's ran in between. So a worker first receives from all connections that are ready, executes what they sent as one
//! batch, and then sends all replies. Connections take part that are between requests and sent little; others have turns of their own.

use crate::{ReplyEnd, Speaks};
use std::ops::Range;

/// How many connections a group has at most. With more, clients would wait longer for the first reply.
pub const GROUP_MAX: usize = 32;

/// A connection that sent more than this has a turn of its own.
pub(crate) const LITTLE: usize = 512;

/// A connection of a group.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// Its place among the connections of its worker, and its number among all that were there.
    pub(crate) place: usize,
    pub(crate) serial: u64,
    /// The number that watchers know the client by.
    pub client: i32,
    pub speaks: Speaks,
    /// Where its requests begin in the group's input, and how long they are.
    from: usize,
    length: usize,
    /// Bytes of its requests that were executed. The rest is executed in a turn of its own.
    pub taken: usize,
    /// Where its replies end in the group's outbox.
    pub replied: ReplyEnd,
}

impl Member {
    /// The connection in this place, which has this serial number; the range is where its requests are in the group's input.
    pub(crate) fn new(
        place: usize,
        serial: u64,
        (client, speaks): (i32, Speaks),
        input: Range<usize>,
    ) -> Self {
        let (from, length) = (input.start, input.len());
        Member { place, serial, client, speaks, from, length, taken: 0, replied: ReplyEnd::default() }
    }

    /// Where the requests are in the group's input that were not executed.
    pub(crate) fn rest(self) -> Range<usize> {
        self.from + self.taken..self.from + self.length
    }

    /// Its requests, as far as they have arrived.
    #[inline(always)]
    pub fn requests(self, input: &[u8]) -> &[u8] {
        &input[self.from..self.from + self.length]
    }
}

/// The connections that a worker has received from.
#[derive(Debug)]
pub(crate) struct Group {
    input: Box<[u8]>,
    filled: usize,
    members: Vec<Member>,
}

impl Group {
    /// A group that receives up to `read_bytes` from one connection at once.
    pub(crate) fn new(read_bytes: usize) -> Self {
        let bytes = GROUP_MAX * LITTLE + read_bytes;
        Group { input: vec![0; bytes].into_boxed_slice(), filled: 0, members: Vec::with_capacity(GROUP_MAX) }
    }

    /// Where the input of the next connection goes.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.input[self.filled..]
    }

    /// Where the first `bytes` of that are.
    pub(crate) fn last(&self, bytes: usize) -> Range<usize> {
        self.filled..self.filled + bytes
    }

    pub(crate) fn input(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }

    /// Adds a connection that sent bytes, at most [`LITTLE`].
    pub(crate) fn add(&mut self, member: Member) {
        self.filled += member.length;
        self.members.push(member);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.members.len() == GROUP_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn member(&self, number: usize) -> Member {
        self.members[number]
    }

    pub(crate) fn parts(&mut self) -> (&[u8], &mut [Member]) {
        (&self.input, &mut self.members)
    }

    pub(crate) fn clear(&mut self) {
        self.members.clear();
        self.filled = 0;
    }
}
