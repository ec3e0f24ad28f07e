//! `stats items` and `stats slabs`.

use super::Admin;
use super::general::absent;
use super::lines::{ITEMS, ITEMS_LAST, SLABS, SLABS_LAST};
use super::text::Lines;
use guira_commands::BY_CLASS;
use guira_sync::metrics::Metric;

/// Values of memcached about its LRU lists and items moved between them. Guira has no such lists.
pub(super) const ABSENT: [Metric; 13] = [
    absent("tailrepairs", Some("memcached_slab_items_tailrepairs_total")),
    absent("evicted_active", None),
    absent("lrutail_reflocked", None),
    absent("moves_to_cold", Some("memcached_slab_items_moves_to_cold")),
    absent("moves_to_warm", Some("memcached_slab_items_moves_to_warm")),
    absent("moves_within_lru", Some("memcached_slab_items_moves_within_lru")),
    absent("hits_to_hot", Some("memcached_slab_lru_hits_total{lru=hot}")),
    absent("hits_to_warm", Some("memcached_slab_lru_hits_total{lru=warm}")),
    absent("hits_to_cold", Some("memcached_slab_lru_hits_total{lru=cold}")),
    absent("hits_to_temp", Some("memcached_slab_lru_hits_total{lru=temporary}")),
    absent("number_hot", Some("memcached_slab_hot_items")),
    absent("number_warm", Some("memcached_slab_warm_items")),
    absent("number_temp", Some("memcached_slab_temporary_items")),
];

impl Admin {
    pub(super) fn items(&self, out: &mut Lines<'_>) {
        for class in self.control.stats().classes {
            let mut item = |name: &str, value: u64| out.stat(&format!("items:{}:{name}", class.id), value);
            ITEMS.iter().for_each(|line| item(line.metric.name, (line.value)(&class)));
            class.counts.rows().for_each(|(metric, value)| item(metric.name, value));
            ITEMS_LAST.iter().for_each(|line| item(line.metric.name, (line.value)(&class)));
            ABSENT.iter().for_each(|metric| item(metric.name, 0));
        }
    }

    pub(super) fn slabs(&self, out: &mut Lines<'_>) {
        let stats = self.control.stats();
        for class in &stats.classes {
            let mut slab = |name: &str, value: u64| out.stat(&format!("{}:{name}", class.id), value);
            SLABS.iter().for_each(|line| slab(line.metric.name, (line.value)(class)));
            for what in BY_CLASS {
                slab(what.name(), self.statistics.class_sum(class.id, what));
            }
        }
        out.lines(SLABS_LAST, &self.figures(&stats));
    }
}
