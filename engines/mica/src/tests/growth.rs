//! Readers, while the index grows.

use super::tools::{check, get, put};
use crate::{MicaEngine, MicaOptions};
use guira_contract::{Access, Engine, Session};
use guira_items::EngineOptions;
use guira_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use guira_sync::thread;

/// Readers look where an item was or where it has gone, and find it in either.
#[test]
fn nobody_misses_an_item_that_is_moved() {
    for access in [Access::Crew, Access::Crcw] {
        let options = MicaOptions {
            engine: EngineOptions::of(64 << 20),
            access,
            partitions: 1,
            ..MicaOptions::default()
        };
        let engine = MicaEngine::open(options).unwrap();
        let mut session = engine.session();
        const KEYS: u32 = 40;
        (0..KEYS).for_each(|number| put(&mut session, &format!("kept{number}"), b"v").unwrap());
        let (is_done, ready) = (AtomicBool::new(false), AtomicU32::new(0));
        let misses = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut session, mut misses) = (engine.session(), 0);
                while !is_done.load(Ordering::Relaxed) {
                    for number in 0..KEYS {
                        misses += u32::from(get(&mut session, &format!("kept{number}")).is_none());
                        ready.fetch_add(1, Ordering::Relaxed);
                    }
                }
                misses
            });
            while ready.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            for number in 0..150_000 {
                put(&mut session, &format!("key{number}"), b"v").unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        let there = (0..KEYS).filter(|number| get(&mut session, &format!("kept{number}")).is_some());
        assert_eq!(there.count(), KEYS as usize);
        assert_eq!(misses, 0, "{access:?}");
        session.offline();
        check(&engine);
    }
}
