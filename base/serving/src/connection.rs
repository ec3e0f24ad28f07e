//! A connection: a stream, the state of its protocol, and what could not be dealt with yet.

use crate::outbox::{OUTBOX_FULL, OUTBOX_FULL_SHORT, Outbox, Sent, SlotId, Spares};
use crate::request_handler::{Conversation, Due, MoreRequested, ReplyTo, RequestHandler, Stopped};
use crate::share::Share;
use crate::unsent::Unsent;
use crate::{
    Access, Arrival, CloseReason, ConnBudget, ConnId, ConnMemory, ConnectionFacts, Doing, Grant, Member,
    Rank, RateLimited, Speaks, TrafficCount, TrafficCounters,
};
use guira_protocol::binary::HEADER_BYTES;
use guira_sync::clock::Seconds;
use guira_transport::{Interest, Progress, Stream, TlsFailure, TlsFault};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of replies that are sent although the turn is over: those of the last requests.
const REPLIES: usize = OUTBOX_FULL;

/// For how long a connection that has asked for nothing counts as new, in seconds.
const NEW_S: u32 = 1;

/// A connection keeps no buffer larger than this while it is at rest.
const KEPT_MAX: usize = 256;
/// A buffer with more room to spare is made to fit.
const SPARE_MAX: usize = 8 << 10;
/// Replies that a client has not taken are copied for the next server, up to here.
const CARRIED_MAX: usize = 4 << 20;
/// Bytes read at once while memory for connections is short.
const SHORT_READ: usize = 2 << 10;

pub(crate) struct Connection<S: RequestHandler> {
    pub(crate) stream: Stream,
    pub(crate) facts: Arc<ConnectionFacts>,
    state: S::State,
    /// Its number among all that its worker has had.
    serial: u64,
    /// Whether a request of it was ever executed here.
    has_asked: bool,
    /// Input that was read and not taken yet.
    input: Vec<u8>,
    unsent: Unsent<S::Pin>,
    /// What is waited for at the moment.
    pub(crate) interest: Interest,
    /// What it holds, as the budget knows.
    held: ConnMemory,
    share: Share,
    /// Bytes of long values that it has pinned while it waits for another turn to send them.
    paused: usize,
    /// What happens when its replies were sent.
    ending: Ending,
}

impl<S: RequestHandler> fmt::Debug for Connection<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connection").field("facts", &self.facts).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Open,
    Leaves,
    Over(CloseReason),
}

/// What a worker uses for one connection after another.
#[derive(Debug)]
pub(crate) struct Scratch<'w, S: RequestHandler> {
    pub(crate) service: &'w mut S,
    pub(crate) budget: &'w ConnBudget,
    pub(crate) traffic: &'w TrafficCounters,
    pub(crate) input: &'w mut [u8],
    /// Input that was received before the turn.
    pub(crate) received: &'w [u8],
    pub(crate) outbox: &'w mut Outbox<S::Pin>,
    pub(crate) spares: &'w mut Spares<S::Pin>,
    /// Bytes of long values that connections have pinned which wait for another turn to send them.
    pub(crate) paused: &'w mut usize,
}

/// What is to happen to a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Wait(Interest),
    /// It has more to do: another turn.
    Again,
    /// Another turn after a moment.
    Soon,
    Leave,
    /// It is finished, or broken.
    Close(CloseReason),
}

/// When an outbox counts as full, in bytes.
fn outbox_full(budget: &ConnBudget) -> usize {
    if budget.is_short() { OUTBOX_FULL_SHORT } else { OUTBOX_FULL }
}

impl<S: RequestHandler> Connection<S> {
    pub(crate) fn new(arrival: Arrival, serial: u64, state: S::State) -> Self {
        Connection {
            stream: arrival.stream,
            facts: arrival.facts,
            state,
            serial,
            has_asked: false,
            input: arrival.input,
            unsent: Unsent::of(&arrival.output),
            interest: Interest::Read,
            held: ConnMemory::default(),
            share: Share::default(),
            paused: 0,
            ending: Ending::Open,
        }
    }

    /// The connection, on its way to somewhere else, and the state of its protocol.
    pub(crate) fn into_parts(self) -> (S::State, Arrival) {
        let Connection { stream, facts, state, input, .. } = self;
        let (speaks, access) = (state.speaks(), state.access());
        (state, Arrival { stream, facts, speaks, access, input, output: Vec::new(), carried: Box::default() })
    }

    /// What another server has to know of its protocol to go on with it; `None` as long as none can.
    pub(crate) fn carry(&self) -> Option<Vec<u8>> {
        let is_free = self.ending == Ending::Open && self.stream.is_plain();
        if is_free && self.unsent.is_complete(CARRIED_MAX) { self.state.carry() } else { None }
    }

    /// The connection on its way to another server, which was told `carried`.
    pub(crate) fn leave(mut self, carried: Vec<u8>) -> Arrival {
        let carried = carried.into_boxed_slice();
        let mut output = Vec::new();
        if let Unsent::Outbox(mut unsent) = self.unsent.take() {
            unsent.collect(&mut output);
        }
        Arrival { output, carried, ..self.into_parts().1 }
    }

    /// Whether nothing is under way: no half-read request, no unsent reply.
    pub(crate) fn is_at_rest(&self) -> bool {
        let has_partial_request =
            self.state.has_partial_request() || !self.input.is_empty() || self.stream.has_input();
        !has_partial_request && self.unsent.is_nothing() && !self.stream.has_output()
    }

    /// Whether it has just come, so that its first request is on its way, or with TLS what precedes that.
    pub(crate) fn is_new(&self, now: Seconds) -> bool {
        !self.has_asked && now.0.saturating_sub(self.facts.last_active().0) <= NEW_S
    }

    /// It is closed for being idle: in the middle of a request it is told so, as far as it takes that at once.
    pub(crate) fn part(&mut self, service: &mut S, outbox: &mut Outbox<S::Pin>) {
        if self.facts.doing() == Doing::Receiving && self.unsent.is_nothing() {
            service.last_words(outbox);
            let _ = outbox.send(&mut self.stream, REPLIES);
            drop(outbox.take_rest());
        }
    }

    /// Nothing more is said: what TLS keeps back is sent, as far as the client takes it.
    fn farewell(&mut self, reason: CloseReason) -> Turn {
        match self.stream.finish() {
            Ok(Progress::Blocked) => Turn::Wait(Interest::Write),
            _ => Turn::Close(reason),
        }
    }

    /// Whether its next requests may be executed together with those of others.
    #[inline]
    pub(crate) fn may_join(&self, service: &S) -> bool {
        self.ending == Ending::Open
            && self.interest == Interest::Read
            && self.unsent.is_nothing()
            && self.input.is_empty()
            && self.stream.is_plain()
            && service.may_join(&self.state)
    }

    /// The connection, which is in this place, as a member of a group.
    pub(crate) fn as_member(&self, place: usize, input: Range<usize>) -> Member {
        Member::new(place, self.serial, (self.facts.id, self.state.speaks()), input)
    }

    pub(crate) fn is(&self, member: &Member) -> bool {
        self.serial == member.serial
    }

    /// Receives up to `buffer.len()` bytes.
    pub(crate) fn receive(&mut self, buffer: &mut [u8], now: Seconds) -> Result<Progress, CloseReason> {
        self.stream.read(buffer).map_err(|error| {
            self.explain(&error, now);
            CloseReason::Error
        })
    }

    /// The client has sent all that it will.
    pub(crate) fn end_input(&mut self) {
        self.ending = Ending::Over(CloseReason::Normal);
    }

    /// Sends replies to requests that were executed in a group. Returns the number of bytes sent; the rest remains unsent.
    pub(crate) fn reply(&mut self, bytes: &[u8], now: Seconds) -> Result<usize, CloseReason> {
        self.has_asked = true;
        self.facts.active(now);
        self.send(bytes)
    }

    /// Sends the reply that the connection waits for. Returns the number of bytes sent; the rest remains unsent.
    pub(crate) fn reply_alone(&mut self, bytes: &[u8]) -> Result<usize, CloseReason> {
        self.facts.set_doing(Doing::Waiting);
        self.send(bytes)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, CloseReason> {
        let progress = if bytes.is_empty() { Ok(Progress::Moved(0)) } else { self.stream.write(bytes) };
        let sent = match progress {
            Ok(Progress::Moved(sent)) => sent,
            Ok(Progress::Blocked) => 0,
            Ok(Progress::Ended) | Err(_) => return Err(CloseReason::Error),
        };
        self.unsent = Unsent::of(&bytes[sent..]);
        Ok(sent)
    }

    /// Keeps such replies for the next turn.
    pub(crate) fn reply_later(&mut self, replies: Box<Outbox<S::Pin>>, now: Seconds) {
        self.has_asked = true;
        self.facts.active(now);
        self.unsent = Unsent::Outbox(replies);
    }

    /// Whether the connection waits for the reply in this slot, and has nothing else to send.
    pub(crate) fn awaits_only(&self, slot: SlotId) -> bool {
        matches!(self.unsent, Unsent::Reply(awaited) if awaited == slot)
    }

    /// Whether the connection has more to do that the poller does not report.
    pub(crate) fn needs_turn(&self) -> bool {
        self.is_blocked() || self.state.has_partial_request() || !self.is_told_of_input()
    }

    /// Whether a reply was not sent altogether, or cannot be.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.unsent.is_nothing() || self.ending != Ending::Open
    }

    /// Keeps input for the next turn.
    pub(crate) fn keep_input(&mut self, input: &[u8]) {
        self.input.extend_from_slice(input);
    }

    /// Reads, executes and writes, as long as there is something to do and others need not wait.
    pub(crate) fn turn(&mut self, scratch: &mut Scratch<'_, S>) -> Turn {
        self.facts.set_doing(Doing::Serving);
        scratch.service.begin_turn(self.facts.id);
        self.resume(scratch.paused);
        let now = scratch.service.now();
        // Input that is kept anyway, such as a long line of keys, is no reason for a turn without end.
        let keeps_little = self.input.len() <= SHORT_READ;
        let ends_after_input = scratch.budget.is_short() && keeps_little;
        self.share.begin(now, ends_after_input.then_some(S::CUT_WHERE_SHORT));
        let turn = self.rounds(scratch);
        match turn {
            Turn::Again => self.share.end_unfinished(now),
            _ => self.share.end(now),
        }
        self.facts.set_doing(match turn {
            Turn::Wait(Interest::Read) if self.input.is_empty() && !self.state.has_partial_request() => {
                Doing::Waiting
            }
            Turn::Wait(Interest::Read) => Doing::Receiving,
            Turn::Again | Turn::Soon => Doing::Serving,
            _ => Doing::Sending,
        });
        turn
    }

    pub(crate) fn rank(&self, now: Seconds) -> Rank {
        self.share.rank(now)
    }

    /// As [`Share::may_continue`].
    pub(crate) fn may_continue(&self) -> bool {
        self.share.may_continue()
    }

    /// What its last turn has taken.
    pub(crate) fn spent(&self) -> usize {
        self.share.slice.spent()
    }

    /// Whether replies to this are for this connection, and not for an earlier one in its place.
    pub(crate) fn is_for(&self, to: ReplyTo) -> bool {
        self.serial == to.serial
    }

    pub(crate) fn state_mut(&mut self) -> &mut S::State {
        &mut self.state
    }

    /// Lets `fill` put late replies into its outbox. `None` if they are for an earlier connection in its place.
    pub(crate) fn answer(
        &mut self,
        to: ReplyTo,
        fill: impl FnOnce(&mut S::State, Option<&mut Outbox<S::Pin>>) -> Due,
    ) -> Option<Due> {
        self.is_for(to).then(|| fill(&mut self.state, self.unsent.outbox()))
    }

    /// Whether what it is to be sent next has not come yet.
    pub(crate) fn awaits_reply(&self) -> bool {
        self.unsent.awaits_reply()
    }

    /// When it last asked for something: before all others, if it never did. Of two, the one that came first is before the other.
    pub(crate) fn last_asked(&self) -> (bool, Seconds, u64) {
        (self.has_asked, self.facts.last_active(), self.serial)
    }

    pub(crate) fn holding(&self) -> ConnMemory {
        let mut holding = self.unsent.holding();
        if self.paused > 0 {
            holding.pinned = 0;
        }
        holding.bytes += self.input.capacity() + self.stream.holds() + self.state.bytes();
        holding
    }

    /// Tells the budget what it holds now.
    pub(crate) fn settle(&mut self, budget: &ConnBudget, id: ConnId) -> Grant {
        let wanted = self.holding();
        if wanted == self.held {
            return Grant::Granted;
        }
        let asked = budget.change(id, self.held, wanted);
        if asked == Grant::Granted {
            self.held = wanted;
        }
        asked
    }

    /// Whether what it had was given to another connection.
    pub(crate) fn is_evicted(&self, budget: &ConnBudget, id: ConnId) -> bool {
        budget.is_evicted(id, self.held)
    }

    /// Counts it as closed for lack of memory.
    pub(crate) fn count_crowded_out(&self, budget: &ConnBudget) {
        self.unsent.count_crowded_out(budget);
    }

    fn rounds(&mut self, scratch: &mut Scratch<'_, S>) -> Turn {
        if self.stream.flush().is_err() {
            return Turn::Close(CloseReason::Error);
        }
        loop {
            let was_unsent = !self.unsent.is_nothing();
            if let Some(turn) = self.send_unsent(scratch) {
                return turn;
            }
            match self.ending {
                Ending::Open => {}
                Ending::Leaves => return Turn::Leave,
                Ending::Over(reason) => return self.farewell(reason),
            }
            // Most clients have sent nothing while they waited for this.
            if was_unsent && self.is_told_of_input() {
                return Turn::Wait(Interest::Read);
            }
            if self.share.slice.is_cut() || (self.share.slice.is_over() && self.input.is_empty()) {
                scratch.traffic.add(TrafficCount::Yields, 1);
                return Turn::Again;
            }
            match self.round(scratch) {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(error) => {
                    self.explain(&error, scratch.service.now());
                    return Turn::Close(CloseReason::Error);
                }
            }
        }
    }

    /// Logs an error that the client's configuration is to blame for, and nothing else tells of.
    #[cold]
    fn explain(&self, error: &std::io::Error, now: Seconds) {
        static TELLS: RateLimited = RateLimited::every(10);
        let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFault>());
        if fault.is_some_and(|fault| fault.failure == TlsFailure::ServerName) && TELLS.is_due(now) {
            let client = self.facts.peer_host().map_or("unix".to_owned(), |host| host.to_string());
            // Operator: Usually the client's fault: an unknown authority, an expired certificate, or
            // plain text on a TLS port.
            tracing::warn!(client, "TLS handshake failed: {error}");
        }
    }

    /// Whether the event loop tells of everything that it may have to read.
    fn is_told_of_input(&self) -> bool {
        self.interest == Interest::Read
            && self.input.is_empty()
            && !self.stream.has_input()
            && self.stream.wants(Interest::Read) == Interest::Read
    }

    /// The rest is sent in another turn.
    fn pause(&mut self, paused: &mut usize) {
        self.paused = self.unsent.holding().pinned;
        *paused += self.paused;
    }

    /// It waits for no turn any more. `paused` is what all connections of its worker have pinned that do.
    pub(crate) fn resume(&mut self, paused: &mut usize) {
        *paused -= std::mem::take(&mut self.paused);
    }

    /// Sends what is still unsent. `None` if nothing is any more.
    fn send_unsent(&mut self, scratch: &mut Scratch<'_, S>) -> Option<Turn> {
        let most = scratch.sendable(self.share.slice.sendable());
        let result = match &mut self.unsent {
            Unsent::Nothing => return None,
            Unsent::Reply(_) => Ok((Sent::Waiting, 0)),
            Unsent::Outbox(outbox) => outbox.send(&mut self.stream, most),
        };
        let Ok((sent, bytes)) = result else {
            return Some(Turn::Close(CloseReason::Error));
        };
        scratch.traffic.add(TrafficCount::BytesWritten, bytes as u64);
        self.share.slice.copied(bytes);
        match sent {
            Sent::All => {
                if let Unsent::Outbox(outbox) = self.unsent.take() {
                    scratch.spares.give_back(outbox);
                }
                None
            }
            Sent::Blocked => Some(Turn::Wait(Interest::Write)),
            Sent::Enough => {
                scratch.traffic.add(TrafficCount::Yields, 1);
                self.pause(scratch.paused);
                Some(Turn::Again)
            }
            Sent::Waiting => {
                let full = outbox_full(scratch.budget);
                Some(match scratch.service.request_more(&mut self.state, full) {
                    MoreRequested::Awaited => Turn::Wait(Interest::End),
                    MoreRequested::Later => Turn::Again,
                })
            }
            Sent::Ended => Some(Turn::Close(CloseReason::Error)),
        }
    }

    /// Executes what was read, or reads and executes; then sends.
    fn round(&mut self, scratch: &mut Scratch<'_, S>) -> std::io::Result<Option<Turn>> {
        let Scratch { service, budget, traffic, input, received, outbox, .. } = &mut *scratch;
        let full = outbox_full(budget);
        let input = match (full == OUTBOX_FULL_SHORT, self.state.has_partial_request()) {
            (true, _) => &mut input[..SHORT_READ],
            // What is read now is copied to where the value lies. What comes behind that is kept, and counted.
            (false, true) => &mut input[..],
            (false, false) => &mut input[..S::READ_BYTES],
        };
        let mut stopped = Stopped::NeedsInput;
        if !self.input.is_empty() {
            let (taken, why) = service.run(&mut self.state, &mut self.share.slice, full, &self.input, outbox);
            self.drop_input(taken);
            stopped = why;
        }
        let mut blocked = false;
        if stopped == Stopped::NeedsInput && outbox.is_empty() {
            // What is left of the input is part of a request: a client that is never read to its end would have a turn without end.
            if self.share.slice.is_over() {
                traffic.add(TrafficCount::Yields, 1);
                return Ok(Some(Turn::Again));
            }
            let received = std::mem::take(received);
            let (progress, most) = match received.len() {
                0 => (self.stream.read(input)?, input.len()),
                bytes => (Progress::Moved(bytes), S::READ_BYTES),
            };
            let read = if received.is_empty() { &*input } else { received };
            match progress {
                Progress::Blocked => return Ok(Some(Turn::Wait(Interest::Read))),
                Progress::Ended => {
                    self.ending = Ending::Over(CloseReason::Normal);
                    return Ok(None);
                }
                Progress::Moved(bytes) => {
                    if received.is_empty() {
                        traffic.add(TrafficCount::BytesRead, bytes as u64);
                    }
                    blocked = bytes < most;
                    let (taken, why) = self.take(service, full, &read[..bytes], outbox);
                    stopped = why;
                    // Afterwards: what was read of a long value is put where that lies, and not kept.
                    self.share.slice.copied(bytes);
                    self.has_asked |= taken > 0;
                    if taken > 0 || self.awaits_value() {
                        self.facts.active(service.now());
                    }
                }
            }
        }
        self.ending = match stopped {
            Stopped::NeedsInput | Stopped::OutboxFull | Stopped::SliceOver | Stopped::Waits => Ending::Open,
            Stopped::Leaves => Ending::Leaves,
            Stopped::Over(reason) => Ending::Over(reason),
        };
        self.flush(scratch)?;
        if self.is_blocked() {
            return Ok(None);
        }
        if stopped == Stopped::Waits {
            return Ok(Some(Turn::Soon));
        }
        // A read that did not fill the buffer has emptied the socket: the event loop tells when there is more.
        Ok((stopped == Stopped::NeedsInput && blocked).then_some(Turn::Wait(Interest::Read)))
    }

    /// Executes input that was just read, after what was left over. Returns how much of it all was taken, as well.
    fn take(
        &mut self,
        service: &mut S,
        full: usize,
        read: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        if self.input.is_empty() {
            let (taken, stopped) = service.run(&mut self.state, &mut self.share.slice, full, read, outbox);
            self.input.extend_from_slice(&read[taken..]);
            return (taken, stopped);
        }
        self.input.extend_from_slice(read);
        let (taken, stopped) = service.run(&mut self.state, &mut self.share.slice, full, &self.input, outbox);
        self.drop_input(taken);
        (taken, stopped)
    }

    /// Whether a request has arrived but for the rest of its value: a client that sends that is at work. One that only adds to a line, or has
    /// not logged in, says nothing, as in memcached.
    fn awaits_value(&self) -> bool {
        self.state.access() == Access::Free
            && match self.state.speaks() {
                Speaks::Binary => self.input.len() >= HEADER_BYTES,
                Speaks::Any | Speaks::Text => memchr::memchr(b'\n', &self.input).is_some(),
            }
    }

    fn drop_input(&mut self, taken: usize) {
        self.input.drain(..taken);
        if self.input.is_empty() && self.input.capacity() > KEPT_MAX {
            self.input = Vec::new();
        } else if self.input.capacity() > 2 * self.input.len() + SPARE_MAX {
            self.input.shrink_to_fit();
        }
    }

    fn flush(&mut self, scratch: &mut Scratch<'_, S>) -> std::io::Result<()> {
        let most = scratch.sendable(self.share.slice.sendable().max(REPLIES));
        let Scratch { traffic, outbox, spares, .. } = scratch;
        if outbox.is_empty() {
            return Ok(());
        }
        if let Some(slot) = outbox.take_only_slot() {
            self.unsent = Unsent::Reply(slot);
            return Ok(());
        }
        match outbox.send(&mut self.stream, most) {
            Ok((sent, bytes)) => {
                traffic.add(TrafficCount::BytesWritten, bytes as u64);
                self.share.slice.copied(bytes);
                match sent {
                    Sent::All => {}
                    Sent::Blocked | Sent::Enough | Sent::Waiting => {
                        self.unsent = Unsent::Outbox(spares.take_rest(outbox))
                    }
                    Sent::Ended => {
                        // The outbox serves other connections too: what this one did not take must not reach them.
                        drop(outbox.take_rest());
                        if !matches!(self.ending, Ending::Over(_)) {
                            self.ending = Ending::Over(CloseReason::Error);
                        }
                    }
                }
                Ok(())
            }
            Err(error) => {
                // As above.
                drop(outbox.take_rest());
                Err(error)
            }
        }
    }
}

impl<S: RequestHandler> Scratch<'_, S> {
    /// How much may be sent in a turn, if that is `usual` unless others have too much pinned that waits for a turn.
    fn sendable(&self, usual: usize) -> usize {
        if *self.paused > self.budget.for_turns() { usize::MAX } else { usual }
    }
}
