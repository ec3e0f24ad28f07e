//! A worker: sessions of one thread, and the map of what they have stored.

use super::model::{Model, Modelled};
use super::plan::{Full, World};
use crate::Recency;
use crate::suite::differential::Random;
use crate::suite::sink::{guess_of, value_with};
use crate::{Engine, Lossiness, Session, ValuePin};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

pub(super) type SessionOf<E> = <E as Engine>::Session;
pub(super) type GuessOf<E> = <SessionOf<E> as Session>::Guess;
pub(super) type PinOf<E> = <SessionOf<E> as Session>::Pin;
pub(super) type PendingOf<E> = <SessionOf<E> as Session>::Pending;

/// The keys of a worker: those whose number modulo `of` is `rest`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rest: u32,
    pub(super) of: u32,
}

/// A pinned value, and a copy made when it was pinned.
#[derive(Debug)]
pub(super) struct Pinned<P> {
    pub(super) key: u32,
    pub(super) pin: P,
    pub(super) value: Vec<u8>,
    /// The step at which it is dropped.
    pub(super) until: usize,
}

impl<P: ValuePin> Pinned<P> {
    /// The offset at which the value has changed.
    pub(super) fn changed_at(&self) -> Option<usize> {
        if self.pin.value_len() != self.value.len() {
            return Some(0);
        }
        let mut from = 0;
        while from < self.value.len() {
            let piece = self.pin.piece(from);
            if piece.is_empty() || !self.value[from..].starts_with(piece) {
                return Some(from);
            }
            from += piece.len();
        }
        None
    }
}

/// An item that is still arriving.
#[derive(Debug)]
pub(super) struct Arriving<D> {
    pub(super) key: u32,
    pub(super) pending: D,
    pub(super) item: Modelled,
    /// Bytes of its value that have arrived.
    pub(super) arrived: usize,
}

/// The sessions of a worker, which take turns.
pub(super) struct Turns<E: Engine> {
    pub(super) sessions: Vec<SessionOf<E>>,
    active: usize,
    /// The step at which the other session continues its batch.
    pub(super) back_at: Option<usize>,
}

impl<E: Engine> Turns<E> {
    pub(super) fn active(&mut self) -> &mut SessionOf<E> {
        &mut self.sessions[self.active]
    }

    pub(super) fn switch(&mut self) {
        self.active = (self.active + 1) % self.sessions.len();
    }
}

pub(super) struct Worker<'e, E: Engine> {
    pub(super) engine: &'e E,
    pub(super) plan: Full,
    pub(super) world: &'e World,
    pub(super) share: Share,
    pub(super) turns: Turns<E>,
    pub(super) model: Model,
    pub(super) guesses: HashMap<u32, GuessOf<E>>,
    pub(super) pins: Vec<Pinned<PinOf<E>>>,
    pub(super) arriving: Vec<Arriving<PendingOf<E>>>,
    pub(super) random: Random,
    pub(super) step: usize,
    pub(super) now: Seconds,
}

/// The key of a number; some are as long as keys can be.
pub(super) fn name(key: u32) -> Vec<u8> {
    let mut name = format!("full-{key}").into_bytes();
    match key % 16 {
        7 => name.resize(250, b'.'),
        3 => name.resize(60, b'_'),
        _ => {}
    }
    name
}

impl<'e, E: Engine> Worker<'e, E> {
    pub(super) fn new(engine: &'e E, plan: Full, world: &'e World, share: Share) -> Self {
        let sessions: Vec<_> = (0..plan.sessions()).map(|_| engine.session()).collect();
        let losses = sessions.first().map_or(Lossiness::Cache, Session::lossiness);
        let mut worker = Worker {
            engine,
            plan,
            world,
            share,
            turns: Turns { sessions, active: 0, back_at: None },
            model: Model::new(losses),
            guesses: HashMap::new(),
            pins: Vec::new(),
            arriving: Vec::new(),
            random: Random::new(plan.seed * 1000 + u64::from(share.rest)),
            step: 0,
            now: world.now(),
        };
        worker.turns.sessions.iter_mut().for_each(Session::offline);
        worker
    }

    pub(super) fn lossiness(&self) -> Lossiness {
        self.turns.sessions[self.turns.active].lossiness()
    }

    pub(super) fn session(&mut self) -> &mut SessionOf<E> {
        self.turns.active()
    }

    /// Panics with the seed and the step.
    pub(super) fn fail(&self, key: u32, what: &str) -> ! {
        panic!("seed {}, {:?}, step {}: key {key}: {what}", self.plan.seed, self.plan.workers, self.step)
    }

    pub(super) fn begin(&mut self) {
        self.session().online();
        self.look_at_clock();
    }

    /// Ends all batches and goes offline. Pins and pending values stay.
    pub(super) fn pause(&mut self) {
        self.turns.back_at = None;
        self.turns.sessions.iter_mut().for_each(Session::offline);
    }

    pub(super) fn look_at_clock(&mut self) {
        let now = self.world.now();
        if now != self.now {
            self.now = now;
            self.model.passes(now);
        }
    }

    /// A guess for a key: a fresh one, an older one, or none.
    pub(super) fn guess(&mut self, key: u32, name: &[u8]) -> GuessOf<E> {
        match self.random.below(4) {
            0 => GuessOf::<E>::default(),
            1 => {
                let guess = guess_of(self.session(), name);
                self.guesses.insert(key, guess);
                guess
            }
            _ => self.guesses.get(&key).copied().unwrap_or_default(),
        }
    }

    pub(super) fn miss(&mut self, key: u32) {
        // Another thread may have seen a later time.
        let latest = self.world.now();
        if self.model.live(key, latest).is_none() {
            return self.model.remove(key);
        }
        if let Err(what) = self.model.lose(key) {
            self.fail(key, &what);
        }
    }

    /// Checks that a read returns what the map holds. Returns the bytes that the item occupies.
    pub(super) fn check(&mut self, key: u32) -> usize {
        // In some caches a read that bumps may evict another item.
        let counts = self.random.below(2) == 0;
        self.look(key, if counts { Recency::Bump } else { Recency::Leave })
    }

    pub(super) fn look(&mut self, key: u32, recency: Recency) -> usize {
        let (name, now) = (name(key), self.now);
        let guess = self.guess(key, &name);
        let found = value_with(self.session(), &name, guess, recency, now);
        match (found, self.model.live(key, now)) {
            (None, None) => 0,
            (None, Some(_)) => {
                self.miss(key);
                0
            }
            (Some(_), None) => self.fail(key, "it came back"),
            (Some(found), Some(expected)) => {
                if let Some(what) = expected.differs(&found.meta) {
                    self.fail(key, &what);
                }
                if found.value != expected.value {
                    self.fail(key, &format!("another value, of {} bytes", found.value.len()));
                }
                found.meta.size
            }
        }
    }
}
