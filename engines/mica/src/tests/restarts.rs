//! Engines go on where others have left off.

use super::scratch::Scratch;
use super::tools::{NOW, check, get, key_of, pin_of, put, remove, settle};
use crate::{LogPolicy, MicaEngine, MicaOptions, MicaSession};
use guira_contract::suite::{store, value_of, walk_all};
use guira_contract::{
    Access, Amendment, CloseError, Control, Decision, Emptied, Engine, EngineStats, Expiry, ItemState,
    Opening, Provision, Session,
};
use guira_items::{EngineOptions, Hashing, OpenError};
use guira_memory::lasting::Loss;
use guira_memory::{HugePages, MIB};
use guira_sync::clock::{Seconds, TimeBase};

type Opened = guira_contract::Opened<MicaEngine>;

/// The wall clock when the first engine is opened. Second 0 is two seconds earlier.
pub(super) const UNIX: u64 = 1_700_000_000;

pub(super) fn options(memory: usize) -> MicaOptions {
    let max_item_size = 128 << 10;
    MicaOptions {
        engine: EngineOptions { memory, reserve: 4 * memory, max_item_size, ..EngineOptions::default() },
        partitions: 4,
        ..MicaOptions::default()
    }
}

pub(super) fn open(scratch: &Scratch, options: MicaOptions) -> Opened {
    MicaEngine::open_lasting(options, &scratch.place(), UNIX + 998).unwrap()
}

pub(super) fn close(engine: MicaEngine) {
    engine.close(NOW, b"notes of the server").unwrap();
}

fn reason(opened: &Opened) -> &Emptied {
    match &opened.opening {
        Opening::Emptied(why) => why,
        other => panic!("{other}"),
    }
}

/// Everything that statistics tell, but for what begins anew with the process.
fn told(engine: &MicaEngine) -> EngineStats {
    EngineStats { crawling: false, crawls: 0, index_growths: 0, ..engine.stats() }
}

/// Closes the engine and opens it again: all is as it was.
fn again(scratch: &Scratch, engine: MicaEngine, options: MicaOptions) -> MicaEngine {
    check(&engine);
    let before = told(&engine);
    let saved: Vec<_> = engine.core.partitions.iter().map(|partition| partition.saved()).collect();
    close(engine);
    let Opened { engine, opening, .. } = open(scratch, options);
    assert_eq!(opening, Opening::Restored { items: before.items });
    assert_eq!(told(&engine), before);
    assert!(engine.core.partitions.iter().map(|partition| partition.saved()).eq(saved));
    check(&engine);
    engine
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 50 + number as usize * 7 % 700]
}

fn fill(session: &mut MicaSession, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| put(session, &format!("key{number}"), &value(number)).unwrap());
}

/// Which of the keys are there. Those that are have their values.
fn there(session: &mut MicaSession, numbers: std::ops::Range<u32>) -> Vec<u32> {
    let is_there = |number: &u32| {
        let found = get(session, &format!("key{number}"));
        assert!(found.as_ref().is_none_or(|found| *found == value(*number)), "{number}");
        found.is_some()
    };
    numbers.filter(is_there).collect()
}

#[test]
fn everything_about_an_item_is_there_again() {
    let scratch = Scratch::new("items");
    let Opened { engine, opening, notes, base } = open(&scratch, options(16 * MIB));
    assert_eq!((opening, notes.len()), (Opening::New, 0));
    assert_eq!(base, TimeBase { unix: UNIX + 996, reached: Seconds(2) });
    let mut session = engine.session();
    let long: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    let keys = ["short", "long", "read", "plain"];
    store(&mut session, b"short", b"value", 7, Expiry::Never, NOW).unwrap();
    store(&mut session, b"long", &long, u32::MAX, Expiry::At(Seconds(2000)), NOW).unwrap();
    store(&mut session, b"read", b"", 0, Expiry::At(Seconds(3000)), NOW).unwrap();
    put(&mut session, "plain", &[9; 77]).unwrap();
    let cas = session.next_cas();
    let change = || Amendment { cas: Some(cas), set: ItemState::STALE, ..Amendment::default() };
    session
        .update(key_of(&session, "short"), Default::default(), NOW, Provision::None, |_| {
            Decision::Amend(change())
        })
        .unwrap();
    for key in keys {
        value_of(&mut session, key.as_bytes(), NOW);
    }
    let before = keys.map(|key| value_of(&mut session, key.as_bytes(), NOW).unwrap());
    let total = engine.stats().total_items;
    drop(session);
    close(engine);
    let Opened { engine, opening, notes, base } = open(&scratch, options(16 * MIB));
    assert_eq!((opening, notes.as_slice()), (Opening::Restored { items: 4 }, &b"notes of the server"[..]));
    assert_eq!(base, TimeBase { unix: UNIX + 996 + 2 - 1000, reached: NOW }, "the wall clock is behind");
    let mut session = engine.session();
    for (key, before) in keys.iter().zip(before) {
        assert_eq!(value_of(&mut session, key.as_bytes(), NOW).unwrap(), before, "{key}");
    }
    assert!(value_of(&mut session, b"long", Seconds(2000)).is_none(), "it expires when it would have");
    assert!(session.next_cas() > cas);
    assert_eq!(engine.stats().total_items, total);
    drop(session);
    check(&engine);
}

#[test]
fn a_log_that_has_gone_around_goes_on_where_it_was() {
    for policy in [LogPolicy::Fifo, LogPolicy::ApproxLru] {
        for huge in [HugePages::No, HugePages::Ask] {
            let scratch = Scratch::new(&format!("round-{policy:?}-{huge:?}"));
            let options = MicaOptions {
                engine: EngineOptions { huge_pages: Some(huge), ..options(16 * MIB).engine },
                policy,
                ..options(16 * MIB)
            };
            let mut engine = open(&scratch, options).engine;
            for round in 0..12 {
                let mut session = engine.session();
                fill(&mut session, round * 9000..(round + 1) * 9000);
                let pin = (round % 3 == 0).then(|| {
                    put(&mut session, "long", &[7; 50_000]).unwrap();
                    pin_of(&mut session, "long")
                });
                fill(&mut session, round * 9000..(round + 1) * 9000);
                remove(&mut session, &format!("key{}", round * 9000 + 8000));
                drop(pin);
                let before = there(&mut session, 0..(round + 1) * 9000);
                drop(session);
                engine = again(&scratch, engine, options);
                assert!(there(&mut engine.session(), 0..(round + 1) * 9000) == before);
            }
            assert!(engine.stats().evictions > 30_000, "{:?}", engine.stats());
        }
    }
}

#[test]
fn an_index_that_is_growing_goes_on_growing() {
    let scratch = Scratch::new("growing");
    let mut engine = open(&scratch, options(32 * MIB)).engine;
    let (mut stored, mut met) = (0, 0);
    while stored < 40_000 {
        let more = if engine.stats().index_growing { 1 } else { 500 };
        fill(&mut engine.session(), stored..stored + more);
        stored += more;
        let is_growing = engine.stats().index_growing;
        if is_growing && met < 200 {
            met += 1;
            engine = again(&scratch, engine, options(32 * MIB));
            assert!(engine.stats().index_growing);
        }
    }
    assert!(met > 50, "{met}");
    let there = there(&mut engine.session(), 0..stored).len() as u64;
    assert_eq!(there, engine.stats().items);
    assert!(there + 400 > u64::from(stored), "{there}");
}

#[test]
fn what_was_flushed_stays_flushed_and_what_is_to_be_flushed_will_be() {
    let scratch = Scratch::new("flushed");
    let mut engine = open(&scratch, options(4 * MIB)).engine;
    for round in 0..20 {
        let mut session = engine.session();
        put(&mut session, &format!("flushed{round}"), b"v").unwrap();
        engine.flush(NOW, NOW);
        put(&mut session, "kept", b"v").unwrap();
        drop(session);
        close(engine);
        engine = open(&scratch, options(4 * MIB)).engine;
        let mut session = engine.session();
        assert!(get(&mut session, "kept").is_some());
        for earlier in 0..=round {
            assert!(get(&mut session, &format!("flushed{earlier}")).is_none());
        }
    }
    engine.flush(NOW, Seconds(3000));
    close(engine);
    let engine = open(&scratch, options(4 * MIB)).engine;
    let mut session = engine.session();
    assert!(value_of(&mut session, b"kept", Seconds(2999)).is_some());
    assert!(value_of(&mut session, b"kept", Seconds(3000)).is_none());
}

#[test]
fn memory_that_was_given_back_or_added_is_taken_over() {
    let scratch = Scratch::new("resized");
    let mut engine = open(&scratch, options(16 * MIB)).engine;
    fill(&mut engine.session(), 0..60_000);
    // Given back in part, and wholly.
    engine.resize(8 * MIB).unwrap();
    engine.session().maintain(NOW, guira_contract::Pace::Idle, 20);
    let half = MicaOptions {
        engine: EngineOptions { memory: 8 * MIB, reserve: 64 * MIB, ..options(16 * MIB).engine },
        ..options(16 * MIB)
    };
    engine = again(&scratch, engine, half);
    settle(&engine);
    engine = again(&scratch, engine, half);
    let less = engine.stats();
    assert!(less.memory_used <= 8 * MIB as u64 && less.memory_limit == 8 * MIB as u64, "{less:?}");
    close(engine);
    let more = MicaOptions { engine: EngineOptions { memory: 64 * MIB, ..half.engine }, ..half };
    engine = open(&scratch, more).engine;
    assert_eq!((engine.stats().items, engine.stats().evictions), (less.items, less.evictions));
    fill(&mut engine.session(), 60_000..80_000);
    assert!(engine.stats().items > less.items + 19_900, "more can be used at once");
    engine = again(&scratch, engine, more);
    assert!(engine.resize(64 * MIB + 1).is_err(), "the reserve is the file's");
}

#[test]
fn an_index_that_is_too_large_for_the_memory_empties_the_region() {
    let scratch = Scratch::new("index");
    let engine = open(&scratch, options(32 * MIB)).engine;
    let mut session = engine.session();
    (0..500_000).for_each(|number| put(&mut session, &format!("{number}"), b"").unwrap());
    drop(session);
    assert!(engine.stats().index_bytes > 3 * MIB as u64, "{:?}", engine.stats());
    close(engine);
    let small = MicaOptions {
        engine: EngineOptions { memory: 4 * MIB, reserve: 128 * MIB, ..options(32 * MIB).engine },
        ..options(32 * MIB)
    };
    let opened = open(&scratch, small);
    assert!(matches!(reason(&opened), Emptied::TooSmall { .. }), "{}", opened.opening);
    put(&mut opened.engine.session(), "k", b"v").unwrap();
}

#[test]
fn who_does_not_close_in_order_leaves_nothing() {
    let scratch = Scratch::new("killed");
    let engine = open(&scratch, options(4 * MIB)).engine;
    fill(&mut engine.session(), 0..10);
    close(engine);
    let restored = open(&scratch, options(4 * MIB));
    assert_eq!(restored.opening, Opening::Restored { items: 10 });
    drop(restored);
    let emptied = open(&scratch, options(4 * MIB));
    assert_eq!(reason(&emptied), &Emptied::Lost(Loss::NotClosed));
    let engine = emptied.engine;
    let session = engine.session();
    assert_eq!(engine.stats().items, 0);
    let other = engine.clone();
    assert!(matches!(engine.close(NOW, b""), Err(CloseError::InUse)), "a session and another handle exist");
    drop(session);
    assert!(matches!(other.close(NOW, &[0; 20_000]), Err(CloseError::Notes(20_000))));
    assert_eq!(reason(&open(&scratch, options(4 * MIB))), &Emptied::Lost(Loss::NotClosed));
}

#[test]
fn two_engines_never_share_a_region() {
    let scratch = Scratch::new("shared");
    let first = open(&scratch, options(4 * MIB));
    let second = MicaEngine::<crate::Log>::open_lasting(options(4 * MIB), &scratch.place(), UNIX);
    assert!(matches!(second, Err(OpenError::Region { .. })));
    close(first.engine);
    assert_eq!(open(&scratch, options(4 * MIB)).opening, Opening::Restored { items: 0 });
    close(MicaEngine::open(options(4 * MIB)).unwrap());
}

#[test]
fn a_region_that_was_set_up_in_another_way_is_emptied_and_says_why() {
    let was = options(8 * MIB);
    let others = [
        (
            MicaOptions { engine: EngineOptions { max_item_size: 64 << 10, ..was.engine }, ..was },
            "largest item (-I) was 131072 and is now 65536",
        ),
        (
            MicaOptions { engine: EngineOptions { hashing: Hashing::Fixed(|_| 1), ..was.engine }, ..was },
            "hash function",
        ),
        (
            MicaOptions { engine: EngineOptions { memory: 64 * MIB, ..was.engine }, ..was },
            "up to 33554432 bytes",
        ),
        (MicaOptions { offset_bits: 40, ..was }, ""),
    ];
    for (number, (other, text)) in others.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("settings{number}"));
        let engine = open(&scratch, was).engine;
        put(&mut engine.session(), "k", b"v").unwrap();
        close(engine);
        let opened = open(&scratch, other);
        assert!(reason(&opened).to_string().contains(text), "{}", opened.opening);
        let mut session = opened.engine.session();
        assert!(get(&mut session, "k").is_none());
        put(&mut session, "k", b"new").unwrap();
    }
    // What is the Region's, and what does not matter.
    let scratch = Scratch::new("settings");
    let mut engine = open(&scratch, was).engine;
    put(&mut engine.session(), "k", b"v").unwrap();
    for other in [
        MicaOptions { partitions: 1, ..was },
        MicaOptions { engine: EngineOptions { hashing: Hashing::Seeded(77), ..was.engine }, ..was },
        MicaOptions { access: Access::Erew, policy: LogPolicy::Lru, ..was },
    ] {
        close(engine);
        engine = open(&scratch, other).engine;
        assert_eq!(engine.core.partitions.len(), 4);
        assert_eq!(get(&mut engine.session(), "k"), Some(b"v".to_vec()));
    }
}

#[test]
fn a_walk_after_a_restart_shows_everything() {
    let scratch = Scratch::new("walk");
    let engine = open(&scratch, options(8 * MIB)).engine;
    fill(&mut engine.session(), 0..30_000);
    let engine = again(&scratch, engine, options(8 * MIB));
    let mut session = engine.session();
    let here = there(&mut session, 0..30_000);
    let walked = walk_all(&mut session, NOW);
    assert_eq!(walked.len(), here.len());
}
