//! One worker of a router.

use crate::calls::{Calls, Reply, ReplySize};
use crate::client::{Client, Length, Refuses, Turn};
use crate::counters::{Counters, Event};
use crate::flow::Flow;
use crate::no_pin::NoPin;
use crate::reload::{Change, Command};
use crate::round_clock::RoundClock;
use crate::shared::Shared;
use crate::ticket::Ticket;
use crate::udp::{self, Udp};
use guira_routing::Walks;
use guira_serving::{
    Arrival, Clients, Conversation, Due, Outbox, ReplyTo, RequestHandler, Round, Service, Slice, Stopped,
    service_token,
};
use guira_sync::clock::Seconds;
use guira_transport::net::UdpSocket;
use guira_transport::{Interest, Mailbox, Poll};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Requests of a worker's clients go through its tree to servers, and their replies back.
#[derive(Debug)]
pub(crate) struct RouterService {
    walks: Walks<Ticket>,
    flow: Flow,
    clock: RoundClock,
    /// Clients whose replies are held back, and since when.
    held: VecDeque<(ReplyTo, u64)>,
    /// Replies of one client while they are put next to each other.
    scratch: Vec<u8>,
    /// How long replies to clients are.
    usual: Length,
    /// Rounds since something was sent to servers.
    gathered: u32,
    mailboxes: Mailboxes,
    udp: Option<Udp>,
    shared: Arc<Shared>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Serves,
    /// The router stops, and all connections are gone.
    Finishes,
}

/// Between a worker and the thread that loads configurations.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    /// New configurations, and addresses.
    pub(crate) changes: Arc<Mailbox<Change>>,
    /// Receives trees that are no longer needed.
    pub(crate) commands: Arc<Mailbox<Command>>,
}

/// The numbers of mailboxes among the service's sockets: servers have those from 0 on.
const CHANGES: u32 = (1 << 31) - 1;
const LOGGED: u32 = CHANGES - 1;
/// The number of the first UDP socket.
const FIRST_UDP: u32 = 1 << 30;

impl RouterService {
    pub(crate) fn new(
        walks: Walks<Ticket>,
        flow: Flow,
        mailboxes: Mailboxes,
        sockets: Vec<UdpSocket>,
        shared: Arc<Shared>,
    ) -> Self {
        let (clock, held, scratch) = (RoundClock::default(), VecDeque::new(), Vec::new());
        let udp = (!sockets.is_empty()).then(|| Udp::new(sockets));
        let (usual, gathered, state) = (Length::default(), 0, State::Serves);
        RouterService { walks, flow, clock, held, scratch, usual, gathered, mailboxes, udp, shared, state }
    }
}

impl RequestHandler for RouterService {
    type Pin = NoPin;
    type State = Client;

    fn now(&self) -> Seconds {
        self.clock.now()
    }

    fn open(&mut self, arrival: &Arrival, from: ReplyTo) -> Client {
        Client::new(from, arrival.speaks, arrival.facts.peer_host())
    }

    fn may_join(&self, client: &Client) -> bool {
        !client.has_partial_request()
    }

    fn run(
        &mut self,
        client: &mut Client,
        slice: &mut Slice,
        full: usize,
        input: &[u8],
        outbox: &mut Outbox<NoPin>,
    ) -> (usize, Stopped) {
        let RouterService { walks, flow, shared, usual, .. } = self;
        flow.facts.client = client.host;
        let first = flow.calls.done();
        let (usual, executed, refuses) = (*usual, 0, Refuses::No);
        let mut turn = Turn { client, walks, flow, outbox, shared, full, usual, executed, refuses };
        let result = turn.run(slice, input);
        // Replies that needed no server.
        if self.flow.calls.done() > first {
            fill(client, outbox, &self.flow.calls, self.flow.calls.replies(first), &mut self.usual);
            self.flow.calls.forget(first);
        }
        result
    }
}

impl Service for RouterService {
    fn deadline(&self) -> Option<Duration> {
        let patience = self.flow.until_deadline_ms();
        let held =
            self.held.front().map(|(_, since)| (since + HELD_MS).saturating_sub(self.flow.facts.now_ms));
        patience.into_iter().chain(held).min().map(Duration::from_millis)
    }

    fn begin_round(&mut self) {
        self.clock.begin_round();
        self.flow.set_clock(self.clock.elapsed());
        self.flow.counters.add(Event::Round);
        self.flow.facts.now_s = self.clock.now_unix();
    }

    fn listen(&self, poll: &Poll) -> io::Result<()> {
        for (socket, number) in self.udp.iter().flat_map(Udp::sockets).zip(FIRST_UDP..) {
            poll.add(socket, service_token(number), Interest::Read)?;
        }
        self.flow.listen(poll, LOGGED)?;
        poll.add(&*self.mailboxes.changes, service_token(CHANGES), Interest::Read)
    }

    fn on_event(&mut self, number: u32, round: &mut Round<'_, Self>) {
        if number >= FIRST_UDP {
            return self.on_own_event(number, round.clients.poll());
        }
        self.flow.receive(number, &mut self.walks, round.clients.poll());
    }

    fn deliver(&mut self, round: &mut Round<'_, Self>) -> bool {
        self.flow.expire(&mut self.walks, round.clients.poll());
        self.flow.end_waits(&mut self.walks);
        self.flow.retire_servers(&self.walks, round.clients.poll());
        self.send_held(round.clients);
        self.hand_out_all(round.clients);
        // Released clients may be gone: then the next round releases others.
        let is_released = self.flow.release();
        if is_released {
            self.hand_out_all(round.clients);
        }
        is_released
    }

    fn end_round(&mut self, round: &mut Round<'_, Self>) -> bool {
        // While clients send further requests, those to a server are gathered for longer: a system call costs more than all else about a key.
        if self.flow.has_unsent() && !round.is_idle && self.gathered < ROUNDS_MAX {
            self.gathered += 1;
            return true;
        }
        self.gathered = 0;
        if self.flow.has_unsent() {
            self.flow.set_clock(self.clock.elapsed());
        }
        self.flow.flush(&mut self.walks, round.clients.poll());
        // Requests that could not be sent are answered already.
        self.flow.calls.done() > 0
    }

    fn finish(&mut self) {
        self.state = State::Finishes;
    }

    /// Requests without a waiting client count too: deletes of an AllAsyncRoute, and requests of clients that are gone.
    fn is_finished(&self) -> bool {
        self.flow.is_idle()
    }
}

/// Rounds whose requests are sent together at most: as long as one finds something to do, which the next one that finds nothing ends.
const ROUNDS_MAX: u32 = 6;

/// How long a reply waits for other replies to its client, in milliseconds. A client with many
/// requests in flight gets all replies together, and is woken up once, unless a server is slow.
const HELD_MS: u64 = 1;

impl RouterService {
    /// Something has happened to a socket that is no server's.
    #[cold]
    fn on_own_event(&mut self, number: u32, poll: &Poll) {
        match number {
            CHANGES => return self.change(poll),
            LOGGED => return self.flow.answer_logged(&mut self.walks),
            _ => {}
        }
        if let Some(mut udp) = self.udp.take() {
            let socket = (number - FIRST_UDP) as usize;
            match self.state {
                State::Serves => udp.serve(socket, self),
                State::Finishes => udp.ignore(socket),
            }
            self.udp = Some(udp);
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.flow.counters
    }

    /// Requests that come from now on go by the newest configuration, and to where servers are now; those under way stay with what they have
    /// begun with.
    fn change(&mut self, poll: &Poll) {
        for change in self.mailboxes.changes.take() {
            match change {
                Change::Plan(plan, tree) => {
                    self.flow.adopt(&plan);
                    tree.begin(self.flow.facts.now_ms);
                    if let Some(before) = self.walks.replace(*tree) {
                        self.mailboxes.commands.send(Command::Free(before));
                    }
                }
                Change::Moved(servers) => self.flow.relocate(&servers, &mut self.walks, poll),
            }
        }
    }

    /// Whether too many requests are under way.
    pub(crate) fn is_throttled(&self) -> bool {
        self.flow.room() == 0
    }

    fn hand_out_all(&mut self, clients: &mut Clients<Self>) {
        if self.flow.calls.done() > 0 {
            self.flow.calls.sort();
            self.hand_out(clients);
            self.flow.calls.forget(0);
        }
    }

    /// Puts replies into the slots of those who wait for them.
    fn hand_out(&mut self, clients: &mut Clients<Self>) {
        let (held, scratch, now_ms) = (&mut self.held, &mut self.scratch, self.flow.facts.now_ms);
        let (calls, usual) = (&self.flow.calls, &mut self.usual);
        for replies in calls.replies(0).chunk_by(|one, next| one.to == next.to) {
            let to = replies[0].to;
            if let (Some(number), Some(udp)) = (udp::number_of(to), self.udp.as_mut()) {
                replies.iter().for_each(|reply| udp.answer(number, |out| calls.write(reply, out)));
                continue;
            }
            if let [reply] = replies {
                let is_sent = calls.short(reply, scratch).is_some_and(|text| {
                    clients.answer_alone(to, (reply.slot, self.clock.now()), text, |client| {
                        note(client, calls, replies, usual);
                    })
                });
                scratch.clear();
                if is_sent {
                    continue;
                }
            }
            clients.answer_when_due(to, self.clock.now(), |client, unsent| {
                let Some(unsent) = unsent else { return Due::Now };
                fill(client, unsent, calls, replies, usual);
                let is_whole = unsent.open_slots() == 0;
                if is_whole {
                    unsent.flatten(scratch);
                }
                if is_whole || unsent.is_full() {
                    client.held_ms = None;
                    return Due::Now;
                }
                if client.held_ms.is_none() {
                    client.held_ms = Some(now_ms);
                    held.push_back((to, now_ms));
                }
                Due::Later
            });
        }
        if let Some(udp) = &mut self.udp {
            udp.send();
        }
    }

    /// Sends replies that were held back for long enough.
    fn send_held(&mut self, clients: &mut Clients<Self>) {
        let now_ms = self.flow.facts.now_ms;
        while let Some((to, since)) =
            self.held.front().copied().filter(|(_, since)| now_ms >= since + HELD_MS)
        {
            self.held.pop_front();
            clients.answer_when_due(to, self.clock.now(), |client, _| {
                if client.held_ms != Some(since) {
                    return Due::Later;
                }
                client.held_ms = None;
                Due::Now
            });
        }
    }
}

/// Notes that a client has these replies. Returns how many bytes they have.
fn note(client: &mut Client, calls: &Calls, replies: &[Reply], usual: &mut Length) -> usize {
    let ReplySize { keys, bytes, found, has_failed_part } = calls.size(replies);
    if has_failed_part {
        client.note_failure();
    }
    client.answered(keys, found, *usual);
    usual.learn(keys, found);
    bytes
}

/// Puts replies into the slots of a client, and learns how long they are.
fn fill(
    client: &mut Client,
    outbox: &mut Outbox<NoPin>,
    calls: &Calls,
    replies: &[Reply],
    usual: &mut Length,
) {
    let bytes = note(client, calls, replies, usual);
    let slots = replies.iter().map(|reply| (reply.slot, reply));
    outbox.fill_bytes(slots, bytes, |reply, out| calls.write(reply, out));
}
