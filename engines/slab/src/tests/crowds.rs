//! Keys that crowd into the same two buckets.

use super::{Tested, open_hashed};
use crate::index::Scheme;
use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Decision, Engine, Expiry, ItemView, Key, Provision, Session};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// Keys that begin with `crowd` have one hash; all others are hashed well.
fn hash(key: &[u8]) -> u64 {
    if key.starts_with(b"crowd") {
        return 0x0123_4567_89ab_cdef;
    }
    let folded = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (folded ^ (folded >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 29)
}

/// Bits by which the two indexes find a bucket are equal, and those that tell entries apart there are not.
fn same_bucket(key: &[u8]) -> u64 {
    if key == b"old" { 0x0123_4567_0000_0001 } else { 0x0123_4567_89ab_cdef }
}

#[test]
fn a_key_behind_many_others_in_its_bucket_is_found_by_reads_as_by_updates() {
    let engine = open_hashed(16 << 20, same_bucket);
    let mut session = engine.session();
    store(&mut session, b"old", b"v", 0, Expiry::Never, NOW).unwrap();
    for number in 0..200 {
        store(&mut session, format!("crowd-{number}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        let key = Key { bytes: b"old", hash: session.hash(b"old") };
        let mut is_there = false;
        let look = |item: Option<&dyn ItemView>| {
            is_there = item.is_some();
            Decision::Keep
        };
        session.update(key, Default::default(), NOW, Provision::None, look).unwrap();
        assert_eq!(value_of(&mut session, b"old", NOW).is_some(), is_there, "behind {number} others");
    }
}

#[test]
fn a_thousand_keys_of_equal_hash_hurt_nobody_else() {
    let engine = open_hashed(16 << 20, hash);
    let mut session = engine.session();
    let others = 20_000;
    let slots = engine.stats().index_slots;
    for i in 0..others {
        store(&mut session, format!("other-{i}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
    }
    assert_eq!(engine.stats().evictions, 0);
    for i in 0..1000 {
        store(&mut session, format!("crowd-{i}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        assert!(
            value_of(&mut session, format!("crowd-{i}").as_bytes(), NOW).is_some(),
            "the newest is there"
        );
        session.maintain(NOW, guira_contract::Pace::Busy, 32);
        session.quiesce();
    }
    let stats = engine.stats();
    assert_eq!(stats.index_slots, slots, "a crowd does not make the table grow");
    // A bucket of slots is full one day, a chain never is.
    let least = if Tested::TELLS_WHEN_FULL { 980 } else { 0 };
    assert!(stats.index_evictions >= least, "{stats:?}");
    assert_eq!(stats.items + stats.index_evictions, others + 1000);
    let lost = (0..others).filter(|i| value_of(&mut session, format!("other-{i}").as_bytes(), NOW).is_none());
    assert_eq!(lost.count(), 0, "others were lost");
}
