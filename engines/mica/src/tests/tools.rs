//! What several tests do.

use crate::recover::recover;
use crate::{MicaEngine, MicaPin, MicaSession};
use guira_contract::suite::{store, value_of};
use guira_contract::{
    Control, Decision, Engine, Expiry, ItemView, Key, Meta, Pace, Provision, Recency, Session, Sink,
    StoreError, Want,
};
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

pub(super) fn remove(session: &mut MicaSession, key: &str) {
    session
        .update(key_of(session, key), Default::default(), NOW, Provision::None, |_| Decision::Remove)
        .unwrap();
}

/// Does what nobody waits for, until there is nothing left.
pub(super) fn settle(engine: &MicaEngine) {
    let mut session = engine.session();
    for _ in 0..100_000 {
        if session.maintain(NOW, Pace::Idle, 64) == 0 {
            return;
        }
    }
    panic!("there is always something left to do");
}

/// Logs and indexes fit together, and what is counted is there. Nobody else uses the engine.
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

/// Keeps the pin of a long value, as somebody does who sends it.
#[derive(Default)]
struct Keep(Option<MicaPin>);

impl Sink for Keep {
    type Pin = MicaPin;

    fn wants(&self) -> Want {
        Want::Value
    }

    fn found<I: ItemView>(&mut self, _item: &I) {}

    fn undo(&mut self) {}

    fn recency(&self) -> Recency {
        Recency::Leave
    }

    fn pinned(&mut self, _meta: &Meta, pin: MicaPin) {
        self.0 = Some(pin);
    }
}

/// The pin of a long value, if it is there.
pub(super) fn pin_of(session: &mut MicaSession, key: &str) -> Option<MicaPin> {
    let mut keep = Keep::default();
    session.read(key_of(session, key), Default::default(), NOW, &mut keep);
    keep.0
}

/// Numbers without any order, the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}
