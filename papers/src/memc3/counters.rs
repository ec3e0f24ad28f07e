//! How many version counters suffice (section 3.2.1): retries, counted.

use std::sync::Mutex;

use guira_workload::Rng;

use super::drive::rate_of;
use super::table::{Cuckoo, Optimistic, Ours, SLOTS, Table as Index, Tagged, Writer, key_of};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-counters",
    claims: &["M11"],
    about: "Lookups that had to begin anew because of a version counter, by how many counters there are",
    run,
};

/// Numbers of counters. With the last, hardly two keys share one: what is left are changes to the key itself.
const COUNTERS: [usize; 5] = [1, 64, 1024, 8192, 1 << 22];

/// Where the paper's number is, and the most.
const PAPER: usize = 3;
const MOST: usize = 4;

/// Percent of the slots filled before and after.
const LOAD: (u64, u64) = (84, 90);

/// One thread inserts as fast as it can while another looks up what was there before. Returns lookups that began anew, for a
/// million of them.
fn repeats<T: Index>(table: &T, slots: u32, seed: u64) -> Result<f64, Failure> {
    let (filled, end) = ((u64::from(slots) * LOAD.0 / 100) as u32, (u64::from(slots) * LOAD.1 / 100) as u32);
    let mut writer = Writer::new(seed);
    let full = || Failure::Other("a table is full too early".to_owned());
    let mut insert = |number| table.insert(number, key_of(seed, number), &mut writer);
    (1..=filled).all(&mut insert).then_some(()).ok_or_else(full)?;
    let counts = Mutex::new((0_u64, 0_u64));
    let is_over = guira_sync::atomic::AtomicBool::new(false);
    let order = guira_sync::atomic::Ordering::Relaxed;
    rate_of(2, |thread| {
        if thread == 0 {
            let mut writer = Writer::new(!seed);
            let all =
                (filled + 1..=end).all(|number| table.insert(number, key_of(seed, number), &mut writer));
            is_over.store(true, order);
            return all.then_some(0).ok_or_else(full);
        }
        let mut rng = Rng::part(seed, 1);
        let (mut lookups, mut begun_anew) = (0, 0);
        while !is_over.load(order) {
            let number = rng.below(u64::from(filled)) as u32 + 1;
            let found = table.find(key_of(seed, number));
            lookups += 1;
            begun_anew += u64::from(found.repeats > 0);
            if found.number != number {
                return Err(Failure::Other("a key that is there was not found".to_owned()));
            }
        }
        *counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = (lookups, begun_anew);
        Ok(lookups)
    })?;
    let (lookups, begun_anew) = *counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(begun_anew as f64 * 1e6 / lookups.max(1) as f64)
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let slots: u32 = context.scale.pick(1 << 21, 1 << 17);
    let mut figures = Vec::new();
    for counters in COUNTERS {
        let seed = |run: u32| context.seed + u64::from(run);
        let theirs = Figure::measure(context.runs, |run| {
            let table = Cuckoo::<Tagged, Optimistic, 2>::with(slots / SLOTS, slots, counters)?;
            repeats(&table, slots, seed(run))
        })?;
        let ours = Figure::measure(context.runs, |run| {
            repeats(&Ours::<1>::with(slots, counters)?, slots, seed(run))
        })?;
        figures.push((theirs, ours));
    }
    let row = |(counters, (theirs, ours)): (&usize, &(Figure, Figure))| {
        vec![counters.to_string(), format!("{theirs:.1}"), format!("{ours:.1}")]
    };
    Ok(Outcome {
        how: format!(
            "{:.1} M slots; one thread inserts without a pause, from {} to {} % of them, another looks up. A lookup that began anew is \
             counted once.",
            f64::from(slots) / 1e6,
            LOAD.0,
            LOAD.1
        ),
        answers: vec![Answer {
            claim: "M11".to_owned(),
            ours: format!(
                "with 8192 counters {:.1} of a million lookups begin anew beside a writer that never rests, with {} counters {:.1}; \
                 Guira's index {:.1} and {:.1}",
                figures[PAPER].0.mean,
                COUNTERS[MOST],
                figures[MOST].0.mean,
                figures[PAPER].1.mean,
                figures[MOST].1.mean
            ),
            remark: verdict(&[(
                "sharing makes fewer than one lookup in a thousand begin anew",
                figures[PAPER].0.mean - figures[MOST].0.mean < 1000.0,
            )]) + "Guira's counters cover buckets, of which each insert changes two, so that more lookups meet one.",
        }],
        tables: vec![Table {
            title: "Of a million lookups, those that began anew".to_owned(),
            head: [
                "counters",
                "the paper's table, a counter for a key",
                "Guira's index, a counter for a bucket",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: COUNTERS.iter().zip(&figures).map(row).collect(),
        }],
        charts: Vec::new(),
    })
}
