//! Random operations on an engine and on a plain map, which must agree as long as nothing was evicted.

use super::sink::{Told, guess_of, store_with, value_with};
use crate::{Amendment, Decision, Expiry, ItemState, ItemView, NewItem, Provision, Recency, Value};
use crate::{Engine, Key, Pace, Session};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

/// A small generator of random numbers (xorshift), so that a seed says everything.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

#[derive(Clone, Debug)]
struct Modelled {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    cas: Option<u64>,
}

type GuessOf<E> = <<E as Engine>::Session as Session>::Guess;

struct Run<'e, E: Engine> {
    engine: &'e E,
    session: E::Session,
    /// What was guessed of keys at some time.
    guesses: HashMap<Vec<u8>, GuessOf<E>>,
    model: HashMap<Vec<u8>, Modelled>,
    random: Random,
    now: Seconds,
}

/// `steps` random operations. The engine has enough memory for all of them.
pub fn differential<E: Engine>(engine: &E, seed: u64, steps: usize) {
    let mut run = Run {
        engine,
        session: engine.session(),
        guesses: HashMap::new(),
        model: HashMap::new(),
        random: Random::new(seed),
        now: Seconds(1000),
    };
    for step in 0..steps {
        let keys = if seed.is_multiple_of(2) { 50 } else { 5000 };
        let key = format!("key-{}", run.random.below(keys)).into_bytes();
        run.step(&key);
        run.check(&key, seed, step);
        if step % 16 == 0 {
            run.session.maintain(run.now, Pace::Idle, 16);
            run.session.quiesce();
        }
    }
    let keys: Vec<Vec<u8>> = run.model.keys().cloned().collect();
    for key in keys {
        run.check(&key, seed, steps);
    }
    let stats = engine.stats();
    assert_eq!(stats.evictions, 0, "seed {seed}: the run is meant to fit into memory");
}

impl<E: Engine> Run<'_, E> {
    fn value(&mut self) -> Vec<u8> {
        let length = match self.random.below(100) {
            0 => self.random.below(200_000),
            1..10 => self.random.below(5000),
            _ => self.random.below(200),
        };
        let fill = self.random.below(256) as u8;
        (0..length).map(|i| fill.wrapping_add(i as u8)).collect()
    }

    fn live(&self, key: &[u8]) -> Option<&Modelled> {
        self.model.get(key).filter(|item| !item.expiry.passed(self.now))
    }

    /// What is known of a key: as of now, of a while ago, or nothing.
    fn guess(&mut self, key: &[u8]) -> GuessOf<E> {
        match self.random.below(4) {
            0 => GuessOf::<E>::default(),
            1 => {
                let guess = guess_of(&self.session, key);
                self.guesses.insert(key.to_vec(), guess);
                guess
            }
            _ => self.guesses.get(key).copied().unwrap_or_default(),
        }
    }

    fn step(&mut self, key: &[u8]) {
        match self.random.below(100) {
            0..40 => self.put(key),
            40..50 => {
                self.update(key, |_| Decision::Remove);
                self.model.remove(key);
            }
            50..60 => self.join(key),
            60..70 => self.touch(key),
            70..80 => {
                let cas = self.session.next_cas();
                self.update(key, |_| Decision::Amend(Amendment { cas: Some(cas), ..Amendment::default() }));
                let now = self.now;
                if let Some(item) = self.model.get_mut(key).filter(|item| !item.expiry.passed(now)) {
                    item.cas = Some(cas);
                }
            }
            80..82 => self.now = Seconds(self.now.0 + 1),
            82 if self.random.below(20) == 0 => {
                self.engine.flush(self.now, self.now);
                self.model.clear();
            }
            82 if self.random.below(3) == 0 => self.flush_prefix(),
            83..87 => self.put_where(key, |has_one| !has_one),
            87..91 => self.put_where(key, |has_one| has_one),
            _ => {}
        }
    }

    fn flush_prefix(&mut self) {
        let prefix = format!("key-{}", self.random.below(50)).into_bytes();
        if self.engine.flush_prefixes(self.now, &[&prefix]).is_ok() {
            self.model.retain(|key, _| !key.starts_with(&prefix));
        }
    }

    fn update<'d>(&mut self, key: &[u8], decide: impl FnMut(Option<&dyn ItemView>) -> Decision<'d>) {
        let guess = self.guess(key);
        let key = Key { bytes: key, hash: self.session.hash(key) };
        self.session.update(key, guess, self.now, Provision::None, decide).expect("there is memory");
    }

    fn put(&mut self, key: &[u8]) {
        let value = self.value();
        let flags = if self.random.below(2) == 0 { 0 } else { self.random.below(1 << 32) as u32 };
        let expiry = match self.random.below(4) {
            0 => Expiry::At(Seconds(self.now.0 + self.random.below(20) as u32)),
            _ => Expiry::Never,
        };
        let guess = self.guess(key);
        let told = Told { flags, expiry };
        store_with(&mut self.session, key, guess, &value, told, self.now).expect("there is memory");
        self.model.insert(key.to_vec(), Modelled { value, flags, expiry, cas: None });
    }

    /// Stores a value where there is one, or where there is none.
    fn put_where(&mut self, key: &[u8], has_one: impl Fn(bool) -> bool) {
        let value = vec![b'a'; self.random.below(200) as usize];
        let new = NewItem {
            flags: 0,
            expiry: Expiry::Never,
            cas: None,
            state: ItemState::NONE,
            value: Value::Bytes(&value),
        };
        self.update(key, |item| if has_one(item.is_some()) { Decision::Put(new) } else { Decision::Keep });
        if has_one(self.live(key).is_some()) {
            let stored = Modelled { value, flags: 0, expiry: Expiry::Never, cas: None };
            self.model.insert(key.to_vec(), stored);
        }
    }

    fn join(&mut self, key: &[u8]) {
        let (mut before, mut after) = (self.value(), self.value());
        before.truncate(3000);
        after.truncate(3000);
        let long = self.live(key).is_some_and(|item| item.value.len() > 500_000);
        if long {
            return;
        }
        self.update(key, |item| match item.map(|item| item.meta()) {
            None => Decision::Keep,
            Some(meta) => Decision::Put(NewItem {
                flags: meta.flags,
                expiry: meta.expiry,
                cas: None,
                state: ItemState::NONE,
                value: Value::Joined { before: &before, after: &after },
            }),
        });
        if let Some(old) = self.live(key).cloned() {
            let value = [before.as_slice(), &old.value, &after].concat();
            self.model.insert(key.to_vec(), Modelled { value, cas: None, ..old });
        }
    }

    fn touch(&mut self, key: &[u8]) {
        let expiry = Expiry::At(Seconds(self.now.0 + self.random.below(30) as u32));
        self.update(key, |_| Decision::Amend(Amendment { expiry: Some(expiry), ..Amendment::default() }));
        let now = self.now;
        if let Some(item) = self.model.get_mut(key).filter(|item| !item.expiry.passed(now)) {
            item.expiry = expiry;
        }
    }

    fn check(&mut self, key: &[u8], seed: u64, step: usize) {
        let guess = self.guess(key);
        let found = value_with(&mut self.session, key, guess, Recency::Bump, self.now);
        let expected = self.live(key);
        let name = String::from_utf8_lossy(key);
        match (found, expected) {
            (None, None) => {}
            (Some(found), Some(expected)) => {
                assert!(found.value == expected.value, "seed {seed}, step {step}: {name}: another value");
                assert_eq!(
                    (found.meta.flags, found.meta.expiry, found.meta.cas),
                    (expected.flags, expected.expiry, expected.cas),
                    "seed {seed}, step {step}: {name}"
                );
            }
            (found, expected) => {
                panic!(
                    "seed {seed}, step {step}: {name}: found {}, expected {}",
                    found.is_some(),
                    expected.is_some()
                )
            }
        }
    }
}
