//! Engines go on where others have left off.

use super::resizes::{check_pages, settle};
use super::scratch::Scratch;
use super::{Opened, SlabEngine, SlabSession};
use crate::{Eviction, Hashing, OpenError, SlabOptions};
use guira_contract::suite::{self, Image, store, value_of};
use guira_contract::{
    Amendment, CloseError, Control, Decision, Emptied, Engine, Expiry, ItemState, ItemView, Key, Opening,
    Pace, Provision, ResizeError, Session,
};
use guira_items::{ClassOptions, EngineOptions};
use guira_memory::HugePages;
use guira_memory::MIB;
use guira_memory::lasting::{FileContents, Loss, RegionFile};
use guira_sync::clock::{Seconds, TimeBase};
use std::collections::HashMap;
use std::os::unix::fs::FileExt;

/// The wall clock when the first engine is opened. Second 0 is two seconds earlier.
const UNIX: u64 = 1_700_000_000;
pub(super) const NOW: Seconds = Seconds(1000);

pub(super) fn options(memory: usize) -> SlabOptions {
    SlabOptions {
        engine: EngineOptions { memory, reserve: 4 * memory, ..EngineOptions::default() },
        ..SlabOptions::default()
    }
}

pub(super) fn open(scratch: &Scratch, options: SlabOptions) -> Opened {
    SlabEngine::open_lasting(options, &scratch.place(), UNIX + 998).unwrap()
}

pub(super) fn close(engine: SlabEngine) {
    engine.close(NOW, b"notes of the server").unwrap();
}

pub(super) fn put(session: &mut SlabSession, key: &str, value: &[u8], expiry: Expiry) {
    store(session, key.as_bytes(), value, 7, expiry, NOW).unwrap();
}

fn key_of<'k>(session: &SlabSession, key: &'k str) -> Key<'k> {
    Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) }
}

fn end_batch(session: &mut SlabSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

/// An engine with one item, closed.
fn closed(scratch: &Scratch, options: SlabOptions) {
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
    settle(&mut session);
    check_pages(&engine);
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
    let second = SlabEngine::open_lasting(options(4 * MIB), &scratch.place(), UNIX);
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
            SlabOptions { classes: ClassOptions { factor: 1.25, ..was.classes }, ..was },
            "growth factor (-f) was 1.06 and is now 1.25",
        ),
        (
            SlabOptions { classes: ClassOptions { smallest_item: 48, ..was.classes }, ..was },
            "smallest item (-n) was 16 and is now 48",
        ),
        (
            SlabOptions { engine: EngineOptions { max_item_size: MIB / 2, ..was.engine }, ..was },
            "largest item (-I) was 1048576 and is now 524288",
        ),
        (
            SlabOptions { engine: EngineOptions { hashing: Hashing::Fixed(|_| 1), ..was.engine }, ..was },
            "hash function",
        ),
        (
            SlabOptions { engine: EngineOptions { memory: 64 * MIB, ..was.engine }, ..was },
            "up to 33554432 bytes",
        ),
        (
            SlabOptions {
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
        SlabOptions {
            engine: EngineOptions { hashing: Hashing::Seeded(77), eviction: Eviction::Off, ..was.engine },
            ..was
        },
    );
    assert!(value_of(&mut opened.engine.session(), b"k", NOW).is_some());
}

#[test]
fn a_region_that_cannot_be_opened_for_want_of_room_is_not_lost() {
    let scratch = Scratch::new("room");
    let large = SlabOptions {
        engine: EngineOptions { reserve: 4 << 40, ..options(4 * MIB).engine },
        ..options(4 * MIB)
    };
    closed(&scratch, large);
    // More than any file system in memory has.
    let refused = SlabEngine::open_lasting(
        SlabOptions { engine: EngineOptions { memory: 4 << 40, ..large.engine }, ..large },
        &scratch.place(),
        UNIX,
    );
    assert!(matches!(refused, Err(OpenError::NoRoom { .. })), "{refused:?}");
    let opened = open(&scratch, large);
    assert_eq!(opened.opening, Opening::Restored { items: 1 });
    assert!(matches!(opened.engine.resize(4 << 40), Err(ResizeError::NoRoom { .. })));
}

#[test]
fn time_goes_on_while_nobody_is_there_and_never_back() {
    let scratch = Scratch::new("time");
    let at = |unix: u64| SlabEngine::open_lasting(options(4 * MIB), &scratch.place(), unix).unwrap();
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
fn the_hand_goes_on_with_what_is_oldest() {
    let scratch = Scratch::new("hand");
    let put_many = |session: &mut SlabSession, keys: std::ops::Range<u64>| {
        for i in keys {
            put(session, &format!("key{i:06}"), &[1; 100], Expiry::Never);
            end_batch(session);
        }
    };
    let Opened { engine, .. } = open(&scratch, options(8 * MIB));
    let mut session = engine.session();
    put_many(&mut session, 0..90_000);
    let stored = engine.stats().items;
    assert!(engine.stats().evictions > 20_000, "the hand is somewhere in the middle: {:?}", engine.stats());
    drop(session);
    close(engine);
    let Opened { engine, .. } = open(&scratch, options(8 * MIB));
    let mut session = engine.session();
    put_many(&mut session, 90_000..90_000 + stored / 3);
    let newest = 90_000 - stored / 3..90_000;
    let kept =
        newest.clone().filter(|i| value_of(&mut session, format!("key{i:06}").as_bytes(), NOW).is_some());
    let (kept, of) = (kept.count() as u64, newest.end - newest.start);
    assert!(kept * 100 > of * 97, "{kept} of the newest {of} are left");
}

#[test]
fn what_was_read_is_spared_by_the_hand_after_a_restart() {
    let scratch = Scratch::new("recency");
    let Opened { engine, .. } = open(&scratch, options(8 * MIB));
    let mut session = engine.session();
    let mut stored = 0;
    while engine.stats().evictions < 10_000 {
        put(&mut session, &format!("key{stored}"), &[1; 100], Expiry::Never);
        end_batch(&mut session);
        stored += 1;
    }
    let is_there =
        |session: &mut SlabSession, i: u64| value_of(session, format!("key{i}").as_bytes(), NOW).is_some();
    // The oldest that are left: the hand comes to them next.
    let read: Vec<u64> = (0..stored).filter(|i| is_there(&mut session, *i)).take(2000).collect();
    let unread = engine.stats().items - 2000;
    drop(session);
    close(engine);
    let Opened { engine, .. } = open(&scratch, options(8 * MIB));
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
        let scratch = Scratch::new("growing");
        let Opened { engine, .. } = open(&scratch, options(32 * MIB));
        let mut session = engine.session();
        let mut stored = 0;
        while !engine.stats().index_growing {
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
        let Opened { engine, opening, .. } = open(&scratch, options(32 * MIB));
        assert_eq!(opening, Opening::Restored { items: stored });
        assert_eq!(engine.stats().index_growing, growing);
        let mut session = engine.session();
        let all = |session: &mut SlabSession| {
            (0..stored).all(|i| value_of(session, format!("key{i}").as_bytes(), NOW).is_some())
        };
        assert!(all(&mut session));
        settle(&mut session);
        assert!(!engine.stats().index_growing && all(&mut session));
        check_pages(&engine);
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
        let mut session = engine.session();
        assert_eq!(engine.stats().items, items);
        settle(&mut session);
        check_pages(&engine);
        let stats = engine.stats();
        assert!(stats.memory_used <= memory as u64 && stats.memory_limit == memory as u64);
        assert_eq!(stats.memory_reserve, 64 * MIB as u64);
        assert!(
            engine.resize(64 * MIB + 1).is_err() && engine.resize(64 * MIB).is_ok(),
            "the reserve is the file's"
        );
        drop(session);
        close(engine);
        stats.items
    };
    let full = items(16 * MIB);
    assert_eq!(items(64 * MIB), full);
    let less = items(6 * MIB);
    assert!(less > full / 4 && less < full / 2, "{less} of {full}");
    assert_eq!(items(16 * MIB), less);
}

/// The numbers that the engine leaves in the head are whatever somebody wrote there.
#[test]
fn no_state_makes_the_engine_panic_or_take_more_memory_than_there_is() {
    let scratch = Scratch::new("state");
    let options = |memory: usize| SlabOptions { engine: EngineOptions::of(memory), ..SlabOptions::default() };
    let Opened { engine, .. } = open(&scratch, options(4 * MIB));
    let mut session = engine.session();
    (0..5000).for_each(|i| put(&mut session, &format!("key{i}"), &[2; 100], Expiry::Never));
    drop(session);
    close(engine);
    let whole = std::fs::read(scratch.place().path()).unwrap();
    let kept = |scratch: &Scratch| match RegionFile::open(&scratch.place()).unwrap() {
        (file, FileContents::Intact(kept)) => (file, kept),
        (_, found) => panic!("{found:?}"),
    };
    // The hands of many classes are alike.
    let numbers = (kept(&scratch).1.state.len() / 8).min(100);
    let mut restored = 0;
    let rewrite = || {
        let file = std::fs::OpenOptions::new().write(true).open(scratch.place().path()).unwrap();
        file.set_len(0).unwrap();
        file.set_len(whole.len() as u64).unwrap();
        let blocks = whole.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0));
        blocks.for_each(|(at, block)| file.write_all_at(block, at as u64 * 4096).unwrap());
    };
    for number in 0..numbers {
        for change in [0, 1, 2, u64::MAX, 1 << 32, 1 << 63] {
            rewrite();
            let (file, mut kept) = kept(&scratch);
            let place = number * 8..number * 8 + 8;
            let was = u64::from_le_bytes(kept.state[place.clone()].try_into().unwrap());
            let is = if change == 2 { was ^ 1 } else { change };
            kept.state[place].copy_from_slice(&is.to_le_bytes());
            let (region, _) = file.map(&kept, HugePages::No).unwrap();
            file.close(&region, &kept.state, &[]).unwrap();
            drop(region);
            let Opened { engine, opening, base, .. } = open(&scratch, options(4 * MIB));
            restored += u32::from(matches!(opening, Opening::Restored { .. }));
            let mut session = engine.session();
            for i in 0..40 {
                let key = format!("key{i}");
                value_of(&mut session, key.as_bytes(), base.reached);
                let _ = store(&mut session, key.as_bytes(), &[3; 100], 0, Expiry::Never, base.reached);
                end_batch(&mut session);
            }
            assert!(
                engine.core.pool.memory().census().total() == engine.core.sizing.plan().pages,
                "number {number} is {is}"
            );
        }
    }
    assert!(restored > 0);
}

#[test]
fn no_head_with_a_byte_changed_is_believed() {
    let scratch = Scratch::new("head");
    closed(&scratch, options(2 * MIB));
    let length = std::fs::metadata(scratch.place().path()).unwrap().len();
    let whole = std::fs::read(scratch.place().path()).unwrap();
    let used = whole[..64 << 10].iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(used > 1000);
    for at in 0..used {
        let file = std::fs::OpenOptions::new().write(true).open(scratch.place().path()).unwrap();
        file.set_len(0).unwrap();
        file.set_len(length).unwrap();
        file.write_all_at(&whole[..used], 0).unwrap();
        file.write_all_at(&[whole[at] ^ (1 << (at % 8))], at as u64).unwrap();
        let opened = open(&scratch, options(2 * MIB));
        assert!(matches!(opened.opening, Opening::Emptied(_)), "byte {at}: {}", opened.opening);
        assert_eq!(opened.engine.stats().items, 0);
    }
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

    fn step(&mut self, session: &mut SlabSession, keys: u64) {
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
    fn check(&mut self, session: &mut SlabSession, key: u64) {
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
            let options = SlabOptions {
                engine: EngineOptions { reserve: 32 * MIB, ..options(memory).engine },
                ..options(memory)
            };
            let unix = UNIX + u64::from(run.now.0) - 2 + run.below(3) * 50;
            let opened = SlabEngine::open_lasting(options, &scratch.place(), unix).unwrap();
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
    settle(&mut engine.session());
    check_pages(&engine);
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
                engine.resize([4, 32, 7, 12][round % 4] * MIB).unwrap();
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
        settle(&mut engine.session());
        check_pages(&engine);
        close(engine);
    }
}

#[test]
fn a_block_that_the_file_has_lost_costs_what_it_held_and_stops_nothing() {
    let scratch = Scratch::new("block");
    let Opened { engine, .. } = open(&scratch, options(32 * MIB));
    let mut session = engine.session();
    for i in 0..20_000 {
        put(&mut session, &format!("key{i}"), &[1; 20], Expiry::Never);
        end_batch(&mut session);
    }
    settle(&mut session);
    let at = engine.core.sizing.plan().pages_at;
    drop(session);
    close(engine);
    // It has no sums to tell.
    Image::of(scratch.place().path()).without_sums().write([(at, [0; 4096])]);
    let Opened { engine, opening, .. } = open(&scratch, options(32 * MIB));
    assert_eq!(opening, Opening::Restored { items: 20_000 });
    let mut session = engine.session();
    let grown = engine.stats().index_growths;
    // The entries of what is lost are met when the table grows.
    for i in 0..150_000 {
        put(&mut session, &format!("new{i}"), &[1; 20], Expiry::Never);
        end_batch(&mut session);
    }
    settle(&mut session);
    assert!(engine.stats().index_growths > grown && !engine.stats().index_growing);
    let lost = |i: &u64| value_of(&mut engine.session(), format!("key{i}").as_bytes(), NOW).is_none();
    let lost = (0..20_000).filter(lost).count();
    assert!((10..=4096 / 32).contains(&lost), "{lost}");
}
