//! `stats items` and `stats slabs`.

use super::lines::{ITEMS, ITEMS_LAST, SLABS, SLABS_LAST};
use super::{Admin, Lines};
use crate::shared::Shared;
use guira_commands::BY_CLASS;

/// What memcached shows of lists in order of use, and of items that are held or moved in them: there are none here.
pub(super) const ABSENT: [&str; 13] = [
    "tailrepairs",
    "evicted_active",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_cold",
    "hits_to_temp",
    "number_hot",
    "number_warm",
    "number_temp",
];

impl Admin {
    pub(super) fn items(&self, out: &mut Lines<'_>) {
        for class in self.control.stats().classes {
            let mut item = |name: &str, value: u64| out.stat(&format!("items:{}:{name}", class.id), value);
            ITEMS.iter().for_each(|line| item(line.metric.name, (line.value)(&class)));
            class.counts.rows().for_each(|(metric, value)| item(metric.name, value));
            ITEMS_LAST.iter().for_each(|line| item(line.metric.name, (line.value)(&class)));
            ABSENT.iter().for_each(|name| item(name, 0));
        }
    }

    pub(super) fn slabs(&self, out: &mut Lines<'_>) {
        let stats = self.control.stats();
        for class in &stats.classes {
            let mut slab = |name: &str, value: u64| out.stat(&format!("{}:{name}", class.id), value);
            SLABS.iter().for_each(|line| slab(line.metric.name, (line.value)(class)));
            for (index, what) in BY_CLASS.iter().enumerate() {
                slab(what.name(), class_sum(&self.shared, class.id, index));
            }
        }
        out.lines(SLABS_LAST, &self.figures(&stats));
    }
}

/// How often `BY_CLASS[index]` was counted of a class, about.
fn class_sum(shared: &Shared, class: u32, index: usize) -> u64 {
    let class = u8::try_from(class).unwrap_or(0);
    shared.workers.iter().map(|(_, commands)| commands.classes.get(class, index)).sum()
}
