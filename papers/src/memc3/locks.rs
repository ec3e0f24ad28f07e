//! What finer locks alone bring: memcached's table under one lock, and under a lock for each stripe of its buckets, for
//! claims about memcached's locks. No reply is made and nothing is sent, so that there is nothing but waiting.

use guira_harness::rounds::turns;

use super::drive::{LOAD, Plan, hits_and_misses};
use super::table::{BucketLocks, Bytes, Chaining, GlobalLock, Ours, Small};
use crate::experiment::{Context, Failure};
use crate::figure::Figure;

/// Threads, one number after another.
pub(crate) const THREADS: [usize; 2] = [1, 2];

type Measure = fn(&Plan) -> Result<Vec<[f64; 2]>, Failure>;

const TABLES: [(&str, Measure); 3] = [
    ("memcached's table, one lock", hits_and_misses::<Chaining<Small, Bytes, GlobalLock>>),
    ("memcached's table, a lock for each stripe", hits_and_misses::<Chaining<Small, Bytes, BucketLocks>>),
    ("Guira's index, no locks for readers", hits_and_misses::<Ours<1>>),
];

/// Where one lock is among what is measured, and finer ones.
pub(crate) const ONE: usize = 0;
pub(crate) const FINE: usize = 1;

/// Million lookups a second of a table, by threads: of keys that are there, and of keys that are not.
#[derive(Debug, Clone)]
pub(crate) struct Rates {
    pub(crate) name: &'static str,
    pub(crate) hits: Vec<Figure>,
    pub(crate) misses: Vec<Figure>,
}

pub(crate) fn measure(context: &Context) -> Result<Vec<Rates>, Failure> {
    let mut runs: Vec<Vec<Vec<[f64; 2]>>> = vec![Vec::new(); TABLES.len()];
    for run in 0..context.runs {
        let plan = Plan {
            slots: context.scale.pick(1 << 20, 1 << 14),
            threads: THREADS.to_vec(),
            lookups: context.scale.pick(500_000, 20_000),
            load: LOAD,
            seed: context.seed + u64::from(run),
        };
        for table in turns(run as usize, TABLES.len()) {
            runs[table].push((TABLES[table].1)(&plan)?);
        }
    }
    let figures = |runs: &[Vec<[f64; 2]>], kind: usize| {
        let by_run = |index: usize| runs.iter().map(|run| run[index][kind]).collect::<Vec<_>>();
        (0..THREADS.len()).map(|index| Figure::of(&by_run(index))).collect()
    };
    let rates = TABLES.iter().zip(&runs);
    Ok(rates
        .map(|((name, _), runs)| Rates { name, hits: figures(runs, 0), misses: figures(runs, 1) })
        .collect())
}
