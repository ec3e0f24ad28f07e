//! Watches the parts: the node of each slot, and the figures of the others.

use std::sync::Arc;
use std::time::Duration;

use guira_control::{Etcd, EtcdOptions, Store, View};
use guira_regions::http;
use guira_regions::judge::lock;

use crate::part::{Part, Role};
use crate::programs::{POOL, SLOTS, open};
use crate::snapshot::{FIGURES, Snapshot};
use crate::world::World;

const EVERY: Duration = Duration::from_millis(500);

impl World {
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

    /// Updates the server of each slot, and records changes. Returns whether all slots have
    /// servers. Without a reply of etcd nothing changes.
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
    // A stopped process does not reply: the timeout of `open` ends the wait.
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
