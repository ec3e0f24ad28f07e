//! The connections of one worker, and which of them have another turn.

use crate::connection::{Connection, Scratch, Turn};
use crate::group::{Group, LITTLE, Member};
use crate::outbox::{Outbox, ReplyEnd, SlotId, Spares};
use crate::queue::{Queue, Rank};
use crate::request_handler::{Conversation, Due, ReplyTo, RequestHandler, Unread};
use crate::tokens::FIRST_CONNECTION;
use crate::{Arrival, CloseReason, ConnId, Doing, Grant, Host, TrafficCount, TrafficCounters};
use guira_sync::clock::{Seconds, Stopwatch};
use guira_transport::{Event, Interest, Poll, Progress, Token};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// While more connections than this have much to do, the poller is not asked about others of them: it would report each of them in each
/// round.
const POLLED_MAX: usize = 16;

/// The longest reply that [`Clients::answer_alone`] sends, in bytes: what the socket does not accept is copied.
pub const ALONE_MAX: usize = 16 << 10;

/// How soon a connection that waits for other threads has another turn.
const MOMENT: Duration = Duration::from_millis(1);

/// The next step of a connection after [`Clients::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Done,
    /// The connection has a turn of its own. This many bytes were received for it.
    Turn(usize),
}

/// The connection of a member, unless that is closed.
fn member_of<'c, S: RequestHandler>(
    connections: &'c mut [Option<Connection<S>>],
    member: &Member,
) -> Option<&'c mut Connection<S>> {
    let connection = connections.get_mut(member.place)?.as_mut()?;
    connection.is(member).then_some(connection)
}

#[derive(Debug)]
pub struct Clients<S: RequestHandler> {
    worker: usize,
    pub(crate) poll: Poll,
    host: Arc<Host>,
    traffic: Arc<TrafficCounters>,
    /// By token; empty places are used again.
    connections: Vec<Option<Connection<S>>>,
    serial: u64,
    vacant: Vec<usize>,
    /// Those that have more to do.
    pub(crate) again: Queue,
    /// The places of those that have another turn after a moment, which begins with the first of them.
    soon: Vec<usize>,
    since: Option<Stopwatch>,
    /// Bytes of long values that connections have pinned which wait for another turn to send them.
    paused: usize,
    spares: Spares<S::Pin>,
}

impl<S: RequestHandler> Clients<S> {
    pub(crate) fn new(worker: usize, host: Arc<Host>) -> io::Result<Self> {
        Ok(Clients {
            worker,
            poll: Poll::new()?,
            traffic: host.traffic(worker).clone(),
            host,
            connections: Vec::new(),
            serial: 0,
            vacant: Vec::new(),
            again: Queue::default(),
            soon: Vec::new(),
            since: None,
            paused: 0,
            spares: Spares::default(),
        })
    }

    /// The worker's poller, with which a service registers sockets of its own, by [`crate::service_token`]s.
    pub fn poll(&self) -> &Poll {
        &self.poll
    }

    /// Lets `fill` put late replies into the outbox of a connection, which then has a turn to send them. False if the connection is
    /// gone.
    pub fn answer(
        &mut self,
        to: ReplyTo,
        now: Seconds,
        fill: impl FnOnce(&mut S::State, Option<&mut Outbox<S::Pin>>),
    ) -> bool {
        let and_send = |state: &mut S::State, unsent: Option<&mut Outbox<S::Pin>>| {
            fill(state, unsent);
            Due::Now
        };
        self.answer_when_due(to, now, and_send)
    }

    /// The same, where `fill` says whether they are sent now, or at the next turn.
    pub fn answer_when_due(
        &mut self,
        to: ReplyTo,
        now: Seconds,
        fill: impl FnOnce(&mut S::State, Option<&mut Outbox<S::Pin>>) -> Due,
    ) -> bool {
        let place = to.place as usize;
        let id = self.id(place);
        let Some(Some(connection)) = self.connections.get_mut(place) else {
            return false;
        };
        let Some(due) = connection.answer(to, fill) else {
            return false;
        };
        let rank = connection.rank(now);
        // The budget knows now what it holds, if its turn, which finds out whether there is memory for that, does not come in this round.
        if due == Due::Later || rank == Rank::Heavy {
            connection.settle(&self.host.budget, id);
        }
        if due == Due::Now {
            self.again.push(place, rank);
        }
        true
    }

    /// Writes a reply to the socket, if the connection waits only for the reply in this slot, and calls `note` with the
    /// connection's state before. False otherwise: then the reply belongs to [`Clients::answer_when_due`].
    pub fn answer_alone(
        &mut self,
        to: ReplyTo,
        (slot, now): (SlotId, Seconds),
        reply: &[u8],
        note: impl FnOnce(&mut S::State),
    ) -> bool {
        let place = to.place as usize;
        let Some(connection) = self.connections.get_mut(place).and_then(Option::as_mut) else {
            return false;
        };
        if reply.len() > ALONE_MAX || !connection.is_for(to) || !connection.awaits_only(slot) {
            return false;
        }
        note(connection.state_mut());
        let rank = connection.rank(now);
        match connection.reply_alone(reply) {
            Ok(sent) => {
                self.traffic.add(TrafficCount::BytesWritten, sent as u64);
                if connection.needs_turn() {
                    self.again.push(place, rank);
                }
            }
            Err(reason) => self.close(place, reason),
        }
        true
    }

    fn id(&self, place: usize) -> ConnId {
        ConnId { worker: self.worker, place }
    }

    fn get(&self, index: usize) -> Option<&Connection<S>> {
        self.connections.get(index)?.as_ref()
    }

    pub(crate) fn admit(&mut self, arrival: Arrival, service: &mut S) {
        let index = self.vacant.pop().unwrap_or(self.connections.len());
        let token = Token(FIRST_CONNECTION + index as u64);
        if self.poll.add(&arrival.stream, token, Interest::Read).is_err() {
            if index < self.connections.len() {
                self.vacant.push(index);
            }
            self.host.gone(&arrival.facts, CloseReason::Error);
            return;
        }
        if index == self.connections.len() {
            self.connections.push(None);
        }
        // A connection that comes back from elsewhere may have input that no poller reports.
        let stream = &arrival.stream;
        let comes_back = !(arrival.input.is_empty() && arrival.output.is_empty());
        let is_ready = comes_back || stream.has_input() || stream.wants(Interest::Read) != Interest::Read;
        // Otherwise a connection that comes back with nothing to do would never be found idle.
        arrival.facts.set_doing(Doing::Waiting);
        self.serial += 1;
        let reply_to = ReplyTo { place: index as u32, serial: self.serial, client: arrival.facts.id };
        let mut state = service.open(&arrival, reply_to);
        if !arrival.carried.is_empty() {
            state.resume(&arrival.carried);
        }
        self.connections[index] = Some(Connection::new(arrival, self.serial, state));
        if is_ready {
            self.again.push(index, Rank::Light);
        }
    }

    /// Takes a connection out of its place.
    pub(crate) fn take_out(&mut self, index: usize) -> Option<Connection<S>> {
        let mut connection = self.connections.get_mut(index).and_then(Option::take)?;
        connection.resume(&mut self.paused);
        self.again.forget(index);
        self.soon.retain(|place| *place != index);
        // Closing the socket does the same; it is done here so that no event of it is left.
        let _ = self.poll.remove(&connection.stream);
        self.vacant.push(index);
        self.host.budget.release(self.id(index));
        Some(connection)
    }

    pub(crate) fn close(&mut self, index: usize, reason: CloseReason) {
        if let Some(connection) = self.take_out(index) {
            self.host.gone(&connection.facts, reason);
        }
    }

    /// What is to be done about an event of a connection. True if it has its turn now.
    pub(crate) fn has_turn(&mut self, index: usize, event: Event, now: Seconds) -> bool {
        let reads = [Interest::Read, Interest::ReadWrite];
        // A connection that is queued has a turn anyway.
        let is_queued = self.again.has(index);
        let Some(connection) = self.get(index).filter(|_| !is_queued) else {
            return false;
        };
        // Its client sends more before it has its replies: until then nothing is read, nor told of.
        if connection.interest == Interest::Read && connection.awaits_reply() {
            let interest = connection.stream.wants(Interest::End);
            self.listen(index, interest);
            return false;
        }
        if event.failed && !reads.contains(&connection.interest) {
            self.close(index, CloseReason::Error);
            return false;
        }
        let is_light = connection.rank(now) == Rank::Light;
        if !is_light {
            self.again.push(index, Rank::Heavy);
        }
        is_light
    }

    /// How long the worker may sleep for the sake of those that have another turn after a moment.
    pub(crate) fn patience(&self) -> Option<Duration> {
        (!self.soon.is_empty()).then_some(MOMENT)
    }

    /// Gives them their turn if the moment has passed.
    pub(crate) fn wake_up(&mut self, now: Seconds) {
        if self.since.is_none_or(|since| since.elapsed() < MOMENT) {
            return;
        }
        self.since = None;
        for index in std::mem::take(&mut self.soon) {
            if let Some(rank) = self.get(index).map(|connection| connection.rank(now)) {
                self.again.push(index, rank);
            }
        }
    }

    /// Receives from a connection, and adds the connection to the group if that may execute its requests.
    pub(crate) fn receive(&mut self, index: usize, service: &S, group: &mut Group) -> Received {
        let is_short = self.host.budget.is_short();
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return Received::Done;
        };
        if is_short || !connection.may_join(service) {
            return Received::Turn(0);
        }
        match connection.receive(&mut group.room()[..S::READ_BYTES], service.now()) {
            Ok(Progress::Moved(bytes)) => {
                self.traffic.add(TrafficCount::BytesRead, bytes as u64);
                if !(1..=LITTLE).contains(&bytes) {
                    return Received::Turn(bytes);
                }
                group.add(connection.as_member(index, group.last(bytes)));
                Received::Done
            }
            Ok(Progress::Blocked) => Received::Done,
            Ok(Progress::Ended) => {
                connection.end_input();
                Received::Turn(0)
            }
            Err(reason) => {
                self.close(index, reason);
                Received::Done
            }
        }
    }

    /// Sends the replies to a group, and leaves the outbox empty. Replies with inserts are sent in the connection's own turn.
    pub(crate) fn send_replies(&mut self, members: &[Member], now: Seconds, outbox: &mut Outbox<S::Pin>) {
        let (mut from, mut written) = (ReplyEnd::default(), 0);
        for member in members.iter().filter(|member| member.taken > 0) {
            let end = std::mem::replace(&mut from, member.replied);
            let Some(connection) = member_of(&mut self.connections, member) else { continue };
            let Some(bytes) = outbox.bytes_between(end, member.replied) else {
                outbox.pass(end);
                connection.reply_later(self.spares.take_rest(outbox), now);
                continue;
            };
            match connection.reply(bytes, now) {
                Ok(sent) => written += sent as u64,
                Err(reason) => self.close(member.place, reason),
            }
        }
        outbox.forget_all();
        self.traffic.add(TrafficCount::BytesWritten, written);
    }

    /// The place of a member that needs a turn of its own, and the part of the group's input that is for that turn.
    pub(crate) fn rest_of(&mut self, member: &Member, group: &Group) -> Option<(usize, Range<usize>)> {
        let rest = member.rest();
        let connection = member_of(&mut self.connections, member)?;
        if connection.is_blocked() {
            connection.keep_input(group.input(rest));
            return Some((member.place, 0..0));
        }
        (!rest.is_empty()).then_some((member.place, rest))
    }

    /// Gives a connection its turn, after `received` bytes were received from it. Returns what that has taken, and whether the connection is to
    /// leave.
    pub(crate) fn serve(
        &mut self,
        index: usize,
        service: &mut S,
        (input, received): (&mut [u8], &[u8]),
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, Option<Connection<S>>) {
        let id = self.id(index);
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return (0, None);
        };
        let budget = &self.host.budget;
        let (paused, spares) = (&mut self.paused, &mut self.spares);
        let traffic = &self.traffic;
        let mut scratch = Scratch { service, budget, traffic, input, received, outbox, spares, paused };
        let turn = connection.turn(&mut scratch);
        let spent = connection.spent();
        let is_settled = connection.settle(budget, id) == Grant::Granted;
        service.end_turn();
        let mut leaving = None;
        if !is_settled && !matches!(turn, Turn::Close(_)) && !self.make_room(index) {
            self.close(index, CloseReason::Error);
        } else {
            leaving = self.after(index, turn, service.now());
        }
        (spent, leaving)
    }

    /// What is to happen after a turn. Returns a connection that is to leave.
    fn after(&mut self, index: usize, turn: Turn, now: Seconds) -> Option<Connection<S>> {
        let connection = self.connections.get_mut(index)?.as_mut()?;
        match turn {
            Turn::Again => {
                let rank = connection.rank(now);
                // Where much is held one after the other comes to its end, or is found not to read, before all hold as much as they can,
                // here and in the kernel.
                if connection.may_continue() && self.is_crowded() {
                    self.again.push_first(index);
                } else {
                    self.again.push(index, rank);
                }
                if self.again.len(rank) > POLLED_MAX {
                    self.listen(index, Interest::End);
                }
            }
            Turn::Soon => {
                self.soon.push(index);
                self.since.get_or_insert_with(Stopwatch::start);
                // More input would wake the worker in each round.
                self.listen(index, Interest::End);
            }
            Turn::Close(reason) => self.close(index, reason),
            Turn::Leave => return self.take_out(index),
            // Most clients send nothing before they have their replies: the poller is told to be silent if one does.
            Turn::Wait(Interest::End)
                if connection.interest == Interest::Read
                    && connection.awaits_reply()
                    && !connection.stream.has_output() => {}
            Turn::Wait(interest) => {
                let interest = connection.stream.wants(interest);
                self.listen(index, interest);
            }
        }
        None
    }

    /// Whether more is held, or about to be sent, than there should be for long.
    fn is_crowded(&self) -> bool {
        self.host.budget.is_short() || self.paused > self.host.budget.for_turns()
    }

    /// Waits for this from now on.
    fn listen(&mut self, index: usize, interest: Interest) {
        let Some(connection) = self.connections[index].as_mut().filter(|it| it.interest != interest) else {
            return;
        };
        connection.interest = interest;
        let token = Token(FIRST_CONNECTION + index as u64);
        if self.poll.change(&connection.stream, token, interest).is_err() {
            self.close(index, CloseReason::Error);
        }
    }

    /// Closes the connections that hold most until this one fits into the budget. False if it holds most itself.
    fn make_room(&mut self, index: usize) -> bool {
        let id = self.id(index);
        loop {
            let Some(connection) = self.connections[index].as_mut() else {
                return false;
            };
            let asked = connection.settle(&self.host.budget, id);
            let wanted = connection.holding().total();
            let victim = match asked {
                Grant::Granted => return true,
                Grant::Evicted => None,
                Grant::Full => self.host.budget.evict_above(wanted, self.worker),
            };
            match victim {
                Some(victim) if victim == id => {}
                Some(victim) if victim.worker == self.worker => self.crowd_out(victim.place),
                // It is closed when its worker looks.
                Some(victim) => self.host.mailboxes[victim.worker].ring(),
                None => {
                    connection.count_crowded_out(&self.host.budget);
                    return false;
                }
            }
        }
    }

    /// Closes a connection whose memory was given to another.
    fn crowd_out(&mut self, index: usize) {
        if let Some(connection) = self.get(index) {
            connection.count_crowded_out(&self.host.budget);
        }
        self.close(index, CloseReason::Error);
    }

    /// Closes the connections whose memory was given to another worker's.
    pub(crate) fn close_evicted(&mut self) {
        for place in self.host.budget.evicted(self.worker) {
            // Another connection may have its place by now.
            let id = self.id(place);
            if self.get(place).is_some_and(|connection| connection.is_evicted(&self.host.budget, id)) {
                self.crowd_out(place);
            }
        }
    }

    /// Closes connections that have not said anything for longer than `limit_s` seconds, or not taken anything, if the service wants that.
    pub(crate) fn close_idle(
        &mut self,
        now: Seconds,
        limit_s: u64,
        service: &mut S,
        outbox: &mut Outbox<S::Pin>,
    ) {
        for index in 0..self.connections.len() {
            let is_idle = self.get(index).is_some_and(|connection| {
                let facts = &connection.facts;
                // As in memcached: connections of this host's own sockets are left alone, and those that are sent something.
                let idle_s = u64::from(now.0.saturating_sub(facts.last_active().0));
                let is_silent = match facts.doing() {
                    Doing::Waiting | Doing::Receiving => true,
                    Doing::Sending => S::UNREAD == Unread::Closed,
                    Doing::Serving | Doing::Watching => false,
                };
                facts.is_remote() && is_silent && idle_s > limit_s
            });
            if is_idle {
                self.kick(index, service, outbox);
            }
        }
    }

    /// Closes the connection that has asked for nothing for longest: one that never has, if there is any.
    pub(crate) fn close_quietest(&mut self, service: &mut S, outbox: &mut Outbox<S::Pin>) {
        let all = self.connections.iter().enumerate();
        let quietest = all.filter_map(|(index, it)| Some((it.as_ref()?.last_asked(), index))).min();
        if let Some((_, index)) = quietest {
            self.kick(index, service, outbox);
        }
    }

    /// Closes a connection for saying too little.
    fn kick(&mut self, index: usize, service: &mut S, outbox: &mut Outbox<S::Pin>) {
        if let Some(connection) = self.connections[index].as_mut() {
            connection.part(service, outbox);
        }
        self.traffic.add(TrafficCount::IdleKicks, 1);
        self.close(index, CloseReason::IdleTimeout);
    }

    /// Gives away the connections that another server can go on with, and closes those at rest with which none can, unless they have just
    /// come. True if there are none any more.
    pub(crate) fn hand_over(&mut self, now: Seconds) -> bool {
        for index in 0..self.connections.len() {
            let Some(connection) = self.get(index) else { continue };
            if let Some(carried) = connection.carry() {
                let arrival = self.take_out(index).map(|connection| connection.leave(carried));
                self.host.give_away(arrival);
            } else if connection.is_at_rest() && !connection.is_new(now) {
                self.close(index, CloseReason::Shutdown);
            }
        }
        self.connections.iter().all(Option::is_none)
    }

    /// Closes the connections that have nothing under way. True if there are none any more.
    pub(crate) fn close_those_at_rest(&mut self) -> bool {
        for index in 0..self.connections.len() {
            if self.get(index).is_some_and(Connection::is_at_rest) {
                self.close(index, CloseReason::Shutdown);
            }
        }
        self.connections.iter().all(Option::is_none)
    }
}
