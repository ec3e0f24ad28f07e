//! Requests in datagrams: each begins with memcached's frame of 8 bytes, and so does each datagram of a reply.
//!
//! ```text
//! | request id | sequence number | datagrams in the message | reserved |      2 bytes each, big-endian
//! ```
//!
//! A request is one datagram. A reply is as many as it takes; what is lost of it is lost.

use crate::dialogue::{Dialogue, Interpreter, OUTBOX_FULL, Stopped};
use crate::listen::Speaks;
use crate::options::{Options, UdpPorts};
use crate::outbox::Outbox;
use crate::shared::{WorkerCount, WorkerCounters};
use arrayvec::ArrayVec;
use guira_commands::Replies;
use guira_contract::{KeyHash, Session};
use guira_transport::{Datagrams, Outgoing, Peer, PortSharing, datagram_socket};
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Bytes of the frame.
const FRAME_BYTES: usize = 8;
/// Bytes of a reply in one datagram, so that it fits into a packet of Ethernet: memcached's 1,400 less the frame.
const PAYLOAD_MAX: usize = 1400 - FRAME_BYTES;
/// A reply may be so long, so that a small request cannot set off a flood.
const REPLY_MAX: usize = 4 << 20;
/// So much is collected before it is sent.
const OUTGOING_FULL: usize = 256 << 10;
/// Batches of datagrams of one socket before others have their turn.
const ROUNDS: u32 = 4;
/// Requests whose keys are looked up ahead.
const AHEAD: usize = 32;

/// The UDP sockets of one worker.
#[derive(Debug)]
pub(crate) struct UdpEnd {
    sockets: Vec<UdpSocket>,
    speaks: Speaks,
    received: Datagrams,
    outgoing: Outgoing,
    reply: Vec<u8>,
}

/// Opens the UDP sockets of all workers. `inherited` ones are shared by all.
///
/// # Errors
/// What the system says of which address.
pub(crate) fn open(
    options: &Options,
    inherited: &[UdpSocket],
) -> Result<Vec<Vec<UdpSocket>>, (SocketAddr, io::Error)> {
    let mut workers: Vec<Vec<UdpSocket>> = (0..options.workers).map(|_| Vec::new()).collect();
    for address in &options.udp {
        let mut address = *address;
        for worker in &mut workers {
            let sharing = match options.udp_ports {
                UdpPorts::Shared => PortSharing::Shared,
                UdpPorts::PerWorker => PortSharing::Alone,
            };
            let socket = datagram_socket(address, sharing).map_err(|error| (address, error))?;
            let taken = socket.local_addr().map_err(|error| (address, error))?;
            worker.push(socket);
            match options.udp_ports {
                UdpPorts::Shared => address.set_port(taken.port()),
                UdpPorts::PerWorker if address.port() > 0 => address.set_port(taken.port().wrapping_add(1)),
                UdpPorts::PerWorker => {}
            }
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

impl UdpEnd {
    pub(crate) fn new(sockets: Vec<UdpSocket>, speaks: Speaks) -> Self {
        UdpEnd {
            sockets,
            speaks,
            received: Datagrams::default(),
            outgoing: Outgoing::default(),
            reply: Vec::new(),
        }
    }

    /// What datagrams come from.
    pub(crate) fn sockets(&self) -> &[UdpSocket] {
        &self.sockets
    }

    /// Answers what has arrived at a socket.
    pub(crate) fn serve<S: Session>(
        &mut self,
        index: usize,
        interpreter: &mut Interpreter<S>,
        outbox: &mut Outbox<S::Pin>,
        counters: &WorkerCounters,
    ) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        interpreter.tap.serve(socket.as_fd().as_raw_fd());
        interpreter.full = OUTBOX_FULL;
        for _ in 0..ROUNDS {
            // An error is one of a datagram sent before: whoever it was for is not there.
            let Ok(count @ 1..) = self.received.receive(socket) else {
                break;
            };
            look_ahead(&self.received, interpreter);
            for (peer, datagram) in self.received.iter() {
                counters.add(WorkerCount::BytesRead, datagram.len() as u64);
                counters.add(WorkerCount::Datagrams, 1);
                let Some((frame, request)) = datagram.split_first_chunk::<FRAME_BYTES>() else {
                    continue;
                };
                // As in memcached: a request that is said to have several datagrams is no request.
                if frame[4..6] != [0, 1] {
                    continue;
                }
                self.reply.clear();
                answer(self.speaks, request, interpreter, outbox, &mut self.reply);
                push(&mut self.outgoing, peer, [frame[0], frame[1]], &self.reply);
                if self.outgoing.weight() >= OUTGOING_FULL {
                    let (_, bytes) = self.outgoing.send(socket);
                    counters.add(WorkerCount::BytesWritten, bytes as u64);
                }
            }
            let (_, bytes) = self.outgoing.send(socket);
            counters.add(WorkerCount::BytesWritten, bytes as u64);
            interpreter.executor.session().quiesce();
            // One that is busy may have more; another look would be in vain otherwise.
            if count < AHEAD {
                break;
            }
        }
    }
}

/// Asks for what gets of one key will look at, while the first of them are being answered.
fn look_ahead<S: Session>(received: &Datagrams, interpreter: &Interpreter<S>) {
    let mut hashes = ArrayVec::<KeyHash, AHEAD>::new();
    for (_, datagram) in received.iter().take(AHEAD) {
        let request = datagram.get(FRAME_BYTES..).unwrap_or_default();
        if let Some(key) = request.strip_prefix(b"get ").and_then(|rest| rest.strip_suffix(b"\r\n")) {
            hashes.push(interpreter.executor.prefetch(key));
        }
    }
    for hash in hashes {
        interpreter.executor.prefetch_item(hash);
    }
}

/// Executes the requests of one datagram, and writes the whole reply into `reply`.
fn answer<S: Session>(
    speaks: Speaks,
    request: &[u8],
    interpreter: &mut Interpreter<S>,
    outbox: &mut Outbox<S::Pin>,
    reply: &mut Vec<u8>,
) {
    let mut dialogue = Dialogue::new(speaks, interpreter.shared.access());
    let mut at = 0;
    loop {
        let (taken, stopped) = interpreter.run(&mut dialogue, &request[at..], outbox);
        at += taken;
        if stopped == Stopped::Leaves {
            outbox.buffer().line("SERVER_ERROR not over UDP");
        }
        outbox.collect(reply);
        if reply.len() > REPLY_MAX {
            reply.clear();
            reply.extend(b"SERVER_ERROR reply too large for UDP\r\n");
            return;
        }
        if stopped != Stopped::OutboxFull {
            return;
        }
    }
}

/// Divides a reply into datagrams. Of an empty one nothing is sent.
fn push(outgoing: &mut Outgoing, peer: Peer, id: [u8; 2], reply: &[u8]) {
    let total = (reply.len().div_ceil(PAYLOAD_MAX) as u16).to_be_bytes();
    for (sequence, payload) in reply.chunks(PAYLOAD_MAX).enumerate() {
        let sequence = (sequence as u16).to_be_bytes();
        let frame = [id[0], id[1], sequence[0], sequence[1], total[0], total[1], 0, 0];
        outgoing.push(peer, &[&frame, payload]);
    }
}

const _: () = assert!(REPLY_MAX / PAYLOAD_MAX < u16::MAX as usize, "every datagram has a number");
