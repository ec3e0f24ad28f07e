//! Engines and their sessions.

use crate::item::{Decision, Expiry, ItemView, Meta, NewItem, Recency};
use crate::lasting::CloseError;
use crate::spec::Spec;
use crate::stats::{EngineStats, OptionError};
use guira_sync::clock::Seconds;
use std::fmt::Debug;
use std::sync::Arc;

/// The seeded hash of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHash(pub u64);

/// A key with its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// 1 to 250 bytes.
    pub bytes: &'k [u8],
    /// What [`Session::hash`] says of them.
    pub hash: KeyHash,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissKind {
    /// It was never there, was deleted, or was evicted.
    Absent,
    /// It was there and has expired.
    Expired,
    /// It was there and was flushed.
    Flushed,
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The sink holds the item.
    Hit,
    /// There is none.
    Miss(MissKind),
}

/// Why something cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The item is larger than the largest that is allowed.
    #[error("object too large for cache")]
    TooLarge,
    /// No memory could be found for it.
    #[error("out of memory storing object")]
    NoMemory,
}

/// Why the memory of an engine cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// It would not hold what it must.
    #[error("{memory} bytes are too little: at least {least} are needed")]
    TooSmall {
        /// What was asked for.
        memory: usize,
        /// What is needed.
        least: usize,
    },
    /// More was not reserved when the engine was opened.
    #[error("{memory} bytes are too much: {most} were reserved when the cache was started")]
    TooBig {
        /// What was asked for.
        memory: usize,
        /// What there can be.
        most: usize,
    },
    /// The file system on which it lasts is too full.
    #[error("there is room for {room} bytes only where the cache is kept")]
    NoRoom {
        /// How much there could be.
        room: u64,
    },
}

/// What a sink wants of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The value.
    Value,
    /// Metadata only.
    Meta,
}

/// Where a read puts what it finds.
pub trait Sink {
    /// How a long value is held while it is being sent.
    type Pin: ValuePin;

    /// What it wants of the value. A long one is pinned only if it is wanted.
    fn wants(&self) -> Want;

    /// An item was found. What is written now may have to be taken back: see [`Sink::undo`].
    fn found<I: ItemView>(&mut self, item: &I);

    /// The item last found was changed while it was read: what it left in the sink is worth nothing.
    fn undo(&mut self);

    /// Whether the read counts, asked after the item was found.
    fn recency(&self) -> Recency;

    /// An item with a long value was found, and the value is pinned. This is not taken back.
    fn pinned(&mut self, meta: &Meta, pin: Self::Pin);
}

/// A long value that stays where it is until this is dropped.
pub trait ValuePin: Debug + Send {
    /// Length of the value, in bytes.
    fn value_len(&self) -> usize;

    /// Bytes of the value from `from` on: as many as lie next to each other, at least one if `from < value_len()`.
    fn piece(&self, from: usize) -> &[u8];
}

/// Room for a long value that arrives in pieces.
pub trait ValueDraft: Debug + Send {
    /// How much has still to arrive.
    fn missing(&self) -> usize;

    /// How long the value will be.
    fn value_len(&self) -> usize;
}

/// What a new item will take, so that memory can be found before anything is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Length of the value, in bytes.
    pub value_len: usize,
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// Whether it is to have a cas unique, and which.
    pub cas: Option<u64>,
}

impl Room {
    /// The room that `item` takes with a value of `value_len` bytes.
    pub fn of(item: &NewItem<'_>, value_len: usize) -> Self {
        Room { value_len, flags: item.flags, expiry: item.expiry, cas: item.cas }
    }
}

/// Whether an engine may lose what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Losses {
    /// It is a cache.
    Allowed,
    /// It is a store: what it cannot take it refuses, and what is there stays.
    Never,
}

/// Whether a thread has anything better to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Requests are waiting: do only what other work waits for, and a little of the rest.
    Busy,
    /// Nothing else is to be done.
    Idle,
}

/// An item that a walk has come to. What it shows is true together, at some moment of the walk.
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
    /// There is more to see.
    More,
    /// Somebody else has to do something first: try again soon.
    Waiting,
    /// Everything was seen.
    Done,
    /// So much was stored meanwhile, and the walk was so slow, that it has lost track. It is over.
    Overrun,
}

/// One thread's access to an engine.
pub trait Session {
    /// A pinned value.
    type Pin: ValuePin + 'static;
    /// Room for a value that arrives in pieces.
    type Draft: ValueDraft + 'static;
    /// What [`Session::prefetch_item`] has learnt of a key. It is good for that key only. To work with one that is out of date, or
    /// with [`Default`], is slower and never wrong.
    type Guess: Copy + Debug + Default;
    /// A walk over all items that is under way.
    type Walk: Debug + Send;

    /// Whether what is stored may be lost. In a cache an item that could not be replaced is removed, so that nobody reads what is older than what was
    /// refused; in a store it stays.
    fn losses(&self) -> Losses;

    /// The hash of a key.
    fn hash(&self, key: &[u8]) -> KeyHash;

    /// The hash of a key, if whoever asks for it has told one. An engine whose clients hash believes them: one that lies stores a copy of its
    /// own, which is found by the same lie only. All others do not look at it.
    #[inline(always)]
    fn hash_told(&self, key: &[u8], told: u64) -> KeyHash {
        let _ = told;
        self.hash(key)
    }

    /// First stage of prefetching: asks for the buckets of a key.
    fn prefetch_buckets(&self, hash: KeyHash);

    /// Second stage, some time after the first: asks for the item itself.
    fn prefetch_item(&self, hash: KeyHash) -> Self::Guess;

    /// How often [`Session::prefetch_next`] is worth calling.
    const PREFETCH_STEPS: usize = 0;

    /// Further stages of prefetching, some time after the one before, where an item may lie behind others: asks for what follows.
    #[inline(always)]
    fn prefetch_next(&self, guess: Self::Guess) -> Self::Guess {
        guess
    }

    /// Reads a key.
    #[inline(always)]
    fn read<S: Sink<Pin = Self::Pin>>(&mut self, key: Key<'_>, now: Seconds, sink: &mut S) -> Read {
        let guess = self.prefetch_item(key.hash);
        self.read_with(key, guess, now, sink)
    }

    /// Reads a key that [`Session::prefetch_item`] was called for, a while ago.
    fn read_with<S: Sink<Pin = Self::Pin>>(
        &mut self,
        key: Key<'_>,
        guess: Self::Guess,
        now: Seconds,
        sink: &mut S,
    ) -> Read;

    /// One atomic read-modify-write of a key. `decide` sees the item, or none, and says what to do; it may be called
    /// several times, the last call counts, and it must not call the engine. `room` tells what it will
    /// probably store; `draft` is what [`crate::Value::Draft`] stands for, and is dropped if that is not the decision.
    ///
    /// # Errors
    /// If memory is needed and not found, or the item would be too large; then nothing was changed.
    fn update<'d, F>(
        &mut self,
        key: Key<'_>,
        now: Seconds,
        room: Option<Room>,
        draft: Option<Self::Draft>,
        decide: F,
    ) -> Result<(), Refusal>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>;

    /// The same with a key that [`Session::prefetch_item`] was called for, a while ago.
    ///
    /// # Errors
    /// As [`Session::update`].
    #[inline(always)]
    fn update_with<'d, F>(
        &mut self,
        key: Key<'_>,
        guess: Self::Guess,
        now: Seconds,
        room: Option<Room>,
        draft: Option<Self::Draft>,
        decide: F,
    ) -> Result<(), Refusal>
    where
        F: FnMut(Option<&dyn ItemView>) -> Decision<'d>,
    {
        let _ = guess;
        self.update(key, now, room, draft, decide)
    }

    /// Room for a value that is too long to be handed over in one piece: see [`Session::inline_max`].
    ///
    /// # Errors
    /// If the item would be too large, or there is no memory.
    fn draft(&mut self, key: &[u8], room: Room) -> Result<Self::Draft, Refusal>;

    /// Appends bytes to what has arrived of a draft. Memory is taken as they come, so that whoever announces a value and does not send it
    /// keeps little of it from others.
    ///
    /// # Errors
    /// If there is no memory; then the draft is of no use any more.
    ///
    /// # Panics
    /// If more arrives than is missing.
    fn extend(&mut self, draft: &mut Self::Draft, bytes: &[u8]) -> Result<(), Refusal>;

    /// The longest value that [`crate::Value::Bytes`] may have.
    fn inline_max(&self) -> usize;

    /// Whether an item with this room may be stored at all.
    fn fits(&self, key_len: usize, room: &Room) -> bool;

    /// A cas unique that no item has yet.
    fn next_cas(&mut self) -> u64;

    /// The end of a batch: the thread holds nothing that it found.
    fn quiesce(&mut self);

    /// The thread is going to wait for input.
    fn offline(&mut self);

    /// The thread has had nothing to do for a while and may sleep for long: it keeps no memory to itself.
    fn rest(&mut self);

    /// The thread goes back to work.
    fn online(&mut self);

    /// Does up to `budget` small pieces of work that nobody waits for: growth, expiry, pages that change their class.
    /// Returns how many were done; fewer than `budget` means that there is nothing more to do for now.
    fn maintain(&mut self, now: Seconds, pace: Pace, budget: usize) -> usize;

    /// Begins a walk over all items, unless one is under way: then `None`. It ends when it is dropped.
    fn begin_walk(&mut self) -> Option<Self::Walk>;

    /// Goes on with a walk for a moment, showing items to `see`. A key that is stored from the beginning of the walk to its end is
    /// shown, whatever is done to it meanwhile: once, or twice if it was stored anew. Other keys may be shown or not.
    ///
    /// Between two calls the session should pass a quiescent point, or go offline if the walk has to wait.
    fn walk(&mut self, walk: &mut Self::Walk, now: Seconds, see: &mut dyn FnMut(WalkedItem<'_>)) -> Walked;
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// Why a policy does not take over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be what is wanted.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Another one is just taking over.
    #[error("another policy is taking over")]
    Busy,
    /// What it notes of items does not fit, and nothing may be evicted.
    #[error("there is no memory left for what it notes of items, and nothing may be evicted")]
    NoRoom,
}

/// Who may read and write a partition of keys (MICA, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Exclusive read, exclusive write: one session does both.
    Erew,
    /// Concurrent read, exclusive write: everybody reads, one session writes.
    Crew,
    /// Concurrent read, concurrent write: everybody does both, one after the other for each partition.
    #[default]
    Crcw,
}

const ACCESSES: [(&str, Access); 3] =
    [("erew", Access::Erew), ("crew", Access::Crew), ("crcw", Access::Crcw)];

impl Access {
    /// What it is called.
    pub fn name(self) -> &'static str {
        ACCESSES[self as usize].0
    }

    /// The one that is called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(name: &str) -> Result<Self, OptionError> {
        let known = || ACCESSES.map(|(known, _)| known).join(", ");
        let unknown = || OptionError::Unknown { what: "access mode", name: name.to_owned(), known: known() };
        ACCESSES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode).ok_or_else(unknown)
    }
}

/// How an engine divides keys, so that whoever sends a request can tell where it should go. What is sent elsewhere is slower and never wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// The highest bits of a key's hash, so many of them, are its partition.
    pub bits: u32,
    /// Who may work on one.
    pub access: Access,
    /// The seed of the hash, which is rapidhash v3, the variant called micro.
    pub seed: u64,
}

impl Partitioning {
    /// Which of `workers` threads a key's partition is at home at.
    #[inline(always)]
    pub fn home(&self, hash: KeyHash, workers: usize) -> usize {
        let partition = if self.bits == 0 { 0 } else { hash.0 >> (u64::BITS - self.bits) };
        ((partition * workers as u64) >> self.bits) as usize
    }
}

/// What an operator may change while an engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// Whether expired items are looked for in the background.
    Crawler(Switch),
    /// Look for them now.
    CrawlNow,
    /// Whether memory moves between classes by itself. A class without any gets some in any case.
    Automove(Switch),
}

/// Who is told of evictions.
pub trait EvictionWatcher: Debug + Send + Sync {
    /// The time, if it wants to be told at the moment.
    fn watches(&self) -> Option<Seconds>;
    /// An item was evicted.
    fn evicted(&self, key: &[u8], meta: &Meta, now: Seconds);
}

/// What came of asking for a page to be moved from one class to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reassign {
    /// It is on its way.
    Begun,
    /// Another is on its way.
    Busy,
    /// There is no such class.
    NoClass,
    /// The class that it should come from has none to spare.
    NothingToSpare,
}

/// An engine, shared by all threads.
pub trait Engine: Send + Sync + 'static {
    /// Its sessions.
    type Session: Session + Send;

    /// A session for one thread.
    fn session(&self) -> Self::Session;

    /// Makes all items that are stored now, and until `at`, disappear at `at` (at once, if that has passed).
    fn flush(&self, now: Seconds, at: Seconds);

    /// Tells `watcher` of evictions from now on. To be called once.
    fn watch_evictions(&self, watcher: Arc<dyn EvictionWatcher>);

    /// The replacement policy with its options, and the one that is taking over, if there is one.
    fn policy(&self) -> (Spec, Option<Spec>);

    /// Has another replacement policy take over, while the engine is used. Nothing is lost but what no longer fits, and that is evicted and
    /// counted.
    ///
    /// # Errors
    /// If there is no such policy or option; the error lists those that there are. If another one is just taking over.
    fn change_policy(&self, policy: &Spec) -> Result<(), PolicyError>;

    /// Changes how it works.
    fn tune(&self, tuning: Tuning);

    /// Moves a page from the class numbered `from`, or from any, to the class numbered `to`, or to none if that is 0. What is
    /// in the page is evicted.
    fn reassign(&self, from: Option<u32>, to: u32) -> Reassign;

    /// From now on the engine may commit `memory` bytes. More can be used at once; less is reached step by step, in
    /// [`Session::maintain`], and items that have to go for it are evicted and counted.
    ///
    /// # Errors
    /// If that is less than the engine can do with, or more than was reserved. Then nothing has changed.
    fn resize(&self, memory: usize) -> Result<(), ResizeError>;

    /// Closes the engine in order, at `now`: what it holds lasts, if it was opened to last, and `notes` with it, for whoever opens it
    /// next. All sessions, pinned values, drafts and other handles were dropped before.
    ///
    /// # Errors
    /// If they were not, or the file cannot be written. Then nothing is found next time.
    fn close(self, now: Seconds, notes: &[u8]) -> Result<(), CloseError>
    where
        Self: Sized;

    /// How keys are divided among threads, if they are.
    fn partitioning(&self) -> Option<Partitioning> {
        None
    }

    /// What it counts.
    fn stats(&self) -> EngineStats;

    /// Sets the counters back to zero, but for those that say what is stored now.
    fn reset_stats(&self);
}
