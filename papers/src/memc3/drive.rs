//! Threads that look up and insert, against the clock.

use guira_harness::rounds::turns;
use guira_harness::together::{Placement, together};
use guira_workload::Rng;

use super::table::{Table, Writer, key_of};
use crate::experiment::Failure;
use crate::figure::Figure;

/// One operation in this many of the mixed load is an insert.
const INSERT_EACH: u32 = 10;

/// The most lookups that are asked for at once.
const BATCH_MAX: usize = 32;

/// Percent of the slots that are filled while there are only lookups, and at the end of the mixed load: inserts are
/// measured where the paper's table is nearly full, since before they displace nothing.
pub(super) const LOAD: (u32, u32) = (84, 90);

/// What a table is put through.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) slots: u32,
    /// Numbers of threads, one after another on the same table.
    pub(super) threads: Vec<usize>,
    pub(super) lookups: u32,
    /// As [`LOAD`].
    pub(super) load: (u32, u32),
    pub(super) seed: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) lookups: f64,
    /// Nine of those, then an insert.
    pub(super) mixed: f64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) threads: usize,
    pub(super) lookups: Figure,
    pub(super) mixed: Figure,
}

/// Puts a table through a plan.
pub(super) type Measure = fn(&Plan) -> Result<Vec<Rates>, Failure>;

/// Puts all tables through a plan in turns, `runs` times: a point for each number of threads of each table.
pub(super) fn measure_all(
    tables: &[(&str, Measure)],
    plan: &Plan,
    runs: u32,
) -> Result<Vec<Vec<Point>>, Failure> {
    let mut all: Vec<Vec<Vec<Rates>>> = vec![Vec::new(); tables.len()];
    for run in 0..runs {
        for table in turns(run as usize, tables.len()) {
            let plan = Plan { seed: plan.seed + u64::from(run), ..plan.clone() };
            all[table].push((tables[table].1)(&plan)?);
        }
    }
    let point = |runs: &[Vec<Rates>], index: usize| {
        let of = |rate: fn(&Rates) -> f64| {
            Figure::of(&runs.iter().map(|rates| rate(&rates[index])).collect::<Vec<_>>())
        };
        Point {
            threads: plan.threads[index],
            lookups: of(|rates| rates.lookups),
            mixed: of(|rates| rates.mixed),
        }
    };
    Ok(all.iter().map(|runs| (0..plan.threads.len()).map(|index| point(runs, index)).collect()).collect())
}

impl Plan {
    /// So many percent of the slots.
    fn share(&self, percent: u32) -> u32 {
        (u64::from(self.slots) * u64::from(percent) / 100) as u32
    }

    /// A table that is filled as far as it is for lookups, and what lies in it.
    fn fill<T: Table>(&self) -> Result<(T, Keys), Failure> {
        let table = T::new(self.slots)?;
        let filled = self.share(self.load.0);
        let mut writer = Writer::new(self.seed);
        for number in 1..=filled {
            if !table.insert(number, key_of(self.seed, number), &mut writer) {
                return Err(Failure::Other(format!("a table is full with {number} of {} slots", self.slots)));
            }
        }
        Ok((table, Keys { seed: self.seed, filled }))
    }
}

/// Fills a table, and measures lookups with each number of threads: of keys that are there, and of keys that are not. In millions a
/// second.
pub(super) fn hits_and_misses<T: Table>(plan: &Plan) -> Result<Vec<[f64; 2]>, Failure> {
    let (table, keys) = plan.fill::<T>()?;
    let rates = plan.threads.iter().map(|&threads| {
        let each = plan.lookups / threads as u32;
        let hits = rate_of(threads, |thread| keys.look_up(&table, thread, each))?;
        Ok([hits, rate_of(threads, |thread| keys.miss(&table, thread, each))?])
    });
    rates.collect()
}

/// Fills a table, and measures both loads with each number of threads.
pub(super) fn measure<T: Table>(plan: &Plan) -> Result<Vec<Rates>, Failure> {
    let (table, keys) = plan.fill::<T>()?;
    let filled = keys.filled;
    let each = (plan.share(plan.load.1) - filled) / plan.threads.len() as u32;
    let mut rates = Vec::new();
    for (turn, &threads) in plan.threads.iter().enumerate() {
        let lookups = rate_of(threads, |thread| keys.look_up(&table, thread, plan.lookups / threads as u32))?;
        let first = filled + 1 + turn as u32 * each;
        let part = each / threads as u32;
        let mixed = rate_of(threads, |thread| keys.mix(&table, thread, first + thread as u32 * part, part))?;
        rates.push(Rates { lookups, mixed });
    }
    Ok(rates)
}

/// Runs `work` on `threads` threads at the same time, each pinned to a processor. Each returns how many operations it did; the result is
/// millions of operations a second of all of them.
pub(crate) fn rate_of<W>(threads: usize, work: W) -> Result<f64, Failure>
where
    W: Fn(usize) -> Result<u64, Failure> + Sync,
{
    let (done, seconds) = together(threads, Placement::Pinned, work);
    let operations: u64 = done.into_iter().sum::<Result<u64, Failure>>()?;
    Ok(operations as f64 / seconds / 1e6)
}

#[derive(Debug, Clone, Copy)]
struct Keys {
    seed: u64,
    filled: u32,
}

impl Keys {
    fn draw(self, rng: &mut Rng) -> u32 {
        rng.below(u64::from(self.filled)) as u32 + 1
    }

    /// Draws `count` keys, at most [`BATCH_MAX`], and looks them up. Returns how many were found.
    #[inline(always)]
    fn find<T: Table>(self, table: &T, rng: &mut Rng, count: usize) -> u64 {
        let key = |number| key_of(self.seed, number);
        if count == 1 {
            let number = self.draw(rng);
            return u64::from(table.find(key(number)).number == number);
        }
        let mut numbers = [0; BATCH_MAX];
        let numbers = &mut numbers[..count];
        for number in numbers.iter_mut() {
            *number = self.draw(rng);
            table.ask(key(*number));
        }
        numbers.iter().filter(|&&number| table.find(key(number)).number == number).count() as u64
    }

    fn look_up<T: Table>(self, table: &T, thread: usize, count: u32) -> Result<u64, Failure> {
        let mut rng = Rng::part(self.seed, thread as u64);
        let batches = count / T::BATCH as u32;
        let found = (0..batches).map(|_| self.find(table, &mut rng, T::BATCH)).sum();
        self.require(found, u64::from(batches) * T::BATCH as u64)
    }

    /// Looks up keys that are not there, one by one.
    fn miss<T: Table>(self, table: &T, thread: usize, count: u32) -> Result<u64, Failure> {
        let mut rng = Rng::part(self.seed, thread as u64);
        let absent = |rng: &mut Rng| key_of(self.seed, u32::MAX - self.draw(rng));
        let missed = (0..count).filter(|_| table.find(absent(&mut rng)).number == 0).count() as u64;
        self.require(missed, u64::from(count))
    }

    fn mix<T: Table>(self, table: &T, thread: usize, first: u32, inserts: u32) -> Result<u64, Failure> {
        let mut rng = Rng::part(self.seed, !(thread as u64));
        let mut writer = Writer::new(self.seed ^ u64::from(first));
        let mut done = 0;
        for number in first..first + inserts {
            // A batch is what there is between two inserts.
            let (batches, size) =
                if T::BATCH == 1 { (INSERT_EACH - 1, 1) } else { (1, INSERT_EACH as usize - 1) };
            for _ in 0..batches {
                done += self.find(table, &mut rng, size);
            }
            done += u64::from(table.insert(number, key_of(self.seed, number), &mut writer));
        }
        self.require(done, u64::from(inserts) * u64::from(INSERT_EACH))
    }

    fn require(self, done: u64, wanted: u64) -> Result<u64, Failure> {
        if done == wanted {
            return Ok(done);
        }
        Err(Failure::Other(format!("{} of {wanted} operations failed", wanted - done)))
    }
}
