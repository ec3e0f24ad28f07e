//! The links that the event loop drives: a connection, or a socket of datagrams, with its requests
//! in flight.

use std::io;

use guira_workload::ValuePool;
use rustix::fd::{AsFd, BorrowedFd};

use crate::connection::Connection;
use crate::counters::Counters;
use crate::datagrams::Datagrams;
use crate::error::LoadError;
use crate::flow::{Flow, ReadError};
use crate::mica::Mica;
use crate::reply::Judge;
use crate::request::ItemStyle;
use crate::source::Source;
use crate::target::{Carrier, Target};

#[derive(Debug)]
pub(crate) struct Link {
    way: Way,
    /// Whether the event loop waits for room in the socket.
    pub(crate) awaits_room: bool,
}

#[derive(Debug)]
enum Way {
    Connection(Connection),
    Datagrams(Datagrams),
    Mica(Box<Mica>),
}

impl Link {
    /// Connects to `target`.
    pub(crate) fn open(target: &Target) -> Result<Self, LoadError> {
        let way = match &target.carrier {
            Carrier::Udp(addr) => Way::Datagrams(Datagrams::open(*addr, target.protocol)?),
            Carrier::Mica(direct) => Way::Mica(Box::new(Mica::open(direct)?)),
            Carrier::Tcp | Carrier::Tls(_) => Way::Connection(Connection::open(target)?),
        };
        Ok(Self { way, awaits_room: false })
    }

    /// Requests that wait for their reply.
    pub(crate) fn open_requests(&self) -> usize {
        match &self.way {
            Way::Connection(connection) => connection.outbox.open_requests(),
            Way::Datagrams(datagrams) => datagrams.open_requests(),
            Way::Mica(mica) => mica.open_requests(),
        }
    }

    /// The number of requests that a closed loop adds now: a connection takes the next batch when
    /// the last one is answered, datagrams take one for each reply, and a MICA client as many as
    /// fill a datagram.
    pub(crate) fn room(&self, pipeline: usize) -> usize {
        match &self.way {
            Way::Connection(connection) if connection.outbox.open_requests() > 0 => 0,
            Way::Connection(_) => pipeline,
            Way::Datagrams(datagrams) => pipeline.saturating_sub(datagrams.open_requests()),
            Way::Mica(mica) => mica.room(pipeline),
        }
    }

    /// The number of requests of a batch that are sent together.
    pub(crate) fn sent_together(&self) -> usize {
        match &self.way {
            Way::Connection(_) | Way::Datagrams(_) => usize::MAX,
            Way::Mica(mica) => mica.sent_together(),
        }
    }

    /// Whether an open loop delays due requests because too many are in flight.
    pub(crate) fn is_full(&self) -> bool {
        match &self.way {
            Way::Connection(connection) => connection.is_full(),
            Way::Datagrams(datagrams) => datagrams.is_full(),
            Way::Mica(mica) => mica.is_full(),
        }
    }

    /// Whether missed keys are still to be set.
    pub(crate) const fn has_fills(&self) -> bool {
        match &self.way {
            Way::Connection(connection) => connection.outbox.has_fills(),
            Way::Datagrams(datagrams) => datagrams.has_fills(),
            Way::Mica(mica) => mica.has_fills(),
        }
    }

    /// Appends a set for every missed key.
    pub(crate) fn push_fills(
        &mut self,
        values: &ValuePool,
        style: ItemStyle,
        now_ns: u64,
    ) -> Result<(), LoadError> {
        match &mut self.way {
            Way::Connection(connection) => connection.outbox.push_fills(values, style, now_ns).map(drop),
            Way::Datagrams(datagrams) => datagrams.push_fills(values, style, now_ns),
            Way::Mica(mica) => mica.push_fills(values, style, now_ns),
        }
    }

    /// Appends the source's next request; false at the end of the source.
    #[inline]
    pub(crate) fn push_next<S: Source>(
        &mut self,
        source: &mut S,
        values: &ValuePool,
        style: ItemStyle,
        intended_ns: u64,
    ) -> Result<bool, LoadError> {
        match &mut self.way {
            Way::Connection(connection) => connection.outbox.push_next(source, values, style, intended_ns),
            Way::Datagrams(datagrams) => datagrams.push_next(source, values, style, intended_ns),
            Way::Mica(mica) => mica.push_next(source, values, style, intended_ns),
        }
    }

    /// Sends queued requests.
    pub(crate) fn flush(&mut self, counters: &mut Counters, now_ns: u64) -> io::Result<Flow> {
        match &mut self.way {
            Way::Connection(connection) => connection.flush(counters),
            Way::Datagrams(datagrams) => datagrams.flush(counters, now_ns),
            Way::Mica(mica) => mica.flush(now_ns),
        }
    }

    /// Reads and checks replies.
    pub(crate) fn receive(
        &mut self,
        judge: &mut Judge,
        style: ItemStyle,
        counters: &mut Counters,
        now: impl Fn() -> u64,
    ) -> Result<Flow, ReadError> {
        match &mut self.way {
            Way::Connection(connection) => connection.receive(judge, counters, now),
            Way::Datagrams(datagrams) => datagrams.receive(judge, counters, now),
            Way::Mica(mica) => mica.receive(judge, style, counters, now()),
        }
    }

    /// A link that waits by itself, and not in the event loop.
    pub(crate) fn by_itself(&mut self) -> Option<&mut Mica> {
        match &mut self.way {
            Way::Mica(mica) => Some(mica),
            Way::Connection(_) | Way::Datagrams(_) => None,
        }
    }

    /// The descriptor that the event loop watches, unless the link waits by itself.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.way {
            Way::Connection(connection) => Some(connection.as_fd()),
            Way::Datagrams(datagrams) => Some(datagrams.as_fd()),
            Way::Mica(_) => None,
        }
    }

    /// Gives up requests without a reply in time; returns whether there were any. A connection
    /// loses none, and a MICA client reports them when it receives.
    pub(crate) fn give_up(&mut self, counters: &mut Counters, now_ns: u64) -> bool {
        match &mut self.way {
            Way::Connection(_) | Way::Mica(_) => false,
            Way::Datagrams(datagrams) => datagrams.give_up(counters, now_ns),
        }
    }
}
