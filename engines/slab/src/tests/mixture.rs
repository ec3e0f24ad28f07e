//! Items of many sizes in one cache.

use super::open;
use guira_contract::suite::{hits, store};
use guira_contract::{Control, Engine, Expiry, Pace, Session};
use guira_sync::clock::Seconds;
use std::collections::BTreeMap;

const NOW: Seconds = Seconds(1000);

/// Lengths with a long tail, like those of a production cache: most below 200 bytes, half of all bytes in long ones.
fn length(i: u64) -> usize {
    let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    match random % 1000 {
        0..300 => 95,
        300..600 => 127,
        600..900 => 159,
        900..960 => 191 + (random / 1000 % 10) as usize * 32,
        960..995 => 500 + (random / 1000 % 2000) as usize,
        995..999 => 3000 + (random / 1000 % 20_000) as usize,
        _ => 60_000 + (random / 1000 % 60_000) as usize,
    }
}

#[test]
fn the_newest_items_of_every_size_are_kept() {
    let engine = open(64 << 20);
    let mut session = engine.session();
    let value = vec![7; 200_000];
    let count = 1_000_000u64;
    for i in 0..count {
        let value = &value[..length(i)];
        store(&mut session, format!("key-{i:012}").as_bytes(), value, 0, Expiry::Never, NOW).unwrap();
        if i % 32 == 0 {
            session.maintain(NOW, Pace::Busy, 32);
            session.quiesce();
        }
    }
    let stats = engine.stats();
    let newest = stats.items / 3;
    let mut by_size: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for i in count - newest..count {
        let found = hits(&mut session, format!("key-{i:012}").as_bytes(), NOW);
        let entry = by_size.entry(length(i).next_power_of_two()).or_default();
        entry.0 += 1;
        entry.1 += u64::from(!found);
    }
    let missing: u64 = by_size.values().map(|(_, missing)| missing).sum();
    assert!(missing * 100 < newest, "{missing} of the newest {newest} are missing: {by_size:?}; {stats:?}");
}
