//! Policies × sizes, on as many threads as are given.

use guira_contract::OptionError;
use serde::Serialize;

use crate::jobs;
use crate::registry::{Choice, Setup};
use crate::run::{Counters, Rules};
use crate::size::Size;
use crate::stream::Stream;

#[derive(Debug)]
pub struct Sweep<'a> {
    pub stream: &'a Stream,
    pub policies: &'a [Choice],
    pub sizes: &'a [Size],
    pub rules: Rules,
}

#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub threads: usize,
    /// Nanoseconds since some fixed moment.
    pub now_ns: &'a (dyn Fn() -> u64 + Sync),
    /// Who hears how many more requests were simulated.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl std::fmt::Debug for Means<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Means").field("threads", &self.threads).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The policy, as it was written.
    pub policy: String,
    /// The size, as it was written.
    pub size: Size,
    /// What was simulated: objects or bytes, in a sample fewer by its share of the keys.
    pub room: u64,
    #[serde(flatten)]
    pub counters: Counters,
    /// Hits over reads; in a sample, over the reads that it stands for.
    pub hit_ratio: f64,
    /// The standard error of that, where it was estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
    /// Simulated requests in a second of the one thread that simulated them.
    pub requests_per_s: f64,
}

impl Sweep<'_> {
    /// Simulates each policy at each size: sizes in their order, policies in theirs within.
    ///
    /// # Errors
    /// If an option of a policy has a value that is not allowed.
    pub fn run(&self, means: Means<'_>) -> Result<Vec<Point>, OptionError> {
        let jobs: Vec<(Size, u64, &Choice)> = self
            .sizes
            .iter()
            .map(|&size| (size, size.room(self.stream)))
            .flat_map(|(size, room)| self.policies.iter().map(move |choice| (size, room, choice)))
            .collect();
        let point = |(size, room, choice)| self.point(size, room, choice, means);
        jobs::each(jobs, means.threads, point).into_iter().collect()
    }

    fn point(&self, size: Size, room: u64, choice: &Choice, means: Means<'_>) -> Result<Point, OptionError> {
        let setup = Setup { limit: room, stream: self.stream, rules: self.rules, progress: means.progress };
        let begin = (means.now_ns)();
        let counters = choice.run(&setup)?;
        let elapsed_s = (means.now_ns)().saturating_sub(begin).max(1) as f64 / 1e9;
        Ok(Point {
            policy: choice.name(),
            size,
            room,
            counters,
            hit_ratio: counters.hit_ratio_of(self.stream.reads_expected()),
            uncertainty: None,
            requests_per_s: counters.requests() as f64 / elapsed_s,
        })
    }
}
