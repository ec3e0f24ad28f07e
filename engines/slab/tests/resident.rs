//! What the system says of the memory of an engine: in a process of its own, since others would be counted as well.

use guira_contract::suite::store;
use guira_contract::{Control, Engine, Expiry, Pace, Session, Spec};
use guira_memory::{HugePages, MIB};
use guira_slab::EngineOptions;
use guira_slab::{CuckooEngine, SlabOptions};
use guira_sync::clock::{Seconds, Stopwatch};
use guira_sync::lock::Mutex;
use std::ops::Range;
use std::time::Duration;

const NOW: Seconds = Seconds(1000);

/// Each test counts what the process has, and has to be the only one that does anything.
static ALONE: Mutex<()> = Mutex::new(());

/// All mappings of this process: where they lie, and how many bytes of them are in memory.
fn mappings() -> Vec<(Range<usize>, usize)> {
    let mut all = Vec::new();
    for line in std::fs::read_to_string("/proc/self/smaps").expect("Linux tells").lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).expect("an address");
            all.push((number(from)..number(to), 0));
        } else if let (Some((_, resident)), "Rss:") = (all.last_mut(), first) {
            *resident = words.next().and_then(|kb| kb.parse::<usize>().ok()).expect("a number") * 1024;
        }
    }
    all
}

/// Bytes in memory of what was mapped since `before`.
fn resident_since(before: &[(Range<usize>, usize)]) -> usize {
    let is_old =
        |range: &Range<usize>| before.iter().any(|(old, _)| range.start < old.end && old.start < range.end);
    mappings().iter().filter(|(range, _)| !is_old(range)).map(|(_, resident)| resident).sum()
}

fn fill(engine: &CuckooEngine, count: u64) {
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
    let _alone = ALONE.lock();
    let before = mappings();
    let watch = Stopwatch::start();
    let options = SlabOptions {
        engine: EngineOptions { memory: 256 * MIB, reserve: 1 << 40, ..EngineOptions::default() },
        ..SlabOptions::default()
    };
    let engine = CuckooEngine::open(options).expect("address space");
    assert!(watch.elapsed() < Duration::from_secs(1), "a terabyte reserved in {:?}", watch.elapsed());
    assert!(resident_since(&before) < 4 * MIB, "{} bytes", resident_since(&before));
    drop(engine);

    for huge_pages in [HugePages::No, HugePages::Requested] {
        let before = mappings();
        let options = SlabOptions {
            engine: EngineOptions {
                memory: 256 * MIB,
                reserve: 1 << 30,
                huge_pages: Some(huge_pages),
                ..EngineOptions::default()
            },
            ..SlabOptions::default()
        };
        let engine = CuckooEngine::open(options).expect("address space");
        fill(&engine, 1_000_000);
        let full = resident_since(&before);
        assert!((200 * MIB..270 * MIB).contains(&full), "{huge_pages:?}: {full}");
        engine.resize(64 * MIB).expect("64 MiB are enough");
        let mut session = engine.session();
        while engine.stats().memory_used > 64 * MIB as u64 {
            session.quiesce();
            session.maintain(NOW, Pace::Idle, 32);
        }
        let left = resident_since(&before);
        assert!(left < 72 * MIB, "{huge_pages:?}: {left} bytes are resident");
        assert!(engine.stats().items > 200_000, "{:?}", engine.stats());
    }
}

#[test]
fn while_a_policy_takes_over_memory_stays_below_its_ceiling() {
    let _alone = ALONE.lock();
    let before = mappings();
    let options = SlabOptions {
        engine: EngineOptions {
            memory: 64 * MIB,
            huge_pages: Some(HugePages::No),
            ..EngineOptions::default()
        },
        ..SlabOptions::default()
    };
    let engine = CuckooEngine::open(options).expect("address space");
    let mut session = engine.session();
    for i in 0..2_200_000 {
        store(&mut session, format!("{i:08}").as_bytes(), b"ab", 0, Expiry::Never, NOW).expect("memory");
        if i % 32 == 0 {
            session.quiesce();
            session.maintain(NOW, Pace::Busy, 32);
        }
    }
    assert!(engine.stats().evictions > 0);
    // Notes of 16 bytes for items of some 30.
    engine.change_policy(&Spec::parse("lazy-lru").expect("a policy")).expect("none takes over");
    let (mut most, mut steps) = (0, 0);
    while engine.policy().1.is_some() {
        session.quiesce();
        session.maintain(NOW, Pace::Idle, 32);
        steps += 1;
        if steps % 64 == 0 {
            most = most.max(resident_since(&before));
        }
    }
    assert!(most < 66 * MIB, "{most} bytes were resident");
    assert!(engine.stats().items > 800_000, "{:?}", engine.stats());
}
