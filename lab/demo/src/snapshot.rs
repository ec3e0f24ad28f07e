//! The last known state of the parts: the node of each slot, and figures of the caches.

use crate::part::{Part, Role};

/// The figures of a cache that the page shows.
pub(crate) const FIGURES: [&str; 4] = ["curr_items", "get_hits", "get_misses", "evictions"];

#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The part that serves each slot.
    pub(crate) slots: Vec<Option<String>>,
    /// The registered nodes, and those of them that are empty and wait for a slot.
    pub(crate) registered: Vec<String>,
    pub(crate) spares: Vec<String>,
    /// The member that replaces lost servers.
    pub(crate) leader: Option<String>,
    /// The figures of each cache; `None` if it did not reply.
    pub(crate) caches: Vec<(String, Option<[u64; FIGURES.len()]>)>,
    /// The age of the oldest change whose delete some target has not acknowledged.
    pub(crate) lag_s: Option<f64>,
}

impl Snapshot {
    /// The duty of a node in words.
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

    /// Whether the part is in use: every part but a node without a slot.
    pub(crate) fn serves(&self, role: Role, name: &str) -> bool {
        role != Role::Node || self.slots.iter().flatten().any(|server| server == name)
    }

    /// Whether every node has a slot or is an empty spare.
    pub(crate) fn has_place_for_all(&self, parts: &[Part]) -> bool {
        let has_place = |part: &Part| {
            self.spares.contains(&part.name) || self.slots.iter().flatten().any(|server| *server == part.name)
        };
        parts.iter().filter(|part| part.role() == Role::Node).all(has_place)
    }
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
