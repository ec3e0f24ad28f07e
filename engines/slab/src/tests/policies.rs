//! Every policy, under everything that an engine promises.

use super::resizes::check_pages;
use super::{SlabEngine, SlabPin, SlabSession};
use crate::policy::klru::{KlruOptions, Priority};
use crate::policy::lru::LruOptions;
use crate::{Eviction, Policy, SlabOptions};
use guira_contract::suite::{self, Scratch, hits, pin_of, settle, sevens, store};
use guira_contract::{Control, Engine, Expiry, Pace, PolicyError, Recency, Session, Spec};
use guira_items::EngineOptions;
use guira_memory::{MIB, Offset};
use guira_sync::atomic::{AtomicBool, Ordering, yield_now};
use guira_sync::clock::Seconds;
use std::collections::HashSet;

const NOW: Seconds = Seconds(1000);

/// Options that make a policy another one.
const VARIANTS: [&str; 5] = [
    "clock:bits=1",
    "lazy-lru:interval=0",
    "lazy-lru:tail_reclaim=on",
    "klru:priority=frequency",
    "klru:priority=hyperbolic,samples=32",
];

fn all() -> Vec<Policy> {
    if super::TRIES_VARIANTS { with_variants() } else { by_default().collect() }
}

fn by_default() -> impl Iterator<Item = Policy> {
    Policy::all().map(|(policy, _)| policy).filter(super::tries)
}

fn with_variants() -> Vec<Policy> {
    let variants = VARIANTS.iter().map(|name| Policy::read(&Spec::parse(name).unwrap()).unwrap());
    by_default().chain(variants.filter(super::tries)).collect()
}

fn open(policy: Policy, memory: usize) -> SlabEngine {
    SlabEngine::open(SlabOptions {
        engine: EngineOptions { memory, reserve: 4 * memory, ..EngineOptions::default() },
        policy,
        ..SlabOptions::default()
    })
    .unwrap()
}

fn end_batch(session: &mut SlabSession) {
    session.quiesce();
    session.maintain(NOW, Pace::Busy, 32);
}

fn put(session: &mut SlabSession, i: u64, length: usize) {
    store(session, format!("key{i:07}").as_bytes(), sevens(length), 0, Expiry::Never, NOW).unwrap();
}

fn is_there(session: &mut SlabSession, i: u64) -> bool {
    hits(session, format!("key{i:07}").as_bytes(), NOW)
}

#[test]
fn every_policy_behaves() {
    for policy in all() {
        suite::behaviour(&|memory| open(policy, memory));
        suite::differential(&open(policy, 64 * MIB), 1, 20_000);
    }
}

#[test]
fn no_answer_is_wrong_whatever_the_policy_evicts() {
    for policy in all() {
        let engine = open(policy, 2 * MIB);
        suite::history(&engine, suite::History { seed: 3, threads: 4, keys: 40_000, operations: 40_000 });
        assert!(engine.stats().evictions > 0);
        settle(&mut engine.session(), NOW);
        check_pages(&engine);
    }
}

#[test]
fn what_was_stored_a_moment_ago_is_there_whatever_the_policy() {
    all().into_iter().for_each(|policy| suite::newest(&|memory| open(policy, memory)));
}

#[test]
fn long_values_are_there_when_the_client_that_stored_them_reads_them() {
    for policy in all() {
        // The victims that are drawn say less of the age of a class than the end of a list, and its pages go by that.
        let most = if let Policy::Klru(_) = policy { 10 } else { 4 };
        for keys in [None, Some(60)] {
            let lost = suite::lost_by_several(&open(policy, 16 * MIB), keys);
            assert!(lost <= most, "{policy:?}, {keys:?} keys: {lost} of 4,000 are lost");
        }
    }
}

#[test]
fn what_was_stored_a_moment_ago_is_there_while_policies_take_turns() {
    let all = with_variants();
    for middle in [3_000, 20_000, 300_000] {
        let engine = open(Policy::default(), 16 * MIB);
        let (count, mut turns) = (128 * MIB / middle, 0);
        let lengths = (0..count).map(|i| {
            let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            if i % (count / 64) == 0 {
                let next = all[random % all.len()];
                turns += u32::from(engine.core.evictor().change_policy(next).is_ok());
            }
            middle / 2 + random % middle
        });
        assert_eq!(suite::lost_at_once(&engine, lengths), 0, "of {count} around {middle} bytes");
        assert!(turns > 20, "{turns}");
    }
}

#[test]
fn what_is_read_stays_and_the_rest_makes_room() {
    let forgets = |policy: &Policy| match policy {
        // No time passes here.
        Policy::LazyLru(options) => options.interval > 0,
        Policy::Klru(options) => options.priority != Priority::Recency,
        other => !other.order(0).heeds_every_read(),
    };
    for policy in all().into_iter().filter(|policy| !forgets(policy)) {
        let engine = open(policy, 16 * MIB);
        let mut session = engine.session();
        (0..1000).for_each(|i| put(&mut session, i, 100));
        for i in 1000..300_000 {
            put(&mut session, i, 100);
            if i % 50 == 0 {
                end_batch(&mut session);
            }
            // One after the other, so that each is read many times while others come and go.
            assert!(is_there(&mut session, i % 1000), "{policy:?}: {} was read all the time", i % 1000);
        }
        let stats = engine.stats();
        assert!(stats.items > 100_000 && stats.evictions > 100_000, "{policy:?}: {stats:?}");
        assert!(stats.memory_used <= stats.memory_limit);
    }
}

#[test]
fn to_store_over_an_item_counts_as_a_read() {
    for name in ["clock", "clock:bits=1", "seg-lru", "klru:priority=frequency", "sieve"] {
        let engine = open(Policy::read(&Spec::parse(name).unwrap()).unwrap(), 16 * MIB);
        let mut session = engine.session();
        let mut put_all = |ids: std::ops::Range<u64>| {
            ids.for_each(|i| {
                put(&mut session, i, 100);
                if i % 32 == 0 {
                    end_batch(&mut session);
                }
            });
        };
        let mut stored = 0;
        while engine.stats().evictions == 0 {
            put_all(stored..stored + 1000);
            stored += 1000;
        }
        // From everywhere in the order, and in memory.
        let known = |i: &u64| is_there(&mut engine.session(), *i);
        let some: Vec<u64> = (0..stored).step_by(100).filter(known).collect();
        some.iter().for_each(|i| put_all(*i..i + 1));
        put_all(stored..stored + stored / 2);
        let kept = some.iter().filter(|i| known(i)).count();
        assert_eq!(kept, some.len(), "{name}");
    }
}

#[test]
fn pages_change_their_class_and_memory_its_size() {
    for policy in all() {
        let engine = open(policy, 8 * MIB);
        let mut session = engine.session();
        let put_many = |session: &mut SlabSession, count: u64, length: usize| {
            for i in 0..count {
                put(session, i, length);
                if i % 32 == 0 {
                    end_batch(session);
                }
            }
        };
        put_many(&mut session, 50_000, 100);
        put_many(&mut session, 20_000, 1000);
        put_many(&mut session, 1500, 20_000);
        put_many(&mut session, 50_000, 100);
        let stats = engine.stats();
        assert!(stats.pages_moved > 25, "{policy:?}: {stats:?}");
        for memory in [32 * MIB, 4 * MIB, 8 * MIB] {
            engine.resize(memory).unwrap();
            settle(&mut session, NOW);
            check_pages(&engine);
            assert!(engine.stats().memory_used <= memory as u64);
            put_many(&mut session, 50_000, 100);
        }
    }
}

/// Each policy with the one that is named after it, and each with CLOCK.
fn pairs() -> Vec<(Policy, Policy)> {
    let all = all();
    let next = all.iter().zip(all.iter().cycle().skip(1));
    let clock = all.iter().map(|policy| (&all[0], policy));
    next.chain(clock.clone())
        .chain(clock.map(|(clock, policy)| (policy, clock)))
        .map(|(from, to)| (*from, *to))
        .collect()
}

/// Goes on until the policy that was asked for has taken over.
fn turn(engine: &SlabEngine, session: &mut SlabSession, policy: Policy) {
    engine.core.evictor().change_policy(policy).unwrap();
    for _ in 0..100_000 {
        end_batch(session);
        if engine.core.evictor.is_idle() {
            assert_eq!(engine.core.evictor.policies(), (policy, None));
            return;
        }
    }
    panic!("{policy:?} does not take over");
}

#[test]
fn a_policy_takes_over_and_nothing_is_lost_that_fits() {
    for (from, to) in pairs() {
        let engine = open(from, 32 * MIB);
        let mut session = engine.session();
        (0..30_000).for_each(|i| put(&mut session, i, 100 + i as usize % 50));
        turn(&engine, &mut session, to);
        settle(&mut session, NOW);
        check_pages(&engine);
        let stats = engine.stats();
        assert_eq!((stats.items, stats.evictions), (30_000, 0), "{from:?} to {to:?}");
        assert!((0..30_000).all(|i| is_there(&mut session, i)));
        if matches!(to, Policy::Clock(_)) {
            continue;
        }
        // And the order is whole.
        let victims = victims(&engine, &mut session).len();
        assert!(victims >= 30_000, "{from:?} to {to:?}: {victims}");
    }
}

#[test]
fn the_hand_leaves_recency_alone_while_another_policy_gives_the_victims() {
    let engine = open(Policy::Lru(LruOptions), 16 * MIB);
    let mut session = engine.session();
    (0..30_000).for_each(|i| put(&mut session, i, 100));
    assert!((0..30_000).all(|i| is_there(&mut session, i)));
    end_batch(&mut session);
    engine.core.evictor().change_policy(Policy::default()).unwrap();
    // Every session knows of it, and the first class has begun to go over.
    (0..3).for_each(|_| session.quiesce());
    assert!(engine.core.evictor().switch_step() && engine.core.evictor().switch_step());
    let memory = engine.core.pool.memory();
    let class = memory.classes().ids().max_by_key(|class| memory.lock(*class).usage().pages).unwrap();
    while engine.core.evictor().lock(class).incoming.is_none() {
        assert!(engine.core.evictor().switch_step());
    }
    let recent = || {
        let pages = (0..memory.pages_touched()).map(guira_memory::slab::PageId);
        pages.map(|page| memory.recent_in(page)).sum::<u32>()
    };
    let before = recent();
    assert!(before > 20_000, "{before}");
    let steps = engine.stats().hand_steps;
    (0..200).for_each(|_| drop(crate::session::evict::sweep(&mut session.state(), class, 8)));
    assert_eq!((recent(), engine.stats().hand_steps), (before, steps));
}

#[test]
fn a_policy_takes_over_from_another_in_a_full_cache() {
    for (from, to) in pairs() {
        let engine = open(from, 6 * MIB);
        let mut session = engine.session();
        for i in 0..70_000 {
            put(&mut session, i, 100);
            end_batch(&mut session);
        }
        let before = engine.stats();
        turn(&engine, &mut session, to);
        settle(&mut session, NOW);
        check_pages(&engine);
        let after = engine.stats();
        assert!(after.memory_used <= after.memory_limit);
        assert_eq!(before.items - after.items, after.evictions - before.evictions, "{from:?} to {to:?}");
        assert!(after.items > before.items * 8 / 10, "{from:?} to {to:?}: {after:?}");
        turn(&engine, &mut session, from);
        settle(&mut session, NOW);
        check_pages(&engine);
    }
}

/// The ends of long values look old in their class, where nothing is evicted. A page of them for notes would cost as many values as it has chunks.
#[test]
fn the_notes_of_a_policy_that_takes_over_cost_at_most_a_page_of_long_values() {
    // Ends in chunks of 17,472, 10,920, 2,448 and 104 bytes.
    let lengths = [560 << 10, 330 << 10, 258 << 10, (256 << 10) - 200];
    let (s3_fifo, others) = all().into_iter().partition(|to| matches!(to, Policy::S3Fifo(_)));
    check_notes(s3_fifo, &lengths);
    check_notes(others, &lengths[..1]);
}

fn check_notes(policies: Vec<Policy>, lengths: &[usize]) {
    const MEMORY: usize = 64 * MIB;
    let noting = policies.into_iter().filter(|to| !to.order(0).notes().is_none());
    for (to, length) in noting.flat_map(|to| lengths.iter().map(move |length| (to, *length))) {
        let engine = open(Policy::default(), MEMORY);
        let mut session = engine.session();
        let stored = (2 * MEMORY / length) as u64;
        for i in 0..stored {
            put(&mut session, i, length);
            end_batch(&mut session);
        }
        let before = engine.stats();
        assert!(before.evictions > stored / 3, "memory is full");
        turn(&engine, &mut session, to);
        settle(&mut session, NOW);
        check_pages(&engine);
        let evicted = engine.stats().evictions - before.evictions;
        let classes = engine.core.pool.memory().classes();
        let page = u64::from(classes.geometry(classes.largest()).chunks);
        assert!(evicted <= page, "{to:?}, {length}: {evicted} of {}, a page holds {page}", before.items);
        assert!(
            (stored - 5..stored).all(|i| is_there(&mut session, i)),
            "{to:?}, {length}: what was stored last"
        );
    }
}

#[test]
fn no_answer_is_wrong_while_policies_take_turns() {
    let engine = open(Policy::default(), 2 * MIB);
    let stop = AtomicBool::new(false);
    guira_sync::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = engine.session();
            let mut turns = 0;
            while !stop.load(Ordering::Relaxed) {
                turns += u32::from(
                    engine.core.evictor().change_policy(all()[turns as usize % all().len()]).is_ok(),
                );
                end_batch(&mut session);
                yield_now();
            }
            assert!(turns > 10, "{turns}");
        });
        suite::history(&engine, suite::History { seed: 5, threads: 3, keys: 40_000, operations: 100_000 });
        stop.store(true, Ordering::Relaxed);
    });
    settle(&mut engine.session(), NOW);
    check_pages(&engine);
}

#[test]
fn what_is_noted_of_a_page_that_drains_is_no_other_policys_note() {
    let engine = open(Policy::Klru(KlruOptions::default()), 16 * MIB);
    let mut session = engine.session();
    (0..200).for_each(|i| put(&mut session, i, 30_000));
    let pins: Vec<SlabPin> = (0..200)
        .filter_map(|i| pin_of(&mut session, format!("key{i:07}").as_bytes(), Recency::Bump, NOW))
        .collect();
    end_batch(&mut session);
    let class = engine.stats().classes.last().unwrap().id;
    for _ in 0..5 {
        engine.reassign(Some(class), 0);
        end_batch(&mut session);
    }
    assert!(engine.core.pool.drains().on_their_way().0 > 0, "a page drains, and cannot become empty");
    // Stamps lie where the next policy but one, in the same area of notes, has links.
    turn(&engine, &mut session, Policy::default());
    turn(&engine, &mut session, Policy::Lru(LruOptions));
    drop(pins);
    settle(&mut session, NOW);
    check_pages(&engine);
    let items = engine.stats().items;
    assert!(items > 50);
    assert_eq!(victims(&engine, &mut session).len() as u64, items);
}

/// All that there is in the orders, taken out of them.
fn victims(engine: &SlabEngine, session: &mut SlabSession) -> HashSet<Offset> {
    let mut victims = HashSet::new();
    for class in engine.core.pool.memory().classes().ids() {
        while let more @ [_, ..] = &*crate::session::evict::sweep(&mut session.state(), class, 64) {
            more.iter().for_each(|at| assert!(victims.insert(*at), "{at:?} twice"));
        }
    }
    victims
}

#[test]
fn what_is_read_while_a_policy_is_to_take_over_is_in_its_order_all_the_same() {
    for name in ["klru", "s3-fifo"] {
        let engine = open(Policy::default(), 64 * MIB);
        let (mut session, still) = (engine.session(), engine.session());
        (0..10_000).for_each(|i| put(&mut session, i, 100));
        let policy = Policy::read(&Spec::parse(name).unwrap()).unwrap();
        engine.core.evictor().change_policy(policy).unwrap();
        // As long as one session has not passed a quiescent point the policy does not take over, but reads note what it wants.
        assert!((0..10_000).all(|i| is_there(&mut session, i)));
        drop(still);
        while engine.core.evictor.policies() != (policy, None) {
            end_batch(&mut session);
        }
        let victims = victims(&engine, &mut session).len();
        assert!(victims >= 10_000, "{name}: {victims}");
    }
}

#[test]
fn a_policy_takes_over_what_another_process_has_left() {
    for policy in all() {
        let scratch = Scratch::default();
        let options = SlabOptions { engine: EngineOptions::of(32 * MIB), policy, ..SlabOptions::default() };
        let opened =
            |options| SlabEngine::open_lasting(options, &scratch.place(), 1_700_000_000).unwrap().engine;
        let engine = opened(options);
        let mut session = engine.session();
        (0..50_000).for_each(|i| put(&mut session, i, 100));
        drop(session);
        engine.close(NOW, b"").unwrap();
        let engine = opened(options);
        let mut session = engine.session();
        settle(&mut session, NOW);
        assert_eq!(engine.core.evictor.policies(), (policy, None));
        check_pages(&engine);
        assert!((0..50_000).all(|i| is_there(&mut session, i)), "{policy:?}");
        if !matches!(policy, Policy::Clock(_)) {
            assert!(victims(&engine, &mut session).len() >= 50_000, "{policy:?}");
        }
        drop(session);
        engine.close(NOW, b"").unwrap();
    }
}

#[test]
fn the_age_of_a_class_is_that_of_what_goes_next() {
    for name in ["lru", "lazy-lru:interval=0", "klru"] {
        let engine = open(Policy::read(&Spec::parse(name).unwrap()).unwrap(), 64 * MIB);
        let mut session = engine.session();
        let keys: [&[u8]; 2] = [b"one", b"two"];
        for (key, at) in keys.into_iter().zip([1000, 1300]) {
            store(&mut session, key, b"value", 0, Expiry::Never, Seconds(at)).unwrap();
            end_batch(&mut session);
        }
        // Twice, since the first read of an item is not noted at once by all.
        for at in [1890, 1900] {
            assert!(hits(&mut session, keys[0], Seconds(at)));
            session.quiesce();
            session.maintain(Seconds(at), Pace::Busy, 32);
        }
        let age = engine.stats().classes.iter().map(|class| class.age).max().unwrap();
        assert!((590..=610).contains(&age), "{name}: {age}, and what goes next was stored 600 seconds ago");
    }
}

#[test]
fn a_full_cache_evicts_by_its_policy_and_not_page_by_page() {
    // Of some sizes there is room for one page more at the end, and not for what is noted of its chunks.
    let sizes = (8 * MIB..9 * MIB).step_by(128 << 10);
    for (memory, name) in sizes.flat_map(|memory| ["lru", "klru"].map(|name| (memory, name))) {
        let engine = open(Policy::read(&Spec::parse(name).unwrap()).unwrap(), memory);
        let mut session = engine.session();
        let mut moved_when_full = None;
        for i in 0..150_000 {
            put(&mut session, i, 60);
            if i % 32 == 31 {
                end_batch(&mut session);
            }
            if i == 120_000 {
                moved_when_full = Some(engine.stats().pages_moved);
            }
        }
        let moved = engine.stats().pages_moved - moved_when_full.unwrap();
        assert!(moved <= 1, "{name}, {memory}: {moved} pages have left a class that is the only one");
    }
}

#[test]
fn what_a_policy_kept_for_itself_is_given_back_with_it() {
    let engine = open(Policy::default(), 16 * MIB);
    let mut session = engine.session();
    let mut fill = |policy: &str, from: u64| {
        turn(&engine, &mut session, Policy::read(&Spec::parse(policy).unwrap()).unwrap());
        for i in from..from + 400_000 {
            put(&mut session, i, 2);
            if i % 32 == 0 {
                end_batch(&mut session);
            }
        }
        engine.stats().items
    };
    let before = fill("clock", 0);
    assert!(fill("s3-fifo", 400_000) < before);
    let after = fill("clock", 800_000);
    assert!(after > before - before / 50, "{after} of {before}");
}

#[test]
fn without_eviction_a_policy_for_whose_notes_there_is_no_room_is_refused() {
    let eviction = Eviction::Off;
    let options = SlabOptions {
        engine: EngineOptions { memory: 4 * MIB, eviction, ..EngineOptions::default() },
        ..SlabOptions::default()
    };
    let engine = SlabEngine::open(options).unwrap();
    let mut session = engine.session();
    let klru = Spec::parse("klru").unwrap();
    let full = (0..).find(|i| {
        let stored = store(&mut session, format!("key{i}").as_bytes(), b"xy", 0, Expiry::Never, NOW);
        end_batch(&mut session);
        stored.is_err()
    });
    assert_eq!(engine.change_policy(&klru), Err(PolicyError::NoRoom));
    assert_eq!((engine.policy().0.name, engine.stats().items), ("clock".to_owned(), full.unwrap()));
}

#[test]
fn whatever_the_ceiling_is_a_full_cache_evicts_items_and_not_pages() {
    // Notes and what an order keeps take memory beside pages, and no ceiling is a whole number of both.
    for name in ["s3-fifo", "klru", "lru"] {
        let policy = Policy::read(&Spec::parse(name).unwrap()).unwrap();
        for memory in (12_100_000..12_400_000).step_by(8 << 10) {
            let engine = SlabEngine::open(SlabOptions {
                engine: EngineOptions::of(memory),
                policy,
                ..SlabOptions::default()
            })
            .unwrap();
            let mut session = engine.session();
            for i in 0..4_000 {
                put(&mut session, i, 8192);
                end_batch(&mut session);
            }
            let stats = engine.stats();
            assert!(stats.pages_moved <= 2 && stats.items > 1_300, "{name}, {memory}: {stats:?}");
        }
    }
}
