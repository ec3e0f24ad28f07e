//! A Region that was changed while it was not in use.

use super::restarts::Setup;
use super::tools::{NOW, Random, check, get, put};
use crate::index::BUCKET_BYTES;
use crate::plan::Plan;
use crate::{Fits, Log};
use guira_contract::suite::{self, Image, RegionSize, Site, close, pin_of, remove, walk_all};
use guira_contract::{Control, Engine, Opening, Pace, Recency, Session};
use guira_memory::MIB;
use guira_sync::clock::Seconds;

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged_of_a_cache() {
    DAMAGES.into_iter().for_each(|(seed, memory)| suite::damage(&Setup::<Log>::new(), memory, seed, 20));
}

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged_of_a_store() {
    DAMAGES.into_iter().for_each(|(seed, memory)| suite::damage(&Setup::<Fits>::new(), memory, seed, 20));
}

/// Seeds, and memory, for the suite.
const DAMAGES: [(u64, usize); 2] = [(1, 8 * MIB), (2, 10 * MIB)];

#[test]
fn a_region_without_sums_is_kept_and_has_some_when_it_is_closed() {
    suite::a_region_without_sums_is_kept_and_has_some_when_it_is_closed(&Setup::<Log>::new());
    suite::a_region_without_sums_is_kept_and_has_some_when_it_is_closed(&Setup::<Fits>::new());
}

const KEYS: u32 = 6000;

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 150 + number as usize % 300]
}

/// A file that was closed in order, kept to be written again.
struct Closed {
    site: Site<Setup<Log>>,
    image: Image,
    plan: Plan,
    buckets: usize,
}

impl Closed {
    /// That of an engine whose log has gone around. Some items were removed. It has no sums, so that what is changed in it is looked at.
    fn new() -> Self {
        let mut setup = Setup::<Log>::new();
        setup.0.engine.max_item_size = 32 << 10;
        setup.0.partitions = 2;
        let site = Site::new(&setup, RegionSize { memory: 2 * MIB, reserve: 2 * MIB });
        let engine = site.open().engine;
        let plan = engine.core.plan;
        let mut session = engine.session();
        for number in (0..KEYS).chain(0..KEYS) {
            put(&mut session, &format!("key{number}"), &value(number)).unwrap();
            if number % 7 == 0 {
                remove(&mut session, format!("key{number}").as_bytes(), NOW);
            }
        }
        put(&mut session, "long", &[77; 20_000]).unwrap();
        drop(session);
        let stats = engine.stats();
        assert!(stats.evictions > 0 && stats.items > 1000, "{stats:?}");
        let buckets = engine.core.partitions[0].index().buckets() as usize;
        close(engine);
        let image = Image::of(site.place().path()).without_sums();
        Closed { site, image, plan, buckets }
    }

    /// Writes the file again, with these changes.
    fn write(&self, changes: &[(usize, u64)]) {
        self.image.write(changes.iter().map(|(at, word)| (*at, word.to_le_bytes())));
    }

    fn word(&self, at: usize) -> u64 {
        self.image.word(at)
    }

    /// Opens it and does all there is to do with it: none of it may panic, or go on for ever. No more than `damaged` keys have another value.
    fn use_it(&self, what: &str, damaged: usize) -> bool {
        let opened = self.site.open();
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
        drop(pin_of(&mut session, b"long", Recency::Leave, NOW));
        walk_all(&mut session, now);
        // Half of them go, and do not come back.
        for number in (0..KEYS).step_by(2) {
            remove(&mut session, format!("key{number}").as_bytes(), NOW);
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
    let closed = Closed::new();
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
    let closed = Closed::new();
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
    let closed = Closed::new();
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
