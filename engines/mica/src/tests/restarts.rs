//! Engines go on where others have left off.

use super::tools::{NOW, check, check_spares, get, put};
use crate::index::BUCKET_BYTES;
use crate::{Fits, ItemStore, Log, LogPolicy, MicaEngine, MicaOptions, MicaSession};
use guira_contract::suite::{
    Costs, Lasting, Part, RegionSize, Site, close, pin_of, reason, remove, settle, store,
};
use guira_contract::{Access, Control, Emptied, Engine, EngineStats, Expiry, Opened, Pace, Recency, Session};
use guira_items::{EngineOptions, Hashing, OpenError};
use guira_memory::lasting::BLOCK_BYTES;
use guira_memory::{HugePages, MIB, RegionPlace};
use std::marker::PhantomData;
use std::ops::Range;

/// The wall clock when engines are opened.
const UNIX: u64 = 1_700_000_000;

/// How the suites open the engine. From 256 MiB of reserve on, its largest item is eight times as large.
#[derive(Debug)]
pub(super) struct Setup<S>(pub(super) MicaOptions, PhantomData<S>);

impl<S> Clone for Setup<S> {
    fn clone(&self) -> Self {
        Setup(self.0, PhantomData)
    }
}

impl<S> Setup<S> {
    pub(super) fn new() -> Self {
        let engine = EngineOptions { max_item_size: 128 << 10, ..EngineOptions::default() };
        Setup(MicaOptions { engine, partitions: 4, ..MicaOptions::default() }, PhantomData)
    }
}

/// What keeps items, and how it is checked.
pub(super) trait Checked: ItemStore {
    fn check(engine: &MicaEngine<Self>);

    /// The same after a restart with a state that may be wrong.
    fn check_any_state(engine: &MicaEngine<Self>) {
        Self::check(engine);
    }
}

impl Checked for Log {
    fn check(engine: &MicaEngine) {
        check(engine);
    }
}

impl Checked for Fits {
    fn check(engine: &MicaEngine<Self>) {
        check_spares(engine);
    }

    /// A wrong count of spare buckets wastes those that it leaves out.
    fn check_any_state(_engine: &MicaEngine<Self>) {}
}

impl<S: Checked> Lasting for Setup<S> {
    type Engine = MicaEngine<S>;
    type Error = OpenError;

    fn open(
        &self,
        RegionSize { memory, reserve }: RegionSize,
        place: &RegionPlace,
        unix: u64,
    ) -> Result<Opened<MicaEngine<S>>, OpenError> {
        let times = if reserve >= 256 * MIB { 8 } else { 1 };
        let max_item_size = times * self.0.engine.max_item_size;
        let engine = EngineOptions { memory, reserve, max_item_size, ..self.0.engine };
        MicaEngine::open_lasting(MicaOptions { engine, ..self.0 }, place, unix)
    }

    fn incompatible(&self) -> Vec<(Self, &'static str)> {
        let engine = self.0.engine;
        let with = |options| Setup(options, PhantomData);
        let of_engine = |engine| with(MicaOptions { engine, ..self.0 });
        vec![
            (
                of_engine(EngineOptions { max_item_size: 64 << 10, ..engine }),
                "largest item (-I) was 131072 and is now 65536",
            ),
            (of_engine(EngineOptions { hashing: Hashing::Fixed(|_| 1), ..engine }), "hash function"),
            (with(MicaOptions { offset_bits: 40, ..self.0 }), ""),
        ]
    }

    fn compatible(&self) -> Vec<Self> {
        let engine = self.0.engine;
        let with = |options| Setup(options, PhantomData);
        vec![
            with(MicaOptions { partitions: 1, ..self.0 }),
            with(MicaOptions { engine: EngineOptions { hashing: Hashing::Seeded(77), ..engine }, ..self.0 }),
            with(MicaOptions { access: Access::Erew, policy: LogPolicy::Lru, ..self.0 }),
            with(MicaOptions { access: Access::Crew, policy: LogPolicy::Fifo, ..self.0 }),
        ]
    }

    fn check(&self, engine: &MicaEngine<S>) {
        S::check(engine);
    }

    fn check_any_state(&self, engine: &MicaEngine<S>) {
        S::check_any_state(engine);
    }

    fn parts(&self, engine: &MicaEngine<S>) -> Vec<Part> {
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
}

guira_contract::restarts!(Setup::<Log>::new());

mod of_a_store {
    use super::{Fits, Setup};

    guira_contract::restarts!(Setup::<Fits>::new());
}

/// Everything that statistics say, but for what begins anew with the process.
fn lasting_stats(engine: &MicaEngine) -> EngineStats {
    EngineStats { crawling: false, crawls: 0, index_growths: 0, ..engine.stats() }
}

/// Closes the engine and opens it again with so much memory: all is as it was.
fn again(site: &Site<Setup<Log>>, engine: MicaEngine, memory: usize) -> MicaEngine {
    check(&engine);
    let before = lasting_stats(&engine);
    let saved: Vec<_> = engine.core.partitions.iter().map(|partition| partition.saved()).collect();
    close(engine);
    let engine = site.open_with(memory).engine;
    assert_eq!(lasting_stats(&engine), before);
    assert!(engine.core.partitions.iter().map(|partition| partition.saved()).eq(saved));
    check(&engine);
    engine
}

/// The same to another process at once.
fn handed_over(site: &Site<Setup<Log>>, engine: MicaEngine) -> MicaEngine {
    let before = lasting_stats(&engine);
    let state = |engine: &MicaEngine| -> Vec<_> {
        engine.core.partitions.iter().map(|partition| (partition.saved(), partition.handed())).collect()
    };
    let left = state(&engine);
    let engine = site.handed_over(engine, before.items);
    assert_eq!(lasting_stats(&engine), before);
    assert_eq!(state(&engine), left);
    check(&engine);
    engine
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 50 + number as usize * 7 % 700]
}

fn fill(session: &mut MicaSession, numbers: Range<u32>) {
    numbers.for_each(|number| put(session, &format!("key{number}"), &value(number)).unwrap());
}

/// Which of the keys are there. Those that are have their values.
fn there(session: &mut MicaSession, numbers: Range<u32>) -> Vec<u32> {
    let is_there = |number: &u32| {
        let found = get(session, &format!("key{number}"));
        assert!(found.as_ref().is_none_or(|found| *found == value(*number)), "{number}");
        found.is_some()
    };
    numbers.filter(is_there).collect()
}

#[test]
fn a_log_that_has_gone_around_goes_on_where_it_was() {
    for policy in [LogPolicy::Fifo, LogPolicy::ApproxLru] {
        for huge in [HugePages::No, HugePages::Requested] {
            let mut setup = Setup::<Log>::new();
            setup.0.engine.huge_pages = Some(huge);
            setup.0.policy = policy;
            let site = Site::new(&setup, RegionSize::of(16 * MIB));
            let mut engine = site.open().engine;
            for round in 0..12 {
                let mut session = engine.session();
                fill(&mut session, round * 9000..(round + 1) * 9000);
                let pin = (round % 3 == 0).then(|| {
                    put(&mut session, "long", &[7; 50_000]).unwrap();
                    pin_of(&mut session, b"long", Recency::Leave, NOW).expect("it is long")
                });
                fill(&mut session, round * 9000..(round + 1) * 9000);
                remove(&mut session, format!("key{}", round * 9000 + 8000).as_bytes(), NOW);
                drop(pin);
                let before = there(&mut session, 0..(round + 1) * 9000);
                drop(session);
                engine = again(&site, engine, 16 * MIB);
                engine = handed_over(&site, engine);
                assert!(there(&mut engine.session(), 0..(round + 1) * 9000) == before);
            }
            assert!(engine.stats().evictions > 30_000, "{:?}", engine.stats());
        }
    }
}

#[test]
fn an_index_is_tidied_from_where_the_predecessor_was() {
    let mut setup = Setup::<Log>::new();
    // So few offsets that buckets are tidied all the time.
    setup.0.offset_bits = 24;
    let site = Site::new(&setup, RegionSize::of(16 * MIB));
    let mut engine = site.open().engine;
    let mut next = 0;
    for _ in 0..40 {
        fill(&mut engine.session(), next..next + 3000);
        next += 3000;
        engine = handed_over(&site, engine);
        there(&mut engine.session(), 0..next);
    }
    assert!(engine.stats().evictions > 20_000, "{:?}", engine.stats());
}

/// Fills a store, removes every third item, one while it is being sent, lets `again` go on with it, and stores them anew, three times. Returns which found room.
fn fill_again(again: impl Fn(&Site<Setup<Fits>>, MicaEngine<Fits>) -> MicaEngine<Fits>) -> Vec<bool> {
    let site = Site::new(&Setup::<Fits>::new(), RegionSize::of(8 * MIB));
    let mut engine = site.open().engine;
    let put = |session: &mut MicaSession<Fits>, number: u32| {
        let length = if number == 0 { 50_000 } else { 40 + number as usize * 37 % 3000 };
        store(session, format!("key{number}").as_bytes(), &vec![1; length], 0, Expiry::Never, NOW).is_ok()
    };
    let full = |mut session: MicaSession<Fits>| (0..).find(|number| !put(&mut session, *number)).unwrap();
    let count = full(engine.session());
    let mut stored = Vec::new();
    for _ in 0..3 {
        let mut session = engine.session();
        let pin = pin_of(&mut session, b"key0", Recency::Leave, NOW);
        let gone = || (0..count).filter(|number| number % 3 == 0);
        gone().for_each(|number| remove(&mut session, format!("key{number}").as_bytes(), NOW));
        drop((pin, session));
        engine = again(&site, engine);
        let mut session = engine.session();
        stored.extend(gone().map(|number| put(&mut session, number)));
        drop(session);
        check_spares(&engine);
    }
    // All chunks are looked at once more.
    let items = engine.stats().items;
    close(engine);
    site.restored(items);
    stored
}

#[test]
fn a_store_that_is_handed_over_finds_room_where_it_would_have_without() {
    let handed = fill_again(|site, engine| {
        let items = engine.stats().items;
        site.handed_over(engine, items)
    });
    let kept = fill_again(|_, engine| {
        engine.core.partitions.iter().for_each(|partition| partition.store().settle());
        engine
    });
    let found = kept.iter().filter(|is_stored| **is_stored).count();
    assert!(found > 1000 && found > kept.len() * 9 / 10, "{found} of {}", kept.len());
    assert!(handed == kept, "{} found room", handed.iter().filter(|is_stored| **is_stored).count());
}

#[test]
fn an_index_that_is_growing_goes_on_growing() {
    let site = Site::new(&Setup::<Log>::new(), RegionSize::of(32 * MIB));
    let mut engine = site.open().engine;
    let (mut stored, mut met) = (0, 0);
    while stored < 40_000 {
        let more = if engine.stats().index_growing { 1 } else { 500 };
        fill(&mut engine.session(), stored..stored + more);
        stored += more;
        let is_growing = engine.stats().index_growing;
        if is_growing && met < 200 {
            met += 1;
            engine = if met % 2 == 0 { again(&site, engine, 32 * MIB) } else { handed_over(&site, engine) };
            assert!(engine.stats().index_growing);
        }
    }
    assert!(met > 50, "{met}");
    let there = there(&mut engine.session(), 0..stored).len() as u64;
    assert_eq!(there, engine.stats().items);
    assert!(there + 400 > u64::from(stored), "{there}");
}

#[test]
fn memory_that_was_given_back_or_added_is_taken_over() {
    let site = Site::new(&Setup::<Log>::new(), RegionSize::of(16 * MIB));
    let mut engine = site.open().engine;
    fill(&mut engine.session(), 0..60_000);
    // Given back in part, and wholly.
    engine.resize(8 * MIB).unwrap();
    engine.session().maintain(NOW, Pace::Idle, 20);
    engine = again(&site, engine, 8 * MIB);
    settle(&mut engine.session(), NOW);
    engine = again(&site, engine, 8 * MIB);
    let less = engine.stats();
    assert!(less.memory_used <= 8 * MIB as u64 && less.memory_limit == 8 * MIB as u64, "{less:?}");
    close(engine);
    engine = site.open_with(64 * MIB).engine;
    assert_eq!((engine.stats().items, engine.stats().evictions), (less.items, less.evictions));
    fill(&mut engine.session(), 60_000..80_000);
    assert!(engine.stats().items > less.items + 19_900, "more can be used at once");
    engine = again(&site, engine, 64 * MIB);
    assert!(engine.resize(64 * MIB + 1).is_err(), "the reserve is the file's");
}

#[test]
fn an_index_that_is_too_large_for_the_memory_empties_the_region() {
    let site = Site::new(&Setup::<Log>::new(), RegionSize::of(32 * MIB));
    let engine = site.open().engine;
    let mut session = engine.session();
    (0..500_000).for_each(|number| put(&mut session, &format!("{number}"), b"").unwrap());
    drop(session);
    assert!(engine.stats().index_bytes > 3 * MIB as u64, "{:?}", engine.stats());
    close(engine);
    let opened = site.open_with(4 * MIB);
    assert!(matches!(reason(&opened), Emptied::TooSmall { .. }), "{}", opened.opening);
    put(&mut opened.engine.session(), "k", b"v").unwrap();
}

#[test]
fn there_are_as_many_partitions_as_when_the_region_was_begun() {
    let setup = Setup::<Log>::new();
    let site = Site::new(&setup, RegionSize::of(8 * MIB));
    close(site.open().engine);
    for other in setup.compatible() {
        let engine = other.open(RegionSize::of(8 * MIB), &site.place(), UNIX).unwrap().engine;
        assert_eq!(engine.core.partitions.len(), 4);
        close(engine);
    }
}
