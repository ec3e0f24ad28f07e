//! K15: the lock of the slab allocator, if its first eight classes share one, four or eight.
//!
//! The engine has a lock for each class and no switch: what is measured is a small allocator of its own, in which a
//! chunk is taken from its class for every store and the old one given back, as memcached does it.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_harness::process::thread_cpu_s;
use guira_harness::rounds::turns;
use guira_harness::together::{Placement, together};
use guira_workload::Rng;

use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, Table, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-locks",
    claims: &["K15"],
    about: "Stores per second into a slab allocator whose classes share locks, and how often they wait",
    run,
};

const CLASSES: usize = 8;
const LOCKS: [usize; 3] = [1, 4, 8];
const THREADS: [usize; 4] = [1, 2, 4, 8];
/// The value of an item of Twitter's cluster 32.
const VALUE: usize = 138;
const CHUNK: usize = 192;

/// A chunk, owned by the thread that took it.
type Chunk = Box<[u8; CHUNK]>;

/// Free chunks of eight classes, under fewer locks or as many.
struct Slabs {
    /// Class `c` is under lock `c % locks.len()`, in place `c / locks.len()`.
    locks: Vec<Mutex<Vec<Vec<Chunk>>>>,
}

impl Slabs {
    /// `count` locks, and `chunks` free chunks in each class.
    fn new(count: usize, free: usize) -> Self {
        let chunks = || (0..free).map(|_| Box::new([0; CHUNK])).collect();
        let lists = || Mutex::new((0..CLASSES / count).map(|_| chunks()).collect());
        Self { locks: (0..count).map(|_| lists()).collect() }
    }

    /// The free chunks that are under one lock with those of `class`; counts if the lock was taken.
    fn lock(&self, class: usize, waits: &mut u64) -> MutexGuard<'_, Vec<Vec<Chunk>>> {
        let lock = &self.locks[class % self.locks.len()];
        match lock.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                *waits += 1;
                lock.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// A free chunk, marked as taken under the lock as memcached marks it.
    fn take(&self, class: usize, waits: &mut u64) -> Option<Chunk> {
        let mut guard = self.lock(class, waits);
        let mut chunk = guard[class / self.locks.len()].pop()?;
        chunk[0] = 1;
        Some(chunk)
    }

    fn give(&self, class: usize, mut chunk: Chunk, waits: &mut u64) {
        let mut guard = self.lock(class, waits);
        chunk[0] = 0;
        guard[class / self.locks.len()].push(chunk);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    /// Millions of requests per second.
    rate: f64,
    /// Millions of requests per second of processor time.
    rate_of_core: f64,
    /// Waits in a thousand times that a lock was taken.
    waits: f64,
}

const KEYS: usize = 4096;

#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// How often it took a lock, and how often it waited for one.
    taken: u64,
    waits: u64,
    processor_s: f64,
}

/// Requests of one thread by the mix of Twitter's cluster 32: 98 of 100 store.
fn store(slabs: &Slabs, requests: usize, seed: u64) -> Work {
    let begin = thread_cpu_s();
    let mut rng = Rng::new(seed);
    let mut held: Vec<Option<(usize, Chunk)>> = (0..KEYS).map(|_| None).collect();
    let (mut taken, mut waits, mut read) = (0, 0, 0_u64);
    let value = [7; VALUE];
    for _ in 0..requests {
        let random = rng.next_u64();
        let key = random as usize % KEYS;
        if random >> 32 & 0xff < 5 {
            read += held[key].as_ref().map_or(0, |(_, chunk)| u64::from(chunk[VALUE]));
            continue;
        }
        let class = (random >> 48) as usize % CLASSES;
        taken += 1;
        if let Some(mut chunk) = slabs.take(class, &mut waits) {
            chunk[8..8 + VALUE].copy_from_slice(&value);
            if let Some((class, chunk)) = held[key].replace((class, chunk)) {
                taken += 1;
                slabs.give(class, chunk, &mut waits);
            }
        }
    }
    for (class, chunk) in held.into_iter().flatten() {
        slabs.give(class, chunk, &mut waits);
    }
    std::hint::black_box(read);
    Work { taken, waits, processor_s: thread_cpu_s() - begin }
}

fn drive(slabs: &Slabs, threads: usize, requests: usize, seed: u64) -> Stored {
    let work = |thread| store(slabs, requests / threads, seed + thread as u64);
    let (done, seconds) = together(threads, Placement::Free, work);
    let sum = |of: fn(&Work) -> f64| done.iter().map(of).sum::<f64>();
    Stored {
        rate: requests as f64 / seconds / 1e6,
        rate_of_core: requests as f64 / sum(|work| work.processor_s).max(1e-9) / 1e6,
        waits: 1e3 * sum(|work| work.waits as f64) / sum(|work| work.taken as f64).max(1.0),
    }
}

/// By threads, then by locks, then by run.
struct All(Vec<Vec<Vec<Stored>>>);

impl All {
    fn figure(&self, threads: usize, locks: usize, of: fn(&Stored) -> f64) -> Figure {
        Figure::of(&self.0[threads][locks].iter().map(of).collect::<Vec<f64>>())
    }

    fn summary(&self, threads: usize) -> String {
        let of = |locks: usize| {
            let rate = self.figure(threads, locks, |stored| stored.rate_of_core);
            let waits = self.figure(threads, locks, |stored| stored.waits);
            format!("{:.1} M/s with {} ({:.1} waits in 1,000)", rate.mean, LOCKS[locks], waits.mean)
        };
        (0..LOCKS.len()).map(of).collect::<Vec<_>>().join(", ")
    }

    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for (threads, number) in THREADS.iter().enumerate() {
            for (locks, count) in LOCKS.iter().enumerate() {
                let cell = |of| self.figure(threads, locks, of).to_string();
                rows.push(vec![
                    number.to_string(),
                    count.to_string(),
                    cell(|stored| stored.rate),
                    cell(|stored| stored.rate_of_core),
                    cell(|stored| stored.waits),
                ]);
            }
        }
        let head =
            ["threads", "locks", "million requests a second", "a second of processor time", "waits in 1,000"];
        table("By threads and locks:", &head, rows)
    }

    fn chart(&self) -> Chart {
        let lines = LOCKS.iter().enumerate().map(|(locks, count)| {
            let dot = |(threads, &number): (usize, &usize)| {
                let waits = self.figure(threads, locks, |stored| stored.waits);
                Dot { x: number as f64, y: waits.mean, spread: waits.spread }
            };
            Line::new(&format!("{count} locks"), THREADS.iter().enumerate().map(dot).collect())
        });
        Chart {
            name: "klru-locks".to_owned(),
            title: "Waits for the allocator's locks".to_owned(),
            x: Axis::new("threads on two cores", Steps::Linear),
            y: Axis::new("waits in 1,000", Steps::Linear),
            lines: lines.collect(),
        }
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let slabs = LOCKS.map(|count| Slabs::new(count, context.scale.pick(20_000, 8_000)));
    let requests = context.scale.pick(1_000_000, 50_000);
    let of_threads = |&threads: &usize| {
        let mut stored = vec![Vec::new(); LOCKS.len()];
        for run in 0..context.runs as usize {
            for index in turns(run, LOCKS.len()) {
                stored[index].push(drive(&slabs[index], threads, requests, context.seed + run as u64));
            }
        }
        stored
    };
    let all = All(THREADS.iter().map(of_threads).collect());
    // By threads: two on two cores, and the most.
    let rises = |of: fn(&Stored) -> f64| {
        [1, 3].iter().all(|&threads| {
            let at = |locks: usize| all.figure(threads, locks, of).mean;
            (1..LOCKS.len()).all(|locks| at(locks) > at(locks - 1))
        })
    };
    let remark = verdict(&[
        ("more locks, more stores", rises(|stored| stored.rate_of_core)),
        ("more locks, fewer waits", rises(|stored| -stored.waits)),
    ]);
    Ok(Outcome {
        how: format!(
            "An allocator of eight classes in this process, as a type of the experiment: 98 of 100 requests take a chunk, fill it with {VALUE} bytes and give the old one of their key back, {requests} requests a point. The machine has two cores: 4 and 8 threads are oversubscribed. A wait is a lock that somebody else had."
        ),
        answers: vec![answer(
            "K15",
            format!(
                "2 threads: {}; 8 threads: {} (rates of a second of processor time)",
                all.summary(1),
                all.summary(3)
            ),
            remark + "The engine has a lock for each class, and takes up to 32 chunks under it at once.",
        )],
        tables: vec![all.table()],
        charts: vec![all.chart()],
    })
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, LOCKS, Slabs, drive};

    fn free(slabs: &Slabs) -> usize {
        slabs.locks.iter().map(|lock| lock.lock().unwrap().iter().map(Vec::len).sum::<usize>()).sum()
    }

    #[test]
    fn every_chunk_comes_back_to_its_class() {
        for count in LOCKS {
            let slabs = Slabs::new(count, 1000);
            assert!(drive(&slabs, 2, 20_000, 1).rate > 0.0);
            assert_eq!(free(&slabs), 1000 * CLASSES);
        }
    }

    #[test]
    fn classes_are_apart_and_their_chunks_end() {
        let slabs = Slabs::new(4, 1);
        let mut waits = 0;
        let first = slabs.take(1, &mut waits).unwrap();
        assert!(slabs.take(1, &mut waits).is_none(), "it had one");
        assert!(slabs.take(5, &mut waits).is_some(), "which is under the same lock");
        slabs.give(1, first, &mut waits);
        assert!(slabs.take(1, &mut waits).is_some());
        assert_eq!(waits, 0, "no other thread was there");
    }
}
