//! Threads at work on a few keys, and each answer checked against what could legally have been read.
//!
//! Every key has one writer, which stores ever higher sequence numbers and removes the key now and then; everybody reads. A
//! value names its key and its sequence number and is filled with bytes that follow from them, so that a torn value
//! or one of another key shows. Before it writes, a writer announces the number; after the write was
//! acknowledged it says so. A reader notes what was acknowledged before it began: it may read nothing older. What it reads must have been
//! announced when it ended. Its own readings of one key never go back.
//!
//! Meanwhile the time goes on and items expire, everything is flushed now and then, prefixes too, and pages are moved from class to class. A flush that was
//! acknowledged before a read began has taken all that was acknowledged before the flush began: also what a value was put together from since.
//!
//! The soak test judges with its own history: a lock for each key would hide the races that are looked for here, and
//! the soak test has to know more, such as what a miss has settled.

use super::differential::Random;
use super::sink::{Copied, Told, guess_of, store_with, value_with};
use crate::{Decision, Expiry, ItemState, NewItem, Provision, Recency, Value};
use crate::{Engine, Key, Pace, Session};
use guira_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use guira_sync::clock::Seconds;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// Of all random choices.
    pub seed: u64,
    /// Threads; each owns its share of the keys.
    pub threads: usize,
    /// Keys.
    pub keys: usize,
    /// Operations of each thread.
    pub operations: usize,
}

#[derive(Debug, Default)]
struct Log {
    announced: AtomicU64,
    /// The number of the last write that was acknowledged; of a removal as well, which has a number of its own.
    acknowledged: AtomicU64,
    /// The number of the last write that was announced after which the item may be gone: a removal, or a store of what expires.
    removal: AtomicU64,
    /// Up to this number everything was flushed: acknowledged before a flush began that is over.
    flushed: AtomicU64,
    /// Up to this number it may have been: announced when such a flush was over.
    flushed_maybe: AtomicU64,
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    logs: Vec<Log>,
    now: AtomicU32,
    /// Flushes that have begun, and that are over.
    flushes: [AtomicU64; 2],
}

impl Shared {
    fn now(&self) -> Seconds {
        Seconds(self.now.load(Ordering::SeqCst))
    }

    /// Flushes everything, or what begins with a prefix.
    fn flush<E: Engine>(&self, engine: &E, prefix: Option<&str>) {
        let now = self.now();
        let before: Vec<u64> = self.logs.iter().map(|log| log.acknowledged.load(Ordering::SeqCst)).collect();
        self.flushes[0].fetch_add(1, Ordering::SeqCst);
        let is_flushed = match prefix {
            Some(prefix) => engine.flush_prefixes(now, &[prefix.as_bytes()]).is_ok(),
            None => {
                engine.flush(now, now);
                true
            }
        };
        for (key, (log, before)) in self.logs.iter().zip(before).enumerate() {
            if is_flushed && prefix.is_none_or(|prefix| name(key).starts_with(prefix)) {
                log.flushed.fetch_max(before, Ordering::SeqCst);
                log.flushed_maybe.fetch_max(log.announced.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
        self.flushes[1].fetch_add(1, Ordering::SeqCst);
    }
}

/// How often the first thread flushes everything, flushes a prefix, lets a second pass, and has a page moved, in its operations.
const FLUSHES: usize = 700;
const PREFIXES: usize = 90;
const SECONDS: usize = 1500;
const MOVES: usize = 50;

/// More keys than these are not flushed: what is known of each has to be looked at.
const FLUSHED_KEYS: usize = 1000;

/// Whether what was stored may be gone by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Losses {
    /// As in a cache.
    Legal,
    /// As in a store.
    Illegal,
}

/// When a run begins.
const START: u32 = 1000;

fn name(key: usize) -> String {
    format!("history-{key}")
}

fn value(key: usize, sequence: u64, length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(length + 24);
    value.extend_from_slice(&(key as u64).to_le_bytes());
    value.extend_from_slice(&sequence.to_le_bytes());
    value.extend_from_slice(&(length as u64).to_le_bytes());
    value.extend((0..length).map(|i| (sequence as usize * 7 + key + i) as u8));
    value
}

/// The head of a value that is put before an older one.
fn joint(key: usize, sequence: u64) -> Vec<u8> {
    let mut head = value(key, sequence, 0);
    head[16..].copy_from_slice(&JOINED.to_le_bytes());
    head
}

/// What stands in place of a length before an older value.
const JOINED: u64 = u64::MAX;
/// Longer values are not made longer.
const JOINED_MAX: usize = 2000;

/// The sequence numbers that a value names, the newest first, if it is whole.
fn sequences_of(key: usize, found: &[u8]) -> Option<Vec<u64>> {
    let number = |from: usize| Some(u64::from_le_bytes(found.get(from..from + 8)?.try_into().ok()?));
    let (sequence, length) = (number(8)?, number(16)?);
    if length != JOINED {
        return (found == value(key, sequence, length as usize)).then(|| vec![sequence]);
    }
    let older = sequences_of(key, &found[24..])?;
    (number(0)? == key as u64 && older[0] < sequence).then(|| [vec![sequence], older].concat())
}

/// Runs the threads; panics if an answer was illegal. Returns how many reads hit.
pub fn history<E: Engine>(engine: &E, plan: History) -> u64 {
    run(engine, plan, Losses::Legal)
}

/// The same with an engine that has memory for all and loses nothing: to miss what was stored and not removed is illegal too.
pub fn history_of_store<E: Engine>(engine: &E, plan: History) -> u64 {
    run(engine, plan, Losses::Illegal)
}

fn run<E: Engine>(engine: &E, plan: History, losses: Losses) -> u64 {
    let logs = (0..plan.keys).map(|_| Log::default()).collect();
    let shared = Shared { logs, now: AtomicU32::new(START), flushes: Default::default() };
    guira_sync::thread::scope(|scope| {
        let run = |thread| {
            let (session, shared) = (engine.session(), &shared);
            let work = move || {
                let mut work = Work::new(session, shared, plan, thread, losses);
                (0..plan.operations).map(|operation| work.step(engine, operation)).sum::<u64>()
            };
            scope.spawn(work)
        };
        let threads: Vec<_> = (0..plan.threads).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread saw an illegal answer")).sum()
    })
}

/// One thread.
struct Work<'h, S: Session> {
    session: S,
    shared: &'h Shared,
    plan: History,
    thread: usize,
    losses: Losses,
    random: Random,
    last_read: Vec<u64>,
    guesses: Vec<S::Guess>,
}

impl<'h, S: Session> Work<'h, S> {
    fn new(session: S, shared: &'h Shared, plan: History, thread: usize, losses: Losses) -> Self {
        let random = Random::new(plan.seed * 1000 + thread as u64);
        let (last_read, guesses) = (vec![0; plan.keys], vec![S::Guess::default(); plan.keys]);
        Work { session, shared, plan, thread, losses, random, last_read, guesses }
    }

    /// One operation. Returns 1 if it was a read that hit.
    fn step<E: Engine>(&mut self, engine: &E, operation: usize) -> u64 {
        if self.thread == 0 {
            self.disturb(engine, operation);
        }
        let key = self.random.below(self.plan.keys as u64) as usize;
        let name = name(key);
        let own = key % self.plan.threads == self.thread;
        // Every other guess is as old as the last operation on the key here.
        if self.random.below(2) == 0 {
            self.guesses[key] = guess_of(&self.session, name.as_bytes());
        }
        let now = self.shared.now();
        let hits = match self.random.below(10) {
            0..3 if own => self.store(key, &name, now),
            3 if own => self.remove(key, &name, now),
            4 if own => self.join(key, &name, now),
            _ => self.read(key, &name, now),
        };
        if operation.is_multiple_of(32) {
            self.session.maintain(now, Pace::Idle, 4);
            self.session.quiesce();
        }
        hits
    }

    /// What goes on beside the operations on keys.
    fn disturb<E: Engine>(&mut self, engine: &E, operation: usize) {
        if operation % FLUSHES == FLUSHES - 1 && self.plan.keys <= FLUSHED_KEYS {
            self.shared.flush(engine, None);
        }
        if operation % PREFIXES == PREFIXES - 1 && self.plan.keys <= FLUSHED_KEYS {
            let prefix = name(self.random.below(self.plan.keys as u64) as usize);
            self.shared.flush(engine, Some(&prefix));
        }
        if operation % SECONDS == SECONDS - 1 {
            self.shared.now.fetch_add(1, Ordering::SeqCst);
        }
        if operation % MOVES == MOVES - 1 {
            // Whether there is such a class, or a page to spare, is all one.
            engine.reassign(None, 1 + self.random.below(40) as u32);
        }
    }

    /// Announces a write, and does it. `may_go`: the item may be gone afterwards.
    fn write(&mut self, key: usize, may_go: bool, write: impl FnOnce(&mut Self, u64) -> bool) -> u64 {
        let log = &self.shared.logs[key];
        let sequence = log.announced.load(Ordering::SeqCst) + 1;
        if may_go {
            log.removal.store(sequence, Ordering::SeqCst);
        }
        log.announced.store(sequence, Ordering::SeqCst);
        if write(self, sequence) {
            log.acknowledged.store(sequence, Ordering::SeqCst);
        }
        0
    }

    fn store(&mut self, key: usize, name: &str, now: Seconds) -> u64 {
        let long = self.random.below(50) == 0;
        let length = self.random.below(if long { 30_000 } else { 120 }) as usize;
        let expires = self.random.below(8) == 0;
        let expiry = if expires { Expiry::At(Seconds(now.0 + 2)) } else { Expiry::Never };
        self.write(key, expires, |work, sequence| {
            let (value, told) = (value(key, sequence, length), Told { flags: 0, expiry });
            let guess = work.guesses[key];
            store_with(&mut work.session, name.as_bytes(), guess, &value, told, now)
                .expect("there is memory");
            true
        })
    }

    fn remove(&mut self, key: usize, name: &str, now: Seconds) -> u64 {
        self.write(key, true, |work, _| {
            let key = Key { bytes: name.as_bytes(), hash: work.session.hash(name.as_bytes()) };
            work.session
                .update(key, Default::default(), now, Provision::None, |_| Decision::Remove)
                .expect("nothing is needed");
            true
        })
    }

    /// Puts something before a value that is there.
    fn join(&mut self, key: usize, name: &str, now: Seconds) -> u64 {
        self.write(key, true, |work, sequence| {
            let (head, mut is_stored) = (joint(key, sequence), false);
            let key = Key { bytes: name.as_bytes(), hash: work.session.hash(name.as_bytes()) };
            let joined = work.session.update(key, Default::default(), now, Provision::None, |item| {
                let old = item.map(|item| item.meta()).filter(|old| old.value_len < JOINED_MAX);
                is_stored = old.is_some();
                old.map_or(Decision::Keep, |old| {
                    Decision::Put(NewItem {
                        flags: 0,
                        expiry: old.expiry,
                        cas: None,
                        state: ItemState::NONE,
                        value: Value::Joined { before: &head, after: &[] },
                    })
                })
            });
            joined.is_ok() && is_stored
        })
    }

    fn read(&mut self, key: usize, name: &str, now: Seconds) -> u64 {
        let log = &self.shared.logs[key];
        let acknowledged = log.acknowledged.load(Ordering::SeqCst);
        let flushed = log.flushed.load(Ordering::SeqCst);
        let guess = self.guesses[key];
        let found = value_with(&mut self.session, name.as_bytes(), guess, Recency::Bump, now);
        let reading = Reading { shared: self.shared, key, acknowledged, flushed, now, seed: self.plan.seed };
        reading.check(found, &mut self.last_read[key], self.losses)
    }
}

/// What a read may have found.
struct Reading<'l> {
    shared: &'l Shared,
    key: usize,
    /// When it began.
    acknowledged: u64,
    flushed: u64,
    now: Seconds,
    seed: u64,
}

impl Reading<'_> {
    /// Checks it. Returns 1 if it was a hit.
    fn check(&self, found: Option<Copied>, last: &mut u64, losses: Losses) -> u64 {
        let Reading { key, acknowledged, flushed, seed, .. } = *self;
        let log = &self.shared.logs[key];
        let Some(item) = found else {
            assert!(
                losses == Losses::Legal || self.may_be_gone(),
                "seed {seed}: key {key}: {acknowledged} is missed"
            );
            return 0;
        };
        let announced = log.announced.load(Ordering::SeqCst);
        let Some(sequences) = sequences_of(key, &item.value) else {
            panic!("seed {seed}: key {key} holds a value that was never stored: {} bytes", item.value.len());
        };
        let (sequence, oldest) = (sequences[0], sequences[sequences.len() - 1]);
        assert!(sequence <= announced, "seed {seed}: key {key}: {sequence} was read before it was stored");
        assert!(sequence >= acknowledged, "seed {seed}: key {key}: {sequence} was read after {acknowledged}");
        assert!(
            oldest > flushed,
            "seed {seed}: key {key}: {oldest}, flushed with all up to {flushed}, is back"
        );
        assert!(!item.meta.expiry.passed(self.now), "seed {seed}: key {key}: {sequence} has expired");
        assert!(
            sequence >= *last,
            "seed {seed}: key {key}: {sequence} was read after {last} by the same thread"
        );
        *last = sequence;
        1
    }

    /// A cache may lose anything. In a store the item must have been removed by one of the writes that this may have come after, or by a flush.
    fn may_be_gone(&self) -> bool {
        let log = &self.shared.logs[self.key];
        let [begun, over] = &self.shared.flushes;
        // In this order: a flush that was not over yet when the second was looked at had begun when the first is.
        let over = over.load(Ordering::SeqCst);
        self.acknowledged == 0
            || log.removal.load(Ordering::SeqCst) >= self.acknowledged
            || log.flushed_maybe.load(Ordering::SeqCst) >= self.acknowledged
            || begun.load(Ordering::SeqCst) > over
    }
}
