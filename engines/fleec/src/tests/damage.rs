//! A Region that somebody has changed while nobody used it.

use super::restarts::{NOW, close, open, options, put};
use super::scratch::Scratch;
use crate::FleecEngine;
use crate::options::LINK_BYTES;
use crate::walk::FleecWalk;
use guira_contract::suite::{self, Costs, Image, Lasting, Part, store, value_of};
use guira_contract::{Control, Engine, Expiry, Opening, Pace, Session, Walked};
use guira_memory::HugePages;
use guira_memory::MIB;
use guira_memory::lasting::{Found, Kept, RegionFile};
use guira_memory::slab::PAGE_BYTES;
use guira_sync::clock::Seconds;

/// What a list leads through cannot be lost in part.
fn parts(engine: &FleecEngine) -> Vec<Part> {
    let (plan, stats) = (engine.core.plan, engine.stats());
    let touched = engine.core.memory.slab().touched().pages as usize;
    let part = |name, at: usize, length: usize| Part { name, at: at..at + length, costs: Costs::Anything };
    vec![
        part("descriptors", plan.metadata_at, touched * 8),
        part("pages", plan.pages_at, touched * PAGE_BYTES),
        part("buckets", plan.links_at, stats.index_slots as usize * 8),
        part("pages", plan.pages_at, touched * PAGE_BYTES),
        part("CLOCK values", plan.clock_at, stats.index_slots as usize),
        part("pages that were never used", plan.pages_at + touched * PAGE_BYTES, 8 * PAGE_BYTES),
    ]
}

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged() {
    let scratch = Scratch::new("damage");
    let open = || open(&scratch, options(8 * MIB));
    let lasting = Lasting {
        place: scratch.place(),
        open: &open,
        parts: &parts,
        beside: LINK_BYTES as u64,
        check: &|_| {},
    };
    suite::damage(&lasting, 1, 30);
}

/// A file that was closed in order, kept to be written again.
struct Closed {
    scratch: Scratch,
    image: Image,
}

const KEYS: u32 = 3000;
const LONG: u32 = 4;

impl Closed {
    /// That of an engine with short items and a few long ones. Some were removed. It has no sums, so that what is changed in it is looked at.
    fn new(name: &str) -> (Self, crate::plan::Plan) {
        let scratch = Scratch::new(name);
        let engine = open(&scratch, options(2 * MIB)).engine;
        let plan = engine.core.plan;
        let mut session = engine.session();
        for i in 0..KEYS {
            put(&mut session, &format!("key{i}"), &[i as u8; 60], Expiry::Never);
        }
        for i in 0..LONG {
            put(&mut session, &format!("long{i}"), &[i as u8; 100_000], Expiry::Never);
        }
        drop(session);
        close(engine);
        let image = Image::of(scratch.place().path()).without_sums();
        (Closed { scratch, image }, plan)
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

    /// Opens it and does all there is to do with it: none of it may panic, or go on for ever.
    fn use_it(&self) -> Opening {
        let opened = open(&self.scratch, options(2 * MIB));
        let now = opened.base.reached;
        let engine = opened.engine;
        work(&engine, now);
        close(engine);
        opened.opening
    }
}

fn work(engine: &FleecEngine, now: Seconds) {
    let mut session = engine.session();
    for i in 0..KEYS / 10 {
        let key = format!("key{}", i * 10);
        value_of(&mut session, key.as_bytes(), now);
        let _ = store(&mut session, key.as_bytes(), &[3; 100], 0, Expiry::Never, now);
    }
    for i in 0..LONG {
        value_of(&mut session, format!("long{i}").as_bytes(), now);
    }
    let mut walk: FleecWalk = session.begin_walk().expect("nobody else walks");
    while session.walk(&mut walk, now, &mut |_| {}) == Walked::More {}
    engine.flush(now, now);
    for i in 0..KEYS / 2 {
        let _ = store(&mut session, format!("new{i}").as_bytes(), &[4; 500], 0, Expiry::Never, now);
    }
    for round in 0..200 {
        session.maintain(Seconds(now.0 + round), Pace::Idle, 16);
    }
}

/// The numbers that the engine leaves in the head are whatever somebody wrote there.
#[test]
fn no_state_makes_the_engine_panic() {
    let (closed, _) = Closed::new("state");
    closed.write(&[]);
    // The tallies of many classes are alike.
    let numbers = (closed.kept().1.state.len() / 8).min(60);
    let mut restored = 0;
    for number in 0..numbers {
        for change in [0, 1, 2, u64::MAX, 1 << 32, 1 << 63] {
            closed.write(&[]);
            let (file, mut kept) = closed.kept();
            let place = number * 8..number * 8 + 8;
            let was = u64::from_le_bytes(kept.state[place.clone()].try_into().unwrap());
            let is = if change == 2 { was ^ 1 } else { change };
            kept.state[place].copy_from_slice(&is.to_le_bytes());
            let (region, _) = file.map(&kept, HugePages::No).unwrap();
            file.close(&region, &kept.state, &[]).unwrap();
            drop(region);
            restored += u32::from(matches!(closed.use_it(), Opening::Restored { .. }));
        }
    }
    assert!(restored > 0);
}

#[test]
fn no_head_with_a_byte_changed_is_believed() {
    let (closed, _) = Closed::new("head");
    let used = closed.image.bytes()[..64 << 10].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(used > 600);
    for at in 0..used {
        let word = closed.word(at / 8 * 8) ^ 1 << (at % 8 * 8 + at % 7);
        closed.write(&[(at / 8 * 8, word)]);
        let opened = open(&closed.scratch, options(2 * MIB));
        assert!(matches!(opened.opening, Opening::Emptied(_)), "byte {at}: {}", opened.opening);
        assert_eq!(opened.engine.stats().items, 0);
    }
}

/// Words of links, items, descriptors and bitmaps are whatever somebody wrote there.
#[test]
fn no_list_makes_the_engine_panic_or_search_for_ever() {
    let (closed, plan) = Closed::new("list");
    let mut random = 1u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    let (mut restored, mut emptied) = (0, 0);
    for round in 0..1500 {
        let page = plan.pages_at + below(4) * PAGE_BYTES;
        let mut place = || match below(6) {
            0 => plan.links_at + below(3100) * 8,
            1 => plan.metadata_at + below(16) * 8,
            2 => page + PAGE_BYTES - 8 - below(40) * 8,
            3 => plan.clock_at + below(400) * 8,
            _ => page + below(PAGE_BYTES / 8) * 8,
        };
        let (at, other) = (place(), place());
        let was = closed.word(at);
        let is = match below(7) {
            0 => 0,
            1 => closed.word(other),
            // To itself, to another node, or marked.
            2 => was & !((1 << 40) - 1) | (at as u64 + 8) >> 3,
            3 => was & !((1 << 40) - 1) | other as u64 >> 3,
            4 => was ^ 1 << 40,
            5 => was ^ 1 << below(64),
            _ => u64::MAX,
        };
        closed.write(&[(at, is)]);
        match closed.use_it() {
            Opening::Restored { .. } => restored += 1,
            Opening::Emptied(_) => emptied += 1,
            other => panic!("round {round}: {other}"),
        }
    }
    assert!(restored > 100 && emptied > 300, "{restored} and {emptied}");
}

/// The links of two buckets, or of two items, are exchanged, so that the list leads in circles or past what is on it.
#[test]
fn no_list_in_another_order_is_believed() {
    let (closed, plan) = Closed::new("order");
    let link = |bucket: usize| plan.links_at + bucket * 8;
    for bucket in 0..100 {
        let [one, other] = [link(bucket), link(3 * bucket + 7)];
        let [first, second] = [one, other].map(|at| closed.word(at));
        let first_item = (first & ((1 << 40) - 1)) as usize * 8 - 8;
        let changes: [&[(usize, u64)]; 4] = [
            &[(one, second), (other, first)],
            &[(one, second)],
            &[(first_item, first)],
            &[(first_item, closed.word(link(0)))],
        ];
        for change in changes {
            closed.write(change);
            let opened = open(&closed.scratch, options(2 * MIB));
            assert!(matches!(opened.opening, Opening::Emptied(_)), "{change:x?}: {}", opened.opening);
        }
    }
}

#[test]
fn a_bucket_that_was_never_added_is_not_believed_to_be_there() {
    let (closed, plan) = Closed::new("never");
    let buckets = open(&closed.scratch, options(2 * MIB)).engine.stats().index_slots as usize;
    let changes: Vec<_> = (buckets..buckets + 4000).map(|bucket| (plan.links_at + bucket * 8, 77)).collect();
    closed.write(&changes);
    let opened = open(&closed.scratch, options(2 * MIB));
    assert!(matches!(opened.opening, Opening::Restored { .. }), "{}", opened.opening);
    let mut session = opened.engine.session();
    for i in 0..4000 {
        put(&mut session, &format!("new{i}"), b"v", Expiry::Never);
        assert!(value_of(&mut session, format!("new{i}").as_bytes(), NOW).is_some());
    }
    assert!(opened.engine.stats().index_slots as usize > buckets + 500);
}
