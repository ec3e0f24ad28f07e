//! set, add, replace, append, prepend and cas, and their common part with ms.

use crate::counters::CommandCount;
use crate::{Executor, Replies};
use guira_contract::{
    Decision, Expiry, ItemSpec, ItemState, ItemView, Key, Lossiness, NewItem, PendingValue, Provision,
    Session, StoreError, Value,
};
use guira_protocol::{Noreply, Store, Verb};
use guira_sync::clock::Seconds;

#[derive(Debug)]
pub enum Data<'d, D> {
    Bytes(&'d [u8]),
    /// In a pending value, into which it was received.
    Pending(D),
}

impl<D: PendingValue> Data<'_, D> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Data::Bytes(bytes) => bytes.len(),
            Data::Pending(pending) => pending.value_len(),
        }
    }
}

/// How to receive an announced data block.
#[derive(Debug)]
pub enum Incoming<D> {
    Whole,
    /// In pieces, into this pending value.
    Pending(D),
    /// Not at all: it has to be skipped. The error reply, unless suppressed, has been written.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Stored; the length of the value.
    Yes(usize),
    Unmet,
    /// The item has another cas unique.
    Exists,
    /// There is no item.
    NotFound,
}

/// What to do if the given cas unique is older than that of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    Exists,
    /// Store, and mark the item as stale. An item whose cas unique was never requested has one that is later than all
    /// returned before, and lower than this one.
    Stale(u64),
}

/// A store in any protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    /// The cas unique that append and prepend compare with.
    pub(crate) join_cas: Option<u64>,
    pub(crate) older: Older,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) cas: Option<u64>,
    pub(crate) state: ItemState,
    /// With append and prepend: create a missing item, with this expiry.
    pub(crate) vivify: Option<Expiry>,
}

impl Request {
    fn of(store: &Store<'_>, expiry: Expiry) -> Self {
        Request {
            verb: store.verb,
            join_cas: None,
            older: Older::Exists,
            flags: store.flags,
            expiry,
            cas: None,
            state: ItemState::NONE,
            vivify: None,
        }
    }

    pub(crate) fn spec(&self, value_len: usize) -> ItemSpec {
        // A value stored as stale keeps the expiry of the existing item: it needs space for one.
        let keeps = matches!(self.older, Older::Stale(_));
        let expiry = if keeps { Expiry::At(Seconds(1)) } else { self.own_expiry() };
        ItemSpec { value_len, flags: self.flags, expiry, cas: self.cas }
    }

    fn own_expiry(&self) -> Expiry {
        if self.is_join() { self.vivify.unwrap_or(Expiry::Never) } else { self.expiry }
    }

    pub(crate) fn is_join(&self) -> bool {
        matches!(self.verb, Verb::Append | Verb::Prepend)
    }

    fn put<'d>(&self, value: Value<'d>, state: ItemState, expiry: Expiry) -> Decision<'d> {
        Decision::Put(NewItem { flags: self.flags, expiry, cas: self.cas, state, value })
    }

    /// Whether `wanted` is an older cas unique of the item, which now has `unique`, and the mode accepts that.
    fn is_older(&self, wanted: u64, unique: Option<u64>) -> bool {
        match self.older {
            Older::Exists => false,
            Older::Stale(next) => wanted != 0 && wanted < unique.unwrap_or(next),
        }
    }

    /// Decides on the item, and on the reply. `bytes` is the data block, if it arrived in one piece.
    fn decide<'d>(
        &self,
        item: Option<&dyn ItemView>,
        value: Value<'d>,
        length: usize,
    ) -> (Decision<'d>, Stored) {
        let put = || (self.put(value, self.state, self.own_expiry()), Stored::Yes(length));
        match (self.verb, item) {
            (Verb::Set, _) | (Verb::Add, None) | (Verb::Replace, Some(_)) => put(),
            (Verb::Add, Some(_)) | (Verb::Replace, None) => (Decision::Keep, Stored::Unmet),
            (Verb::Cas(_), None) => (Decision::Keep, Stored::NotFound),
            (Verb::Cas(wanted), Some(item)) => match item.cas() {
                Some(unique) if unique == wanted => put(),
                unique if self.is_older(wanted, unique) => {
                    let meta = item.meta();
                    let state = ItemState(meta.state.0 & ItemState::TOKEN_SENT.0).with(ItemState::STALE);
                    (self.put(value, self.state.with(state), meta.expiry), Stored::Yes(length))
                }
                _ => (Decision::Keep, Stored::Exists),
            },
            (Verb::Append | Verb::Prepend, None) => match self.vivify {
                Some(_) => put(),
                None => (Decision::Keep, Stored::Unmet),
            },
            (Verb::Append | Verb::Prepend, Some(item)) => self.join(item, value, length),
        }
    }

    fn join<'d>(&self, item: &dyn ItemView, value: Value<'d>, length: usize) -> (Decision<'d>, Stored) {
        if self.join_cas.is_some_and(|wanted| wanted != 0 && item.cas() != Some(wanted)) {
            return (Decision::Keep, Stored::Exists);
        }
        let Value::Bytes(bytes) = value else {
            return (Decision::Keep, Stored::Unmet);
        };
        let (before, after): (&[u8], &[u8]) =
            if self.verb == Verb::Append { (&[], bytes) } else { (bytes, &[]) };
        let meta = item.meta();
        let joined = NewItem {
            flags: meta.flags,
            expiry: meta.expiry,
            cas: self.cas,
            // A new item under the existing key.
            state: ItemState(meta.state.0 & ItemState::BINARY_KEY.0),
            value: Value::Joined { before, after },
        };
        (Decision::Put(joined), Stored::Yes(meta.value_len + length))
    }
}

pub(crate) fn refusal_line(refusal: StoreError) -> &'static str {
    match refusal {
        StoreError::TooLarge => "SERVER_ERROR object too large for cache",
        StoreError::NoMemory => "SERVER_ERROR out of memory storing object",
    }
}

/// memcached's reply if memory runs out after part of the data block was received.
pub(crate) const OUT_OF_MEMORY_MIDWAY: &str = "SERVER_ERROR Out of memory during read";

impl<S: Session> Executor<S> {
    /// Decides how to receive the announced data block. Joined values are always received whole.
    pub fn receive<R>(&mut self, store: &Store<'_>, replies: &mut R) -> Incoming<S::Pending>
    where
        R: Replies<Pin = S::Pin>,
    {
        let request = Request::of(store, self.expiry(store.exptime));
        self.incoming(store.key, &request, store.length as usize).unwrap_or_else(|refusal| {
            self.saw_refusal(store.key, store.verb, refusal);
            self.refuse(store, refusal_line(refusal), replies);
            Incoming::Refused
        })
    }

    /// Answers a command if memory runs out while its data block arrives.
    pub fn give_up<R>(&mut self, store: &Store<'_>, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        self.refuse(store, OUT_OF_MEMORY_MIDWAY, replies);
    }

    fn refuse<R>(&mut self, store: &Store<'_>, line: &str, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        if store.verb == Verb::Set {
            let key = self.key(store.key);
            self.remove_refused(key);
        }
        if store.noreply == Noreply::No {
            replies.buffer().line(line);
        }
    }

    /// Removes the older item after its new value was refused, unless the engine must not lose items.
    pub(crate) fn remove_refused(&mut self, key: Key<'_>) {
        if self.session.lossiness() == Lossiness::Store {
            return;
        }
        self.saw_lookup(key);
        self.remove(key);
    }

    /// Appends a piece of a data block.
    ///
    /// # Errors
    /// If there is no memory for it. The caller then refuses the command and drops the pending value.
    pub fn extend(&mut self, pending: &mut S::Pending, piece: &[u8]) -> Result<(), StoreError> {
        let extended = self.session.extend(pending, piece);
        if let Err(refusal) = extended {
            self.count_refusal(refusal);
        }
        extended
    }

    /// A long value that has arrived completely, as a pending value.
    fn received(&mut self, key: &[u8], request: &Request, value: &[u8]) -> Result<S::Pending, StoreError> {
        let Incoming::Pending(mut pending) = self.incoming(key, request, value.len())? else {
            return Err(StoreError::NoMemory);
        };
        self.extend(&mut pending, value)?;
        Ok(pending)
    }

    pub(crate) fn incoming(
        &mut self,
        key: &[u8],
        request: &Request,
        length: usize,
    ) -> Result<Incoming<S::Pending>, StoreError> {
        let spec = request.spec(length);
        let incoming = if !self.session.fits(key.len(), &spec) {
            Err(StoreError::TooLarge)
        } else if length <= self.session.inline_max() || request.is_join() {
            Ok(Incoming::Whole)
        } else {
            self.session.begin_value(key, spec).map(Incoming::Pending)
        };
        if let Err(refusal) = incoming {
            self.count_refusal(refusal);
        }
        incoming
    }

    pub(crate) fn count_refusal(&self, refusal: StoreError) {
        self.count(match refusal {
            StoreError::TooLarge => CommandCount::StoreTooLarge,
            StoreError::NoMemory => CommandCount::StoreNoMemory,
        });
    }

    pub fn store<R>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        store: &Store<'_>,
        data: Data<'_, S::Pending>,
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        let request = Request::of(store, self.expiry(store.exptime));
        let line = match self.do_store(key, guess, &request, data) {
            Ok(Stored::Yes(_)) => "STORED",
            Ok(Stored::Unmet) => "NOT_STORED",
            Ok(Stored::Exists) => "EXISTS",
            Ok(Stored::NotFound) => "NOT_FOUND",
            // The joined value is too large: this is memcached's reply.
            Err(StoreError::TooLarge) if request.is_join() => "NOT_STORED",
            Err(refusal) => {
                if store.verb == Verb::Set {
                    self.remove_refused(key);
                }
                refusal_line(refusal)
            }
        };
        if store.noreply == Noreply::No {
            replies.buffer().line(line);
        }
    }

    pub(crate) fn do_store(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        request: &Request,
        data: Data<'_, S::Pending>,
    ) -> Result<Stored, StoreError> {
        let data = match data {
            Data::Bytes(bytes) if bytes.len() > self.session.inline_max() && !request.is_join() => {
                match self.received(key.bytes, request, bytes) {
                    Ok(pending) => Data::Pending(pending),
                    Err(refusal) => {
                        self.saw_refusal(key.bytes, request.verb, refusal);
                        return Err(refusal);
                    }
                }
            }
            data => data,
        };
        self.count(CommandCount::CmdSet);
        self.saw_lookup(key);
        let value_len = data.len();
        let mut outcome = Stored::Unmet;
        let result = match data {
            Data::Bytes(bytes) => {
                // The engine computes the size of a joined value.
                let provision = if request.is_join() {
                    Provision::None
                } else {
                    Provision::Item(request.spec(bytes.len()))
                };
                self.session.update(key, guess, self.now, provision, |item| {
                    let (decision, result) = request.decide(item, Value::Bytes(bytes), bytes.len());
                    outcome = result;
                    decision
                })
            }
            Data::Pending(pending) => {
                let length = pending.value_len();
                self.session.update(key, Default::default(), self.now, Provision::Pending(pending), |item| {
                    let (decision, result) = request.decide(item, Value::Pending, length);
                    outcome = result;
                    decision
                })
            }
        };
        self.sample(CommandCount::CmdSet, key);
        self.saw_store(key, request.verb, request.own_expiry(), value_len, result.map(|()| outcome));
        if let Err(refusal) = result {
            if !(refusal == StoreError::TooLarge && request.is_join()) {
                self.count_refusal(refusal);
            }
            return Err(refusal);
        }
        if let Verb::Cas(_) = request.verb {
            let what = match outcome {
                Stored::Yes(_) => CommandCount::CasHits,
                Stored::NotFound => CommandCount::CasMisses,
                _ => CommandCount::CasBadval,
            };
            self.count(what);
            self.sample(what, key);
        }
        Ok(outcome)
    }
}
