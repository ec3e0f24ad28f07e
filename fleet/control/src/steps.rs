//! Steps by which a pool changes: its keys move to another server, or from slot to slot.
//!
//! Each step is one change of the stored pool. Routers that know neighbouring steps agree about deletes (fleet/routing/src/handle/handover.rs);
//! a client makes the next step once all routers know the last.

use crate::change::{Handover, Resize, Stage};
use crate::pool::{Pool, Slot};
use crate::registration::Registration;

impl Pool {
    /// Announces that the keys of a slot move to a spare.
    pub fn announce_handover(&mut self, slot: usize, spare: &Registration, now_s: u64) {
        if let Some(slot) = self.slots.get_mut(slot) {
            let other = spare.server.clone();
            slot.handover = Some(Handover { other, stage: Stage::Announced, since_s: now_s });
        }
    }

    /// Makes the next step of a handover; `zone` is that of the server which takes the slot, if this step is the one. Without a
    /// handover nothing changes.
    pub fn step_handover(&mut self, slot: usize, zone: Option<&str>, now_s: u64) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        let Some(handover) = &mut slot.handover else { return };
        match handover.stage.next() {
            Some(stage) => {
                if stage == Stage::Warming {
                    let server = slot.server.replace(handover.other.clone());
                    handover.other = server.unwrap_or_default();
                    slot.zone = zone.map(str::to_owned).or(slot.zone.take());
                }
                (handover.stage, handover.since_s) = (stage, now_s);
            }
            None => slot.handover = None,
        }
    }

    /// The keys of a slot stay with the server that has them, without the other one.
    pub(crate) fn give_up_handover(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.handover = None;
        }
    }

    /// Announces that the pool becomes larger, with a spare for each further slot, or smaller.
    pub fn announce_resize(&mut self, to: usize, spares: &[&Registration], now_s: u64) {
        let from = self.slots.len();
        let weight = self.slots.iter().find_map(|slot| slot.weight).map(|_| 1.0);
        self.slots.extend(spares.iter().map(|spare| Slot {
            server: Some(spare.server.clone()),
            zone: spare.zone.clone(),
            weight,
            handover: None,
        }));
        self.resize = Some(Resize { from, to, stage: Stage::Announced, since_s: now_s });
    }

    /// Makes the next step of a resize. Without one nothing changes.
    pub fn step_resize(&mut self, now_s: u64) {
        let Some(resize) = &mut self.resize else { return };
        match resize.stage.next() {
            Some(stage) => (resize.stage, resize.since_s) = (stage, now_s),
            None => {
                self.slots.truncate(resize.to);
                self.resize = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{PoolError, Rules};

    fn spare(server: &str) -> Registration {
        let zone = Some("east".to_owned());
        let (pool, server) = ("p".to_owned(), server.to_owned());
        Registration { pool, server, zone, is_empty: true, can_upgrade: false, revision: 1, lease: 1 }
    }

    fn pool(servers: &[&str]) -> Pool {
        let mut pool = Pool::of_empty_slots(servers.len(), Rules::default());
        for (slot, server) in pool.slots.iter_mut().zip(servers) {
            slot.server = Some((*server).to_owned());
        }
        pool
    }

    fn definition(pool: &Pool) -> serde_json::Value {
        pool.check().unwrap();
        assert_eq!(Pool::parse(pool.text().as_bytes()).as_ref(), Ok(pool), "it is read as it was written");
        serde_json::from_str(&pool.definition("p")).unwrap()
    }

    #[test]
    fn a_slot_is_handed_over_in_steps_that_routers_are_told() {
        let mut pool = pool(&["a:1", "b:1"]);
        let before = pool.clone();
        pool.announce_handover(1, &spare("c:1"), 7);
        for (servers, handover, now_s) in [
            (["a:1", "b:1"], serde_json::json!([null, {"other": "c:1", "stage": "announced"}]), 8),
            (["a:1", "c:1"], serde_json::json!([null, {"other": "b:1", "stage": "warming"}]), 9),
            (["a:1", "c:1"], serde_json::json!([null, {"other": "b:1", "stage": "ending"}]), 10),
        ] {
            let published = definition(&pool);
            assert_eq!(
                (&published["servers"], &published["handovers"]),
                (&serde_json::json!(servers), &handover)
            );
            assert_eq!((pool.slot_of("b:1"), pool.slot_of("c:1")), (Some(1), Some(1)), "neither is a spare");
            pool.step_handover(1, Some("east"), now_s);
        }
        assert_eq!(
            definition(&pool),
            serde_json::json!({"servers": ["a:1", "c:1"], "names": ["p-0", "p-1"]})
        );
        assert_eq!((pool.slot_of("b:1"), pool.slots[1].zone.as_deref()), (None, Some("east")));
        pool.step_handover(1, None, 11);
        let mut given = before;
        given.slots[1].server = Some("c:1".to_owned());
        given.slots[1].zone = Some("east".to_owned());
        assert_eq!(pool, given);
    }

    #[test]
    fn a_pool_is_resized_in_steps_that_routers_are_told() {
        for (to, spares, servers) in
            [(3, vec![spare("c:1")], ["a:1", "b:1", "c:1"].as_slice()), (1, vec![], &["a:1", "b:1"])]
        {
            let mut pool = pool(&["a:1", "b:1"]);
            pool.announce_resize(to, &spares.iter().collect::<Vec<_>>(), 7);
            for stage in ["announced", "warming", "ending"] {
                let published = definition(&pool);
                assert_eq!(published["servers"], serde_json::json!(servers));
                assert_eq!(published["resize"], serde_json::json!({"from": 2, "to": to, "stage": stage}));
                pool.step_resize(8);
            }
            let expected = &["a:1", "b:1", "c:1"][..to];
            assert_eq!((pool.servers().collect::<Vec<_>>().as_slice(), pool.resize), (expected, None));
        }
    }

    #[test]
    fn changes_that_make_no_sense_are_refused() {
        let mut both = pool(&["a:1", "b:1"]);
        both.announce_handover(0, &spare("c:1"), 7);
        both.announce_resize(1, &[], 7);
        assert_eq!(both.check(), Err(PoolError::Both(0)));
        let mut twice = pool(&["a:1", "b:1"]);
        twice.announce_handover(0, &spare("b:1"), 7);
        assert_eq!(twice.check(), Err(PoolError::Twice("b:1".to_owned())));
        let mut empty = Pool::of_empty_slots(1, Rules::default());
        empty.announce_handover(0, &spare("c:1"), 7);
        assert_eq!(empty.check(), Err(PoolError::Handover(0)));
        let mut short = pool(&["a:1", "b:1"]);
        short.announce_resize(4, &[&spare("c:1")], 7);
        assert_eq!(short.check(), Err(PoolError::Resize(2, 4, 3)));
        let mut few = pool(&["a:1"]);
        few.rules.minimum = 2;
        assert_eq!(few.check(), Err(PoolError::Minimum(2, 1)));
    }
}
