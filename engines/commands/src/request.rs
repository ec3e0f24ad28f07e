//! A store in any protocol, and its decision on an item.

use crate::sight::{Sight, Vacancy};
use guira_contract::{Decision, Expiry, ItemSpec, ItemState, ItemView, Meta, NewItem, OldItem, Value};
use guira_protocol::{Store, Verb};
use guira_sync::clock::Seconds;
use guira_sync::simulated::{is_planted, sometimes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Stored; the length of the value.
    Yes(usize),
    Unmet,
    /// The item has another cas unique.
    Exists,
    /// There is no item.
    NotFound,
    /// Stored as a stale value, since the lease token is void; the length of the value.
    Stale(usize),
}

/// What to do if the given cas unique is older than that of the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    Exists,
    /// Store, and mark the item as stale. An item whose cas unique was never requested has one that is later than all
    /// returned before, and lower than this one.
    Stale(u64),
}

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
    pub(crate) fn of(store: &Store<'_>, expiry: Expiry) -> Self {
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
        let expiry = if self.may_be_stale() { Expiry::At(Seconds(1)) } else { self.own_expiry() };
        // All but a set depend on what is there: an add is refused for it.
        let old = if matches!(self.verb, Verb::Set) { OldItem::MayGo } else { OldItem::Stays };
        ItemSpec { value_len, flags: self.flags, expiry, cas: self.cas, old }
    }

    /// The same for a value that arrives in pieces, whose item has all of its fields from the start: one stored as stale keeps the token of the existing
    /// item too.
    pub(crate) fn pending_spec(&self, value_len: usize) -> ItemSpec {
        let spec = self.spec(value_len);
        ItemSpec { cas: spec.cas.or(self.may_be_stale().then_some(0)), ..spec }
    }

    fn may_be_stale(&self) -> bool {
        matches!(self.older, Older::Stale(_)) || matches!(self.verb, Verb::Lease(_))
    }

    pub(crate) fn own_expiry(&self) -> Expiry {
        if self.is_join() { self.vivify.unwrap_or(Expiry::Never) } else { self.expiry }
    }

    /// Who names a cas unique or a token sees the hidden item that it belongs to.
    pub(crate) fn sight(&self) -> Sight {
        if matches!(self.verb, Verb::Cas(_) | Verb::Lease(_)) { Sight::Hidden } else { Sight::Plain }
    }

    pub(crate) fn is_join(&self) -> bool {
        matches!(self.verb, Verb::Append | Verb::Prepend)
    }

    /// The item that a set stores.
    pub(crate) fn item<'d>(&self, value: Value<'d>) -> NewItem<'d> {
        NewItem { flags: self.flags, expiry: self.expiry, cas: self.cas, state: self.state, value }
    }

    fn put<'d>(&self, value: Value<'d>, state: ItemState, expiry: Expiry) -> Decision<'d> {
        Decision::Put(NewItem { flags: self.flags, expiry, cas: self.cas, state, value })
    }

    /// Replaces a stale value by another that may be stale: whoever has the token keeps it.
    fn put_stale<'d>(&self, value: Value<'d>, meta: &Meta) -> Decision<'d> {
        let (flags, expiry, cas, state) = (self.flags, meta.expiry, meta.cas, meta.state);
        Decision::Put(NewItem { flags, expiry, cas, state, value })
    }

    /// Whether `wanted` is an older cas unique of the item, which now has `unique`, and the mode accepts that.
    fn is_older(&self, wanted: u64, unique: Option<u64>) -> bool {
        match self.older {
            Older::Exists => false,
            Older::Stale(next) => wanted != 0 && wanted < unique.unwrap_or(next),
        }
    }

    /// Decides on the item, and on the reply. `bytes` is the data block, if it arrived in one piece.
    pub(crate) fn decide<'d>(
        &self,
        item: Option<&dyn ItemView>,
        vacancy: Vacancy,
        value: Value<'d>,
        length: usize,
    ) -> (Decision<'d>, Stored) {
        let put = || (self.put(value, self.state, self.own_expiry()), Stored::Yes(length));
        match (self.verb, item) {
            (Verb::Add | Verb::Append | Verb::Prepend, None) if vacancy == Vacancy::HeldOff => {
                (Decision::Keep, Stored::Unmet)
            }
            (Verb::Set, _) | (Verb::Add, None) | (Verb::Replace, Some(_)) => put(),
            (Verb::Add, Some(_)) | (Verb::Replace, None) => (Decision::Keep, Stored::Unmet),
            (Verb::Cas(_), None) => (Decision::Keep, Stored::NotFound),
            (Verb::Cas(wanted), Some(item)) => match item.cas() {
                Some(unique) if unique == wanted => put(),
                unique if self.is_older(wanted, unique) => {
                    let meta = item.meta();
                    let kept = ItemState::TOKEN_SENT.with(ItemState::HIDDEN);
                    let state = ItemState(meta.state.0 & kept.0).with(ItemState::STALE);
                    // Whoever is to fill a hidden item keeps its token, unless the item is given another unique.
                    let kept = meta.cas.filter(|_| meta.state.has(ItemState::HIDDEN));
                    let request = Request { cas: self.cas.or(kept), ..*self };
                    (request.put(value, self.state.with(state), meta.expiry), Stored::Yes(length))
                }
                _ if item.state().has(ItemState::HIDDEN) => (Decision::Keep, Stored::NotFound),
                _ => (Decision::Keep, Stored::Exists),
            },
            (Verb::Lease(_), None) if is_planted("void-lease-accepted") => put(),
            (Verb::Lease(_), None) => (Decision::Keep, Stored::Unmet),
            (Verb::Lease(token), Some(item)) => {
                let meta = item.meta();
                let is_in_force = meta.state.has(ItemState::TOKEN_SENT) && meta.cas == Some(token);
                if is_in_force || is_planted("void-lease-accepted") {
                    put()
                } else if meta.state.has(ItemState::STALE) {
                    (self.put_stale(value, &meta), Stored::Stale(length))
                } else {
                    sometimes("void-lease-refused");
                    (Decision::Keep, Stored::Unmet)
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use guira_protocol::{Exptime, Noreply};

    #[test]
    fn only_a_set_may_cost_the_item_that_is_there() {
        let old = |verb| {
            let exptime = Exptime::default();
            let store = Store { verb, key: b"k", flags: 0, exptime, length: 1, noreply: Noreply::No };
            Request::of(&store, Expiry::Never).spec(1).old
        };
        assert_eq!(old(Verb::Set), OldItem::MayGo);
        let others = [Verb::Add, Verb::Replace, Verb::Append, Verb::Prepend, Verb::Cas(1), Verb::Lease(1)];
        assert_eq!(others.map(old), [OldItem::Stays; 6]);
    }
}
