//! Full memory of which nothing may be evicted.

use super::SlabEngine;
use crate::{Eviction, SlabOptions};
use guira_contract::suite::{store, value_of};
use guira_contract::{Amendment, Control, Decision, Engine, Expiry, Key, Provision, Session};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

/// Reads ask for a cas unique, or give another time to expire: that must neither fail nor cost the item.
#[test]
fn items_get_a_cas_unique_and_a_time_where_they_lie() {
    for length in [0, 100, 900, 5_000, 40_000] {
        let limits = SlabOptions { memory: 8 << 20, eviction: Eviction::Off, ..SlabOptions::default() };
        let engine = SlabEngine::open(limits).unwrap();
        let mut session = engine.session();
        let name = |number: u32| format!("key{number}").into_bytes();
        let value = vec![7; length];
        let mut stored = 0;
        while store(&mut session, &name(stored), &value, 0, Expiry::Never, NOW).is_ok() {
            stored += 1;
            session.quiesce();
        }
        for number in 0..stored.min(2_000) {
            let bytes = name(number);
            let key = Key { bytes: &bytes, hash: session.hash(&bytes) };
            let (cas, expiry) = (Some(5000 + u64::from(number)), Some(Expiry::At(Seconds(2000))));
            let change = || Amendment { cas, expiry, ..Amendment::default() };
            session
                .update(key, Default::default(), NOW, Provision::None, |_| Decision::Amend(change()))
                .unwrap();
            let item = value_of(&mut session, &bytes, NOW).unwrap();
            assert_eq!((item.value.len(), item.meta.cas, Some(item.meta.expiry)), (length, cas, expiry));
        }
        assert_eq!(engine.stats().items, u64::from(stored));
    }
}
