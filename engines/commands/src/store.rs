//! set, add, replace, append, prepend and cas, and their common part with ms.

use crate::counters::CommandCount;
use crate::executor::Executor;
use crate::request::{Request, Stored};
use guira_contract::{
    ItemState, Key, Lossiness, NewItem, PendingValue, Provision, Session, StoreError, Value,
};
use guira_protocol::{Noreply, Replies, Store, Verb};

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

pub(crate) fn refusal_line(refusal: StoreError) -> &'static str {
    match refusal {
        StoreError::TooLarge => "SERVER_ERROR object too large for cache",
        StoreError::NoMemory => "SERVER_ERROR out of memory storing object",
    }
}

/// memcached's reply if memory runs out after part of the data block was received.
pub(crate) const OUT_OF_MEMORY_MIDWAY: &str = "SERVER_ERROR Out of memory during read";

impl<S: Session> Executor<S> {
    /// Decides how to receive the announced data block: whole if it has at most `whole_max` bytes, or as many as the engine prefers to get at once.
    pub fn receive<R>(&mut self, store: &Store<'_>, whole_max: usize, replies: &mut R) -> Incoming<S::Pending>
    where
        R: Replies<Pin = S::Pin>,
    {
        let request = Request::of(store, self.expiry(store.exptime));
        self.incoming(store.key, &request, store.length as usize, whole_max).unwrap_or_else(|refusal| {
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
        let Incoming::Pending(mut pending) = self.incoming(key, request, value.len(), usize::MAX)? else {
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
        whole_max: usize,
    ) -> Result<Incoming<S::Pending>, StoreError> {
        let spec = request.spec(length);
        let incoming = if !self.session.fits(key.len(), &spec) {
            Err(StoreError::TooLarge)
        } else if length <= self.session.inline_max().min(whole_max) {
            Ok(Incoming::Whole)
        } else {
            self.session.begin_value(key, request.pending_spec(length)).map(Incoming::Pending)
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
        match data {
            Data::Bytes(value) => self.store_bytes(key, guess, store, value, replies),
            data @ Data::Pending(_) => self.store_any(key, guess, store, data, replies),
        }
    }

    /// The same for a value that arrived in one piece.
    #[inline(always)]
    pub(crate) fn store_bytes<R>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        store: &Store<'_>,
        value: &[u8],
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        if store.verb == Verb::Set && value.len() <= self.session.inline_max() {
            self.store_set(key, guess, store, value, replies);
        } else {
            self.store_any(key, guess, store, Data::Bytes(value), replies);
        }
    }

    /// A set of a short value: what most stores are.
    #[inline(never)]
    fn store_set<R>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        store: &Store<'_>,
        value: &[u8],
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        let new = NewItem {
            flags: store.flags,
            expiry: self.expiry(store.exptime),
            cas: None,
            state: ItemState::NONE,
            value: Value::Bytes(value),
        };
        match self.set(key, guess, &new, value.len()) {
            Ok(()) if store.noreply == Noreply::No => replies.buffer().put_short(*b"STORED\r\n"),
            Ok(()) => {}
            Err(refusal) => self.refuse_set(key, store, refusal, replies),
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse_set<R>(&mut self, key: Key<'_>, store: &Store<'_>, refusal: StoreError, replies: &mut R)
    where
        R: Replies<Pin = S::Pin>,
    {
        self.remove_refused(key);
        if store.noreply == Noreply::No {
            replies.buffer().line(refusal_line(refusal));
        }
    }

    /// Stores an item, whatever is there.
    #[inline(always)]
    fn set(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        new: &NewItem<'_>,
        length: usize,
    ) -> Result<(), StoreError> {
        self.count(CommandCount::CmdSet);
        self.saw_request(key);
        let result = self.session.put(key, guess, self.now, new);
        self.sample_set(key, Verb::Set);
        self.saw_store(key, Verb::Set, new.expiry, length, result.map(|()| Stored::Yes(length)));
        if let Err(refusal) = result {
            self.count_refusal(refusal);
        }
        result
    }

    #[inline(never)]
    fn store_any<R>(
        &mut self,
        key: Key<'_>,
        guess: S::Guess,
        store: &Store<'_>,
        data: Data<'_, S::Pending>,
        replies: &mut R,
    ) where
        R: Replies<Pin = S::Pin>,
    {
        if let (Verb::Lease(_), Err(refusal)) = (store.verb, self.gives_leases()) {
            return self.refuse(store, refusal, replies);
        }
        let request = Request::of(store, self.expiry(store.exptime));
        let line = match self.do_store(key, guess, &request, data) {
            Ok(Stored::Yes(_)) => "STORED",
            Ok(Stored::Unmet) => "NOT_STORED",
            Ok(Stored::Exists) => "EXISTS",
            Ok(Stored::NotFound) => "NOT_FOUND",
            Ok(Stored::Stale(_)) => "STALE_STORED",
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
        let mut joined = Vec::new();
        let data = match data {
            Data::Pending(pending) if request.is_join() => {
                joined.reserve_exact(pending.value_len());
                pending.append_to(&mut joined);
                Data::Bytes(&joined)
            }
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
        if let (Verb::Set, Data::Bytes(bytes)) = (request.verb, &data) {
            let new = request.item(Value::Bytes(bytes));
            return self.set(key, guess, &new, bytes.len()).map(|()| Stored::Yes(bytes.len()));
        }
        self.count(CommandCount::CmdSet);
        self.saw_request(key);
        let value_len = data.len();
        let mut outcome = Stored::Unmet;
        let sight = request.sight();
        let result = match data {
            Data::Bytes(bytes) => {
                // The engine computes the size of a joined value.
                let provision = if request.is_join() {
                    Provision::None
                } else {
                    Provision::Item(request.spec(bytes.len()))
                };
                self.update(sight, key, guess, provision, |item, vacancy| {
                    let (decision, result) = request.decide(item, vacancy, Value::Bytes(bytes), bytes.len());
                    outcome = result;
                    decision
                })
            }
            Data::Pending(pending) => {
                let length = pending.value_len();
                self.update(sight, key, Default::default(), Provision::Pending(pending), |item, vacancy| {
                    let (decision, result) = request.decide(item, vacancy, Value::Pending, length);
                    outcome = result;
                    decision
                })
            }
        };
        self.sample_set(key, request.verb);
        self.saw_store(key, request.verb, request.own_expiry(), value_len, result.map(|()| outcome));
        if let Err(refusal) = result {
            if !(refusal == StoreError::TooLarge && request.is_join()) {
                self.count_refusal(refusal);
            }
            return Err(refusal);
        }
        self.count_outcome(key, request.verb, outcome);
        Ok(outcome)
    }

    /// Counts what came of a store that compares.
    #[inline(always)]
    fn count_outcome(&mut self, key: Key<'_>, verb: Verb, outcome: Stored) {
        let what = match (verb, outcome) {
            (Verb::Cas(_), Stored::Yes(_)) => CommandCount::CasHits,
            (Verb::Cas(_), Stored::NotFound) => CommandCount::CasMisses,
            (Verb::Cas(_), _) => CommandCount::CasBadval,
            (Verb::Lease(_), Stored::Yes(_)) => CommandCount::LeaseStores,
            (Verb::Lease(_), Stored::Stale(_)) => CommandCount::LeaseStaleStores,
            (Verb::Lease(_), _) => CommandCount::LeaseRefusals,
            _ => return,
        };
        self.count(what);
        self.sample(what, key);
    }
}
