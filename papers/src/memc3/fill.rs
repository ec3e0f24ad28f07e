//! Tables that are filled until they are full (Tab 2 and Fig 6).

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_harness::rounds::turns;
use guira_sync::clock::Stopwatch;

use super::table::{
    Alone, CHAINING_FULL, Chaining, Cuckoo, Huge, Integers, SLOTS, Table as _, Tagged, Writer, hash, key_of,
    ours_bare,
};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Answer, Outcome, Table, verdict};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "memc3-fill",
    claims: &["M7", "M8", "M9"],
    about: "How many keys each index holds until the first insert that fails, and what the inserts cost",
    run,
};

const PAPER_SLOTS: u32 = 1 << 27;

/// Bins of the load factor for which displacements are reported.
const BINS: usize = 50;

/// Bytes of a pointer: the head of a bucket of chaining, and the link in each item.
const POINTER: f64 = 8.0;

/// What became of a table that was filled.
#[derive(Debug, Clone)]
struct Filled {
    keys: u32,
    slots: u64,
    bytes: f64,
    rate: f64,
    /// Displacements for an insert, in each part of the load factor that was filled whole.
    displaced: Vec<f64>,
    mean_displaced: f64,
}

/// Inserts until it fails or `limit` keys are there.
fn fill(slots: u64, limit: u32, bytes: f64, mut insert: impl FnMut(u32) -> Option<u64>) -> Filled {
    let (mut keys, mut displaced) = (0, Vec::new());
    let (mut before, mut last) = (0, 0);
    let mut bin = slots / BINS as u64;
    let watch = Stopwatch::start();
    while keys < limit {
        let Some(now) = insert(keys + 1) else { break };
        keys += 1;
        last = now;
        if u64::from(keys) == bin {
            displaced.push((now - before) as f64 / (slots as f64 / BINS as f64));
            before = now;
            bin = slots * (displaced.len() as u64 + 1) / BINS as u64;
        }
    }
    let rate = f64::from(keys) / watch.elapsed().as_secs_f64() / 1e6;
    let mean_displaced = last as f64 / f64::from(keys.max(1));
    Filled { keys, slots, bytes, rate, displaced, mean_displaced }
}

fn cuckoo<const PATHS: usize>(slots: u32, seed: u64) -> Result<Filled, Failure> {
    // Entries only: nothing is looked up here, and an entry is moved by its tag.
    let table = Cuckoo::<Tagged, Alone, PATHS>::with(slots / SLOTS, 0, 1)?;
    let mut writer = Writer::new(seed);
    Ok(fill(u64::from(slots), u32::MAX, f64::from(slots) * 9.0, |number| {
        table.link(number, hash(key_of(seed, number)), &mut writer).then_some(writer.displaced)
    }))
}

fn ours(slots: u32, seed: u64) -> Result<Filled, Failure> {
    let index = ours_bare(slots, 1);
    let mut displaced = 0;
    let (slots, bytes) = (index.slots(), index.bytes() as f64);
    Ok(fill(slots, u32::MAX, bytes, |number| {
        displaced += index.insert(hash(key_of(seed, number)), u64::from(number))?;
        Some(displaced)
    }))
}

/// The paper's chaining has half as many buckets as its cuckoo table has slots. Returns the longest chain, too.
fn chaining(slots: u32, seed: u64) -> Result<(Filled, u32), Failure> {
    let buckets = slots / 2;
    let keys = (f64::from(buckets) * CHAINING_FULL) as u32;
    let table = Chaining::<Huge, Integers, Alone>::with(buckets, keys)?;
    let mut writer = Writer::new(seed);
    let bytes = POINTER * (f64::from(buckets) + f64::from(keys));
    let filled = fill(u64::from(keys), keys, bytes, |number| {
        table.insert(number, key_of(seed, number), &mut writer).then_some(0)
    });
    Ok((filled, table.longest()))
}

type Fill = fn(u32, u64) -> Result<Filled, Failure>;

const INDEXES: [(&str, Fill); 5] = [
    ("cuckoo, 1 path", cuckoo::<1>),
    ("cuckoo, 2 paths", cuckoo::<2>),
    ("cuckoo, 3 paths", cuckoo::<3>),
    ("cuckoo, 4 paths", cuckoo::<4>),
    ("Guira's index", ours),
];

const OURS: usize = 4;

/// The paper's loads in percent, by paths (Tab 2).
const PAPER_LOADS: [f64; OURS] = [90.84, 92.78, 94.48, 95.19];

fn run(context: &Context) -> Result<Outcome, Failure> {
    let slots = context.scale.pick(1 << 22, 1 << 17);
    let (mut chains, mut longest) = (Vec::new(), Vec::new());
    let mut filled: Vec<Vec<Filled>> = vec![Vec::new(); INDEXES.len()];
    for run in 0..context.runs {
        let seed = context.seed + u64::from(run);
        let (chain, length) = chaining(slots, seed)?;
        chains.push(chain);
        longest.push(f64::from(length));
        for index in turns(run as usize, INDEXES.len()) {
            filled[index].push((INDEXES[index].1)(slots, seed)?);
        }
    }
    let large = context.scale.pick(PAPER_SLOTS, 1 << 19);
    let once = INDEXES.iter().map(|(_, fill)| fill(large, context.seed)).collect::<Result<Vec<_>, _>>()?;
    let longest = Figure::of(&longest);
    let mut rows = vec![row("chaining", &chains, &format!("{longest:.1}"))];
    rows.extend(INDEXES.iter().zip(&filled).map(|((name, _), runs)| row(name, runs, "–")));
    let large_rows =
        INDEXES.iter().zip(&once).map(|((name, _), one)| row(name, std::slice::from_ref(one), "–"));
    let head =
        ["", "M keys", "bytes a key", "load, %", "M inserts/s", "displacements an insert", "longest chain"];
    let table =
        |title: String, rows: Vec<Vec<String>>| Table { title, head: head.map(str::to_owned).to_vec(), rows };
    Ok(Outcome {
        how: format!(
            "One thread; 16 random bytes are hashed, and an entry is made for each key, with nothing behind it but the links of chains. \
             {} runs of tables of {:.1} M slots, and one of each of {:.0} M slots, the paper's size. Bytes are those of the table: 9 a slot \
             for the paper's, 8 a bucket and 8 a link for chaining, which stops at 1.5 items a bucket.",
            context.runs,
            f64::from(slots) / 1e6,
            f64::from(large) / 1e6
        ),
        answers: answers(&chains, longest, &filled, &once),
        tables: vec![
            table("Filled to the limit, mean of the runs (Tab 2)".to_owned(), rows),
            table(format!("The same of {:.0} M slots, once", f64::from(large) / 1e6), large_rows.collect()),
        ],
        charts: vec![chart(&filled)],
    })
}

fn figure(runs: &[Filled], of: impl Fn(&Filled) -> f64) -> Figure {
    Figure::of(&runs.iter().map(of).collect::<Vec<_>>())
}

fn keys(runs: &[Filled]) -> Figure {
    figure(runs, |filled| f64::from(filled.keys) / 1e6)
}

fn bytes_a_key(runs: &[Filled]) -> Figure {
    figure(runs, |filled| filled.bytes / f64::from(filled.keys))
}

fn load(runs: &[Filled]) -> Figure {
    figure(runs, |filled| f64::from(filled.keys) * 100.0 / filled.slots as f64)
}

fn rate(runs: &[Filled]) -> Figure {
    figure(runs, |filled| filled.rate)
}

fn displaced(runs: &[Filled]) -> Figure {
    figure(runs, |filled| filled.mean_displaced)
}

fn row(name: &str, runs: &[Filled], longest: &str) -> Vec<String> {
    let is_cuckoo = longest == "–";
    let only = |text: String| if is_cuckoo { text } else { "–".to_owned() };
    vec![
        name.to_owned(),
        format!("{:.3}", keys(runs)),
        format!("{:.2}", bytes_a_key(runs)),
        only(format!("{:.2}", load(runs))),
        format!("{:.2}", rate(runs)),
        only(format!("{:.3}", displaced(runs))),
        longest.to_owned(),
    ]
}

fn chart(filled: &[Vec<Filled>]) -> Chart {
    let line = |(name, runs): (&str, &[Filled])| {
        let bins = runs.iter().map(|filled| filled.displaced.len()).min().unwrap_or(0);
        let dot = |bin: usize| {
            let figure = figure(runs, |filled| filled.displaced[bin]);
            Dot { x: (bin as f64 + 0.5) * 100.0 / BINS as f64, y: figure.mean, spread: figure.spread }
        };
        Line::new(name, (0..bins).map(dot).collect())
    };
    Chart {
        name: "memc3-displacements".to_owned(),
        title: "Displacements for an insert by load (Fig 6)".to_owned(),
        x: Axis::new("slots filled, %", Steps::Linear),
        y: Axis::new("displacements for an insert", Steps::Linear),
        lines: INDEXES.iter().zip(filled).map(|((name, _), runs)| line((name, runs.as_slice()))).collect(),
    }
}

/// Displacements for an insert up to this load, in percent.
fn displaced_until(runs: &[Filled], percent: usize) -> f64 {
    let bins = percent * BINS / 100;
    figure(runs, |filled| filled.displaced.iter().take(bins).sum::<f64>() / bins as f64).mean
}

fn answers(chains: &[Filled], longest: Figure, filled: &[Vec<Filled>], once: &[Filled]) -> Vec<Answer> {
    let list =
        |each: &dyn Fn(&Filled) -> String| once[..OURS].iter().map(each).collect::<Vec<_>>().join(" / ");
    let rates = filled[..OURS].iter().map(|runs| format!("{:.2}", rate(runs).mean)).collect::<Vec<_>>();
    let ours = &once[OURS];
    let load = |one: &Filled| f64::from(one.keys) * 100.0 / one.slots as f64;
    let is_near = |(one, theirs): (&Filled, &f64)| (load(one) - theirs).abs() < 1.0;
    vec![
        Answer {
            claim: "M7".to_owned(),
            ours: format!(
                "{:.2} B/key at {:.2} M keys, {} M inserts/s, longest chain {longest:.1}",
                bytes_a_key(chains).mean,
                keys(chains).mean,
                rate(chains)
            ),
            remark: "The bytes follow from the design. The table has a 32nd of the paper's buckets; chains are longer in a larger one.".to_owned(),
        },
        Answer {
            claim: "M8".to_owned(),
            ours: format!(
                "at the paper's size: keys {} M; B/key {}; load {} %; inserts {} M/s; Guira's index {:.2} B/key, {:.2} % and {:.2} M/s",
                list(&|one| format!("{:.2}", f64::from(one.keys) / 1e6)),
                list(&|one| format!("{:.2}", one.bytes / f64::from(one.keys))),
                list(&|one| format!("{:.2}", f64::from(one.keys) * 100.0 / one.slots as f64)),
                rates.join(" / "),
                ours.bytes / f64::from(ours.keys),
                f64::from(ours.keys) * 100.0 / ours.slots as f64,
                rate(&filled[OURS]).mean
            ),
            remark: verdict(&[
                ("loads within a point of the paper's", once[..OURS].iter().zip(&PAPER_LOADS).all(is_near)),
                (
                    "more paths cost no inserts",
                    rate(&filled[OURS - 1]).mean > 0.95 * rate(&filled[0]).mean,
                ),
            ]) + "The rates are of the smaller tables. Guira's index stores a slot in 6 bytes and searches breadth first among ten slots a bucket.",
        },
        Answer {
            claim: "M9".to_owned(),
            ours: format!(
                "1 / 2 / 3 / 4 paths: {} an insert until 80 % are filled; {} until the table is full, at the paper's size; Guira's index {:.4} \
                 and {:.3}",
                filled[..OURS]
                    .iter()
                    .map(|runs| format!("{:.3}", displaced_until(runs, 80)))
                    .collect::<Vec<_>>()
                    .join(" / "),
                list(&|one| format!("{:.3}", one.mean_displaced)),
                displaced_until(&filled[OURS], 80),
                ours.mean_displaced
            ),
            remark: verdict(&[
                (
                    "fewer than 0.1 displacements an insert until 80 % are filled",
                    filled[..OURS].iter().all(|runs| displaced_until(runs, 80) < 0.1),
                ),
                (
                    "fewer than 0.4 until the table is full",
                    once[..OURS].iter().all(|one| one.mean_displaced < 0.4),
                ),
                ("Guira's index displaces nothing before 80 %", displaced_until(&filled[OURS], 80) < 1e-4),
            ]) + "The mean is that of all inserts so far: that of the last ones alone is far higher (see the chart). Guira's inserts go to the emptier bucket first.",
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::{INDEXES, chaining, cuckoo, fill};

    #[test]
    fn displacements_are_those_of_each_part_of_the_load() {
        // 100 slots in 50 parts of two inserts: from the 51st insert on each displaces one.
        let filled = fill(100, 90, 900.0, |number| Some(u64::from(number.saturating_sub(50))));
        assert_eq!((filled.keys, filled.displaced.len()), (90, 45));
        assert!(filled.displaced[..25].iter().all(|&displaced| displaced == 0.0));
        assert!(filled.displaced[25..].iter().all(|&displaced| displaced == 1.0));
        assert_eq!(fill(100, 90, 900.0, |number| (number <= 30).then_some(0)).keys, 30);
    }

    #[test]
    fn each_index_is_filled_to_its_limit() {
        for (name, fill) in INDEXES {
            let filled = fill(1 << 14, 1).unwrap();
            let load = f64::from(filled.keys) / filled.slots as f64;
            assert!((0.9..1.0).contains(&load), "{name}: {load}");
        }
        let (chains, longest) = chaining(1 << 14, 1).unwrap();
        assert_eq!(chains.keys, 3 << 12);
        assert!((6..14).contains(&longest), "{longest}");
        assert!(
            cuckoo::<4>(1 << 14, 1).unwrap().mean_displaced < cuckoo::<1>(1 << 14, 1).unwrap().mean_displaced
        );
    }
}
