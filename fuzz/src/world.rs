//! A cache beside a map that says what it may hold.

use guira_contract::suite::value_of;
use guira_contract::{
    Amendment, Decision, Digits, Engine, Expiry, ItemSpec, ItemState, ItemView, Key, Meta, NewItem, OldItem,
    Pace, PendingValue, Provision, Read, Recency, Session, Sink, StoreError, Value, ValuePin, Want,
};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

/// The facts that only stores and amendments change.
pub(crate) const FACTS: u8 = ItemState::STALE.0 | ItemState::TOKEN_SENT.0 | ItemState::BINARY_KEY.0;

/// So many values are pinned at most.
const PINS_MAX: usize = 4;

/// Rounds of upkeep in which any table here has grown.
const GROWTH_ROUNDS_MAX: u32 = 4096;

/// Numbers are written over values up to this long.
const NUMBER_MAX: usize = 20;

/// An item as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modelled {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    pub(crate) expiry: Expiry,
    pub(crate) cas: Option<u64>,
    pub(crate) facts: u8,
}

impl Modelled {
    /// What of an item's metadata must be as it was stored.
    fn check(&self, meta: &Meta) {
        assert_eq!(
            (meta.value_len, meta.flags, meta.expiry, meta.cas, meta.state.0 & FACTS),
            (self.value.len(), self.flags, self.expiry, self.cas, self.facts)
        );
    }
}

type Pin<E> = <<E as Engine>::Session as Session>::Pin;
type Pending<E> = <<E as Engine>::Session as Session>::Pending;
type Guess<E> = <<E as Engine>::Session as Session>::Guess;

/// The cache and the map.
pub(crate) struct World<E: Engine> {
    engine: E,
    sessions: [E::Session; 2],
    active: usize,
    model: HashMap<u32, Modelled>,
    /// What was guessed of keys when something was last done with them.
    guesses: HashMap<u32, Guess<E>>,
    pins: Vec<(Pin<E>, Vec<u8>)>,
    now: Seconds,
    flush_due: Option<Seconds>,
    /// Items that were there no more, and had neither been removed nor flushed nor expired.
    lost: u64,
    stored: u64,
}

/// The key of a number; some are as long as keys can be.
fn name(key: u32) -> Vec<u8> {
    let mut name = format!("key-{key}").into_bytes();
    if key % 8 == 7 {
        name.resize(250, b'.');
    }
    name
}

impl<E: Engine> World<E> {
    pub(crate) fn new(engine: E) -> Self {
        let mut sessions = [engine.session(), engine.session()];
        sessions[1].offline();
        let (model, guesses, pins) = (HashMap::new(), HashMap::new(), Vec::new());
        let now = Seconds(1000);
        World { engine, sessions, active: 0, model, guesses, pins, now, flush_due: None, lost: 0, stored: 0 }
    }

    /// How often something was stored.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// A time so many seconds from now; 0 is now.
    pub(crate) fn expiry(&self, lives: Option<u8>) -> Expiry {
        lives.map_or(Expiry::Never, |lives| Expiry::At(Seconds(self.now.0 + u32::from(lives))))
    }

    fn session(&mut self) -> &mut E::Session {
        &mut self.sessions[self.active]
    }

    fn live(&self, key: u32) -> Option<&Modelled> {
        self.model.get(&key).filter(|item| !item.expiry.passed(self.now))
    }

    /// A key that should be there is not: it must have been evicted, and must not come back.
    fn lose(&mut self, key: u32) {
        self.model.remove(&key);
        self.lost += 1;
        let evictions = self.engine.stats().evictions;
        assert!(self.lost <= evictions, "{} items were lost, {evictions} evicted", self.lost);
    }

    /// One update; what `decide` is shown must be what the map holds. Tells whether there was an item.
    fn update<'d>(
        &mut self,
        key: u32,
        provision: Provision<Pending<E>>,
        mut decide: impl FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    ) -> Result<bool, StoreError> {
        let (name, now) = (name(key), self.now);
        let expected = self.live(key).cloned();
        let session = &mut self.sessions[self.active];
        let mut seen = false;
        let shown = Key { bytes: &name, hash: session.hash(&name) };
        let guess = session.prefetch_item(shown.hash);
        let older = self.guesses.insert(key, guess).unwrap_or(guess);
        let result = session.update(shown, older, now, provision, |item| {
            seen = item.is_some();
            if let Some(item) = item {
                let Some(expected) = &expected else { panic!("key {key} came back") };
                expected.check(&item.meta());
                let mut value = vec![0; expected.value.len().min(64)];
                item.copy_value(0, &mut value);
                assert_eq!(value, expected.value[..value.len()], "key {key} has another value");
            }
            decide(item)
        });
        if expected.is_some() && !seen && result.is_ok() {
            self.lose(key);
        }
        result.map(|()| seen)
    }

    /// Stores an item; `told` says whether the engine knows its spec beforehand.
    pub(crate) fn store(&mut self, key: u32, item: Modelled, told: bool) {
        self.stored += 1;
        let Modelled { flags, expiry, cas, .. } = item;
        let state = ItemState(item.facts);
        let mut new = NewItem { flags, expiry, cas, state, value: Value::Bytes(&item.value) };
        let spec = ItemSpec::of(&new, item.value.len());
        let provision = if item.value.len() > self.session().inline_max() {
            let Ok(mut pending) = self.session().begin_value(&name(key), spec) else { return };
            let session = self.session();
            if !item.value.chunks(10_007).all(|piece| session.extend(&mut pending, piece).is_ok()) {
                return;
            }
            new.value = Value::Pending;
            Provision::Pending(pending)
        } else if told {
            Provision::Item(spec)
        } else {
            Provision::None
        };
        if self.update(key, provision, |_| Decision::Put(new)).is_ok() {
            self.model.insert(key, item);
        }
    }

    pub(crate) fn remove(&mut self, key: u32) {
        self.update(key, Provision::None, |_| Decision::Remove).expect("nothing is needed");
        self.model.remove(&key);
    }

    /// Changes metadata, and writes `number` over a short value that has room for it.
    pub(crate) fn amend(&mut self, key: u32, change: Amendment, number: Option<Digits>) {
        let fits = |length| number.filter(|number| (number.as_bytes().len()..=NUMBER_MAX).contains(&length));
        let amended = self.update(key, Provision::None, |item| {
            Decision::Amend(Amendment { overwrite: item.and_then(|item| fits(item.value_len())), ..change })
        });
        let Some(item) = self.model.get_mut(&key).filter(|_| amended == Ok(true)) else { return };
        item.expiry = change.expiry.unwrap_or(item.expiry);
        item.cas = change.cas.or(item.cas);
        item.facts = (item.facts | change.set.0) & !change.clear.0;
        if let Some(number) = fits(item.value.len()) {
            item.value.fill(b' ');
            item.value[..number.as_bytes().len()].copy_from_slice(number.as_bytes());
        }
    }

    /// Puts bytes before and after the value of an item, if there is one.
    pub(crate) fn join(&mut self, key: u32, before: &[u8], after: &[u8]) {
        let joined = self.update(key, Provision::None, |item| match item.map(ItemView::meta) {
            None => Decision::Keep,
            Some(Meta { flags, expiry, cas, .. }) => {
                let value = Value::Joined { before, after };
                Decision::Put(NewItem { flags, expiry, cas, state: ItemState::NONE, value })
            }
        });
        if let Some(item) = self.model.get_mut(&key).filter(|_| joined == Ok(true)) {
            item.value = [before, &item.value, after].concat();
            item.facts = 0;
        }
    }

    /// Begins a value, sends half of it, and goes away.
    pub(crate) fn abandon(&mut self, key: u32, value: &[u8]) {
        let spec = ItemSpec {
            value_len: value.len(),
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            old: OldItem::MayGo,
        };
        if let Ok(mut pending) = self.session().begin_value(&name(key), spec) {
            if self.session().extend(&mut pending, &value[..value.len() / 2]).is_err() {
                return;
            }
            assert_eq!((pending.missing(), pending.value_len()), (value.len().div_ceil(2), value.len()));
        }
    }

    pub(crate) fn read(&mut self, key: u32) {
        let now = self.now;
        let found = value_of(self.session(), &name(key), now);
        match (found, self.live(key)) {
            (None, None) => {}
            (None, Some(_)) => self.lose(key),
            (Some(_), None) => panic!("key {key} came back"),
            (Some(found), Some(expected)) => {
                expected.check(&found.meta);
                assert!(found.value == expected.value, "key {key} has another value");
            }
        }
    }

    /// Pins a long value.
    pub(crate) fn pin(&mut self, key: u32) {
        let (name, now) = (name(key), self.now);
        let shown = Key { bytes: &name, hash: self.session().hash(&name) };
        let mut holder = Holder(None);
        let found = self.session().read(shown, Default::default(), now, &mut holder);
        if let (Read::Hit, Some(pin)) = (found, holder.0) {
            let value = self.live(key).expect("a key came back").value.clone();
            if self.pins.len() < PINS_MAX {
                self.pins.push((pin, value));
            } else {
                check_pin(pin, &value);
            }
        }
    }

    /// Lets a pinned value go.
    pub(crate) fn unpin(&mut self, index: usize) {
        if !self.pins.is_empty() {
            let (pin, value) = self.pins.swap_remove(index % self.pins.len());
            check_pin(pin, &value);
        }
    }

    /// Flushes after so many seconds; another flush that is due later is forgotten.
    pub(crate) fn flush(&mut self, delay: u32) {
        let at = Seconds(self.now.0 + delay);
        self.engine.flush(self.now, at);
        self.flush_due = (at > self.now).then_some(at);
        if delay == 0 {
            self.model.clear();
        }
    }

    pub(crate) fn advance(&mut self, seconds: u32) {
        self.now.0 += seconds;
        if self.flush_due.is_some_and(|due| due <= self.now) {
            self.flush_due = None;
            self.model.clear();
        }
    }

    pub(crate) fn maintain(&mut self, pace: Pace, budget: usize) {
        let now = self.now;
        self.session().maintain(now, pace, budget);
        self.session().quiesce();
    }

    /// The other session goes on.
    pub(crate) fn switch(&mut self) {
        self.session().offline();
        self.active ^= 1;
        self.session().online();
    }

    /// Reads everything, flushes everything, and looks for what was left behind.
    pub(crate) fn finish(mut self) {
        let mut keys: Vec<u32> = self.model.keys().copied().collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.read(key));
        for (pin, value) in std::mem::take(&mut self.pins) {
            check_pin(pin, &value);
        }
        self.flush(0);
        // Growth comes before the crawler, and takes a step for each bucket.
        for _ in 0..GROWTH_ROUNDS_MAX {
            if !self.engine.stats().index_growing {
                break;
            }
            self.maintain(Pace::Idle, 64);
        }
        for _ in 0..64 {
            self.maintain(Pace::Idle, 64);
            self.advance(31);
        }
        let World { engine, sessions, .. } = self;
        drop(sessions);
        let stats = engine.stats();
        assert_eq!((stats.items, stats.bytes), (0, 0), "{stats:?}");
        let used: u64 = stats.classes.iter().map(|class| class.used_chunks).sum();
        assert_eq!(used, 0, "{stats:?}");
        assert!(stats.memory_used <= stats.memory_limit, "{stats:?}");
    }
}

/// A pinned value is what it was when it was pinned.
fn check_pin(pin: impl ValuePin, expected: &[u8]) {
    assert_eq!(pin.value_len(), expected.len());
    let mut from = 0;
    while from < expected.len() {
        let piece = pin.piece(from);
        assert!(!piece.is_empty() && expected[from..].starts_with(piece), "a pinned value changed at {from}");
        from += piece.len();
    }
}

/// A sink that keeps a pin.
struct Holder<P>(Option<P>);

impl<P: ValuePin> Sink for Holder<P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Value
    }

    fn found<I: ItemView>(&mut self, _item: &I) {}

    fn undo(&mut self) {}

    fn recency(&self) -> Recency {
        Recency::Leave
    }

    fn pinned(&mut self, _meta: &Meta, pin: P) {
        self.0 = Some(pin);
    }
}
