//! What the system says of the memory of an engine: in a process of its own, since it counts whole processes.

use guira_contract::suite::store;
use guira_contract::{Engine, Expiry, Pace, Session};
use guira_memory::{HugePages, MIB};
use guira_slab::{SlabEngine, SlabOptions};
use guira_sync::clock::{Seconds, Stopwatch};
use std::time::Duration;

const NOW: Seconds = Seconds(1000);

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("Linux tells");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:")).expect("it tells the resident size");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

fn fill(engine: &SlabEngine, count: u64) {
    let mut session = engine.session();
    for i in 0..count {
        store(&mut session, format!("key{i}").as_bytes(), &[7; 200], 0, Expiry::Never, NOW).expect("memory");
        if i % 32 == 0 {
            session.quiesce();
            session.maintain(NOW, Pace::Busy, 32);
        }
    }
}

#[test]
fn a_reserve_costs_nothing_and_memory_that_is_taken_away_goes_back_to_the_system() {
    let before = resident();
    let watch = Stopwatch::start();
    let options = SlabOptions { memory: 256 * MIB, reserve: 1 << 40, ..SlabOptions::default() };
    let engine = SlabEngine::open(options).expect("address space");
    assert!(watch.elapsed() < Duration::from_millis(200), "a terabyte reserved in {:?}", watch.elapsed());
    assert!(resident() - before < 4 * MIB, "{} bytes", resident() - before);
    drop(engine);

    for huge_pages in [HugePages::No, HugePages::Ask] {
        let before = resident();
        let options = SlabOptions {
            memory: 256 * MIB,
            reserve: 1 << 30,
            huge_pages: Some(huge_pages),
            ..SlabOptions::default()
        };
        let engine = SlabEngine::open(options).expect("address space");
        fill(&engine, 1_000_000);
        let full = resident() - before;
        assert!((200 * MIB..270 * MIB).contains(&full), "{huge_pages:?}: {full}");
        engine.resize(64 * MIB).expect("64 MiB are enough");
        let mut session = engine.session();
        while engine.stats().memory_used > 64 * MIB as u64 {
            session.quiesce();
            session.maintain(NOW, Pace::Idle, 32);
        }
        let left = resident() - before;
        assert!(left < 72 * MIB, "{huge_pages:?}: {left} bytes are resident");
        assert!(engine.stats().items > 200_000, "{:?}", engine.stats());
    }
}
