//! Cuckoo paths (MemC3, section 3.2.2): found without locks, breadth first, which finds the shortest of all paths at
//! once where the paper follows two; then walked backwards.

use super::bucket::{Entry, SLOTS};
use super::pair::{Cuckoo, CuckooPlace, SlotAt};
use crate::index::scheme::SearchLimits;
use crate::index::table::Table;
use guira_items::hooks::{self, Window};
use guira_memory::Region;
use guira_sync::version::Versions;

/// An entry that moves to its other bucket.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: SlotAt,
    entry: Entry,
    to: u32,
}

/// The steps of a path, the last to be walked first.
#[derive(Debug)]
pub(super) struct Path {
    steps: Vec<Step>,
}

/// A bucket that the search has reached.
#[derive(Clone, Copy, Debug)]
struct Node {
    bucket: u32,
    depth: u32,
    /// The node it was reached from, and the slot whose entry would move here.
    parent: u32,
    slot: u8,
}

const ROOT: u32 = u32::MAX;

/// Searches a path that frees a slot in one of the buckets of `place`. None if there is none; one that was lost on the way to others has no steps.
pub(super) fn search(
    region: &Region,
    table: Table<Cuckoo>,
    place: CuckooPlace,
    limits: SearchLimits,
) -> Option<Path> {
    let mut nodes = Vec::with_capacity(limits.paths as usize + 2 * SLOTS);
    for bucket in [place.first, place.second] {
        nodes.push(Node { bucket, depth: 0, parent: ROOT, slot: 0 });
    }
    let mut next = 0;
    while let Some(&node) = nodes.get(next) {
        let bucket = table.bucket(region, node.bucket);
        if bucket.free().count() > 0 {
            return Some(trace(region, table, &nodes, next));
        }
        if node.depth < limits.depth && nodes.len() < limits.paths as usize {
            for slot in 0..SLOTS {
                if let Some(entry) = bucket.entry(slot) {
                    let other = table.other(node.bucket, entry.tag);
                    region.prefetch(table.address(other));
                    let node =
                        Node { bucket: other, depth: node.depth + 1, parent: next as u32, slot: slot as u8 };
                    nodes.push(node);
                }
            }
        }
        next += 1;
    }
    None
}

/// The steps that lead to `nodes[last]`. None at all if an entry on the way is gone already: then there is another way, which has to be looked for.
fn trace(region: &Region, table: Table<Cuckoo>, nodes: &[Node], last: usize) -> Path {
    let mut steps = Vec::new();
    let mut node = nodes[last];
    while node.parent != ROOT {
        let parent = nodes[node.parent as usize];
        let from = SlotAt { table, bucket: parent.bucket, slot: usize::from(node.slot) };
        let entry = table.bucket(region, parent.bucket).entry(from.slot);
        let Some(entry) = entry.filter(|entry| table.other(parent.bucket, entry.tag) == node.bucket) else {
            return Path { steps: Vec::new() };
        };
        steps.push(Step { from, entry, to: node.bucket });
        node = parent;
    }
    Path { steps }
}

/// Walks a path backwards, as far as it is still there. Returns the number of entries moved.
pub(super) fn execute((region, versions): (&Region, &Versions), table: Table<Cuckoo>, path: &Path) -> u64 {
    let mut moved = 0;
    for step in &path.steps {
        let stripes = [versions.stripe(step.from.bucket), versions.stripe(step.to)];
        let locked = versions.lock(stripes);
        let (from, to) = (table.bucket(region, step.from.bucket), table.bucket(region, step.to));
        let free = to.free().first();
        match free {
            Some(slot) if from.entry(step.from.slot) == Some(step.entry) && step.from.bucket != step.to => {
                from.clear(step.from.slot);
                // A reader that looked now would find the entry in neither bucket (hazard 1).
                hooks::pause(Window::Displacing);
                to.put(slot, step.entry);
                moved += 1;
            }
            _ => {
                locked.release_unchanged();
                break;
            }
        }
    }
    moved
}
