//! `stats items` and `stats slabs`.

use super::{Admin, Lines};
use crate::shared::Shared;
use guira_commands::BY_CLASS;

/// What memcached tells of lists in order of use, and of items that are held or moved in them: there are none here.
const ABSENT: [&str; 13] = [
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
            item("number", class.items);
            // All items are of one kind: memcached's cold ones, which are evicted next.
            item("number_cold", class.items);
            item("age_hot", 0);
            item("age_warm", 0);
            item("age", class.age);
            item("mem_requested", class.bytes);
            class.counts.rows().for_each(|(metric, value)| item(metric.name, value));
            // Whoever stores makes room: no other thread does it.
            item("direct_reclaims", class.counts.evicted);
            ABSENT.iter().for_each(|name| item(name, 0));
        }
    }

    pub(super) fn slabs(&self, out: &mut Lines<'_>) {
        let stats = self.control.stats();
        for class in &stats.classes {
            let mut slab = |name: &str, value: u64| out.stat(&format!("{}:{name}", class.id), value);
            slab("chunk_size", class.chunk_size);
            slab("chunks_per_page", class.chunks_per_page);
            slab("total_pages", class.pages);
            slab("total_chunks", class.used_chunks + class.free_chunks);
            slab("used_chunks", class.used_chunks);
            slab("free_chunks", class.free_chunks);
            slab("free_chunks_end", 0);
            for (index, what) in BY_CLASS.iter().enumerate() {
                slab(what.name(), class_sum(&self.shared, class.id, index));
            }
        }
        out.stat("active_slabs", stats.classes.len());
        out.stat("total_malloced", stats.memory_used - stats.index_bytes);
    }
}

/// How often `BY_CLASS[index]` was counted of a class, about.
fn class_sum(shared: &Shared, class: u32, index: usize) -> u64 {
    let class = u8::try_from(class).unwrap_or(0);
    shared.workers.iter().map(|(_, commands)| commands.classes.get(class, index)).sum()
}
