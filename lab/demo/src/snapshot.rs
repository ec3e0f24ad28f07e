//! What is seen of the parts now and then: who serves which slot, and how the others are.

use std::sync::Arc;
use std::time::Duration;

use guira_control::{Etcd, EtcdOptions, Store, View};
use guira_regions::http;
use guira_regions::judge::lock;

use crate::part::{Part, Role};
use crate::programs::{POOL, SLOTS, open};
use crate::world::World;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(500);
/// Figures of a cache that are shown.
const FIGURES: [&str; 4] = ["curr_items", "get_hits", "get_misses", "evictions"];

/// What was seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The part that serves each slot.
    pub(crate) slots: Vec<Option<String>>,
    /// Nodes that are registered, and those of them that are empty and wait for a slot.
    pub(crate) registered: Vec<String>,
    pub(crate) spares: Vec<String>,
    /// The member that replaces lost servers.
    pub(crate) leader: Option<String>,
    /// Figures by caches; none of one that has not answered.
    pub(crate) caches: Vec<(String, Option<[u64; FIGURES.len()]>)>,
    /// How long ago the oldest change was that not all targets have deleted.
    pub(crate) lag_s: Option<f64>,
}

impl Snapshot {
    /// What a node does, as a person says it.
    pub(crate) fn duty(&self, part: &Part) -> String {
        if part.role() != Role::Node {
            return String::new();
        }
        let slot = self.slots.iter().position(|slot| slot.as_deref() == Some(&part.name));
        match slot {
            Some(slot) => format!("slot {slot}"),
            None if self.spares.contains(&part.name) => "spare".to_owned(),
            None => "no slot".to_owned(),
        }
    }

    /// Whether it does something: every part but a node without a slot.
    pub(crate) fn serves(&self, role: Role, name: &str) -> bool {
        role != Role::Node || self.slots.iter().flatten().any(|server| server == name)
    }

    /// Whether every node serves a slot or is an empty spare.
    pub(crate) fn has_place_for_all(&self, world: &World) -> bool {
        let has_place = |part: &Part| {
            self.spares.contains(&part.name) || self.slots.iter().flatten().any(|server| *server == part.name)
        };
        world.parts.iter().filter(|part| part.role() == Role::Node).all(has_place)
    }
}

impl World {
    /// Looks again and again.
    pub(crate) fn look(&self) {
        while self.stop.wait(EVERY).is_ok() {
            self.look_at_slots();
            let caches = self.parts.iter().filter(|part| matches!(part.role(), Role::Node | Role::Gutter));
            let caches = caches.map(|part| (part.name.clone(), figures(part))).collect();
            let lag_s = self.progress.as_ref().and_then(|progress| lag(&progress.admin));
            {
                let mut snapshot = lock(&self.snapshot);
                snapshot.caches = caches;
                snapshot.lag_s = lag_s;
            }
            self.truth.note_gutter(self.given_to_gutter());
        }
    }

    /// Looks who serves which slot, and tells of changes. Returns whether all slots are served; if nobody says so, nothing changes.
    pub(crate) fn look_at_slots(&self) -> bool {
        let Some(etcd) = &self.etcd else {
            let nodes = self.parts.iter().filter(|part| part.role() == Role::Node);
            lock(&self.snapshot).slots = nodes.map(|part| Some(part.name.clone())).collect();
            return true;
        };
        let Some(seen) = view(etcd).and_then(|view| self.slots_of(&view)) else { return false };
        let mut snapshot = lock(&self.snapshot);
        for (slot, now) in seen.slots.iter().enumerate() {
            let before = snapshot.slots.get(slot).cloned().flatten();
            if let (Some(before), Some(now)) = (&before, now)
                && before != now
            {
                self.events.event(format!("slot {slot}: {now} replaces {before}"));
            }
        }
        let is_full = seen.slots.len() == SLOTS && seen.slots.iter().all(Option::is_some);
        *snapshot = Snapshot { caches: snapshot.caches.clone(), lag_s: snapshot.lag_s, ..seen };
        is_full
    }

    fn slots_of(&self, view: &View) -> Option<Snapshot> {
        let pool = view.pool(POOL).ok()?;
        let part_at = |server: &str| {
            let is_at = |part: &&Part| {
                part.role() == Role::Node
                    && part.relay().is_some_and(|relay| relay.address().to_string() == server)
            };
            self.parts.iter().find(is_at).map(|part| part.name.clone())
        };
        Some(Snapshot {
            slots: pool.slots.iter().map(|slot| part_at(slot.server.as_deref()?)).collect(),
            registered: view.registered(POOL).filter_map(|one| part_at(&one.server)).collect(),
            spares: view.spares(POOL).filter_map(|one| part_at(&one.server)).collect(),
            leader: view.leader().and_then(|leader| part_at(leader.rsplit('/').next()?)),
            ..Snapshot::default()
        })
    }
}

fn view(etcd: &EtcdOptions) -> Option<View> {
    Store::new(Etcd::new(etcd.clone(), Arc::default()).ok()?).view().ok()
}

fn figures(part: &Part) -> Option<[u64; FIGURES.len()]> {
    // Whoever is stopped would be waited for in vain.
    let mut found = [0; FIGURES.len()];
    open(part.socket()?)?
        .stats("", |name, value| {
            if let Some(place) = FIGURES.iter().position(|figure| figure.as_bytes() == name) {
                found[place] = String::from_utf8_lossy(value).parse().unwrap_or(0);
            }
        })
        .ok()?;
    Some(found)
}

fn lag(admin: &std::path::Path) -> Option<f64> {
    let page = http::page(admin, "/metrics")?;
    let line = page.lines().find_map(|line| line.strip_prefix("guira_invalidator_lag_seconds "))?;
    line.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Snapshot;
    use crate::part::Role;

    #[test]
    fn a_node_without_a_slot_serves_nothing() {
        let slots = vec![Some("node-0".to_owned()), None, Some("node-2".to_owned())];
        let snapshot = Snapshot { slots, spares: vec!["node-4".to_owned()], ..Snapshot::default() };
        assert!(snapshot.serves(Role::Node, "node-0") && snapshot.serves(Role::Node, "node-2"));
        assert!(!snapshot.serves(Role::Node, "node-1") && !snapshot.serves(Role::Node, "node-4"));
        assert!(snapshot.serves(Role::Router, "router-0"));
    }
}
