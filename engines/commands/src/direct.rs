//! The requests of MICA's datagrams. Their clients hash the keys and have no connection; the reply is one record of a
//! datagram, and a value is copied to where it is sent from.

use crate::arithmetic::{Counted, Step};
use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::observe::Got;
use crate::request::{Older, Request, Stored};
use crate::sight::Plain;
use crate::store::Data;
use guira_contract::{
    ItemState, ItemView, Key, KeyHash, Meta, Read, Recency, Session, Sink, StoreError, ValuePin, Want,
};
use guira_protocol::mica::{DATAGRAM_HEADER, Operation, REPLY_HEADER, Record, ReplyWriter, Status};
use guira_protocol::{Direction, Verb};
use std::marker::PhantomData;

/// Copies a value into the space left in the datagram.
struct RecordSink<'r, P> {
    space: &'r mut [u8],
    flags: u32,
    value_len: usize,
    pin: PhantomData<P>,
}

impl<P: ValuePin> Sink for RecordSink<'_, P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Value
    }

    #[inline(always)]
    fn found<I: ItemView>(&mut self, item: &I) {
        (self.flags, self.value_len) = (item.flags(), item.value_len());
        if let Some(space) = self.space.get_mut(..self.value_len) {
            item.copy_value(0, space);
        }
    }

    fn undo(&mut self) {}

    #[inline(always)]
    fn recency(&self) -> Recency {
        Recency::Bump
    }

    fn pinned(&mut self, meta: &Meta, _pin: P) {
        (self.flags, self.value_len) = (meta.flags, meta.value_len);
    }
}

fn refused(refusal: StoreError) -> Status {
    match refusal {
        StoreError::TooLarge => Status::TooLarge,
        StoreError::NoMemory => Status::OutOfMemory,
    }
}

impl<S: Session> Executor<S> {
    /// The hash of a key, given the one that the client sent, and the first stage of prefetching.
    #[inline(always)]
    pub fn prefetch_client_hash(&self, key: &[u8], client_hash: u64) -> KeyHash {
        let hash = if S::CLIENT_HASHES { KeyHash(client_hash) } else { self.session.hash(key) };
        self.session.prefetch_buckets(hash);
        hash
    }

    /// Executes a request and writes its record; `after` more records follow in the same datagram.
    #[inline(always)]
    pub fn direct(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
        guess: S::Guess,
        writer: &mut ReplyWriter<'_>,
        after: usize,
    ) {
        let key = Key { bytes: record.key, hash };
        if record.operation == Some(Operation::Get) && record.is_sound() {
            return self.direct_get(key, guess, writer, after);
        }
        let status = self.direct_other(key, guess, record, writer, after);
        status.inspect(|status| writer.put(*status, 0, 0));
    }

    #[inline(always)]
    fn direct_get(&mut self, key: Key<'_>, guess: S::Guess, writer: &mut ReplyWriter<'_>, after: usize) {
        let space = writer.space(after);
        let most = space.len();
        let mut sink = Plain::new(RecordSink { space, flags: 0, value_len: 0, pin: PhantomData });
        let read = self.read(key, guess, &mut sink);
        let (flags, value_len) = (sink.sink.flags, sink.sink.value_len);
        match read {
            Read::Hit => {
                self.count(CommandCount::CmdGet);
                self.count(CommandCount::GetHits);
                self.sample(CommandCount::GetHits, key);
                if value_len <= most {
                    self.saw_get(key, Got::Found);
                    return writer.put(Status::Done, flags, value_len);
                }
                self.saw_get_of(key, Got::Found, || Want::Meta);
                let fits_alone = DATAGRAM_HEADER + REPLY_HEADER + value_len <= writer.longest();
                writer.put(if fits_alone { Status::RequestAlone } else { Status::UseTcp }, flags, 0);
            }
            Read::Miss(kind) => {
                self.count_miss(kind);
                self.saw_get(key, Got::Missed(kind));
                writer.put(Status::NotFound, 0, 0);
            }
        }
    }

    /// Executes any operation but a get, and returns the status of its record unless it was written.
    #[inline(never)]
    fn direct_other(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        record: &Record<'_>,
        writer: &mut ReplyWriter<'_>,
        after: usize,
    ) -> Option<Status> {
        if !record.is_sound() {
            return Some(Status::Invalid);
        }
        Some(match record.operation? {
            Operation::Noop | Operation::Get => Status::Done,
            Operation::Set => self.direct_store(key, guess, Verb::Set, record),
            Operation::Add => self.direct_store(key, guess, Verb::Add, record),
            Operation::Replace => self.direct_store(key, guess, Verb::Replace, record),
            Operation::Delete => match self.delete_key(key, 0) {
                Ok(true) => Status::Done,
                Ok(false) => Status::NotFound,
                Err(refusal) => refused(refusal),
            },
            Operation::Increment => return self.direct_count(key, Direction::Up, record, writer, after),
            Operation::Decrement => return self.direct_count(key, Direction::Down, record, writer, after),
            Operation::Touch => match self.touch_key(key, record.exptime) {
                Ok(true) => Status::Done,
                Ok(false) => Status::NotFound,
                Err(refusal) => refused(refusal),
            },
        })
    }

    fn direct_store(&mut self, key: Key<'_>, guess: S::Guess, verb: Verb, record: &Record<'_>) -> Status {
        let request = Request {
            verb,
            join_cas: None,
            older: Older::Exists,
            flags: record.flags,
            expiry: self.expiry(record.exptime),
            cas: None,
            state: ItemState::NONE,
            vivify: None,
        };
        let spec = request.spec(record.value.len());
        let stored = if self.session.fits(key.bytes.len(), &spec) {
            self.do_store(key, guess, &request, Data::Bytes(record.value))
        } else {
            self.count_refusal(StoreError::TooLarge);
            self.saw_refusal(key.bytes, verb, StoreError::TooLarge);
            Err(StoreError::TooLarge)
        };
        match stored {
            Ok(Stored::Yes(_)) => Status::Done,
            Ok(_) => Status::NotStored,
            Err(refusal) => {
                if verb == Verb::Set {
                    self.remove_refused(key);
                }
                refused(refusal)
            }
        }
    }

    fn direct_count(
        &mut self,
        key: Key<'_>,
        direction: Direction,
        record: &Record<'_>,
        writer: &mut ReplyWriter<'_>,
        after: usize,
    ) -> Option<Status> {
        Some(match self.count_step(key, &Step::of(direction, record.delta())) {
            Ok(Counted::Now(number, _)) => {
                let number = number.to_le_bytes();
                writer.space(after)[..number.len()].copy_from_slice(&number);
                writer.put(Status::Done, 0, number.len());
                return None;
            }
            Ok(Counted::NotANumber) => Status::NotANumber,
            Ok(_) => Status::NotFound,
            Err(refusal) => refused(refusal),
        })
    }
}
