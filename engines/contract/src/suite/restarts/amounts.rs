//! Amounts: memory that is another after a restart, and counters that are the same.

use crate::suite::lasting::{LATER, Lasting, NOW, RegionSize, Site, UNIX, close, is_store, put};
use crate::suite::sink::value_of;
use crate::{Control, Engine, EngineStats, ItemSpec, OldItem, Pace, ResizeError, Session};
use crate::{Expiry, Opened, Opening};
use guira_memory::MIB;
use guira_memory::slab::PAGE_BYTES;
use guira_sync::clock::Seconds;
use std::sync::Arc;

/// Closes and opens it again, and it goes on as if nothing had happened, when it is refused for now. Who is handed the Region of a process goes on all the
/// same, and knows.
pub fn a_region_without_room_is_not_lost<L: Lasting>(setup: &L) {
    // More than any file system in memory has.
    const HUGE: usize = 4 << 40;
    let site = Site::new(setup, RegionSize { memory: 4 * MIB, reserve: HUGE });
    site.close_with_one_item();
    let all = RegionSize { memory: HUGE, ..site.size };
    let refused = setup.open(all, &site.place(), UNIX + LATER);
    let error = refused.expect_err("there is no room").to_string();
    assert!(error.contains("has room for"), "{error}");
    let engine = site.restored(1);
    assert!(matches!(engine.resize(HUGE), Err(ResizeError::NoRoom { .. })));
    let handed = engine.hand_over(NOW, &[]).expect("nothing uses it, and it lasts");
    let opened = setup.open(all, &site.place().with(Arc::new(handed)), UNIX + LATER);
    let Opened { opening, shortage, .. } = opened.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(opening, Opening::Restored { items: 1 });
    assert!(shortage.is_some_and(|shortage| shortage.room < shortage.memory), "{shortage:?}");
}

/// More memory loses nothing, less is reached step by step. A store that holds more keeps it.
pub fn another_amount_of_memory_is_taken_over_and_reached<L: Lasting>(setup: &L) {
    let site = Site::new(setup, RegionSize::of(16 * MIB));
    let engine = site.open().engine;
    let mut session = engine.session();
    for i in 0..30_000 {
        put(&mut session, &format!("key{i}"), &[1; 400], Expiry::Never);
        session.quiesce();
        session.maintain(NOW, Pace::Busy, 32);
    }
    drop(session);
    close(engine);
    let items = |memory: usize| {
        let Opened { engine, opening, .. } = site.open_with(memory);
        let Opening::Restored { items } = opening else { panic!("{opening}") };
        assert_eq!(engine.stats().items, items);
        site.check(&engine);
        let stats = engine.stats();
        assert!(stats.memory_used <= memory as u64 && stats.memory_limit == memory as u64, "{stats:?}");
        assert_eq!(stats.memory_reserve, 64 * MIB as u64);
        let most = engine.resize(64 * MIB);
        assert!(engine.resize(64 * MIB + 1).is_err() && most.is_ok(), "the reserve is the file's");
        close(engine);
        stats.items
    };
    let full = items(16 * MIB);
    assert_eq!(items(64 * MIB), full);
    let opened = site.open_with(6 * MIB);
    if is_store(&opened.engine) {
        assert_eq!(opened.opening, Opening::Restored { items: full });
        return;
    }
    close(opened.engine);
    let less = items(6 * MIB);
    assert!(less > full / 4 && less < full / 2, "{less} of {full}");
    assert_eq!(items(16 * MIB), less);
}

/// What is counted, but for what begins anew with the process, ages, which depend on when a session last said what time it is, and free pages, which are
/// given back.
fn lasting_stats(engine: &impl Control) -> EngineStats {
    let mut stats = engine.stats();
    stats.classes.iter_mut().for_each(|class| class.age = 0);
    EngineStats {
        crawling: false,
        crawls: 0,
        index_growths: 0,
        items_rescued: 0,
        parts_rescued: 0,
        pages_free: 0,
        memory_used: stats.memory_used - stats.pages_free * PAGE_BYTES as u64,
        ..stats
    }
}

/// After evictions, with chunks that sessions kept for themselves and a value under way, for every setup that goes on with the Region.
pub fn counters_and_gauges_are_as_they_were<L: Lasting>(setup: &L) {
    for setup in setup.compatible().iter().chain([setup]) {
        let site = Site::new(setup, RegionSize::of(16 * MIB));
        let engine = site.open().engine;
        let mut sessions: Vec<_> = (0..4).map(|_| engine.session()).collect();
        let spec =
            ItemSpec { flags: 0, expiry: Expiry::Never, cas: None, old: OldItem::MayGo, value_len: 100_000 };
        let mut pending = sessions[0].begin_value(b"pending", spec).expect("there is memory");
        sessions[0].extend(&mut pending, &[9; 60_000]).expect("there is memory");
        let (mut stored, mut refused) = (0_u32, 0);
        while engine.stats().evictions < 2000 && refused < 20 {
            let length = [20, 100, 1000, 3000, 50_000][stored as usize % 5];
            let expiry = if stored.is_multiple_of(7) { Expiry::At(Seconds(1500)) } else { Expiry::Never };
            let session = &mut sessions[stored as usize % 4];
            refused += u32::from(!put(session, &format!("key{stored}"), &vec![stored as u8; length], expiry));
            // Where a session keeps a partition, others of its thread can go on when it is offline.
            session.offline();
            session.online();
            stored += 1;
        }
        value_of(&mut sessions[0], b"nothing", NOW);
        drop(pending);
        // Until no page is on its way any more.
        for round in 0.. {
            for session in &mut sessions {
                session.quiesce();
                session.maintain(NOW, Pace::Busy, 32);
            }
            if !engine.stats().moving {
                break;
            }
            assert!(round < 100, "a page is on its way for ever");
        }
        drop(sessions);
        let before = lasting_stats(&engine);
        close(engine);
        for _ in 0..3 {
            let engine = site.restored(before.items);
            assert_eq!(lasting_stats(&engine), before);
            setup.check(&engine);
            close(engine);
        }
    }
}
