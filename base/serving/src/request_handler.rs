//! What handles the requests of connections, and what a connection has to know of it.

use crate::{Access, Arrival, CloseReason, Cut, Member, Outbox, Slice, Speaks};
use guira_memory::ValuePin;
use guira_sync::clock::Seconds;

/// Handles the requests of a worker's connections: one for each worker, on its thread.
///
/// `run` is called for each piece of input, and everything else at most once a turn. The worker is generic over its handler, so
/// that no call goes through a table.
pub trait RequestHandler: Sized {
    type Pin: ValuePin;

    /// What is known of a connection between two pieces of its input.
    type State: Conversation;

    /// Bytes of a connection's input that are read at once: what is not executed in its turn is kept, so that they are few
    /// where a turn may end early.
    const READ_BYTES: usize = 16 << 10;

    /// Where a turn may end while room for connections is short. Requests that take long are better kept than executed all at once.
    const CUT_WHERE_SHORT: Cut = Cut::AfterInput;

    /// What becomes of a client that does not take its replies for as long as one may send nothing.
    const UNREAD: Unread = Unread::Kept;

    /// The time, as of the beginning of the round.
    fn now(&self) -> Seconds;

    /// A connection has come. Replies to it that come late are given to [`Clients::answer`](crate::Clients::answer) with `from`.
    fn open(&mut self, arrival: &Arrival, from: ReplyTo) -> Self::State;

    /// Executes requests from `input`, and writes replies, until there are `full` bytes of them or the slice is over. Returns how
    /// many bytes were taken, and why it has stopped; the rest is given again, with what comes after it.
    fn run(
        &mut self,
        state: &mut Self::State,
        slice: &mut Slice,
        full: usize,
        input: &[u8],
        outbox: &mut Outbox<Self::Pin>,
    ) -> (usize, Stopped);

    /// Whether a connection's next requests may be received and executed together with those of others.
    fn may_join(&self, _state: &Self::State) -> bool {
        false
    }

    /// Executes requests of several connections as one batch, without their states. Sets for each member the number of executed bytes, and the
    /// end of its replies. Returns the number of members that were looked at, at least 1: the others are passed again after the replies of these
    /// were sent. The last of these may have inserts among its replies.
    ///
    /// Bytes that were not executed go to [`RequestHandler::run`], connection by connection. That is what happens to all of them by default.
    fn run_group(
        &mut self,
        _input: &[u8],
        members: &mut [Member],
        _full: usize,
        _outbox: &mut Outbox<Self::Pin>,
    ) -> usize {
        members.len()
    }

    /// Requests of this client come next.
    fn begin_turn(&mut self, _client: i32) {}

    fn end_turn(&mut self) {}

    /// All replies of a connection before its first open slot were sent: asks for those that were not asked for yet, since they
    /// would have had to be held.
    fn request_more(&mut self, _state: &mut Self::State, _full: usize) -> MoreRequested {
        MoreRequested::Awaited
    }

    /// A connection is closed since the rest of its request did not come in time: what it is told, if anything.
    fn last_words(&mut self, _outbox: &mut Outbox<Self::Pin>) {}

    /// Takes a connection over that has stopped with [`Stopped::Leaves`]; it may come back by its worker's mailbox. If it cannot
    /// leave, it is returned.
    fn detach(&mut self, _state: Self::State, arrival: Arrival) -> Option<Arrival> {
        Some(arrival)
    }
}

/// What becomes of a client that does not take its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It has all the time it wants, as in memcached, as long as there is room for what it was not sent.
    Kept,
    /// It is closed as one that says nothing.
    Closed,
}

/// The state of a connection's protocol, as far as the worker has to know it.
pub trait Conversation {
    /// What is spoken, as far as it is known.
    fn speaks(&self) -> Speaks;
    fn access(&self) -> Access;
    /// Whether a request is read in part that is not in the input any more.
    fn has_partial_request(&self) -> bool;
    /// What a server that goes on with the connection has to know beside [`Conversation::speaks`] and [`Conversation::access`], as
    /// [`Fields`](crate::Fields); `None` while there is something under way that only this one can end.
    fn carry(&self) -> Option<Vec<u8>> {
        None
    }
    /// Goes on where another server was that has told this.
    fn resume(&mut self, _carried: &[u8]) {}
    /// Bytes that it holds beside itself.
    fn bytes(&self) -> usize {
        0
    }
}

/// The connection that replies go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyTo {
    /// Its place among the connections of its worker …
    pub(crate) place: u32,
    /// … which may be another's by the time that replies come: this tells.
    pub(crate) serial: u64,
    /// The number that watchers know it by.
    pub client: i32,
}

impl ReplyTo {
    /// No connection's: it is known by a number below 0, as no connection has.
    pub fn elsewhere(number: i32) -> Self {
        debug_assert!(number < 0);
        ReplyTo { client: number, ..ReplyTo::default() }
    }

    /// Its connection's place among those of its worker.
    pub fn place(self) -> u32 {
        self.place
    }
}

/// Why requests are not executed further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    NeedsInput,
    /// The outbox is full, or slots in it have to be filled first.
    OutboxFull,
    SliceOver,
    /// The request waits for other threads, which do not notify the worker: the connection has another turn after a moment.
    Waits,
    /// The connection leaves its worker after the outbox was sent.
    Leaves,
    /// The connection is to be closed after the outbox was sent.
    Over(CloseReason),
}

/// What came of asking for replies that are needed next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoreRequested {
    Awaited,
    /// They cannot be asked for yet: in another turn.
    Later,
}

/// When late replies are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Now,
    Later,
}
