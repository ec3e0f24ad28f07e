//! One socket of a load over UDP. Each request is a datagram of its own; several are in flight, and
//! some may never be answered.
//!
//! memcached puts 8 bytes before the text: the number of the request, which the reply repeats; the
//! index of this datagram and the number of datagrams in the message; and two zero bytes. A reply
//! is checked when all its datagrams have arrived, in any order, and has to be exactly the reply to
//! its request. memcached replies to a get of several keys by a message for each value and one for
//! the end, all with the same number: that is a valid reply too. For a missing key it sends an
//! empty message whose header has no datagrams.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use guira_workload::ValuePool;
use rustix::fd::{AsFd, BorrowedFd};

use crate::counters::Counters;
use crate::error::LoadError;
use crate::flow::{Flow, OPEN_MAX, ReadError};
use crate::protocol::Protocol;
use crate::reply::Judge;
use crate::reply_error::ReplyError;
use crate::request::{ItemStyle, Outbox};
use crate::source::Source;

/// Bytes before the text of a datagram.
pub(crate) const HEADER_LEN: usize = 8;
/// A request without a reply is given up after this time. On a machine's own network only a server
/// that does not run takes so long.
pub(crate) const PATIENCE_NS: u64 = 500_000_000;
const DATAGRAM_LEN_MAX: usize = 1 << 16;
/// The number of given-up requests that are kept, to tell late replies from unexpected ones.
const GIVEN_UP_MAX: usize = 4096;

/// A UDP socket and its requests in flight.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: UdpSocket,
    protocol: Protocol,
    /// Requests in flight, the oldest first; the last `unsent` of them wait for room in the socket.
    open: VecDeque<Exchange>,
    unsent: usize,
    /// Answered requests whose miss is to be followed by a set.
    missed: Vec<Exchange>,
    /// Answered requests, for their buffers.
    spare: Vec<Exchange>,
    next_id: u16,
    given_up: VecDeque<u16>,
    input: Vec<u8>,
}

/// A request, and the part of its reply that has arrived.
#[derive(Debug)]
struct Exchange {
    id: u16,
    sent_ns: u64,
    /// Messages in which its reply may come: one for each key of a get, or for each set that
    /// follows one.
    messages: usize,
    outbox: Outbox,
    parts: Parts,
}

/// The datagrams of a reply that has several.
#[derive(Debug, Default)]
struct Parts {
    payloads: Vec<Option<Vec<u8>>>,
}

/// The header of a datagram of a reply.
#[derive(Debug, Clone, Copy)]
struct Header {
    id: u16,
    sequence: usize,
    total: usize,
}

impl Header {
    fn read(datagram: &[u8]) -> Result<(Self, &[u8]), ReplyError> {
        let Some(([i1, i0, s1, s0, t1, t0, reserved @ ..], payload)) =
            datagram.split_first_chunk::<HEADER_LEN>()
        else {
            return Err(ReplyError::Datagram { problem: "is shorter than its header", id: 0 });
        };
        let header = Self {
            id: u16::from_be_bytes([*i1, *i0]),
            sequence: usize::from(u16::from_be_bytes([*s1, *s0])),
            total: usize::from(u16::from_be_bytes([*t1, *t0])),
        };
        let is_empty = header.sequence == 0 && header.total == 0 && payload.is_empty();
        let header = Self { total: header.total.max(usize::from(is_empty)), ..header };
        if header.sequence >= header.total || *reserved != [0; 2] {
            return Err(ReplyError::Datagram { problem: "has an impossible header", id: header.id });
        }
        Ok((header, payload))
    }
}

impl Parts {
    /// Adds one datagram; returns the complete reply after the last missing one.
    fn add(&mut self, header: Header, payload: &[u8]) -> Result<Option<Vec<u8>>, ReplyError> {
        let fault = |problem| ReplyError::Datagram { problem, id: header.id };
        if self.payloads.is_empty() {
            self.payloads.resize(header.total, None);
        }
        if self.payloads.len() != header.total {
            return Err(fault("belongs to a reply of another length"));
        }
        if self.payloads[header.sequence].replace(payload.to_vec()).is_some() {
            return Err(fault("came twice"));
        }
        if self.payloads.iter().any(Option::is_none) {
            return Ok(None);
        }
        Ok(Some(self.payloads.drain(..).flatten().flatten().collect()))
    }
}

impl Datagrams {
    /// A socket connected to `addr`, so that it receives only from there.
    pub(crate) fn open(addr: SocketAddr, protocol: Protocol) -> Result<Self, LoadError> {
        let connect = || -> io::Result<UdpSocket> {
            let local = match addr {
                SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            };
            let socket = UdpSocket::bind(local)?;
            socket.connect(addr)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        Ok(Self {
            socket: connect().map_err(|source| LoadError::Connect { addr, source })?,
            protocol,
            open: VecDeque::new(),
            unsent: 0,
            missed: Vec::new(),
            spare: Vec::new(),
            next_id: 0,
            given_up: VecDeque::new(),
            input: vec![0; DATAGRAM_LEN_MAX],
        })
    }

    /// Requests that wait for their reply.
    pub(crate) fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Whether the most requests are in flight: numbers of 16 bits must not repeat among them.
    pub(crate) fn is_full(&self) -> bool {
        self.open_requests() >= OPEN_MAX
    }

    /// Whether missed keys are still to be set.
    pub(crate) const fn has_fills(&self) -> bool {
        !self.missed.is_empty()
    }

    /// Appends a set for every missed key.
    pub(crate) fn push_fills(
        &mut self,
        values: &ValuePool,
        style: ItemStyle,
        now_ns: u64,
    ) -> Result<(), LoadError> {
        while let Some(mut exchange) = self.missed.pop() {
            exchange.outbox.push_fills(values, style, now_ns)?;
            self.enqueue(exchange);
        }
        Ok(())
    }

    /// Appends the source's next request; false at the end of the source.
    pub(crate) fn push_next<S: Source>(
        &mut self,
        source: &mut S,
        values: &ValuePool,
        style: ItemStyle,
        intended_ns: u64,
    ) -> Result<bool, LoadError> {
        let mut exchange = self.spare.pop().unwrap_or_else(|| Exchange {
            id: 0,
            sent_ns: 0,
            messages: 0,
            outbox: Outbox::new(self.protocol),
            parts: Parts::default(),
        });
        let is_there = exchange.outbox.push_next(source, values, style, intended_ns)?;
        if is_there {
            self.enqueue(exchange);
        }
        Ok(is_there)
    }

    fn enqueue(&mut self, mut exchange: Exchange) {
        exchange.id = self.next_id;
        let keys = exchange.outbox.front().map_or(0, |request| request.keys_left as usize);
        exchange.messages = keys.max(exchange.outbox.open_requests());
        self.next_id = self.next_id.wrapping_add(1);
        // A number that is used again is not given up any more.
        if !self.given_up.is_empty() {
            self.given_up.retain(|&id| id != exchange.id);
        }
        self.open.push_back(exchange);
        self.unsent += 1;
    }

    /// Sends the unsent requests, each as one datagram.
    pub(crate) fn flush(&mut self, counters: &mut Counters, now_ns: u64) -> io::Result<Flow> {
        while self.unsent > 0 {
            let next = self.open.len() - self.unsent;
            let exchange = &mut self.open[next];
            let [i1, i0] = exchange.id.to_be_bytes();
            let header = [i1, i0, 0, 0, 0, 1, 0, 0];
            let slices = [IoSlice::new(&header), IoSlice::new(exchange.outbox.unsent())];
            match rustix::io::writev(&self.socket, &slices) {
                Ok(count) => {
                    exchange.outbox.took(count - HEADER_LEN);
                    exchange.sent_ns = now_ns;
                    counters.counts.bytes_out += count as u64;
                    self.unsent -= 1;
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(Flow::Full),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Flow::Done)
    }

    /// Reads and checks replies.
    pub(crate) fn receive(
        &mut self,
        judge: &mut Judge,
        counters: &mut Counters,
        now: impl Fn() -> u64,
    ) -> Result<Flow, ReadError> {
        loop {
            match self.socket.recv(&mut self.input) {
                Ok(count) => {
                    counters.counts.bytes_in += count as u64;
                    self.take_received(count, judge, counters, now()).map_err(ReadError::Reply)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flow::Done),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
    }

    /// Takes the datagram in the first `count` bytes of the input.
    fn take_received(
        &mut self,
        count: usize,
        judge: &mut Judge,
        counters: &mut Counters,
        now_ns: u64,
    ) -> Result<(), ReplyError> {
        let (header, payload) = Header::read(&self.input[..count])?;
        let sent = self.open.len() - self.unsent;
        let Some(at) = self.open.iter().take(sent).position(|exchange| exchange.id == header.id) else {
            self.note_unexpected(header.id, counters);
            return Ok(());
        };
        let whole = match header.total {
            1 => None,
            _ => match self.open[at].parts.add(header, payload)? {
                None => return Ok(()),
                whole => whole,
            },
        };
        let exchange = &mut self.open[at];
        let reply = whole.as_deref().unwrap_or(payload);
        let used = judge.read(reply, &mut exchange.outbox, counters, now_ns)?;
        let is_open = exchange.outbox.open_requests() > 0;
        if used < reply.len() || (is_open && exchange.messages < 2) {
            return Err(ReplyError::Datagram { problem: "is only a part of a reply", id: header.id });
        }
        if is_open {
            // The other keys have messages of their own.
            return Ok(());
        }
        // The exchange was found at this index.
        let Some(exchange) = self.open.remove(at) else { return Ok(()) };
        let done = if exchange.outbox.has_fills() { &mut self.missed } else { &mut self.spare };
        done.push(exchange);
        Ok(())
    }

    /// Counts a datagram for no request in flight: it is late, or was never requested.
    fn note_unexpected(&self, id: u16, counters: &mut Counters) {
        match self.given_up.iter().position(|&given_up| given_up == id) {
            Some(_) => counters.counts.late += 1,
            None => counters.wrong(|| format!("received a datagram for request {id}, which is not pending")),
        }
    }

    /// Gives up requests without a reply in time; returns whether there were any.
    pub(crate) fn give_up(&mut self, counters: &mut Counters, now_ns: u64) -> bool {
        let sent = self.open.len() - self.unsent;
        let is_over = |exchange: &Exchange| now_ns.saturating_sub(exchange.sent_ns) > PATIENCE_NS;
        let count = self.open.iter().take(sent).take_while(|exchange| is_over(exchange)).count();
        for mut exchange in self.open.drain(..count) {
            counters.counts.lost += 1;
            if self.given_up.len() == GIVEN_UP_MAX {
                self.given_up.pop_front();
            }
            self.given_up.push_back(exchange.id);
            exchange.outbox.abandon();
            exchange.parts.payloads.clear();
            self.spare.push(exchange);
        }
        count > 0
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
