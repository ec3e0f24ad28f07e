//! Reports a region that cannot grow.

use guira_contract::Control;
use guira_memory::MIB;
use guira_roster::RegionPlace;
use guira_serving::RateLimited;
use guira_sync::atomic::{AtomicU64, Ordering};
use guira_sync::clock::Seconds;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct RegionMonitor {
    control: Arc<dyn Control>,
    place: Option<RegionPlace>,
    log_limit: RateLimited,
    /// The value of `region_no_room` that was last logged. Relaxed: it only limits the log.
    logged: AtomicU64,
}

impl RegionMonitor {
    pub(super) fn new(control: Arc<dyn Control>, place: Option<RegionPlace>) -> Self {
        RegionMonitor { control, place, log_limit: RateLimited::every(60), logged: AtomicU64::new(0) }
    }

    pub(super) fn check(&self, now: Seconds) {
        let Some(place) = &self.place else {
            return;
        };
        let stats = self.control.stats();
        let is_news = stats.region_no_room > self.logged.load(Ordering::Relaxed);
        if is_news && self.log_limit.is_due(now) {
            self.logged.store(stats.region_no_room, Ordering::Relaxed);
            let [used, limit] = [stats.memory_used, stats.memory_limit].map(|bytes| bytes / MIB as u64);
            // Operator: Free space in the region's file system, or lower `memory`.
            tracing::warn!(
                "the file system of region {place} is full: items and index are limited to {used} of \
                     {limit} MiB"
            );
        }
    }
}
