//! A load over MICA's datagrams: one client (`guira-client`), which chooses the worker for each
//! request, and the requests in flight.
//!
//! The client is the one that users have; its replies are checked like all others.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use guira_client::mica::{
    Busy, ClientError, ClientOptions, Outcome, PipelinedClient, Request, Ticket, fetch_directory,
};
use guira_protocol::mica::{Operation as Verb, Status};
use guira_transport::{ClientPath, RingClientPath, UdpClientPath};
use guira_workload::{OnMiss, Operation, ValuePool};

use crate::counters::Counters;
use crate::datagrams::PATIENCE_NS;
use crate::error::LoadError;
use crate::flow::{Flow, OPEN_MAX, ReadError};
use crate::protocol::Command;
use crate::reply::{Judge, note_answer};
use crate::request::ItemStyle;
use crate::source::{Source, Subject};
use crate::target::{DatagramWay, Direct};
use crate::traffic::{Counted, Traffic};

/// The most datagrams in flight; further requests wait.
const WINDOW: usize = 1024;
/// The least number of commands that are sent together through memory.
const SENT_TOGETHER: usize = 32;
/// The wait for a reply to a request for the directory, before it is repeated.
const QUESTION: Duration = Duration::from_millis(20);

/// A client, and its requests in flight.
#[derive(Debug)]
pub(crate) struct Mica {
    client: PipelinedClient<Counted<Box<dyn ClientPath>>>,
    traffic: Arc<Traffic>,
    book: Book,
    /// Requests that wait for room, in order.
    waiting: VecDeque<usize>,
    /// Since when no receive has returned anything.
    quiet_since_ns: Option<u64>,
    per_datagram: usize,
    together: usize,
}

#[derive(Debug, Default)]
struct Book {
    commands: Shelf<Open>,
    requests: Shelf<KeyRequest>,
    /// The number of requests that were ever answered.
    answered: u64,
    /// Missed keys that are to be set.
    missed: Vec<(Vec<u8>, Subject)>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    command: Command,
    intended_ns: u64,
    /// Keys without a reply.
    left: u32,
    /// Keys that were given up.
    lost: u32,
}

#[derive(Debug, Clone)]
struct KeyRequest {
    of: usize,
    key: Vec<u8>,
    subject: Subject,
}

/// Values with stable indices, which are reused after a removal.
#[derive(Debug)]
struct Shelf<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Shelf<T> {
    fn put(&mut self, thing: T) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(thing);
        place
    }

    fn get(&mut self, place: usize) -> Option<&mut T> {
        self.places.get_mut(place)?.as_mut()
    }

    fn take(&mut self, place: usize) -> Option<T> {
        let thing = self.places.get_mut(place)?.take();
        self.free.extend(thing.is_some().then_some(place));
        thing
    }

    fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Book {
    /// Closes a request after its reply, or after it was given up.
    fn close(
        &mut self,
        place: usize,
        outcome: Outcome<'_>,
        judge: &mut Judge,
        counters: &mut Counters,
        now_ns: u64,
    ) {
        let Some(request) = self.requests.take(place) else { return };
        let Some(open) = self.commands.get(request.of) else { return };
        open.left -= 1;
        self.answered += u64::from(matches!(outcome, Outcome::Answered(_)));
        match outcome {
            Outcome::Lost => open.lost += 1,
            Outcome::Answered(reply) => match (open.command, reply.status) {
                (Command::Get, Status::Done) => {
                    judge.judge_found(request.subject, &request.key, reply.flags, reply.value, counters);
                }
                (Command::Get, Status::NotFound) => {
                    counters.counts.gets += 1;
                    if request.subject.on_miss == OnMiss::Fill {
                        self.missed.push((request.key, request.subject));
                    }
                }
                (Command::Get, status) => {
                    counters.counts.gets += 1;
                    counters.refused(|| status.text().to_owned());
                }
                (_, Status::Done) | (Command::Delete, Status::NotFound) => {}
                (_, status) => counters.refused(|| status.text().to_owned()),
            },
        }
        let Open { command, intended_ns, left, lost } = *open;
        if left > 0 {
            return;
        }
        self.commands.take(request.of);
        if lost > 0 {
            counters.counts.lost += 1;
        } else {
            note_answer(command, now_ns.saturating_sub(intended_ns), counters);
        }
    }
}

impl Mica {
    /// A client of this server.
    pub(crate) fn open(direct: &Direct) -> Result<Self, LoadError> {
        let failed = |source: ClientError| LoadError::Direct { way: direct.to_string(), source };
        let path: Box<dyn ClientPath> = match &direct.way {
            DatagramWay::Udp(addr) => {
                Box::new(UdpClientPath::connect(*addr).map_err(|source| failed(source.into()))?)
            }
            DatagramWay::Local(socket) => Box::new(
                RingClientPath::connect(socket).map_err(|source| failed(io::Error::other(source).into()))?,
            ),
        };
        let traffic = Arc::new(Traffic::default());
        let mut path = Counted::new(path, traffic.clone());
        let directory = fetch_directory(&mut path, QUESTION).map_err(failed)?;
        if let DatagramWay::Udp(addr) = direct.way
            && directory.port != addr.port()
        {
            let first = directory.port;
            return Err(LoadError::Options(format!("{addr} is not the first worker's: its port is {first}")));
        }
        let options = ClientOptions {
            per_datagram: direct.per_datagram,
            window: WINDOW,
            timeout: Duration::from_nanos(PATIENCE_NS),
            // The load has to see each request that gets no reply.
            retries: 0,
        };
        let id = RandomState::new().hash_one("load");
        let client =
            PipelinedClient::new(path, directory, id, options).map_err(|source| failed(source.into()))?;
        let per_datagram = usize::from(direct.per_datagram);
        let together = match direct.way {
            DatagramWay::Udp(_) => usize::MAX,
            DatagramWay::Local(_) => per_datagram.max(SENT_TOGETHER),
        };
        Ok(Self {
            client,
            traffic,
            book: Book::default(),
            waiting: VecDeque::new(),
            quiet_since_ns: None,
            per_datagram,
            together,
        })
    }

    /// Commands that wait for their replies.
    pub(crate) fn open_requests(&self) -> usize {
        self.book.commands.count()
    }

    /// The number of commands that a closed loop adds now.
    pub(crate) fn room(&self, pipeline: usize) -> usize {
        let room = pipeline.saturating_sub(self.open_requests());
        if room < self.per_datagram.min(pipeline) { 0 } else { room }
    }

    /// The number of commands that are sent together. By UDP all that are available, since the
    /// kernel packs datagrams of one length; through memory as many as fill a few datagrams, which
    /// the server answers while the next ones are made.
    pub(crate) fn sent_together(&self) -> usize {
        self.together
    }

    /// Whether the most requests are in flight.
    pub(crate) fn is_full(&self) -> bool {
        self.open_requests() >= OPEN_MAX
    }

    /// Whether missed keys are still to be set.
    pub(crate) const fn has_fills(&self) -> bool {
        !self.book.missed.is_empty()
    }

    /// Since when no receive has returned anything; `None` if the last one did.
    pub(crate) const fn quiet_since_ns(&self) -> Option<u64> {
        self.quiet_since_ns
    }

    /// Requests a set for every missed key.
    pub(crate) fn push_fills(
        &mut self,
        values: &ValuePool,
        style: ItemStyle,
        now_ns: u64,
    ) -> Result<(), LoadError> {
        for (key, subject) in std::mem::take(&mut self.book.missed) {
            let open = Open { command: Command::Fill, intended_ns: now_ns, left: 1, lost: 0 };
            let of = self.book.commands.put(open);
            self.push(KeyRequest { of, key, subject }, values, style)?;
        }
        Ok(())
    }

    /// Requests the next operation of the source; false at the end of the source.
    pub(crate) fn push_next<S: Source>(
        &mut self,
        source: &mut S,
        values: &ValuePool,
        style: ItemStyle,
        intended_ns: u64,
    ) -> Result<bool, LoadError> {
        let Some(operation) = source.next_operation() else { return Ok(false) };
        let (command, keys) = match operation {
            Operation::Get | Operation::LoneGet => (Command::Get, 1),
            Operation::Multiget => (Command::Get, style.multiget_keys),
            Operation::Set => (Command::Set, 1),
            Operation::Delete | Operation::LoneDelete => (Command::Delete, 1),
        };
        let of = self.book.commands.put(Open { command, intended_ns, left: keys, lost: 0 });
        for _ in 0..keys {
            let mut key = Vec::new();
            let subject = source.append_key(&mut key);
            self.push(KeyRequest { of, key, subject }, values, style)?;
        }
        Ok(true)
    }

    /// Sends a request, or queues it behind those that wait.
    fn push(&mut self, request: KeyRequest, values: &ValuePool, style: ItemStyle) -> Result<(), LoadError> {
        let place = self.book.requests.put(request);
        if !self.waiting.is_empty() || self.send(place, values, style)?.is_err() {
            self.waiting.push_back(place);
        }
        Ok(())
    }

    fn send(
        &mut self,
        place: usize,
        values: &ValuePool,
        style: ItemStyle,
    ) -> Result<Result<(), Busy>, LoadError> {
        let Book { requests, commands, .. } = &mut self.book;
        let Some(request) = requests.get(place) else { return Ok(Ok(())) };
        let Some(open) = commands.get(request.of) else { return Ok(Ok(())) };
        let plain = |operation| Request::of(operation, &request.key);
        let request = match open.command {
            Command::Get => plain(Verb::Get),
            Command::Delete => plain(Verb::Delete),
            Command::Set | Command::Fill => {
                let len = request.subject.value_len as usize;
                let value = values.get(request.subject.id, len);
                let value = value.ok_or_else(|| LoadError::ValueTooLong { len, max: values.len_max() })?;
                let exptime = i32::try_from(request.subject.exptime).unwrap_or(i32::MAX);
                Request { value, flags: style.flags, exptime, ..plain(Verb::Set) }
            }
        };
        Ok(self.client.submit(&request, Ticket(place as u64))?)
    }

    pub(crate) fn flush(&mut self, now_ns: u64) -> io::Result<Flow> {
        self.client.flush(Duration::from_nanos(now_ns))?;
        Ok(Flow::Done)
    }

    /// Receives and checks replies.
    pub(crate) fn receive(
        &mut self,
        judge: &mut Judge,
        style: ItemStyle,
        counters: &mut Counters,
        now_ns: u64,
    ) -> Result<Flow, ReadError> {
        let Self { client, book, .. } = self;
        let before = book.answered;
        let polled = client.poll(Duration::from_nanos(now_ns), &mut |ticket, outcome| {
            book.close(ticket.0 as usize, outcome, judge, counters, now_ns);
        });
        polled.map_err(ReadError::Io)?;
        let is_quiet = self.book.answered == before;
        self.quiet_since_ns = is_quiet.then(|| self.quiet_since_ns.unwrap_or(now_ns));
        while let Some(place) = self.waiting.front() {
            if self.send(*place, judge.values(), style).map_err(ReadError::Request)?.is_err() {
                break;
            }
            self.waiting.pop_front();
        }
        (counters.counts.bytes_out, counters.counts.bytes_in) = {
            let (out, back) = self.traffic.take();
            (counters.counts.bytes_out + out, counters.counts.bytes_in + back)
        };
        Ok(Flow::Done)
    }

    /// Waits up to `most` for replies.
    pub(crate) fn wait(&mut self, most: Duration) -> io::Result<()> {
        self.client.wait(most)
    }
}
