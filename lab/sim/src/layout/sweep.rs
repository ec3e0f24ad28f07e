//! Layouts × sizes, on as many threads as are given.

use serde::Serialize;

use super::choice::LayoutChoice;
use super::drive::{Outcome, footprint};
use crate::jobs;
use crate::run::{Measure, Rules};
use crate::size::Size;
use crate::stream::Stream;

#[derive(Debug)]
pub struct LayoutSweep<'a> {
    pub stream: &'a Stream,
    pub layouts: &'a [LayoutChoice],
    pub sizes: &'a [Size],
    pub rules: Rules,
}

#[derive(Debug, Clone, Serialize)]
pub struct LayoutPoint {
    /// The layout, as it was written.
    pub layout: String,
    /// The size, as it was written.
    pub size: Size,
    /// All of its memory, in bytes.
    pub memory: u64,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub miss_ratio: f64,
    /// Bytes copied for each byte that was stored.
    pub copied: f64,
}

/// Sizes are whole pages of the slab engine.
const UNIT: u64 = guira_memory::slab::PAGE_BYTES as u64;

impl LayoutSweep<'_> {
    /// Simulates each layout at each size: sizes in their order, layouts in theirs within. A share is one of the bytes of
    /// all keys' items.
    ///
    /// # Errors
    /// If a size is a number of objects, or too small for a layout.
    pub fn run(&self, threads: usize, progress: &(dyn Fn(u64) + Sync)) -> Result<Vec<LayoutPoint>, String> {
        let size_unknown = match self.rules.measure {
            Measure::Bytes { size, .. } => size,
            Measure::Objects => return Err("layouts are simulated in bytes".to_owned()),
        };
        let all = footprint(self.stream, size_unknown);
        let mut jobs = Vec::new();
        for &size in self.sizes {
            let memory = match size {
                Size::Percent(percent) => (all as f64 * percent / 100.0) as u64,
                Size::Bytes(bytes) => bytes,
                Size::Objects(_) => {
                    return Err(format!("{size} objects are not a memory size: use 64MiB or 5%"));
                }
            };
            let memory = memory.next_multiple_of(UNIT);
            jobs.extend(self.layouts.iter().map(|layout| (size, memory, layout)));
        }
        let point = |(size, memory, layout): (Size, u64, &LayoutChoice)| {
            let outcome = layout.run(memory, (self.stream, self.rules), progress)?;
            let (miss_ratio, copied) = (outcome.miss_ratio(), outcome.copied());
            Ok(LayoutPoint { layout: layout.name(), size, memory, outcome, miss_ratio, copied })
        };
        jobs::each(jobs, threads, point).into_iter().collect()
    }
}
