//! A Region that somebody has changed while nobody used it.

use super::restarts::{UNIX, close, open, options};
use super::scratch::Scratch;
use super::tools::{Random, check, get, pin_of, put, remove};
use crate::index::BUCKET_BYTES;
use crate::plan::Plan;
use crate::{Fits, ItemStore, Log, MicaEngine, MicaOptions};
use guira_contract::suite::{self, Costs, Image, Lasting, Part, walk_all};
use guira_contract::{Control, Engine, Opening, Pace, Session};
use guira_items::EngineOptions;
use guira_memory::HugePages;
use guira_memory::lasting::{BLOCK_BYTES, Found, Kept, RegionFile};
use guira_sync::clock::Seconds;

fn parts<S: ItemStore>(engine: &MicaEngine<S>) -> Vec<Part> {
    let plan = engine.core.plan;
    let mut parts = Vec::new();
    for (number, partition) in engine.core.partitions.iter().enumerate() {
        let index = partition.index().buckets() as usize * BUCKET_BYTES;
        let spares = partition.index().spares_reached() as usize * BUCKET_BYTES;
        let reached = partition.store().reached() as usize * 8;
        let mut part = |name, at: usize, length: usize, costs| {
            if length > 0 {
                parts.push(Part { name, at: at..at + length, costs });
            }
        };
        part("an index", plan.index_at(number), index, Costs::Anything);
        part("spare buckets", plan.spares_at(number), spares, Costs::Anything);
        part("items", plan.store_at(number), reached, Costs::ItsItems);
        part("items", plan.store_at(number), reached, Costs::ItsItems);
        let unused = (plan.store_at(number) + reached).next_multiple_of(BLOCK_BYTES);
        part("what was never used", unused, BLOCK_BYTES, Costs::Nothing);
    }
    parts
}

/// Every spare bucket that was ever used is in use or free. (Whoever looks at all chunks of a store puts those that are free on their lists: that can be done only when
/// it is opened.)
fn check_spares(engine: &MicaEngine<Fits>) {
    for index in engine.core.partitions.iter().map(|partition| partition.index()) {
        let [.., spares, in_use, free] = index.saved();
        let behind = |link: u32| {
            std::iter::successors(index.linked(link), |bucket| index.linked(bucket.link())).count() as u64
        };
        let used: u64 = (0..index.buckets() as u32).map(|number| behind(index.bucket(number).link())).sum();
        assert_eq!((used, behind(free as u32)), (in_use, spares - in_use));
    }
}

fn no_value_is_another<S: ItemStore>(name: &str, check: &dyn Fn(&MicaEngine<S>)) {
    for (seed, memory) in [(1, 8 << 20), (2, 10 << 20)] {
        let scratch = Scratch::new(&format!("{name}-{seed}"));
        let opened = || MicaEngine::<S>::open_lasting(options(memory), &scratch.place(), UNIX + 998).unwrap();
        let lasting = Lasting { place: scratch.place(), open: &opened, parts: &parts, beside: 0, check };
        suite::damage(&lasting, seed, 20);
    }
}

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged_of_a_cache() {
    no_value_is_another::<Log>("cache", &check);
}

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged_of_a_store() {
    no_value_is_another::<Fits>("store", &check_spares);
}

const KEYS: u32 = 6000;

fn small() -> MicaOptions {
    let memory = 2 << 20;
    MicaOptions {
        engine: EngineOptions { memory, reserve: memory, max_item_size: 32 << 10, ..options(memory).engine },
        partitions: 2,
        ..options(memory)
    }
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 150 + number as usize % 300]
}

/// A file that was closed in order, kept to be written again.
struct Closed {
    scratch: Scratch,
    image: Image,
    plan: Plan,
    buckets: usize,
}

impl Closed {
    /// That of an engine whose log has gone around. Some items were removed. It has no sums, so that what is changed in it is looked at.
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let engine = open(&scratch, small()).engine;
        let plan = engine.core.plan;
        let mut session = engine.session();
        for number in (0..KEYS).chain(0..KEYS) {
            put(&mut session, &format!("key{number}"), &value(number)).unwrap();
            if number % 7 == 0 {
                remove(&mut session, &format!("key{number}"));
            }
        }
        put(&mut session, "long", &[77; 20_000]).unwrap();
        drop(session);
        let stats = engine.stats();
        assert!(stats.evictions > 0 && stats.items > 1000, "{stats:?}");
        let buckets = engine.core.partitions[0].index().buckets() as usize;
        close(engine);
        let image = Image::of(scratch.place().path()).without_sums();
        Closed { scratch, image, plan, buckets }
    }

    /// Writes the file again, with these changes.
    fn write(&self, changes: &[(usize, u64)]) {
        self.image.write(changes.iter().map(|(at, word)| (*at, word.to_le_bytes())));
    }

    fn word(&self, at: usize) -> u64 {
        self.image.word(at)
    }

    fn kept(&self) -> (RegionFile, Kept) {
        match RegionFile::open(&self.scratch.place()).unwrap() {
            (file, Found::Kept(kept)) => (file, kept),
            (_, found) => panic!("{found:?}"),
        }
    }

    /// Opens it and does all there is to do with it: none of it may panic, or go on for ever. No more than `damaged` keys have another value.
    fn use_it(&self, what: &str, damaged: usize) -> bool {
        let opened = open(&self.scratch, small());
        let now = opened.base.reached;
        let engine = opened.engine;
        check(&engine);
        let mut session = engine.session();
        let is_wrong = |number: &u32, session: &mut _| {
            let found = get(session, &format!("key{number}"));
            found.is_some_and(|found| found != value(*number))
        };
        let wrong = (0..KEYS).filter(|number| is_wrong(number, &mut session)).count();
        assert!(wrong <= damaged, "{what}: {wrong} keys have another value");
        drop(pin_of(&mut session, "long"));
        walk_all(&mut session, now);
        // Half of them go, and do not come back.
        for number in (0..KEYS).step_by(2) {
            remove(&mut session, &format!("key{number}"));
        }
        let back = (0..KEYS).step_by(2).find(|number| get(&mut session, &format!("key{number}")).is_some());
        assert_eq!(back, None, "{what}");
        for number in 0..KEYS {
            put(&mut session, &format!("new{number}"), &value(number)).unwrap();
            let found = get(&mut session, &format!("new{number}"));
            assert!(found == Some(value(number)), "{what}: {number}");
        }
        engine.flush(now, now);
        put(&mut session, "last", b"v").unwrap();
        for round in 0..20 {
            session.maintain(Seconds(now.0 + 40 * round), Pace::Idle, 16);
        }
        drop(session);
        let stats = engine.stats();
        assert!(stats.items < 100_000 && stats.bytes < 2 << 20, "{what}: {stats:?}");
        close(engine);
        matches!(opened.opening, Opening::Restored { .. })
    }
}

#[test]
fn a_log_with_a_word_changed_is_emptied_or_only_that_item_is_damaged() {
    let closed = Closed::new("log");
    let (mut random, mut restored, rounds) = (Random(1), 0, 200);
    for round in 0..rounds {
        let log = closed.plan.store_at(random.below(2));
        let place = |random: &mut Random| log + random.below(110_000) * 8;
        let (at, other) = (place(&mut random), place(&mut random));
        let is = match random.below(6) {
            0 => 0,
            1 => closed.word(other),
            2 => u64::MAX,
            3 => closed.word(at) ^ 1 << 28,
            _ => closed.word(at) ^ 1 << random.below(64),
        };
        closed.write(&[(at, is)]);
        restored += u32::from(closed.use_it(&format!("round {round}: {is:x} at {at:x}"), 1));
    }
    assert!(restored > rounds / 4 && restored < rounds, "{restored}");
}

#[test]
fn an_index_with_a_word_changed_is_emptied_or_leads_to_what_is_there() {
    let closed = Closed::new("index");
    let (mut random, mut restored, rounds) = (Random(2), 0, 200);
    for round in 0..rounds {
        let index = closed.plan.index_at(random.below(2));
        let place = |random: &mut Random| index + random.below(closed.buckets * BUCKET_BYTES / 8) * 8;
        let at = place(&mut random);
        let other = (at & !63) + random.below(8) * 8;
        let is = match random.below(7) {
            0 => 0,
            1 => closed.word(place(&mut random)),
            2 => u64::MAX,
            // One slot of a bucket leads to where another does, at least in part.
            3 => closed.word(other),
            4 => closed.word(at) << 32 | closed.word(at) >> 32,
            _ => closed.word(at) ^ 1 << random.below(64),
        };
        closed.write(&[(at, is)]);
        restored += u32::from(closed.use_it(&format!("round {round}: {is:x} at {at:x}"), 0));
    }
    assert!(restored > 10 && restored < rounds, "{restored}");
}

/// Two slots of a bucket lead to one item, and none to another: so there are as many as items.
#[test]
fn an_index_that_leads_to_an_item_twice_is_emptied() {
    let closed = Closed::new("twice");
    let (mut tried, mut emptied) = (0, 0);
    for bucket in 0..closed.buckets {
        let at = closed.plan.index_at(0) + bucket * BUCKET_BYTES;
        let byte = |place: usize| closed.image.bytes()[at + place];
        let used: Vec<usize> = (0..15).filter(|slot| byte(4 + 2 * slot) | byte(5 + 2 * slot) != 0).collect();
        let [first, second, ..] = used[..] else { continue };
        let mut bytes = closed.image.bytes()[at..at + BUCKET_BYTES].to_vec();
        // Tag, and both parts of the offset.
        for (start, length) in [(4, 2), (34, 2), (68, 4)] {
            let from = start + length * first;
            bytes.copy_within(from..from + length, start + length * second);
        }
        let word = |number: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[number * 8 + i]));
        let changes: Vec<_> = (0..BUCKET_BYTES / 8).map(|number| (at + number * 8, word(number))).collect();
        closed.write(&changes);
        emptied += u32::from(!closed.use_it(&format!("bucket {bucket}"), 0));
        tried += 1;
        if tried == 20 {
            break;
        }
    }
    // Some slots lead to what is gone, and nothing depends on them.
    assert!(tried == 20 && emptied > 15, "{emptied} of {tried}");
}

/// The numbers that the engine leaves in the head are whatever somebody wrote there.
#[test]
fn no_state_makes_the_engine_panic_or_forget_what_is_stored_next() {
    let closed = Closed::new("state");
    closed.write(&[]);
    let numbers = closed.kept().1.state.len() / 8;
    let mut restored = 0;
    for number in 0..numbers {
        for change in 0..7 {
            closed.write(&[]);
            let (file, mut kept) = closed.kept();
            let place = number * 8..number * 8 + 8;
            let was = u64::from_le_bytes(kept.state[place.clone()].try_into().unwrap());
            let is = [0, 1, was ^ 1, was.wrapping_add(1000), u64::MAX, 1 << 47, was ^ 1 << 32][change];
            kept.state[place].copy_from_slice(&is.to_le_bytes());
            let (region, _) = file.map(&kept, HugePages::No).unwrap();
            file.close(&region, &kept.state, &[]).unwrap();
            drop(region);
            // When a flush is due, or whether there was one, nobody can know.
            restored += u32::from(closed.use_it(&format!("number {number}: {was:x} is {is:x}"), 0));
        }
    }
    assert!(restored > 0);
}

#[test]
fn no_head_with_a_byte_changed_is_believed() {
    let closed = Closed::new("head");
    let used = closed.image.bytes()[..64 << 10].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(used > 400);
    for at in (0..used).step_by(3) {
        let word = closed.word(at / 8 * 8) ^ 1 << (at % 8 * 8 + at % 7);
        closed.write(&[(at / 8 * 8, word)]);
        let opened = open(&closed.scratch, small());
        assert!(matches!(opened.opening, Opening::Emptied(_)), "byte {at}: {}", opened.opening);
        assert_eq!(opened.engine.stats().items, 0);
    }
}
