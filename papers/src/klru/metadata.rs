//! K11: what policies note of an item, and what that comes to.

use super::inside::{Inside, KEY, VALUE};
use crate::experiment::{Context, Experiment, Failure};
use crate::outcome::{Outcome, answer, percent, table};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "klru-metadata",
    claims: &["K11"],
    about: "Bytes that policies note of an item, and bytes of memory for an item",
    run,
};

/// memcached 1.6 has a header of 48 bytes before each item, and 8 of its cas unique; two pointers of 8 in it are those
/// of the list.
const THEIR_HEADER: usize = 48 + 8;

const POLICIES: [&str; 5] = ["clock", "klru", "lru", "seg-lru", "lazy-lru"];
const SAMPLED: usize = 1;
const SEGMENTED: usize = 3;
const LAZY: usize = 4;

fn run(context: &Context) -> Result<Outcome, Failure> {
    let keys = context.scale.pick(1_000_000, 50_000);
    let (mut each, mut metadata) = (Vec::new(), Vec::new());
    for policy in POLICIES {
        let inside = Inside::open(policy, context.scale.pick(400 << 20, 32 << 20))?;
        inside.fill(keys);
        let stats = inside.stats();
        each.push(stats.memory_used as f64 / stats.items.max(1) as f64);
        metadata.push(stats.policy_item_bytes);
    }
    let cells = |(index, bytes): (usize, &f64)| {
        let (metadata, more) = (metadata[index].to_string(), format!("{:+.1}", bytes - each[SAMPLED]));
        vec![POLICIES[index].to_owned(), metadata, format!("{bytes:.1}"), more]
    };
    let rows = each.iter().enumerate().map(cells).collect();
    let saves = |other: usize| each[other] - each[SAMPLED];
    let ours = format!(
        "KLRU keeps {} bytes of metadata for an item and one bit, segmented LRU {}, lazy LRU {}: {:.1} bytes of memory less an item than segmented LRU ({} % of {:.1}), {:.1} less than lazy LRU ({} %)",
        metadata[SAMPLED],
        metadata[SEGMENTED],
        metadata[LAZY],
        saves(SEGMENTED),
        percent(saves(SEGMENTED) / each[SEGMENTED]),
        each[SEGMENTED],
        saves(LAZY),
        percent(saves(LAZY) / each[LAZY]),
    );
    Ok(Outcome {
        how: format!(
            "The engine classic with {keys} items of {} bytes of key and value; memory is all that the engine has committed, with its index. The metadata of a policy lies beside the pages, and only what it needs is taken. memcached's header has {THEIR_HEADER} bytes an item, whatever the policy.",
            KEY + VALUE
        ),
        answers: vec![answer(
            "K11",
            ours,
            "The paper's two pointers have 16 bytes; links are numbers of chunks here, 4 bytes each, so there is half as much to save. memcached's pointers stay in each header even where no list is kept.",
        )],
        tables: vec![table("Bytes an item:", &["policy", "metadata", "memory", "more than KLRU"], rows)],
        charts: Vec::new(),
    })
}
