//! Random operations on some of the keys, each of them held against the map.

use super::changing::If;
use super::held::{Arriving, Pinned};
use super::model::Model;
use super::{Full, Memory, World};
use crate::Recency;
use crate::suite::differential::Random;
use crate::suite::sink::{guess_of, value_with};
use crate::{Engine, Lossiness, Pace, Session};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

pub(super) type SessionOf<E> = <E as Engine>::Session;
pub(super) type GuessOf<E> = <SessionOf<E> as Session>::Guess;
pub(super) type PinOf<E> = <SessionOf<E> as Session>::Pin;
pub(super) type PendingOf<E> = <SessionOf<E> as Session>::Pending;

/// Which keys are whose: those whose number leaves this rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rest: u32,
    pub(super) of: u32,
}

/// One thread's work.
pub(super) struct Worker<'e, E: Engine> {
    pub(super) engine: &'e E,
    pub(super) plan: Full,
    pub(super) world: &'e World,
    pub(super) share: Share,
    pub(super) sessions: Vec<SessionOf<E>>,
    pub(super) active: usize,
    /// The step at which the other session goes on with its batch.
    pub(super) back_at: Option<usize>,
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
            sessions,
            active: 0,
            back_at: None,
            model: Model::new(losses),
            guesses: HashMap::new(),
            pins: Vec::new(),
            arriving: Vec::new(),
            random: Random::new(plan.seed * 1000 + u64::from(share.rest)),
            step: 0,
            now: world.now(),
        };
        worker.sessions.iter_mut().for_each(Session::offline);
        worker
    }

    pub(super) fn lossiness(&self) -> Lossiness {
        self.sessions[self.active].lossiness()
    }

    pub(super) fn session(&mut self) -> &mut SessionOf<E> {
        &mut self.sessions[self.active]
    }

    /// Something is wrong.
    pub(super) fn fail(&self, key: u32, what: &str) -> ! {
        panic!("seed {}, {:?}, step {}: key {key}: {what}", self.plan.seed, self.plan.workers, self.step)
    }

    /// Stores an item under every key, as far as there is memory.
    pub(super) fn fill(&mut self) {
        self.begin();
        let Share { rest, of } = self.share;
        for key in (rest..self.plan.keys).step_by(of as usize) {
            self.store(key);
            self.check(key);
            if key % 32 == rest {
                self.session().quiesce();
            }
        }
        self.pause();
    }

    /// So many random operations.
    pub(super) fn run(&mut self, steps: usize) {
        self.begin();
        for _ in 0..steps {
            self.step += 1;
            self.look_at_clock();
            if self.back_at.is_some_and(|step| step <= self.step) {
                self.switch_back();
            }
            let key = self.some_key();
            self.act(key);
            self.check(key);
            if self.step.is_multiple_of(32) {
                self.look_at_held();
            }
        }
        self.pause();
    }

    /// Goes to work.
    pub(super) fn begin(&mut self) {
        self.session().online();
        self.look_at_clock();
    }

    /// Ends all batches, and waits. What is held stays.
    pub(super) fn pause(&mut self) {
        self.back_at = None;
        self.sessions.iter_mut().for_each(Session::offline);
    }

    fn look_at_clock(&mut self) {
        let now = self.world.now();
        if now != self.now {
            self.now = now;
            self.model.passes(now);
        }
    }

    fn some_key(&mut self) -> u32 {
        let Share { rest, of } = self.share;
        // Some are asked for more often than others.
        let most = if self.random.below(3) == 0 { self.plan.keys / 16 } else { self.plan.keys };
        self.random.below(u64::from(most / of)) as u32 * of + rest
    }

    fn act(&mut self, key: u32) {
        // Whoever needs memory while the batch of the other session goes on may wait for its end, in vain and for long.
        let waits = self.back_at.is_some() && self.random.below(16) > 0;
        match if waits { 118 + self.random.below(66) } else { self.random.below(200) } {
            150..164 if waits => {}
            0..60 => self.store(key),
            60..68 => self.store_if(key, If::Found),
            68..76 => self.store_if(key, If::Missing),
            76..88 => self.join(key),
            88..108 => self.amend(key),
            108..118 => self.count(key),
            118..126 => self.remove(key),
            126..150 => {}
            150..156 => self.announce(key),
            156..164 => self.receive(),
            164..170 => self.pin(key),
            170..184 => self.maintain(),
            184..190 if self.back_at.is_none() => self.switch(),
            190..196 => self.leave(),
            _ if self.share.rest == 0 => self.everywhere(),
            _ => {}
        }
    }

    /// Something that concerns everybody.
    fn everywhere(&mut self) {
        match self.random.below(80) {
            0 if self.plan.is_alone() => {
                let at = Seconds(self.now.0 + self.random.below(4) as u32);
                self.engine.flush(self.now, at);
                self.model.flush(self.now, at);
            }
            1..6 if self.plan.memory == Memory::Changes => {
                let stats = self.engine.stats();
                let (least, most) = (self.world.memory / 2, stats.memory_reserve);
                let memory = least + self.random.below(most - least + 1);
                self.world.granted(memory);
                let limit =
                    if self.engine.resize(memory as usize).is_ok() { memory } else { stats.memory_limit };
                assert_eq!(self.engine.stats().memory_limit, limit);
            }
            6..40 => self.world.advance(),
            _ => {}
        }
    }

    /// What is known of a key: as of now, of a while ago, or nothing.
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

    /// An item that was expected is not there.
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

    /// Does a little of what nobody waits for, or ends a batch.
    fn maintain(&mut self) {
        let pace = if self.random.below(2) == 0 { Pace::Busy } else { Pace::Idle };
        let (budget, now) = (self.random.below(40) as usize, self.now);
        self.session().maintain(now, pace, budget);
        if self.random.below(2) == 0 {
            self.session().quiesce();
        }
    }

    /// The other session goes on, if there is one. Now and then the batch of this one has not ended, and then it soon goes on itself: whoever waits
    /// for that meanwhile waits in vain.
    fn switch(&mut self) {
        if self.sessions.len() == 1 {
            return self.session().quiesce();
        }
        if !self.plan.gives_back(self.engine) && self.random.below(8) == 0 {
            self.back_at = Some(self.step + 3);
        } else {
            self.session().offline();
        }
        self.active = (self.active + 1) % self.sessions.len();
        self.session().online();
    }

    /// The session whose batch has not ended goes on, and the other waits for input.
    fn switch_back(&mut self) {
        self.back_at = None;
        self.session().offline();
        self.active = (self.active + 1) % self.sessions.len();
    }

    /// Waits for input, for a moment or for long, and comes back.
    fn leave(&mut self) {
        self.session().offline();
        if self.random.below(2) == 0 {
            self.session().release_caches();
        }
        self.session().online();
    }

    /// A read shows what the map holds. Bytes that the item occupies, if there is one.
    pub(super) fn check(&mut self, key: u32) -> usize {
        // A read that counts may cost another item in some caches.
        let counts = self.random.below(2) == 0;
        self.look(key, if counts { Recency::Bump } else { Recency::Leave })
    }

    fn look(&mut self, key: u32, recency: Recency) -> usize {
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

    /// Checks all keys. Bytes that their items occupy, and how many there are.
    pub(super) fn check_all(&mut self) -> (usize, u64) {
        self.begin();
        let mut bytes = 0;
        let Share { rest, of } = self.share;
        for key in (rest..self.plan.keys).step_by(of as usize) {
            bytes += self.look(key, Recency::Leave);
        }
        self.pause();
        (bytes, self.model.keys(self.now).len() as u64)
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) {
        self.begin();
        for key in self.model.keys(self.now) {
            self.remove(key);
        }
        self.pause();
    }
}
