//! Threads at work on a few keys, and each answer checked against what could legally have been read.
//!
//! Every key has one writer, which stores ever higher sequence numbers and removes the key now and then; everybody reads. A
//! value names its key and its sequence number and is filled with bytes that follow from them, so that a torn value
//! or one of another key shows. Before it writes, a writer announces the number; after the write was
//! acknowledged it says so. A reader notes what was acknowledged before it began: it may read nothing older. What it reads must have been
//! announced when it ended. Its own readings of one key never go back.

use super::differential::Random;
use super::sink::{Copied, Told, guess_of, store_with, value_with};
use crate::item::{Decision, Expiry};
use crate::session::{Engine, Key, Pace, Session};
use guira_sync::atomic::{AtomicU64, Ordering};
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
    /// The number of the last removal that was announced.
    removal: AtomicU64,
}

/// Whether what was stored may be gone by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Losses {
    /// As in a cache.
    Legal,
    /// As in a store.
    Illegal,
}

const NOW: Seconds = Seconds(1000);

fn value(key: usize, sequence: u64, length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(length + 24);
    value.extend_from_slice(&(key as u64).to_le_bytes());
    value.extend_from_slice(&sequence.to_le_bytes());
    value.extend_from_slice(&(length as u64).to_le_bytes());
    value.extend((0..length).map(|i| (sequence as usize * 7 + key + i) as u8));
    value
}

/// The sequence number that a value names, if it is whole.
fn sequence_of(key: usize, found: &[u8]) -> Option<u64> {
    let number = |at: usize| Some(u64::from_le_bytes(found.get(at..at + 8)?.try_into().ok()?));
    let (sequence, length) = (number(8)?, number(16)?);
    (found == value(key, sequence, length as usize)).then_some(sequence)
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
    let logs: Vec<Log> = (0..plan.keys).map(|_| Log::default()).collect();
    std::thread::scope(|scope| {
        let run = |thread| {
            let (session, logs) = (engine.session(), &logs);
            scope.spawn(move || work(session, logs, plan, thread, losses))
        };
        let threads: Vec<_> = (0..plan.threads).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread saw an illegal answer")).sum()
    })
}

fn work<S: Session>(mut session: S, logs: &[Log], plan: History, thread: usize, losses: Losses) -> u64 {
    let mut random = Random::new(plan.seed * 1000 + thread as u64);
    let mut last_read = vec![0; logs.len()];
    let mut guesses = vec![S::Guess::default(); logs.len()];
    let mut hits = 0;
    for operation in 0..plan.operations {
        let key = random.below(logs.len() as u64) as usize;
        let name = format!("history-{key}");
        let own = key % plan.threads == thread;
        // Every other guess is as old as the last operation on the key here.
        if random.below(2) == 0 {
            guesses[key] = guess_of(&session, name.as_bytes());
        }
        let guess = guesses[key];
        match random.below(10) {
            0..3 if own => {
                let long = random.below(50) == 0;
                let length = random.below(if long { 30_000 } else { 120 }) as usize;
                let log = &logs[key];
                let sequence = log.announced.load(Ordering::SeqCst) + 1;
                log.announced.store(sequence, Ordering::SeqCst);
                let (value, told) = (value(key, sequence, length), Told { flags: 0, expiry: Expiry::Never });
                store_with(&mut session, name.as_bytes(), guess, &value, told, NOW).expect("there is memory");
                log.acknowledged.store(sequence, Ordering::SeqCst);
            }
            3 if own => {
                let log = &logs[key];
                let sequence = log.announced.load(Ordering::SeqCst) + 1;
                log.removal.store(sequence, Ordering::SeqCst);
                log.announced.store(sequence, Ordering::SeqCst);
                let key = Key { bytes: name.as_bytes(), hash: session.hash(name.as_bytes()) };
                session.update(key, NOW, None, None, |_| Decision::Remove).expect("nothing is needed");
                log.acknowledged.store(sequence, Ordering::SeqCst);
            }
            _ => {
                let acknowledged = logs[key].acknowledged.load(Ordering::SeqCst);
                let found = value_with(&mut session, name.as_bytes(), guess, NOW);
                let reading = Reading { log: &logs[key], key, acknowledged, seed: plan.seed, losses };
                hits += u64::from(reading.check(found, &mut last_read[key]));
            }
        }
        if operation % 32 == 0 {
            session.maintain(NOW, Pace::Idle, 4);
            session.quiesce();
        }
    }
    hits
}

/// What a read may have found.
struct Reading<'l> {
    log: &'l Log,
    key: usize,
    /// When it began.
    acknowledged: u64,
    seed: u64,
    losses: Losses,
}

impl Reading<'_> {
    /// Whether it was a hit.
    fn check(&self, found: Option<Copied>, last: &mut u64) -> bool {
        let Reading { log, key, acknowledged, seed, losses } = *self;
        let Some(item) = found else {
            // A cache may lose anything. In a store the item must have been removed by one of the writes that this may have come after.
            let may_be_gone = acknowledged == 0 || log.removal.load(Ordering::SeqCst) >= acknowledged;
            assert!(
                losses == Losses::Legal || may_be_gone,
                "seed {seed}: key {key}: {acknowledged} is missed"
            );
            return false;
        };
        let announced = log.announced.load(Ordering::SeqCst);
        let Some(sequence) = sequence_of(key, &item.value) else {
            panic!("seed {seed}: key {key} holds a value that nobody stored: {} bytes", item.value.len());
        };
        assert!(sequence <= announced, "seed {seed}: key {key}: {sequence} was read before it was stored");
        assert!(sequence >= acknowledged, "seed {seed}: key {key}: {sequence} was read after {acknowledged}");
        assert!(
            sequence >= *last,
            "seed {seed}: key {key}: {sequence} was read after {last} by the same thread"
        );
        *last = sequence;
        true
    }
}
