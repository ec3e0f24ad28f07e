//! Engines go on where others have left off.

use super::scratch::Scratch;
use crate::{FleecEngine, FleecOptions, FleecSession};
use guira_contract::suite::{self, store, value_of};
use guira_contract::{
    Amendment, CloseError, Control, Decision, Emptied, Engine, EngineStats, Expiry, ItemSpec, ItemState,
    ItemView, Key, Opening, Pace, Provision, Reassign, ResizeError, Session,
};
use guira_items::hooks::{self, Window};
use guira_items::{ClassOptions, EngineOptions, Eviction, Hashing, OpenError};
use guira_memory::lasting::{FileContents, Loss, RegionFile};
use guira_memory::slab::PAGE_BYTES;
use guira_memory::{HugePages, MIB};
use guira_sync::atomic::Ordering;
use guira_sync::clock::{Seconds, TimeBase};
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

type Opened = guira_contract::Opened<FleecEngine>;

/// The wall clock when the first engine is opened. Second 0 is two seconds earlier.
const UNIX: u64 = 1_700_000_000;
pub(super) const NOW: Seconds = Seconds(1000);

pub(super) fn options(memory: usize) -> FleecOptions {
    FleecOptions {
        engine: EngineOptions { memory, reserve: 4 * memory, ..EngineOptions::default() },
        ..FleecOptions::default()
    }
}

pub(super) fn open(scratch: &Scratch, options: FleecOptions) -> Opened {
    FleecEngine::open_lasting(options, &scratch.place(), UNIX + 998).unwrap()
}

pub(super) fn close(engine: FleecEngine) {
    engine.close(NOW, b"notes of the server").unwrap();
}

pub(super) fn put(session: &mut FleecSession, key: &str, value: &[u8], expiry: Expiry) {
    store(session, key.as_bytes(), value, 7, expiry, NOW).unwrap();
}

fn key_of<'k>(session: &FleecSession, key: &'k str) -> Key<'k> {
    Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) }
}

fn end_batch(session: &mut FleecSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

fn settle(engine: &FleecEngine) {
    let mut session = engine.session();
    for _ in 0..10_000 {
        if session.maintain(NOW, Pace::Idle, 64) == 0 {
            return;
        }
    }
}

/// Every chunk that is handed out belongs to exactly one item on the list, and the counts are right. Nobody else uses the engine.
fn check_chunks(engine: &FleecEngine) {
    let core = &engine.core;
    let free = || core.memory.classes().ids().map(|class| core.memory.free_chunks(class)).collect::<Vec<_>>();
    let before = free();
    core.finish_growth();
    assert_eq!(core.recover(), Some(core.shell.registry().held()));
    assert_eq!(free(), before, "no chunk was lost");
}

/// An engine with one item, closed.
fn closed(scratch: &Scratch, options: FleecOptions) {
    let Opened { engine, .. } = open(scratch, options);
    put(&mut engine.session(), "k", b"v", Expiry::Never);
    close(engine);
}

fn reason(opened: &Opened) -> &Emptied {
    match &opened.opening {
        Opening::Emptied(why) => why,
        other => panic!("{other}"),
    }
}

#[test]
fn everything_about_an_item_is_there_again() {
    let scratch = Scratch::new("items");
    let Opened { engine, opening, notes, base } = open(&scratch, options(16 * MIB));
    assert_eq!((opening, notes.len()), (Opening::New, 0));
    assert_eq!(base, TimeBase { unix: UNIX + 996, reached: Seconds(2) });
    let mut session = engine.session();
    let long: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
    put(&mut session, "short", b"value", Expiry::Never);
    put(&mut session, "long", &long, Expiry::At(Seconds(2000)));
    put(&mut session, "read", b"", Expiry::Never);
    value_of(&mut session, b"read", NOW);
    let cas = session.next_cas();
    let change = || Amendment { cas: Some(cas), set: ItemState::STALE, ..Amendment::default() };
    let short = key_of(&session, "short");
    session.update(short, Default::default(), NOW, Provision::None, |_| Decision::Amend(change())).unwrap();
    let before: Vec<_> =
        ["short", "long", "read"].map(|key| value_of(&mut session, key.as_bytes(), NOW).unwrap()).into();
    let stats = engine.stats();
    drop(session);
    close(engine);

    let Opened { engine, opening, notes, base } = open(&scratch, options(16 * MIB));
    assert_eq!(
        (opening, notes.as_slice()),
        (Opening::Restored { items: 3 }, b"notes of the server".as_slice())
    );
    assert_eq!(
        base,
        TimeBase { unix: UNIX + 996 + 2 - 1000, reached: Seconds(1000) },
        "the wall clock is behind"
    );
    let mut session = engine.session();
    for (key, before) in ["short", "long", "read"].iter().zip(before) {
        let after = value_of(&mut session, key.as_bytes(), NOW).unwrap();
        assert!(after.value == before.value, "{key}");
        assert!(after.meta.state.has(ItemState::FETCHED));
        assert_eq!(
            after.meta.state.without(ItemState::FETCHED),
            before.meta.state.without(ItemState::FETCHED)
        );
        let told =
            |meta: &guira_contract::Meta| (meta.flags, meta.expiry, meta.cas, meta.last_access, meta.class);
        assert_eq!(told(&after.meta), told(&before.meta), "{key}");
    }
    assert!(value_of(&mut session, b"long", Seconds(2000)).is_none(), "it expires when it would have");
    assert!(session.next_cas() > cas);
    let again = engine.stats();
    assert_eq!((again.total_items, again.memory_used), (stats.total_items, stats.memory_used));
    drop(session);
    settle(&engine);
    check_chunks(&engine);
}

#[test]
fn who_does_not_close_in_order_leaves_nothing() {
    let scratch = Scratch::new("killed");
    closed(&scratch, options(4 * MIB));
    let restored = open(&scratch, options(4 * MIB));
    assert_eq!(restored.opening, Opening::Restored { items: 1 });
    drop(restored);
    let emptied = open(&scratch, options(4 * MIB));
    assert_eq!(reason(&emptied), &Emptied::Lost(Loss::NotClosed));
    let Opened { engine, .. } = emptied;
    let mut session = engine.session();
    assert_eq!((engine.stats().items, value_of(&mut session, b"k", NOW)), (0, None));
    let other = engine.clone();
    assert!(matches!(engine.close(NOW, b""), Err(CloseError::InUse)), "a session and another handle exist");
    drop(session);
    assert!(matches!(other.close(NOW, &[0; 20_000]), Err(CloseError::Notes(20_000))));
    assert_eq!(reason(&open(&scratch, options(4 * MIB))), &Emptied::Lost(Loss::NotClosed));
}

#[test]
fn two_engines_never_share_a_region_and_one_in_memory_is_closed_like_any_other() {
    let scratch = Scratch::new("shared");
    let first = open(&scratch, options(4 * MIB));
    let second = FleecEngine::open_lasting(options(4 * MIB), &scratch.place(), UNIX);
    assert!(matches!(second, Err(OpenError::Region { .. })));
    close(first.engine);
    assert_eq!(open(&scratch, options(4 * MIB)).opening, Opening::Restored { items: 0 });
    close(super::open(4 * MIB));
}

#[test]
fn a_region_that_was_set_up_in_another_way_is_emptied_and_says_why() {
    let scratch = Scratch::new("settings");
    let was = options(8 * MIB);
    let others = [
        (
            FleecOptions { classes: ClassOptions { factor: 1.25, ..was.classes }, ..was },
            "growth factor (-f) was 1.06 and is now 1.25",
        ),
        (
            FleecOptions { classes: ClassOptions { smallest_item: 48, ..was.classes }, ..was },
            "smallest item (-n) was 16 and is now 48",
        ),
        (
            FleecOptions { engine: EngineOptions { max_item_size: MIB / 2, ..was.engine }, ..was },
            "largest item (-I) was 1048576 and is now 524288",
        ),
        (
            FleecOptions { engine: EngineOptions { hashing: Hashing::Fixed(|_| 1), ..was.engine }, ..was },
            "hash function",
        ),
        (
            FleecOptions { engine: EngineOptions { memory: 64 * MIB, ..was.engine }, ..was },
            "up to 33554432 bytes",
        ),
        (
            FleecOptions {
                engine: EngineOptions { memory: 2 * MIB, max_item_size: MIB, ..was.engine },
                ..was
            },
            "",
        ),
    ];
    for (other, text) in others {
        closed(&scratch, was);
        let opened = open(&scratch, other);
        if text.is_empty() {
            assert_eq!(opened.opening, Opening::Restored { items: 1 });
            continue;
        }
        assert!(reason(&opened).to_string().contains(text), "{}", opened.opening);
        let mut session = opened.engine.session();
        assert!(value_of(&mut session, b"k", NOW).is_none());
        put(&mut session, "k", b"new", Expiry::Never);
        std::fs::remove_file(scratch.place().path()).unwrap();
    }
    // The seed is the Region's.
    std::fs::remove_file(scratch.place().path()).unwrap();
    closed(&scratch, was);
    let opened = open(
        &scratch,
        FleecOptions {
            engine: EngineOptions { hashing: Hashing::Seeded(77), eviction: Eviction::Off, ..was.engine },
            ..was
        },
    );
    assert!(value_of(&mut opened.engine.session(), b"k", NOW).is_some());
}

#[test]
fn time_goes_on_while_nobody_is_there_and_never_back() {
    let scratch = Scratch::new("time");
    let at = |unix: u64| FleecEngine::open_lasting(options(4 * MIB), &scratch.place(), unix).unwrap();
    let Opened { engine, base, .. } = at(UNIX);
    assert_eq!(base.unix, UNIX - 2);
    let mut session = engine.session();
    put(&mut session, "expired", b"v", Expiry::At(Seconds(900)));
    put(&mut session, "soon", b"v", Expiry::At(Seconds(1100)));
    put(&mut session, "later", b"v", Expiry::At(Seconds(5000)));
    engine.flush(NOW, Seconds(3000));
    drop(session);
    engine.close(NOW, b"").unwrap();
    // An hour earlier by the wall clock: as if no time had passed.
    let Opened { engine, base, .. } = at(UNIX + 998 - 3600);
    assert_eq!(base, TimeBase { unix: UNIX - 2 - 3600, reached: NOW });
    let mut session = engine.session();
    assert!(value_of(&mut session, b"expired", base.reached).is_none());
    assert!(value_of(&mut session, b"soon", base.reached).is_some());
    drop(session);
    engine.close(base.reached, b"").unwrap();
    // 1,500 seconds later.
    let Opened { engine, base, .. } = at(UNIX + 998 - 3600 + 1500);
    assert_eq!(base.reached, Seconds(2500));
    let mut session = engine.session();
    assert!(value_of(&mut session, b"soon", base.reached).is_none());
    assert!(value_of(&mut session, b"later", base.reached).is_some());
    assert!(value_of(&mut session, b"later", Seconds(3000)).is_none(), "the flush is still due");
    drop(session);
    engine.close(base.reached, b"").unwrap();
    assert_eq!(reason(&at(UNIX + (1 << 31))), &Emptied::TooOld);
}

#[test]
fn what_was_flushed_stays_flushed_across_many_restarts() {
    let scratch = Scratch::new("flushed");
    for round in 8..40 {
        let Opened { engine, .. } = open(&scratch, options(4 * MIB));
        let mut session = engine.session();
        // There are eight generations of flushes: the item of eight rounds ago is of the same one as those that are stored now. Nobody
        // has looked for it since.
        let earlier = format!("flushed{}", round - 8);
        assert!(value_of(&mut session, earlier.as_bytes(), NOW).is_none(), "{earlier}");
        put(&mut session, &format!("flushed{round}"), b"v", Expiry::Never);
        engine.flush(NOW, NOW);
        put(&mut session, "kept", b"v", Expiry::Never);
        drop(session);
        close(engine);
        let Opened { engine, .. } = open(&scratch, options(4 * MIB));
        assert!(value_of(&mut engine.session(), b"kept", NOW).is_some());
        close(engine);
    }
}

#[test]
fn another_amount_of_memory_is_taken_over_and_reached() {
    let scratch = Scratch::new("memory");
    let Opened { engine, .. } = open(&scratch, options(16 * MIB));
    let mut session = engine.session();
    for i in 0..30_000 {
        put(&mut session, &format!("key{i}"), &[1; 400], Expiry::Never);
        end_batch(&mut session);
    }
    drop(session);
    close(engine);
    let items = |memory: usize| {
        let Opened { engine, opening, .. } = open(&scratch, options(memory));
        let Opening::Restored { items } = opening else { panic!("{opening}") };
        assert_eq!(engine.stats().items, items);
        settle(&engine);
        check_chunks(&engine);
        let stats = engine.stats();
        assert!(stats.memory_used <= memory as u64 && stats.memory_limit == memory as u64);
        assert_eq!(stats.memory_reserve, 64 * MIB as u64);
        assert!(
            engine.resize(64 * MIB + 1).is_err() && engine.resize(64 * MIB).is_ok(),
            "the reserve is the file's"
        );
        close(engine);
        stats.items
    };
    let full = items(16 * MIB);
    assert_eq!(items(64 * MIB), full);
    let less = items(6 * MIB);
    assert!(less > full / 4 && less < full / 2, "{less} of {full}");
    assert_eq!(items(16 * MIB), less);
}

#[test]
fn another_engine_begins_with_nothing() {
    let scratch = Scratch::new("engine");
    closed(&scratch, options(4 * MIB));
    let Ok((file, FileContents::Intact(mut kept))) = RegionFile::open(&scratch.place()) else {
        panic!("it was closed")
    };
    kept.state[..8].copy_from_slice(b"cuckoo02");
    let (region, _) = file.map(&kept, HugePages::No).unwrap();
    file.close(&region, &kept.state, &[]).unwrap();
    drop(region);
    assert_eq!(reason(&open(&scratch, options(4 * MIB))), &Emptied::Engine);
}

#[test]
fn a_region_that_cannot_be_opened_for_want_of_room_is_not_lost() {
    let scratch = Scratch::new("room");
    let large = FleecOptions {
        engine: EngineOptions { reserve: 4 << 40, ..options(4 * MIB).engine },
        ..options(4 * MIB)
    };
    closed(&scratch, large);
    // More than any file system in memory has.
    let refused = FleecEngine::open_lasting(
        FleecOptions { engine: EngineOptions { memory: 4 << 40, ..large.engine }, ..large },
        &scratch.place(),
        UNIX,
    );
    assert!(matches!(refused, Err(OpenError::NoRoom { .. })), "{refused:?}");
    let opened = open(&scratch, large);
    assert_eq!(opened.opening, Opening::Restored { items: 1 });
    assert!(matches!(opened.engine.resize(4 << 40), Err(ResizeError::NoRoom { .. })));
}

/// Everything that statistics tell, but for what begins anew with the process.
fn told(engine: &FleecEngine) -> EngineStats {
    EngineStats { crawling: false, crawls: 0, ..engine.stats() }
}

#[test]
fn memory_counts_and_classes_are_as_they_were() {
    for (name, memory, huge) in [("small", 16, HugePages::No), ("huge", 48, HugePages::Ask)] {
        let scratch = Scratch::new(name);
        let options = FleecOptions {
            engine: EngineOptions { huge_pages: Some(huge), ..options(memory * MIB).engine },
            ..options(memory * MIB)
        };
        let Opened { engine, .. } = open(&scratch, options);
        // Several sessions, each with chunks of its own, one of them with a pending value under way, and values of all lengths: some are evicted.
        let mut sessions: Vec<FleecSession> = (0..4).map(|_| engine.session()).collect();
        let room = ItemSpec { flags: 0, expiry: Expiry::Never, cas: None, value_len: 300_000 };
        let mut pending = sessions[0].begin_value(b"pending", room).unwrap();
        sessions[0].extend(&mut pending, &[9; 200_000]).unwrap();
        let mut stored = 0u32;
        while engine.stats().evictions < 2000 {
            let length = [20, 100, 1000, 3000, 50_000][stored as usize % 5];
            let expiry = if stored.is_multiple_of(7) { Expiry::At(Seconds(1500)) } else { Expiry::Never };
            let session = &mut sessions[stored as usize % 4];
            put(session, &format!("key{stored}"), &vec![stored as u8; length], expiry);
            stored += 1;
        }
        value_of(&mut sessions[0], b"nothing", NOW);
        drop((pending, sessions));
        let before = told(&engine);
        assert!(before.classes.iter().any(|class| class.counts.evicted > 0 && class.free_chunks > 0));
        close(engine);
        for _ in 0..3 {
            let Opened { engine, .. } = open(&scratch, options);
            assert_eq!(told(&engine), before);
            check_chunks(&engine);
            close(engine);
        }
    }
}

#[test]
fn pages_of_no_class_are_given_back_and_used_again() {
    let scratch = Scratch::new("pages");
    let Opened { engine, .. } = open(&scratch, options(16 * MIB));
    let mut session = engine.session();
    (0..30_000).for_each(|i| put(&mut session, &format!("key{i}"), &[1; 200], Expiry::Never));
    let is_gone = |i: &u32| !i.is_multiple_of(50);
    for key in (0..30_000).filter(is_gone).map(|i| format!("key{i}")) {
        session
            .update(key_of(&session, &key), Default::default(), NOW, Provision::None, |_| Decision::Remove)
            .unwrap();
    }
    drop(session);
    for _ in 0..8 {
        assert_eq!(engine.reassign(None, 0), Reassign::Begun);
    }
    let before = engine.stats();
    assert_eq!(before.pages_free, 8);
    close(engine);
    let Opened { engine, .. } = open(&scratch, options(16 * MIB));
    let after = engine.stats();
    assert_eq!((after.items, after.pages_free), (before.items, 0));
    assert_eq!(after.memory_used, before.memory_used - 8 * PAGE_BYTES as u64);
    let mut session = engine.session();
    (0..90_000).for_each(|i| put(&mut session, &format!("more{i}"), &[2; 200], Expiry::Never));
    drop(session);
    let stats = engine.stats();
    assert!(stats.memory_used > stats.memory_limit - MIB as u64, "all memory is used again: {stats:?}");
    check_chunks(&engine);
}

#[test]
fn hand_and_clock_values_are_as_they_were() {
    let scratch = Scratch::new("hand");
    let Opened { engine, .. } = open(&scratch, options(8 * MIB));
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
    let Opened { engine, .. } = open(&scratch, options(8 * MIB));
    assert!(turned(&engine) == before);
}

/// Whoever adds a bucket goes away in the middle of it.
#[test]
fn a_bucket_that_was_being_added_is_added() {
    for window in [Window::Dividing, Window::Divided] {
        let scratch = Scratch::new(&format!("{window:?}"));
        let Opened { engine, .. } = open(&scratch, options(32 * MIB));
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
        let Opened { engine, opening, .. } = open(&scratch, options(32 * MIB));
        assert_eq!(opening, Opening::Restored { items: stored });
        assert_eq!(engine.stats().index_slots, buckets + 1);
        let mut session = engine.session();
        put_some(&mut session, 1000);
        assert!(engine.stats().index_slots > buckets + 900);
        let mut all = 1..=stored + 1000;
        assert!(all.all(|i| value_of(&mut session, format!("key{i}").as_bytes(), NOW).is_some()));
        drop(session);
        check_chunks(&engine);
    }
}

/// An item that is out of the table stays on the list if the one before it goes at the same moment. Whoever has marked it looks again.
#[test]
fn what_was_left_on_the_list_is_taken_off_and_freed() {
    let scratch = Scratch::new("marked");
    let options = FleecOptions {
        engine: EngineOptions { hashing: Hashing::Fixed(|key| key[0].into()), ..options(4 * MIB).engine },
        ..options(4 * MIB)
    };
    let Opened { engine, .. } = open(&scratch, options);
    let mut session = engine.session();
    let long = vec![1; 100_000];
    put(&mut session, "a first", b"v", Expiry::Never);
    put(&mut session, "a second", &long, Expiry::Never);
    put(&mut session, "a third", b"v", Expiry::Never);
    fn remove(session: &mut FleecSession, key: &str) {
        session
            .update(key_of(session, key), Default::default(), NOW, Provision::None, |_| Decision::Remove)
            .unwrap();
    }
    let (others, met) = (engine.clone(), Rc::new(Cell::new(0)));
    let count = met.clone();
    let guard = hooks::set(move |here| {
        if here == Window::Marked {
            count.set(count.get() + 1);
            remove(&mut others.session(), "a first");
        }
    });
    remove(&mut session, "a second");
    drop(guard);
    assert_eq!(met.get(), 1);
    drop(session);
    let used =
        |engine: &FleecEngine| engine.stats().classes.iter().map(|class| class.used_chunks).sum::<u64>();
    assert_eq!(
        used(&engine),
        2,
        "the first was announced when it was taken off, and is left to whoever comes by"
    );
    close(engine);
    let Opened { engine, opening, .. } = open(&scratch, options);
    assert_eq!((opening, used(&engine)), (Opening::Restored { items: 1 }, 1));
    let mut session = engine.session();
    assert!(["a first", "a second"].iter().all(|key| value_of(&mut session, key.as_bytes(), NOW).is_none()));
    assert!(value_of(&mut session, b"a third", NOW).is_some());
    drop(session);
    check_chunks(&engine);
}

#[test]
fn a_table_too_large_for_the_memory_is_given_up() {
    let scratch = Scratch::new("table");
    let Opened { engine, .. } = open(&scratch, options(64 * MIB));
    let mut session = engine.session();
    (0..400_000).for_each(|i| put(&mut session, &format!("key{i}"), b"v", Expiry::Never));
    drop(session);
    close(engine);
    let emptied = open(&scratch, options(4 * MIB));
    assert!(matches!(reason(&emptied), Emptied::TooSmall { .. }), "{}", emptied.opening);
}

struct Modelled {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    cas: Option<u64>,
}

/// A run of random operations against a map, from one restart to the next.
struct Run {
    random: u64,
    model: HashMap<u64, Modelled>,
    now: Seconds,
    missing: u64,
}

impl Run {
    fn below(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    fn step(&mut self, session: &mut FleecSession, keys: u64) {
        let key = self.below(keys);
        let name = format!("key{key}");
        match self.below(20) {
            0..12 => {
                let most = [100, 100, 100, 2000, 40_000][self.below(5) as usize];
                let (length, fill) = (self.below(most), self.below(256) as u8);
                let value: Vec<u8> = (0..length).map(|i| fill.wrapping_add(i as u8)).collect();
                let flags = self.below(3) as u32;
                let expiry = match self.below(4) {
                    0 => Expiry::At(Seconds(self.now.0 + self.below(300) as u32)),
                    _ => Expiry::Never,
                };
                store(session, name.as_bytes(), &value, flags, expiry, self.now).unwrap();
                self.model.insert(key, Modelled { value, flags, expiry, cas: None });
            }
            12..14 => {
                session
                    .update(key_of(session, &name), Default::default(), self.now, Provision::None, |_| {
                        Decision::Remove
                    })
                    .unwrap();
                self.model.remove(&key);
            }
            14..16 => {
                let cas = session.next_cas();
                let mut found = false;
                let change = |item: Option<&dyn ItemView>| {
                    found = item.is_some();
                    Decision::Amend(Amendment { cas: Some(cas), ..Amendment::default() })
                };
                session
                    .update(key_of(session, &name), Default::default(), self.now, Provision::None, change)
                    .unwrap();
                if let Some(item) = self.model.get_mut(&key).filter(|_| found) {
                    item.cas = Some(cas);
                }
            }
            _ => self.check(session, key),
        }
    }

    /// What is there must be what the model says; what is not there was evicted.
    fn check(&mut self, session: &mut FleecSession, key: u64) {
        let found = value_of(session, format!("key{key}").as_bytes(), self.now);
        let expected = self.model.get(&key).filter(|item| !item.expiry.passed(self.now));
        match (found, expected) {
            (None, None) => {}
            (None, Some(_)) => {
                self.missing += 1;
                self.model.remove(&key);
            }
            (Some(found), Some(expected)) => {
                assert!(found.value == expected.value, "key{key}");
                let meta = found.meta;
                assert_eq!(
                    (meta.flags, meta.expiry, meta.cas),
                    (expected.flags, expected.expiry, expected.cas)
                );
            }
            (Some(_), None) => panic!("key{key} is back"),
        }
    }
}

#[test]
fn whatever_was_not_counted_as_lost_is_there_after_any_number_of_restarts() {
    for seed in 0..4 {
        let scratch = Scratch::new(&format!("model{seed}"));
        let mut run = Run { random: seed, model: HashMap::new(), now: Seconds(2), missing: 0 };
        let keys = [500, 40_000][seed as usize % 2];
        for round in 0..12 {
            let memory = [8, 8, 16, 5][run.below(4) as usize] * MIB;
            let options = FleecOptions {
                engine: EngineOptions { reserve: 32 * MIB, ..options(memory).engine },
                ..options(memory)
            };
            let unix = UNIX + u64::from(run.now.0) - 2 + run.below(3) * 50;
            let opened = FleecEngine::open_lasting(options, &scratch.place(), unix).unwrap();
            assert_eq!(opened.opening == Opening::New, round == 0, "{}", opened.opening);
            let engine = opened.engine;
            run.now = opened.base.reached;
            let mut session = engine.session();
            for step in 0..8000 {
                run.step(&mut session, keys);
                if step % 16 == 0 {
                    session.quiesce();
                    session.maintain(run.now, Pace::Busy, 8);
                }
                if run.below(500) == 0 {
                    run.now = Seconds(run.now.0 + 1);
                }
            }
            for key in 0..keys {
                run.check(&mut session, key);
            }
            let stats = engine.stats();
            assert!(
                run.missing <= stats.evictions,
                "{} are missing, {} were evicted",
                run.missing,
                stats.evictions
            );
            let alive = run.model.values().filter(|item| !item.expiry.passed(run.now)).count() as u64;
            assert!(alive > 0 && alive <= stats.items, "{alive} of {}", stats.items);
            drop(session);
            engine.close(run.now, b"").unwrap();
        }
    }
}

#[test]
fn the_suite_holds_in_a_region_that_lasts() {
    let scratch = Scratch::new("suite");
    let Opened { engine, .. } = open(&scratch, options(64 * MIB));
    suite::differential(&engine, 6, 20_000);
    close(engine);
    let Opened { engine, opening, .. } = open(&scratch, options(64 * MIB));
    assert!(matches!(opening, Opening::Restored { .. }), "{opening}");
    let plan = suite::History { seed: 6, threads: 4, keys: 64, operations: 30_000 };
    // The sequence numbers of the second run begin anew, and so must the keys.
    engine.flush(NOW, NOW);
    suite::history(&engine, plan);
    close(engine);
    let Opened { engine, opening, .. } = open(&scratch, options(64 * MIB));
    assert!(matches!(opening, Opening::Restored { .. }), "{opening}");
    engine.flush(NOW, NOW);
    suite::history(&engine, suite::History { keys: 60_000, ..plan });
    engine.resize(8 * MIB).unwrap();
    settle(&engine);
    check_chunks(&engine);
    let items = engine.stats().items;
    close(engine);
    assert_eq!(open(&scratch, options(64 * MIB)).opening, Opening::Restored { items });
}

/// The index is compared with the count of items when a Region is opened: threads must not have counted wrong.
#[test]
fn what_threads_have_left_is_restored_whatever_they_did() {
    let scratch = Scratch::new("threads");
    for seed in 0..6u64 {
        let Opened { engine, opening, .. } = open(&scratch, options(8 * MIB));
        assert!(seed == 0 || matches!(opening, Opening::Restored { .. }), "{opening}");
        // The sequence numbers of another run would be taken for those of this one.
        engine.flush(NOW, NOW);
        std::thread::scope(|scope| {
            let plan = suite::History { seed, threads: 3, keys: 60_000, operations: 30_000 };
            let shared = &engine;
            let running = scope.spawn(move || suite::history(shared, plan));
            let mut session = engine.session();
            let mut round = 0;
            while !running.is_finished() {
                round += 1;
                engine.resize([8, 32, 10, 16][round % 4] * MIB).unwrap();
                for i in 0..500 {
                    put(&mut session, &format!("expires{i}"), &[1; 300], Expiry::At(Seconds(1001)));
                    session.maintain(Seconds(1000 + i % 3), Pace::Idle, 4);
                    session.quiesce();
                }
            }
        });
        let stats = engine.stats();
        close(engine);
        let Opened { engine, opening, .. } = open(&scratch, options(8 * MIB));
        assert_eq!(opening, Opening::Restored { items: stats.items });
        settle(&engine);
        check_chunks(&engine);
        close(engine);
    }
}
