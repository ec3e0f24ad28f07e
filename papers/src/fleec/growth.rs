//! Growth of the table: the longest that any operation takes meanwhile.

use super::{CLASSIC, ENGINES, FLEEC, MEMC3};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table};
use guira_harness::rounds::median;
use guira_harness::rounds::turns;
use guira_roster::HugePages;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "fleec-growth",
    claims: &["F3"],
    about: "Processor time of each store while the table doubles",
    run,
};

/// Those that are compared: memclock grows as fleec does.
const COMPARED: [usize; 3] = [CLASSIC, MEMC3, FLEEC];

/// Pages of the system: as the engine asks for them, and small ones, which take the system less to give.
const PAGES: [(&str, Option<HugePages>); 2] = [("huge", None), ("4 KiB", Some(HugePages::No))];
const SMALL: usize = 1;

/// Processor time of one run, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Point {
    median: f64,
    /// One in ten thousand takes longer.
    slow: f64,
    longest: f64,
    longest_maintenance: f64,
}

fn longest(times: &[f32]) -> f64 {
    f64::from(times.iter().copied().fold(0.0, f32::max)) * 1e6
}

fn measure(
    engine: usize,
    pages: Option<HugePages>,
    [from, to]: [u32; 2],
    memory: usize,
) -> Result<Point, Failure> {
    let cache = ENGINES[engine].open_in(memory, pages)?;
    cache.fill(from)?;
    let mut timed = cache.stores(from, to)?;
    if cache.items() < u64::from(to) {
        return Err(Failure::Other(format!("{}: items were evicted", ENGINES[engine].name)));
    }
    timed.stores.sort_unstable_by(f32::total_cmp);
    let at = |share: f64| f64::from(timed.stores[(timed.stores.len() as f64 * share) as usize]) * 1e6;
    Ok(Point {
        median: at(0.5),
        slow: at(0.9999),
        longest: longest(&timed.stores),
        longest_maintenance: longest(&timed.maintenance),
    })
}

/// All points: by the system's pages, then by engine, then by run.
struct All(Vec<Vec<Vec<Point>>>);

impl All {
    fn figure(&self, pages: usize, index: usize, of: fn(&Point) -> f64) -> Figure {
        Figure::of(&self.0[pages][index].iter().map(of).collect::<Vec<f64>>())
    }

    fn summary(&self, pages: usize) -> String {
        let of = |(index, &engine): (usize, &usize)| {
            let all = self.0[pages][index].iter().map(|point| point.longest);
            format!("{} {:.0}", ENGINES[engine].name, median(&all.collect::<Vec<f64>>()))
        };
        COMPARED.iter().enumerate().map(of).collect::<Vec<_>>().join(", ")
    }

    fn rows(&self, pages: usize) -> impl Iterator<Item = Vec<String>> {
        COMPARED.iter().enumerate().map(move |(index, &engine)| {
            let all = || self.0[pages][index].iter().map(|point| point.longest);
            vec![
                PAGES[pages].0.to_owned(),
                ENGINES[engine].name.to_owned(),
                self.figure(pages, index, |point| point.median).to_string(),
                self.figure(pages, index, |point| point.slow).to_string(),
                format!("{:.0}", median(&all().collect::<Vec<f64>>())),
                format!("{:.0}", all().fold(0.0, f64::max)),
                format!(
                    "{:.0}",
                    median(
                        &self.0[pages][index]
                            .iter()
                            .map(|point| point.longest_maintenance)
                            .collect::<Vec<f64>>()
                    )
                ),
            ]
        })
    }
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick([4_000_000, 8_000_000], [40_000, 80_000]);
    let memory = context.scale.pick(1 << 30, 64 << 20);
    let mut all = vec![vec![Vec::new(); COMPARED.len()]; PAGES.len()];
    for run in 0..context.runs as usize {
        for (pages, (_, kind)) in PAGES.iter().enumerate() {
            for index in turns(run, COMPARED.len()) {
                all[pages][index].push(measure(COMPARED[index], *kind, keys, memory)?);
            }
        }
    }
    let all = All(all);
    Ok(Outcome {
        how: format!(
            "One thread stores {} M keys of 16 + 32 bytes after {} M, in the engine in this process, with a slice of maintenance after every 32 as a worker does it. Time is the thread's own processor time, what the system does for it in page faults and interrupts included; the longest is the median of the runs' longest.",
            f64::from(keys[1] - keys[0]) / 1e6,
            f64::from(keys[0]) / 1e6
        ),
        answers: vec![answer(
            "F3",
            format!(
                "longest store while the table doubles, us: with pages of 4 KiB {}; with huge pages {}",
                all.summary(SMALL),
                all.summary(0)
            ),
            "Delays over a network, where threads wait for each other, are in F1. With huge pages a store may wait until the system has cleared 2 MiB.",
        )],
        tables: vec![table(
            "Microseconds of processor time:",
            &[
                "pages",
                "engine",
                "median store",
                "one in 10,000",
                "longest",
                "longest of all runs",
                "longest maintenance",
            ],
            (0..PAGES.len()).flat_map(|pages| all.rows(pages)).collect(),
        )],
        charts: Vec::new(),
    })
}
