//! What changes items, each time beside the map.

use super::model::Modelled;
use super::worker::{PendingOf, Worker, name};
use crate::{Amendment, Decision, Digits, Expiry, ItemState, ItemView, NewItem, Value};
use crate::{Engine, ItemSpec, Key, PendingValue, Provision, Session, StoreError};
use guira_sync::clock::Seconds;

/// The longest value.
const LENGTH_MAX: u64 = 60_000;

/// So much of a value an update shows at least: a number, and blanks behind it.
const SHOWN: usize = 256;

/// Facts that an item may have.
const FACTS: [ItemState; 4] = [ItemState::NONE, ItemState::STALE, ItemState::TOKEN_SENT, ItemState(22)];

/// When an item is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum If {
    /// If there is one.
    Found,
    /// If there is none.
    Missing,
}

pub(super) enum Done {
    /// What was asked for was done; whether there was an item.
    Yes { found: bool },
    /// There was no memory.
    Refused,
}

impl<E: Engine> Worker<'_, E> {
    /// One update. What `decide` is shown must be what the map holds.
    pub(super) fn update<'d>(
        &mut self,
        key: u32,
        provision: Provision<PendingOf<E>>,
        mut decide: impl FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    ) -> Done {
        let (name, now) = (name(key), self.now);
        let guess = self.guess(key, &name);
        let expected = self.model.live(key, now);
        let session = self.turns.active();
        let shown = Key { bytes: &name, hash: session.hash(&name) };
        let (mut found, mut wrong) = (false, None);
        let asked_for = match &provision {
            Provision::None => None,
            Provision::Item(spec) => Some(spec.value_len),
            Provision::Pending(pending) => Some(pending.value_len()),
        };
        let result = session.update(shown, guess, now, provision, |item| {
            found = item.is_some();
            if let Some(item) = item {
                wrong = match expected {
                    None => Some("it came back".to_owned()),
                    Some(expected) => expected.differs(&item.meta()).or_else(|| {
                        let mut value = vec![0; expected.value.len().min(SHOWN)];
                        item.copy_value(0, &mut value);
                        let at = (0..value.len()).find(|at| value[*at] != expected.value[*at]);
                        at.map(|at| {
                            format!(
                                "an update is shown another value, of {} bytes, from {at} on",
                                value.len()
                            )
                        })
                    }),
                };
            }
            decide(item)
        });
        let expected = expected.is_some();
        if let Some(what) = wrong {
            self.fail(key, &what);
        }
        match result {
            Ok(()) => {
                if expected && !found {
                    self.miss(key);
                }
                Done::Yes { found }
            }
            Err(StoreError::NoMemory) => {
                self.model.tally.refused += 1;
                Done::Refused
            }
            Err(StoreError::TooLarge) => {
                let length = asked_for.unwrap_or(usize::MAX);
                if length < LENGTH_MAX as usize / 2 {
                    self.fail(key, &format!("{length} bytes are too large"));
                }
                Done::Refused
            }
        }
    }

    fn some_expiry(&mut self) -> Expiry {
        match self.random.below(4) {
            0 => Expiry::At(Seconds(self.now.0 + self.random.below(4) as u32)),
            _ => Expiry::Never,
        }
    }

    fn some_cas(&mut self) -> Option<u64> {
        (self.random.below(4) == 0).then(|| self.session().next_cas())
    }

    fn some_value(&mut self, most: u64) -> Vec<u8> {
        let length = match self.random.below(100) {
            0..3 => 0,
            3..10 => self.random.below(20),
            10..92 => 20 + self.random.below(2_980),
            92..98 => self.random.below(20_000),
            _ => self.random.below(LENGTH_MAX),
        };
        let fill = self.random.below(u64::MAX >> 11);
        (0..length.min(most)).map(|at| (fill >> (at % 7 * 8)) as u8 ^ at as u8).collect()
    }

    pub(super) fn some_item(&mut self) -> Modelled {
        let flags = if self.random.below(2) == 0 { 0 } else { self.random.below(1 << 32) as u32 };
        let facts = FACTS[self.random.below(FACTS.len() as u64) as usize];
        let value = self.some_value(LENGTH_MAX);
        Modelled { value, flags, expiry: self.some_expiry(), cas: self.some_cas(), facts }
    }

    /// An item was put, in place of one that was there if `found`.
    pub(super) fn put_was_done(&mut self, key: u32, item: Modelled, found: bool) {
        self.model.tally.stored += 1;
        self.model.tally.replaced += u64::from(found);
        self.model.insert(key, item);
    }

    /// Stores an item whatever there is.
    pub(super) fn store(&mut self, key: u32) {
        let item = self.some_item();
        let mut new = new_item(&item, Value::Bytes(&item.value));
        let spec = ItemSpec::of(&new, item.value.len());
        let in_pieces = self.random.below(8) == 0;
        let provision = if in_pieces || item.value.len() > self.session().inline_max() {
            let Some(mut pending) = self.begin_value(key, spec) else { return };
            let session = self.turns.active();
            if !item.value.chunks(10_007).all(|piece| session.extend(&mut pending, piece).is_ok()) {
                self.model.tally.refused += 1;
                return;
            }
            new.value = Value::Pending;
            Provision::Pending(pending)
        } else if self.random.below(4) > 0 {
            Provision::Item(spec)
        } else {
            Provision::None
        };
        if let Done::Yes { found } = self.update(key, provision, |_| Decision::Put(new)) {
            self.put_was_done(key, item, found);
        }
    }

    pub(super) fn begin_value(&mut self, key: u32, spec: ItemSpec) -> Option<PendingOf<E>> {
        match self.session().begin_value(&name(key), spec) {
            Ok(pending) => Some(pending),
            Err(refusal) => {
                assert!(refusal == StoreError::NoMemory || !self.session().fits(250, &spec), "{spec:?}");
                self.model.tally.refused += 1;
                None
            }
        }
    }

    /// Stores an item if there is one, or if there is none.
    pub(super) fn store_if(&mut self, key: u32, when: If) {
        let mut item = self.some_item();
        let most = self.session().inline_max();
        item.value.truncate(most);
        let new = new_item(&item, Value::Bytes(&item.value));
        let spec = ItemSpec::of(&new, item.value.len());
        let there = when == If::Found;
        let decide = |old: Option<&dyn ItemView>| {
            if old.is_some() == there { Decision::Put(new) } else { Decision::Keep }
        };
        match self.update(key, Provision::Item(spec), decide) {
            Done::Yes { found } if found == there => self.put_was_done(key, item, found),
            _ => {}
        }
    }

    /// Puts bytes before and after the value of an item, if there is one.
    pub(super) fn join(&mut self, key: u32) {
        if self.model.live(key, self.now).is_some_and(|item| item.value.len() > LENGTH_MAX as usize) {
            return;
        }
        let (before, after) = (self.some_value(2_000), self.some_value(2_000));
        let cas = self.some_cas();
        let done = self.update(key, Provision::None, |item| match item.map(ItemView::meta) {
            None => Decision::Keep,
            Some(meta) => {
                let value = Value::Joined { before: &before, after: &after };
                let state = ItemState::NONE;
                Decision::Put(NewItem { flags: meta.flags, expiry: meta.expiry, cas, state, value })
            }
        });
        let Done::Yes { found: true } = done else { return };
        let now = self.now;
        if let Some(item) = self.model.live_mut(key, now) {
            item.value = [&before[..], &item.value, &after].concat();
            (item.cas, item.facts) = (cas, ItemState::NONE);
        }
        self.model.tally.stored += 1;
        self.model.tally.replaced += 1;
    }

    /// Changes an item's time, cas unique or facts.
    pub(super) fn amend(&mut self, key: u32) {
        let mut change = Amendment::default();
        match self.random.below(4) {
            0 | 1 => change.expiry = Some(self.some_expiry()),
            2 => change.cas = Some(self.session().next_cas()),
            _ => {
                change.set = FACTS[self.random.below(FACTS.len() as u64) as usize];
                change.clear = ItemState(FACTS[3].0 & !change.set.0);
            }
        }
        self.amend_by(key, change, None);
    }

    /// Writes a number over the value of an item, or stores one that is longer.
    pub(super) fn count(&mut self, key: u32) {
        let length = self.random.below(64);
        let digits = Digits::of(self.random.below(u64::MAX >> 11) << 11 >> length);
        if self.random.below(3) > 0 {
            return self.amend_by(key, Amendment::default(), Some(digits));
        }
        let item = Modelled { value: digits.as_bytes().to_vec(), ..self.some_item() };
        let new = new_item(&item, Value::Digits(digits));
        if let Done::Yes { found } = self.update(key, Provision::None, |_| Decision::Put(new)) {
            self.put_was_done(key, item, found);
        }
    }

    fn amend_by(&mut self, key: u32, change: Amendment, digits: Option<Digits>) {
        let fits = |length: usize| digits.filter(|digits| digits.as_bytes().len() <= length);
        let done = self.update(key, Provision::None, |item| {
            let overwrite = item.and_then(|item| fits(item.value_len()));
            Decision::Amend(Amendment { overwrite, ..change })
        });
        let Done::Yes { found: true } = done else { return };
        let now = self.now;
        let Some(item) = self.model.live_mut(key, now) else { return };
        item.expiry = change.expiry.unwrap_or(item.expiry);
        item.cas = change.cas.or(item.cas);
        item.facts = item.facts.with(change.set).without(change.clear);
        if let Some(digits) = fits(item.value.len()) {
            item.value.fill(b' ');
            item.value[..digits.as_bytes().len()].copy_from_slice(digits.as_bytes());
        }
    }

    pub(super) fn remove(&mut self, key: u32) {
        match self.update(key, Provision::None, |_| Decision::Remove) {
            Done::Yes { found } => self.model.tally.removed += u64::from(found),
            Done::Refused => self.fail(key, "a removal is refused"),
        }
        self.model.remove(key);
    }
}

pub(super) fn new_item<'v>(item: &Modelled, value: Value<'v>) -> NewItem<'v> {
    NewItem { flags: item.flags, expiry: item.expiry, cas: item.cas, state: item.facts, value }
}
