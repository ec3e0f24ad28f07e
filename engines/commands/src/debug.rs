//! me, and lookups that leave no trace on the item.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::observe::Got;
use crate::sight::Plain;
use guira_contract::{Expiry, ItemState, ItemView, Key, Meta, Read, Recency, Session, Sink, Want};
use guira_protocol::{Replies, encode_key, fits_in_text};
use std::marker::PhantomData;

struct MetaOnly<P> {
    meta: Option<Meta>,
    pin: PhantomData<P>,
}

impl<P: guira_contract::ValuePin> Sink for MetaOnly<P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Meta
    }

    fn found<I: ItemView>(&mut self, item: &I) {
        self.meta = Some(item.meta());
    }

    fn undo(&mut self) {
        self.meta = None;
    }

    fn recency(&self) -> Recency {
        Recency::Leave
    }

    fn pinned(&mut self, meta: &Meta, _pin: P) {
        self.meta = Some(*meta);
    }
}

impl<S: Session> Executor<S> {
    pub(crate) fn meta_of(&mut self, key: Key<'_>) -> Option<Meta> {
        self.look_up(key).1
    }

    /// Looks a key up without side effects on the item.
    pub(crate) fn look_up(&mut self, key: Key<'_>) -> (Got, Option<Meta>) {
        let mut sink = Plain::new(MetaOnly { meta: None, pin: PhantomData });
        match self.read(key, S::Guess::default(), &mut sink) {
            Read::Hit => (Got::Found, sink.sink.meta),
            Read::Miss(kind) => (Got::Missed(kind), None),
        }
    }

    /// The metadata of an item, which may be a hidden one.
    fn any_meta_of(&mut self, key: Key<'_>) -> Option<Meta> {
        let mut sink = MetaOnly { meta: None, pin: PhantomData };
        let read = self.session.read(key, S::Guess::default(), self.now, &mut sink);
        sink.meta.filter(|meta| read == Read::Hit && !meta.state.is_tombstone())
    }

    /// me: all metadata of an item.
    pub fn meta_debug<R: Replies<Pin = S::Pin>>(&mut self, key: Key<'_>, replies: &mut R) {
        self.count(CommandCount::CmdMeta);
        self.saw_request(key);
        let mut found = self.any_meta_of(key);
        // If there is no memory for a cas unique, the item is shown without one.
        while found.is_some_and(|meta| self.uniques.shown(meta.cas).is_none())
            && self.give_unique(key).is_ok()
        {
            found = self.any_meta_of(key);
        }
        let (buffer, uniques) = (replies.buffer(), self.uniques);
        let Some(meta) = found else {
            return buffer.line("EN");
        };
        buffer.put(b"ME ");
        if meta.state.has(ItemState::BINARY_KEY) || !fits_in_text(key.bytes) {
            buffer.put(encode_key(key.bytes, &mut [0; 336]));
        } else {
            buffer.put(key.bytes);
        }
        buffer.put(b" exp=");
        match meta.expiry {
            Expiry::Never => buffer.put(b"-1"),
            Expiry::At(at) => buffer.number(u64::from(at.0.saturating_sub(self.now.0))),
        }
        buffer.put(b" la=");
        buffer.number(u64::from(self.now.0.saturating_sub(meta.last_access.0)));
        buffer.put(b" cas=");
        buffer.number(uniques.shown(meta.cas).unwrap_or(0));
        let fetched = meta.state.has(ItemState::FETCHED);
        buffer.put(if fetched { b" fetch=yes cls=" } else { b" fetch=no cls=" });
        buffer.number(u64::from(meta.class));
        buffer.put(b" size=");
        buffer.number(meta.size as u64);
        buffer.put(b"\r\n");
    }
}
