//! The counters of names.

use guira_sync::atomic::{AtomicU64, Ordering};

guira_sync::counters! {
    pub enum NameCount {
        Lookups = "dns_lookups", Count, "Lookups of names";
        Failures = "dns_failures", Count, "Lookups without a result or without a reply";
        Changes = "dns_changes", Count, "Lookups whose result differs from the previous one";
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameGauge {
    /// Names that are resolved regularly.
    Followed,
    /// Names that keep earlier records, since the last lookup failed.
    Stale,
    /// Names that never had a record.
    Unknown,
}

const GAUGES: usize = NameGauge::Unknown as usize + 1;

/// Counters and gauges. Relaxed: they are only printed.
#[derive(Debug, Default)]
pub struct NameCounts {
    counts: [AtomicU64; NameCount::COUNT],
    gauges: [AtomicU64; GAUGES],
}

impl NameCounts {
    pub fn get(&self, count: NameCount) -> u64 {
        self.counts[count as usize].load(Ordering::Relaxed)
    }

    pub fn gauge(&self, gauge: NameGauge) -> u64 {
        self.gauges[gauge as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, count: NameCount) {
        self.counts[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, gauge: NameGauge, value: usize) {
        self.gauges[gauge as usize].store(value as u64, Ordering::Relaxed);
    }
}
