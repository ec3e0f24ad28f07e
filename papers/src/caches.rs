//! Engines inside this process: what they cost without a network.

use guira_contract::{
    Engine, EngineStats, Expiry, ItemView, Key, Meta, Opened, Recency, Session, Sink, ValuePin, Want,
};
use guira_harness::driver::{Driver, Lookup, Maintenance};
use guira_harness::process::thread_cpu_s;
use guira_roster::{Choice, Host, HugePages, Setup};
use guira_sync::clock::Seconds;
use guira_workload::rng::mix64;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use crate::experiment::{Failure, failed};
use crate::memc3::drive::rate_of;

/// A cache: a name, and what makes it of the roster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) name: &'static str,
    pub(crate) engine: &'static str,
    pub(crate) policy: &'static str,
}

/// The three of MemC3's paper.
pub(crate) const CONFIGS: [Config; 3] = [
    Config { name: "LRU + chaining", engine: "classic", policy: "lru" },
    Config { name: "LRU + cuckoo", engine: "memc3", policy: "lru" },
    Config { name: "CLOCK + cuckoo", engine: "memc3", policy: "clock" },
];

/// Where MemC3 itself is among [`CONFIGS`], and memcached's design.
pub(crate) const MEMC3: usize = 2;
pub(crate) const DEFAULT: usize = 0;

impl Config {
    /// The options of `guira serve`.
    pub(crate) fn arguments(&self) -> Vec<String> {
        ["--engine", self.engine, "--policy", self.policy].map(str::to_owned).to_vec()
    }

    /// What the simulator calls its policy.
    pub(crate) const fn policy(&self) -> &'static str {
        self.policy
    }

    /// Opens it with `memory` bytes.
    pub(crate) fn open(&self, memory: usize) -> Result<Box<dyn Cache>, Failure> {
        self.open_in(memory, None)
    }

    /// The same with such pages of the system; none: as suits the size.
    pub(crate) fn open_in(&self, memory: usize, pages: Option<HugePages>) -> Result<Box<dyn Cache>, Failure> {
        let fail = |error: &dyn std::error::Error| Failure::Other(format!("{}: {error}", self.name));
        let choice = Choice::new(self.engine, None, Some(self.policy)).map_err(|error| fail(&error))?;
        let mut setup = Setup::new(memory, 1 << 20, 1);
        setup.engine.huge_pages = pages;
        choice.open(&setup, Make).map_err(|error| fail(&error))
    }
}

const KEY: usize = 16;
const VALUE: usize = 32;

/// Operations between two quiescent points, as of a server that is given batches.
pub(crate) const BATCH: usize = 32;

const MAINTENANCE: Maintenance = Maintenance { every: 8, steps: 32 };

/// All that is stored is stored in this second.
const NOW: Seconds = Seconds(1000);

/// Requests for one thread: what is asked for, one in `set_each` a set (0 for none), and how many are looked up at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests<'a> {
    pub(crate) keys: &'a [u32],
    pub(crate) set_each: usize,
    pub(crate) at_once: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    pub(crate) gets: u64,
    pub(crate) hits: u64,
    pub(crate) sets: u64,
    /// Seconds of processor time, of all threads together.
    pub(crate) processor_s: f64,
}

/// An engine, whichever it is.
pub(crate) trait Cache: Sync {
    /// Stores the keys `0..count`.
    fn fill(&self, count: u32) -> Result<(), Failure>;

    /// Serves the requests of each thread, a thread each; a get that misses is followed by a set. Returns million requests a second, and what
    /// became of them.
    fn serve(&self, threads: &[Requests<'_>]) -> Result<(f64, Served), Failure>;

    /// Stores the keys `from..to` one by one, with maintenance in between as a worker does it. Returns how long each took.
    fn stores(&self, from: u32, to: u32) -> Result<Stores, Failure>;

    /// Executes one operation on the key `id` and calls `pause` in the middle of it.
    fn touch(&self, id: u32, what: Touch, pause: &mut dyn FnMut()) -> Result<(), Failure>;

    /// `sessions` sessions take turns at requests, each a key and whether it is stored. `turn` is called before each with the numbers of the request
    /// and of the session.
    fn in_turn(
        &self,
        sessions: usize,
        requests: &[(u32, bool)],
        turn: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Failure>;

    fn stats(&self) -> EngineStats;

    fn items(&self) -> u64 {
        self.stats().items
    }
}

/// What is done with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Read, with a pause while its value is copied.
    Get,
    /// Stored, with a pause while that is decided.
    Set,
}

/// Seconds of processor time that each store took, and each round of maintenance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stores {
    pub(crate) stores: Vec<f32>,
    pub(crate) maintenance: Vec<f32>,
}

/// Makes a [`Cache`] of an engine.
struct Make;

impl Host for Make {
    type Output = Box<dyn Cache>;

    fn run<E: Engine + Clone>(self, opened: Opened<E>) -> Box<dyn Cache> {
        Box::new(InProcess { engine: opened.engine })
    }
}

struct InProcess<E> {
    engine: E,
}

impl<E: Engine> Cache for InProcess<E> {
    fn fill(&self, count: u32) -> Result<(), Failure> {
        let mut worker = Worker::new(self.engine.session());
        (0..count).try_for_each(|id| {
            worker.set(id)?;
            worker.step();
            Ok(())
        })
    }

    fn serve(&self, threads: &[Requests<'_>]) -> Result<(f64, Served), Failure> {
        let served = Mutex::new(Served::default());
        let rate = rate_of(threads.len(), |thread| {
            let mut worker = Worker::new(self.engine.session());
            let done = worker.serve(threads[thread])?;
            let mut all = served.lock().unwrap_or_else(PoisonError::into_inner);
            all.gets += done.gets;
            all.hits += done.hits;
            all.sets += done.sets;
            all.processor_s += done.processor_s;
            Ok(done.gets + done.sets)
        })?;
        Ok((rate, served.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    fn stores(&self, from: u32, to: u32) -> Result<Stores, Failure> {
        let mut worker = Worker::new(self.engine.session());
        let mut all = Stores::default();
        for id in from..to {
            let begin = thread_cpu_s();
            worker.set(id)?;
            let stored = thread_cpu_s();
            all.stores.push((stored - begin) as f32);
            worker.step();
            if worker.steps.is_multiple_of(BATCH) {
                all.maintenance.push((thread_cpu_s() - stored) as f32);
            }
        }
        Ok(all)
    }

    fn touch(&self, id: u32, what: Touch, pause: &mut dyn FnMut()) -> Result<(), Failure> {
        let mut worker = Worker::new(self.engine.session());
        match what {
            Touch::Set => worker.set_with(id, pause),
            Touch::Get => {
                let bytes = key(id);
                let session = worker.driver.session();
                let key = Key { bytes: &bytes, hash: session.hash(&bytes) };
                session.read(key, Default::default(), NOW, &mut Pausing { pause, pin: PhantomData });
                Ok(())
            }
        }
    }

    fn in_turn(
        &self,
        sessions: usize,
        requests: &[(u32, bool)],
        turn: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Failure> {
        let mut workers: Vec<_> =
            (0..sessions).map(|_| Box::new(Worker::new(self.engine.session()))).collect();
        for (number, &(id, is_stored)) in requests.iter().enumerate() {
            let worker = &mut workers[number % sessions];
            turn(number, number % sessions);
            if is_stored {
                worker.set(id)?;
            } else {
                let bytes = key(id);
                let lookup = worker.driver.look_up(&bytes);
                worker.get(&bytes, lookup);
            }
            worker.step();
        }
        Ok(())
    }

    fn stats(&self) -> EngineStats {
        self.engine.stats()
    }
}

/// A thread at work on an engine.
struct Worker<S: Session> {
    driver: Driver<S, VALUE>,
    value: [u8; VALUE],
    steps: usize,
}

fn key(id: u32) -> [u8; KEY] {
    let mut key = *b"keys-of-16-bytes";
    key[8..].copy_from_slice(&mix64(u64::from(id)).to_le_bytes());
    key
}

impl<S: Session> Worker<S> {
    fn new(session: S) -> Self {
        Self { driver: Driver::new(session, MAINTENANCE), value: [7; VALUE], steps: 0 }
    }

    /// Ends a batch after every [`BATCH`] operations.
    fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(BATCH) {
            self.driver.end_batch(NOW);
        }
    }

    fn set(&mut self, id: u32) -> Result<(), Failure> {
        self.set_with(id, || {})
    }

    #[inline(always)]
    fn set_with(&mut self, id: u32, pause: impl FnMut()) -> Result<(), Failure> {
        let bytes = key(id);
        let lookup = self.driver.look_up(&bytes);
        self.driver.set_with(&bytes, lookup, &self.value, Expiry::Never, NOW, pause).map_err(failed)
    }

    #[inline]
    fn get(&mut self, bytes: &[u8; KEY], lookup: Lookup<S>) -> bool {
        self.driver.get(bytes, lookup, NOW) == Some(&self.value)
    }

    /// Reads the keys of a batch, prefetched first if they are several, then stores those that missed.
    fn get_all(&mut self, ids: &[u32], served: &mut Served) -> Result<(), Failure> {
        let mut keys = [[0; KEY]; BATCH];
        let mut lookups = [Lookup::default(); BATCH];
        let (keys, lookups) = (&mut keys[..ids.len()], &mut lookups[..ids.len()]);
        keys.iter_mut().zip(ids).for_each(|(bytes, &id)| *bytes = key(id));
        match keys {
            [one] => lookups[0] = self.driver.look_up(one),
            _ => self.driver.look_ahead(keys.iter().map(<[u8; KEY]>::as_slice), lookups),
        }
        for ((bytes, lookup), &id) in keys.iter().zip(lookups.iter()).zip(ids) {
            served.gets += 1;
            if self.get(bytes, *lookup) {
                served.hits += 1;
            } else {
                self.set(id)?;
            }
            self.step();
        }
        Ok(())
    }

    fn serve(&mut self, requests: Requests<'_>) -> Result<Served, Failure> {
        let mut served = Served::default();
        let (begin, mut sets) = (thread_cpu_s(), 0);
        for ids in requests.keys.chunks(requests.at_once.clamp(1, BATCH)) {
            // Sets come at even distances, between batches.
            sets += ids.len();
            if requests.set_each > 0 && sets >= requests.set_each {
                sets -= requests.set_each;
                let (first, rest) = ids.split_first().ok_or_else(|| Failure::Other("no keys".to_owned()))?;
                self.set(*first)?;
                served.sets += 1;
                self.step();
                self.get_all(rest, &mut served)?;
            } else {
                self.get_all(ids, &mut served)?;
            }
        }
        self.driver.session().quiesce();
        served.processor_s = thread_cpu_s() - begin;
        Ok(served)
    }
}

/// Stands still while a value is copied.
struct Pausing<'p, P> {
    pause: &'p mut dyn FnMut(),
    pin: PhantomData<P>,
}

impl<P: ValuePin> Sink for Pausing<'_, P> {
    type Pin = P;

    fn wants(&self) -> Want {
        Want::Value
    }

    fn found<I: ItemView>(&mut self, _item: &I) {
        (self.pause)();
    }

    fn undo(&mut self) {}

    fn recency(&self) -> Recency {
        Recency::Bump
    }

    fn pinned(&mut self, _meta: &Meta, _pin: P) {}
}

#[cfg(test)]
mod tests {
    use super::{CONFIGS, Requests, Touch};

    #[test]
    fn who_touches_a_key_comes_by_the_pause() {
        for config in CONFIGS {
            let cache = config.open(16 << 20).unwrap();
            for what in [Touch::Set, Touch::Get] {
                let mut paused = 0;
                cache.touch(1, what, &mut || paused += 1).unwrap();
                assert_eq!(paused, 1, "{} {what:?}", config.name);
            }
            let timed = cache.stores(2, 1_002).unwrap();
            assert_eq!((timed.stores.len(), timed.maintenance.len(), cache.items()), (1_000, 31, 1_001));
        }
    }

    #[test]
    fn each_cache_serves_what_it_was_given_and_stores_what_it_misses() {
        for config in CONFIGS {
            let cache = config.open(16 << 20).unwrap();
            cache.fill(1000).unwrap();
            let keys: Vec<u32> = (500..1500).collect();
            for at_once in [1, 32] {
                let requests = Requests { keys: &keys, set_each: 0, at_once };
                let (rate, served) = cache.serve(&[requests]).unwrap();
                let hits = if at_once == 1 { 500 } else { 1000 };
                assert_eq!((served.gets, served.hits, served.sets), (1000, hits, 0), "{}", config.name);
                assert!(rate > 0.0);
            }
            assert_eq!(cache.items(), 1500, "{}", config.name);
            let requests = Requests { keys: &keys, set_each: 20, at_once: 1 };
            let (_, served) = cache.serve(&[requests; 2]).unwrap();
            assert_eq!((served.gets, served.hits, served.sets), (1900, 1900, 100), "{}", config.name);
        }
    }

    #[test]
    fn a_cache_that_is_too_small_evicts() {
        for config in CONFIGS {
            let cache = config.open(16 << 20).unwrap();
            cache.fill(1_000_000).unwrap();
            assert!((100_000..400_000).contains(&cache.items()), "{}: {}", config.name, cache.items());
        }
    }
}
