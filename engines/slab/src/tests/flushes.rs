//! Flushes in awkward moments.

use super::SlabPin;
use super::open;
use guira_contract::suite::{store, value_of};
use guira_contract::{
    Engine, Expiry, ItemView, Key, Meta, Pace, Read, Recency, Session, Sink, ValuePin, Walked, Want,
};
use guira_sync::clock::Seconds;

const NOW: Seconds = Seconds(1000);

#[test]
fn a_flush_falls_due_in_an_update_when_every_generation_is_dirty() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    for round in 0..7 {
        for i in 0..100 {
            store(&mut session, format!("{round}-{i}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        }
        engine.flush(NOW, NOW);
    }
    store(&mut session, b"k", b"before", 0, Expiry::Never, NOW).unwrap();
    engine.flush(NOW, Seconds(1010));
    // The sweep that this takes locks the buckets of every item, those of this key included.
    store(&mut session, b"k", b"after", 0, Expiry::Never, Seconds(1010)).unwrap();
    assert_eq!(value_of(&mut session, b"k", Seconds(1010)).unwrap().value, b"after");
    assert!(value_of(&mut session, b"6-1", Seconds(1010)).is_none());
}

/// Keeps a pin.
#[derive(Default)]
struct Keep(Option<SlabPin>);

impl Sink for Keep {
    type Pin = SlabPin;
    fn wants(&self) -> Want {
        Want::Value
    }
    fn found<I: ItemView>(&mut self, _item: &I) {}
    fn undo(&mut self) {}
    fn recency(&self) -> Recency {
        Recency::Bump
    }
    fn pinned(&mut self, _meta: &Meta, pin: SlabPin) {
        self.0 = Some(pin);
    }
}

#[test]
fn an_item_that_is_pinned_in_a_draining_page_stays_flushed() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    let value = vec![7; 100_000];
    let mut pins = Vec::new();
    for i in 0..8 {
        let name = format!("long-{i}").into_bytes();
        store(&mut session, &name, &value, 0, Expiry::Never, NOW).unwrap();
        let key = Key { bytes: &name, hash: session.hash(&name) };
        let mut sink = Keep::default();
        assert_eq!(session.read(key, NOW, &mut sink), Read::Hit);
        pins.extend(sink.0);
    }
    // Small items take over, so that the pages of the long ones are drained.
    for i in 0..300_000 {
        store(&mut session, format!("small-{i}").as_bytes(), &[1; 40], 0, Expiry::Never, NOW)
            .unwrap_or_else(|_| panic!("{i}: {:?}", engine.stats()));
        if i % 32 == 0 {
            session.maintain(NOW, Pace::Busy, 32);
            session.quiesce();
        }
    }
    for round in 0..20 {
        engine.flush(NOW, NOW);
        store(&mut session, format!("round-{round}").as_bytes(), b"v", 0, Expiry::Never, NOW).unwrap();
        for _ in 0..1000 {
            session.quiesce();
            session.maintain(NOW, Pace::Idle, 256);
        }
        for i in 0..8 {
            assert!(value_of(&mut session, format!("long-{i}").as_bytes(), NOW).is_none(), "round {round}");
        }
    }
    assert_eq!(pins.len(), 8);
    assert!(pins.iter().all(|pin| pin.piece(0)[..100] == value[..100]), "what is pinned is not touched");
    drop(pins);
    let before = engine.stats();
    assert_eq!(before.items, 1);
}

#[test]
fn a_walk_shows_nothing_that_a_flush_has_taken_by_then() {
    let engine = open(8 << 20);
    let mut session = engine.session();
    store(&mut session, b"k", b"v", 0, Expiry::Never, NOW).unwrap();
    engine.flush(NOW, Seconds(1010));
    let mut shown_at = |now| {
        let mut walk = session.begin_walk().unwrap();
        let mut shown = 0;
        while session.walk(&mut walk, now, &mut |_| shown += 1) != Walked::Done {
            session.quiesce();
        }
        shown
    };
    assert_eq!((shown_at(Seconds(1009)), shown_at(Seconds(1010))), (1, 0));
}
