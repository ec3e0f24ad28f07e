//! The commands of the binary protocol. Every reply about an item contains its cas unique, so an item gets one when
//! it is stored or read here.

use crate::arithmetic::{Counted, Step};
use crate::counters::CommandCount;
use crate::deletion::Deleted;
use crate::executor::Executor;
use crate::observe::{DeletedBy, Got};
use crate::request::{Older, Request, Stored};
use crate::sight::Plain;
use crate::store::{Data, Incoming};
use crate::uniques::Uniques;
use guira_contract::{
    ItemState, ItemView, Key, Meta, Read, Recency, Session, Sink, StoreError, ValuePin, Want,
};
use guira_protocol::binary::{
    ItemOperation, Packet, PacketStore, Quiet, Response, Shown, Status, reply_body, reply_status,
};
use guira_protocol::{Exptime, Replies, Unique, Verb};

/// Length of the extras of a get's reply, which are the flags.
const FLAGS_BYTES: usize = 4;

struct PacketSink<'a, 'k, R> {
    replies: &'a mut R,
    packet: Packet,
    shown: Shown,
    key: &'k [u8],
    /// Length of the buffer before the item.
    mark: usize,
    uniques: Uniques,
    lacks_unique: bool,
}

impl<R: Replies> PacketSink<'_, '_, R> {
    fn head(&mut self, cas: u64, flags: u32, value_len: usize) {
        let key = if self.shown == Shown::KeyAndValue { self.key } else { &[] };
        let response = Response {
            cas,
            extras_len: FLAGS_BYTES as u8,
            key_len: key.len() as u8,
            value_len: value_len as u32,
            ..Response::plain(self.packet, Status::Success)
        };
        let buffer = self.replies.buffer();
        buffer.put(&response.header());
        buffer.put(&flags.to_be_bytes());
        buffer.put(key);
    }
}

impl<R: Replies<Pin: ValuePin>> Sink for PacketSink<'_, '_, R> {
    type Pin = R::Pin;

    fn wants(&self) -> Want {
        if self.shown == Shown::Nothing { Want::Meta } else { Want::Value }
    }

    fn found<I: ItemView>(&mut self, item: &I) {
        let unique = self.uniques.shown(item.cas());
        self.lacks_unique = unique.is_none();
        let Some(cas) = unique else {
            return;
        };
        if self.shown == Shown::Nothing {
            return self.head(cas, item.flags(), 0);
        }
        let length = item.value_len();
        self.head(cas, item.flags(), length);
        let mut writer = self.replies.buffer().writer(length);
        item.copy_value(0, writer.space(length));
        let written = writer.written();
        self.replies.buffer().keep(written);
    }

    fn undo(&mut self) {
        self.replies.take_back(self.mark);
    }

    fn recency(&self) -> Recency {
        if self.lacks_unique { Recency::Leave } else { Recency::Bump }
    }

    fn pinned(&mut self, meta: &Meta, pin: R::Pin) {
        let unique = self.uniques.shown(meta.cas);
        self.lacks_unique = unique.is_none();
        if let Some(cas) = unique {
            self.head(cas, meta.flags, meta.value_len);
            self.replies.pin(pin);
        }
    }
}

fn refused(refusal: StoreError) -> Status {
    match refusal {
        StoreError::TooLarge => Status::TooLarge,
        StoreError::NoMemory => Status::OutOfMemory,
    }
}

fn tell<R: Replies>(packet: Packet, status: Status, cas: u64, replies: &mut R) {
    if status != Status::Success || packet.quiet() == Quiet::No {
        reply_status(packet, status, cas, replies);
    }
}

impl<S: Session> Executor<S> {
    /// Executes a command on an item. `value` is empty unless the command stores.
    pub fn binary<R>(
        &mut self,
        packet: Packet,
        operation: &ItemOperation,
        key: Key<'_>,
        guess: S::Guess,
        value: &[u8],
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        match operation {
            ItemOperation::Get { shown, touch: None } => self.binary_get(packet, key, guess, *shown, replies),
            ItemOperation::Get { shown, touch: Some(time) } => {
                self.binary_touch(packet, key, *shown, *time, replies);
            }
            ItemOperation::Store(store) => {
                self.binary_store(packet, store, key, guess, Data::Bytes(value), replies);
            }
            ItemOperation::Delete => self.binary_delete(packet, key, replies),
            ItemOperation::Arithmetic { direction, delta, initial } => {
                let step = Step {
                    direction: *direction,
                    delta: *delta,
                    cas: Some(packet.cas),
                    cas_new: self.fresh_unique(),
                    expiry: None,
                    initial: initial.map(|(number, time)| (number, self.expiry(time))),
                };
                self.binary_count(packet, key, &step, replies);
            }
        }
    }

    fn binary_read<R>(
        &mut self,
        packet: Packet,
        key: Key<'_>,
        guess: S::Guess,
        shown: Shown,
        replies: &mut R,
    ) -> Result<Read, StoreError>
    where
        R: Replies<Pin = S::Pin>,
    {
        let mut guess = guess;
        loop {
            let mark = replies.buffer().len();
            let (key_bytes, uniques) = (key.bytes, self.uniques);
            let sink =
                PacketSink { replies, packet, shown, key: key_bytes, mark, uniques, lacks_unique: false };
            let mut sink = Plain::new(sink);
            let read = self.read(key, guess, &mut sink);
            if read != Read::Hit || !sink.sink.lacks_unique {
                return Ok(read);
            }
            self.give_unique(key)?;
            guess = S::Guess::default();
        }
    }

    fn binary_get<R>(&mut self, packet: Packet, key: Key<'_>, guess: S::Guess, shown: Shown, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        match self.binary_read(packet, key, guess, shown, replies) {
            Ok(Read::Hit) => {
                self.count(CommandCount::CmdGet);
                self.count(CommandCount::GetHits);
                self.sample(CommandCount::GetHits, key);
                self.saw_get(key, Got::Found);
            }
            Ok(Read::Miss(kind)) => {
                self.count_miss(kind);
                self.saw_get(key, Got::Missed(kind));
                binary_miss(packet, key, shown, replies);
            }
            Err(refusal) => tell(packet, refused(refusal), 0, replies),
        }
    }

    fn binary_touch<R>(&mut self, packet: Packet, key: Key<'_>, shown: Shown, time: Exptime, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let (mark, uniques) = (replies.buffer().len(), self.uniques);
        let mut sink =
            PacketSink { replies, packet, shown, key: key.bytes, mark, uniques, lacks_unique: false };
        match self.show_and_touch(key, time, Unique::Shown, &mut sink) {
            Ok(Read::Hit) => {}
            Ok(Read::Miss(_)) => binary_miss(packet, key, shown, replies),
            Err(refusal) => tell(packet, refused(refusal), 0, replies),
        }
    }

    fn binary_delete<R>(&mut self, packet: Packet, key: Key<'_>, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let item = self.before_delete(key);
        let class = self.class_before_delete(key);
        let wanted = Some(packet.cas).filter(|cas| *cas != 0);
        let status = match self.delete_item(key, wanted, 0) {
            Ok(Deleted::Done) => Status::Success,
            Ok(Deleted::Absent) => Status::KeyNotFound,
            Ok(Deleted::Exists) => Status::KeyExists,
            Err(refusal) => refused(refusal),
        };
        match status {
            Status::Success => {
                self.count(CommandCount::DeleteHits);
                self.sample_delete(class);
            }
            Status::KeyNotFound => self.count(CommandCount::DeleteMisses),
            _ => {}
        }
        self.saw_delete(key, DeletedBy::Delete, item.filter(|_| status == Status::Success));
        tell(packet, status, 0, replies);
    }

    fn binary_count<R>(&mut self, packet: Packet, key: Key<'_>, step: &Step, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        let cas = step.cas_new.unwrap_or(0);
        let status = match self.count_step(key, step) {
            Ok(Counted::Now(number, _)) => return tell_number(packet, number, cas, replies),
            Ok(Counted::Created) => {
                let number = step.initial.map_or(0, |(number, _)| number);
                return tell_number(packet, number, cas, replies);
            }
            Ok(Counted::NotFound) => Status::KeyNotFound,
            Ok(Counted::Exists) => Status::KeyExists,
            Ok(Counted::NotANumber) => Status::NotANumber,
            Err(refusal) => refused(refusal),
        };
        tell(packet, status, 0, replies);
    }

    fn binary_request(&mut self, packet: Packet, store: &PacketStore) -> Request {
        let PacketStore { verb, flags, exptime } = *store;
        let is_join = matches!(verb, Verb::Append | Verb::Prepend);
        // With cas uniques disabled, memcached stores whatever unique the packet has.
        let wanted = self.uniques.given(Some(packet.cas));
        Request {
            verb: wanted.filter(|_| !is_join).map_or(verb, Verb::Cas),
            join_cas: wanted.filter(|_| is_join),
            older: Older::Exists,
            flags,
            expiry: self.expiry(exptime),
            cas: self.fresh_unique(),
            state: ItemState::NONE,
            vivify: None,
        }
    }

    /// Decides how to receive the announced value, as [`Executor::receive`] does.
    pub fn binary_receive<R>(
        &mut self,
        packet: Packet,
        store: &PacketStore,
        key: &[u8],
        whole_max: usize,
        replies: &mut R,
    ) -> Incoming<S::Pending>
    where
        R: Replies<Pin = S::Pin>,
    {
        let request = self.binary_request(packet, store);
        self.incoming(key, &request, packet.value_len() as usize, whole_max).unwrap_or_else(|refusal| {
            self.saw_refusal(key, request.verb, refusal);
            self.binary_refuse(packet, store, key, refusal, replies);
            Incoming::Refused
        })
    }

    /// Answers a command if memory runs out while its value arrives.
    pub fn binary_give_up<R>(&mut self, packet: Packet, store: &PacketStore, key: &[u8], replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        self.binary_refuse(packet, store, key, StoreError::NoMemory, replies);
    }

    fn binary_refuse<R>(
        &mut self,
        packet: Packet,
        store: &PacketStore,
        key: &[u8],
        refusal: StoreError,
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        if store.verb == Verb::Set {
            let key = self.key(key);
            self.remove_refused(key);
        }
        tell(packet, refused(refusal), 0, replies);
    }

    pub fn binary_store<R>(
        &mut self,
        packet: Packet,
        store: &PacketStore,
        key: Key<'_>,
        guess: S::Guess,
        data: Data<'_, S::Pending>,
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        let verb = store.verb;
        let request = self.binary_request(packet, store);
        let status = match self.do_store(key, guess, &request, data) {
            Ok(Stored::Yes(_)) => {
                return tell(packet, Status::Success, request.cas.unwrap_or(0), replies);
            }
            Ok(Stored::Exists) => Status::KeyExists,
            Ok(Stored::NotFound) => Status::KeyNotFound,
            Ok(Stored::Stale(_)) => Status::NotStored,
            Ok(Stored::Unmet) => match verb {
                Verb::Add => Status::KeyExists,
                Verb::Replace => Status::KeyNotFound,
                _ => Status::NotStored,
            },
            // The joined value is too large: this is memcached's reply.
            Err(StoreError::TooLarge) if request.is_join() => Status::NotStored,
            Err(refusal) => {
                if verb == Verb::Set {
                    self.remove_refused(key);
                }
                refused(refusal)
            }
        };
        tell(packet, status, 0, replies);
    }
}

/// Writes the reply of a miss: with the key if the client asked for it, else with a text.
fn binary_miss<R: Replies>(packet: Packet, key: Key<'_>, shown: Shown, replies: &mut R) {
    if packet.quiet() == Quiet::Yes {
        return;
    }
    if shown != Shown::KeyAndValue {
        return reply_status(packet, Status::KeyNotFound, 0, replies);
    }
    let key_len = key.bytes.len() as u8;
    let response = Response { key_len, ..Response::plain(packet, Status::KeyNotFound) };
    replies.buffer().put(&response.header());
    replies.buffer().put(key.bytes);
}

fn tell_number<R: Replies>(packet: Packet, number: u64, cas: u64, replies: &mut R) {
    if packet.quiet() == Quiet::No {
        reply_body(packet, Status::Success, cas, &number.to_be_bytes(), replies);
    }
}
