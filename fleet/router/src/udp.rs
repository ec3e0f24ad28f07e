//! Serves gets in datagrams. Each request is one line in one datagram, and its reply is a message
//! of several datagrams if needed; lost datagrams are not sent again. A server's late reply is
//! dropped.

use crate::client::{Client, KEYS_MAX};
use crate::counters::Event;
use crate::no_pin::NoPin;
use crate::service::RouterService;
use guira_protocol::client::words;
use guira_serving::{
    FRAME_BYTES, FRAMED_MAX, Framed, Outbox, ReplyTo, RequestHandler as _, Slice, Speaks, frames,
};
use guira_transport::net::UdpSocket;
use guira_transport::{DATAGRAMS_AT_ONCE, Datagrams, Outgoing, Peer, PortSharing, datagram_socket};
use std::io;
use std::net::SocketAddr;

/// The most requests of a worker in flight that came in datagrams. Further ones are refused.
const REQUESTS_MAX: usize = 1 << 16;
/// The longest reply in bytes, so that a small request cannot cause a flood.
const REPLY_MAX: usize = 4 << 20;
/// Replies are sent once this many bytes are collected.
const OUTGOING_FULL: usize = 64 * (FRAME_BYTES + FRAMED_MAX);
/// The number of batches from one socket before other sockets get their turn.
const ROUNDS: u32 = 4;

const NO_GET: &[u8] = b"SERVER_ERROR only one get is taken in a datagram\r\n";
const BUSY: &[u8] = b"SERVER_ERROR 307 busy\r\n";
const TOO_LARGE: &[u8] = b"SERVER_ERROR reply too large for UDP\r\n";

/// The UDP sockets of one worker.
#[derive(Debug)]
pub(crate) struct Udp {
    received: Datagrams,
    requests: Requests,
}

/// The requests in datagrams that are in flight.
#[derive(Debug)]
struct Requests {
    sockets: Vec<UdpSocket>,
    outgoing: Vec<Outgoing>,
    /// By number; free places are reused.
    senders: Vec<Option<Sender>>,
    vacant: Vec<u32>,
    /// A buffer for one request at a time, empty between them.
    outbox: Outbox<NoPin>,
    reply: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    socket: usize,
    peer: Peer,
    id: [u8; 2],
}

/// Opens the sockets of all workers at these addresses.
///
/// # Errors
/// The system's error, with the address.
pub(crate) fn open(
    addresses: &[SocketAddr],
    workers: usize,
) -> Result<Vec<Vec<UdpSocket>>, (SocketAddr, io::Error)> {
    let mut all: Vec<Vec<UdpSocket>> = (0..workers).map(|_| Vec::new()).collect();
    for wanted in addresses {
        let mut address = *wanted;
        let mut sharing = PortSharing::First;
        for sockets in &mut all {
            let socket = datagram_socket(address, sharing).map_err(|error| (address, error))?;
            address = socket.local_addr().map_err(|error| (address, error))?;
            sockets.push(socket);
            sharing = PortSharing::Shared;
        }
    }
    Ok(all)
}

/// Whether a request is allowed in a datagram: one line, with a command that changes nothing.
fn is_get(request: &[u8]) -> bool {
    let Some((b'\n', line)) = request.split_last() else { return false };
    let mut all = words(line.trim_ascii_end());
    let is_known = match all.next() {
        Some(b"get" | b"gets" | b"mn" | b"version") => true,
        // With these flags the command changes when an item expires, or creates one.
        Some(b"mg") => !all.skip(1).any(|flag| matches!(flag[0], b'N' | b'R' | b'T')),
        _ => false,
    };
    // A get of more keys is sent in parts, each after the reply to the part before.
    let keys = words(line).count().saturating_sub(1);
    is_known && keys <= KEYS_MAX && memchr::memchr(b'\n', line).is_none()
}

/// The number of the datagram request that a reply is for; `None` for a connection.
pub(crate) fn number_of(to: ReplyTo) -> Option<u32> {
    (to.client < 0).then(|| (-1 - to.client) as u32)
}

impl Udp {
    pub(crate) fn new(sockets: Vec<UdpSocket>) -> Self {
        let outgoing = sockets.iter().map(|_| Outgoing::default()).collect();
        let (senders, vacant, outbox, reply) = (Vec::new(), Vec::new(), Outbox::with_capacity(0), Vec::new());
        Udp {
            received: Datagrams::default(),
            requests: Requests { sockets, outgoing, senders, vacant, outbox, reply },
        }
    }

    pub(crate) fn sockets(&self) -> &[UdpSocket] {
        &self.requests.sockets
    }

    /// Serves the requests that have arrived at a socket.
    pub(crate) fn serve(&mut self, socket: usize, service: &mut RouterService) {
        let Udp { received, requests } = self;
        for _ in 0..ROUNDS {
            // An error belongs to an earlier datagram, whose receiver is gone.
            let Ok(count @ 1..) = received.receive(&requests.sockets[socket]) else { break };
            for (peer, datagram) in received.iter() {
                if let Some(framed) = Framed::of(datagram) {
                    requests.receive(Sender { socket, peer, id: framed.id }, framed.bytes, service);
                }
            }
            if count < DATAGRAMS_AT_ONCE {
                break;
            }
        }
        requests.send();
    }

    /// Drops the requests that have arrived at a socket.
    pub(crate) fn ignore(&mut self, socket: usize) {
        // Errors are ignored too.
        let _ = self.received.receive(&self.requests.sockets[socket]);
    }

    /// A reply to the request with this number has arrived.
    pub(crate) fn answer(&mut self, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
        self.requests.answer(number, write);
    }

    pub(crate) fn send(&mut self) {
        self.requests.send();
    }
}

impl Requests {
    fn receive(&mut self, sender: Sender, line: &[u8], service: &mut RouterService) {
        service.counters().add(Event::Datagram);
        if !is_get(line) {
            return self.send_reply(sender, NO_GET);
        }
        if self.senders.len() - self.vacant.len() >= REQUESTS_MAX || service.is_throttled() {
            return self.send_reply(sender, BUSY);
        }
        let number = self.vacant.pop().unwrap_or(self.senders.len() as u32);
        if number as usize == self.senders.len() {
            self.senders.push(None);
        }
        self.senders[number as usize] = Some(sender);
        // Numbers of connections are not below 0.
        let mut client =
            Client::new(ReplyTo::elsewhere(-1 - number as i32), Speaks::Text, sender.peer.host());
        let mut slice = Slice::ENDLESS;
        service.run(&mut client, &mut slice, usize::MAX, line, &mut self.outbox);
        // The reply is complete already if no server was needed.
        if self.outbox.open_slots() == 0 {
            let mut reply = Vec::new();
            self.outbox.collect(&mut reply);
            self.finish(number, &reply);
        }
        drop(self.outbox.take_rest());
    }

    fn answer(&mut self, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let mut reply = std::mem::take(&mut self.reply);
        write(&mut reply);
        self.finish(number, &reply);
        reply.clear();
        reply.shrink_to(FRAMED_MAX);
        self.reply = reply;
    }

    fn finish(&mut self, number: u32, reply: &[u8]) {
        let Some(sender) = self.senders.get_mut(number as usize).and_then(Option::take) else { return };
        self.vacant.push(number);
        self.send_reply(sender, if reply.len() > REPLY_MAX { TOO_LARGE } else { reply });
    }

    fn send_reply(&mut self, sender: Sender, reply: &[u8]) {
        let outgoing = &mut self.outgoing[sender.socket];
        for (frame, payload) in frames(sender.id, reply) {
            outgoing.push(sender.peer, &[&frame, payload]);
            if outgoing.weight() >= OUTGOING_FULL {
                outgoing.send(&self.sockets[sender.socket]);
            }
        }
    }

    fn send(&mut self) {
        for (outgoing, socket) in self.outgoing.iter_mut().zip(&self.sockets) {
            if outgoing.weight() > 0 {
                outgoing.send(socket);
            }
        }
    }
}
