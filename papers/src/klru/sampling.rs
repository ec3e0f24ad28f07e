//! K10: what drawing K items costs, and what the whole eviction does.

use std::cell::Cell;

use guira_harness::plot::{Axis, Chart, Dot, Line, Steps};
use guira_harness::rounds::median;
use guira_harness::rounds::turns;
use guira_memory::prefetch;
use guira_slab::policy::klru::{Klru, KlruOptions};
use guira_slab::policy::{Arrival, Chunk, Chunks, Moment, Order, Side};
use guira_sync::clock::Stopwatch;
use guira_workload::Rng;

use super::inside::{AVOIDED, Inside, Request, START};
use crate::experiment::{Context, Experiment, Failure};
use crate::figure::Figure;
use crate::outcome::{Outcome, answer, table};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-sampling",
    claims: &["K10"],
    about: "Time to draw K items and find the one that goes, and time of a set that evicts",
    run,
};

const SAMPLES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// What the paper found, in microseconds.
const THEIRS: [f64; 6] = [0.3, 0.5, 1.2, 1.9, 4.2, 6.6];
/// Where 16 is in them.
const USUAL: usize = 4;
/// Victims that are taken at once, as a session does.
const BATCH: usize = 32;

/// Chunks that lie in memory as the engine's do: pages with a bitmap each, metadata beside them, and items of which a
/// look at the expiry costs a line of the cache.
struct Slots {
    metadata: Vec<Cell<u32>>,
    occupied: Vec<u64>,
    items: Vec<Item>,
}

/// As large as an item of 96 bytes with header and link.
struct Item {
    expiry: u32,
    _rest: [u32; 27],
}

const PAGE: u64 = 2304;
const NEVER: u32 = u32::MAX;

impl Slots {
    fn new(pages: u64) -> Self {
        let count = pages * PAGE;
        Self {
            metadata: (0..count).map(|_| Cell::new(0)).collect(),
            occupied: vec![u64::MAX; (count / 64) as usize],
            items: (0..count).map(|_| Item { expiry: NEVER, _rest: [0; 27] }).collect(),
        }
    }
}

impl Chunks for Slots {
    fn note(&self, chunk: Chunk, word: usize) -> u32 {
        self.metadata[chunk as usize + word].get()
    }

    fn set_note(&self, chunk: Chunk, word: usize, value: u32) {
        self.metadata[chunk as usize + word].set(value);
    }

    fn link(&self, _chunk: Chunk, _side: Side) -> u32 {
        0
    }

    fn set_link(&self, _chunk: Chunk, _side: Side, _link: u32) {}

    fn reads(&self, _chunk: Chunk) -> u32 {
        0
    }

    fn fade(&self, _chunk: Chunk) {}

    fn is_recent(&self, _chunk: Chunk) -> bool {
        false
    }

    fn forget(&self, _chunk: Chunk) {}

    fn is_dead(&self, chunk: Chunk) -> bool {
        self.items[chunk as usize].expiry != NEVER
    }

    fn hash(&self, _chunk: Chunk) -> u32 {
        0
    }

    fn any(&self, random: u64) -> Option<Chunk> {
        let pages = self.items.len() as u64 / PAGE;
        let page = ((random >> 32) * pages) >> 32;
        let chunk = page * PAGE + (((random & u64::from(u32::MAX)) * PAGE) >> 32);
        Some(chunk as Chunk)
    }

    fn is_held(&self, chunk: Chunk) -> bool {
        self.occupied[chunk as usize / 64] >> (chunk % 64) & 1 == 1
    }

    fn prefetch(&self, chunk: Chunk) {
        prefetch(&raw const self.items[chunk as usize]);
        prefetch(&raw const self.occupied[chunk as usize / 64]);
        prefetch(self.metadata[chunk as usize].as_ptr());
    }
}

/// Microseconds to find one victim among `samples` samples: the median of batches, which ignores those in which the
/// thread did not run.
fn draw(slots: &Slots, samples: u32, victims: usize, seed: u64) -> f64 {
    let mut order = Klru::new(KlruOptions { samples, ..KlruOptions::default() }, seed);
    let mut rng = Rng::new(seed);
    let ticks = slots.items.len() as u32;
    for chunk in 0..ticks {
        let tick = rng.below(u64::from(ticks)) as u32;
        order.stored(slots, chunk, Arrival::UNKNOWN, Moment { tick, seconds: 0 });
    }
    let mut seconds = Vec::new();
    for batch in 0..victims / BATCH {
        let now = Moment { tick: ticks + batch as u32, seconds: 0 };
        let mut taken = [0; BATCH];
        let mut count = 0;
        let watch = Stopwatch::start();
        order.victims(slots, BATCH, now, |chunk| {
            taken[count] = chunk;
            count += 1;
        });
        seconds.push(watch.elapsed().as_secs_f64());
        taken[..count].iter().for_each(|chunk| order.stored(slots, *chunk, Arrival::UNKNOWN, now));
    }
    1e6 * median(&seconds) / BATCH as f64
}

/// What sets cost with one policy in a full cache, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Sets {
    /// Of a new key: something is evicted.
    evicting: f64,
    /// Of a key that is there.
    replacing: f64,
}

fn run(context: &Context) -> Result<Outcome, Failure> {
    let slots = Slots::new(context.scale.pick(450, 10));
    let victims = context.scale.pick(64_000, 3_200);
    let mut drawn = vec![Vec::new(); SAMPLES.len()];
    for run in 0..context.runs {
        for (index, samples) in SAMPLES.iter().enumerate() {
            drawn[index].push(draw(&slots, *samples, victims, context.seed + u64::from(run)));
        }
    }
    let drawn: Vec<Figure> = drawn.iter().map(|runs| Figure::of(runs)).collect();
    let policies: Vec<String> = SAMPLES
        .iter()
        .map(|samples| format!("klru:samples={samples}"))
        .chain(["lru", "seg-lru", "clock"].map(str::to_owned))
        .collect();
    let sets = sets(context, &policies)?;
    let figure =
        |index: usize, of: fn(&Sets) -> f64| Figure::of(&sets[index].iter().map(of).collect::<Vec<f64>>());
    let eviction: fn(&Sets) -> f64 = |sets| sets.evicting - sets.replacing;
    let mut rows = Vec::new();
    for (index, policy) in policies.iter().enumerate() {
        let ours = drawn.get(index).map_or(String::new(), |figure| format!("{figure:.3}"));
        let theirs = THEIRS.get(index).map_or(String::new(), |theirs| theirs.to_string());
        rows.push(vec![
            policy.clone(),
            theirs,
            ours,
            format!("{:.3}", figure(index, |sets| sets.evicting)),
            format!("{:.3}", figure(index, |sets| sets.replacing)),
            format!("{:.3}", figure(index, eviction)),
        ]);
    }
    let usual = drawn[USUAL];
    let is_met = if usual.mean < 1.0 { "under" } else { "not under" };
    let ours = format!(
        "K = 1 to 32: {} µs; 16 samples take {usual:.2} µs, {is_met} the 1 µs that was wanted; with what it evicts a set takes {:.2} µs, {:.2} with segmented LRU",
        drawn.iter().map(|figure| format!("{:.2}", figure.mean)).collect::<Vec<_>>().join(" "),
        figure(USUAL, |sets| sets.evicting).mean,
        figure(SAMPLES.len() + 1, |sets| sets.evicting).mean,
    );
    Ok(Outcome {
        how: format!(
            "Sampling: KLRU of the engine over {} chunks in arrays that lie in memory as the engine's do (bitmap, metadata, and a look at the expiry of each drawn item), {victims} victims in batches of {BATCH}, which it also takes out of the order; the median of the batches. Sets, in processor time: the engine classic in this process with a full cache of {} MiB and items of 96 bytes, of new keys and of keys that are there. {AVOIDED}",
            slots.items.len(),
            memory(context) >> 20
        ),
        answers: vec![answer(
            "K10",
            ours,
            "Each sample looks at three places in memory that are not in the processor's cache: the page's bitmap, the metadata, and the item for its expiry. All of them are asked for before the first is looked at, those for the next victim while this one is chosen.",
        )],
        tables: vec![table(
            "Microseconds for one victim, and for one set:",
            &["policy", "the paper", "sampling", "set that evicts", "set that replaces", "difference"],
            rows,
        )],
        charts: vec![chart(&drawn)],
    })
}

fn memory(context: &Context) -> usize {
    context.scale.pick(100 << 20, 12 << 20)
}

/// By policy, then by run.
fn sets(context: &Context, policies: &[String]) -> Result<Vec<Vec<Sets>>, Failure> {
    let count = context.scale.pick(200_000, 10_000);
    let full = context.scale.pick(1_400_000, 100_000);
    let mut caches = Vec::new();
    for policy in policies {
        let inside = Inside::open(policy, memory(context))?;
        inside.fill(full);
        caches.push(inside);
    }
    let mut all = vec![Vec::new(); policies.len()];
    for run in 0..context.runs {
        let first = full + run * count;
        let requests: Vec<Request> = (first..first + count).map(Request::set).collect();
        for index in turns(run as usize, policies.len()) {
            let mut hand = caches[index].hand();
            let each = |seconds: f64| 1e6 * seconds / f64::from(count);
            let evicting = each(hand.drive(&requests, START).processor_s);
            let replacing = each(hand.drive(&requests, START).processor_s);
            all[index].push(Sets { evicting, replacing });
        }
    }
    Ok(all)
}

fn chart(drawn: &[Figure]) -> Chart {
    let dots = |of: &dyn Fn(usize) -> (f64, f64)| {
        let dot = |(index, &samples): (usize, &u32)| {
            let (y, spread) = of(index);
            Dot { x: f64::from(samples), y, spread }
        };
        SAMPLES.iter().enumerate().map(dot).collect()
    };
    Chart {
        name: "klru-sampling".to_owned(),
        title: "Drawing K items".to_owned(),
        x: Axis::new("samples", Steps::Logarithmic),
        y: Axis::new("µs a victim", Steps::Logarithmic),
        lines: vec![
            Line::new("here", dots(&|index| (drawn[index].mean, drawn[index].spread))),
            Line::new("the paper", dots(&|index| (THEIRS[index], 0.0))),
        ],
    }
}

#[cfg(test)]
mod tests {
    use guira_slab::policy::Chunks;

    use super::{PAGE, Slots, draw};

    #[test]
    fn every_chunk_may_be_drawn_and_no_other() {
        let slots = Slots::new(3);
        assert_eq!(slots.any(0), Some(0));
        assert_eq!(slots.any(u64::MAX), Some((3 * PAGE - 1) as u32));
        let mut empty = Slots::new(1);
        empty.occupied[0] = !1;
        assert!(!empty.is_held(0) && empty.is_held(1));
        assert!(draw(&slots, 16, 320, 1) > 0.0);
    }
}
