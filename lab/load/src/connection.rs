//! One connection of the load: a non-blocking socket, its requests in flight, and the input read
//! from it.

use std::io::{self, IoSlice};
use std::net::TcpStream;

use rustix::fd::{AsFd, BorrowedFd};

use crate::counters::Counters;
use crate::error::LoadError;
use crate::flow::{Flow, ReadError};
use crate::reply::Judge;
use crate::request::Outbox;
use crate::stream::Stream;
use crate::target::{Carrier, Target};

/// The first size of the input buffer; it doubles while a reply does not fit.
const INPUT_LEN_MIN: usize = 64 << 10;

/// Requests of an open loop that may wait for a slow server, in bytes. Further ones are sent later,
/// and their latency counts from the time at which they were due.
const UNSENT_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    pub(crate) outbox: Outbox,
    input: Vec<u8>,
    /// End of the bytes of `input` that were read and not yet parsed.
    filled: usize,
}

impl Connection {
    /// Connects, without delaying small writes.
    pub(crate) fn open(target: &Target) -> Result<Self, LoadError> {
        let addr = target.addr;
        let failed = |source| LoadError::Connect { addr, source };
        let mut socket = TcpStream::connect(addr).map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let session = match &target.carrier {
            Carrier::Tls(tls) => Some(tls.shake_hands(&mut socket, addr)?),
            Carrier::Tcp | Carrier::Udp(_) | Carrier::Mica(_) => None,
        };
        socket.set_nonblocking(true).map_err(failed)?;
        let stream = match session {
            Some(session) => Stream::tls(socket, session),
            None => Stream::Plain(socket),
        };
        Ok(Self { stream, outbox: Outbox::new(target.protocol), input: vec![0; INPUT_LEN_MIN], filled: 0 })
    }

    /// Whether the most unsent bytes wait: the server does not keep up with an open loop.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.unsent().len() >= UNSENT_MAX
    }

    pub(crate) fn flush(&mut self, counters: &mut Counters) -> io::Result<Flow> {
        loop {
            let unsent = self.outbox.unsent();
            let written = match unsent.is_empty() {
                true => self.stream.flush().map(|()| None),
                false => self.stream.write(&[IoSlice::new(unsent)]).map(Some),
            };
            match written {
                Ok(None) => return Ok(Flow::Done),
                Ok(Some(0)) => return Ok(Flow::Closed),
                Ok(Some(count)) => {
                    self.outbox.took(count);
                    counters.counts.bytes_out += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flow::Full),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads and checks replies.
    pub(crate) fn receive(
        &mut self,
        judge: &mut Judge,
        counters: &mut Counters,
        now: impl Fn() -> u64,
    ) -> Result<Flow, ReadError> {
        loop {
            let room = self.input.len() - self.filled;
            let count = match self.stream.read(&mut self.input[self.filled..]) {
                Ok(0) => return Ok(Flow::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flow::Done),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ReadError::Io(error)),
            };
            self.filled += count;
            counters.counts.bytes_in += count as u64;
            let used = judge
                .read(&self.input[..self.filled], &mut self.outbox, counters, now())
                .map_err(ReadError::Reply)?;
            self.input.copy_within(used..self.filled, 0);
            self.filled -= used;
            // A short read has emptied the socket: the event loop reports when there is more.
            if count < room {
                return Ok(Flow::Done);
            }
            if self.filled == self.input.len() {
                self.input.resize(self.input.len() * 2, 0);
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use guira_workload::{OnMiss, Operation, ValuePool};

    use super::{Connection, UNSENT_MAX};
    use crate::counters::Counters;
    use crate::flow::Flow;
    use crate::request::ItemStyle;
    use crate::source::{Source, Subject};
    use crate::target::Target;

    const STYLE: ItemStyle = ItemStyle { flags: 0, multiget_keys: 1 };
    const VALUE_LEN: usize = 100_000;

    struct Sets;

    impl Source for Sets {
        fn next_operation(&mut self) -> Option<Operation> {
            Some(Operation::Set)
        }

        fn append_key(&mut self, out: &mut Vec<u8>) -> Subject {
            out.extend_from_slice(b"key");
            Subject { id: 0, value_len: VALUE_LEN as u32, exptime: 0, on_miss: OnMiss::Leave }
        }
    }

    #[test]
    fn what_waits_for_a_server_that_does_not_read_does_not_grow_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Connection::open(&Target::text(listener.local_addr().unwrap())).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (values, mut counters) = (ValuePool::new(VALUE_LEN), Counters::default());
        let mut asked = 0;
        while !client.is_full() {
            client.outbox.push_next(&mut Sets, &values, STYLE, 0).unwrap();
            client.flush(&mut counters).unwrap();
            asked += 1;
            assert!(asked < 1000, "100 MB went somewhere");
        }
        assert!(client.outbox.unsent().len() < UNSENT_MAX + 2 * VALUE_LEN);
        let mut left = asked * VALUE_LEN;
        while client.flush(&mut counters).unwrap() == Flow::Full {
            let mut bytes = vec![0; left.min(1 << 20)];
            left -= server.read(&mut bytes).unwrap();
        }
        assert!(!client.is_full());
    }
}
