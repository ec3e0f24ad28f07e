//! A connection: a stream, its conversation, and what could not be dealt with yet.

use crate::background::BackgroundTask;
use crate::forward::{BATCHES_OF_ONE, ForwardBatch, Leftover, Sender};
use crate::interpreter::{Interpreter, OUTBOX_FULL, OUTBOX_FULL_SHORT, ProtocolState, Stopped};
use crate::outbox::{Outbox, Sent};
use crate::shared::{WorkerCount, WorkerCounters};
use crate::watch::CloseReason;
use guira_contract::Session;
use guira_protocol::binary::HEADER_BYTES;
use guira_serving::{
    Access, Arrival, ConnBudget, ConnId, ConnMemory, ConnectionFacts, Doing, Grant, Rank, Slice, Speaks,
};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use guira_transport::{Interest, Progress, Stream};
use std::sync::Arc;

/// Bytes of replies that are sent although the turn is over: those of the last requests.
const REPLIES: usize = OUTBOX_FULL;

/// The most turns in a row that one connection has while others wait.
const ROW: u32 = 16;

/// A connection keeps no buffer larger than this while it is at rest.
const KEPT_MAX: usize = 256;
/// A buffer with more room to spare is made to fit.
const SPARE_MAX: usize = 8 << 10;
/// Bytes read at once: what is not executed in this turn is kept.
const USUAL_READ: usize = 16 << 10;
/// The same while memory for connections is short.
const SHORT_READ: usize = 2 << 10;

/// A connection of a worker.
#[derive(Debug)]
pub(crate) struct Connection<S: Session> {
    pub(crate) stream: Stream,
    pub(crate) facts: Arc<ConnectionFacts>,
    state: ProtocolState<S>,
    /// Input that was read and not taken yet.
    input: Vec<u8>,
    /// Replies that the socket did not take yet. Nothing is read or executed before they were sent.
    unsent: Option<Box<Outbox<S::Pin>>>,
    /// Requests that wait until replies before theirs were sent.
    leftovers: Vec<Leftover>,
    /// What is waited for at the moment.
    pub(crate) interest: Interest,
    /// What it holds, as the budget knows.
    held: ConnMemory,
    /// By what it had to do in its last turn, and when that was.
    rank: (Rank, Seconds),
    /// Bytes of long values that it has pinned while it waits for another turn to send them.
    paused: usize,
    /// Turns since it began to have much to do.
    row: u32,
    /// The conversation is over.
    over: bool,
}

/// What a worker uses for one connection after another.
#[derive(Debug)]
pub(crate) struct WorkerScratch<S: Session> {
    pub(crate) interpreter: Interpreter<S>,
    pub(crate) input: Box<[u8]>,
    pub(crate) outbox: Outbox<S::Pin>,
}

/// What is to happen to a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Wait for this.
    Wait(Interest),
    /// It has more to do: another turn.
    Again,
    /// It leaves for a background task.
    Leave,
    /// It is finished, or broken.
    Close(CloseReason),
}

/// When an outbox counts as full, in bytes.
fn outbox_full(room: &ConnBudget) -> usize {
    if room.is_short() { OUTBOX_FULL_SHORT } else { OUTBOX_FULL }
}

impl<S: Session> Connection<S> {
    /// A connection at this place of its worker, with a number that no other has had there.
    pub(crate) fn new(arrival: Arrival, place: usize, serial: u64) -> Self {
        let sender = Sender { place, serial, client: arrival.facts.id };
        Connection {
            stream: arrival.stream,
            facts: arrival.facts,
            state: ProtocolState::new(arrival.speaks, arrival.access, Some(sender)),
            input: arrival.input,
            unsent: (!arrival.output.is_empty()).then(|| Box::new(Outbox::of(&arrival.output))),
            leftovers: Vec::new(),
            interest: Interest::Read,
            held: ConnMemory::default(),
            rank: (Rank::Light, Seconds(0)),
            paused: 0,
            row: 0,
            over: false,
        }
    }

    /// The background task that it is to leave for.
    pub(crate) fn take_background_task(&mut self) -> Option<BackgroundTask> {
        self.state.take_background_task()
    }

    /// The connection, on its way to somewhere else.
    pub(crate) fn into_arrival(self) -> Arrival {
        let Connection { stream, facts, state, input, .. } = self;
        Arrival { stream, facts, speaks: state.speaks(), access: state.access, input, output: Vec::new() }
    }

    /// Whether nothing is under way: no half-read request, no unsent reply.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_midway = self.state.is_midway() || !self.input.is_empty() || self.stream.has_input();
        !is_midway && self.unsent.is_none()
    }

    /// Nothing more is said: what TLS keeps back is sent, as far as the client takes it.
    fn farewell(&mut self) -> Turn {
        match self.stream.finish() {
            Ok(Progress::Blocked) => Turn::Wait(Interest::Write),
            _ => Turn::Close(self.state.ends),
        }
    }

    /// Reads, executes and writes, as long as there is something to do and others need not wait.
    pub(crate) fn turn(&mut self, scratch: &mut WorkerScratch<S>, counters: &WorkerCounters) -> Turn {
        self.facts.set_doing(Doing::Serving);
        scratch.interpreter.tap.serve(self.facts.id);
        self.resume(&mut scratch.interpreter);
        let now = scratch.interpreter.executor.now();
        let slice = Slice::of(self.rank(now));
        let short = scratch.interpreter.shared.budget.is_short();
        self.state.slice = if short { slice.keeping_nothing() } else { slice };
        let turn = self.rounds(scratch, counters);
        self.rank = (self.state.slice.rank(), now);
        self.row = if turn == Turn::Again { self.row.wrapping_add(1) } else { 0 };
        self.facts.set_doing(match turn {
            Turn::Wait(Interest::Read) if self.input.is_empty() && !self.state.is_midway() => Doing::Waiting,
            Turn::Wait(Interest::Read) => Doing::Receiving,
            Turn::Again => Doing::Serving,
            _ => Doing::Sending,
        });
        turn
    }

    /// When its turn comes. A heavy turn counts until the next second: a client that has filled the cache may ask for little afterwards.
    pub(crate) fn rank(&self, now: Seconds) -> Rank {
        if self.rank.1 == now { self.rank.0 } else { Rank::Light }
    }

    /// Whether it may go on before others that have much to do: not if it has just come, and not for ever.
    pub(crate) fn may_go_on(&self) -> bool {
        self.rank.0 == Rank::Heavy && self.row % ROW > 1
    }

    /// What its last turn has taken.
    pub(crate) fn spent(&self) -> usize {
        self.state.slice.spent()
    }

    /// Takes the replies of another worker. False if they are for an earlier connection in its place.
    pub(crate) fn hear(&mut self, batch: &mut ForwardBatch<S::Pin>, room: &ConnBudget) -> bool {
        let is_ours = self.state.sender == Some(batch.sender);
        if is_ours {
            self.state.out -= 1;
        }
        if let Some(unsent) = self.unsent.as_mut().filter(|_| is_ours) {
            if room.is_short() {
                batch.put_off(unsent.next_slot());
            }
            batch.fill(unsent);
            self.leftovers.extend(batch.leftover());
        }
        is_ours
    }

    /// What it holds now.
    pub(crate) fn holding(&self) -> ConnMemory {
        let mut holding = self.unsent.as_ref().map_or(ConnMemory::default(), |unsent| unsent.holding());
        if self.paused > 0 {
            holding.pinned = 0;
        }
        holding.bytes += self.input.capacity() + self.stream.holds();
        holding.bytes += self.leftovers.iter().map(Leftover::bytes).sum::<usize>();
        holding
    }

    /// Tells the budget what it holds now.
    pub(crate) fn settle(&mut self, room: &ConnBudget, seat: ConnId) -> Grant {
        let wanted = self.holding();
        if wanted == self.held {
            return Grant::Granted;
        }
        let asked = room.change(seat, self.held, wanted);
        if asked == Grant::Granted {
            self.held = wanted;
        }
        asked
    }

    /// Whether what it had was given to another connection.
    pub(crate) fn is_evicted(&self, room: &ConnBudget, seat: ConnId) -> bool {
        room.is_evicted(seat, self.held)
    }

    /// Counts it as closed for lack of memory.
    pub(crate) fn count_crowded_out(&self, room: &ConnBudget) {
        let count = if self.unsent.is_some() { &room.closed_sending } else { &room.closed_receiving };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn rounds(&mut self, scratch: &mut WorkerScratch<S>, counters: &WorkerCounters) -> Turn {
        if self.stream.flush().is_err() {
            return Turn::Close(CloseReason::Error);
        }
        loop {
            if let Some(turn) = self.send_unsent(&mut scratch.interpreter, counters) {
                return turn;
            }
            if self.over {
                return self.farewell();
            }
            if self.state.leaves() {
                return Turn::Leave;
            }
            let slice = self.state.slice;
            if slice.is_cut() || (slice.is_over() && self.input.is_empty()) {
                counters.add(WorkerCount::Yields, 1);
                return Turn::Again;
            }
            match self.round(scratch, counters) {
                Ok(None) => {}
                Ok(Some(turn)) => return turn,
                Err(_) => return Turn::Close(CloseReason::Error),
            }
        }
    }

    /// How much may be sent in this turn, if that is `usual` unless others have too much pinned that waits for a turn.
    fn sendable(interpreter: &Interpreter<S>, usual: usize) -> usize {
        if interpreter.unsent > interpreter.shared.budget.for_turns() { usize::MAX } else { usual }
    }

    /// The rest is sent in another turn.
    fn pause(&mut self, interpreter: &mut Interpreter<S>) {
        self.paused = self.unsent.as_ref().map_or(0, |unsent| unsent.holding().pinned);
        interpreter.unsent += self.paused;
    }

    /// It waits for no turn any more.
    pub(crate) fn resume(&mut self, interpreter: &mut Interpreter<S>) {
        interpreter.unsent -= std::mem::take(&mut self.paused);
    }

    /// Sends what is still unsent. `None` if nothing is any more.
    fn send_unsent(&mut self, interpreter: &mut Interpreter<S>, counters: &WorkerCounters) -> Option<Turn> {
        let unsent = self.unsent.as_mut()?;
        let most = Self::sendable(interpreter, self.state.slice.sendable());
        let Ok((sent, bytes)) = unsent.send(&mut self.stream, most) else {
            return Some(Turn::Close(CloseReason::Error));
        };
        counters.add(WorkerCount::BytesWritten, bytes as u64);
        self.state.slice.copied(bytes);
        match sent {
            Sent::All => {
                self.unsent = None;
                None
            }
            Sent::Blocked => Some(Turn::Wait(Interest::Write)),
            Sent::Enough => {
                counters.add(WorkerCount::Yields, 1);
                self.pause(interpreter);
                Some(Turn::Again)
            }
            Sent::Waiting => Some(self.forward_leftovers(interpreter)),
            Sent::Ended => Some(Turn::Close(CloseReason::Error)),
        }
    }

    /// All replies that have come were sent: now those that come after them are asked for.
    fn forward_leftovers(&mut self, interpreter: &mut Interpreter<S>) -> Turn {
        let full = outbox_full(&interpreter.shared.budget);
        let forwarding = &mut interpreter.forwarding;
        if let Some(sender) = self.state.sender {
            // The others when these have come and were sent.
            let most = if full < OUTBOX_FULL { 1 } else { BATCHES_OF_ONE };
            let mut put = 0;
            self.leftovers.retain(|leftover| {
                let is_put = put < most && forwarding.forward_again(sender, leftover);
                put += usize::from(is_put);
                !is_put
            });
            self.state.out += forwarding.dispatch(full);
        }
        // If all batches are under way, of others too, they will be back soon.
        if self.state.out > 0 || self.leftovers.is_empty() { Turn::Wait(Interest::End) } else { Turn::Again }
    }

    /// Executes what was read, or reads and executes; then sends.
    fn round(
        &mut self,
        scratch: &mut WorkerScratch<S>,
        counters: &WorkerCounters,
    ) -> std::io::Result<Option<Turn>> {
        let WorkerScratch { interpreter, input, outbox } = scratch;
        let short = interpreter.shared.budget.is_short();
        interpreter.full = outbox_full(&interpreter.shared.budget);
        let input = match (short, self.state.is_midway()) {
            (true, _) => &mut input[..SHORT_READ],
            // What is read now is copied to where the value lies. What comes behind that is kept, and counted.
            (false, true) => &mut input[..],
            (false, false) => &mut input[..USUAL_READ],
        };
        let mut stopped = Stopped::NeedsInput;
        if !self.input.is_empty() {
            let (taken, why) = interpreter.run(&mut self.state, &self.input, outbox);
            self.drop_input(taken);
            stopped = why;
        }
        let mut filled = false;
        let mut blocked = false;
        if stopped == Stopped::NeedsInput && outbox.is_empty() {
            // What is left of the input is part of a request: a client that is never read to its end would have a turn without end.
            if self.state.slice.is_over() {
                counters.add(WorkerCount::Yields, 1);
                return Ok(Some(Turn::Again));
            }
            match self.stream.read(input)? {
                Progress::Blocked => return Ok(Some(Turn::Wait(Interest::Read))),
                Progress::Ended => {
                    self.state.ends = CloseReason::Normal;
                    self.over = true;
                    return Ok(None);
                }
                Progress::Moved(bytes) => {
                    counters.add(WorkerCount::BytesRead, bytes as u64);
                    filled = bytes == input.len();
                    blocked = !filled;
                    let (taken, why) = self.take(interpreter, &input[..bytes], outbox);
                    stopped = why;
                    // Afterwards: what was read of a long value is put where that lies, and not kept.
                    self.state.slice.copied(bytes);
                    if taken > 0 || self.awaits_value() {
                        self.facts.active(interpreter.executor.now());
                    }
                }
            }
        }
        self.over = stopped == Stopped::Over;
        self.flush(scratch, counters)?;
        if self.unsent.is_some() || self.over || self.state.leaves() {
            return Ok(None);
        }
        // A read that did not fill the buffer has emptied the socket: the event loop tells when there is more.
        Ok((stopped == Stopped::NeedsInput && blocked && !filled).then_some(Turn::Wait(Interest::Read)))
    }

    /// Executes input that was just read, after what was left over. Returns how much of it all was taken, as well.
    fn take(
        &mut self,
        interpreter: &mut Interpreter<S>,
        read: &[u8],
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Stopped) {
        if self.input.is_empty() {
            let (taken, stopped) = interpreter.run(&mut self.state, read, outbox);
            self.input.extend_from_slice(&read[taken..]);
            return (taken, stopped);
        }
        self.input.extend_from_slice(read);
        let (taken, stopped) = interpreter.run(&mut self.state, &self.input, outbox);
        self.drop_input(taken);
        (taken, stopped)
    }

    /// Whether a request has arrived but for the rest of its value: whoever sends that is at work. Whoever only adds to a line, or has not
    /// logged in, says nothing, as in memcached.
    fn awaits_value(&self) -> bool {
        self.state.access == Access::Free
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

    fn flush(&mut self, scratch: &mut WorkerScratch<S>, counters: &WorkerCounters) -> std::io::Result<()> {
        let WorkerScratch { interpreter, outbox, .. } = scratch;
        if outbox.is_empty() {
            return Ok(());
        }
        let most = Self::sendable(interpreter, self.state.slice.sendable().max(REPLIES));
        match outbox.send(&mut self.stream, most) {
            Ok((sent, bytes)) => {
                counters.add(WorkerCount::BytesWritten, bytes as u64);
                self.state.slice.copied(bytes);
                match sent {
                    Sent::All => {}
                    Sent::Blocked | Sent::Enough | Sent::Waiting => {
                        self.unsent = Some(Box::new(outbox.take_rest()))
                    }
                    Sent::Ended => {
                        // The outbox serves other connections too: what this one did not take must not reach them.
                        drop(outbox.take_rest());
                        self.over = true;
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
