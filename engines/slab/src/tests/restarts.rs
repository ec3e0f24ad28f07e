//! Engines go on where others have left off.

use super::resizes::check_pages;
use super::{SlabEngine, SlabSession, Tested};
use crate::index::Scheme;
use crate::{Hashing, OpenError, SlabOptions};
use guira_contract::suite::{Costs, Image, Lasting, Part, RegionSize, Site, close, hits, settle, store};
use guira_contract::{Control, Engine, Expiry, Opened, Pace, Session};
use guira_items::{ClassOptions, EngineOptions, Eviction};
use guira_memory::slab::PAGE_BYTES;
use guira_memory::{MIB, RegionPlace};
use guira_sync::clock::Seconds;

pub(super) const NOW: Seconds = Seconds(1000);

/// How the suites open the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup(SlabOptions);

/// Whether a block of pages costs no more than what lies in it.
pub(super) const IS_INDEPENDENT: bool = Tested::LINK_BYTES == 0;

impl Lasting for Setup {
    type Engine = SlabEngine;
    type Error = OpenError;

    fn open(
        &self,
        RegionSize { memory, reserve }: RegionSize,
        place: &RegionPlace,
        unix: u64,
    ) -> Result<Opened<SlabEngine>, OpenError> {
        let engine = EngineOptions { memory, reserve, ..self.0.engine };
        SlabEngine::open_lasting(SlabOptions { engine, ..self.0 }, place, unix)
    }

    fn incompatible(&self) -> Vec<(Self, &'static str)> {
        let SlabOptions { classes, engine, .. } = self.0;
        let of_classes = |classes| Setup(SlabOptions { classes, ..self.0 });
        let of_engine = |engine| Setup(SlabOptions { engine, ..self.0 });
        vec![
            (
                of_classes(ClassOptions { factor: 1.25, ..classes }),
                "growth factor (-f) was 1.06 and is now 1.25",
            ),
            (
                of_classes(ClassOptions { smallest_item: 48, ..classes }),
                "smallest item (-n) was 16 and is now 48",
            ),
            (
                of_engine(EngineOptions { max_item_size: MIB / 2, ..engine }),
                "largest item (-I) was 1048576 and is now 524288",
            ),
            (of_engine(EngineOptions { hashing: Hashing::Fixed(|_| 1), ..engine }), "hash function"),
        ]
    }

    fn compatible(&self) -> Vec<Self> {
        let engine = self.0.engine;
        let with = |engine| Setup(SlabOptions { engine, ..self.0 });
        vec![
            with(EngineOptions { hashing: Hashing::Seeded(77), ..engine }),
            with(EngineOptions { eviction: Eviction::Off, ..engine }),
        ]
    }

    fn check(&self, engine: &SlabEngine) {
        check_pages(engine);
    }

    fn parts(&self, engine: &SlabEngine) -> Vec<Part> {
        let (plan, touched) = (engine.core.sizing.plan(), engine.core.pool.memory().pages_touched() as usize);
        let [arena, other] = plan.arenas_at;
        let table = engine.core.index.bytes();
        let pages_end = plan.pages_at + touched * PAGE_BYTES;
        let in_pages = if IS_INDEPENDENT { Costs::ItsItems } else { Costs::Anything };
        let elsewhere = if IS_INDEPENDENT { Costs::Nothing } else { Costs::Anything };
        let part = |name, at: usize, end: usize, costs| Part { name, at: at..end, costs };
        vec![
            part("descriptors", plan.metadata_at, plan.metadata_at + touched * 8, Costs::Anything),
            part("pages", plan.pages_at, pages_end, in_pages),
            part("an arena", arena, arena + table, Costs::Anything),
            part("pages", plan.pages_at, pages_end, in_pages),
            part("the other arena", other, other + table, Costs::Anything),
            part("the ends of pages", pages_end - PAGE_BYTES - 512, pages_end - PAGE_BYTES, in_pages),
            part("pages that were never used", pages_end, pages_end + 8 * PAGE_BYTES, elsewhere),
        ]
    }
}

guira_contract::restarts!(Setup::default());

/// A file for a Region of `memory` bytes.
pub(super) fn site(memory: usize) -> Site<Setup> {
    Site::new(&Setup::default(), RegionSize::of(memory))
}

pub(super) fn put(session: &mut SlabSession, key: &str, value: &[u8], expiry: Expiry) {
    store(session, key.as_bytes(), value, 7, expiry, NOW).unwrap();
}

fn end_batch(session: &mut SlabSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

#[test]
fn the_hand_goes_on_with_what_is_oldest() {
    let site = site(8 * MIB);
    let put_many = |session: &mut SlabSession, keys: std::ops::Range<u64>| {
        for i in keys {
            put(session, &format!("key{i:06}"), &[1; 100], Expiry::Never);
            end_batch(session);
        }
    };
    let engine = site.open().engine;
    let mut session = engine.session();
    put_many(&mut session, 0..90_000);
    let stored = engine.stats().items;
    assert!(engine.stats().evictions > 20_000, "the hand is somewhere in the middle: {:?}", engine.stats());
    drop(session);
    close(engine);
    let engine = site.open().engine;
    let mut session = engine.session();
    put_many(&mut session, 90_000..90_000 + stored / 3);
    let newest = 90_000 - stored / 3..90_000;
    let kept = newest.clone().filter(|i| hits(&mut session, format!("key{i:06}").as_bytes(), NOW));
    let (kept, of) = (kept.count() as u64, newest.end - newest.start);
    assert!(kept * 100 > of * 97, "{kept} of the newest {of} are left");
}

#[test]
fn what_was_read_is_spared_by_the_hand_after_a_restart() {
    let site = site(8 * MIB);
    let engine = site.open().engine;
    let mut session = engine.session();
    let mut stored = 0;
    while stored % 64 != 0 || engine.stats().evictions < 10_000 {
        put(&mut session, &format!("key{stored}"), &[1; 100], Expiry::Never);
        end_batch(&mut session);
        stored += 1;
    }
    let is_there = |session: &mut SlabSession, i: u64| hits(session, format!("key{i}").as_bytes(), NOW);
    // The oldest that are left: the hand comes to them next.
    let read: Vec<u64> = (0..stored).filter(|i| is_there(&mut session, *i)).take(2000).collect();
    let unread = engine.stats().items - 2000;
    drop(session);
    close(engine);
    let engine = site.open().engine;
    let mut session = engine.session();
    for i in stored..stored + unread / 2 {
        put(&mut session, &format!("key{i}"), &[1; 100], Expiry::Never);
        end_batch(&mut session);
    }
    let left = read.iter().filter(|i| is_there(&mut session, **i)).count();
    assert!(left > 1950, "{left} of 2000 are left");
}

#[test]
fn a_table_that_was_growing_goes_on() {
    // Before anything has moved, in the middle, when nearly all has, and when the old table is still to be given back.
    for steps in [0, 300, 3000, usize::MAX] {
        let site = site(32 * MIB);
        let engine = site.open().engine;
        let mut session = engine.session();
        let mut stored = 0;
        // Statistics are looked up now and then: that takes longer than a store.
        while stored % 64 != 0 || !engine.stats().index_growing {
            put(&mut session, &format!("key{stored}"), b"v", Expiry::Never);
            stored += 1;
            // No step of growth, but a look at whether it should begin.
            session.maintain(NOW, Pace::Busy, 0);
            session.quiesce();
        }
        let mut done = 0;
        while done < steps && engine.stats().index_growing {
            session.quiesce();
            done += session.maintain(NOW, Pace::Busy, 10);
        }
        let growing = engine.stats().index_growing;
        assert_eq!(growing, steps != usize::MAX);
        drop(session);
        close(engine);
        let engine = site.restored(stored);
        assert_eq!(engine.stats().index_growing, growing);
        let mut session = engine.session();
        let all =
            |session: &mut SlabSession| (0..stored).all(|i| hits(session, format!("key{i}").as_bytes(), NOW));
        assert!(all(&mut session));
        settle(&mut session, NOW);
        assert!(!engine.stats().index_growing && all(&mut session));
        check_pages(&engine);
    }
}

#[test]
fn a_block_that_the_file_has_lost_costs_what_it_held_and_stops_nothing() {
    let site = site(32 * MIB);
    let engine = site.open().engine;
    let mut session = engine.session();
    for i in 0..20_000 {
        put(&mut session, &format!("key{i}"), &[1; 20], Expiry::Never);
        end_batch(&mut session);
    }
    settle(&mut session, NOW);
    let at = engine.core.sizing.plan().pages_at;
    drop(session);
    close(engine);
    // It has no sums to tell.
    Image::of(site.place().path()).without_sums().write([(at, [0; 4096])]);
    let engine = site.restored(20_000);
    let mut session = engine.session();
    let grown = engine.stats().index_growths;
    // The entries of what is lost are met when the table grows.
    for i in 0..150_000 {
        put(&mut session, &format!("new{i}"), &[1; 20], Expiry::Never);
        end_batch(&mut session);
    }
    settle(&mut session, NOW);
    assert!(engine.stats().index_growths > grown && !engine.stats().index_growing);
    let lost = |i: &u64| !hits(&mut engine.session(), format!("key{i}").as_bytes(), NOW);
    let lost = (0..20_000).filter(lost).count();
    assert!((10..=4096 / 32).contains(&lost), "{lost}");
}
