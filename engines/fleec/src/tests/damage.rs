//! A Region that was changed while it was not in use.

use super::restarts::{NOW, Setup, put, site};
use crate::FleecEngine;
use crate::walk::FleecWalk;
use guira_contract::suite::{self, Image, Site, close, store, value_of};
use guira_contract::{Control, Engine, Expiry, Opening, Pace, Session, Walked};
use guira_memory::MIB;
use guira_memory::slab::PAGE_BYTES;
use guira_sync::clock::Seconds;

#[test]
fn no_value_is_another_than_was_stored_whatever_is_damaged() {
    suite::damage(&Setup::default(), 8 * MIB, 1, 30);
}

#[test]
fn a_region_without_sums_is_kept_and_has_some_when_it_is_closed() {
    suite::a_region_without_sums_is_kept_and_has_some_when_it_is_closed(&Setup::default());
}

/// A file that was closed in order, kept to be written again.
struct Closed {
    site: Site<Setup>,
    image: Image,
}

const KEYS: u32 = 3000;
const LONG: u32 = 4;

impl Closed {
    /// That of an engine with short items and a few long ones. Some were removed. It has no sums, so that what is changed in it is looked at.
    fn new() -> (Self, crate::plan::Plan) {
        let site = site(2 * MIB);
        let engine = site.open().engine;
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
        let image = Image::of(site.place().path()).without_sums();
        (Closed { site, image }, plan)
    }

    /// Writes the file again, with these changes.
    fn write(&self, changes: &[(usize, u64)]) {
        self.image.write(changes.iter().map(|(at, word)| (*at, word.to_le_bytes())));
    }

    fn word(&self, at: usize) -> u64 {
        self.image.word(at)
    }

    /// Opens it and does all there is to do with it: none of it may panic, or go on for ever.
    fn use_it(&self) -> Opening {
        let opened = self.site.open();
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
    let mut walk: FleecWalk = session.begin_walk().expect("no other session walks");
    while session.walk(&mut walk, now, &mut |_| {}) == Walked::More {}
    engine.flush(now, now);
    for i in 0..KEYS / 2 {
        let _ = store(&mut session, format!("new{i}").as_bytes(), &[4; 500], 0, Expiry::Never, now);
    }
    for round in 0..200 {
        session.maintain(Seconds(now.0 + round), Pace::Idle, 16);
    }
}

/// Words of links, items, descriptors and bitmaps hold arbitrary values.
#[test]
fn no_list_makes_the_engine_panic_or_search_for_ever() {
    let (closed, plan) = Closed::new();
    let mut random = 1u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % bound
    };
    let (mut restored, mut emptied) = (0, 0);
    for round in 0..1200 {
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
    let (closed, plan) = Closed::new();
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
            let opened = closed.site.open();
            assert!(matches!(opened.opening, Opening::Emptied(_)), "{change:x?}: {}", opened.opening);
        }
    }
}

#[test]
fn a_bucket_that_was_never_added_is_not_believed_to_be_there() {
    let (closed, plan) = Closed::new();
    let buckets = closed.site.open().engine.stats().index_slots as usize;
    let changes: Vec<_> = (buckets..buckets + 4000).map(|bucket| (plan.links_at + bucket * 8, 77)).collect();
    closed.write(&changes);
    let opened = closed.site.open();
    assert!(matches!(opened.opening, Opening::Restored { .. }), "{}", opened.opening);
    let mut session = opened.engine.session();
    for i in 0..4000 {
        put(&mut session, &format!("new{i}"), b"v", Expiry::Never);
        assert!(value_of(&mut session, format!("new{i}").as_bytes(), NOW).is_some());
    }
    assert!(opened.engine.stats().index_slots as usize > buckets + 500);
}
