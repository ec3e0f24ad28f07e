//! One thread's access to an engine.

use crate::item::{Decision, Expiry, ItemView, Meta, NewItem, Value};
use crate::sink::Sink;
use guira_memory::ValuePin;
use guira_sync::clock::Seconds;
use std::fmt::Debug;

/// The hash of a key. Seeded, except where clients hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHash(pub u64);

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// 1 to 250 bytes.
    pub bytes: &'k [u8],
    /// [`Session::hash`] of them.
    pub hash: KeyHash,
}

/// Why a read found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissKind {
    /// The key was never stored, or its item was deleted or evicted.
    Absent,
    /// The item has expired.
    Expired,
    /// The item was flushed.
    Flushed,
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The sink holds the item.
    Hit,
    /// There is no item.
    Miss(MissKind),
}

/// Why an item cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The item is larger than the largest that is allowed.
    #[error("object too large for cache")]
    TooLarge,
    /// The engine found no memory for it.
    #[error("out of memory storing object")]
    NoMemory,
}

/// A long value that is arriving in pieces, in the engine's memory.
pub trait PendingValue: Debug + Send {
    /// Bytes that have still to arrive.
    fn missing(&self) -> usize;

    /// Length of the whole value, in bytes.
    fn value_len(&self) -> usize;

    /// Appends the bytes that have arrived to `bytes`: what is joined to another value is never an item itself.
    fn append_to(&self, bytes: &mut Vec<u8>);
}

/// What a new item needs. The engine finds memory for it before it locks anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemSpec {
    /// Length of the value, in bytes.
    pub value_len: usize,
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// The cas unique that it will have, if any.
    pub cas: Option<u64>,
    /// What may become of the item that is there.
    pub old: OldItem,
}

/// What may become of the item under the key while memory is found for a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldItem {
    /// It may be evicted like any other: the command stores whatever is there.
    #[default]
    MayGo,
    /// It stays: what the command does depends on it.
    Stays,
}

impl ItemSpec {
    /// What `item` needs with a value of `value_len` bytes.
    pub fn of(item: &NewItem<'_>, value_len: usize) -> Self {
        ItemSpec { value_len, flags: item.flags, expiry: item.expiry, cas: item.cas, old: OldItem::MayGo }
    }
}

/// The memory that an update starts with.
#[derive(Debug)]
pub enum Provision<P> {
    /// None. If the decision needs memory, the engine finds it then.
    None,
    /// The decision will probably be to store an item like this: the engine finds memory for it first.
    Item(ItemSpec),
    /// The value has arrived in pieces: [`crate::Value::Pending`] in the decision. It is dropped if the decision is another.
    Pending(P),
}

impl<P> Provision<P> {
    /// That of an update that will store `new`, whatever it finds.
    pub fn of(new: &NewItem<'_>) -> Self {
        match new.value {
            Value::Bytes(value) => Provision::Item(ItemSpec::of(new, value.len())),
            Value::Digits(_) | Value::Pending | Value::Joined { .. } => Provision::None,
        }
    }
}

/// Whether an engine may lose items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lossiness {
    /// A cache: it may lose any item.
    Cache,
    /// A store: it refuses what it cannot take, and keeps what it has.
    Store,
}

/// Whether a thread has requests to serve, and so what it maintains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Requests are waiting: what other work waits for, and nothing of the crawler's.
    Busy,
    /// Requests are waiting, and it is the crawler's turn: its work alone. A step looks at some tens of items, which takes some ten microseconds.
    Crawl,
    /// There is nothing else to do: everything.
    Idle,
}

/// An item that a walk has found. All of this was true together, at some moment of the walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkedItem<'w> {
    /// Its key.
    pub key: &'w [u8],
    /// Everything else but its value.
    pub meta: Meta,
}

/// How a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// There are more items.
    More,
    /// Another thread has to do something first: try again soon.
    Waiting,
    /// All items were shown.
    Done,
    /// So many items were stored meanwhile that the walk has lost track. It is over.
    Overrun,
}

/// One thread's access to an engine.
pub trait Session {
    /// A pinned value.
    type Pin: ValuePin + 'static;
    /// A value that is arriving in pieces.
    type Pending: PendingValue + 'static;
    /// What prefetching has learnt of a key. It is good for that key only. An outdated one, or the default, is slower and never wrong.
    type Guess: Copy + Debug + Default;
    /// A walk over all items.
    type Walk: Debug + Send;

    /// How often [`Session::prefetch_next`] is worth calling.
    const PREFETCH_STEPS: usize = 0;

    /// Whether the engine takes the hash that a client sends with a key as it is (MICA, section 4.2). A client that lies stores a copy of its own, which
    /// only the same lie finds. Other engines hash the key themselves.
    const CLIENT_HASHES: bool = false;

    /// Whether items may be lost. After a refused store, the command layer of a cache removes the old item, so that no client reads what is older than the
    /// refused value; in a store the old item stays.
    fn lossiness(&self) -> Lossiness;

    /// The hash of a key.
    fn hash(&self, key: &[u8]) -> KeyHash;

    /// First stage of prefetching: asks for the key's buckets.
    fn prefetch_buckets(&self, hash: KeyHash);

    /// Second stage, some time later: asks for the item that the buckets lead to.
    fn prefetch_item(&self, hash: KeyHash) -> Self::Guess;

    /// Further stages, where an item may lie behind others: asks for the next one.
    #[inline(always)]
    fn prefetch_next(&self, guess: Self::Guess) -> Self::Guess {
        guess
    }

    /// Reads a key. `guess` comes from an earlier [`Session::prefetch_item`], or is the default.
    fn read<S: Sink<Pin = Self::Pin>>(
        &mut self,
        key: Key<'_>,
        guess: Self::Guess,
        now: Seconds,
        sink: &mut S,
    ) -> Read;

    /// One atomic read-modify-write of a key. `decide` sees the item, or none, and says what to do. It may run several times, the last run counts, and it
    /// must not call the engine. `guess` is as for [`Session::read`].
    ///
    /// # Errors
    /// If the engine needs memory and finds none, or the item would be too large; then nothing has changed.
    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        guess: Self::Guess,
        now: Seconds,
        provision: Provision<Self::Pending>,
        decide: F,
    ) -> Result<(), StoreError>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>;

    /// Stores an item, whatever is there: an update that needs not see the item, and may be faster for it. `guess` is as for [`Session::read`].
    ///
    /// # Errors
    /// As for [`Session::update`].
    #[inline]
    fn put(
        &mut self,
        key: Key<'_>,
        guess: Self::Guess,
        now: Seconds,
        new: &NewItem<'_>,
    ) -> Result<(), StoreError> {
        self.update(key, guess, now, Provision::of(new), |_| Decision::Put(*new))
    }

    /// Begins a value that arrives in pieces.
    ///
    /// # Errors
    /// If the item would be too large, or there is no memory.
    fn begin_value(&mut self, key: &[u8], spec: ItemSpec) -> Result<Self::Pending, StoreError>;

    /// Appends bytes to a value. The engine takes memory as they arrive, so that a client that announces a value and does not send it holds little.
    ///
    /// # Errors
    /// If there is no memory; then `pending` can only be dropped.
    ///
    /// # Panics
    /// If `bytes` are more than are missing.
    fn extend(&mut self, pending: &mut Self::Pending, bytes: &[u8]) -> Result<(), StoreError>;

    /// The longest value that [`crate::Value::Bytes`] should have, in bytes: a longer one is copied once more, and arrives better as a pending value.
    fn inline_max(&self) -> usize;

    /// Whether such an item may be stored at all.
    fn fits(&self, key_len: usize, spec: &ItemSpec) -> bool;

    /// A cas unique that no item has yet.
    fn next_cas(&mut self) -> u64;

    /// Marks the end of a batch: a quiescent point, at which the thread holds nothing that it has found.
    fn quiesce(&mut self);

    /// The thread is going to wait for input.
    fn offline(&mut self);

    /// The thread goes back to work.
    fn online(&mut self);

    /// Gives back the memory that the session keeps for itself. Called when the thread has had nothing to do for a while and may sleep for long.
    fn release_caches(&mut self);

    /// Does up to `budget` small steps of maintenance: growth, expiry, pages that change their class. Returns how many were done; fewer than `budget`
    /// means that nothing is left to do for now.
    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize;

    /// Begins a walk over all items, unless one is under way: then `None`. It ends when it is dropped.
    fn begin_walk(&mut self) -> Option<Self::Walk>;

    /// Goes on with a walk for a moment, showing items to `see`. A key that is stored from the beginning of the walk to its end is shown once, or twice
    /// if it was stored again meanwhile. Other keys may be shown or not.
    ///
    /// Between two calls the session should pass a quiescent point, or go offline if the walk has to wait.
    fn walk(&mut self, walk: &mut Self::Walk, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked;
}
