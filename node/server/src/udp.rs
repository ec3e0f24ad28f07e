//! Requests in datagrams: each begins with memcached's frame of 8 bytes, and so does each datagram of a reply.
//!
//! A request is one datagram. A reply has as many datagrams as it takes, which are not repeated. Several commands in a datagram have several
//! replies, each a message of its own, all of which have the number of the request.
//!
//! Datagrams of one request each, as most are, are executed as a batch; what else comes in a datagram is executed as if a connection had sent it. All is
//! executed by the worker that has received it (docs/develop/decisions/0025-one-request.md).

pub(crate) mod bytes;

use crate::counters::WorkerCount;
use crate::options::Options;
use crate::requests::{Batch, Execute, Interpreter, Kind, Phase, ProtocolState, Reader, Request, is_local};
use bytes::{OUTGOING_FULL, REPLY_KEPT};
use guira_contract::Session;
use guira_protocol::Replies;
use guira_protocol::binary::REQUEST_MAGIC;
use guira_serving::{
    Access, ConnBudget, FRAMED_MAX, Framed, OUTBOX_FULL, Outbox, Slice, Speaks, Stopped, TrafficCount,
    TrafficCounters, frames,
};
use guira_transport::net::UdpSocket;
use guira_transport::{DATAGRAMS_AT_ONCE, Datagrams, Outgoing, Peer, PortSharing, datagram_socket};
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::net::SocketAddr;

/// The limit of all replies to a datagram, so that a small request cannot cause a flood.
const REPLY_MAX: usize = 4 << 20;
/// The first commands of a datagram are answered in messages of their own, and those after them in
/// one.
const MESSAGES_MAX: usize = 64;
/// Batches of datagrams of one socket before others have their turn …
const ROUNDS: u32 = 4;
/// … or bytes of replies, whichever comes first.
const TURN_MAX: usize = 512 << 10;

/// The UDP sockets of one worker.
#[derive(Debug)]
pub(crate) struct UdpListener {
    sockets: Vec<UdpSocket>,
    speaks: Speaks,
    received: Datagrams,
    outgoing: Outgoing,
    reply: Reply,
    /// The socket whose datagrams have been received and not all answered, and how many have been.
    unanswered: Option<(usize, usize)>,
}

/// The reply to one datagram, in memory that is used again.
#[derive(Debug, Default)]
struct Reply {
    bytes: Vec<u8>,
    /// Bytes of it that are lent by the budget of connections.
    lent: usize,
}

impl Reply {
    /// Reserves memory for `more` bytes. False if there is none.
    fn reserve(&mut self, more: usize, room: &ConnBudget) -> bool {
        let wanted = self.bytes.len() + more;
        if wanted > REPLY_MAX {
            return false;
        }
        let capacity = self.bytes.capacity();
        if wanted > capacity {
            let wanted = wanted.max(2 * capacity).min(REPLY_MAX);
            let borrowed = wanted.saturating_sub(REPLY_KEPT.max(capacity));
            if !room.lend(borrowed) {
                return false;
            }
            self.lent += borrowed;
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        true
    }

    /// Forgets it after it was sent, and gives lent memory back.
    fn clear(&mut self, room: &ConnBudget) {
        self.bytes.clear();
        if self.lent > 0 {
            self.bytes = Vec::new();
            room.take_back(std::mem::take(&mut self.lent));
        }
    }
}

/// Opens the UDP sockets of all workers at these addresses. `inherited` ones are shared by all.
///
/// # Errors
/// The system's error, with the address.
pub(crate) fn open(
    options: &Options,
    addresses: &[SocketAddr],
    inherited: &[UdpSocket],
    earlier: &mut Vec<UdpSocket>,
) -> Result<Vec<Vec<UdpSocket>>, (SocketAddr, io::Error)> {
    let mut workers: Vec<Vec<UdpSocket>> = (0..options.workers).map(|_| Vec::new()).collect();
    for address in addresses {
        let mut address = *address;
        for (index, worker) in workers.iter_mut().enumerate() {
            let sharing = match options.udp_port_per_worker {
                true => PortSharing::Alone,
                // Another server of this user's would share its clients with us.
                false if index == 0 => PortSharing::First,
                false => PortSharing::Shared,
            };
            let socket = match take_earlier(earlier, address) {
                Some(socket) => socket,
                None => datagram_socket(address, sharing).map_err(|error| (address, error))?,
            };
            let taken = socket.local_addr().map_err(|error| (address, error))?;
            worker.push(socket);
            match options.udp_port_per_worker {
                false => address.set_port(taken.port()),
                true if address.port() > 0 => address.set_port(taken.port().wrapping_add(1)),
                true => {}
            }
        }
        // An earlier server had more workers: datagrams arrive at all of its sockets.
        for index in 0.. {
            let Some(socket) = take_earlier(earlier, address).filter(|_| !options.udp_port_per_worker) else {
                break;
            };
            workers[index % options.workers].push(socket);
        }
    }
    for socket in inherited {
        for worker in &mut workers {
            let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
            worker.push(socket.try_clone().map_err(|error| (unknown, error))?);
        }
    }
    Ok(workers)
}

/// A socket of an earlier server with this address. Port 0 is any.
fn take_earlier(earlier: &mut Vec<UdpSocket>, wanted: SocketAddr) -> Option<UdpSocket> {
    let is_it = |socket: &UdpSocket| {
        socket
            .local_addr()
            .is_ok_and(|has| has.ip() == wanted.ip() && (wanted.port() == 0 || has.port() == wanted.port()))
    };
    let place = earlier.iter().position(is_it)?;
    Some(earlier.remove(place))
}

impl UdpListener {
    pub(crate) fn new(sockets: Vec<UdpSocket>, speaks: Speaks) -> Self {
        UdpListener {
            sockets,
            speaks,
            received: Datagrams::default(),
            outgoing: Outgoing::default(),
            reply: Reply::default(),
            unanswered: None,
        }
    }

    pub(crate) fn sockets(&self) -> &[UdpSocket] {
        &self.sockets
    }

    /// A socket with received datagrams that have no reply yet, about which the poller does not
    /// report any more.
    pub(crate) fn unanswered(&self) -> Option<usize> {
        self.unanswered.map(|(index, _)| index)
    }

    /// Serves the datagrams that have arrived at a socket, and before that those of earlier turns.
    pub(crate) fn serve<S: Session>(
        &mut self,
        index: usize,
        interpreter: &mut Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
    ) {
        let mut written = 0;
        for _ in 0..ROUNDS {
            if written >= TURN_MAX {
                return;
            }
            let (from, first) = match self.unanswered.take() {
                Some(left) => left,
                None => (index, 0),
            };
            let Some(socket) = self.sockets.get(from) else {
                return;
            };
            // An error belongs to a datagram sent before, whose receiver is gone.
            if first == 0 && !matches!(self.received.receive(socket), Ok(1..)) {
                return;
            }
            interpreter.event_sink.serve(socket.as_fd().as_raw_fd());
            let count = self.received.len();
            let (answered, bytes) = self.answer(from, first, TURN_MAX - written, interpreter, outbox);
            written += bytes;
            let sent = self.outgoing.send(&self.sockets[from]).1;
            interpreter.traffic.add(TrafficCount::BytesWritten, sent as u64);
            interpreter.runner.executor.session().quiesce();
            if answered < count {
                self.unanswered = Some((from, answered));
                return;
            }
            // A full read may leave more; another read after a short one would be useless.
            if count < DATAGRAMS_AT_ONCE {
                return;
            }
        }
    }

    /// Answers the datagrams from number `first` on, until the replies have `most` bytes. Returns the number of the first that is left, and how long the
    /// replies are.
    fn answer<S: Session>(
        &mut self,
        socket: usize,
        first: usize,
        most: usize,
        interpreter: &mut Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> (usize, usize) {
        let UdpListener { sockets, speaks, received, outgoing, reply, .. } = self;
        let traffic = interpreter.traffic.clone();
        let mut sending = Sending { socket: &sockets[socket], outgoing, reply, traffic: &traffic };
        let access = interpreter.runner.host.access();
        interpreter.runner.begin_turn(OUTBOX_FULL, Slice::ENDLESS);
        let mut batch = Batch::<Kind<'_>, S::Guess, DATAGRAMS_AT_ONCE>::new();
        for (number, (_, datagram)) in received.iter().enumerate().skip(first) {
            // A client that has to log in is given no item: what it sends is dealt with as on a connection.
            if let Some(request) = Framed::of(datagram).filter(|_| access == Access::Free) {
                let reader = interpreter.runner.reader();
                read_whole_item(reader, &mut batch, *speaks, request.bytes, number);
            }
        }
        let forwarding = &interpreter.runner.forwarding;
        batch.prefetch_items(&interpreter.runner.executor, |kind| is_local(forwarding, kind));
        let mut requests = batch.requests().iter().peekable();
        let (mut number, mut written) = (first, 0);
        while number < received.len() && written < most {
            let Some((peer, datagram)) = received.get(number) else {
                break;
            };
            traffic.add(TrafficCount::BytesRead, datagram.len() as u64);
            interpreter.counters.add(WorkerCount::Datagrams, 1);
            let whole = requests.next_if(|request| request.end == number);
            if let Some(framed) = Framed::of(datagram) {
                let mut state = ProtocolState::new(*speaks, access, None);
                written += match whole {
                    Some(request) => {
                        interpreter.runner.begin_uses(1);
                        request.kind.execute(request.guess, &mut interpreter.runner, &mut state, outbox);
                        interpreter.runner.end_uses();
                        sending.send_all(peer, framed.id, interpreter, outbox)
                    }
                    None => Conversation::of(state, framed.bytes).answer_all(
                        peer,
                        framed.id,
                        interpreter,
                        outbox,
                        &mut sending,
                    ),
                };
            }
            number += 1;
        }
        (number, written)
    }
}

struct Sending<'s> {
    socket: &'s UdpSocket,
    outgoing: &'s mut Outgoing,
    reply: &'s mut Reply,
    traffic: &'s TrafficCounters,
}

impl Sending<'_> {
    /// Appends the outbox to the reply. False if that would be too long, and an error is the reply.
    fn collect<S: Session>(
        &mut self,
        before: usize,
        interpreter: &Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> bool {
        let (reply, room) = (&mut *self.reply, &interpreter.runner.host.budget);
        let length = reply.bytes.len() + outbox.weight();
        if before + length > REPLY_MAX || !reply.reserve(outbox.weight(), room) {
            drop(outbox.take_rest());
            reply.clear(room);
            reply.bytes.extend(b"SERVER_ERROR reply too large for UDP\r\n");
            return false;
        }
        outbox.collect(&mut reply.bytes);
        true
    }

    /// Sends the reply as a message, and forgets it.
    fn send<S: Session>(&mut self, peer: Peer, id: [u8; 2], interpreter: &Interpreter<S>) {
        for (frame, payload) in frames(id, &self.reply.bytes) {
            self.outgoing.push(peer, &[&frame, payload]);
            if self.outgoing.weight() >= OUTGOING_FULL {
                let (_, bytes) = self.outgoing.send(self.socket);
                self.traffic.add(TrafficCount::BytesWritten, bytes as u64);
            }
        }
        self.reply.clear(&interpreter.runner.host.budget);
    }

    /// Sends the contents of the outbox as a message. Returns how long it is.
    fn send_all<S: Session>(
        &mut self,
        peer: Peer,
        id: [u8; 2],
        interpreter: &Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
    ) -> usize {
        self.collect(0, interpreter, outbox);
        let length = self.reply.bytes.len();
        self.send(peer, id, interpreter);
        length
    }
}

/// Reads the request in datagram number `number` into a batch, if there is one, about an item, and nothing else.
fn read_whole_item<'d, S: Session>(
    reader: Reader<'_, S>,
    batch: &mut Batch<Kind<'d>, S::Guess, DATAGRAMS_AT_ONCE>,
    speaks: Speaks,
    datagram: &'d [u8],
    number: usize,
) {
    let before = batch.len();
    let is_packet = datagram.first() == Some(&REQUEST_MAGIC);
    let is_read = match speaks {
        Speaks::Any if is_packet => reader.read_packet(batch, datagram, 0).is_ok(),
        Speaks::Binary => reader.read_packet(batch, datagram, 0).is_ok(),
        Speaks::Any | Speaks::Text => reader.read_command(batch, datagram, 0).is_ok(),
    };
    let is_whole = |request: &Request<Kind<'_>, S::Guess>| {
        request.end == datagram.len() && matches!(request.kind, Kind::Item(..))
    };
    match batch.last_mut().filter(|request| is_read && is_whole(request)) {
        Some(request) => request.end = number,
        None => batch.truncate(before),
    }
}

/// Whether a datagram has more commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Yes,
    No,
}

struct Conversation<'d, S: Session> {
    state: ProtocolState<S>,
    bytes: &'d [u8],
    /// Bytes of them that are answered.
    answered: usize,
    messages: usize,
    /// Bytes of their messages.
    written: usize,
}

impl<'d, S: Session> Conversation<'d, S> {
    fn of(state: ProtocolState<S>, bytes: &'d [u8]) -> Self {
        Conversation { state, bytes, answered: 0, messages: 0, written: 0 }
    }

    /// Answers all commands, in a message each. Returns how long the messages are.
    fn answer_all(
        mut self,
        peer: Peer,
        id: [u8; 2],
        interpreter: &mut Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
        sending: &mut Sending<'_>,
    ) -> usize {
        let mut more = More::Yes;
        while more == More::Yes {
            more = self.answer(interpreter, outbox, sending);
            sending.send(peer, id, interpreter);
        }
        self.written
    }

    /// Executes the next command that has a reply, and writes the whole reply.
    fn answer(
        &mut self,
        interpreter: &mut Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
        sending: &mut Sending<'_>,
    ) -> More {
        self.messages += 1;
        loop {
            let (input, full) = self.next_part();
            interpreter.runner.begin_turn(full, Slice::ENDLESS);
            let is_rest = self.answered + input.len() == self.bytes.len();
            let (taken, stopped) = interpreter.run(&mut self.state, input, outbox);
            self.answered += taken;
            if stopped == Stopped::Leaves {
                outbox.buffer().line("SERVER_ERROR not over UDP");
            }
            if !sending.collect(self.written, interpreter, outbox) {
                return More::No;
            }
            if self.in_get() {
                continue;
            }
            let more = match stopped {
                Stopped::Over(_) | Stopped::Leaves => More::No,
                Stopped::NeedsInput if is_rest => More::No,
                _ if self.answered == self.bytes.len() => More::No,
                _ => More::Yes,
            };
            if more == More::No || self.messages < MESSAGES_MAX {
                self.written += sending.reply.bytes.len();
                return more;
            }
        }
    }

    /// Whether a get of many keys is answered in part.
    fn in_get(&self) -> bool {
        matches!(self.state.phase, Phase::Keys(..))
    }

    /// The next request to be executed, and the limit of its reply: anything ends a message, unless it is one of several values.
    fn next_part(&self) -> (&'d [u8], usize) {
        let rest = self.bytes.get(self.answered..).unwrap_or_default();
        if self.in_get() {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            return (&rest[..end], OUTBOX_FULL);
        }
        (rest, if self.messages < MESSAGES_MAX { 1 } else { OUTBOX_FULL })
    }
}

const _: () = assert!(REPLY_MAX / FRAMED_MAX < u16::MAX as usize, "every datagram has a number");

#[cfg(test)]
mod tests {
    use super::*;
    use guira_serving::ConnLimits;

    #[test]
    fn a_long_reply_is_made_in_the_room_of_connections() {
        let room = ConnBudget::new(ConnLimits { idle: 0, traffic: 1 << 20, pinned: 0 }, 1);
        let mut reply = Reply::default();
        assert!(reply.reserve(REPLY_KEPT, &room));
        assert_eq!(room.usage().0, 0, "that much is the worker's own");
        assert!(reply.reserve(1 << 20, &room));
        assert_eq!(room.usage().0, (1 << 20) - REPLY_KEPT);
        reply.bytes.resize(1 << 20, 0);
        assert!(!reply.reserve(1 << 20, &room), "there is no more room");
        assert!(!reply.reserve(REPLY_MAX, &room));
        reply.clear(&room);
        assert_eq!((room.usage().0, reply.bytes.capacity()), (0, 0));
    }
}
