//! The engine `classic` inside this process: what a policy costs without a network.

use guira_slab::EngineOptions;
use std::fmt;

use guira_contract::{Control, Engine, EngineStats, Expiry, Pace, Session, Spec};
use guira_harness::driver::{Driver, Lookup, Maintenance};
use guira_harness::process::thread_cpu_s;
use guira_harness::together::{Placement, together};
use guira_slab::{ChainedEngine, Policy, SlabOptions};
use guira_sync::clock::{Seconds, Stopwatch};
use guira_workload::{Generator, KeyShape, Model, Operation, Rng, ValuePool};

use crate::experiment::Failure;
use crate::experiment::failed;

/// Bytes of a key; with the value an item has the paper's 96.
pub(super) const KEY: usize = 16;
pub(super) const VALUE: usize = 80;
/// The largest item: small, so that a small cache may be opened.
const LARGEST: usize = 4096;
/// Requests between two quiescent points, as a worker has them.
const BATCH: usize = 64;
const MAINTENANCE: Maintenance = Maintenance { every: 1, steps: 32 };
/// What has to be known of the sizes of full caches here. A page is taken if there is memory for it, and what is noted of its chunks
/// is charged after that: if there is none left for the metadata, the page is drained again, and so on for ever.
pub(super) const AVOIDED: &str = "Sizes of memory were chosen: where less was left than the metadata of one more page takes (8, 24 and 128 MiB with KLRU, 64 MiB with lazy LRU), the engine took and drained that page again and again, and evicted page by page whatever the policy; it does not any more.";
/// When nothing expires.
pub(super) const START: Seconds = Seconds(1_000);

/// A request, made before the clock runs: the number of a key, and whether it stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request(u32);

impl Request {
    const STORES: u32 = 1 << 31;

    pub(super) const fn get(id: u32) -> Self {
        Self(id)
    }

    pub(super) const fn set(id: u32) -> Self {
        Self(id | Self::STORES)
    }

    const fn id(self) -> u64 {
        (self.0 & !Self::STORES) as u64
    }

    const fn stores(self) -> bool {
        self.0 & Self::STORES != 0
    }
}

pub(super) fn draw(model: &Model, count: usize, seed: u64) -> Vec<Request> {
    let mut generator = Generator::new(model.clone(), Rng::new(seed));
    let request = |_| {
        let operation = generator.operation();
        let id = generator.id(operation) as u32;
        if operation == Operation::Set { Request::set(id) } else { Request::get(id) }
    };
    (0..count).map(request).collect()
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Driven {
    pub(super) requests: u64,
    pub(super) gets: u64,
    pub(super) hits: u64,
    pub(super) seconds: f64,
    /// Seconds of processor time, of all threads together.
    pub(super) processor_s: f64,
}

impl Driven {
    /// Millions of requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9) / 1e6
    }

    /// Millions of requests per second of processor time.
    pub(super) fn rate_of_core(&self) -> f64 {
        self.requests as f64 / self.processor_s.max(1e-9) / 1e6
    }

    pub(super) fn miss_ratio(&self) -> f64 {
        (self.gets - self.hits) as f64 / self.gets.max(1) as f64
    }
}

/// A cache with the engine `classic`.
pub(super) struct Inside {
    engine: ChainedEngine,
    keys: KeyShape,
    values: ValuePool,
}

impl fmt::Debug for Inside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Inside").finish_non_exhaustive()
    }
}

impl Inside {
    /// An empty cache with this policy and so much memory.
    pub(super) fn open(policy: &str, memory: usize) -> Result<Self, Failure> {
        let policy = Policy::read(&Spec::parse(policy).map_err(failed)?).map_err(failed)?;
        let options = SlabOptions {
            engine: EngineOptions { memory, max_item_size: LARGEST, ..EngineOptions::default() },
            policy,
            ..SlabOptions::default()
        };
        let engine = ChainedEngine::open(options).map_err(failed)?;
        Ok(Self { engine, keys: KeyShape::sixteen(), values: ValuePool::new(VALUE) })
    }

    pub(super) fn engine(&self) -> &ChainedEngine {
        &self.engine
    }

    pub(super) fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    pub(super) fn hand(&self) -> Hand<'_> {
        Hand {
            inside: self,
            driver: Driver::new(self.engine.session(), MAINTENANCE),
            bytes: Vec::new(),
            expiry: Expiry::Never,
        }
    }

    /// Stores the keys numbered `0..count`, the most popular last.
    pub(super) fn fill(&self, count: u32) {
        let requests: Vec<Request> = (0..count).rev().map(Request::set).collect();
        self.hand().drive(&requests, START);
    }

    /// Has a thread for each of `parts` do its requests, all at the same time.
    pub(super) fn drive(&self, parts: &[Vec<Request>]) -> Driven {
        let (done, seconds) =
            together(parts.len(), Placement::Free, |index| self.hand().drive(&parts[index], START));
        done.iter().fold(Driven { seconds, ..Driven::default() }, |sum, part| Driven {
            requests: sum.requests + part.requests,
            gets: sum.gets + part.gets,
            hits: sum.hits + part.hits,
            processor_s: sum.processor_s + part.processor_s,
            ..sum
        })
    }
}

/// One thread's work in a cache.
pub(super) struct Hand<'a> {
    inside: &'a Inside,
    driver: Driver<<ChainedEngine as Engine>::Session, VALUE>,
    /// The keys of a batch, one after the other.
    bytes: Vec<u8>,
    /// When what it stores expires.
    expiry: Expiry,
}

impl fmt::Debug for Hand<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Hand").finish_non_exhaustive()
    }
}

impl Hand<'_> {
    /// From now on what is stored expires then.
    pub(super) fn expire(&mut self, expiry: Expiry) {
        self.expiry = expiry;
    }

    /// Maintains the engine as an idle worker does. Returns the seconds of processor time that it took.
    pub(super) fn idle(&mut self, now: Seconds, steps: usize) -> f64 {
        let begin = thread_cpu_s();
        let session = self.driver.session();
        session.quiesce();
        session.maintain(now, Pace::Idle, steps);
        thread_cpu_s() - begin
    }

    /// Executes `requests` in batches, as a worker does: a get that misses is followed by a set.
    pub(super) fn drive(&mut self, requests: &[Request], now: Seconds) -> Driven {
        let (watch, begin) = (Stopwatch::start(), thread_cpu_s());
        let mut driven = Driven { requests: requests.len() as u64, ..Driven::default() };
        for batch in requests.chunks(BATCH) {
            self.batch(batch, now, &mut driven);
        }
        driven.seconds = watch.elapsed().as_secs_f64();
        driven.processor_s = thread_cpu_s() - begin;
        driven
    }

    fn batch(&mut self, batch: &[Request], now: Seconds, driven: &mut Driven) {
        self.bytes.clear();
        batch.iter().for_each(|request| self.inside.keys.append(request.id(), &mut self.bytes));
        let mut lookups = [Lookup::default(); BATCH];
        let lookups = &mut lookups[..batch.len()];
        self.driver.look_ahead(self.bytes.chunks(KEY), lookups);
        for ((request, key), lookup) in batch.iter().zip(self.bytes.chunks(KEY)).zip(&*lookups) {
            if !request.stores() {
                driven.gets += 1;
                if self.driver.get(key, *lookup, now).is_some() {
                    driven.hits += 1;
                    continue;
                }
            }
            let value = self.inside.values.get(request.id(), VALUE).unwrap_or_default();
            // A refusal would show as a miss.
            let _refused = self.driver.set(key, *lookup, value, self.expiry, now);
        }
        self.driver.end_batch(now);
    }
}

#[cfg(test)]
mod tests {
    use guira_contract::Expiry;
    use guira_sync::clock::Seconds;

    use super::{Inside, Request, START};

    const MIB: usize = 1 << 20;

    #[test]
    fn what_was_filled_is_found_by_all_threads() {
        let inside = Inside::open("klru", 16 * MIB).unwrap();
        inside.fill(10_000);
        let gets: Vec<Request> = (0..10_000).map(Request::get).collect();
        let driven = inside.drive(&[gets.clone(), gets]);
        assert_eq!((driven.requests, driven.gets, driven.hits), (20_000, 20_000, 20_000));
        assert_eq!(inside.stats().items, 10_000);
    }

    #[test]
    fn a_miss_is_followed_by_a_set_and_a_full_cache_evicts() {
        let inside = Inside::open("seg-lru", 4 * MIB).unwrap();
        let gets: Vec<Request> = (0..100_000).map(Request::get).collect();
        assert_eq!(inside.hand().drive(&gets, START).hits, 0);
        assert_eq!(inside.hand().drive(&gets[99_990..], START).hits, 10);
        assert!(inside.stats().evictions > 50_000);
    }

    #[test]
    fn what_expires_is_there_no_more() {
        let inside = Inside::open("klru", 16 * MIB).unwrap();
        let mut hand = inside.hand();
        hand.expire(Expiry::At(Seconds(START.0 + 60)));
        hand.drive(&[Request::set(1), Request::set(2)], START);
        assert_eq!(hand.drive(&[Request::get(1)], Seconds(START.0 + 59)).hits, 1);
        assert_eq!(hand.drive(&[Request::get(2)], Seconds(START.0 + 60)).hits, 0);
    }
}
