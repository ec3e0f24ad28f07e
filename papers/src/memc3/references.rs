//! What a lookup touches, counted (section 3.1).

use super::table::{
    Alone, Chaining, Cuckoo, Huge, Integers, Key, Ours, Table as Index, Tagged, Untagged, Writer, key_of,
};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-references",
    claims: &["M10"],
    about: "Items that a lookup looks at, counted",
    run,
};

/// How full the tables are, in percent.
const LOAD: u64 = 90;

/// Items looked at for a lookup.
#[derive(Debug, Clone, Copy)]
struct Touched {
    hit: f64,
    miss: f64,
}

fn count<T: Index>(slots: u32, seed: u64) -> Result<Touched, Failure> {
    let table = T::new(slots)?;
    let filled = (u64::from(slots) * LOAD / 100) as u32;
    let mut writer = Writer::new(seed);
    for number in 1..=filled {
        if !table.insert(number, key_of(seed, number), &mut writer) {
            return Err(Failure::Other(format!("a table is full with {number} of {slots} slots")));
        }
    }
    let mean = |key: &dyn Fn(u32) -> Key| {
        (1..=filled).map(|number| f64::from(table.find(key(number)).compared)).sum::<f64>()
            / f64::from(filled)
    };
    // Keys of another seed are not there.
    Ok(Touched { hit: mean(&|number| key_of(seed, number)), miss: mean(&|number| key_of(!seed, number)) })
}

type Count = fn(u32, u64) -> Result<Touched, Failure>;

const INDEXES: [(&str, u32, Count); 4] = [
    ("chaining, 1.5 items a bucket", 1, count::<Chaining<Huge, Integers, Alone>>),
    ("cuckoo without tags", 2, count::<Cuckoo<Untagged, Alone, 2>>),
    ("cuckoo with tags of a byte", 2, count::<Cuckoo<Tagged, Alone, 2>>),
    ("Guira's index, tags of 11 bits", 2, count::<Ours<1>>),
];

const TAGGED: usize = 2;
const OURS: usize = 3;

/// Occupied slots among the 8 candidates of a key.
const CANDIDATES: f64 = 8.0 * LOAD as f64 / 100.0;

fn run(context: &Context) -> Result<Outcome, Failure> {
    let slots = context.scale.pick(1 << 21, 1 << 17);
    let mut all: Vec<Vec<Touched>> = vec![Vec::new(); INDEXES.len()];
    for run in 0..context.runs {
        for ((_, _, count), touched) in INDEXES.iter().zip(&mut all) {
            touched.push(count(slots, context.seed + u64::from(run))?);
        }
    }
    let figure =
        |index: usize, of: fn(&Touched) -> f64| Figure::of(&all[index].iter().map(of).collect::<Vec<_>>());
    let row = |index: usize| {
        let (name, buckets, _) = INDEXES[index];
        let (hit, miss) = (figure(index, |touched| touched.hit), figure(index, |touched| touched.miss));
        vec![name.to_owned(), buckets.to_string(), format!("{hit:.4}"), format!("{miss:.4}")]
    };
    let (hit, miss) = (figure(TAGGED, |touched| touched.hit), figure(TAGGED, |touched| touched.miss));
    let (our_hit, our_miss) = (figure(OURS, |touched| touched.hit), figure(OURS, |touched| touched.miss));
    Ok(Outcome {
        how: format!(
            "{:.1} M slots, {LOAD} % of them filled; every key is looked up once, and as many that are not there.",
            f64::from(slots) / 1e6
        ),
        answers: vec![Answer {
            claim: "M10".to_owned(),
            ours: format!(
                "2 buckets, then {:.4} items on a miss and {:.4} on a hit; tag collision {:.2} % an occupied slot. Guira's index: {:.4} and {:.4}",
                miss.mean,
                hit.mean,
                miss.mean / CANDIDATES * 100.0,
                our_miss.mean,
                our_hit.mean
            ),
            remark: verdict(&[
                ("0.03 items on a miss", (miss.mean - 0.03).abs() < 0.005),
                ("1.03 on a hit", (hit.mean - 1.03).abs() < 0.02),
                ("Guira's 20 slots lead to fewer wrong items", our_miss.mean < miss.mean),
            ]) + "The paper's figures assume that all eight slots are filled and, on a hit, looked at, where a lookup ends at the key. A bucket of 36 bytes lies in two cache lines half of the time unless it is padded; Guira's is a line, with tags of 11 bits.",
        }],
        tables: vec![Table {
            title: "Items looked at for a lookup".to_owned(),
            head: ["", "buckets", "hit", "miss"].map(str::to_owned).to_vec(),
            rows: (0..INDEXES.len()).map(row).collect(),
        }],
        charts: Vec::new(),
    })
}
