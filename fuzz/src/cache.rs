//! A cache beside a map that says what it may hold.

use arbitrary::Arbitrary;
use guira_contract::suite::value_of;
use guira_contract::{
    Amendment, Decision, Digits, Engine, Expiry, ItemState, ItemView, Key, NewItem, Pace, Read, Recency, Refusal,
    Room, Session, Sink, Value, ValueDraft, ValuePin, Want,
};
use guira_slab::{Hashing, SlabDraft, SlabEngine, SlabOptions, SlabPin, SlabSession};
use guira_sync::clock::Seconds;
use std::collections::HashMap;

/// The engine's options, and what is done to it.
#[derive(Arbitrary, Debug)]
pub struct Plan {
    mebibytes: u8,
    crowded: bool,
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
const FILLED_MAX: u32 = 16_000;

const FACTS: u8 = ItemState::STALE.0 | ItemState::TOKEN_SENT.0 | ItemState::BINARY_KEY.0;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Modelled {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    cas: Option<u64>,
    facts: u8,
}

#[derive(Debug)]
struct World {
    engine: SlabEngine,
    sessions: [SlabSession; 2],
    active: usize,
    model: HashMap<u32, Modelled>,
    pins: Vec<(SlabPin, Vec<u8>)>,
    now: Seconds,
    flush_due: Option<Seconds>,
    /// Items that were there no more, and had neither been removed nor flushed nor expired.
    lost: u64,
    filled: u32,
}

/// Does what `plan` says.
pub fn run(plan: Plan) {
    let options = SlabOptions {
        memory: (2 + usize::from(plan.mebibytes % 3)) << 20,
        stripes: 64,
        hashing: if plan.crowded { Hashing::Fixed(crowded) } else { Hashing::Seeded(1) },
        ..SlabOptions::default()
    };
    let engine = SlabEngine::open(options).expect("the options are good");
    let sessions = [engine.session(), engine.session()];
    sessions.iter().skip(1).for_each(|_| ());
    let mut world = World {
        engine,
        sessions,
        active: 0,
        model: HashMap::new(),
        pins: Vec::new(),
        now: Seconds(1000),
        flush_due: None,
        lost: 0,
        filled: 0,
    };
    world.sessions[1].offline();
    for op in plan.ops.into_iter().take(OPS_MAX) {
        world.step(op);
    }
    world.finish();
}

/// Few hashes for many keys.
fn crowded(key: &[u8]) -> u64 {
    let folded = key.iter().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    (folded % 61 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The key of a number: short ones, and ones of 250 bytes.
fn name(key: u32) -> Vec<u8> {
    let mut name = format!("key-{key}").into_bytes();
    if key % 8 == 7 {
        name.resize(250, b'.');
    }
    name
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

impl World {
    fn step(&mut self, op: Op) {
        match op {
            Op::Store { key, length, fill, flags, lives, cas, told } => {
                let expiry = self.expiry(lives);
                let value = length.bytes(fill);
                let item = Modelled { value, flags: u32::from(flags) << 20, expiry, cas, facts: flags & FACTS };
                self.store(u32::from(key), item, told);
            }
            Op::Fill { first, count, length } => {
                for i in 0..u32::from(count) * 16 {
                    if self.filled < FILLED_MAX {
                        self.filled += 1;
                        let value = vec![i as u8; usize::from(length % 64)];
                        let item = Modelled { value, flags: 0, expiry: Expiry::Never, cas: None, facts: 0 };
                        self.store(256 + u32::from(first) * 64 + i, item, true);
                    }
                }
            }
            Op::Read { key } => self.read(u32::from(key)),
            Op::Remove { key } => {
                self.update(u32::from(key), None, None, |_| Decision::Remove).expect("nothing is needed");
                self.model.remove(&u32::from(key));
            }
            Op::Amend { key, lives, cas, set, clear, number } => {
                let expiry = lives.map(|lives| self.expiry(lives));
                let (set, clear) = (ItemState(set & FACTS), ItemState(clear & FACTS));
                let change = Amendment { expiry, cas, set, clear, overwrite: None, recency: Recency::Bump };
                self.amend(u32::from(key), change, number.map(|number| Digits::of(u64::from(number))));
            }
            Op::Join { key, before, after, fill } => {
                self.join(u32::from(key), &before.bytes(fill), &after.bytes(!fill));
            }
            Op::Abandon { key, length } => self.abandon(u32::from(key), &length.bytes(0)),
            Op::Pin { key } => self.pin(u32::from(key)),
            Op::Unpin { index } if !self.pins.is_empty() => {
                let index = usize::from(index) % self.pins.len();
                let (pin, value) = self.pins.swap_remove(index);
                check_pin(pin, &value);
            }
            Op::Unpin { .. } => {}
            Op::Flush { delay } => {
                let at = Seconds(self.now.0 + u32::from(delay));
                self.engine.flush(self.now, at);
                self.flush_due = (at > self.now).then_some(at);
                if delay == 0 {
                    self.model.clear();
                }
            }
            Op::Advance { seconds } => {
                self.now.0 += u32::from(seconds);
                if self.flush_due.is_some_and(|due| due <= self.now) {
                    self.flush_due = None;
                    self.model.clear();
                }
            }
            Op::Maintain { busy, budget } => {
                let pace = if busy { Pace::Busy } else { Pace::Idle };
                self.session().maintain(self.now, pace, usize::from(budget));
                self.session().quiesce();
            }
            Op::Switch => {
                self.sessions[self.active].offline();
                self.active ^= 1;
                self.sessions[self.active].online();
            }
        }
    }
}
