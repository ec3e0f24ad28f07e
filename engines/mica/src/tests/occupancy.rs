//! How full a store is when it first refuses.

use super::tools::{NOW, Random};
use crate::{Fits, MicaEngine, MicaOptions};
use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Engine, Expiry, Pace, Session, StoreError};
use guira_items::EngineOptions;

const MIB: usize = 1 << 20;

/// Lengths of values, from the shortest to the longest, and how full the store comes to be, in percent at least. Of long items each partition has few, and one
/// has more of them than the others: the store refuses when that one is full.
const LOADS: [((usize, usize), f64); 6] = [
    ((8, 8), 90.0),
    ((64, 64), 90.0),
    ((1024, 1024), 90.0),
    ((1, 300), 90.0),
    ((500, 4000), 90.0),
    ((1000, 60_000), 85.0),
];

/// Bytes of an item that are neither key nor value.
const OTHERS: usize = 28;

/// Stores items until one is refused. Tells how much of its memory, in percent, their chunks and the index are.
fn occupancy(memory: usize, (shortest, longest): (usize, usize)) -> f64 {
    let engine =
        MicaEngine::<Fits>::open(MicaOptions { engine: EngineOptions::of(memory), ..MicaOptions::default() })
            .unwrap();
    let mut session = engine.session();
    let mut random = Random(7);
    let value = vec![b'v'; longest];
    let (mut stored, mut bytes, mut chunks) = (0u64, 0, 0);
    loop {
        let key = format!("key-{stored:012}");
        let length = shortest + random.below(longest - shortest + 1);
        match store(&mut session, key.as_bytes(), &value[..length], 0, Expiry::Never, NOW) {
            Ok(()) => {
                let size = OTHERS + key.len() + length;
                (stored, bytes, chunks) = (stored + 1, bytes + size, chunks + size.next_multiple_of(8));
            }
            Err(StoreError::NoMemory) => break,
            Err(other) => panic!("{other:?}"),
        }
        if stored.is_multiple_of(32) {
            session.maintain(NOW, Pace::Busy, 32);
        }
    }
    let stats = engine.stats();
    assert_eq!((stats.items, stats.bytes, stats.evictions), (stored, bytes as u64, 0), "nothing is lost");
    for number in [0, stored / 2, stored - 1] {
        assert!(value_of(&mut session, format!("key-{number:012}").as_bytes(), NOW).is_some());
    }
    assert!(stats.memory_used <= memory as u64);
    (chunks as u64 + stats.index_bytes) as f64 * 100.0 / memory as f64
}

fn fill_all(memory: usize) {
    for (lengths, least) in LOADS {
        let full = occupancy(memory, lengths);
        println!("values of {lengths:?} bytes: {full:.1} %");
        assert!(full >= least, "{full:.1} % with values of {lengths:?} bytes");
    }
}

#[test]
fn a_store_is_nine_tenths_full_before_it_refuses() {
    fill_all(64 * MIB);
}

/// `cargo test -p guira-mica a_store_of_a_gibibyte -- --ignored --nocapture` tells how full.
#[test]
#[ignore = "takes a gibibyte"]
fn a_store_of_a_gibibyte_is_nine_tenths_full_before_it_refuses() {
    fill_all(1024 * MIB);
}
