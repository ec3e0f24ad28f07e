//! The engine's policies over plain arrays, driven one read after the other.

use std::sync::{Mutex, PoisonError};

use guira_sim::Stream;
use guira_sim::policy::{BucketClock, Engine, Id, Policy};
use guira_slab::policy::Order;
use guira_slab::policy::clock::Clock;
use guira_slab::policy::fifo::Fifo;
use guira_slab::policy::klru::{Klru, KlruOptions};
use guira_slab::policy::lazy_lru::LazyLru;
use guira_slab::policy::lru::Lru;
use guira_slab::policy::seg_lru::SegLru;
use guira_workload::Rng;

/// How many requests are a second of a trace that tells no time.
const PACE: u64 = 1000;

/// Replacement as it is simulated here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replacement {
    Klru(u32),
    SegLru,
    LazyLru,
    Lru,
    Fifo,
    /// memc3's, with its two bits.
    Clock,
    /// fleec's, with this many bits.
    BucketClock(u32),
    /// Any object, all alike: what KLRU with one sample is said to be.
    Random,
}

impl Replacement {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Klru(samples) => format!("klru {samples}"),
            Self::SegLru => "seg-lru".to_owned(),
            Self::LazyLru => "lazy-lru".to_owned(),
            Self::Lru => "lru".to_owned(),
            Self::Fifo => "fifo".to_owned(),
            Self::Clock => "clock".to_owned(),
            Self::BucketClock(bits) => format!("bucket-clock {bits}"),
            Self::Random => "random".to_owned(),
        }
    }

    /// Whether two runs on the same requests differ.
    pub(crate) const fn draws(self) -> bool {
        matches!(self, Self::Klru(_) | Self::Random)
    }

    /// Lets `drive` work with a cache of `room` objects for the requests of `stream`.
    pub(crate) fn with<D: Drive>(self, stream: &Stream, room: u64, seed: u64, drive: D) -> D::Output {
        fn engine<O: Order, D: Drive>(order: O, stream: &Stream, room: u64, drive: D) -> D::Output {
            drive.run(&mut Engine::new(order, room, stream, PACE))
        }
        match self {
            Self::Klru(samples) => engine(
                Klru::new(KlruOptions { samples, ..KlruOptions::default() }, seed),
                stream,
                room,
                drive,
            ),
            Self::SegLru => engine(SegLru::default(), stream, room, drive),
            Self::LazyLru => engine(LazyLru::default(), stream, room, drive),
            Self::Lru => engine(Lru::default(), stream, room, drive),
            Self::Fifo => engine(Fifo::default(), stream, room, drive),
            Self::Clock => engine(Clock::default(), stream, room, drive),
            Self::BucketClock(bits) => drive.run(&mut BucketClock::new(room, stream.keys(), bits, 1)),
            Self::Random => drive.run(&mut Random::new(room, stream.keys(), seed)),
        }
    }
}

/// What is done with a cache, whichever policy it has.
pub(crate) trait Drive {
    type Output;
    fn run<P: Policy>(self, cache: &mut P) -> Self::Output;
}

/// Every request reads, and every miss is followed by an insert; what comes of it is the share of misses.
#[derive(Debug)]
pub(crate) struct Misses<'a>(pub(crate) &'a [Id]);

impl Drive for Misses<'_> {
    type Output = f64;

    fn run<P: Policy>(self, cache: &mut P) -> f64 {
        let misses =
            self.0.iter().enumerate().filter(|&(number, &id)| !look_aside(cache, number, id)).count();
        misses as f64 / self.0.len().max(1) as f64
    }
}

/// Reads, and inserts after a miss. Whether it was a hit.
#[inline]
pub(crate) fn look_aside<P: Policy>(cache: &mut P, number: usize, id: Id) -> bool {
    cache.begin(number);
    let is_hit = cache.read(id);
    if !is_hit {
        cache.insert(id, 1);
    }
    is_hit
}

/// Random replacement, written without any of the engine.
struct Random {
    /// Where each key lies; `NOWHERE` if it does not.
    places: Vec<u32>,
    held: Vec<Id>,
    room: usize,
    rng: Rng,
}

const NOWHERE: u32 = u32::MAX;

impl Random {
    fn new(room: u64, keys: usize, seed: u64) -> Self {
        let room = usize::try_from(room).unwrap_or(usize::MAX).min(keys).max(1);
        Self { places: vec![NOWHERE; keys], held: Vec::with_capacity(room), room, rng: Rng::new(seed) }
    }
}

impl Policy for Random {
    fn read(&mut self, id: Id) -> bool {
        self.places[id as usize] != NOWHERE
    }

    fn insert(&mut self, id: Id, _weight: u32) {
        if self.held.len() < self.room {
            self.places[id as usize] = self.held.len() as u32;
            self.held.push(id);
            return;
        }
        let place = self.rng.below(self.held.len() as u64) as usize;
        let old = std::mem::replace(&mut self.held[place], id);
        self.places[old as usize] = NOWHERE;
        self.places[id as usize] = place as u32;
    }

    fn remove(&mut self, id: Id) -> bool {
        let place = std::mem::replace(&mut self.places[id as usize], NOWHERE);
        if place != NOWHERE {
            self.held.swap_remove(place as usize);
            if let Some(&moved) = self.held.get(place as usize) {
                self.places[moved as usize] = place;
            }
        }
        place != NOWHERE
    }

    fn held(&self) -> u64 {
        self.held.len() as u64
    }
}

/// Threads that simulate at the same time.
const THREADS: usize = 2;

/// What `work` makes of each of `jobs`, in their order.
pub(crate) fn in_parallel<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let next = Mutex::new(jobs.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let job = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((index, job)) = job else { return };
                    let made = work(job);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, made));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use guira_sim::policy::Policy;

    use super::{Misses, Random, Replacement, in_parallel};
    use crate::traces::numbered;

    #[test]
    fn random_replacement_holds_as_much_as_there_is_room_and_forgets_what_is_removed() {
        let mut random = Random::new(3, 10, 1);
        (0..7).for_each(|id| random.insert(id, 1));
        assert_eq!((random.held(), random.read(6)), (3, true), "the last one is there");
        let held: Vec<u32> = (0..7).filter(|&id| random.read(id)).collect();
        random.remove(held[0]);
        assert_eq!(random.held(), 2);
        assert_eq!(held.iter().map(|&id| random.read(id)).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn a_loop_that_does_not_fit_misses_always_under_lru_and_not_at_random() {
        let ids: Vec<u32> = (0..1000).map(|number| number % 10).collect();
        let stream = numbered(&ids);
        let misses = |replacement: Replacement| replacement.with(&stream, 9, 1, Misses(stream.ids()));
        assert_eq!(misses(Replacement::Lru), 1.0);
        assert!(misses(Replacement::Random) < 0.5 && misses(Replacement::Klru(1)) < 0.5);
        assert!(misses(Replacement::Klru(16)) > misses(Replacement::Klru(1)));
    }

    #[test]
    fn what_is_done_in_parallel_comes_in_order() {
        let jobs: Vec<u64> = (0..100).collect();
        assert_eq!(in_parallel(&jobs, |job| job * 2), jobs.iter().map(|job| job * 2).collect::<Vec<_>>());
    }
}
