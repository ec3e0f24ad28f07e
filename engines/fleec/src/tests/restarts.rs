//! Engines go on where others have left off.

use crate::options::LINK_BYTES;
use crate::{Buckets, FleecEngine, FleecOptions, FleecSession};
use guira_contract::suite::{Costs, Lasting, Part, RegionSize, Site, close, reason, remove, store, value_of};
use guira_contract::{Control, Emptied, Engine, Expiry, Opened, Reassign};
use guira_items::hooks::{self, Window};
use guira_items::{ClassOptions, EngineOptions, Eviction, Hashing, OpenError};
use guira_memory::slab::PAGE_BYTES;
use guira_memory::{HugePages, MIB, RegionPlace};
use guira_sync::atomic::Ordering;
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

pub(super) const NOW: Seconds = Seconds(1000);

/// How the suites open the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup(pub(super) FleecOptions);

impl Lasting for Setup {
    type Engine = FleecEngine;
    type Error = OpenError;

    const EXTRA_BYTES: u64 = LINK_BYTES as u64;
    const LEAST_MIB: usize = 8;

    fn open(
        &self,
        RegionSize { memory, reserve }: RegionSize,
        place: &RegionPlace,
        unix: u64,
    ) -> Result<Opened<FleecEngine>, OpenError> {
        let engine = EngineOptions { memory, reserve, ..self.0.engine };
        FleecEngine::open_lasting(FleecOptions { engine, ..self.0 }, place, unix)
    }

    fn incompatible(&self) -> Vec<(Self, &'static str)> {
        let FleecOptions { classes, engine, .. } = self.0;
        let of_classes = |classes| Setup(FleecOptions { classes, ..self.0 });
        let of_engine = |engine| Setup(FleecOptions { engine, ..self.0 });
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
        let with = |engine| Setup(FleecOptions { engine, ..self.0 });
        vec![
            with(EngineOptions { hashing: Hashing::Seeded(77), ..engine }),
            with(EngineOptions { eviction: Eviction::Off, ..engine }),
            with(EngineOptions { huge_pages: Some(HugePages::Requested), ..engine }),
        ]
    }

    /// Every chunk that is handed out belongs to exactly one item on the list.
    fn check(&self, engine: &FleecEngine) {
        let core = &engine.core;
        let free =
            || core.memory.classes().ids().map(|class| core.memory.free_chunks(class)).collect::<Vec<_>>();
        let before = free();
        core.finish_growth();
        assert_eq!(core.recover(), Some(core.shell.registry().held()));
        assert_eq!(free(), before, "no chunk was lost");
    }

    /// What a list leads through cannot be lost in part.
    fn parts(&self, engine: &FleecEngine) -> Vec<Part> {
        let (plan, stats) = (engine.core.plan, engine.stats());
        let touched = engine.core.memory.slab().touched().pages as usize;
        let part =
            |name, at: usize, length: usize| Part { name, at: at..at + length, costs: Costs::Anything };
        vec![
            part("descriptors", plan.metadata_at, touched * 8),
            part("pages", plan.pages_at, touched * PAGE_BYTES),
            part("buckets", plan.links_at, stats.index_slots as usize * 8),
            part("pages", plan.pages_at, touched * PAGE_BYTES),
            part("CLOCK values", plan.clock_at, stats.index_slots as usize),
            part("pages that were never used", plan.pages_at + touched * PAGE_BYTES, 8 * PAGE_BYTES),
        ]
    }
}

guira_contract::restarts!(Setup::default());

/// `memclock`: the same engine with locked buckets.
mod locked {
    use super::{Buckets, FleecOptions, Setup};

    guira_contract::restarts!(Setup(FleecOptions { buckets: Buckets::Locked, ..FleecOptions::default() }));
}

/// A file for a Region of `memory` bytes.
pub(super) fn site(memory: usize) -> Site<Setup> {
    Site::new(&Setup::default(), RegionSize::of(memory))
}

pub(super) fn put(session: &mut FleecSession, key: &str, value: &[u8], expiry: Expiry) {
    store(session, key.as_bytes(), value, 7, expiry, NOW).unwrap();
}

#[test]
fn pages_of_no_class_are_given_back_and_used_again() {
    let site = site(16 * MIB);
    let engine = site.open().engine;
    let mut session = engine.session();
    (0..30_000).for_each(|i| put(&mut session, &format!("key{i}"), &[1; 200], Expiry::Never));
    let is_gone = |i: &u32| !i.is_multiple_of(50);
    for key in (0..30_000).filter(is_gone).map(|i| format!("key{i}")) {
        remove(&mut session, key.as_bytes(), NOW);
    }
    drop(session);
    for _ in 0..8 {
        assert_eq!(engine.reassign(None, 0), Reassign::Begun);
    }
    let before = engine.stats();
    assert_eq!(before.pages_free, 8);
    close(engine);
    let engine = site.open().engine;
    let after = engine.stats();
    assert_eq!((after.items, after.pages_free), (before.items, 0));
    assert_eq!(after.memory_used, before.memory_used - 8 * PAGE_BYTES as u64);
    let mut session = engine.session();
    (0..90_000).for_each(|i| put(&mut session, &format!("more{i}"), &[2; 200], Expiry::Never));
    drop(session);
    let stats = engine.stats();
    assert!(stats.memory_used > stats.memory_limit - MIB as u64, "all memory is used again: {stats:?}");
    site.check(&engine);
}

#[test]
fn hand_and_clock_values_are_as_they_were() {
    let site = site(8 * MIB);
    let engine = site.open().engine;
    let mut session = engine.session();
    for i in 0..90_000_u32 {
        put(&mut session, &format!("key{i}"), &[1; 100], Expiry::Never);
        value_of(&mut session, format!("key{}", i / 2).as_bytes(), NOW);
    }
    drop(session);
    let turned = |engine: &FleecEngine| {
        let core = &engine.core;
        let table = core.table.saved();
        let clock = |bucket| core.shell.region().byte(core.plan.clock_at + bucket).load(Ordering::Relaxed);
        (table, (0..table.buckets as usize).map(clock).collect::<Vec<_>>())
    };
    let before = turned(&engine);
    assert!(before.0.hand > 0 && (0..=3).all(|value| before.1.contains(&value)));
    close(engine);
    let engine = site.open().engine;
    assert!(turned(&engine) == before);
}

/// A thread goes away while it adds a bucket.
#[test]
fn a_bucket_that_was_being_added_is_added() {
    for window in [Window::Dividing, Window::Divided] {
        let site = site(32 * MIB);
        let engine = site.open().engine;
        let mut session = engine.session();
        let mut stored = 0u32;
        let mut put_some = |session: &mut FleecSession, count: u32| {
            for _ in 0..count {
                stored += 1;
                put(session, &format!("key{stored}"), b"v", Expiry::Never);
            }
            u64::from(stored)
        };
        put_some(&mut session, 700);
        let guard = hooks::set(move |here| assert!(here != window, "goes away"));
        let gone = catch_unwind(AssertUnwindSafe(|| put_some(&mut session, 100)));
        assert!(gone.is_err());
        drop(guard);
        let stored = put_some(&mut session, 0);
        drop(session);
        let buckets = engine.stats().index_slots;
        close(engine);
        let engine = site.restored(stored);
        assert_eq!(engine.stats().index_slots, buckets + 1);
        let mut session = engine.session();
        put_some(&mut session, 1000);
        assert!(engine.stats().index_slots > buckets + 900);
        let mut all = 1..=stored + 1000;
        assert!(all.all(|i| value_of(&mut session, format!("key{i}").as_bytes(), NOW).is_some()));
        drop(session);
        site.check(&engine);
    }
}

/// An item that is out of the table stays on the list if the one before it goes at the same moment. The session that has marked it looks again.
#[test]
fn what_was_left_on_the_list_is_taken_off_and_freed() {
    let hashing = Hashing::Fixed(|key| key[0].into());
    let engine = EngineOptions { hashing, ..EngineOptions::default() };
    let setup = Setup(FleecOptions { engine, ..FleecOptions::default() });
    let site = Site::new(&setup, RegionSize::of(4 * MIB));
    let engine = site.open().engine;
    let mut session = engine.session();
    let long = vec![1; 100_000];
    put(&mut session, "a first", b"v", Expiry::Never);
    put(&mut session, "a second", &long, Expiry::Never);
    put(&mut session, "a third", b"v", Expiry::Never);
    let (others, met) = (engine.clone(), Rc::new(Cell::new(0)));
    let count = met.clone();
    let guard = hooks::set(move |here| {
        if here == Window::Marked {
            count.set(count.get() + 1);
            remove(&mut others.session(), b"a first", NOW);
        }
    });
    remove(&mut session, b"a second", NOW);
    drop(guard);
    assert_eq!(met.get(), 1);
    drop(session);
    let used =
        |engine: &FleecEngine| engine.stats().classes.iter().map(|class| class.used_chunks).sum::<u64>();
    assert_eq!(
        used(&engine),
        2,
        "the first was announced when it was taken off, and is left to the next session that comes by"
    );
    close(engine);
    let engine = site.restored(1);
    assert_eq!(used(&engine), 1);
    let mut session = engine.session();
    assert!(["a first", "a second"].iter().all(|key| value_of(&mut session, key.as_bytes(), NOW).is_none()));
    assert!(value_of(&mut session, b"a third", NOW).is_some());
    drop(session);
    site.check(&engine);
}

#[test]
fn a_table_too_large_for_the_memory_is_given_up() {
    let site = site(64 * MIB);
    let engine = site.open().engine;
    let mut session = engine.session();
    (0..400_000).for_each(|i| put(&mut session, &format!("key{i}"), b"v", Expiry::Never));
    drop(session);
    close(engine);
    let emptied = site.open_with(4 * MIB);
    assert!(matches!(reason(&emptied), Emptied::TooSmall { .. }), "{}", emptied.opening);
}
