//! `stats items` and `stats slabs`.

use super::{EngineAdmin, Lines};
use guira_contract::Engine;

impl<E: Engine> EngineAdmin<E> {
    pub(super) fn items(&self, out: &mut Lines<'_>) {
        for class in self.engine.stats().classes {
            let mut item = |name: &str, value: u64| out.stat(&format!("items:{}:{name}", class.id), value);
            item("number", class.used_chunks);
            item("evicted", class.evicted);
            item("mem_requested", class.used_chunks * class.chunk_size);
        }
    }

    pub(super) fn slabs(&self, out: &mut Lines<'_>) {
        let stats = self.engine.stats();
        for class in &stats.classes {
            let mut slab = |name: &str, value: u64| out.stat(&format!("{}:{name}", class.id), value);
            slab("chunk_size", class.chunk_size);
            slab("chunks_per_page", class.chunks_per_page);
            slab("total_pages", class.pages);
            slab("total_chunks", class.used_chunks + class.free_chunks);
            slab("used_chunks", class.used_chunks);
            slab("free_chunks", class.free_chunks);
        }
        out.stat("active_slabs", stats.classes.len());
        out.stat("total_malloced", stats.memory_used - stats.index_bytes);
    }
}
