//! A sink that copies what it is given, one that keeps a pin, and short forms of the common operations.

use crate::{Decision, Expiry, ItemView, Meta, NewItem, Provision, Recency, Value};
use crate::{ItemSpec, Key, Pace, PendingValue, Read, Session, Sink, StoreError, ValuePin, Want};
use guira_sync::clock::Seconds;
use std::marker::PhantomData;

/// An item that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its metadata.
    pub meta: Meta,
    /// Its value.
    pub value: Vec<u8>,
}

/// A sink for one item.
#[derive(Debug)]
pub struct CopySink<P> {
    /// What was found.
    pub item: Option<Copied>,
    /// How often it was taken back.
    pub undone: usize,
    recency: Recency,
    pin: PhantomData<P>,
}

impl<P> Default for CopySink<P> {
    fn default() -> Self {
        CopySink { item: None, undone: 0, recency: Recency::Bump, pin: PhantomData }
    }
}

impl<P: ValuePin> Sink for CopySink<P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Value
    }

    fn found<I: ItemView>(&mut self, item: &I) {
        let mut value = vec![0; item.value_len()];
        item.copy_value(0, &mut value);
        self.item = Some(Copied { meta: item.meta(), value });
    }

    fn undo(&mut self) {
        self.item = None;
        self.undone += 1;
    }

    fn recency(&self) -> Recency {
        self.recency
    }

    fn pinned(&mut self, meta: &Meta, pin: P) {
        let mut value = Vec::new();
        while value.len() < pin.value_len() {
            let piece = pin.piece(value.len());
            assert!(!piece.is_empty(), "a piece has at least one byte");
            value.extend_from_slice(piece);
        }
        self.item = Some(Copied { meta: *meta, value });
    }
}

/// What a session may learn of a key ahead of working on it.
pub(super) fn guess_of<S: Session>(session: &S, key: &[u8]) -> S::Guess {
    let hash = session.hash(key);
    session.prefetch_buckets(hash);
    (0..S::PREFETCH_STEPS).fold(session.prefetch_item(hash), |guess, _| session.prefetch_next(guess))
}

/// What is stored under `key`.
pub fn value_of<S: Session>(session: &mut S, key: &[u8], now: Seconds) -> Option<Copied> {
    let guess = guess_of(session, key);
    value_with(session, key, guess, Recency::Bump, now)
}

/// The same, guessed a while ago, by a read that counts or not.
pub(super) fn value_with<S: Session>(
    session: &mut S,
    key: &[u8],
    guess: S::Guess,
    recency: Recency,
    now: Seconds,
) -> Option<Copied> {
    let mut sink = CopySink { recency, ..CopySink::default() };
    let hash = session.hash(key);
    match session.read(Key { bytes: key, hash }, guess, now, &mut sink) {
        Read::Hit => Some(sink.item.expect("a hit leaves something in the sink")),
        Read::Miss(_) => {
            assert_eq!(sink.item, None, "a miss leaves nothing in the sink");
            None
        }
    }
}

/// Whether a read of `key` hits. It counts, as that of [`value_of`] does, and copies nothing: a long value is pinned for a moment.
pub fn hits<S: Session>(session: &mut S, key: &[u8], now: Seconds) -> bool {
    let guess = guess_of(session, key);
    let key = Key { bytes: key, hash: session.hash(key) };
    let mut keeper = PinKeeper { pin: None, recency: Recency::Bump };
    session.read(key, guess, now, &mut keeper) == Read::Hit
}

/// What is stored beside key and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) flags: u32,
    /// When it expires.
    pub(super) expiry: Expiry,
}

static SEVENS: [u8; 1 << 20] = [7; 1 << 20];

/// A value of this length whose bytes do not matter.
#[must_use]
pub fn sevens(length: usize) -> &'static [u8] {
    &SEVENS[..length]
}

/// Stores a value, in pieces if it is long.
///
/// # Errors
/// As [`Session::update`] and [`Session::pending value`].
pub fn store<S: Session>(
    session: &mut S,
    key: &[u8],
    value: &[u8],
    flags: u32,
    expiry: Expiry,
    now: Seconds,
) -> Result<(), StoreError> {
    let guess = guess_of(session, key);
    store_with(session, key, guess, value, Told { flags, expiry }, now)
}

/// The same, guessed a while ago.
///
/// # Errors
/// As [`store`].
pub(super) fn store_with<S: Session>(
    session: &mut S,
    key: &[u8],
    guess: S::Guess,
    value: &[u8],
    told: Told,
    now: Seconds,
) -> Result<(), StoreError> {
    let hash = session.hash(key);
    let key = Key { bytes: key, hash };
    let Told { flags, expiry } = told;
    let mut new = NewItem { flags, expiry, cas: None, state: Default::default(), value: Value::Bytes(value) };
    let spec = ItemSpec::of(&new, value.len());
    if value.len() <= session.inline_max() {
        return session.put(key, guess, now, &new);
    }
    let mut pending = session.begin_value(key.bytes, spec)?;
    for piece in value.chunks(10_007) {
        session.extend(&mut pending, piece)?;
    }
    assert_eq!(pending.missing(), 0);
    new.value = Value::Pending;
    session.update(key, guess, now, Provision::Pending(pending), |_| Decision::Put(new))
}

/// Removes what is stored under `key`, if there is anything.
///
/// # Panics
/// If the engine refuses to.
pub fn remove<S: Session>(session: &mut S, key: &[u8], now: Seconds) {
    let key = Key { bytes: key, hash: session.hash(key) };
    session
        .update(key, Default::default(), now, Provision::None, |_| Decision::Remove)
        .expect("it can be removed");
}

/// Does the maintenance that there is to do at `now`.
///
/// # Panics
/// If it does not end.
pub fn settle<S: Session>(session: &mut S, now: Seconds) {
    let mut idle = 0;
    for _ in 0..200_000 {
        session.quiesce();
        let done = session.maintain(now, Pace::Idle, 64);
        idle = if done == 0 { idle + 1 } else { 0 };
        if idle == 2 {
            return;
        }
    }
    panic!("there is always something left to do");
}

/// A sink that keeps the pin of a long value, as a connection does that sends it.
struct PinKeeper<P> {
    pin: Option<P>,
    recency: Recency,
}

impl<P: ValuePin> Sink for PinKeeper<P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Value
    }

    fn found<I: ItemView>(&mut self, _item: &I) {}

    fn undo(&mut self) {}

    fn recency(&self) -> Recency {
        self.recency
    }

    fn pinned(&mut self, _meta: &Meta, pin: P) {
        self.pin = Some(pin);
    }
}

/// Pins the value under `key`, if it is long, by a read that counts or not.
pub fn pin_of<S: Session>(session: &mut S, key: &[u8], recency: Recency, now: Seconds) -> Option<S::Pin> {
    let key = Key { bytes: key, hash: session.hash(key) };
    let mut keeper = PinKeeper { pin: None, recency };
    let found = session.read(key, Default::default(), now, &mut keeper);
    keeper.pin.filter(|_| found == Read::Hit)
}
