//! The working sets of two families of keys, by the day and by the week, as the advice of a node tells them.

use guira_advice::{Advisor, Observed, Pulse, Subjects, What};
use guira_slab::Policy;
use guira_sync::clock::Seconds;
use guira_workload::Rng;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use crate::experiment::{Context, Experiment, Failure, failed};
use crate::outcome::{Outcome, answer, table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "facebook-churn",
    claims: &["S6"],
    about: "Working sets of a family of high churn and of one of low churn, by the day and by the week, as stats mrc tells them",
    run,
};

const DAY: u32 = 24 * 3600;
const DAYS: u32 = 15;
/// The smallest and the largest length of an item.
const LENGTHS: [u32; 2] = [200, 600];

/// A family: so many keys a day, and the share of them that are others the next day.
struct FamilyModel {
    prefix: &'static str,
    keys: u64,
    churn: f64,
}

const FAMILIES: [FamilyModel; 2] = [
    FamilyModel { prefix: "high", keys: 20_000, churn: 0.9 },
    FamilyModel { prefix: "low", keys: 20_000, churn: 0.02 },
];

/// The keys of a day: as the days go by, others take the places of the first ones.
fn keys_of(family: &FamilyModel, day: u32) -> impl Iterator<Item = u64> + use<> {
    let first = (f64::from(day) * family.churn * family.keys as f64) as u64;
    first..first + family.keys
}

/// What the advice tells of a family: keys of a day and of a week, and the smallest, mean and largest bytes of either.
#[derive(Debug, Clone, Copy)]
struct Told {
    keys: [f64; 2],
    bytes: [[u64; 3]; 2],
}

/// What was told, and the keys of each family that were asked for on each day.
type Learnt = ([Told; 2], [Vec<HashSet<u64>>; 2]);

fn learn(context: &Context) -> Result<Learnt, Failure> {
    let advisor = Advisor::new(24 << 20, b':', (Subjects::Sizes, &[]));
    let (mut rng, hasher) = (Rng::new(context.seed), BuildHasherDefault::<DefaultHasher>::default());
    let mut reads = 0u64;
    let mut asked = [(); 2].map(|()| vec![HashSet::new(); DAYS as usize]);
    for day in 0..DAYS {
        for hour in 0..24 {
            let now = Seconds(1000 + day * DAY + hour * 3600);
            reads += 100_000;
            let (hits, busy) = (reads, Duration::from_secs(u64::from(day * 24 + hour) * 1800));
            advisor.pulse(Pulse { now, reads, hits, busy, capacity: 1e8, ..Pulse::default() }, Some(Policy::default()), &[]);
            for (family, asked) in FAMILIES.iter().zip(&mut asked) {
                for number in keys_of(family, day) {
                    // Each key is asked for about three times a day.
                    if rng.below(8) != 0 {
                        continue;
                    }
                    asked[day as usize].insert(number);
                    let key = format!("{}:{number}", family.prefix);
                    let hash = hasher.hash_one(&key);
                    if hash >= advisor.threshold() {
                        continue;
                    }
                    let weight = LENGTHS[rng.below(2) as usize];
                    let what = What::Hit { weight, expires: u32::MAX };
                    advisor.see(Observed { key: key.as_bytes(), hash, what }, now);
                }
            }
        }
    }
    let advice = advisor.advice().ok_or_else(|| failed("the advisor has too little memory"))?;
    let mut told = Vec::new();
    for family in &FAMILIES {
        let found = advice.families.iter().find(|found| *found.prefix == *family.prefix.as_bytes());
        let sets = found.ok_or_else(|| failed("the advice lacks a family"))?.long_sets;
        told.push(Told { keys: sets.map(|set| set.keys as f64), bytes: sets.map(|set| set.bytes) });
    }
    Ok(([told[0], told[1]], asked))
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let (told, asked) = learn(context)?;
    let mut rows = Vec::new();
    let mut off = 0.0f64;
    for (place, family) in FAMILIES.iter().enumerate() {
        let told = told[place];
        // Those of the last whole day, and the last whole week.
        let real = [DAYS - 2, DAYS - 8].map(|first| {
            let days = &asked[place][first as usize..DAYS as usize - 1];
            days.iter().flatten().collect::<HashSet<_>>().len() as f64
        });
        for (place, name) in ["day", "week"].into_iter().enumerate() {
            off = off.max((told.keys[place] / real[place] - 1.0).abs());
            let mut row = vec![family.prefix.to_owned(), name.to_owned(), format!("{:.0}", real[place])];
            row.push(format!("{:.0}", told.keys[place]));
            row.extend(told.bytes[place].map(|bytes| format!("{:.1}", bytes as f64 / 1e6)));
            rows.push(row);
        }
    }
    let [high, low] = told.map(|told| told.keys[1] / told.keys[0]);
    Ok(Outcome {
        how: format!(
            "Two families of {} keys a day, of which {:.0} and {:.0} % are others the next day, in the advice of a node (`stats mrc`) for {DAYS} days of its clock; items of {} or {} B at random. \
             The node samples keys by their hash, as many as there is time for; the paper sampled one item in a million.",
            FAMILIES[0].keys,
            100.0 * FAMILIES[0].churn,
            100.0 * FAMILIES[1].churn,
            LENGTHS[0],
            LENGTHS[1]
        ),
        answers: vec![answer(
            "S6",
            format!(
                "the weekly set is {high:.1} times the daily one for the family of high churn, {low:.2} times for the other; the sample is off by {:.0} % at most",
                100.0 * off
            ),
            verdict(&[
                ("the weekly set is far above the daily one where keys churn", high >= 3.0),
                ("it is near it where they do not", low <= 1.3),
                ("the sample tells how many keys there were within a tenth", off <= 0.1),
            ]),
        )],
        tables: vec![table(
            "Keys, and millions of bytes with the smallest, mean and largest length of each key:",
            &["family", "in a", "keys", "told", "smallest", "mean", "largest"],
            rows,
        )],
        charts: Vec::new(),
    })
}
