//! A client without a connection: encoded requests in, encoded replies out.

use super::items::{KEY, Seen};
use guira_commands::observe::{Event, Observer};
use guira_commands::{Answered, CommandCounters, Data, Executor, GetKey, Incoming, Item, Replies};
use guira_contract::suite::{Moment, Refused, Refusing, value_of};
use guira_contract::{
    Decision, Key, KeyHash, Lossiness, PendingValue, Provision, Session, StoreError, ValuePin,
};
use guira_protocol::binary::{Binary, HEADER_BYTES, ItemOperation, Packet, PacketStore, REQUEST_MAGIC};
use guira_protocol::mica::{DATAGRAM_HEADER, Record, ReplyWriter};
use guira_protocol::{
    Command, Cut, Get, GetForm, KeyBuffer, Meta, MetaSet, ReplyBuffer, Store, Unique, cut, parse,
};
use guira_sync::clock::CoarseClock;
use std::marker::PhantomData;
use std::sync::Arc;

/// Length of the pieces in which a long value arrives.
const PIECE: usize = 7_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    /// After its command; in pieces if it is long.
    InPieces,
}

#[derive(Debug)]
struct NullObserver;

impl Observer for NullObserver {
    fn see(&self, _event: Event<'_>, _hash: KeyHash) {}
}

/// A reply buffer that copies long values to where they belong.
struct RecordedReplies<P> {
    buffer: ReplyBuffer,
    pin: PhantomData<P>,
}

impl<P: ValuePin> Replies for RecordedReplies<P> {
    type Pin = P;

    fn buffer(&mut self) -> &mut ReplyBuffer {
        &mut self.buffer
    }

    fn pin(&mut self, value: P) {
        let mut from = 0;
        while from < value.value_len() {
            let piece = value.piece(from);
            self.buffer.put(piece);
            from += piece.len();
        }
    }

    fn take_back(&mut self, length: usize) {
        self.buffer.truncate(length);
    }
}

pub(crate) struct Client<S: Session> {
    executor: Executor<Refusing<S>>,
    clock: CoarseClock,
}

impl<S: Session> Client<S> {
    pub(crate) fn new(session: S) -> Self {
        let clock = CoarseClock::manual(1_700_000_000);
        clock.advance(1_000);
        Self::by_clock(session, clock)
    }

    /// Another client of the same engine.
    pub(crate) fn other(&self, session: S) -> Self {
        Self::by_clock(session, self.clock.clone())
    }

    fn by_clock(session: S, clock: CoarseClock) -> Self {
        let counters = Arc::new(CommandCounters::default());
        let executor = Executor::new(Refusing::new(session), clock.clone(), counters, Box::new(NullObserver));
        Client { executor, clock }
    }

    /// From now on these calls of the session are refused.
    pub(crate) fn refuse(&mut self, refused: Refused, moment: Moment, command: &str) {
        self.executor.session().refuse(refused, moment, command);
    }

    /// From now on nothing is refused, and calls are counted anew.
    pub(crate) fn forget_calls(&mut self) {
        self.refuse(Refused::None, Moment::Late, "");
    }

    /// The number of calls since then that can be refused.
    pub(crate) fn asked(&mut self) -> usize {
        self.executor.session().asked()
    }

    /// Before this call of the session another client acts.
    pub(crate) fn intrude(&mut self, call: usize, act: Box<dyn FnMut()>) {
        self.executor.session().intrude(call, act);
    }

    pub(crate) fn calls(&mut self) -> usize {
        self.executor.session().calls()
    }

    pub(crate) fn lossiness(&mut self) -> Lossiness {
        self.executor.session().lossiness()
    }

    pub(crate) fn wait(&mut self, seconds: u32) {
        self.clock.advance(seconds);
        self.executor.look_at_clock();
    }

    pub(crate) fn look(&mut self, key: &str) -> Option<Seen> {
        let now = self.executor.now();
        value_of(self.executor.session(), key.as_bytes(), now).map(|item| Seen::of(item, now))
    }

    /// Changes the item past all commands.
    pub(crate) fn decide(&mut self, decision: impl Fn() -> Decision<'static>) {
        let hash = self.executor.hash(KEY.as_bytes());
        let (key, now) = (Key { bytes: KEY.as_bytes(), hash }, self.executor.now());
        let update =
            self.executor.session().update(key, Default::default(), now, Provision::None, |_| decision());
        update.expect("nothing is refused");
    }

    /// The reply to a request: a line, a packet, or one record of a datagram.
    pub(crate) fn ask(&mut self, request: &[u8], delivery: Delivery) -> Vec<u8> {
        self.executor.look_at_clock();
        let mut replies = RecordedReplies { buffer: ReplyBuffer::default(), pin: PhantomData };
        match request.first() {
            Some(&REQUEST_MAGIC) => self.packet(request, delivery, &mut replies),
            Some(operation) if *operation < b' ' => return self.record(request),
            _ => self.line(request, delivery, &mut replies),
        }
        self.executor.session().quiesce();
        replies.buffer.as_slice().to_vec()
    }

    /// The reply to one key of a `gets` of several, whose other keys are answered elsewhere.
    pub(crate) fn ask_for_one_of_several(&mut self, key: &str) -> Vec<u8> {
        let mut replies = RecordedReplies { buffer: ReplyBuffer::default(), pin: PhantomData };
        let item = Item::KeyOfGet(GetKey { key: key.as_bytes(), form: GetForm::Plain(Unique::Shown) });
        let hash = self.executor.hash(key.as_bytes());
        self.executor.execute(&item, hash, self.executor.prefetch_item(hash), &mut replies);
        replies.buffer.as_slice().to_vec()
    }

    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key { bytes, hash: self.executor.hash(bytes) }
    }

    fn line(&mut self, request: &[u8], delivery: Delivery, replies: &mut RecordedReplies<S::Pin>) {
        let Cut::Line(line) = cut(request) else { panic!("a line ends") };
        let value = request[line.length..].strip_suffix(b"\r\n").unwrap_or_default();
        match parse(line).expect("it is a command") {
            Command::Get(get) => self.get(&get, replies),
            Command::Store(store) => self.store(&store, value, delivery, replies),
            Command::Meta(meta) => self.meta(&meta, value, delivery, replies),
            Command::MetaDebug(key) => {
                let mut buffer: KeyBuffer = [0; 336];
                let key = self.key(key.bytes(&mut buffer));
                self.executor.meta_debug(key, replies);
            }
            Command::Delete(delete) => self.executor.delete(self.key(delete.key), &delete, replies),
            Command::Arithmetic(step) => self.executor.arithmetic(self.key(step.key), &step, replies),
            Command::Touch(touch) => self.executor.touch(self.key(touch.key), &touch, replies),
            other => panic!("{other:?} changes no item"),
        }
    }

    fn get(&mut self, get: &Get<'_>, replies: &mut RecordedReplies<S::Pin>) {
        let bytes = get.keys.single().expect("one key");
        let (key, hash) = (GetKey { key: bytes, form: get.form }, self.executor.hash(bytes));
        let answered = self.executor.get_key(&key, hash, self.executor.prefetch_item(hash), replies);
        if answered == Answered::Wholly {
            replies.buffer.line("END");
        }
    }

    fn fill(&mut self, pending: &mut S::Pending, value: &[u8]) -> Result<(), StoreError> {
        value.chunks(PIECE).try_for_each(|piece| self.executor.extend(pending, piece))?;
        assert_eq!(pending.missing(), 0);
        Ok(())
    }

    fn store(
        &mut self,
        store: &Store<'_>,
        value: &[u8],
        delivery: Delivery,
        replies: &mut RecordedReplies<S::Pin>,
    ) {
        let incoming = match delivery {
            Delivery::Whole => Incoming::Whole,
            Delivery::InPieces => self.executor.receive(store, 0, replies),
        };
        let data = match incoming {
            Incoming::Refused => return,
            Incoming::Whole => Data::Bytes(value),
            Incoming::Pending(mut pending) => match self.fill(&mut pending, value) {
                Ok(()) => Data::Pending(pending),
                Err(_) => return self.executor.give_up(store, replies),
            },
        };
        let key = self.key(store.key);
        let guess = self.executor.prefetch_item(key.hash);
        self.executor.store(key, guess, store, data, replies);
    }

    fn meta(
        &mut self,
        meta: &Meta<'_>,
        value: &[u8],
        delivery: Delivery,
        replies: &mut RecordedReplies<S::Pin>,
    ) {
        let asked = match meta {
            Meta::Get(get) | Meta::Delete(get) | Meta::Arithmetic(get, _) => get.key,
            Meta::Set(set) => set.key,
        };
        let mut buffer: KeyBuffer = [0; 336];
        let key = self.key(asked.bytes(&mut buffer));
        let guess = self.executor.prefetch_item(key.hash);
        match meta {
            Meta::Get(get) => self.executor.meta_get(key, guess, get, replies),
            Meta::Delete(delete) => self.executor.meta_delete(key, delete, replies),
            Meta::Arithmetic(step, direction) => {
                self.executor.meta_arithmetic(key, step, *direction, replies)
            }
            Meta::Set(set) => self.meta_set(key, set, value, delivery, replies),
        }
    }

    fn meta_set(
        &mut self,
        key: Key<'_>,
        set: &MetaSet<'_>,
        value: &[u8],
        delivery: Delivery,
        replies: &mut RecordedReplies<S::Pin>,
    ) {
        let incoming = match delivery {
            Delivery::Whole => Incoming::Whole,
            Delivery::InPieces => self.executor.meta_receive(key.bytes, set, 0, replies),
        };
        let data = match incoming {
            Incoming::Refused => return,
            Incoming::Whole => Data::Bytes(value),
            Incoming::Pending(mut pending) => match self.fill(&mut pending, value) {
                Ok(()) => Data::Pending(pending),
                Err(_) => return self.executor.meta_give_up(key.bytes, set, replies),
            },
        };
        let guess = self.executor.prefetch_item(key.hash);
        self.executor.meta_set(key, guess, set, data, replies);
    }

    fn packet(&mut self, request: &[u8], delivery: Delivery, replies: &mut RecordedReplies<S::Pin>) {
        let packet = Packet::read(request).expect("it is a packet");
        let kind = packet.check().expect("its lengths make sense");
        let (head, value) = request[HEADER_BYTES..].split_at(packet.head_len());
        let Binary::Item { key, operation } = packet.command(kind, head) else {
            panic!("{packet:?} changes no item")
        };
        let key = self.key(key);
        if let ItemOperation::Store(store) = operation {
            return self.packet_store(packet, &store, key, value, delivery, replies);
        }
        let guess = self.executor.prefetch_item(key.hash);
        self.executor.binary(packet, &operation, key, guess, value, replies);
    }

    fn packet_store(
        &mut self,
        packet: Packet,
        store: &PacketStore,
        key: Key<'_>,
        value: &[u8],
        delivery: Delivery,
        replies: &mut RecordedReplies<S::Pin>,
    ) {
        let incoming = match delivery {
            Delivery::Whole => Incoming::Whole,
            Delivery::InPieces => self.executor.binary_receive(packet, store, key.bytes, 0, replies),
        };
        let data = match incoming {
            Incoming::Refused => return,
            Incoming::Whole => Data::Bytes(value),
            Incoming::Pending(mut pending) => match self.fill(&mut pending, value) {
                Ok(()) => Data::Pending(pending),
                Err(_) => return self.executor.binary_give_up(packet, store, key.bytes, replies),
            },
        };
        let guess = self.executor.prefetch_item(key.hash);
        self.executor.binary_store(packet, store, key, guess, data, replies);
    }

    fn record(&mut self, request: &[u8]) -> Vec<u8> {
        let (record, _) = Record::read(request, 0).expect("it is a record");
        let hash = self.executor.prefetch_client_hash(record.key, record.hash);
        let guess = self.executor.prefetch_item(hash);
        let mut reply = vec![0; 64 << 10];
        let mut writer = ReplyWriter::resume(&mut reply, DATAGRAM_HEADER);
        self.executor.direct(&record, hash, guess, &mut writer, 0);
        let end = writer.at();
        self.executor.session().quiesce();
        reply[DATAGRAM_HEADER..end].to_vec()
    }
}
