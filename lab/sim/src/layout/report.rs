//! What a comparison of layouts found, for people and for programs.

use serde::Serialize;

use super::sweep::LayoutPoint;
use crate::report::{Simulated, grid, grouped};

/// What was simulated, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct LayoutReport {
    pub source: String,
    /// How it is written, or what it is made from and what was assumed.
    pub about: String,
    pub simulated: Simulated,
    /// Every layout at every size.
    pub points: Vec<LayoutPoint>,
}

const HEAD: [&str; 9] = [
    "size",
    "memory",
    "layout",
    "misses, %",
    "copied/stored",
    "dead, %",
    "rounding, %",
    "free, %",
    "index, notes, %",
];

impl LayoutReport {
    /// A table with a row for each layout at each size.
    #[must_use]
    pub fn text(&self) -> String {
        let Simulated { requests, keys, .. } = self.simulated;
        let rows = self.points.iter().map(|point| {
            let usage = point.outcome.usage;
            let share = |bytes: f64| format!("{:.2}", 100.0 * bytes / usage.total().max(1.0));
            vec![
                point.size.to_string(),
                grouped(point.memory as usize),
                point.layout.clone(),
                format!("{:.2}", 100.0 * point.miss_ratio),
                format!("{:.3}", point.copied),
                share(usage.dead),
                share(usage.rounding),
                share(usage.free),
                share(usage.metadata),
            ]
        });
        let head = format!(
            "{}: {}\n{} requests for {} keys\n\n",
            self.source,
            self.about,
            grouped(requests),
            grouped(keys)
        );
        head + &grid(&HEAD, rows)
    }
}
