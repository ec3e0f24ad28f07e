//! What is done to a cache: plans made of a fuzzer's bytes.

use crate::world::{FACTS, Modelled, World};
use arbitrary::{Arbitrary, Unstructured};
use guira_contract::{Amendment, Digits, Engine, Expiry, ItemState, Pace, Recency};
use guira_slab::EngineOptions;
use guira_slab::{ChainedEngine, CuckooEngine, Hashing, SlabOptions};

/// The engine's options, and what is done to it.
#[derive(Arbitrary, Debug)]
struct Plan {
    mebibytes: u8,
    crowded: bool,
    chained: bool,
    ops: Vec<Op>,
}

/// One thing to do.
#[derive(Arbitrary, Debug)]
enum Op {
    Store { key: u8, length: Length, fill: u8, flags: u8, lives: Option<u8>, cas: Option<u64>, told: bool },
    Fill { first: u8, count: u8, length: u8 },
    Read { key: u8 },
    Remove { key: u8 },
    Amend { key: u8, lives: Option<Option<u8>>, cas: Option<u64>, set: u8, clear: u8, number: Option<u32> },
    Join { key: u8, before: Length, after: Length, fill: u8 },
    Abandon { key: u8, length: Length },
    Pin { key: u8 },
    Unpin { index: u8 },
    Flush { delay: u8 },
    Advance { seconds: u16 },
    Maintain { busy: bool, budget: u8 },
    Switch,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Length {
    Short(u8),
    Middle(u16),
    Long(u32),
}

/// What a fuzz input may ask for without taking seconds.
const OPS_MAX: usize = 400;
const FILLED_MAX: u64 = 16_000;

/// Does what the plan says that is made of `input`.
pub fn check(input: &[u8]) {
    if let Ok(plan) = Plan::arbitrary_take_rest(Unstructured::new(input)) {
        run(plan);
    }
}

fn run(plan: Plan) {
    let options = SlabOptions {
        engine: EngineOptions {
            memory: (2 + usize::from(plan.mebibytes % 3)) << 20,
            hashing: if plan.crowded { Hashing::Fixed(crowded) } else { Hashing::Seeded(1) },
            ..EngineOptions::default()
        },
        stripes: 64,
        ..SlabOptions::default()
    };
    const GOOD: &str = "the options are good";
    if plan.chained {
        try_out(ChainedEngine::open(options).expect(GOOD), plan.ops);
    } else {
        try_out(CuckooEngine::open(options).expect(GOOD), plan.ops);
    }
}

fn try_out<E: Engine>(engine: E, ops: Vec<Op>) {
    let mut world = World::new(engine);
    for op in ops.into_iter().take(OPS_MAX) {
        step(&mut world, op);
    }
    world.finish();
}

/// Few hashes for many keys.
fn crowded(key: &[u8]) -> u64 {
    let folded = key.iter().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    (folded % 61 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Length {
    fn bytes(self, fill: u8) -> Vec<u8> {
        let length = match self {
            Length::Short(length) => usize::from(length),
            Length::Middle(length) => usize::from(length) % 20_000,
            Length::Long(length) => length as usize % 700_000,
        };
        (0..length).map(|i| fill.wrapping_add((i + (i >> 8)) as u8)).collect()
    }
}

/// No item has the cas unique 0; the commands give none either.
fn unique(cas: Option<u64>) -> Option<u64> {
    cas.filter(|cas| *cas != 0)
}

fn step(world: &mut World<impl Engine>, op: Op) {
    match op {
        Op::Store { key, length, fill, flags, lives, cas, told } => {
            let (value, expiry, cas) = (length.bytes(fill), world.expiry(lives), unique(cas));
            let item = Modelled { value, flags: u32::from(flags) << 20, expiry, cas, facts: flags & FACTS };
            world.store(u32::from(key), item, told);
        }
        Op::Fill { first, count, length } => fill(world, first, count, length),
        Op::Read { key } => world.read(u32::from(key)),
        Op::Remove { key } => world.remove(u32::from(key)),
        Op::Amend { key, lives, cas, set, clear, number } => {
            let expiry = lives.map(|lives| world.expiry(lives));
            let (set, clear) = (ItemState(set & FACTS), ItemState(clear & FACTS));
            let change =
                Amendment { expiry, cas: unique(cas), set, clear, overwrite: None, recency: Recency::Bump };
            world.amend(u32::from(key), change, number.map(|number| Digits::of(u64::from(number))));
        }
        Op::Join { key, before, after, fill } => {
            world.join(u32::from(key), &before.bytes(fill), &after.bytes(!fill));
        }
        Op::Abandon { key, length } => world.abandon(u32::from(key), &length.bytes(0)),
        Op::Pin { key } => world.pin(u32::from(key)),
        Op::Unpin { index } => world.unpin(usize::from(index)),
        Op::Flush { delay } => world.flush(u32::from(delay)),
        Op::Advance { seconds } => world.advance(u32::from(seconds)),
        Op::Maintain { busy, budget } => {
            let pace = if busy { Pace::Busy } else { Pace::Idle };
            world.maintain(pace, usize::from(budget));
        }
        Op::Switch => world.switch(),
    }
}

fn fill(world: &mut World<impl Engine>, first: u8, count: u8, length: u8) {
    for i in 0..u32::from(count) * 16 {
        if world.stored() < FILLED_MAX {
            let value = vec![i as u8; usize::from(length % 64)];
            let item = Modelled { value, flags: 0, expiry: Expiry::Never, cas: None, facts: 0 };
            world.store(256 + u32::from(first) * 64 + i, item, true);
        }
    }
    world.maintain(Pace::Busy, 16);
}
