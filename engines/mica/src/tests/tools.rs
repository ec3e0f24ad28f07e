//! What several tests do.

use crate::recover::recover;
use crate::{Fits, MicaEngine, MicaSession};
use guira_contract::suite::{store, value_of};
use guira_contract::{Control, Expiry, Key, Session, StoreError};
use guira_items::ClassUsage;
use guira_sync::clock::Seconds;

pub(super) const NOW: Seconds = Seconds(1000);

pub(super) fn put(session: &mut MicaSession, key: &str, value: &[u8]) -> Result<(), StoreError> {
    store(session, key.as_bytes(), value, 0, Expiry::Never, NOW)
}

pub(super) fn get(session: &mut MicaSession, key: &str) -> Option<Vec<u8>> {
    value_of(session, key.as_bytes(), NOW).map(|item| item.value)
}

pub(super) fn key_of<'k>(session: &MicaSession, key: &'k str) -> Key<'k> {
    Key { bytes: key.as_bytes(), hash: session.hash(key.as_bytes()) }
}

/// Logs and indexes fit together, and what is counted is there. No other thread uses the engine.
pub(super) fn check(engine: &MicaEngine) {
    let core = &engine.core;
    let mut all = ClassUsage::default();
    for (number, partition) in core.partitions.iter().enumerate() {
        let held = partition.usage();
        let recovered = recover(core.shell.region(), &core.plan, partition);
        assert_eq!(recovered, Some(held), "partition {number}");
        all = ClassUsage { items: all.items + held.items, bytes: all.bytes + held.bytes };
    }
    let stats = engine.stats();
    assert_eq!((stats.items, stats.bytes), (all.items, all.bytes));
}

/// Every spare bucket that was ever used is in use or free. (A scan of all chunks of a store puts those that are free on their lists: that can be done only when
/// it is opened.)
pub(super) fn check_spares(engine: &MicaEngine<Fits>) {
    for index in engine.core.partitions.iter().map(|partition| partition.index()) {
        let [.., spares, in_use, free] = index.saved();
        let behind = |link: u32| {
            std::iter::successors(index.linked(link), |bucket| index.linked(bucket.link())).count() as u64
        };
        let used: u64 = (0..index.buckets() as u32).map(|number| behind(index.bucket(number).link())).sum();
        assert_eq!((used, behind(free as u32)), (in_use, spares - in_use));
    }
}

/// Numbers without any order, the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}
