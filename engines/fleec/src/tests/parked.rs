//! A thread that stands still anywhere stops no other. It is held in a window while other sessions work, on the same thread of the system: if any of them waited for it, the
//! test would not end.

use super::open;
use crate::{FleecEngine, FleecOptions};
use guira_contract::suite::{remove, store, value_of};
use guira_contract::{Control, Engine, Expiry, Pace, Session, StoreError};
use guira_items::hooks::{self, Window};
use guira_items::{EngineOptions, Eviction, Hashing};
use guira_sync::clock::Seconds;
use std::cell::Cell;
use std::rc::Rc;

const NOW: Seconds = Seconds(1000);

const WINDOWS: [Window; 8] = [
    Window::Visiting,
    Window::Reading,
    Window::Announced,
    Window::Publishing,
    Window::Marked,
    Window::Dividing,
    Window::Divided,
    Window::Emptying,
];

/// What others do meanwhile: so much that memory is full, items of all sizes are evicted, pages change their class and the table grows.
fn work(engine: &FleecEngine) -> Result<(), StoreError> {
    let mut session = engine.session();
    for number in 0..30_000_u32 {
        let key = format!("other-{number}");
        let length = [20, 100, 1_000, 300, 40_000][number as usize % 5].min(if number % 50 == 4 {
            40_000
        } else {
            1_000
        });
        store(&mut session, key.as_bytes(), &vec![7; length], 0, Expiry::Never, NOW)?;
        if number % 3 == 0 {
            assert!(
                value_of(&mut session, key.as_bytes(), NOW).is_none_or(|item| item.value == vec![7; length])
            );
        }
        if number % 7 == 0 {
            remove(&mut session, key.as_bytes(), NOW);
        }
        // The key that the one who stands still is at, too.
        if number % 100 == 0 {
            store(&mut session, b"the key", b"theirs", 0, Expiry::Never, NOW)?;
            remove(&mut session, b"the key", NOW);
            store(&mut session, b"the key", b"theirs", 0, Expiry::Never, NOW)?;
        }
        session.quiesce();
        session.maintain(NOW, Pace::Busy, 4);
    }
    Ok(())
}

#[test]
fn a_thread_that_stands_still_in_any_window_stops_nobody() {
    for window in WINDOWS {
        for times in [1, 3] {
            let engine = open(6 << 20);
            let mut held = engine.session();
            // Something there is to be evicted, to be found, and to be removed.
            for number in 0..20_000 {
                store(&mut held, format!("first-{number}").as_bytes(), &[1; 60], 0, Expiry::Never, NOW)
                    .unwrap();
            }
            store(&mut held, b"the key", b"ours", 0, Expiry::Never, NOW).unwrap();
            let (count, others) = (Rc::new(Cell::new(0)), engine.clone());
            let passed = count.clone();
            let guard = hooks::set(move |here| {
                if here == window {
                    passed.set(passed.get() + 1);
                    if passed.get() == times {
                        work(&others).unwrap_or_else(|refusal| panic!("{window:?}: {refusal}"));
                    }
                }
            });
            let found = value_of(&mut held, b"the key", NOW).map(|item| item.value);
            assert!(found.is_none_or(|value| value == b"ours" || value == b"theirs"), "{window:?}");
            for number in 0..20_000 {
                let key = format!("first-{number}");
                let found = value_of(&mut held, key.as_bytes(), NOW);
                assert!(found.is_none_or(|item| item.value == [1; 60]), "{window:?}: {key}");
            }
            store(&mut held, b"the key", b"again", 0, Expiry::Never, NOW).unwrap();
            remove(&mut held, b"the key", NOW);
            // Large ones, so that pages are emptied for them.
            for number in 0..1_000 {
                store(&mut held, format!("large-{number}").as_bytes(), &[2; 9_000], 0, Expiry::Never, NOW)
                    .unwrap();
            }
            for number in 0..20_000 {
                store(&mut held, format!("more-{number}").as_bytes(), &[3; 30], 0, Expiry::Never, NOW)
                    .unwrap();
            }
            drop(guard);
            assert!(count.get() >= times, "{window:?} was met only {} times", count.get());
            let stats = engine.stats();
            assert!(stats.memory_used <= stats.memory_limit, "{window:?}: {stats:?}");
        }
    }
}

/// A thread that stands still with an item announced keeps that item from being used again, and no more: memory that others free can be used.
#[test]
fn what_a_thread_that_stands_still_keeps_is_bounded() {
    let options = FleecOptions {
        engine: EngineOptions {
            memory: 4 << 20,
            eviction: Eviction::Off,
            hashing: Hashing::Seeded(7),
            ..EngineOptions::default()
        },
        ..FleecOptions::default()
    };
    let engine = FleecEngine::open(options).unwrap();
    let mut held = engine.session();
    store(&mut held, b"the key", b"ours", 0, Expiry::Never, NOW).unwrap();
    let others = engine.clone();
    let worked = Rc::new(Cell::new(false));
    let done = worked.clone();
    let guard = hooks::set(move |here| {
        if here == Window::Announced && !done.replace(true) {
            let mut session = others.session();
            // A hundred times what there is room for, since each is removed again.
            for number in 0..400_000_u32 {
                let key = format!("other-{number}");
                store(&mut session, key.as_bytes(), &[7; 1_000], 0, Expiry::Never, NOW).unwrap();
                remove(&mut session, key.as_bytes(), NOW);
            }
        }
    });
    remove(&mut held, b"the key", NOW);
    drop(guard);
    assert!(worked.get());
    assert!(value_of(&mut held, b"the key", NOW).is_none());
}
