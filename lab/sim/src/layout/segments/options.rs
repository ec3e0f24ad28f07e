//! How a log of segments is set up.

use guira_contract::{OptionError, Spec};

/// The options of a log of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::layout) struct Options {
    /// Bytes of a segment; `None` for a share of memory.
    pub(super) segment: Option<u64>,
    /// The share of memory of the small queue, in percent.
    pub(super) small_percent: u64,
    /// How many segments of the main queue are merged at once.
    pub(super) merged: usize,
    /// The share of their bytes that may be kept, in percent.
    pub(super) kept_percent: u64,
    pub(super) rank: Rank,
}

/// By what items of merged segments are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Density,
    Frequency,
}

impl Options {
    pub(in crate::layout) const KEYS: &'static [&'static str] =
        &["segment_kib", "small_pct", "merge", "keep_pct", "rank"];

    /// What the options of `spec` say.
    ///
    /// # Errors
    /// If a value is not allowed.
    pub(in crate::layout) fn read(spec: &Spec) -> Result<Self, OptionError> {
        let rank = match spec.value("rank") {
            None | Some("density") => Rank::Density,
            Some("frequency") => Rank::Frequency,
            Some(other) => return Err(spec.not("rank", other, "density or frequency")),
        };
        Ok(Self {
            segment: spec.number("segment_kib", 1..=1 << 20)?.map(|kib| kib << 10),
            small_percent: spec.number("small_pct", 1..=99)?.unwrap_or(10),
            merged: spec.number("merge", 1..=64)?.unwrap_or(4) as usize,
            kept_percent: spec.number("keep_pct", 1..=90)?.unwrap_or(25),
            rank,
        })
    }

    /// Bytes of a segment of a cache with `memory` bytes: a 256th, from 64 KiB to 1 MiB, Segcache's.
    pub(super) fn segment_bytes(&self, memory: u64) -> u64 {
        self.segment.unwrap_or_else(|| (memory / 256).next_power_of_two().clamp(64 << 10, 1 << 20))
    }
}
