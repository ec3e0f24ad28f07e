//! A burst of datagrams: all requests are read first, and the bucket of each is prefetched, then its item, then they are executed in order
//! (MICA, section 4.3.1 has the same stages for one packet after another).

use super::Place;
use crate::counters::{WorkerCount, WorkerCounters};
use crate::requests::{BATCH, Batch, Keyed};
use crate::top_keys::UseSampler;
use arrayvec::ArrayVec;
use guira_commands::Executor;
use guira_contract::{Access, KeyHash, Session};
use guira_protocol::mica::{
    DATAGRAM_HEADER, Directory, Header, Kind, REQUEST_HEADER, Record, ReplyWriter, Unreadable,
};
use guira_serving::{TrafficCount, TrafficCounters};
use guira_transport::{BURST_MAX, PAYLOAD_MAX, ServerPath};

/// The most requests that a datagram can hold.
const REQUESTS_MAX: usize = (PAYLOAD_MAX - DATAGRAM_HEADER) / REQUEST_HEADER;

/// A request, of which the hash of its key is kept: the rest is read again when it is executed.
#[derive(Clone, Copy, Debug)]
struct Hashed(KeyHash);

impl Keyed for Hashed {
    #[inline(always)]
    fn hash(&self) -> Option<KeyHash> {
        Some(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Datagram {
    index: usize,
    header: Header,
}

/// Datagrams whose requests are executed together: a few, or one.
#[derive(Debug)]
struct Gathered<G> {
    datagrams: ArrayVec<Datagram, BURST_MAX>,
    batch: Batch<Hashed, G, { BATCH + REQUESTS_MAX }>,
}

pub(super) struct Burst<'b> {
    path: &'b mut dyn ServerPath,
    directory: &'b Directory,
    place: Place,
    counters: &'b WorkerCounters,
    traffic: &'b TrafficCounters,
    answers: usize,
}

impl<'b> Burst<'b> {
    pub(super) fn new(
        path: &'b mut dyn ServerPath,
        directory: &'b Directory,
        place: Place,
        (counters, traffic): (&'b WorkerCounters, &'b TrafficCounters),
    ) -> Self {
        Burst { path, directory, place, counters, traffic, answers: 0 }
    }

    /// Answers all datagrams of the burst, and returns the number of answers.
    pub(super) fn serve<S: Session>(
        mut self,
        executor: &mut Executor<S>,
        uses: &mut UseSampler,
        count: usize,
    ) -> usize {
        let mut gathered = Gathered { datagrams: ArrayVec::new(), batch: Batch::new() };
        for index in 0..count {
            self.take(executor, index, &mut gathered);
            if gathered.batch.len() >= BATCH {
                self.execute(executor, uses, &mut gathered);
            }
        }
        self.execute(executor, uses, &mut gathered);
        self.counters.add(WorkerCount::MicaDatagrams, count as u64);
        self.answers
    }

    #[inline(always)]
    fn answer(&mut self, index: usize, length: usize) {
        self.answers += usize::from(length > 0);
        self.path.answer(index, length);
    }

    /// Reads a datagram, and prefetches the buckets of its keys.
    #[inline(always)]
    fn take<S: Session>(&mut self, executor: &Executor<S>, index: usize, gathered: &mut Gathered<S::Guess>) {
        let Gathered { datagrams, batch } = gathered;
        let (datagram, room) = self.path.exchange(index);
        self.traffic.add(TrafficCount::BytesRead, datagram.len() as u64);
        let header = match Header::read(datagram) {
            Ok(header) if header.kind == Kind::Requests && header.generation == self.directory.generation => {
                header
            }
            other => {
                let length = self.answer_otherwise(index, other);
                return self.answer(index, length);
            }
        };
        let (first, mut at) = (batch.len(), DATAGRAM_HEADER);
        for _ in 0..header.count {
            let Some((record, next)) = Record::read(datagram, at) else {
                at = usize::MAX;
                break;
            };
            let hash = executor.prefetch_client_hash(record.key, record.hash);
            batch.push(Hashed(hash), next);
            at = next;
        }
        // No request of a malformed datagram is executed: its requests must fill it exactly.
        if at != datagram.len() {
            batch.truncate(first);
            header.answer(Kind::Malformed, 0, self.directory.generation).write(room);
            self.counters.add(WorkerCount::MicaMalformed, 1);
            return self.answer(index, DATAGRAM_HEADER);
        }
        datagrams.push(Datagram { index, header });
    }

    /// Writes the reply to a malformed request, and returns its length.
    #[cold]
    #[inline(never)]
    fn answer_otherwise(&mut self, index: usize, header: Result<Header, Unreadable>) -> usize {
        let (datagram, room) = self.path.exchange(index);
        let generation = self.directory.generation;
        let (header, kind) = match header {
            Ok(header) if header.kind == Kind::Requests => {
                self.counters.add(WorkerCount::MicaMoved, 1);
                (header, Kind::Moved)
            }
            Ok(header) if header.kind == Kind::DirectoryRequest => {
                // A question shorter than its answer could be forged to amplify traffic: it is not answered.
                let length = self.directory.write(header, room);
                return if datagram.len() < length { 0 } else { length };
            }
            Err(Unreadable::Unknown(header)) => {
                self.counters.add(WorkerCount::MicaMalformed, 1);
                (header, Kind::Malformed)
            }
            // Two servers that answered answers would never stop, once one of them got a forged datagram.
            Ok(_) | Err(Unreadable::Foreign) => {
                self.counters.add(WorkerCount::MicaMalformed, 1);
                return 0;
            }
        };
        header.answer(kind, 0, generation).write(room);
        DATAGRAM_HEADER
    }

    /// Executes the batch, and empties it.
    #[inline(always)]
    fn execute<S: Session>(
        &mut self,
        executor: &mut Executor<S>,
        uses: &mut UseSampler,
        gathered: &mut Gathered<S::Guess>,
    ) {
        let Gathered { datagrams, batch } = gathered;
        if uses.begin(batch.len()) {
            executor.observe_uses();
        }
        batch.prefetch_items(executor, |_| true);
        self.counters.add(WorkerCount::MicaRequests, batch.len() as u64);
        let mut requests = batch.requests().iter();
        for Datagram { index, header } in datagrams.drain(..) {
            let (datagram, room) = self.path.exchange(index);
            let mut writer = ReplyWriter::resume(room, DATAGRAM_HEADER);
            let (count, mut at) = (usize::from(header.count), DATAGRAM_HEADER);
            for (number, request) in requests.by_ref().take(count).enumerate() {
                let Some((record, end)) = Record::read(datagram, at) else {
                    break;
                };
                at = end;
                let Hashed(hash) = request.kind;
                if is_misdirected(self.place, &record, hash) {
                    self.counters.add(WorkerCount::MicaMisdirected, 1);
                }
                executor.direct(&record, hash, request.guess, &mut writer, count - number - 1);
            }
            let length = writer.at();
            header.answer(Kind::Replies, header.count, header.generation).write(room);
            self.answer(index, length);
        }
        batch.truncate(0);
        if uses.end() {
            executor.stop_observing_uses();
        }
    }
}

/// Whether another worker should have got a request. It is executed all the same.
#[inline(always)]
fn is_misdirected(place: Place, record: &Record<'_>, hash: KeyHash) -> bool {
    let Some(partitioning) = place.partitioning.filter(|_| place.workers > 1) else {
        return false;
    };
    let matters = match partitioning.access {
        Access::Erew => !record.key.is_empty(),
        Access::Crew => record.operation.is_some_and(|operation| !operation.is_read()),
        Access::Crcw => false,
    };
    matters && partitioning.home(hash, place.workers) != place.worker
}
